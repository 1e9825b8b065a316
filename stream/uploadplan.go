package stream

import "github.com/tidemark-io/tidemark/stream/catalog"

// uploadPlan says which objects a block becomes (UP-1). Streams are in the order of their ids.
type uploadPlan struct {
	// set are the streams that share the stream-set object; none if there is no such object.
	set []catalog.StreamID
	// own are the streams that get an object of their own.
	own []catalog.StreamID
}

// planUpload decides which objects a block becomes: a stream of at least split bytes of payload has its own, and so has one
// that is alone; all others share one.
func planUpload(b *cacheBlock, split int64) uploadPlan {
	var p uploadPlan
	for _, id := range b.streams() {
		if len(b.runs) == 1 || b.runs[id].size >= split {
			p.own = append(p.own, id)
			continue
		}
		p.set = append(p.set, id)
	}
	return p
}

// objects returns how many ids the plan needs.
func (p uploadPlan) objects() int {
	if len(p.set) > 0 {
		return 1 + len(p.own)
	}
	return len(p.own)
}

// objectPlan is one object of a plan.
type objectPlan struct {
	id      catalog.ObjectID
	streams []catalog.StreamID
	set     bool // the stream-set object
}

// assign gives the plan's objects their ids, which are consecutive: the stream-set object has the first one.
func (p uploadPlan) assign(first catalog.ObjectID) []objectPlan {
	var all []objectPlan
	if len(p.set) > 0 {
		all = append(all, objectPlan{id: first, streams: p.set, set: true})
	}
	for _, id := range p.own {
		all = append(all, objectPlan{id: first + catalog.ObjectID(len(all)), streams: []catalog.StreamID{id}})
	}
	return all
}

// writtenObject is an object that was stored.
type writtenObject struct {
	objectPlan
	size   int64
	ranges []catalog.Range // of each stream, with the epoch of its records (UP-10)
}

// commitOf returns the commit that makes the objects of one block visible, all or none (UP-3).
func commitOf(objects []writtenObject) catalog.Commit {
	c := catalog.Commit{Object: catalog.NoObject}
	for _, o := range objects {
		if o.set {
			c.Object, c.Size, c.Ranges = o.id, o.size, o.ranges
			continue
		}
		r := o.ranges[0]
		c.StreamObjects = append(c.StreamObjects, catalog.StreamObject{
			Object: o.id, Size: o.size, Stream: r.Stream, Epoch: r.Epoch, Start: r.Start, End: r.End,
		})
	}
	return c
}

// committedRanges lists all that a commit holds, stream objects as ranges.
func committedRanges(c catalog.Commit) []catalog.Range {
	all := append([]catalog.Range{}, c.Ranges...)
	for _, o := range c.StreamObjects {
		all = append(all, catalog.Range{Stream: o.Stream, Epoch: o.Epoch, Start: o.Start, End: o.End, Size: o.Size})
	}
	return all
}

// withoutDeleted returns a commit without the streams that no longer exist, and those streams. A stream-set object of
// which only some are left stays as it was written: metadata lists what counts in it.
func withoutDeleted(v catalog.View, c catalog.Commit) (left catalog.Commit, gone []catalog.StreamID) {
	left = catalog.Commit{Object: catalog.NoObject}
	for _, r := range c.Ranges {
		if _, exists := v.Stream(r.Stream); !exists {
			gone = append(gone, r.Stream)
			continue
		}
		left.Object, left.Size, left.Attributes = c.Object, c.Size, c.Attributes
		left.Ranges = append(left.Ranges, r)
	}
	for _, o := range c.StreamObjects {
		if _, exists := v.Stream(o.Stream); !exists {
			gone = append(gone, o.Stream)
			continue
		}
		left.StreamObjects = append(left.StreamObjects, o)
	}
	return left, gone
}

// isApplied reports whether a view has a commit: the streams that still exist reach to the ends of its ranges.
func isApplied(v catalog.View, c catalog.Commit) bool {
	for _, r := range committedRanges(c) {
		if s, exists := v.Stream(r.Stream); exists && s.End < r.End {
			return false
		}
	}
	return true
}
