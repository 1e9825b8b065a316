package stream

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// merge copies a group of plain objects into one, without the dead blocks at its head (CP-14).
func (c *compactor) merge(ctx context.Context, v streamView, group []catalog.StreamObjectState) error {
	begun := time.Now()
	layouts, err := c.layouts(ctx, group)
	if layouts == nil {
		return err
	}
	var blocks []planBlock
	for _, l := range layouts {
		blocks = append(blocks, liveBlocks(planObject{id: l.object, entries: l.entries}, v.liveFrom())...)
	}
	change := catalog.StreamCompaction{Stream: v.ID, Epoch: v.Epoch, Start: blocks[0].Start, End: blocks[len(blocks)-1].End()}
	for _, o := range group {
		change.Sources, change.Operations = append(change.Sources, o.Object), append(change.Operations, catalog.Delete)
	}
	if change.Object, err = c.prepare(ctx, 1); err != nil {
		return err
	}
	if change.Size, err = c.copyBlocks(ctx, change.Object, blocks); err != nil {
		c.discardUnless(ctx, err, change.Object)
		return c.skipDamagedSource(v.ID, change.Sources, err)
	}
	return c.commitObjects(ctx, "minor", change, moved{planOutput{blocks: blocks}.bytes(), change.Size, begun})
}

// liveFrom returns where the view's stream starts.
func (v streamView) liveFrom() liveFrom {
	return func(catalog.StreamID) (int64, bool) { return v.Start, true }
}

// copyBlocks writes an object of blocks, a few megabytes at a time, and returns its size.
func (c *compactor) copyBlocks(ctx context.Context, id catalog.ObjectID, blocks []planBlock) (int64, error) {
	o := c.newCopier(id)
	defer o.abort()
	for len(blocks) > 0 {
		n, size := 1, int64(blocks[0].Size)
		for n < len(blocks) && size+int64(blocks[n].Size) <= maxRead {
			size += int64(blocks[n].Size)
			n++
		}
		bytes, err := c.blocks().readBlocks(ctx, blocks[:n])
		if err != nil {
			return 0, err
		}
		for i, b := range blocks[:n] {
			if err := o.add(ctx, b.IndexEntry, bytes[i]); err != nil {
				return 0, err
			}
		}
		blocks = blocks[n:]
	}
	return o.finish(ctx)
}

// link makes a composite of the live parts of a group. Plain objects of the group leave the metadata and keep their
// bytes; composites are deleted, and what they link is linked again or, if dead, released (CP-15).
func (c *compactor) link(ctx context.Context, v streamView, kind string, group []catalog.StreamObjectState) error {
	begun := time.Now()
	var composite CompositeObject
	change := catalog.StreamCompaction{Stream: v.ID, Epoch: v.Epoch, Attributes: catalog.NewAttributes(true, 0, false)}
	layouts, err := c.layouts(ctx, group)
	if layouts == nil {
		return err
	}
	for _, layout := range layouts {
		change.Sources = append(change.Sources, layout.object)
		if layout.isComposite() {
			change.Operations = append(change.Operations, catalog.Delete)
		} else {
			change.Operations = append(change.Operations, catalog.KeepData)
		}
		change.DeadComponents = append(change.DeadComponents, composite.linkLive(layout, v.Start)...)
	}
	b, err := composite.Encode()
	if err != nil {
		return err
	}
	change.Start, change.End = composite.Entries[0].Start, composite.Entries[len(composite.Entries)-1].End()
	change.Size = composite.LinkedBytes()
	if change.Object, err = c.prepare(ctx, 1); err != nil {
		return err
	}
	if err := c.put(ctx, change.Object, b); err != nil {
		c.discardUnless(ctx, err, change.Object)
		return err
	}
	return c.commitObjects(ctx, kind, change, moved{0, int64(len(b)), begun})
}

// linkLive appends the entries of an object that reach above start, and returns the components without one.
func (c *CompositeObject) linkLive(l objectLayout, start int64) (dead []catalog.ObjectID) {
	components := l.components
	if !l.isComposite() {
		components = []Component{{Object: l.object}}
	}
	for i, component := range components {
		first := len(c.Entries)
		for _, e := range (CompositeObject{components, l.entries}).EntriesOf(i) {
			if e.End() > start {
				c.Entries = append(c.Entries, e)
			}
		}
		if len(c.Entries) == first {
			dead = append(dead, component.Object)
			continue
		}
		c.Components = append(c.Components, Component{component.Object, int32(first), component.Bucket})
	}
	return dead
}

func (c *compactor) put(ctx context.Context, id catalog.ObjectID, b []byte) error {
	if err := c.throttle.wait(ctx, int64(len(b))); err != nil {
		return err
	}
	return putData(ctx, c.data, DataKey(c.namespace, id), b)
}

// moved is what a compaction read and wrote, besides indexes, and when it began.
type moved struct {
	read, written int64
	begun         time.Time
}

// commitObjects replaces objects of one stream.
func (c *compactor) commitObjects(ctx context.Context, kind string, change catalog.StreamCompaction, m moved) error {
	var written []catalog.ObjectID
	if change.Object != catalog.NoObject {
		written = append(written, change.Object)
	}
	if err := c.settle(ctx, written, func() error { return c.catalog.CompactStream(ctx, c.node, change) }); err != nil {
		return err
	}
	c.damaged.sound(change.Sources)
	c.events.compacted(CompactedEvent{
		Kind: kind, Stream: change.Stream, Sources: len(change.Sources), Outputs: len(written),
		BytesRead: m.read, BytesWritten: m.written, Took: time.Since(m.begun),
	})
	return nil
}

// skipDamagedSource returns nil if an object was found to be damaged while its blocks were copied, or was replaced by
// another process.
func (c *compactor) skipDamagedSource(s catalog.StreamID, sources []catalog.ObjectID, err error) error {
	if id, found := c.damagedSource(err); found && errors.Is(err, objstore.ErrNotFound) {
		err = &missingError{id, err}
		if now, ok := c.viewStream(s); ok && !now.has(id) {
			return err // which is ignored
		}
	}
	if c.noteDamagedSource(sources, err) {
		return nil
	}
	return err
}
