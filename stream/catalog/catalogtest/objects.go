package catalogtest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// PrepareObjects implements [catalog.Catalog].
func (m *Memory) PrepareObjects(
	ctx context.Context, n catalog.Node, count int, ttl time.Duration,
) (first catalog.ObjectID, err error) {
	err = m.changeBy(ctx, n, func(s *state) error {
		if count < 1 || count > catalog.MaxPrepared {
			return fmt.Errorf("%w: %d objects", catalog.ErrInvalidArgument, count)
		}
		first = s.nextObject
		for range count {
			s.prepared[s.nextObject] = s.clockMs + max(0, ttl.Milliseconds())
			s.nextObject++
		}
		return nil
	})
	return first, err
}

// ExpirePrepared implements [catalog.Catalog].
func (m *Memory) ExpirePrepared(ctx context.Context) (expired int, err error) {
	err = m.change(ctx, func(s *state) error {
		for _, id := range slices.Sorted(maps.Keys(s.prepared)) {
			if s.prepared[id] <= s.clockMs {
				s.destroy(id, catalog.Delete)
				expired++
			}
		}
		return nil
	})
	return expired, err
}

// CleanDestroyed implements [catalog.Catalog].
func (m *Memory) CleanDestroyed(ctx context.Context, ids ...catalog.ObjectID) (cleaned int, err error) {
	err = m.change(ctx, func(s *state) error {
		before := len(s.destroyed)
		s.destroyed = slices.DeleteFunc(s.destroyed, func(d catalog.DestroyedObject) bool {
			return slices.Contains(ids, d.Object)
		})
		cleaned = before - len(s.destroyed)
		return nil
	})
	return cleaned, err
}

// destroy takes an object out of use and marks it (MD-12).
func (s *state) destroy(id catalog.ObjectID, o catalog.Operation) {
	delete(s.prepared, id)
	delete(s.sets, id)
	delete(s.objects, id)
	if o == catalog.KeepData {
		return
	}
	for i, d := range s.destroyed {
		if d.Object == id {
			s.destroyed[i].Operation = d.Operation.Stronger(o)
			return
		}
	}
	s.destroyed = append(s.destroyed, catalog.DestroyedObject{Object: id, Operation: o, MarkedMs: s.clockMs})
}

func (s *state) isLive(id catalog.ObjectID) bool {
	_, set := s.sets[id]
	_, object := s.objects[id]
	return set || object
}

// Commit implements [catalog.Catalog].
func (m *Memory) Commit(ctx context.Context, n catalog.Node, c catalog.Commit) error {
	return m.changeBy(ctx, n, func(s *state) error {
		if err := s.checkIDs(c); err != nil {
			return err
		}
		if len(c.Compacted) > 0 {
			return s.replaceSets(n, c)
		}
		return s.addUpload(n, c)
	})
}

// checkIDs is steps 2 and 3 of MD-9.
func (s *state) checkIDs(c catalog.Commit) error {
	var ids []catalog.ObjectID
	if c.Object != catalog.NoObject {
		ids = append(ids, c.Object)
	}
	all := len(c.StreamObjects) > 0
	for _, o := range c.StreamObjects {
		ids = append(ids, o.Object)
		all = all && s.isLive(o.Object)
	}
	if c.Object != catalog.NoObject && s.isLive(c.Object) || c.Object == catalog.NoObject && all {
		return catalog.ErrRedundant
	}
	switch {
	case len(ids) == 0 && len(c.Compacted) == 0:
		return fmt.Errorf("%w: the commit is empty", catalog.ErrInvalidArgument)
	case c.Object == catalog.NoObject && len(c.Ranges) > 0:
		return fmt.Errorf("%w: ranges without an object", catalog.ErrInvalidArgument)
	case c.Object != catalog.NoObject && len(c.Ranges) == 0 && len(c.Compacted) == 0:
		return fmt.Errorf("%w: object %d holds nothing", catalog.ErrInvalidArgument, c.Object)
	}
	return s.checkFresh(ids)
}

