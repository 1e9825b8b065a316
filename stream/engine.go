package stream

import (
	"context"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Engine runs the streams of one node under one epoch.
type Engine struct {
	options Options
	node    catalog.Node
}

// Open starts the engine.
func Open(ctx context.Context, o Options) (*Engine, error) { panic("not yet") }

// CreateStreams makes streams.
func (e *Engine) CreateStreams(ctx context.Context, count int) (catalog.StreamID, error) {
	return e.options.Catalog.CreateStreams(ctx, e.node, count)
}

// OpenStream opens.
func (e *Engine) OpenStream(ctx context.Context, id catalog.StreamID, epoch int64) (*Stream, error) {
	panic("not yet")
}

// Upload forces an upload of everything confirmed so far and waits until it is committed.
func (e *Engine) Upload(ctx context.Context) error { panic("not yet") }

// Compact runs a round.
func (e *Engine) Compact(ctx context.Context) error { panic("not yet") }

// Clean runs a round.
func (e *Engine) Clean(ctx context.Context) error { panic("not yet") }

// Failover takes over the log of a dead node.
func (e *Engine) Failover(ctx context.Context, dead catalog.NodeID) error { panic("not yet") }

// Err is why the engine takes no appends.
func (e *Engine) Err() error { panic("not yet") }

// Close closes.
func (e *Engine) Close(ctx context.Context) error { panic("not yet") }
