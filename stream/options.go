package stream

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Options configure an [Engine]. The engine closes none of the stores or the catalog.
type Options struct {
	// Catalog is the metadata that all nodes share.
	Catalog catalog.Catalog
	// Node is the node's number, and Cluster the name of the cluster: both are part of the WAL's keys, and Cluster must be
	// one element of a key.
	Node    catalog.NodeID
	Cluster string
	// Incarnation distinguishes this opening from all others. It must be new for every [Open]; with the zero value one
	// is drawn at random.
	Incarnation [16]byte
	// Registered is the epoch under which the owner has registered the node with the same incarnation, as an owner that
	// keeps a liveness key does; 0 if it has not. Open then fails if another process has registered the node since: a
	// process that has lost its node to another one, and does not know it yet, must not take it back.
	Registered int64
	// Address and Slots go into the node's registration.
	Address string
	Slots   int
	// WAL is where the write-ahead log lies, Data where data objects lie. Both may be the same store. WAL must keep
	// put-if-absent, see [objstore.Probe].
	WAL, Data objstore.Store
	// Namespace is a part of the data objects' keys; empty is "DEFAULT".
	Namespace string
	// Proof returns the latest time at which it was certain that no newer epoch of the node existed: when the newest
	// successful refresh of its liveness key began. A node that holds the lock of its metadata file passes time.Now. It
	// must not block. A group of appends that was sealed on a proof older than Config.WALMaxPutAge is not acknowledged
	// (WAL-12).
	Proof func() time.Time
	// Leads reports whether this node holds the metadata lease: if so it removes destroyed objects, for all nodes. nil
	// means always. Adopts reports whether this node compacts the stream-set objects of another one, which is not
	// alive; nil means none. Neither may block.
	Leads  func() bool
	Adopts func(catalog.NodeID) bool
	// Events receives notifications.
	Events Events
	// Config has the settings; the zero value is [DefaultConfig].
	Config Config
}

// Config holds the settings of an [Engine], as in section 11 of the specification. Sizes are in bytes.
type Config struct {
	// WALBatchBytes is the maximum length of the frames of one WAL object, unless it is a single frame.
	WALBatchBytes int
	// WALBatchInterval is the minimum time between two WAL objects, unless they are full. An idle log does not wait.
	// With 0 the next object is sent when the previous one is stored: the lowest latency, and as many requests as the
	// store answers one after the other.
	WALBatchInterval time.Duration
	// WALMaxUnflushed bounds the records that are not acknowledged, by what they cost in memory: some 100 bytes more than
	// their payload. CacheWALSize bounds them too, together with the log cache.
	WALMaxUnflushed int64
	// WALInflight is how many WAL objects may be in flight at the same time, 1 to 64.
	WALInflight int
	// WALReadahead is how much of a WAL recovery reads ahead; WALRecoverBlock how much it commits at once.
	WALReadahead, WALRecoverBlock int64
	// WALTrimPersist is how soon a trim offset is written if no append carries it.
	WALTrimPersist time.Duration
	// WALMaxPutAge is how old the proof of the node's epoch may be when an append is acknowledged.
	WALMaxPutAge time.Duration
	// WALFenceRetention is how long a fence is kept, at least 10 times WALMaxPutAge.
	WALFenceRetention time.Duration

	// CacheWALSize is the capacity of the log cache, CacheBlockSize that of the block cache, CacheIndexSize that of the
	// cache of object indexes.
	CacheWALSize, CacheBlockSize, CacheIndexSize int64
	// CacheMaxStreams is the largest number of streams in one block of the log cache.
	CacheMaxStreams int
	// ReadaheadStep is the first size of a reader's window and the least that it grows by, up to ReadaheadMax; after a reset
	// there is none for ReadaheadCooldown.
	ReadaheadStep, ReadaheadMax int64
	ReadaheadCooldown           time.Duration

	// UploadThreshold is how much of the log cache is uploaded at once; a third of CacheWALSize bounds it.
	UploadThreshold int64
	// UploadInterval is how old an append may get before it is uploaded.
	UploadInterval time.Duration
	// UploadStreamSplit is from which size on a stream gets an object of its own.
	UploadStreamSplit int64
	// UploadPrepareTTL is how long object ids of an upload stay reserved.
	UploadPrepareTTL time.Duration
	// ObjectBlockSize is from which size on a block of a data object ends; ObjectPartSize is that of a part of a multipart
	// upload, at least 5 MiB.
	ObjectBlockSize, ObjectPartSize int

	// CompactInterval is the pause between two rounds over the stream-set objects, CompactRetry that after a round that
	// left work.
	CompactInterval, CompactRetry time.Duration
	// CompactCache bounds what one stage of a compaction holds in memory; CompactSplit is from which size on a stream leaves
	// the stream-set object.
	CompactCache, CompactSplit int64
	// CompactMaxObjects, CompactMaxStreams and CompactMaxStreamObjects bound one compaction.
	CompactMaxObjects, CompactMaxStreams, CompactMaxStreamObjects int
	// CompactForceSplitAge is the age from which on a stream-set object that no plan took is split into stream objects.
	CompactForceSplitAge time.Duration
	// CompactMinorInterval and CompactMajorInterval are the pauses between two passes over a stream's objects.
	CompactMinorInterval, CompactMajorInterval time.Duration
	// CompactMaxStreamObject bounds a stream object made by a major compaction.
	CompactMaxStreamObject int64
	// CompactPrepareTTL is how long object ids of a compaction stay reserved.
	CompactPrepareTTL time.Duration
	// CompactBandwidth bounds what compactions read and write, in bytes a second; 0 is no bound.
	CompactBandwidth int64

	// GCInterval is the pause between two rounds of the cleaner, GCGrace how long a destroyed object stays, GCBatch how many
	// are removed in one round.
	GCInterval, GCGrace time.Duration
	GCBatch             int
}

