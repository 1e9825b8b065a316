package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/observe"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// streams is the stream engine of a node. It starts with the first stream that is asked for, and without that when there is
// something for it to do, see isNeeded. A node in a cluster without streams has no bucket, no caches, no metrics of them, and
// metadata that an older version can read.
type streams struct {
	log    *meta.Log
	member *meta.Member
	streamOptions

	// Limits of the calls to the bucket: puts of the log have a limit of their own, so that an append does not wait
	// behind a thousand reads of a compaction.
	logPuts, calls *objstore.Limit

	turn chan struct{} // holds one token; its holder may use the fields below

	engine *stream.Engine // nil if there is none
	store  objstore.Store // nil if it is not open
	begun  int64          // the node epoch of the newest engine
	closed bool

	reached atomic.Pointer[objstore.Store] // is store, for who does not have the turn; nil: it is not open
	telling sync.Once
	events  observe.StreamEvents // those of observe; ask tell
	loops   loops
}

// streamOptions configure the engine.
type streamOptions struct {
	// open opens the bucket. The engine's log and its data are in the same one.
	open func(ctx context.Context) (objstore.Store, error)
	// config has the settings; the zero value is [stream.DefaultConfig].
	config stream.Config
	// storeCalls is how many calls of the bucket may be in flight, beside the puts of the log, which config bounds; 0 is
	// [objstore.DefaultCalls].
	storeCalls int
	// observe returns the events that streams report to, and begins to observe state. It is called once, before the first
	// engine starts. It may be nil.
	observe func(state func() observe.StreamState) observe.StreamEvents
	// look is how often the holder of the lease looks for dead nodes; 0 is [lookForDead].
	look time.Duration
	// clean is how often it checks what is left of the logs of nodes that do not come back; 0 is [cleanLogs].
	clean time.Duration
	// ask is how often it asks the bucket for something, askTime how long an answer may take, and patience for how long all must have
	// failed before it leaves the lease to others; 0 are [askStore], [answerTime] and [leasePatience].
	ask, askTime, patience time.Duration
}

func newStreams(log *meta.Log, member *meta.Member, o streamOptions) *streams {
	s := &streams{
		log: log, member: member, streamOptions: o, turn: make(chan struct{}, 1), begun: -1,
		logPuts: objstore.NewLimit(cmp.Or(o.config.WALInflight, stream.DefaultConfig().WALInflight)),
		calls:   objstore.NewLimit(cmp.Or(o.storeCalls, objstore.DefaultCalls())),
	}
	s.turn <- struct{}{}
	return s
}

// get returns the engine, and starts one if there is none or the last one has failed. That may take as long as recovery
// takes, and waits for the bucket and for metadata as long as ctx allows.
func (s *streams) get(ctx context.Context) (*stream.Engine, error) {
	done, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if s.engine != nil && s.engine.Err() == nil {
		return s.engine, nil
	}
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("node: starting the stream engine: %w", err)
	}
	return s.engine, nil
}