func (s *state) checkFresh(ids []catalog.ObjectID) error {
	for i, id := range ids {
		if slices.Contains(ids[:i], id) || s.isLive(id) {
			return fmt.Errorf("%w: %d", catalog.ErrObjectIDInUse, id)
		}
		if _, prepared := s.prepared[id]; !prepared {
			return fmt.Errorf("%w: %d", catalog.ErrObjectNotPrepared, id)
		}
	}
	return nil
}

// outputs lists all that a commit holds, stream objects as ranges.
func outputs(c catalog.Commit) []catalog.Range {
	all := slices.Clone(c.Ranges)
	for _, o := range c.StreamObjects {
		all = append(all, catalog.Range{Stream: o.Stream, Epoch: o.Epoch, Start: o.Start, End: o.End, Size: o.Size})
	}
	return all
}

// addUpload is step 4 of MD-9.
func (s *state) addUpload(n catalog.Node, c catalog.Commit) error {
	seen := map[catalog.StreamID]bool{}
	for _, r := range outputs(c) {
		row, known := s.streams[r.Stream]
		switch {
		case seen[r.Stream]:
			return fmt.Errorf("%w: stream %d twice", catalog.ErrInvalidArgument, r.Stream)
		case !known:
			return fmt.Errorf("%w: %d", catalog.ErrStreamNotExist, r.Stream)
		case !row.Opened:
			return fmt.Errorf("%w: %d", catalog.ErrStreamNotOpened, r.Stream)
		case row.Node != n.ID:
			return fmt.Errorf("%w: stream %d is of node %d", catalog.ErrStreamFenced, r.Stream, row.Node)
		case row.Epoch != r.Epoch:
			return fmt.Errorf("%w: stream %d is in epoch %d, not %d", catalog.ErrExpiredEpoch, r.Stream, row.Epoch, r.Epoch)
		case r.Start != row.End:
			return fmt.Errorf("%w: stream %d ends at %d, not %d", catalog.ErrNotContiguous, r.Stream, row.End, r.Start)
		case r.End <= r.Start:
			return fmt.Errorf("%w: stream %d from %d to %d", catalog.ErrInvalidArgument, r.Stream, r.Start, r.End)
		}
		seen[r.Stream] = true
		row.End = r.End
		s.streams[r.Stream] = row
	}
	s.add(n, c, s.clockMs)
	return nil
}

// add adds a commit's objects to the tables.
func (s *state) add(n catalog.Node, c catalog.Commit, dataMs int64) {
	if c.Object != catalog.NoObject {
		delete(s.prepared, c.Object)
		s.sets[c.Object] = catalog.StreamSetState{
			Object: c.Object, Node: n.ID, Size: c.Size, Attributes: c.Attributes, Ranges: slices.Clone(c.Ranges),
			CommittedMs: s.clockMs, DataMs: dataMs,
		}
	}
	for _, o := range c.StreamObjects {
		delete(s.prepared, o.Object)
		s.objects[o.Object] = catalog.StreamObjectState{StreamObject: o, DataMs: dataMs}
	}
}

// replaceSets is step 5 of MD-9.
func (s *state) replaceSets(n catalog.Node, c catalog.Commit) error {
	dataMs := int64(math.MaxInt64)
	var sources []catalog.Range
	for i, id := range c.Compacted {
		set, known := s.sets[id]
		if !known || slices.Contains(c.Compacted[:i], id) {
			return fmt.Errorf("%w: object %d is not a stream-set object", catalog.ErrInvalidArgument, id)
		}
		dataMs = min(dataMs, set.DataMs)
		sources = append(sources, set.Ranges...)
	}
	live := func(r catalog.Range) bool {
		row, known := s.streams[r.Stream]
		return known && r.End > row.Start
	}
	for _, r := range outputs(c) {
		if r.End <= r.Start {
			return fmt.Errorf("%w: stream %d from %d to %d", catalog.ErrInvalidArgument, r.Stream, r.Start, r.End)
		}
		if row, known := s.streams[r.Stream]; known && r.End > row.End {
			return fmt.Errorf("%w: stream %d ends at %d, not %d", catalog.ErrOffsetOutOfRange, r.Stream, row.End, r.End)
		}
	}
	if err := s.sameOffsets(filter(sources, live), filter(outputs(c), live)); err != nil {
		return err
	}
	for _, id := range c.Compacted {
		s.destroy(id, catalog.Delete)
	}
	s.addLive(n, c, dataMs, live)
	return nil
}

