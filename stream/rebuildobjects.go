package stream

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// rebuildReaders is how many objects are read at the same time.
const rebuildReaders = 16

// readObjects lists the data objects and reads their indexes.
func (b *rebuilder) readObjects(ctx context.Context) error {
	sizes, others := map[catalog.ObjectID]objstore.Info{}, 0
	listed, err := listAll(ctx, b.Data, "")
	if err != nil {
		return err
	}
	for _, info := range listed {
		id, err := ParseDataKey(b.Namespace, info.Key)
		if err != nil {
			if isDataKey(info.Key) {
				others++
			}
			continue // of a log, or not ours
		}
		sizes[id] = info
		b.highestObject = max(b.highestObject, id)
	}
	if others > 0 {
		b.find(findStream(-1), "%d data objects of another namespace than %s are left alone", others, b.Namespace)
	}
	ids := make([]catalog.ObjectID, 0, len(sizes))
	for id := range sizes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	read := 0
	for batch := range slices.Chunk(ids, rebuildReaders) {
		if err := b.readBatch(ctx, batch, sizes); err != nil {
			return err
		}
		if read += len(batch); b.Progress != nil {
			b.Progress(read, len(ids))
		}
	}
	b.dropBroken(sizes)
	b.shareRuns()
	return nil
}

// isDataKey reports whether a key is that of a data object of any namespace.
func isDataKey(key string) bool {
	before, _, _ := cutLast(key, "/")
	_, namespace, ok := cutLast(before, "/")
	if !ok {
		return false
	}
	_, err := ParseDataKey(namespace, key)
	return err == nil
}

// readBatch reads a few objects at once. Damaged ones are reported and dropped.
func (b *rebuilder) readBatch(ctx context.Context, ids []catalog.ObjectID, sizes map[catalog.ObjectID]objstore.Info) error {
	read, errs := make([]*foundObject, len(ids)), make([]error, len(ids))
	err := parallel.Each(ctx, len(ids), rebuildReaders, func(i int) {
		errs[i] = retry(ctx, func() (err error) {
			read[i], err = readFoundObject(ctx, b.Data, ids[i], sizes[ids[i]])
			return err
		})
	})
	if err != nil {
		return err
	}
	for i, o := range read {
		if errs[i] == nil {
			b.objects[o.id] = o
			continue
		}
		if err := b.damage(findObject(ids[i], sizes[ids[i]].Key), errs[i]); err != nil {
			return err
		}
	}
	return nil
}

// readFoundObject reads the index of an object of any kind.
func readFoundObject(ctx context.Context, store objstore.Store, id catalog.ObjectID, info objstore.Info) (*foundObject, error) {
	layout, size, err := readAnyLayout(ctx, store, id, info)
	if err != nil {
		return nil, err
	}
	o := &foundObject{id: id, size: size, putMs: info.Modified.UnixMilli(), composite: layout.isComposite()}
	for _, c := range layout.components {
		o.components = append(o.components, c.Object)
	}
	for i, e := range layout.entries {
		n := len(o.runs) - 1
		if n < 0 || o.runs[n].stream != e.Stream || o.runs[n].end != e.Start {
			o.runs = append(o.runs, &foundRun{object: o, stream: e.Stream, start: e.Start})
			n++
		}
		r := o.runs[n]
		r.end, r.size, r.last, r.holder = e.End(), r.size+int64(e.Size), e, layout.holder(i)
	}
	return o, nil
}

// readAnyLayout reads the end of an object to determine its kind, and whatever else is needed. The returned size is the
// one in metadata.
func readAnyLayout(
	ctx context.Context, store objstore.Store, id catalog.ObjectID, info objstore.Info,
) (objectLayout, int64, error) {
	if info.Size < FooterSize {
		return objectLayout{}, 0, source{object: info.Key}.short("footer", FooterSize, int(info.Size))
	}
	footer := make([]byte, FooterSize)
	if err := store.ReadRange(ctx, info.Key, footer, info.Size-FooterSize); err != nil {
		return objectLayout{}, 0, err
	}
	f, err := DecodeFooter(info.Key, info.Size, footer)
	if err != nil {
		return objectLayout{}, 0, err
	}
	if f.Composite {
		layout, err := loadComposite(ctx, store, info.Key, id)
		return layout, CompositeObject{layout.components, layout.entries}.LinkedBytes(), err
	}
	layout := objectLayout{object: id}
	if f.IndexLen == 0 {
		return layout, info.Size, nil
	}
	raw := make([]byte, f.IndexLen)
	if err := store.ReadRange(ctx, info.Key, raw, f.IndexPosition); err != nil {
		return objectLayout{}, 0, err
	}
	layout.entries, err = DecodeIndex(info.Key, f, raw)
	return layout, info.Size, err
}