// take waits for the token. The caller calls done to return it.
func (s *streams) take(ctx context.Context) (done func(), err error) {
	select {
	case <-s.turn: // even if ctx has ended: a close then still says what it could not do
	default:
		select {
		case <-s.turn:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if s.closed {
		s.turn <- struct{}{}
		return nil, ErrClosed
	}
	return sync.OnceFunc(func() { s.turn <- struct{}{} }), nil
}

// reach opens the bucket, if it is not open, and makes sure that it has every required feature and is the cluster's.
// While it cannot be reached, or asks clients to slow down, reach retries for storeTime. The error is a [*StoreError] or
// a [*WrongStoreError].
func (s *streams) reach(ctx context.Context) error {
	done, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.openStore(ctx); err != nil {
		return err
	}
	return s.checkBucket(ctx)
}

// openStore opens the bucket and probes it for every required feature. The caller holds the token.
func (s *streams) openStore(ctx context.Context) error {
	if s.store != nil {
		return nil
	}
	store, err := s.open(ctx)
	if err != nil {
		return &StoreError{Err: err}
	}
	if err := probeStore(ctx, store, storeTime); err != nil {
		return errors.Join(&StoreError{Store: store.String(), Err: err}, store.Close())
	}
	s.store = store
	s.reached.Store(&store)
	return nil
}

// start replaces an engine that has failed. Each begins an epoch of the node that no engine has had.
func (s *streams) start(ctx context.Context) error {
	if s.engine != nil {
		_ = s.engine.Close(ctx) // it repeats why it failed
		s.engine = nil
	}
	if err := s.member.RaiseLevel(ctx, meta.LevelStreams); err != nil {
		return err
	}
	if err := s.openStore(ctx); err != nil {
		return err
	}
	if err := s.markBucket(ctx); err != nil {
		return err
	}
	if s.begun == s.member.Epoch() {
		if _, err := s.member.Renew(ctx); err != nil {
			return err
		}
	}
	s.tell()
	s.begun = s.member.Epoch()
	engine, err := stream.Open(ctx, s.options())
	if err != nil {
		return err
	}
	s.engine = engine
	s.watch()
	return nil
}

// watch begins to look for what there is to do although nobody asks for a stream, unless that has begun. It waits for nothing.
func (s *streams) watch() {
	s.loops.begin("dead logs", s.watchDead)
	s.loops.begin("the lease", s.keepLease)
}

// tell returns the events for metrics and the log.
func (s *streams) tell() observe.StreamEvents {
	s.telling.Do(func() {
		if s.observe != nil {
			s.events = s.observe(s.state)
		}
	})
	return s.events
}

// bucket opens the bucket, if it is not open, and returns it. It stays open until close.
func (s *streams) bucket(ctx context.Context) (objstore.Store, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	done, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.store, nil
}

// isNeeded reports whether an engine should run here that does not: because the log of an earlier process or engine of this node
// was not closed; because this node holds the metadata lease, and there is something for its cleaner and compactions; or because
// there are stream-set objects of its own, which nobody else compacts while it lives.
func (s *streams) isNeeded(ctx context.Context) bool {
	done, err := s.take(ctx)
	if err != nil {
		return false
	}
	running := s.engine != nil && s.engine.Err() == nil
	done()
	if running {
		return false
	}
	view := s.log.View()
	if own, known := view.Node(s.member.Node()); known && own.WALEpoch >= 0 || s.log.Leads() && hasDuties(view) {
		return true
	}
	for set := range view.StreamSets() {
		if int32(set.Node) == s.member.Node() {
			return true
		}
	}
	return false
}

// state is what metrics show of streams and of their calls to the bucket.
func (s *streams) state() observe.StreamState {
	view := s.log.View()
	return observe.StreamState{
		Streams: view.StreamCount(), Objects: view.StreamObjectCount(), SetObjects: view.StreamSetCount(),
		Destroyed: view.DestroyedCount(), DeadLogs: len(s.deadLogs()),
		StoreCalls: s.calls.UnderWay() + s.logPuts.UnderWay(), StoreWaiting: s.calls.Waiting() + s.logPuts.Waiting(),
	}
}

// options connect an engine to metadata: the catalog; the node's registration, which the engine repeats and which keeps
// its epoch; the proof of that epoch; and the lease.
func (s *streams) options() stream.Options {
	return stream.Options{
		Catalog: meta.NewCatalog(s.log), Node: streamcatalog.NodeID(s.member.Node()), Cluster: s.log.ClusterID(),
		Incarnation: s.member.Incarnation(), Registered: s.begun, Slots: 1, Proof: s.member.Proved,
		WAL:   objstore.Limited(s.store, s.logPuts, s.calls),
		Data:  objstore.Limited(s.store, s.calls, s.calls),
		Leads: s.log.Leads, Adopts: func(id streamcatalog.NodeID) bool { return s.member.Buried(int32(id)) },
		Events: s.tell().Engine, Config: s.config,
	}
}

// close closes the engine, so that nothing is left to recover, and the bucket.
func (s *streams) close(ctx context.Context) error {
	s.loops.end()
	done, err := s.take(ctx)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	s.closed = true
	var errs []error
	if s.engine != nil {
		err := s.engine.Close(ctx)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("the object store %s did not answer in time; what was acknowledged is in it, and the next start recovers it: %w",
				s.store, err)
		}
		errs = append(errs, err)
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	s.engine, s.store = nil, nil
	s.reached.Store(nil)
	return errors.Join(errs...)
}
