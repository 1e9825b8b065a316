package stream

import "context"

// Upload returns when everything that was acknowledged before the call is in committed objects. Calls that come together
// are served by one upload. After a context error the upload goes on.
func (e *Engine) Upload(ctx context.Context) error {
	if err := e.usable(); err != nil {
		return err
	}
	return e.uploader.force(ctx)
}

// Compact runs a round of each kind of compaction now, besides those that run by themselves (6.1 to 6.3): over the
// stream-set objects of the node, until nothing is left to do, and over the objects of each open stream. Errors are those
// of the stores and of the catalog; what was compacted before one stays so.
func (e *Engine) Compact(ctx context.Context) error {
	if err := e.usable(); err != nil {
		return err
	}
	for more := true; more; {
		var err error
		if more, err = e.compact.setRound(ctx); err != nil {
			return e.refusal(err)
		}
	}
	for _, s := range e.openStreams() {
		if err := e.compact.objectRound(ctx, s.id, true); err != nil {
			return e.refusal(err)
		}
	}
	return nil
}

// Clean runs a round of the cleaner now, whoever holds the lease (6.5): it gives up reserved ids whose time has passed, and
// removes destroyed objects whose grace is over.
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
		events: o.Events, cfg: o.Config,
	})
	e.clean = newCleaner(cleanerOptions{
		catalog: o.Catalog, data: o.Data, namespace: o.Namespace, leads: o.Leads, events: o.Events, cfg: o.Config,
	})
	e.all.Go(func() { e.compact.run(e.ctx) })
	e.all.Go(func() { e.clean.run(e.ctx) })
}

// fenced is told by compaction that the node has a newer epoch.
func (e *Engine) fenced(err error) { _ = e.refusal(err) }
