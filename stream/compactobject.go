package stream

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

const (
	// maxCleanup is how many dead objects one command drops.
	maxCleanup = 1000
	// maxGroup is how many objects one command merges (CP-13).
	maxGroup = 5000
)

// objectRound runs one pass over the objects of one stream: dead ones are dropped, small ones merged, and in a major pass
// the others are linked by composites (CP-13 to CP-16). It does nothing if the node does not lead the stream.
//
// Each step is decided from a view of its own, and a step that meets a concurrent change ends without error.
func (c *compactor) objectRound(ctx context.Context, s catalog.StreamID, major bool) error {
	if err := c.objectTurn.take(ctx); err != nil {
		return err
	}
	defer c.objectTurn.give()
	steps := []func(context.Context, streamView) error{c.dropDead, c.rebuildFirst, c.mergeSmall}
	if major {
		steps = append(steps, c.linkAll)
	}
	for _, step := range steps {
		if err := c.aroundDamage(ctx, func() error { return c.runStep(ctx, s, step) }); err != nil {
			return err
		}
	}
	return nil
}

// runStep runs a step of a pass on a view of its own.
func (c *compactor) runStep(ctx context.Context, s catalog.StreamID, step func(context.Context, streamView) error) error {
	v, ok := c.viewStream(s)
	if !ok {
		return nil
	}
	if err := step(ctx, v); err != nil {
		return c.passOver(s, err)
	}
	return nil
}

// streamView is a stream and its objects at one moment.
type streamView struct {
	catalog.Stream
	objects []catalog.StreamObjectState
}

// viewStream takes a view of a stream; ok if the node leads it.
func (c *compactor) viewStream(s catalog.StreamID) (v streamView, ok bool) {
	all := c.catalog.View()
	row, exists := all.Stream(s)
	if !exists || !row.Opened || row.Node != c.node.ID {
		return v, false
	}
	return streamView{row, all.StreamObjects(s)}, true
}

// live returns the objects that are not dead, without those known to be damaged.
func (v streamView) live() []catalog.StreamObjectState {
	var live []catalog.StreamObjectState
	for _, o := range v.objects {
		if o.End > v.Start {
			live = append(live, o)
		}
	}
	return live
}

// passOver drops an error that only says that somebody was faster: the stream was closed or deleted, or its objects have
// changed. The next pass sees the change.
func (c *compactor) passOver(s catalog.StreamID, err error) error {
	now, ok := c.viewStream(s)
	if !ok || errors.Is(err, catalog.ErrExpiredEpoch) || errors.Is(err, catalog.ErrStreamFenced) {
		if !errors.Is(err, catalog.ErrNodeEpochMismatch) {
			return nil
		}
	}
	var gone *missingError
	switch {
	case !errors.As(err, &gone):
		return err
	case !now.has(gone.object):
		return nil
	}
	return c.skipDamaged(gone.object, err)
}

func (v streamView) has(id catalog.ObjectID) bool {
	for _, o := range v.objects {
		if o.Object == id {
			return true
		}
	}
	return false
}

// missingError is an object of a view that the store does not have.
type missingError struct {
	object catalog.ObjectID
	err    error
}

func (e *missingError) Error() string { return e.err.Error() }

func (e *missingError) Unwrap() error { return e.err }

// dropDead drops the objects below the start, with everything that composites among them link.
func (c *compactor) dropDead(ctx context.Context, v streamView) error {
	drop := catalog.StreamCompaction{Object: catalog.NoObject, Stream: v.ID, Epoch: v.Epoch}
	commit := func() error {
		if len(drop.Sources) == 0 {
			return nil
		}
		return c.commitObjects(ctx, "cleanup", drop, moved{begun: time.Now()})
	}
	for _, o := range v.objects {
		if o.End > v.Start {
			continue
		}
		drop.Sources = append(drop.Sources, o.Object)
		operation := catalog.Delete
		if o.Attributes.IsComposite() {
			operation = catalog.DeepDelete // GC-1
		}
		drop.Operations = append(drop.Operations, operation)
		if len(drop.Sources) == maxCleanup {
			if err := commit(); err != nil {
				return err
			}
			drop.Sources, drop.Operations = nil, nil
		}
	}
	return commit()
}

