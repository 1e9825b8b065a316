package node

import (
	"cmp"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/stream"
)

// storeKind is the property of a bucket on which the defaults of a stream engine depend.
type storeKind int

const (
	cloudStore storeKind = iota // each request costs money and tens of milliseconds
	localStore                  // a directory or memory: a request costs a sync at most
)

// kindOfStore returns the kind of the store at a URL. Without a URL it is a directory.
func kindOfStore(storeURL string) storeKind {
	_, local, _ := localPath(storeURL)
	if local || strings.HasPrefix(storeURL, "file:") || strings.HasPrefix(storeURL, "mem:") {
		return localStore
	}
	return cloudStore
}

// The parts of the memory limit. What is left is for connections, groups, metadata, indexes and garbage that Go has not
// collected yet.
//
//	requests   a quarter, at most 1 GiB   requests that are not answered yet; the caller decides it
//	unsynced   an eighth, at most 256 MiB  records that no sync covers yet
//	streams    three eighths              the log, caches, uploads and compaction of the stream engine
//
// Requests have a floor of their own, two of the largest; below some 500 MiB streams get what that leaves.
const (
	unsyncedShare = 8
	mebibyte      = 1 << 20
)

// budgets are the parts of the memory limit in bytes.
type budgets struct {
	requests, unsynced, streams int64
}

// divideMemory returns what each part of a node may hold. limit is the memory limit; 0 means none, and then streams get
// 0, which stands for their defaults. requests and unsynced are configured values, 0 for none.
func divideMemory(limit, requests, unsynced int64) budgets {
	b := budgets{requests: cmp.Or(requests, 256*mebibyte), unsynced: cmp.Or(unsynced, partition.DefaultMaxUnsyncedBytes)}
	if limit <= 0 {
		return b
	}
	if unsynced == 0 {
		b.unsynced = min(limit/unsyncedShare, partition.DefaultMaxUnsyncedBytes)
	}
	left := limit - b.requests - b.unsynced
	b.streams = max(min(limit*3/8, left*3/4), leastStreams)
	return b
}

// memoryBudgets are the budgets of a node.
func (c Config) memoryBudgets() budgets {
	return divideMemory(c.MemoryLimit, c.QueuedMaxRequestBytes, c.MaxUnsyncedBytes)
}

const (
	leastStreams = 16 * mebibyte // an engine works with less, but not well
	maxGrowth    = 8             // upper bound for the growth of defaults on a machine with much memory
	muchMemory   = 4 << 30       // from here on the specification's default for unacknowledged bytes applies
)

// config returns the settings of a stream engine that may hold share bytes, on a machine whose memory limit is limit, 0
// for none. They are those of section 11 of the specification, with its exceptions for small machines and local stores.
// Sizes of memory that were not set are scaled to the part of the share that the others leave.
func (s StreamConfig) config(limit, share int64, kind storeKind) stream.Config {
	c := stream.DefaultConfig()
	if kind == localStore {
		c.WALBatchInterval = 5 * time.Millisecond
	}
	if limit > 0 && limit < muchMemory {
		c.WALMaxUnflushed = 256 * mebibyte
	}
	s.divide(&c, limit, share)
	if limit > 0 || s.CacheWALSize > 0 {
		c.WALMaxUnflushed = min(c.WALMaxUnflushed, c.CacheWALSize) // the cache bounds it anyway
		c.WALBatchBytes = int(min(int64(c.WALBatchBytes), c.CacheWALSize/4))
	}
	if limit > 0 || s.CacheBlockSize > 0 {
		c.ReadaheadMax = min(c.ReadaheadMax, c.CacheBlockSize/4)
		c.ReadaheadStep = min(c.ReadaheadStep, c.ReadaheadMax)
	}
	s.apply(&c)
	return c
}

// divide sets the sizes of everything that holds memory.
func (s StreamConfig) divide(c *stream.Config, limit, share int64) {
	var whole int64 // the defaults of those that were not set
	for _, h := range s.holders(c) {
		if h.set > 0 {
			*h.size = h.set
			share -= h.set * h.times
			continue
		}
		whole += *h.size * h.times
	}
	if limit <= 0 {
		return
	}
	share = max(share, leastStreams)
	for _, h := range s.holders(c) {
		if h.set == 0 {
			*h.size = max(min(int64(float64(*h.size)*float64(share)/float64(whole)), *h.size*h.growth), 1)
		}
	}
}

// apply sets everything that was configured and holds no memory.
func (s StreamConfig) apply(c *stream.Config) {
	c.CompactBandwidth = cmp.Or(s.NetBandwidth, defaultNetBandwidth) / 4
	for field, value := range map[*int64]int64{
		&c.WALMaxUnflushed: s.WALMaxUnflushed, &c.UploadThreshold: s.UploadThreshold, &c.CompactBandwidth: s.CompactBandwidth,
	} {
		*field = cmp.Or(value, *field)
	}
	for field, value := range map[*time.Duration]time.Duration{
		&c.WALBatchInterval: s.WALBatchInterval, &c.UploadInterval: s.UploadInterval, &c.CompactInterval: s.CompactInterval,
		&c.CompactMinorInterval: s.CompactMinorInterval, &c.CompactMajorInterval: s.CompactMajorInterval,
		&c.GCInterval: s.GCInterval, &c.GCGrace: s.GCGrace,
	} {
		*field = cmp.Or(value, *field)
	}
	c.WALBatchBytes = cmp.Or(int(s.WALBatchBytes), c.WALBatchBytes)
	c.WALInflight = cmp.Or(s.WALInflight, c.WALInflight)
	c.WALBatchInterval, c.CompactBandwidth = max(c.WALBatchInterval, 0), max(c.CompactBandwidth, 0)
}

// defaultNetBandwidth is the assumed bandwidth of a machine, in bytes a second.
const defaultNetBandwidth = 1 << 30

// holder is a setting that holds memory.
type holder struct {
	name   string
	size   *int64
	set    int64 // configured value, or 0
	times  int64 // how many times its size is held
	growth int64 // how many times its default it may get
}

// holders estimates what an engine holds at most, by setting.
func (s StreamConfig) holders(c *stream.Config) []holder {
	return []holder{
		// The log cache with unacknowledged records, the objects that it becomes, and as much of a dead node's log.
		{"cache.wal_size", &c.CacheWALSize, s.CacheWALSize, 3, maxGrowth},
		{"wal.readahead", &c.WALReadahead, s.WALReadahead, 1, 1},
		// The block cache, and as much again for reads in progress.
		{"cache.block_size", &c.CacheBlockSize, s.CacheBlockSize, 2, maxGrowth},
		{"cache.index_size", &c.CacheIndexSize, s.CacheIndexSize, 1, maxGrowth},
		{"compact.cache", &c.CompactCache, s.CompactCache, 1, 1},
	}
}

// engineMemory estimates how many bytes an engine holds at most.
func engineMemory(c stream.Config) (all int64) {
	for _, h := range (StreamConfig{}).holders(&c) {
		all += *h.size * h.times
	}
	return all
}