// DefaultConfig returns the defaults of section 11, for a store in a cloud. For a directory or memory a
// WALBatchInterval of 5 ms is better; with less than 4 GiB of memory a WALMaxUnflushed of 256 MiB is.
func DefaultConfig() Config {
	const mib = 1 << 20
	return Config{
		WALBatchBytes:     8 * mib,
		WALBatchInterval:  250 * time.Millisecond,
		WALMaxUnflushed:   1024 * mib,
		WALInflight:       50,
		WALReadahead:      100 * mib,
		WALRecoverBlock:   512 * mib,
		WALTrimPersist:    time.Second,
		WALMaxPutAge:      10 * time.Minute,
		WALFenceRetention: 7 * 24 * time.Hour,

		CacheWALSize:      200 * mib,
		CacheBlockSize:    100 * mib,
		CacheIndexSize:    100 * mib,
		CacheMaxStreams:   10_000,
		ReadaheadStep:     mib / 2,
		ReadaheadMax:      32 * mib,
		ReadaheadCooldown: time.Minute,

		UploadThreshold:   100 * mib,
		UploadInterval:    time.Minute,
		UploadStreamSplit: 8 * mib,
		UploadPrepareTTL:  time.Hour,
		ObjectBlockSize:   mib,
		ObjectPartSize:    16 * mib,

		CompactInterval:         20 * time.Minute,
		CompactRetry:            10 * time.Second,
		CompactCache:            200 * mib,
		CompactSplit:            8 * mib,
		CompactMaxObjects:       500,
		CompactMaxStreams:       10_000,
		CompactMaxStreamObjects: 5000,
		CompactForceSplitAge:    2 * time.Hour,
		CompactMinorInterval:    10 * time.Minute,
		CompactMajorInterval:    time.Hour,
		CompactMaxStreamObject:  1024 * mib,
		CompactPrepareTTL:       24 * time.Hour,
		CompactBandwidth:        256 * mib,

		GCInterval: 10 * time.Second,
		GCGrace:    10 * time.Minute,
		GCBatch:    2000,
	}
}

// uploadThreshold is the threshold in force (LC-8).
func (c Config) uploadThreshold() int64 {
	return max(min(c.UploadThreshold, c.CacheWALSize/3), 1<<20)
}

