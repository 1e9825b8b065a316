package stream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

const (
	// stepTimeout cuts off a step of the cleaner that hangs (GC-5).
	stepTimeout = 30 * time.Second
	// cleanStep is how many objects one step deletes, cleanRetryStep how many of those that failed before: fewer, so that
	// one that hangs delays few.
	cleanStep, cleanRetryStep = 500, 10
	// cleanReaders is how many composites are read at the same time.
	cleanReaders = 16
)

// cleanerOptions is what a cleaner works on.
type cleanerOptions struct {
	catalog   catalog.Catalog
	data      objstore.Store
	namespace string
	// leads reports whether this node holds the metadata lease: scheduled rounds run only then and end when it is lost. nil means
	// always.
	leads func() bool
	// owns fails if the bucket shows that another process has the node. It is called before anything is deleted; nil
	// skips the check.
	owns   func(context.Context) error
	events Events
	cfg    Config
}

// cleaner removes the bytes of destroyed objects (GC-1 to GC-5). Bytes go first, then the mark: after a crash in between
// the bytes are deleted again, and a missing object counts as deleted. It is safe for concurrent use: one round runs at a
// time.
type cleaner struct {
	cleanerOptions
	turn   turn
	failed map[catalog.ObjectID]bool // could not be deleted last time; they come last
}

func newCleaner(o cleanerOptions) *cleaner {
	return &cleaner{cleanerOptions: o, turn: newTurn(), failed: map[catalog.ObjectID]bool{}}
}

// run cleans until ctx ends, at each interval while this node holds the metadata lease.
func (c *cleaner) run(ctx context.Context) {
	for pause(ctx, c.cfg.GCInterval) == nil {
		if !c.isMine() {
			continue
		}
		if _, err := c.roundWhile(ctx, c.isMine); err != nil && ctx.Err() == nil {
			c.events.compactionFailed(err)
		}
	}
}

// isMine reports whether rounds run here by themselves.
func (c *cleaner) isMine() bool { return c.leads == nil || c.leads() }

// round is roundWhile, whoever holds the lease.
func (c *cleaner) round(ctx context.Context) (CleanedEvent, error) {
	return c.roundWhile(ctx, func() bool { return true })
}

// roundWhile releases expired ids and deletes objects whose grace period is over (GC-2), as long as it may. Objects that cannot
// be deleted are reported in the event and are not an error.
//
// Whether it may is asked after each command of the round was accepted: this node has applied everything before it by then. So a
// process that was paused, and whose lease another one has, deletes nothing that it had not begun to delete. What it had begun was
// destroyed for good, whoever deletes it.
func (c *cleaner) roundWhile(ctx context.Context, may func() bool) (CleanedEvent, error) {
	var done CleanedEvent
	err := c.turn.take(ctx)
	if err != nil {
		return done, err
	}
	defer c.turn.give()
	begun := time.Now()
	if done.Expired, err = c.catalog.ExpirePrepared(ctx); err != nil {
		return done, err
	}
	if !may() {
		return done, nil
	}
	fresh, again := c.due(c.catalog.View())
	if c.owns != nil && len(fresh)+len(again) > 0 {
		if err := c.owns(ctx); err != nil {
			return done, err
		}
	}
	steps := slices.AppendSeq(slices.Collect(slices.Chunk(fresh, cleanStep)), slices.Chunk(again, cleanRetryStep))
	for _, step := range steps {
		if !may() {
			break
		}
		err = cmp.Or(err, c.step(ctx, step, &done))
	}
	done.Took = time.Since(begun)
	if done.Expired+done.Deleted+done.Failed > 0 {
		c.events.cleaned(done)
	}
	return done, err
}

// due returns the objects whose grace is over by the clock of the metadata, with those that failed before returned
// separately: they only fill the rest of the batch, so that they never delay others.
func (c *cleaner) due(v catalog.View) (fresh, again []catalog.DestroyedObject) {
	for _, d := range v.Destroyed(c.cfg.GCBatch + len(c.failed)) {
		switch {
		case d.MarkedMs+c.cfg.GCGrace.Milliseconds() > v.ClockMs():
		case c.failed[d.Object]:
			again = append(again, d)
		default:
			fresh = append(fresh, d)
		}
	}
	fresh = fresh[:min(len(fresh), c.cfg.GCBatch)]
	return fresh, again[:min(len(again), c.cfg.GCBatch-len(fresh))]
}