// addLive is add without dead ranges; an object of which nothing is left is destroyed instead.
func (s *state) addLive(n catalog.Node, c catalog.Commit, dataMs int64, live func(catalog.Range) bool) {
	kept := c
	kept.Ranges, kept.StreamObjects = filter(c.Ranges, live), nil
	if c.Object != catalog.NoObject && len(kept.Ranges) == 0 {
		kept.Object = catalog.NoObject
		s.destroy(c.Object, catalog.Delete)
	}
	for _, o := range c.StreamObjects {
		if live(catalog.Range{Stream: o.Stream, End: o.End}) {
			kept.StreamObjects = append(kept.StreamObjects, o)
		} else {
			s.destroy(o.Object, catalog.Delete)
		}
	}
	s.add(n, kept, dataMs)
}

func filter[T any](all []T, keep func(T) bool) []T {
	var kept []T
	for _, one := range all {
		if keep(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// sameOffsets checks that outputs hold each live offset of the sources once, and no other.
func (s *state) sameOffsets(sources, outputs []catalog.Range) error {
	want, err := s.runs(sources)
	if err != nil {
		return err
	}
	got, err := s.runs(outputs)
	if err != nil {
		return err
	}
	if len(want) != len(got) {
		return catalog.ErrCompactionLosesData
	}
	for i := range want {
		if want[i] != got[i] {
			return fmt.Errorf("%w: stream %d from %d to %d became stream %d from %d to %d", catalog.ErrCompactionLosesData,
				want[i].Stream, want[i].Start, want[i].End, got[i].Stream, got[i].Start, got[i].End)
		}
	}
	return nil
}

// runs joins ranges, cut at their streams' starts, into runs without a gap.
func (s *state) runs(ranges []catalog.Range) ([]catalog.Range, error) {
	var cut []catalog.Range
	for _, r := range ranges {
		cut = append(cut, catalog.Range{Stream: r.Stream, Start: max(r.Start, s.streams[r.Stream].Start), End: r.End})
	}
	slices.SortFunc(cut, func(a, b catalog.Range) int {
		if a.Stream != b.Stream {
			return int(a.Stream - b.Stream)
		}
		return int(min(1, max(-1, a.Start-b.Start)))
	})
	var joined []catalog.Range
	for _, r := range cut {
		if last := len(joined) - 1; last >= 0 && joined[last].Stream == r.Stream && r.Start <= joined[last].End {
			if r.Start < joined[last].End {
				return nil, fmt.Errorf("%w: stream %d overlaps at %d", catalog.ErrInvalidArgument, r.Stream, r.Start)
			}
			joined[last].End = r.End
			continue
		}
		joined = append(joined, r)
	}
	return joined, nil
}

// CompactStream implements [catalog.Catalog].
func (m *Memory) CompactStream(ctx context.Context, n catalog.Node, c catalog.StreamCompaction) error {
	return m.changeBy(ctx, n, func(s *state) error {
		if o, live := s.objects[c.Object]; live && o.Stream == c.Stream {
			return catalog.ErrRedundant
		}
		row, known := s.streams[c.Stream]
		switch {
		case !known:
			return fmt.Errorf("%w: %d", catalog.ErrStreamNotExist, c.Stream)
		case row.Epoch != c.Epoch:
			return fmt.Errorf("%w: stream %d is in epoch %d, not %d", catalog.ErrExpiredEpoch, c.Stream, row.Epoch, c.Epoch)
		case !row.Opened || row.Node != n.ID:
			return fmt.Errorf("%w: stream %d is of node %d", catalog.ErrStreamFenced, c.Stream, row.Node)
		}
		sources, err := s.sources(c)
		if err != nil {
			return err
		}
		if err := s.checkStreamCompaction(c, row, sources); err != nil {
			return err
		}
		s.swap(c, sources)
		return nil
	})
}

func (s *state) sources(c catalog.StreamCompaction) ([]catalog.StreamObjectState, error) {
	if len(c.Sources) == 0 || len(c.Operations) != len(c.Sources) {
		return nil, fmt.Errorf("%w: %d sources, %d operations", catalog.ErrInvalidArgument, len(c.Sources), len(c.Operations))
	}
	var sources []catalog.StreamObjectState
	for i, id := range c.Sources {
		o, known := s.objects[id]
		if !known || o.Stream != c.Stream || slices.Contains(c.Sources[:i], id) {
			return nil, fmt.Errorf("%w: object %d does not belong to stream %d", catalog.ErrInvalidArgument, id, c.Stream)
		}
		if c.Operations[i] > catalog.DeepDelete {
			return nil, fmt.Errorf("%w: operation %d", catalog.ErrInvalidArgument, c.Operations[i])
		}
		sources = append(sources, o)
	}
	for _, id := range c.DeadComponents {
		_, prepared := s.prepared[id]
		if id < 0 || id >= s.nextObject || !slices.Contains(c.Sources, id) && (prepared || s.isLive(id)) {
			return nil, fmt.Errorf("%w: component %d is not dead", catalog.ErrInvalidArgument, id)
		}
	}
	return sources, nil
}

func (s *state) checkStreamCompaction(
	c catalog.StreamCompaction, row catalog.Stream, sources []catalog.StreamObjectState,
) error {
	if c.Object == catalog.NoObject {
		for _, o := range sources {
			if o.End > row.Start {
				return fmt.Errorf("%w: object %d reaches to %d", catalog.ErrCompactionLosesData, o.Object, o.End)
			}
		}
		return nil
	}
	if err := s.checkFresh([]catalog.ObjectID{c.Object}); err != nil {
		return err
	}
	if c.End <= c.Start {
		return fmt.Errorf("%w: from %d to %d", catalog.ErrInvalidArgument, c.Start, c.End)
	}
	if c.End > row.End {
		return fmt.Errorf("%w: to %d, the stream ends at %d", catalog.ErrOffsetOutOfRange, c.End, row.End)
	}
	for i := 1; i < len(sources); i++ {
		if sources[i].Start != sources[i-1].End {
			return fmt.Errorf("%w: object %d does not follow", catalog.ErrCompactionLosesData, sources[i].Object)
		}
	}
	first, last := sources[0].Start, sources[len(sources)-1].End
	deadHead := c.Start > first && c.Start <= row.Start
	if c.End != last || c.Start != first && !deadHead {
		return fmt.Errorf("%w: %d to %d became %d to %d", catalog.ErrCompactionLosesData, first, last, c.Start, c.End)
	}
	return nil
}

// swap replaces the sources with the new object.
func (s *state) swap(c catalog.StreamCompaction, sources []catalog.StreamObjectState) {
	dataMs := int64(math.MaxInt64)
	for i, o := range sources {
		dataMs = min(dataMs, o.DataMs)
		s.destroy(o.Object, c.Operations[i])
	}
	for _, id := range c.DeadComponents {
		s.destroy(id, catalog.Delete)
	}
	if c.Object == catalog.NoObject {
		return
	}
	delete(s.prepared, c.Object)
	s.objects[c.Object] = catalog.StreamObjectState{
		StreamObject: catalog.StreamObject{
			Object: c.Object, Size: c.Size, Stream: c.Stream, Epoch: c.Epoch, Start: c.Start, End: c.End,
			Attributes: c.Attributes,
		},
		DataMs: dataMs,
	}
}
