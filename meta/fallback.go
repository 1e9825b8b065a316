package meta

import (
	"context"
	"errors"
	"fmt"
)

// FallbackError says that the newest snapshot is damaged and cannot be rebuilt.
type FallbackError struct {
	// Damage is what is wrong with the newest snapshot.
	Damage error
	// Older is the index of the older snapshot, 0 for none: then the log's beginning would be needed instead.
	Older uint64
	// Why says what prevents a fallback: the older snapshot is damaged too, or a later entry is missing or damaged.
	Why error
}

// Error names both facts.
func (e *FallbackError) Error() string {
	if e.Older == 0 {
		return fmt.Sprintf("%v; and without an older snapshot the entries cannot replace it: %v", e.Damage, e.Why)
	}
	return fmt.Sprintf("%v; and the older snapshot, %d, cannot replace it: %v", e.Damage, e.Older, e.Why)
}

// Unwrap returns both.
func (e *FallbackError) Unwrap() []error { return []error{e.Damage, e.Why} }

// isDamaged reports whether a stored item is not what was written, by its checksum, magic or length. An item that a newer
// version wrote, or that contradicts itself under a matching checksum, is not damaged.
func isDamaged(err error) bool {
	var format *FormatError
	return errors.As(err, &format) && format.Damaged
}

// openSnapshot decodes a snapshot that a backend has at an index. The error is a [*CorruptError].
func openSnapshot(where string, index uint64, data []byte) (*State, error) {
	s, err := DecodeSnapshot(data)
	if err == nil && s.index != index {
		err = &FormatError{Offset: 5, Reason: fmt.Sprintf("it is stored under another index than its own, which is %d", s.index)}
	}
	if err != nil {
		return nil, &CorruptError{Where: where, Item: "snapshot", Index: index, Err: err}
	}
	return s, nil
}

// newestSnapshot reads the newest snapshot. With an error about the snapshot itself the index is that of the snapshot.
func newestSnapshot(ctx context.Context, b Backend) (index uint64, s *State, bytes int, err error) {
	index, data, err := b.Snapshot(ctx)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && corrupt.Item == "snapshot" {
		return corrupt.Index, nil, 0, err
	}
	if err != nil || index == 0 {
		return 0, nil, 0, err
	}
	s, err = openSnapshot(b.String(), index, data)
	return index, s, len(data), err
}

// olderSnapshot reads the snapshot before the newest. If there is none, or it is damaged, as bad then says, the state is
// empty: the beginning of the log.
func olderSnapshot(ctx context.Context, b Backend) (index uint64, s *State, bad, err error) {
	index, data, err := b.OlderSnapshot(ctx)
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt) && corrupt.Item == "snapshot":
		return corrupt.Index, Empty(), err, nil
	case err != nil || index == 0:
		return 0, Empty(), nil, err
	}
	if s, bad = openSnapshot(b.String(), index, data); bad != nil {
		s = Empty()
	}
	return index, s, bad, nil
}

// fallBack rebuilds the state of a damaged newest snapshot from the older one and all entries since, or from the
// beginning of the log if all entries exist. If any is missing it fails with a [*CorruptError] that holds a
// [*FallbackError].
func (p *proposer) fallBack(ctx context.Context, newest uint64, damage error) (*State, error) {
	older, s, bad, err := olderSnapshot(ctx, p.log.backend)
	if err != nil {
		return nil, err
	}
	if older >= newest {
		return nil, errAgain // somebody stored a snapshot meanwhile
	}
	from := s.index
	s, why, err := p.replay(ctx, s, newest)
	if err != nil {
		return nil, err
	}
	if why != nil {
		now, _, _, err := newestSnapshot(ctx, p.log.backend)
		if err != nil && now == 0 {
			return nil, err
		}
		if now != newest {
			return nil, errAgain // who stored it took the entries away
		}
		var corrupt *CorruptError
		if errors.As(damage, &corrupt) {
			damage = corrupt.Err
		}
		return nil, &CorruptError{Where: p.log.backend.String(), Item: "snapshot", Index: newest,
			Err: &FallbackError{Damage: damage, Older: older, Why: errors.Join(bad, why)}}
	}
	p.log.o.Events.FellBack(FallbackEvent{Damaged: newest, From: from, Entries: newest - from, Err: damage})
	p.mended, p.mendDue = s, 0
	if bad != nil { // what stands in is the whole log: one more, so that none of the two is damaged
		p.snapshotsOwed = 1
	}
	return s, nil
}

// replay applies the entries behind a state up to an index. why says which of them is missing or damaged.
func (p *proposer) replay(ctx context.Context, s *State, through uint64) (_ *State, why, err error) {
	for s.index < through {
		entries, err := p.log.backend.Read(ctx, s.index+1, int(min(readBatch, through-s.index)))
		if errors.Is(err, ErrTruncated) || err == nil && len(entries) == 0 {
			return nil, fmt.Errorf("log entry %d is missing", s.index+1), nil
		}
		if err != nil {
			return nil, nil, err
		}
		for _, data := range entries {
			e, err := DecodeEntry(data)
			if err != nil {
				return nil, fmt.Errorf("log entry %d: %w", s.index+1, err), nil
			}
			s, _ = s.Apply(s.index+1, e)
		}
	}
	return s, nil, nil
}