// step deletes some objects and forgets those that are gone.
func (c *cleaner) step(ctx context.Context, step []catalog.DestroyedObject, done *CleanedEvent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var gone []catalog.ObjectID
	failures := c.deleteBytes(limited, step)
	for _, d := range step {
		if err := failures[d.Object]; err != nil {
			c.failed[d.Object] = true
			done.Failed++
			done.Err = cmp.Or(done.Err, err)
			continue
		}
		gone = append(gone, d.Object)
	}
	if len(gone) == 0 {
		return nil
	}
	if _, err := c.catalog.CleanDestroyed(ctx, gone...); err != nil {
		return err
	}
	for _, id := range gone {
		delete(c.failed, id)
	}
	done.Deleted += len(gone)
	return nil
}

// deleteBytes deletes objects, including everything they link if they are marked for that, and returns the errors of
// those that remain. A composite is deleted after its components, so that they stay known until they are gone.
func (c *cleaner) deleteBytes(ctx context.Context, step []catalog.DestroyedObject) map[catalog.ObjectID]error {
	failures := map[catalog.ObjectID]error{}
	var components, own []string
	owner := map[string]catalog.ObjectID{} // of a component or of the object itself
	linked, errs := make([][]catalog.ObjectID, len(step)), make([]error, len(step))
	if err := parallel.Each(ctx, len(step), cleanReaders, func(i int) { linked[i], errs[i] = c.linkedBy(ctx, step[i]) }); err != nil {
		for _, d := range step {
			failures[d.Object] = err
		}
		return failures
	}
	for i, d := range step {
		if errs[i] != nil {
			failures[d.Object] = errs[i]
			continue
		}
		for _, id := range linked[i] {
			key := DataKey(c.namespace, id)
			components, owner[key] = append(components, key), d.Object
		}
		key := DataKey(c.namespace, d.Object)
		own, owner[key] = append(own, key), d.Object
	}
	c.deleteKeys(ctx, components, owner, failures)
	own = slices.DeleteFunc(own, func(key string) bool { return failures[owner[key]] != nil })
	c.deleteKeys(ctx, own, owner, failures)
	return failures
}

// deleteKeys deletes keys and attributes failures to their owners.
func (c *cleaner) deleteKeys(
	ctx context.Context, keys []string, owner map[string]catalog.ObjectID, failures map[catalog.ObjectID]error,
) {
	if len(keys) == 0 {
		return
	}
	err := c.data.Delete(ctx, keys...)
	var some *objstore.DeleteError
	if errors.As(err, &some) {
		for _, f := range some.Failed {
			failures[owner[f.Key]] = f
		}
		return
	}
	if err != nil {
		for _, key := range keys {
			failures[owner[key]] = err
		}
	}
}

// linkedBy returns the components of an object that is to be deleted with everything it links. A plain object links
// nothing, and the components of a missing one were deleted before it.
func (c *cleaner) linkedBy(ctx context.Context, d catalog.DestroyedObject) ([]catalog.ObjectID, error) {
	if d.Operation != catalog.DeepDelete {
		return nil, nil
	}
	key := DataKey(c.namespace, d.Object)
	composite, err := isCompositeObject(ctx, c.data, key)
	if errors.Is(err, objstore.ErrNotFound) || err == nil && !composite {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	layout, err := loadComposite(ctx, c.data, key, d.Object)
	var ids []catalog.ObjectID
	for _, component := range layout.components {
		ids = append(ids, component.Object)
	}
	return ids, err
}

// isCompositeObject looks at an object's footer.
func isCompositeObject(ctx context.Context, store objstore.Store, key string) (bool, error) {
	info, err := store.Head(ctx, key)
	if err != nil {
		return false, err
	}
	if info.Size < FooterSize {
		return false, source{object: key}.short("footer", FooterSize, int(info.Size))
	}
	tail := make([]byte, FooterSize)
	if err := store.ReadRange(ctx, key, tail, info.Size-FooterSize); err != nil {
		return false, err
	}
	f, err := DecodeFooter(key, info.Size, tail)
	return f.Composite, err
}