// objectGroups returns runs of at least two live objects that can become one of at most limit bytes. Composites are
// included only if they are to be linked (CP-13).
func (c *compactor) objectGroups(v streamView, limit int64, composites bool) [][]catalog.StreamObjectState {
	var groups [][]catalog.StreamObjectState
	var group []catalog.StreamObjectState
	var size int64
	end := func() {
		if len(group) > 1 {
			groups = append(groups, group)
		}
		group, size = nil, 0
	}
	for _, o := range v.live() {
		if c.damaged.has(o.Object) || o.Attributes.IsComposite() && !composites {
			end()
			continue
		}
		if n := len(group); n > 0 && (o.Start != group[n-1].End || size+o.Size > limit || n == maxGroup ||
			!spans(group[0].Start, o.End)) {
			end()
		}
		group, size = append(group, o), size+o.Size
	}
	end()
	return groups
}

// mergeSmall merges small plain objects by copying them.
func (c *compactor) mergeSmall(ctx context.Context, v streamView) error {
	for _, group := range c.objectGroups(v, c.config.minorBytes, false) {
		if err := c.merge(ctx, v, group); err != nil {
			return err
		}
	}
	return nil
}

// linkAll links neighbouring objects by composites.
func (c *compactor) linkAll(ctx context.Context, v streamView) error {
	for _, group := range c.objectGroups(v, c.config.majorBytes, true) {
		if err := c.link(ctx, v, "major", group); err != nil {
			return err
		}
	}
	return nil
}

// rebuildFirst relinks the live part of the first object if it is a composite that is largely dead.
func (c *compactor) rebuildFirst(ctx context.Context, v streamView) error {
	live := v.live()
	if len(live) == 0 || !live[0].Attributes.IsComposite() || c.damaged.has(live[0].Object) || live[0].Size <= c.config.deadBytes {
		return nil
	}
	layouts, err := c.layouts(ctx, live[:1])
	if layouts == nil {
		return err
	}
	layout := layouts[0]
	dead := int64(0)
	for _, e := range layout.entries {
		if e.End() <= v.Start {
			dead += int64(e.Size)
		}
	}
	if dead <= c.config.deadBytes {
		return nil
	}
	return c.link(ctx, v, "rebuild", live[:1])
}

// layouts reads the indexes of a group, a few at a time. It returns none if an object is damaged: then the group is left
// alone, and the step runs again without that object.
func (c *compactor) layouts(ctx context.Context, group []catalog.StreamObjectState) ([]objectLayout, error) {
	layouts, errs := make([]objectLayout, len(group)), make([]error, len(group))
	err := parallel.Each(ctx, len(group), readers, func(i int) { layouts[i], errs[i] = c.layout(ctx, group[i]) })
	if err != nil {
		return nil, err
	}
	for i, o := range group {
		var gone *missingError
		switch {
		case errors.As(errs[i], &gone):
			return nil, errs[i] // is it still in use?
		case errs[i] != nil:
			return nil, c.skipDamaged(o.Object, errs[i])
		}
	}
	return layouts, nil
}

// layout reads an object's index and checks it against metadata.
func (c *compactor) layout(ctx context.Context, o catalog.StreamObjectState) (objectLayout, error) {
	l, err := loadLayout(ctx, c.data, c.namespace, o.Object, o.Size, o.Attributes)
	if errors.Is(err, objstore.ErrNotFound) {
		return l, &missingError{o.Object, err}
	}
	if err != nil {
		return l, err
	}
	said := []catalog.Range{{Stream: o.Stream, Start: o.Start, End: o.End}}
	return l, l.checkRuns(DataKey(c.namespace, o.Object), said, everythingLives)
}

// everythingLives treats every stream as existing from the beginning.
func everythingLives(catalog.StreamID) (int64, bool) { return math.MinInt64, true }

// skipDamaged returns nil for a damaged object, which is left out for a while.
func (c *compactor) skipDamaged(id catalog.ObjectID, err error) error {
	if c.noteDamaged(id, err) {
		return nil
	}
	return err
}
