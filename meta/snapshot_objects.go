package meta

import (
	"cmp"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

func encodeStreams(s *State, w *writer) {
	for _, row := range s.streams.all() {
		w.i64(int64(row.ID))
		w.i64(row.Epoch)
		w.i64(row.Start)
		w.i64(row.End)
		w.bool(row.Opened)
		w.i32(int32(row.Node))
		w.count(len(row.Epochs))
		for _, e := range row.Epochs {
			w.i64(e.Epoch)
			w.i64(e.Start)
		}
	}
}

func decodeStreams(s *State, r *reader, rows int) {
	opened, placed := map[catalog.NodeID]int{}, map[catalog.NodeID]int{}
	var b treeBuilder[catalog.StreamID, *streamRow]
	for range rows {
		row := &streamRow{Stream: catalog.Stream{
			ID: r.stream(), Epoch: r.i64(), Start: r.i64(), End: r.i64(), Opened: r.bool(), Node: catalog.NodeID(r.i32()),
		}}
		for range r.count(16) {
			row.Epochs = append(row.Epochs, catalog.EpochStart{Epoch: r.i64(), Start: r.i64()})
		}
		if r.err == nil && (row.ID < 0 || uint64(row.ID) >= s.nextStreamID || !b.add(row.ID, row)) {
			r.fail("stream %d is out of order", row.ID)
		}
		if r.err != nil {
			return
		}
		switch {
		case row.Opened:
			opened[row.Node]++
		case row.Epoch == neverOpened && row.Node >= 0:
			placed[row.Node]++
		}
	}
	s.streams = b.tree()
	for node, n := range opened {
		s.opened = s.opened.set(node, n)
	}
	for node, n := range placed {
		s.placed = s.placed.set(node, n)
	}
}

func encodeTransfers(s *State, w *writer) {
	for id, transfer := range s.transfers.all() {
		w.i64(int64(id))
		w.i32(int32(transfer.From))
		w.i32(int32(transfer.To))
	}
}

func decodeTransfers(s *State, r *reader, rows int) {
	var b treeBuilder[catalog.StreamID, Transfer]
	for range rows {
		id := r.stream()
		if !b.add(id, Transfer{catalog.NodeID(r.i32()), catalog.NodeID(r.i32())}) {
			r.fail("the transfer of stream %d is out of order", id)
		}
		if r.err != nil {
			return
		}
	}
	s.transfers = b.tree()
}

func encodePrepared(s *State, w *writer) {
	for id, deadlineMs := range s.prepared.all() {
		w.i64(int64(id))
		w.i64(deadlineMs)
	}
}

func decodePrepared(s *State, r *reader, rows int) {
	var b treeBuilder[catalog.ObjectID, int64]
	for range rows {
		if id := r.object(); !b.add(id, r.i64()) {
			r.fail("prepared object %d is out of order", id)
		}
		if r.err != nil {
			return
		}
	}
	s.prepared = b.tree()
}

func encodeSets(s *State, w *writer) {
	for id, set := range s.sets.all() {
		w.i64(int64(id))
		w.i32(int32(set.Node))
		w.i64(set.Size)
		w.u32(uint32(set.Attributes))
		w.i64(set.CommittedMs)
		w.i64(set.DataMs)
		w.ranges(set.Ranges)
	}
}

func decodeSets(s *State, r *reader, rows int) {
	var b treeBuilder[catalog.ObjectID, setRow]
	for range rows {
		set := &catalog.StreamSetState{
			Object: r.object(), Node: catalog.NodeID(r.i32()), Size: r.i64(), Attributes: catalog.Attributes(r.u32()),
			CommittedMs: r.i64(), DataMs: r.i64(), Ranges: r.ranges(),
		}
		if !b.add(set.Object, setRow{StreamSetState: set, streams: s.countStreams(set.Ranges)}) {
			r.fail("stream-set object %d is out of order", set.Object)
		}
		if r.err != nil {
			return
		}
	}
	s.sets = b.tree()
}

// countStreams is how many streams of the ranges exist.
func (s *State) countStreams(ranges []catalog.Range) int {
	streams := make(map[catalog.StreamID]struct{}, len(ranges))
	for _, r := range ranges {
		if _, known := s.streams.get(r.Stream); known {
			streams[r.Stream] = struct{}{}
		}
	}
	return len(streams)
}

func encodeStreamObjects(s *State, w *writer) {
	for _, row := range s.streams.all() {
		for _, p := range row.parts.all() {
			if p.object != nil {
				w.streamObject(p.object.StreamObject)
				w.i64(p.object.DataMs)
			}
		}
	}
}

func decodeStreamObjects(s *State, r *reader, rows int) {
	objects := make([]*catalog.StreamObjectState, 0, rows)
	before := catalog.StreamObject{Stream: -1}
	for range rows {
		o := &catalog.StreamObjectState{StreamObject: r.streamObject(), DataMs: r.i64()}
		if cmp.Or(cmp.Compare(before.Stream, o.Stream), cmp.Compare(before.End, o.End)) >= 0 {
			r.fail("object %d of stream %d is out of order", o.Object, o.Stream)
		}
		if _, known := s.streams.get(o.Stream); !known {
			r.fail("object %d belongs to stream %d, which does not exist", o.Object, o.Stream)
		}
		if r.err != nil {
			return
		}
		objects, before = append(objects, o), o.StreamObject
	}
	slices.SortFunc(objects, func(a, b *catalog.StreamObjectState) int { return cmp.Compare(a.Object, b.Object) })
	var b treeBuilder[catalog.ObjectID, *catalog.StreamObjectState]
	for _, o := range objects {
		if !b.add(o.Object, o) {
			r.fail("object %d appears twice", o.Object)
			return
		}
	}
	s.objects = b.tree()
}

func encodeDestroyed(s *State, w *writer) {
	for mark, d := range s.destroyed.all() {
		w.u64(mark)
		w.i64(int64(d.Object))
		w.u8(uint8(d.Operation))
		w.i64(d.MarkedMs)
	}
}

func decodeDestroyed(s *State, r *reader, rows int) {
	var b treeBuilder[uint64, catalog.DestroyedObject]
	for range rows {
		mark := r.u64()
		d := catalog.DestroyedObject{Object: r.object(), Operation: catalog.Operation(r.u8()), MarkedMs: r.i64()}
		_, twice := s.marks.get(d.Object)
		if r.err == nil && (twice || d.Operation > catalog.DeepDelete || mark >= s.nextDestroyedSeq || !b.add(mark, d)) {
			r.fail("the mark %d of object %d is out of order", mark, d.Object)
		}
		if r.err != nil {
			return
		}
		s.marks = s.marks.set(d.Object, mark)
	}
	s.destroyed = b.tree()
}

func encodeLevels(s *State, w *writer) {
	for id, l := range s.levels.all() {
		w.i32(id)
		w.raw(l.incarnation[:])
		w.u32(uint32(l.Level))
		w.str(l.Build)
	}
}

func decodeLevels(s *State, r *reader, rows int) {
	var b treeBuilder[int32, NodeLevel]
	for range rows {
		l := NodeLevel{Node: r.i32(), incarnation: r.id(), Level: Level(r.u32()), Build: r.str()}
		if !b.add(l.Node, l) {
			r.fail("the level of node %d is out of order", l.Node)
		}
		if r.err != nil {
			return
		}
	}
	s.levels = b.tree()
}

// endedPart is a part of a stream and where it ends.
type endedPart struct {
	end int64
	part
}

// linkParts gives each stream its parts, which the sections of objects hold.
func (s *State) linkParts(r *reader) {
	if r.err != nil {
		return
	}
	parts := make(map[catalog.StreamID][]endedPart, s.streams.len())
	for _, set := range s.sets.all() {
		for _, p := range set.Ranges {
			parts[p.Stream] = append(parts[p.Stream], endedPart{p.End, part{set: set.StreamSetState, start: p.Start}})
		}
	}
	for _, o := range s.objects.all() {
		parts[o.Stream] = append(parts[o.Stream], endedPart{o.End, part{object: o, start: o.Start}})
	}
	for id, row := range s.streams.all() {
		of := parts[id]
		slices.SortFunc(of, func(a, b endedPart) int { return cmp.Compare(a.end, b.end) })
		var b treeBuilder[int64, part]
		for _, p := range of {
			if !b.add(p.end, p.part) {
				r.fail("two objects hold the records of stream %d before offset %d", id, p.end)
				return
			}
		}
		row.parts = b.tree() // nobody else has seen the row yet
	}
}
