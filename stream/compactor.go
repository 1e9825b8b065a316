package stream

import (
	"context"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// compactConfig says how much compaction does, and how often. Times of 0 turn a job off.
type compactConfig struct {
	// interval is the time between two rounds of stream-set compaction, repeat the time to the next when work remains
	// (CP-12).
	interval, repeat time.Duration
	// cacheBytes is how many bytes of blocks a round holds in memory (CP-5).
	cacheBytes int64
	// splitBytes is the size above which a stream gets an object of its own (CP-3).
	splitBytes int64
	// maxObjects is how many stream-set objects a round takes (CP-1); maxStreams and maxStreamObjects how many streams
	// and stream objects it may put out (CP-4).
	maxObjects, maxStreams, maxStreamObjects int
	// forceSplitAge is the age of data above which an object that no plan takes is split into stream objects (CP-11).
	forceSplitAge time.Duration

	// minorInterval and majorInterval are the times between two passes over the streams' own objects (6.3).
	minorInterval, majorInterval time.Duration
	// minorBytes is the largest object that a physical merge makes, majorBytes that of a composite.
	minorBytes, majorBytes int64
	// deadBytes is how much of a stream's first composite must lie below the start before it is rebuilt.
	deadBytes int64
	// warmUp is how long a stream must have been open before its objects are touched (CP-16).
	warmUp time.Duration

	// bytesPerSecond bounds reads and writes together; 0 is no bound.
	bytesPerSecond int64
	// prepareTTL is how long a round may take from its first object to its commit (CP-10).
	prepareTTL time.Duration
	// maxCommitBytes is what fits into one entry of the metadata log.
	maxCommitBytes int
}

// defaultCompactConfig returns the defaults of section 11.
func defaultCompactConfig() compactConfig {
	return compactConfig{
		interval: 20 * time.Minute, repeat: 10 * time.Second,
		cacheBytes: 200 << 20, splitBytes: 8 << 20,
		maxObjects: 500, maxStreams: 10_000, maxStreamObjects: 5_000,
		forceSplitAge: 2 * time.Hour,
		minorInterval: 10 * time.Minute, majorInterval: time.Hour,
		minorBytes: 4 << 20, majorBytes: 1 << 30, deadBytes: 512 << 20,
		warmUp:         time.Minute,
		bytesPerSecond: 256 << 20,
		prepareTTL:     24 * time.Hour,
		maxCommitBytes: 1<<20 - 1<<10,
	}
}

// compactOptions is what compaction works on.
type compactOptions struct {
	catalog   catalog.Catalog
	data      objstore.Store
	namespace string
	// node is the node under its present epoch, for whose streams and stream-set objects this is.
	node catalog.Node
	// adopts reports whether stream-set objects of another node are compacted here too: those of nodes that are not
	// alive, on the holder of the metadata lease. nil is no other node. It must not block.
	adopts func(catalog.NodeID) bool
	// fenced is told when the node is no longer the one of its epoch: compaction has stopped then (UP-5).
	fenced func(error)
	events CompactionEvents
	config compactConfig
}

// compactor runs the two jobs of section 6: stream-set objects of the node, and objects of single streams that the node
// leads. Its methods are for one caller at a time, except that a set round and an object round may run side by side.
type compactor struct {
	compactOptions
	throttle *throttle
}

func newCompactor(o compactOptions) *compactor {
	return &compactor{compactOptions: o, throttle: newThrottle(o.config.bytesPerSecond)}
}

// run compacts until ctx ends or the node is fenced. It returns when both jobs have stopped, which is within one object.
func (c *compactor) run(ctx context.Context) { <-ctx.Done() }

// setRound runs one round of stream-set compaction (CP-1 to CP-12). more reports whether objects remain for another one.
func (c *compactor) setRound(ctx context.Context) (more bool, err error) { return false, nil }

// objectRound runs one pass over the objects of one stream (CP-13 to CP-16).
func (c *compactor) objectRound(ctx context.Context, s catalog.StreamID, major bool) error {
	return nil
}
