package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Open begins a new epoch of the node, ends the log of the previous epoch, commits what that epoch had acknowledged but
// not committed, and starts the engine (3.6). It does so whatever happened to the process that ran the older epoch: if
// that process is still alive, anything it acknowledges after Open has returned was stored before the fence, and is
// committed.
//
// Streams that the node had open are closed in the process. After a clean [Engine.Close] there is nothing to recover,
// and Open costs one listing and two calls of the catalog. While a store or the catalog cannot be reached Open waits,
// as long as ctx allows; ctx has no part in the engine after that.
//
// In these cases it fails and changes nothing but the node's epoch: [ErrInvalidOptions]; an [*EpochTakenError]; a log
// that is incomplete or damaged: [ErrCorrupt], a [*VersionError], an [*UnknownKeyError], a [*WALGapError], a
// [*RecoverError]. An error that matches [catalog.ErrNodeEpochMismatch] or [ErrFenced] says that a later Open of the
// same node has begun.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	began := time.Now()
	e := &Engine{options: o, prefix: WALPrefix{Cluster: o.Cluster, Node: o.Node}, closed: make(chan struct{})}
	e.mu.streams = map[catalog.StreamID]*Stream{}
	expected := int64(-1)
	if o.Registered > 0 {
		expected = o.Registered
	}
	epoch, err := e.register(ctx, catalog.Registration{
		ID: o.Node, Expected: expected, Incarnation: o.Incarnation, Address: o.Address, Slots: o.Slots,
	})
	if err != nil {
		return nil, err
	}
	e.node = catalog.Node{ID: o.Node, Epoch: epoch}
	start, err := e.takeOver(ctx, e.node, e.prefix)
	if err != nil {
		return nil, err
	}
	if err := retry(ctx, func() error { return o.Catalog.OpenWAL(ctx, e.node, start) }); err != nil {
		return nil, err
	}
	e.run(start)
	if o.Events.Opened != nil {
		o.Events.Opened(OpenedEvent{Node: e.node, Start: start, Took: time.Since(began)})
	}
	return e, nil
}

// register begins a node's next epoch (step 1).
func (e *Engine) register(ctx context.Context, r catalog.Registration) (epoch int64, err error) {
	c := e.options.Catalog
	err = retry(ctx, func() (err error) { epoch, err = c.RegisterNode(ctx, r); return err })
	return epoch, err
}

// takeOver does everything between a node's registration and its next log: steps 1 to 6, and closing its streams
// (WAL-31). It returns where the next log may begin.
func (e *Engine) takeOver(ctx context.Context, node catalog.Node, prefix WALPrefix) (start int64, err error) {
	if err := e.checkEpoch(ctx, node, prefix); err != nil {
		return 0, err
	}
	// The log that ends must be an older epoch's: a single view has to show that the node is in this epoch and which log
	// it had. A process that slept and was overtaken would otherwise put a fence of an older epoch into a newer one's
	// log.
	state, _ := e.options.Catalog.View().Node(node.ID)
	if state.Epoch != node.Epoch {
		return 0, fmt.Errorf("%w: node %d is in epoch %d by now, this one is %d",
			catalog.ErrNodeEpochMismatch, node.ID, state.Epoch, node.Epoch)
	}
	start = state.WALStart
	uploader := newUploader(e.uploaderOptions(node))
	defer uploader.close()
	recovery := e.recovery(node, prefix, uploader)
	if state.WALEpoch >= 0 { // otherwise it was closed cleanly (step 2)
		found, err := recovery.recover(ctx, state.WALEpoch, state.WALStart)
		if err != nil {
			return 0, err
		}
		start = found.To + Window
		if e.options.Events.Recovered != nil {
			e.options.Events.Recovered(found)
		}
	}
	return start, recovery.closeStreams(ctx)
}

// checkEpoch refuses an epoch that already has objects (step 1), and unknown keys (KEY-1).
func (e *Engine) checkEpoch(ctx context.Context, node catalog.Node, prefix WALPrefix) error {
	listed, err := listAll(ctx, e.options.WAL, prefix.String())
	if err != nil {
		return err
	}
	for _, o := range listed {
		key, err := prefix.Parse(o.Key)
		if err != nil {
			return err
		}
		if key.Epoch >= node.Epoch {
			return &EpochTakenError{Key: o.Key, Epoch: node.Epoch}
		}
	}
	return nil
}

func (e *Engine) recovery(node catalog.Node, prefix WALPrefix, u *uploader) *walRecovery {
	return &walRecovery{
		catalog: e.options.Catalog, node: node, store: e.options.WAL, prefix: prefix,
		readahead: e.options.Config.WALReadahead, block: e.options.Config.recoverBlock(), uploader: u,
	}
}

// uploaderOptions returns the options of an uploader that commits for a node. Without a cache it uploads what recovery
// hands it.
func (e *Engine) uploaderOptions(node catalog.Node) uploaderOptions {
	return uploaderOptions{
		data: e.options.Data, catalog: e.options.Catalog, node: node, namespace: e.options.Namespace,
		cfg: e.options.Config, events: e.options.Events,
	}
}

// run creates the parts of the engine and starts its loops.
func (e *Engine) run(start int64) {
	o := e.options
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.cache = newLogCache(o.Config, func() { e.gate.recheck() })
	e.gate = newGate(o.Config.WALMaxUnflushed, o.Config.CacheWALSize, e.cache.makeRoom, func() { e.uploader.kick() })
	e.trimmer = newWALTrimmer(o.Events, o.Config.WALTrimPersist, e.fail)
	hooks := walHooks{proof: o.Proof, stored: e.stored, retried: o.Events.PutRetried}
	e.wal = newWALWriter(o.WAL, e.prefix, e.node.Epoch, start, o.Config.walLimits(), hooks)
	e.trimmer.writer = e.wal
	uploads := e.uploaderOptions(e.node)
	uploads.cache, uploads.committed, uploads.gone, uploads.failed = e.cache, e.committed, e.gone, e.fail
	e.uploader = newUploader(uploads)
	e.reader = newObjectReader(readerOptions{
		data: o.Data, catalog: o.Catalog, namespace: o.Namespace, cfg: o.Config, cache: e.cache,
		retried: o.Events.ReadRetried,
	})
	e.startMaintenance()
	e.all.Go(func() { e.trimmer.run(e.ctx) })
	e.all.Go(func() { e.removeOldEpochs(e.ctx, e.node, e.prefix) })
}
