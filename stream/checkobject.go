package stream

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// usedObject is an object in use, as metadata has it.
type usedObject struct {
	id         catalog.ObjectID
	size       int64
	attributes catalog.Attributes
	ranges     []catalog.Range
	// set is a stream-set object; otherwise it is an object of the stream of its only range.
	set bool
}

// stillUsed reports whether a view has the object in use. If it has not, a finding about the object may only show its
// deletion.
func (o usedObject) stillUsed(v catalog.View) bool {
	if o.set {
		return isSet(v, o.id)
	}
	for _, now := range v.StreamObjects(o.ranges[0].Stream) {
		if now.Object == o.id {
			return true
		}
	}
	return false
}

// usedObjects yields all objects in use.
func usedObjects(v catalog.View) iter.Seq[usedObject] {
	return func(yield func(usedObject) bool) {
		for s := range v.StreamSets() {
			if !yield(usedObject{s.Object, s.Size, s.Attributes, s.Ranges, true}) {
				return
			}
		}
		for s := range v.Streams() {
			for _, o := range v.StreamObjects(s.ID) {
				held := []catalog.Range{{Stream: o.Stream, Start: o.Start, End: o.End}}
				if !yield(usedObject{o.Object, o.Size, o.Attributes, held, false}) {
					return
				}
			}
		}
	}
}

// checkers is how many objects are checked at the same time.
const checkers = 16

// checkObjects checks the bytes of every object in use, a few at a time. Findings are reported in the order of the
// objects.
func (c *checker) checkObjects(ctx context.Context, v catalog.View) error {
	var batch []usedObject
	for o := range usedObjects(v) {
		if batch = append(batch, o); len(batch) < checkers {
			continue
		}
		if err := c.checkBatch(ctx, v, batch); err != nil {
			return err
		}
		batch = batch[:0]
	}
	return c.checkBatch(ctx, v, batch)
}

func (c *checker) checkBatch(ctx context.Context, v catalog.View, batch []usedObject) error {
	found, errs := make([][]Finding, len(batch)), make([]error, len(batch))
	err := parallel.Each(ctx, len(batch), checkers, func(i int) {
		one := checker{CheckOptions: c.CheckOptions, yield: func(f Finding, _ error) bool {
			found[i] = append(found[i], f)
			return true
		}}
		errs[i] = one.checkUsed(ctx, v, batch[i])
	})
	for i := range batch {
		for _, f := range found[i] {
			if !c.yield(f, nil) {
				return errEnough
			}
		}
		err = cmp.Or(err, errs[i])
	}
	return err
}

// checkUsed checks one object.
func (c *checker) checkUsed(ctx context.Context, v catalog.View, o usedObject) error {
	layout, err := loadLayout(ctx, c.Data, c.Namespace, o.id, o.size, o.attributes)
	if err != nil {
		return c.wrongBy(o, err)
	}
	before := c.found
	if err := c.checkSize(ctx, o, layout); err != nil {
		return err
	}
	if err := layout.checkRuns(DataKey(c.Namespace, o.id), o.ranges, liveIn(v)); err != nil {
		return c.wrong(o, FoundBadIndex, "%v", err)
	}
	if !c.Deep || c.found > before {
		return nil
	}
	return c.checkRecords(ctx, o, layout)
}

// wrong reports a finding about an object, unless it is no longer in use.
func (c *checker) wrong(o usedObject, kind FindingKind, format string, args ...any) error {
	if !o.stillUsed(c.Catalog.View()) {
		return nil
	}
	f := c.aboutObject(o.id)
	if !o.set {
		f.Stream = o.ranges[0].Stream
	}
	return c.report(f, kind, format, args...)
}

// wrongBy reports an error that describes a fault of an object, and returns any other.
func (c *checker) wrongBy(o usedObject, err error) error {
	var version *VersionError
	switch {
	case errors.Is(err, objstore.ErrInvalid): // a range outside the object
		return c.wrong(o, FoundBadSize, "it is shorter than metadata says: %v", err)
	case errors.Is(err, objstore.ErrNotFound):
		return c.wrong(o, FoundMissingObject, "%v", err)
	case errors.As(err, &version):
		return c.wrong(o, FoundUnknownVersion, "%v", err)
	case errors.Is(err, ErrCorrupt):
		return c.wrong(o, FoundBadObject, "%v", err)
	}
	return err
}

// checkSize compares sizes with metadata, and checks that the components of a composite exist and are long enough.
func (c *checker) checkSize(ctx context.Context, o usedObject, l objectLayout) error {
	if !l.isComposite() {
		info, err := c.Data.Head(ctx, DataKey(c.Namespace, o.id))
		switch {
		case err != nil:
			return c.wrongBy(o, err)
		case info.Size != o.size:
			return c.wrong(o, FoundBadSize, "it has %d bytes, in metadata %d", info.Size, o.size)
		}
		return nil
	}
	composite := CompositeObject{l.components, l.entries}
	if linked := composite.LinkedBytes(); linked != o.size {
		if err := c.wrong(o, FoundBadSize, "it links %d bytes, in metadata %d", linked, o.size); err != nil {
			return err
		}
	}
	for i, component := range l.components {
		if err := c.checkComponent(ctx, o, component, composite.EntriesOf(i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkComponent(ctx context.Context, o usedObject, component Component, entries Index) error {
	info, err := c.Data.Head(ctx, DataKey(c.Namespace, component.Object))
	if err != nil {
		return c.wrongBy(o, err)
	}
	for _, e := range entries {
		if e.Position+int64(e.Size) > info.Size {
			return c.wrong(o, FoundBadSize, "component %d has %d bytes and should hold %s", component.Object, info.Size, e)
		}
	}
	return nil
}

// checkRecords reads all records of an object, an index entry at a time.
func (c *checker) checkRecords(ctx context.Context, o usedObject, l objectLayout) error {
	for i, e := range l.entries {
		key, b := DataKey(c.Namespace, l.holder(i)), make([]byte, e.Size)
		if err := c.Data.ReadRange(ctx, key, b, e.Position); err != nil {
			return c.wrongBy(o, err)
		}
		records, err := DecodeBlocks(key, e, b)
		if err != nil {
			if err := c.wrongBy(o, err); err != nil {
				return err
			}
			continue
		}
		if err := c.checkFollow(o, e, records); err != nil {
			return err
		}
	}
	return nil
}

// checkFollow checks that the records of an index entry follow each other without a gap, and that Verify accepts them.
func (c *checker) checkFollow(o usedObject, e IndexEntry, records []Record) error {
	next := e.Start
	for _, r := range records {
		if r.Base != next {
			if err := c.wrong(o, FoundBadRecord, "stream %d continues at %d after %d", r.Stream, r.Base, next); err != nil {
				return err
			}
		}
		next = r.End()
		if c.Verify == nil {
			continue
		}
		if err := c.Verify(r); err != nil {
			if err := c.wrong(o, FoundBadRecord, "stream %d from %d to %d: %v", r.Stream, r.Base, r.End(), err); err != nil {
				return err
			}
		}
	}
	return nil
}
