package node

import (
	"cmp"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/stream"
)

// storeKind is what a stream engine has to know of a bucket to choose its settings.
type storeKind int

const (
	cloudStore storeKind = iota // each request costs money and tens of milliseconds
	localStore                  // a directory or memory: a request costs a sync at most
)

// kindOfStore is the kind of the store that a URL names. Without one it is a directory.
func kindOfStore(storeURL string) storeKind {
	_, local, _ := localPath(storeURL)
	if local || strings.HasPrefix(storeURL, "file:") || strings.HasPrefix(storeURL, "mem:") {
		return localStore
	}
	return cloudStore
}

// The parts of the memory limit. What is left is for connections, groups, metadata, indexes and what Go's collector has not
// collected yet.
//
//	requests   a quarter, at most 1 GiB   what clients have sent and is not answered; the caller decides it
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

// divideMemory says what each part of a node may hold. limit is the memory limit; 0 is none, and then streams are 0: what
// their defaults come to. requests and unsynced are what the configuration says of them, 0 is nothing.
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
	maxGrowth    = 8             // how many times the defaults a machine with much memory gets
	muchMemory   = 4 << 30       // from here on as much may be unacknowledged as the specification says
)

// streamConfig are the settings of a stream engine that may hold share bytes, on a machine whose memory limit is limit; 0 is
// none. They are those of section 11 of the specification, with its exceptions for small machines and local stores; what
// holds memory is scaled to the share.
func streamConfig(limit, share int64, kind storeKind) stream.Config {
	c := stream.DefaultConfig()
	if kind == localStore {
		c.WALBatchInterval = 5 * time.Millisecond
	}
	if limit <= 0 {
		return c
	}
	if limit < muchMemory {
		c.WALMaxUnflushed = 256 * mebibyte
	}
	whole := engineMemory(c)
	scale := func(size int64, growth int64) int64 {
		return max(min(int64(float64(size)*float64(share)/float64(whole)), size*growth), 1)
	}
	c.CacheWALSize, c.CacheBlockSize = scale(c.CacheWALSize, maxGrowth), scale(c.CacheBlockSize, maxGrowth)
	c.CacheIndexSize = scale(c.CacheIndexSize, maxGrowth)
	c.CompactCache, c.WALReadahead = scale(c.CompactCache, 1), scale(c.WALReadahead, 1)
	c.WALMaxUnflushed = min(c.WALMaxUnflushed, c.CacheWALSize) // which bounds it anyway
	c.WALBatchBytes = int(min(int64(c.WALBatchBytes), c.CacheWALSize/4))
	c.ReadaheadMax = min(c.ReadaheadMax, c.CacheBlockSize/4)
	c.ReadaheadStep = min(c.ReadaheadStep, c.ReadaheadMax)
	return c
}

// engineMemory is about what an engine holds at most.
func engineMemory(c stream.Config) int64 {
	log := 2 * c.CacheWALSize                      // the log cache with what is not acknowledged, and the objects that it becomes
	reads := 2*c.CacheBlockSize + c.CacheIndexSize // the block cache, and as much again that running reads wait for
	recovery := c.CacheWALSize + c.WALReadahead    // of a dead node's log, besides all else
	return log + reads + recovery + c.CompactCache
}
