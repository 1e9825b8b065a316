package node

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/broker"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// StreamConfig are the settings of streams, named in their comments. A zero value is the default.
type StreamConfig struct {
	// StoreInflight [store.inflight] is how many calls of the object store may be in flight, beside the puts of the log,
	// which WALInflight bounds. The default is 25 for each core, 50 to 1000.
	StoreInflight int

	WALBatchBytes    int64         // [wal.batch_bytes] of one object of the log; 8 MiB, at most a quarter of CacheWALSize
	WALBatchInterval time.Duration // [wal.batch_interval] between two of them; 250 ms, 5 ms if the store is local; negative is none
	WALMaxUnflushed  int64         // [wal.max_unflushed] bytes not acknowledged; 1 GiB, 256 MiB with a memory limit below 4 GiB
	WALInflight      int           // [wal.inflight] objects of the log in flight, 1 to 64; 50
	WALReadahead     int64         // [wal.readahead] bytes read ahead of a dead node's log; 100 MiB, or what the memory limit leaves

	CacheWALSize   int64 // [cache.wal_size] bytes; 200 MiB, or what the memory limit leaves
	CacheBlockSize int64 // [cache.block_size] bytes; 100 MiB, or what the memory limit leaves
	CacheIndexSize int64 // [cache.index_size] bytes; 100 MiB, or what the memory limit leaves

	UploadThreshold int64         // [upload.threshold] bytes; 100 MiB; a third of CacheWALSize bounds it
	UploadInterval  time.Duration // [upload.interval] 1 min

	CompactInterval      time.Duration // [compact.interval] 20 min
	CompactMinorInterval time.Duration // [compact.minor_interval] 10 min
	CompactMajorInterval time.Duration // [compact.major_interval] 1 h
	CompactCache         int64         // [compact.cache] bytes; 200 MiB, or what the memory limit leaves
	CompactBandwidth     int64         // [compact.bandwidth] bytes a second; a quarter of NetBandwidth; negative is no bound
	NetBandwidth         int64         // [net.bandwidth] bytes a second; 1 GiB

	GCInterval time.Duration // [gc.interval] 10 s
	GCGrace    time.Duration // [gc.grace] 10 min
}

// CheckStreams reports everything that is wrong with the settings of streams, by their names: invalid values, and caches
// that do not fit into MemoryLimit beside everything else.
func (c Config) CheckStreams() error {
	_, err := c.streamConfig()
	return err
}

// streamConfig are the settings of this node's stream engine.
func (c Config) streamConfig() (stream.Config, error) {
	budgets := c.memoryBudgets()
	made := c.Streams.config(c.MemoryLimit, budgets.streams, kindOfStore(c.Store))
	return made, errors.Join(c.Streams.check(made), c.Streams.checkMemory(made, c.MemoryLimit, budgets))
}

// check finds values that are invalid, by themselves or together.
func (s StreamConfig) check(made stream.Config) error {
	var wrong []error
	refuse := func(refused bool, name string, value any, expected string, args ...any) {
		if refused {
			wrong = append(wrong, fmt.Errorf("%s is %v: expected %s", name, value, fmt.Sprintf(expected, args...)))
		}
	}
	refuse(s.StoreInflight < 0, "store.inflight", s.StoreInflight, "at least 1")
	refuse(made.WALInflight < 1 || made.WALInflight > 64, "wal.inflight", made.WALInflight, "1 to 64")
	refuse(made.WALBatchBytes > stream.Window, "wal.batch_bytes", made.WALBatchBytes, "at most %d", stream.Window)
	refuse(int64(made.WALBatchBytes) > made.CacheWALSize, "wal.batch_bytes", made.WALBatchBytes,
		"at most cache.wal_size, which is %d", made.CacheWALSize)
	net := cmp.Or(s.NetBandwidth, defaultNetBandwidth)
	refuse(made.CompactBandwidth > net, "compact.bandwidth", made.CompactBandwidth, "at most net.bandwidth, which is %d", net)
	refuse(made.CompactMinorInterval > made.CompactMajorInterval, "compact.minor_interval", made.CompactMinorInterval,
		"at most compact.major_interval, which is %v", made.CompactMajorInterval)
	for _, least := range []struct {
		name  string
		value int64
	}{
		{"wal.batch_bytes", int64(made.WALBatchBytes)}, {"wal.max_unflushed", made.WALMaxUnflushed},
		{"wal.readahead", made.WALReadahead}, {"cache.wal_size", made.CacheWALSize}, {"cache.block_size", made.CacheBlockSize},
		{"cache.index_size", made.CacheIndexSize}, {"upload.threshold", made.UploadThreshold}, {"compact.cache", made.CompactCache},
		{"upload.interval", int64(made.UploadInterval)}, {"compact.interval", int64(made.CompactInterval)},
		{"compact.minor_interval", int64(made.CompactMinorInterval)}, {"gc.interval", int64(made.GCInterval)},
		{"gc.grace", int64(made.GCGrace)}, {"net.bandwidth", net},
	} {
		refuse(least.value < 1, least.name, least.value, "more than 0")
	}
	return errors.Join(wrong...)
}

