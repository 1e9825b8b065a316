package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream"
)

const gibibyte = 1 << 30

func TestTheKindOfAStoreFollowsFromItsURL(t *testing.T) {
	for url, kind := range map[string]storeKind{
		"": localStore, "/var/objects": localStore, "file:///var/objects": localStore, "mem://": localStore,
		"s3://bucket/prefix": cloudStore, "gs://bucket": cloudStore, "azblob://container": cloudStore,
	} {
		require.Equal(t, kind, kindOfStore(url), url)
	}
}

func TestStreamsHaveTheDefaultsOfTheSpecificationWithTheirShareOfTheMemory(t *testing.T) {
	const mib = mebibyte
	for _, row := range []struct {
		limit int64
		kind  storeKind

		interval                              time.Duration
		unflushed, log, block, index, compact int64 // MiB
		batch                                 int64
	}{
		{0, cloudStore, 250 * time.Millisecond, 1024, 200, 100, 100, 200, 8},
		{0, localStore, 5 * time.Millisecond, 1024, 200, 100, 100, 200, 8},
		{512 * mib, localStore, 5 * time.Millisecond, 31, 31, 15, 15, 31, 7},
		{gibibyte, cloudStore, 250 * time.Millisecond, 64, 64, 32, 32, 64, 8},
		{2 * gibibyte, cloudStore, 250 * time.Millisecond, 128, 128, 64, 64, 128, 8},
		{4*gibibyte - 1, cloudStore, 250 * time.Millisecond, 255, 255, 127, 127, 200, 8},
		{8 * gibibyte, cloudStore, 250 * time.Millisecond, 512, 512, 256, 256, 200, 8},
		{32 * gibibyte, localStore, 5 * time.Millisecond, 1024, 1600, 800, 800, 200, 8},
		{512 * gibibyte, cloudStore, 250 * time.Millisecond, 1024, 1600, 800, 800, 200, 8},
	} {
		t.Run(fmt.Sprintf("%d MiB %d", row.limit/mib, row.kind), func(t *testing.T) {
			c := StreamConfig{}.config(row.limit, divideMemory(row.limit, requestBudget(row.limit), 0).streams, row.kind)
			require.Equal(t, []any{
				row.interval, row.unflushed, row.log, row.block, row.index, row.compact, row.batch,
			}, []any{
				c.WALBatchInterval, c.WALMaxUnflushed / mib, c.CacheWALSize / mib, c.CacheBlockSize / mib,
				c.CacheIndexSize / mib, c.CompactCache / mib, int64(c.WALBatchBytes / mib),
			})
		})
	}
}

// requestBudget is what the program gives requests by default: a quarter of the limit, at most 1 GiB, and at least two of the
// largest.
func requestBudget(limit int64) int64 {
	if limit == 0 {
		return 0
	}
	return max(min(limit/4, gibibyte), 200*mebibyte)
}

func TestTheBudgetsOfANodeStayBelowTheMemoryLimit(t *testing.T) {
	for limit := int64(288 * mebibyte); limit <= 256*gibibyte; limit += limit / 7 {
		b := divideMemory(limit, requestBudget(limit), 0)
		c := StreamConfig{}.config(limit, b.streams, cloudStore)
		require.LessOrEqual(t, engineMemory(c), b.streams, "limit %d: %+v", limit, c)
		require.Less(t, b.requests+b.unsynced+b.streams, limit, "limit %d: %+v", limit, b)
		require.Positive(t, c.WALBatchBytes)
		require.Positive(t, c.ReadaheadStep)
	}
}

func TestWhatTheConfigurationSaysOfABudgetIsTakenFromStreams(t *testing.T) {
	c := Config{MemoryLimit: gibibyte, QueuedMaxRequestBytes: 512 * mebibyte, MaxUnsyncedBytes: 256 * mebibyte}
	require.Equal(t, budgets{requests: 512 * mebibyte, unsynced: 256 * mebibyte, streams: 192 * mebibyte}, c.memoryBudgets())
	require.Equal(t, budgets{requests: 256 * mebibyte, unsynced: 256 * mebibyte}, Config{}.memoryBudgets())
	require.Equal(t, stream.DefaultConfig(), StreamConfig{}.config(0, 0, cloudStore))
}
