package stream

import (
	"context"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// stepTimeout cuts off a step of the cleaner that hangs (GC-5).
const stepTimeout = 30 * time.Second

// cleanerOptions is what a cleaner works on.
type cleanerOptions struct {
	catalog   catalog.Catalog
	data      objstore.Store
	namespace string
	events    Events
	cfg       Config
}

// cleaner removes the bytes of destroyed objects (GC-1 to GC-5). Its methods are for one goroutine.
type cleaner struct {
	cleanerOptions
}

func newCleaner(o cleanerOptions) *cleaner { return &cleaner{cleanerOptions: o} }

// run cleans until ctx ends.
func (c *cleaner) run(ctx context.Context) { <-ctx.Done() }

// round gives up ids whose time has passed and deletes the objects whose grace is over (GC-2).
func (c *cleaner) round(ctx context.Context) (CleanedEvent, error) { return CleanedEvent{}, nil }