// dropBroken drops composites that link a missing object. Removing a composite with what it links removes the components
// first (GC-1), so such a composite was being removed, or a component was lost.
func (b *rebuilder) dropBroken(sizes map[catalog.ObjectID]objstore.Info) {
	for _, o := range b.sortedObjects() {
		missing := slices.IndexFunc(o.components, func(id catalog.ObjectID) bool {
			_, there := sizes[id]
			return !there
		})
		if missing < 0 {
			continue
		}
		run := o.runs[0]
		f := findObject(o.id, DataKey(b.Namespace, o.id))
		f.Stream = run.stream
		b.find(f, "the composite of %d to %d links object %d, which is not there: it is left alone, as one that was being deleted",
			run.start, run.end, o.components[missing])
		delete(b.objects, o.id)
	}
}

// shareRuns assigns runs to their streams.
func (b *rebuilder) shareRuns() {
	for _, o := range b.sortedObjects() {
		for _, r := range o.runs {
			s := b.stream(r.stream)
			s.runs = append(s.runs, r)
		}
	}
	for _, s := range b.streams {
		s.sortRuns()
	}
}

func (s *foundStream) sortRuns() {
	slices.SortFunc(s.runs, func(a, b *foundRun) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.object.id, b.object.id))
	})
	for _, r := range s.runs {
		s.ends = append(s.ends, r.end)
	}
	slices.Sort(s.ends)
}

// drop forgets an object that cannot be used.
func (b *rebuilder) drop(o *foundObject) {
	delete(b.objects, o.id)
	for _, r := range o.runs {
		s := b.streams[r.stream]
		s.runs = slices.DeleteFunc(s.runs, func(other *foundRun) bool { return other.object == o })
	}
}

// newest returns the run that ends last, and of several the one of the newest object; nil if there is none.
func (s *foundStream) newest() (last *foundRun) {
	for _, r := range s.runs {
		if last == nil || r.end > last.end || r.end == last.end && r.object.id > last.object.id {
			last = r
		}
	}
	return last
}

// readEpochs reads the epoch of each stream's newest record, which is the highest, since a later epoch continues where an
// earlier one ended. If an object's blocks are damaged there it is left out, and the next newest is read.
func (b *rebuilder) readEpochs(ctx context.Context) error {
	left := b.sortedStreams()
	for len(left) > 0 {
		var again []*foundStream
		for batch := range slices.Chunk(left, rebuildReaders) {
			errs := make([]error, len(batch))
			err := parallel.Each(ctx, len(batch), rebuildReaders, func(i int) {
				errs[i] = retry(ctx, func() error { return b.readEpoch(ctx, batch[i]) })
			})
			if err != nil {
				return err
			}
			for i, s := range batch {
				if errs[i] == nil {
					continue
				}
				bad := s.newest()
				if bad == nil {
					continue // an object was dropped with an earlier stream of the batch
				}
				if _, known := b.objects[bad.object.id]; known {
					if err := b.damage(findObject(bad.object.id, DataKey(b.Namespace, bad.holder)), errs[i]); err != nil {
						return err
					}
					b.drop(bad.object)
				}
				again = append(again, s)
			}
		}
		left = again
	}
	return nil
}

func (b *rebuilder) readEpoch(ctx context.Context, s *foundStream) error {
	s.epoch = -1
	r := s.newest()
	if r == nil {
		return nil
	}
	key := DataKey(b.Namespace, r.holder)
	if r.last.Size <= 0 {
		return source{key, r.last.Position}.corrupt(fmt.Sprintf("an index entry without bytes: %s", r.last))
	}
	bytes := make([]byte, r.last.Size)
	if err := b.Data.ReadRange(ctx, key, bytes, r.last.Position); err != nil {
		return err
	}
	records, err := DecodeBlocks(key, r.last, bytes)
	if err != nil {
		return err
	}
	if len(records) > 0 {
		s.epoch = records[len(records)-1].Epoch
	}
	return nil
}
