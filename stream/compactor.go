package stream

import (
	"context"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// compactConfig says what compaction does, and how often. A duration of 0 turns a job off.
type compactConfig struct {
	// interval is the time between two rounds of stream-set compaction, repeat the time to the next when work remains
	// (CP-12).
	interval, repeat time.Duration
	// plans bounds the plans of stream-set compaction.
	plans planLimits
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

	// prepareTTL is how long a round may take from its first object to its commit (CP-10).
	prepareTTL time.Duration
	// maxCommitBytes is what fits into one entry of the metadata log.
	maxCommitBytes int
	// partBytes is the size from which an object is uploaded in parts (OBJ-6).
	partBytes int
}

// compaction returns the configuration of compaction: the settings, and the fixed sizes of section 6.
func (c Config) compaction() compactConfig {
	const mib = 1 << 20
	return compactConfig{
		interval: c.CompactInterval, repeat: c.CompactRetry,
		plans: planLimits{
			cacheBytes: c.CompactCache, splitBytes: c.CompactSplit, maxObjects: c.CompactMaxObjects,
			maxStreams: c.CompactMaxStreams, maxStreamObjects: c.CompactMaxStreamObjects,
		},
		forceSplitAge: c.CompactForceSplitAge,
		minorInterval: c.CompactMinorInterval, majorInterval: c.CompactMajorInterval,
		minorBytes: 4 * mib, majorBytes: c.CompactMaxStreamObject, deadBytes: 512 * mib,
		warmUp:         time.Minute,
		prepareTTL:     c.CompactPrepareTTL,
		maxCommitBytes: mib - mib/1024,
		partBytes:      c.ObjectPartSize,
	}
}

// compactorOptions are what a compactor works with.
type compactorOptions struct {
	catalog   catalog.Catalog
	data      objstore.Store
	namespace string
	// node is the node under its present epoch; its streams and stream-set objects are compacted.
	node catalog.Node
	// adopts reports whether stream-set objects of another node are compacted here too: those of nodes that are not
	// alive, on the holder of the metadata lease. nil is no other node. It must not block.
	adopts func(catalog.NodeID) bool
	// fenced is notified when the node is no longer the one of its epoch, or when the bucket shows that another process
	// has its ids: compaction has stopped then (UP-5).
	fenced func(error)
	// owns fails if the bucket shows that another process has the node. It is called before anything is deleted; nil
	// skips the check.
	owns   func(context.Context) error
	events Events
	cfg    Config
}

// compactor runs the two jobs of section 6: on the node's stream-set objects, and on the objects of single streams that
// the node leads. It is safe for concurrent use: one round of each job runs at a time, and others wait for it.
type compactor struct {
	compactorOptions
	config   compactConfig
	throttle *throttle
	// plan is planCompaction.
	plan    func([]planObject, liveFrom, planLimits) (compactionPlan, error)
	damaged damagedObjects
	// setTurn and objectTurn are held by the running round.
	setTurn, objectTurn turn
}

func newCompactor(o compactorOptions) *compactor {
	o.data = newPatientStore(o.data, compactPatience(), o.events.CompactionRetried)
	return &compactor{
		compactorOptions: o, config: o.cfg.compaction(), throttle: newThrottle(o.cfg.CompactBandwidth), plan: planCompaction,
		setTurn: newTurn(), objectTurn: newTurn(),
	}
}

// turn admits one caller at a time.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, unless ctx ends first. The holder must return it.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
