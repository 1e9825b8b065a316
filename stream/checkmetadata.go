package stream

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// checkMetadata checks a view against its own rules: rows of streams, M-INV, ids and marks.
func (c *checker) checkMetadata(ctx context.Context, v catalog.View) error {
	ranges := map[catalog.StreamID][]catalog.ObjectRange{}
	used := map[catalog.ObjectID]bool{}
	for set := range v.StreamSets() {
		used[set.Object] = true
		for _, r := range set.Ranges {
			ranges[r.Stream] = append(ranges[r.Stream], catalog.ObjectRange{Object: set.Object, Start: r.Start, End: r.End})
		}
	}
	for s := range v.Streams() {
		for _, o := range v.StreamObjects(s.ID) {
			used[o.Object] = true
			ranges[s.ID] = append(ranges[s.ID], catalog.ObjectRange{Object: o.Object, Start: o.Start, End: o.End})
		}
		if err := c.checkStream(v, s, ranges[s.ID]); err != nil {
			return err
		}
		delete(ranges, s.ID)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for id := range used {
		if id >= 0 && id < v.NextObject() && !v.IsPrepared(id) {
			continue
		}
		err := c.report(c.aboutObject(id), FoundNotCommitted, "the object is in use, but its id is reserved or was never assigned")
		if err != nil {
			return err
		}
	}
	return c.checkMarks(v, used)
}

func (c *checker) checkStream(v catalog.View, s catalog.Stream, objects []catalog.ObjectRange) error {
	f := aboutStream(s.ID)
	if s.Start < 0 || s.Start > s.End {
		return c.report(f, FoundBadStream, "it runs from %d to %d", s.Start, s.End)
	}
	for i, e := range s.Epochs {
		if i > 0 && (e.Epoch <= s.Epochs[i-1].Epoch || e.Start < s.Epochs[i-1].Start) || e.Start > s.End || e.Epoch > s.Epoch {
			if err := c.report(f, FoundBadStream, "its epochs are out of order: %v", s.Epochs); err != nil {
				return err
			}
			break
		}
	}
	if node, known := v.Node(s.Node); s.Opened && !known {
		f.Node = s.Node
		if err := c.report(f, FoundBadNode, "the stream is open on a node that is not registered"); err != nil {
			return err
		}
	} else if known && node.WALStart%catalog.Window != 0 {
		f.Node = s.Node
		if err := c.report(f, FoundBadNode, "its log begins at %d, which is no window", node.WALStart); err != nil {
			return err
		}
	}
	return c.checkCover(s, objects)
}

// checkCover checks M-INV for the objects of a stream: the live ones are disjoint and cover it from start to end.
func (c *checker) checkCover(s catalog.Stream, objects []catalog.ObjectRange) error {
	objects = slices.DeleteFunc(objects, func(o catalog.ObjectRange) bool { return o.End <= s.Start })
	slices.SortFunc(objects, func(a, b catalog.ObjectRange) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Object, b.Object))
	})
	next, last := s.Start, catalog.NoObject
	f := aboutStream(s.ID)
	for _, o := range objects {
		f.Object, f.Key = o.Object, DataKey(c.Namespace, o.Object)
		var err error
		switch {
		case o.Start > next:
			err = c.report(f, FoundHole, "no object holds %d to %d; this one begins at %d", next, o.Start, o.Start)
		case last != catalog.NoObject && o.Start < next:
			err = c.report(f, FoundOverlap, "it holds %d to %d, object %d reaches to %d", o.Start, o.End, last, next)
		}
		if err != nil {
			return err
		}
		next, last = max(next, o.End), o.Object
	}
	f = aboutStream(s.ID)
	switch {
	case next < s.End:
		return c.report(f, FoundHole, "no object holds %d to %d, the end", next, s.End)
	case next > s.End:
		return c.report(f, FoundBadStream, "objects reach to %d, above the end at %d", next, s.End)
	}
	return nil
}

// checkMarks checks the marks of destroyed objects, given the ones in use.
func (c *checker) checkMarks(v catalog.View, used map[catalog.ObjectID]bool) error {
	marked := map[catalog.ObjectID]bool{}
	for _, d := range v.Destroyed(math.MaxInt32) {
		f := c.aboutObject(d.Object)
		var err error
		switch {
		case marked[d.Object]:
			err = c.report(f, FoundBadMark, "it is marked twice")
		case used[d.Object]:
			err = c.report(f, FoundBadMark, "it is marked as destroyed and in use")
		case v.IsPrepared(d.Object):
			err = c.report(f, FoundBadMark, "it is marked as destroyed and reserved")
		case d.Object < 0 || d.Object >= v.NextObject():
			err = c.report(f, FoundBadMark, "it is marked as destroyed, but was never assigned")
		case d.Operation == catalog.KeepData:
			err = c.report(f, FoundBadMark, "it is to be deleted, and its bytes are to be kept")
		case v.ClockMs()-d.MarkedMs > c.Overdue.Milliseconds():
			err = c.report(f, FoundOverdue, "it was marked %d s ago and is not gone", (v.ClockMs()-d.MarkedMs)/1000)
		}
		if err != nil {
			return err
		}
		marked[d.Object] = true
	}
	return nil
}
