package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// streams is the stream engine of a node. It starts with the first stream that is asked for: a node without one has no
// bucket, no caches, and metadata that an older version can read.
type streams struct {
	log    *meta.Log
	member *meta.Member
	// open opens the bucket. The engine's log and its data are in the same one.
	open   func(ctx context.Context) (objstore.Store, error)
	config stream.Config
	events stream.Events

	turn chan struct{} // holds one value; who has it may use what follows

	engine *stream.Engine // nil: there is none
	store  objstore.Store // nil: it is not open
	begun  int64          // the node epoch of the newest engine
	closed bool
}

func newStreams(
	log *meta.Log, member *meta.Member, open func(ctx context.Context) (objstore.Store, error), config stream.Config,
) *streams {
	s := &streams{log: log, member: member, open: open, config: config, turn: make(chan struct{}, 1), begun: -1}
	s.turn <- struct{}{}
	return s
}

// get returns the engine, and starts it if there is none or if the last one has failed. That may take as long as recovery
// takes, and waits for the bucket and for metadata as long as ctx allows.
func (s *streams) get(ctx context.Context) (*stream.Engine, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { s.turn <- struct{}{} }()
	if s.closed {
		return nil, ErrClosed
	}
	if s.engine != nil && s.engine.Err() == nil {
		return s.engine, nil
	}
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("node: starting the stream engine: %w", err)
	}
	return s.engine, nil
}

// start starts an engine in the place of one that has failed. Each begins an epoch of the node that no engine has had.
func (s *streams) start(ctx context.Context) error {
	if s.engine != nil {
		_ = s.engine.Close(ctx) // it says again why it failed
		s.engine = nil
	}
	if err := s.member.RaiseLevel(ctx, meta.LevelStreams); err != nil {
		return err
	}
	if s.store == nil {
		store, err := s.open(ctx)
		if err != nil {
			return err
		}
		if err := objstore.Probe(ctx, store); err != nil {
			return errors.Join(err, store.Close())
		}
		s.store = store
	}
	if s.begun == s.member.Epoch() {
		if _, err := s.member.Renew(ctx); err != nil {
			return err
		}
	}
	s.begun = s.member.Epoch()
	engine, err := stream.Open(ctx, s.options())
	if err != nil {
		return err
	}
	s.engine = engine
	return nil
}

// options give an engine what it asks of metadata: the catalog; the node's registration, which the engine repeats and which
// keeps its epoch; the proof of that epoch; and the lease.
func (s *streams) options() stream.Options {
	return stream.Options{
		Catalog: meta.NewCatalog(s.log), Node: streamcatalog.NodeID(s.member.Node()), Cluster: s.log.ClusterID(),
		Incarnation: s.member.Incarnation(), Slots: 1, WAL: s.store, Data: s.store, Proof: s.member.Proved,
		Leads: s.log.Leads, Adopts: func(id streamcatalog.NodeID) bool { return s.member.Buried(int32(id)) },
		Events: s.events, Config: s.config,
	}
}

// close closes the engine, so that nothing is left to recover, and the bucket.
func (s *streams) close(ctx context.Context) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { s.turn <- struct{}{} }()
	s.closed = true
	var errs []error
	if s.engine != nil {
		errs = append(errs, s.engine.Close(ctx))
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	s.engine, s.store = nil, nil
	return errors.Join(errs...)
}
