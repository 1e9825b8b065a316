package stream

import (
	"context"
	"errors"
)

// Upload returns when everything that was acknowledged before the call is in committed objects. Concurrent calls are
// served by one upload. After a context error the upload continues.
func (e *Engine) Upload(ctx context.Context) error {
	if err := e.usable(); err != nil {
		return err
	}
	return e.uploader.force(ctx)
}

// Compact runs a round of each kind of compaction now, in addition to those in the background (6.1 to 6.3): over the
// stream-set objects of the node, until nothing is left to do, and over the objects of each open stream. Errors are
// those of the stores and of the catalog; what was compacted before the error stays compacted.
func (e *Engine) Compact(ctx context.Context) error {
	if err := e.usable(); err != nil {
		return err
	}
	for more := true; more; {
		var err error
		if more, err = e.compact.setRound(ctx); err != nil {
			return e.compactionFailed(err)
		}
	}
	for _, s := range e.openStreams() {
		if err := e.compact.objectRound(ctx, s.id, true); err != nil {
			return e.compactionFailed(err)
		}
	}
	return nil
}

// compactionFailed returns the error of a round, after reporting one that ends the engine.
func (e *Engine) compactionFailed(err error) error {
	if errors.Is(err, ErrEngineFailed) {
		e.fail(err)
		return err
	}
	return e.refusal(err)
}

// Clean runs a round of the cleaner now, whoever holds the lease (6.5): it releases reserved ids that have expired, and
// removes destroyed objects whose grace period is over.
func (e *Engine) Clean(ctx context.Context) error {
	if err := e.usable(); err != nil {
		return err
	}
	_, err := e.clean.round(ctx)
	return err
}

// startMaintenance starts compaction and the cleaner.
func (e *Engine) startMaintenance() {
	o := e.options
	e.compact = newCompactor(compactorOptions{
		catalog: o.Catalog, data: o.Data, namespace: o.Namespace, node: e.node, adopts: o.Adopts, fenced: e.fenced,
		owns: e.owns, events: o.Events, cfg: o.Config,
	})
	e.clean = newCleaner(cleanerOptions{
		catalog: o.Catalog, data: o.Data, namespace: o.Namespace, leads: o.Leads, owns: e.owns,
		events: o.Events, cfg: o.Config,
	})
	e.all.Go(func() { e.compact.run(e.ctx) })
	e.all.Go(func() { e.clean.run(e.ctx) })
}

// fenced is called by compaction when the node has a newer epoch, or when its ids are assigned elsewhere.
func (e *Engine) fenced(err error) { _ = e.compactionFailed(err) }

// owns fails if the WAL bucket shows that another process has the node: metadata cannot show that if the other process
// has a copy of it (row F45). Such a process has fenced this one's log, or has objects of a later epoch, or one of this
// epoch where the next object would be. Objects must not be deleted then: the other process may need them. It costs one
// listing.
//
// Of two copies of metadata that were closed cleanly, opened under the same epoch, neither is known to the other until one of
// them has appended.
func (e *Engine) owns(ctx context.Context) error {
	listed, err := listAll(ctx, e.options.WAL, e.prefix.String())
	if err != nil {
		return err
	}
	next := e.wal.nextWindow() // after the listing: everything that this engine had stored by then lies below
	for _, o := range listed {
		key, err := e.prefix.Parse(o.Key)
		if err == nil && (key.Epoch > e.node.Epoch || key.Epoch == e.node.Epoch && key.Start >= next) {
			fenced := &WALFencedError{Key: o.Key, ByEpoch: key.Epoch}
			e.fail(fenced)
			return fenced
		}
	}
	return nil
}