// recoverBlock is how much recovery commits at once, in force: with [commitsAhead] blocks and one more it holds less than
// the log cache.
func (c Config) recoverBlock() int64 {
	return max(min(c.WALRecoverBlock, c.CacheWALSize/(commitsAhead+2)), 1)
}

// ErrInvalidOptions is returned by [Open] before it does anything.
var ErrInvalidOptions = errors.New("invalid options of the stream engine")

// check accepts the options that an engine can run with.
func (o Options) check() error {
	missing := func(what string) error { return fmt.Errorf("%w: no %s", ErrInvalidOptions, what) }
	switch {
	case o.Catalog == nil:
		return missing("catalog")
	case o.WAL == nil:
		return missing("store for the log")
	case o.Data == nil:
		return missing("store for data")
	case o.Proof == nil:
		return missing("proof of the node's epoch")
	case o.Node < 0:
		return fmt.Errorf("%w: node %d", ErrInvalidOptions, o.Node)
	}
	if err := objstore.CheckKey(WALPrefix{Cluster: o.Cluster, Node: o.Node}.Key(WALKey{})); err != nil {
		return fmt.Errorf("%w: cluster %q: %w", ErrInvalidOptions, o.Cluster, err)
	}
	return o.Config.check()
}

func (c Config) check() error {
	for name, positive := range map[string]int64{
		"WALBatchBytes": int64(c.WALBatchBytes), "WALMaxUnflushed": c.WALMaxUnflushed,
		"WALReadahead": c.WALReadahead, "WALRecoverBlock": c.WALRecoverBlock,
		"WALTrimPersist": int64(c.WALTrimPersist), "WALMaxPutAge": int64(c.WALMaxPutAge),
		"CacheWALSize": c.CacheWALSize, "CacheBlockSize": c.CacheBlockSize, "CacheIndexSize": c.CacheIndexSize,
		"CacheMaxStreams": int64(c.CacheMaxStreams), "UploadThreshold": c.UploadThreshold,
		"UploadInterval": int64(c.UploadInterval), "UploadStreamSplit": c.UploadStreamSplit,
		"UploadPrepareTTL": int64(c.UploadPrepareTTL), "ObjectBlockSize": int64(c.ObjectBlockSize),
		"CompactInterval": int64(c.CompactInterval), "GCInterval": int64(c.GCInterval),
	} {
		if positive <= 0 {
			return fmt.Errorf("%w: %s is %d, want more than 0", ErrInvalidOptions, name, positive)
		}
	}
	switch {
	case c.WALBatchInterval < 0:
		return fmt.Errorf("%w: WALBatchInterval is %v, want 0 or more", ErrInvalidOptions, c.WALBatchInterval)
	case c.WALInflight < 1 || c.WALInflight > maxInflight:
		return fmt.Errorf("%w: WALInflight is %d, want 1 to %d", ErrInvalidOptions, c.WALInflight, maxInflight)
	case c.WALFenceRetention < 10*c.WALMaxPutAge:
		return fmt.Errorf("%w: WALFenceRetention is %v, want at least 10 times WALMaxPutAge (%v)",
			ErrInvalidOptions, c.WALFenceRetention, c.WALMaxPutAge)
	}
	return nil
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Config == (Config{}) {
		o.Config = DefaultConfig()
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Incarnation == [16]byte{} {
		_, _ = rand.Read(o.Incarnation[:]) // never fails
	}
	return o
}

// maxInflight bounds how far a writer may run ahead of its first unfinished window; recovery relies on it (WAL-16).
const maxInflight = 64

// walLimits are the settings of the WAL. Its own bound on records in flight is left open: the gate in front of it counts
// the same bytes, and admits records together that the bound would separate.
func (c Config) walLimits() walLimits {
	return walLimits{
		batchBytes:    c.WALBatchBytes,
		batchInterval: c.WALBatchInterval,
		maxUnflushed:  math.MaxInt64,
		inflight:      int64(c.WALInflight),
		maxPutAge:     c.WALMaxPutAge,
	}
}
