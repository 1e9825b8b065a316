package meta

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Inspection is the result of inspecting everything that a backend holds.
type Inspection struct {
	// Where is the backend's name for itself, and ClusterID whose log it is.
	Where, ClusterID string
	// First is the index of the oldest entry in the log, Head that of the newest ever appended; there are Entries of
	// them, of EntryBytes.
	First, Head uint64
	Entries     int
	EntryBytes  int64
	// Snapshot is the index of the newest snapshot, of SnapshotBytes; 0 for none.
	Snapshot      uint64
	SnapshotBytes int
	// State is the content of the log, as of Head, or as of the last entry before one that cannot be read.
	State *State
	// Findings are what is wrong. A log without any is intact.
	Findings []error
}

// Inspect reads everything in a backend and changes nothing. Whatever would stop a reader of the log is a finding, and
// so is a snapshot that differs from the state of the entries before it, and a violated invariant of streams. The error
// says why the inspection failed.
func Inspect(ctx context.Context, b Backend) (*Inspection, error) {
	i := &Inspection{Where: b.String(), ClusterID: b.ClusterID(), State: Empty()}
	var err error
	if i.Head, err = b.Head(ctx); err != nil {
		return nil, err
	}
	if i.First, err = firstEntry(ctx, b, i.Head); err != nil {
		return nil, err
	}
	whole, usable, err := i.readSnapshots(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := i.readEntries(ctx, b, whole, usable); err != nil {
		return nil, err
	}
	for _, broken := range catalog.Check(catalogView{i.State}) {
		i.found(fmt.Errorf("meta: %s: %w", i.Where, broken))
	}
	for broken := range i.State.CheckTables() {
		i.found(fmt.Errorf("meta: %s: %w", i.Where, broken))
	}
	return i, nil
}

func (i *Inspection) found(err error) { i.Findings = append(i.Findings, err) }

func (i *Inspection) corrupt(item string, index uint64, err error) {
	i.found(&CorruptError{Where: i.Where, Item: item, Index: index, Err: err})
}

// firstEntry finds the oldest existing entry by bisection. It is head+1 if there is none.
func firstEntry(ctx context.Context, b Backend, head uint64) (uint64, error) {
	low, high := uint64(1), head+1 // everything below low is gone, high is there or behind the head
	for low < high {
		middle := low + (high-low)/2
		_, err := b.Read(ctx, middle, 1)
		switch {
		case errors.Is(err, ErrTruncated):
			low = middle + 1
		case err != nil:
			return 0, err
		default:
			high = middle
		}
	}
	return low, nil
}

// readSnapshots reads both snapshots and loads the newest, or the older one if the newest is damaged. whole says that the
// newest exists and is sound, usable that there is a state to continue from.
func (i *Inspection) readSnapshots(ctx context.Context, b Backend) (whole, usable bool, err error) {
	index, s, bytes, err := newestSnapshot(ctx, b)
	if err != nil && index == 0 {
		return false, false, err
	}
	i.Snapshot, i.SnapshotBytes = index, bytes
	damage := err
	if damage != nil {
		i.found(damage)
	}
	_, older, bad, err := olderSnapshot(ctx, b)
	if err != nil {
		return false, false, err
	}
	if bad != nil {
		i.found(bad)
	}
	switch {
	case damage == nil && index > 0:
		i.State = s
		return true, true, nil
	case damage != nil && !isDamaged(damage):
		return false, false, nil
	}
	i.State = older
	if i.First > older.index+1 {
		i.found(&GapError{Where: i.Where, Want: older.index + 1, Head: i.Head})
		return false, false, nil
	}
	return false, true, nil
}

// readEntries decodes every entry and applies those after the snapshot. If all entries exist, the snapshot must be equal
// to their result.
func (i *Inspection) readEntries(ctx context.Context, b Backend, whole, usable bool) error {
	broken := !usable
	replay := i.First == 1 && whole
	replayed := Empty()
	for next := i.First; next <= i.Head; {
		entries, err := b.Read(ctx, next, readBatch)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			i.found(&GapError{Where: i.Where, Want: next, Head: i.Head})
			return nil
		}
		for _, data := range entries {
			i.Entries++
			i.EntryBytes += int64(len(data))
			e, err := DecodeEntry(data)
			if err != nil {
				i.corrupt("log entry", next, err)
				broken, replay = broken || next > i.State.index, false
			}
			if replay && next <= i.Snapshot {
				replayed, _ = replayed.Apply(next, e)
				if next == i.Snapshot && !bytes.Equal(replayed.EncodeSnapshot(), i.State.EncodeSnapshot()) {
					i.corrupt("snapshot", i.Snapshot, errors.New("it does not match the entries before it"))
				}
			}
			if !broken && next == i.State.index+1 {
				i.State, _ = i.State.Apply(next, e)
			}
			next++
		}
	}
	if !broken && i.State.index < i.Head {
		i.found(&GapError{Where: i.Where, Want: i.State.index + 1, Head: i.Head})
	}
	return nil
}
