package meta

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// streamRow is a stream and what holds it. Rows are shared between states: a change makes a new one.
type streamRow struct {
	catalog.Stream
	// parts are by the offset behind their last record. No two parts of a stream share it: those above the stream's start
	// are disjoint, and what is added always reaches above the start.
	parts tree[int64, part]
}

// part is a run of a stream's records: all of a stream object, or one range of a stream-set object.
type part struct {
	object *catalog.StreamObjectState // nil: it is a range of set
	set    *catalog.StreamSetState
	start  int64
}

// setRow is a stream-set object, and how many of the streams in it exist.
type setRow struct {
	*catalog.StreamSetState
	streams int
}

// Stream returns the stream with this id.
func (s *State) Stream(id catalog.StreamID) (catalog.Stream, bool) {
	row, ok := s.streams.get(id)
	if !ok {
		return catalog.Stream{}, false
	}
	return row.Stream, true
}

// Streams yields every stream in the order of their ids.
func (s *State) Streams() iter.Seq[catalog.Stream] {
	return func(yield func(catalog.Stream) bool) {
		for _, row := range s.streams.all() {
			if !yield(row.Stream) {
				return
			}
		}
	}
}

// Transfers yields the streams that are asked to go over to another node, in the order of their ids.
func (s *State) Transfers() iter.Seq2[catalog.StreamID, Transfer] { return s.transfers.all() }

// StreamCount is how many streams there are.
func (s *State) StreamCount() int { return s.streams.len() }

// Objects returns the objects that hold a stream's records from start to end, at most limit of them, in the order of the
// offsets. Its cost depends on what it returns and not on how much there is.
func (s *State) Objects(id catalog.StreamID, start, end int64, limit int) []catalog.ObjectRange {
	row, known := s.streams.get(id)
	if !known || start < row.Start || start >= end {
		return nil
	}
	var found []catalog.ObjectRange
	for partEnd, p := range row.parts.from(start + 1) {
		if p.start >= end || len(found) >= limit {
			break
		}
		found = append(found, p.objectRange(partEnd))
	}
	return found
}

func (p part) objectRange(end int64) catalog.ObjectRange {
	if p.object != nil {
		return catalog.ObjectRange{
			Object: p.object.Object, Start: p.start, End: end, Size: p.object.Size, Attributes: p.object.Attributes,
		}
	}
	return catalog.ObjectRange{
		Object: p.set.Object, StreamSet: true, Start: p.start, End: end, Size: p.set.Size, Attributes: p.set.Attributes,
	}
}

// StreamObjects returns all stream objects of a stream in the order of the offsets, those below its start included.
func (s *State) StreamObjects(id catalog.StreamID) []catalog.StreamObjectState {
	row, known := s.streams.get(id)
	if !known {
		return nil
	}
	var found []catalog.StreamObjectState
	for _, p := range row.parts.all() {
		if p.object != nil {
			found = append(found, *p.object)
		}
	}
	slices.SortStableFunc(found, func(a, b catalog.StreamObjectState) int { return cmp.Compare(a.Start, b.Start) })
	return found
}

// StreamObjectCount is how many stream objects there are.
func (s *State) StreamObjectCount() int { return s.objects.len() }

// StreamSets yields all stream-set objects in the order of their ids.
func (s *State) StreamSets() iter.Seq[catalog.StreamSetState] {
	return func(yield func(catalog.StreamSetState) bool) {
		for _, set := range s.sets.all() {
			if !yield(*set.StreamSetState) {
				return
			}
		}
	}
}

// StreamSetCount is how many stream-set objects there are.
func (s *State) StreamSetCount() int { return s.sets.len() }

// Prepared yields the ids that are reserved and neither committed nor given up, and when each is given up, in ms since
// 1970, in the order of the ids.
func (s *State) Prepared() iter.Seq2[catalog.ObjectID, int64] { return s.prepared.all() }

// PreparedCount is how many ids are reserved.
func (s *State) PreparedCount() int { return s.prepared.len() }

// IsPrepared reports whether an id is reserved and neither committed nor given up.
func (s *State) IsPrepared(id catalog.ObjectID) bool {
	_, ok := s.prepared.get(id)
	return ok
}

// Destroyed returns the oldest marks, at most limit.
func (s *State) Destroyed(limit int) []catalog.DestroyedObject {
	var found []catalog.DestroyedObject
	for _, d := range s.destroyed.all() {
		if len(found) >= limit {
			break
		}
		found = append(found, d)
	}
	return found
}

// DestroyedCount is how many objects wait for their bytes to be removed.
func (s *State) DestroyedCount() int { return s.destroyed.len() }

// NextObject is the id that the next prepared object gets.
func (s *State) NextObject() catalog.ObjectID { return catalog.ObjectID(s.nextObjectID) }

// isLive reports whether an object is committed and in use.
func (s *State) isLive(id catalog.ObjectID) bool {
	_, set := s.sets.get(id)
	_, object := s.objects.get(id)
	return set || object
}
