package node

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream"
)

func TestWhatIsSetOfStreamsIsWhatTheEngineGets(t *testing.T) {
	const mib = mebibyte
	set := StreamConfig{
		StoreInflight: 7, WALBatchBytes: 3 * mib, WALBatchInterval: 30 * time.Millisecond, WALMaxUnflushed: 11 * mib, WALInflight: 5,
		WALReadahead: 6 * mib, CacheWALSize: 50 * mib, CacheBlockSize: 20 * mib, CacheIndexSize: 9 * mib, UploadThreshold: 12 * mib,
		UploadInterval: 13 * time.Second, CompactInterval: 14 * time.Minute, CompactMinorInterval: 15 * time.Minute,
		CompactMajorInterval: 16 * time.Minute, CompactCache: 17 * mib, CompactBandwidth: 18 * mib, NetBandwidth: 190 * mib,
		GCInterval: 20 * time.Second, GCGrace: 21 * time.Minute,
	}
	for _, limit := range []int64{0, gibibyte, 64 * gibibyte} {
		c, err := Config{Streams: set, MemoryLimit: limit, Store: "s3://b"}.streamConfig()
		require.NoError(t, err)
		want := stream.DefaultConfig()
		want.WALBatchBytes, want.WALBatchInterval, want.WALMaxUnflushed, want.WALInflight = 3*mib, 30*time.Millisecond, 11*mib, 5
		want.WALReadahead, want.CacheWALSize, want.CacheBlockSize, want.CacheIndexSize = 6*mib, 50*mib, 20*mib, 9*mib
		want.UploadThreshold, want.UploadInterval, want.CompactInterval = 12*mib, 13*time.Second, 14*time.Minute
		want.CompactMinorInterval, want.CompactMajorInterval = 15*time.Minute, 16*time.Minute
		want.CompactCache, want.CompactBandwidth = 17*mib, 18*mib
		want.GCInterval, want.GCGrace = 20*time.Second, 21*time.Minute
		want.ReadaheadMax = 5 * mib // a quarter of the block cache
		require.Equal(t, want, c, "limit %d", limit)
	}
	c, err := Config{Streams: StreamConfig{NetBandwidth: 100 * mib, WALBatchInterval: -1}}.streamConfig()
	require.NoError(t, err)
	require.Equal(t, []any{int64(25 * mib), time.Duration(0)}, []any{c.CompactBandwidth, c.WALBatchInterval})
	c, err = Config{Streams: StreamConfig{CompactBandwidth: -1}}.streamConfig()
	require.NoError(t, err)
	require.Zero(t, c.CompactBandwidth)
}

func TestCachesThatNobodyHasSetShareWhatOthersLeave(t *testing.T) {
	const mib = mebibyte
	c, err := Config{MemoryLimit: 2 * gibibyte, Streams: StreamConfig{CacheWALSize: 64 * mib}}.streamConfig()
	require.NoError(t, err)
	plain, err := Config{MemoryLimit: 2 * gibibyte}.streamConfig()
	require.NoError(t, err)
	require.Equal(t, []any{int64(64 * mib), true, true}, []any{
		c.CacheWALSize, c.CacheBlockSize > plain.CacheBlockSize, engineMemory(c) <= 768*mib,
	}, "the others get what it does not take")
	c, err = Config{MemoryLimit: 2 * gibibyte, Streams: StreamConfig{CacheWALSize: 250 * mib}}.streamConfig()
	require.NoError(t, err)
	require.Less(t, c.CacheBlockSize, plain.CacheBlockSize, "and less beside a larger one")
}

func TestCachesBeyondTheMemoryLimitAreRefusedWithWhatThereIs(t *testing.T) {
	c := Config{MemoryLimit: gibibyte, QueuedMaxRequestBytes: 256 * mebibyte, Streams: StreamConfig{CacheWALSize: gibibyte, CompactCache: 1 << 20}}
	require.EqualError(t, c.CheckStreams(), "streams may hold 3239051264 bytes with cache.wal_size 1073741824, compact.cache 1048576: "+
		"expected at most 671088640, which is what the memory limit of 1073741824 leaves beside requests (268435456) and "+
		"records that are not synced (134217728)")
	c.DataDir = "/data"
	require.ErrorContains(t, c.withDefaults().validate(), "cache.wal_size 1073741824", "a node does not start with it")
	c.MemoryLimit = 0
	require.NoError(t, c.CheckStreams(), "without a limit there is nothing to exceed")
	require.NoError(t, Config{MemoryLimit: 64 * mebibyte}.CheckStreams(), "what nobody has set is never refused")
}

func TestSettingsOfStreamsThatCannotBeAreRefusedByTheirNames(t *testing.T) {
	for want, s := range map[string]StreamConfig{
		"wal.inflight is 65: expected 1 to 64":                                                       {WALInflight: 65},
		"store.inflight is -1: expected at least 1":                                                  {StoreInflight: -1},
		"wal.batch_bytes is 67108865: expected at most 67108864":                                     {WALBatchBytes: 64<<20 + 1},
		"wal.batch_bytes is 2097152: expected at most cache.wal_size, which is 1048576":              {WALBatchBytes: 2 << 20, CacheWALSize: 1 << 20},
		"compact.bandwidth is 3: expected at most net.bandwidth, which is 2":                         {CompactBandwidth: 3, NetBandwidth: 2},
		"compact.minor_interval is 2h0m0s: expected at most compact.major_interval, which is 1h0m0s": {CompactMinorInterval: 2 * time.Hour},
		"gc.grace is -1: expected more than 0":                                                       {GCGrace: -1},
		"wal.max_unflushed is -1: expected more than 0":                                              {WALMaxUnflushed: -1},
	} {
		require.EqualError(t, Config{Streams: s}.CheckStreams(), want)
	}
	err := Config{Streams: StreamConfig{WALInflight: 65, StoreInflight: -1}}.CheckStreams()
	require.Len(t, strings.Split(err.Error(), "\n"), 2, "all at once")
}

func TestTheSettingsOfStreamsInForceAreToldToAdministrators(t *testing.T) {
	c := Config{MemoryLimit: 2 * gibibyte, Store: "s3://b", Streams: StreamConfig{CacheWALSize: 64 << 20, WALBatchInterval: -1, StoreInflight: 9}}
	told := map[string][]string{}
	for _, s := range c.streamSettings() {
		require.NotEmpty(t, s.Doc)
		told[s.Name] = []string{s.Value, s.Default}
	}
	require.Equal(t, []string{"67108864", "134217728"}, told["cache.wal_size"])
	require.Equal(t, []string{"0", "250"}, told["wal.batch_interval"])
	require.Equal(t, "9", told["store.inflight"][0])
	require.Equal(t, []string{"600000", "600000"}, told["gc.grace"])
	require.Len(t, told, 19)
}
