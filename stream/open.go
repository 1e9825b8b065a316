package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Open begins a new epoch of the node, ends the log of the epoch before it, commits what that one had acknowledged and not
// committed, and starts the engine (3.6). It does so whatever became of the process that ran the older epoch: should that
// one still live, what it acknowledges after Open has returned was stored before, and is committed.
//
// Streams that the node had opened are closed then. After a clean [Engine.Close] there is nothing to recover, and Open
// costs one listing and two calls of the catalog. While a store or the catalog cannot be reached Open waits, as long as ctx
// allows; ctx has no part in the engine after that.
//
// It refuses, and changes nothing but the node's epoch: [ErrInvalidOptions]; an [*EpochTakenError]; a log that is not whole:
// [ErrCorrupt], a [*VersionError], an [*UnknownKeyError], a [*WALGapError], a [*RecoverError]. An error that matches
// [catalog.ErrNodeEpochMismatch] or [ErrFenced] says that a later Open of the same node has begun.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	began := time.Now()
	e := &Engine{options: o, prefix: WALPrefix{Cluster: o.Cluster, Node: o.Node}, closed: make(chan struct{})}
	e.mu.streams = map[catalog.StreamID]*Stream{}
	epoch, err := e.register(ctx, catalog.Registration{
		ID: o.Node, Expected: -1, Incarnation: o.Incarnation, Address: o.Address, Slots: o.Slots,
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

// takeOver does what lies between a node's registration and its next log: steps 1 to 6, and closing its streams (WAL-31).
// It returns where the next log may begin.
func (e *Engine) takeOver(ctx context.Context, node catalog.Node, prefix WALPrefix) (start int64, err error) {
	if err := e.checkEpoch(ctx, node, prefix); err != nil {
		return 0, err
	}
	// The log that ends must be an older epoch's: one view has to say that the node is in this epoch and which log it had.
	// A process that slept and was overtaken would put a fence of an older epoch into a newer one's log.
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

// checkEpoch refuses an epoch of which objects exist already (step 1), and keys that this program does not know (KEY-1).
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

// uploaderOptions are those of an uploader that commits for a node. As they are it has no cache, and uploads what recovery
// hands it.
func (e *Engine) uploaderOptions(node catalog.Node) uploaderOptions {
	return uploaderOptions{
		data: e.options.Data, catalog: e.options.Catalog, node: node, namespace: e.options.Namespace,
		cfg: e.options.Config, events: e.options.Events,
	}
}

// run makes the parts of the engine and starts its loops.
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

// removeOldEpochs deletes what older epochs of the node left: everything that they acknowledged is committed by now
// (WAL-24). Young fences stay (WAL-22), and are deleted when they are old: a writer that slept as long as that acknowledges
// nothing when it wakes up, whether its fence is there or not (WAL-12). What lies above a fence stays as long as it, see
// [RecoveredEvent.Dead]. What cannot be removed is tried again until ctx ends.
func (e *Engine) removeOldEpochs(ctx context.Context, node catalog.Node, prefix WALPrefix) {
	for {
		young, err := e.tryRemoveOldEpochs(ctx, node, prefix)
		wait := time.Until(young)
		switch {
		case ctx.Err() != nil || err == nil && young.IsZero():
			return
		case err != nil:
			wait = deleteRetry
			if e.options.Events.WALDeleteFailed != nil {
				e.options.Events.WALDeleteFailed(FailedEvent{err})
			}
		}
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// tryRemoveOldEpochs looks once. It returns when the fences that it had to keep will all be old; the zero time if it kept
// none.
func (e *Engine) tryRemoveOldEpochs(ctx context.Context, node catalog.Node, prefix WALPrefix) (young time.Time, err error) {
	listed, err := listAll(ctx, e.options.WAL, prefix.String())
	if err != nil {
		return young, err
	}
	ended := map[int64]*endedEpoch{}
	var order []*endedEpoch
	for _, o := range listed {
		key, err := prefix.Parse(o.Key)
		if err != nil || key.Epoch >= node.Epoch {
			continue // it came after the check, and is not ours
		}
		epoch := ended[key.Epoch]
		if epoch == nil {
			epoch = &endedEpoch{}
			ended[key.Epoch] = epoch
			order = append(order, epoch)
		}
		if err := epoch.add(ctx, e.options.WAL, key, o); err != nil {
			return young, err
		}
	}
	var own, fences []string
	for _, epoch := range order {
		objects, expired, until := epoch.removable(time.Now().Add(-e.options.Config.WALFenceRetention))
		own, fences = append(own, objects...), append(fences, expired...)
		if old := until.Add(e.options.Config.WALFenceRetention); !until.IsZero() && old.After(young) {
			young = old
		}
	}
	if err := deleteAll(ctx, e.options.WAL, own); err != nil {
		return young, err
	}
	return young, deleteAll(ctx, e.options.WAL, fences) // what lies above one is gone: without it that would not be dead any more
}

// endedEpoch is what an older epoch of a node left.
type endedEpoch struct {
	own, fences []endedObject
	trim        int64 // the greatest one that a fence carries, plus one
}

type endedObject struct {
	objstore.Info
	start int64
}

// add takes an object in; only one of a fence's size is looked into. One that is gone meanwhile is passed over.
func (p *endedEpoch) add(ctx context.Context, store objstore.Store, key WALKey, o objstore.Info) error {
	object := endedObject{o, key.Start}
	if o.Size != fenceSize {
		p.own = append(p.own, object)
		return nil
	}
	h, err := readWALHeader(ctx, store, o.Key, o.Size)
	switch {
	case errors.Is(err, errVanished):
	case err != nil:
		return err
	case h.Epoch > key.Epoch:
		p.fences = append(p.fences, object)
		p.trim = max(p.trim, h.Trim+1)
	default:
		p.own = append(p.own, object)
	}
	return nil
}

// removable returns the keys of what may go: objects of the writer unless a fence that stays ended the log below them, and then
// fences that are older than a time. young is the age of the youngest fence that stays, zero if none does.
func (p *endedEpoch) removable(before time.Time) (own, fences []string, young time.Time) {
	var end *endedObject // the fence that ended the log: the lowest one that is not stale (WAL-13)
	for i, f := range p.fences {
		if f.Modified.After(before) {
			if f.Modified.After(young) {
				young = f.Modified
			}
			if f.start >= p.trim && (end == nil || f.start < end.start) {
				end = &p.fences[i]
			}
			continue
		}
		fences = append(fences, f.Key)
	}
	for _, o := range p.own {
		if end == nil || o.start < end.start {
			own = append(own, o.Key)
		}
	}
	return own, fences, young
}
