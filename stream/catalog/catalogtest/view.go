package catalogtest

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// view is a [catalog.View] of a state that is never changed again.
type view struct{ s *state }

func (v view) Index() uint64 { return uint64(v.s.index) }

func (v view) ClockMs() int64 { return v.s.clockMs }

func (v view) Node(id catalog.NodeID) (catalog.NodeState, bool) {
	n, ok := v.s.nodes[id]
	return n, ok
}

func (v view) Stream(id catalog.StreamID) (catalog.Stream, bool) {
	row, ok := v.s.streams[id]
	return row, ok
}

func (v view) Streams() iter.Seq[catalog.Stream] { return slices.Values(sorted(v.s.streams)) }

func (v view) StreamSets() iter.Seq[catalog.StreamSetState] { return slices.Values(sorted(v.s.sets)) }

func (v view) StreamObjects(id catalog.StreamID) []catalog.StreamObjectState {
	objects := slices.DeleteFunc(sorted(v.s.objects), func(o catalog.StreamObjectState) bool { return o.Stream != id })
	slices.SortStableFunc(objects, func(a, b catalog.StreamObjectState) int { return cmp.Compare(a.Start, b.Start) })
	return objects
}

func (v view) Objects(id catalog.StreamID, start, end int64, limit int) []catalog.ObjectRange {
	stream, known := v.s.streams[id]
	if !known || start < stream.Start || start >= end {
		return nil
	}
	var all []catalog.ObjectRange
	for _, set := range v.s.sets {
		for _, r := range set.Ranges {
			if r.Stream == id && r.End > start && r.Start < end {
				all = append(all, catalog.ObjectRange{
					Object: set.Object, StreamSet: true, Start: r.Start, End: r.End, Size: set.Size, Attributes: set.Attributes,
				})
			}
		}
	}
	for _, o := range v.s.objects {
		if o.Stream == id && o.End > start && o.Start < end {
			all = append(all, catalog.ObjectRange{
				Object: o.Object, Start: o.Start, End: o.End, Size: o.Size, Attributes: o.Attributes,
			})
		}
	}
	slices.SortFunc(all, func(a, b catalog.ObjectRange) int { return cmp.Compare(a.Start, b.Start) })
	return all[:min(limit, len(all))]
}

func (v view) Destroyed(limit int) []catalog.DestroyedObject {
	return v.s.destroyed[:min(limit, len(v.s.destroyed))]
}

func (v view) IsPrepared(id catalog.ObjectID) bool {
	_, ok := v.s.prepared[id]
	return ok
}

func (v view) NextObject() catalog.ObjectID { return v.s.nextObject }
