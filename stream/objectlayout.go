package stream

import (
	"context"
	"fmt"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// indexTail is how much of an object's end is read at first; usually it holds the whole index (OBJ-3).
const indexTail = 1 << 20

// objectLayout says where the records of a committed object are: the index of a plain object, or that of a composite with
// the objects that hold its blocks (CMP-5).
type objectLayout struct {
	object catalog.ObjectID
	// components are those of a composite, in order; nil for a plain object.
	components []Component
	entries    Index
}

// isComposite reports whether the blocks lie in other objects.
func (l objectLayout) isComposite() bool { return l.components != nil }

// holder returns the object that the i-th entry's position refers to.
func (l objectLayout) holder(i int) catalog.ObjectID {
	if !l.isComposite() {
		return l.object
	}
	n := 0
	for n+1 < len(l.components) && int(l.components[n+1].FirstBlock) <= i {
		n++
	}
	return l.components[n].Object
}

// loadLayout reads the index of an object whose size and attributes are those of metadata. The error is the store's, or
// matches [ErrCorrupt], or is a [*VersionError].
func loadLayout(
	ctx context.Context, store objstore.Store, namespace string, id catalog.ObjectID, size int64, a catalog.Attributes,
) (objectLayout, error) {
	key := DataKey(namespace, id)
	if a.IsComposite() {
		return loadComposite(ctx, store, key, id)
	}
	index, err := loadIndex(ctx, store, key, size)
	return objectLayout{object: id, entries: index}, err
}

// loadComposite reads a composite whole: its size in metadata is that of what it links (CMP-4).
func loadComposite(ctx context.Context, store objstore.Store, key string, id catalog.ObjectID) (objectLayout, error) {
	b, err := store.Get(ctx, key)
	if err != nil {
		return objectLayout{}, err
	}
	c, err := DecodeComposite(key, b)
	return objectLayout{object: id, components: c.Components, entries: c.Entries}, err
}

// loadIndex reads the index of a plain object of size bytes, in one request unless it is long.
func loadIndex(ctx context.Context, store objstore.Store, key string, size int64) (Index, error) {
	if size < FooterSize {
		return nil, source{object: key}.short("footer", FooterSize, int(size))
	}
	tail := make([]byte, min(size, indexTail))
	if err := store.ReadRange(ctx, key, tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	f, err := DecodeFooter(key, size, tail)
	if err != nil {
		return nil, err
	}
	if f.Composite {
		return nil, source{object: key}.corrupt("a composite, not an object with data")
	}
	b := tail
	if missing := size - int64(len(tail)) - f.IndexPosition; missing > 0 {
		b = make([]byte, int(missing)+len(tail))
		if err := store.ReadRange(ctx, key, b[:missing], f.IndexPosition); err != nil {
			return nil, err
		}
		copy(b[missing:], tail)
	}
	end := len(b) - FooterSize
	return DecodeIndex(key, f, b[end-int(f.IndexLen):end])
}

// runs joins the entries of an index into runs of one stream without a gap, as metadata lists them.
func (x Index) runs() []catalog.Range {
	var all []catalog.Range
	for _, e := range x {
		if n := len(all) - 1; n >= 0 && all[n].Stream == e.Stream && all[n].End == e.Start {
			all[n].End = e.End()
			all[n].Size += int64(e.Size)
			continue
		}
		all = append(all, catalog.Range{Stream: e.Stream, Epoch: -1, Start: e.Start, End: e.End(), Size: int64(e.Size)})
	}
	return all
}

// checkRuns compares an object's index with its live ranges in metadata: both must agree on what is live. Of dead ranges
// metadata may have fewer, as a compaction leaves them out (MD-9). It fails with a [*CorruptError].
func (l objectLayout) checkRuns(key string, ranges []catalog.Range, live liveFrom) error {
	type span struct {
		stream     catalog.StreamID
		start, end int64
	}
	said := map[span]bool{}
	for _, r := range ranges {
		said[span{r.Stream, r.Start, r.End}] = true
	}
	for _, r := range l.entries.runs() {
		one := span{r.Stream, r.Start, r.End}
		if !said[one] && live.isLive(r.Stream, r.End) {
			return source{object: key}.corrupt(fmt.Sprintf("index has stream %d from %d to %d, metadata has not",
				r.Stream, r.Start, r.End))
		}
		delete(said, one)
	}
	for r := range said {
		return source{object: key}.corrupt(fmt.Sprintf("index lacks stream %d from %d to %d, which metadata has",
			r.stream, r.start, r.end))
	}
	return nil
}