// checkMemory refuses caches that were set and do not fit into the memory limit. Those that were not set are made to fit
// as well as possible.
func (s StreamConfig) checkMemory(made stream.Config, limit int64, b budgets) error {
	var set []string
	for _, h := range s.holders(&made) {
		if h.set > 0 {
			set = append(set, fmt.Sprintf("%s %d", h.name, h.set))
		}
	}
	left, need := limit-b.requests-b.unsynced, engineMemory(made)
	if limit <= 0 || len(set) == 0 || need <= left {
		return nil
	}
	return fmt.Errorf("streams may hold %d bytes with %s: expected at most %d, which is what the memory limit of %d leaves beside "+
		"requests (%d) and records that are not synced (%d)", need, strings.Join(set, ", "), max(left, 0), limit, b.requests, b.unsynced)
}

// streamSettings lists the settings of streams, with the values in force.
func (c Config) streamSettings() []broker.ServerConfig {
	made, _ := c.streamConfig() // checked when the node was opened
	byDefault := StreamConfig{}.config(c.MemoryLimit, c.memoryBudgets().streams, kindOfStore(c.Store))
	size := func(name string, value, byDefault int64, doc string) broker.ServerConfig {
		s := number(name, value, byDefault, doc)
		s.Value, s.Type = strconv.FormatInt(value, 10), topicconfig.Long
		return s
	}
	wait := func(name string, value, byDefault time.Duration, doc string) broker.ServerConfig {
		return size(name, value.Milliseconds(), byDefault.Milliseconds(), doc+" In milliseconds.")
	}
	net := cmp.Or(c.Streams.NetBandwidth, defaultNetBandwidth)
	return []broker.ServerConfig{
		number("store.inflight", int64(c.Streams.StoreInflight), int64(objstore.DefaultCalls()),
			"How many calls of the object store may be in flight, beside the puts of the log."),
		size("wal.batch_bytes", int64(made.WALBatchBytes), int64(byDefault.WALBatchBytes), "How long one object of the streams' log may be."),
		wait("wal.batch_interval", made.WALBatchInterval, byDefault.WALBatchInterval, "The shortest time between two of them that are not full."),
		size("wal.max_unflushed", made.WALMaxUnflushed, byDefault.WALMaxUnflushed, "How much may wait to be acknowledged."),
		number("wal.inflight", int64(made.WALInflight), int64(byDefault.WALInflight), "How many objects of the log may be in flight at once."),
		size("wal.readahead", made.WALReadahead, byDefault.WALReadahead, "How much of a dead node's log is read ahead."),
		size("cache.wal_size", made.CacheWALSize, byDefault.CacheWALSize, "The cache of records that are not uploaded yet, or were recently."),
		size("cache.block_size", made.CacheBlockSize, byDefault.CacheBlockSize, "The cache of what was read from the object store."),
		size("cache.index_size", made.CacheIndexSize, byDefault.CacheIndexSize, "The cache of the objects' indexes."),
		size("upload.threshold", made.UploadThreshold, byDefault.UploadThreshold, "How much of the log is uploaded at once, up to a third of its cache."),
		wait("upload.interval", made.UploadInterval, byDefault.UploadInterval, "How old a record may get before it is uploaded."),
		wait("compact.interval", made.CompactInterval, byDefault.CompactInterval, "The pause between two rounds over objects of several streams."),
		wait("compact.minor_interval", made.CompactMinorInterval, byDefault.CompactMinorInterval, "The pause between two passes over a stream's small objects."),
		wait("compact.major_interval", made.CompactMajorInterval, byDefault.CompactMajorInterval, "The pause between two passes over all of a stream's objects."),
		size("compact.cache", made.CompactCache, byDefault.CompactCache, "How much memory compaction may use."),
		size("compact.bandwidth", made.CompactBandwidth, byDefault.CompactBandwidth, "How many bytes a second compaction reads and writes; 0 is no bound."),
		size("net.bandwidth", net, defaultNetBandwidth, "How many bytes a second this machine can send to the object store."),
		wait("gc.interval", made.GCInterval, byDefault.GCInterval, "The pause between two looks at objects that nothing uses."),
		wait("gc.grace", made.GCGrace, byDefault.GCGrace, "How long an object that nothing uses stays."),
	}
}
