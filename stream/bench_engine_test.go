package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// BenchmarkAppend has 64 streams append at once over a store in memory, each with so many records under way: what the
// engine itself costs, uploads included.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10} {
		for _, underWay := range []int{1, 64} {
			b.Run(fmt.Sprintf("%dB-%d", size, underWay), func(b *testing.B) { benchmarkAppend(b, size, underWay) })
		}
	}
}

func benchmarkAppend(b *testing.B, size, underWay int) {
	ctx := context.Background()
	config := stream.DefaultConfig()
	config.WALBatchInterval = time.Millisecond
	engine, err := stream.Open(ctx, stream.Options{
		Catalog: catalogtest.NewMemory(time.Now), Node: 1, Cluster: "tm-1", WAL: mem.New(), Data: mem.New(), Proof: time.Now,
		Config: config,
	})
	require.NoError(b, err)
	const streams = 64
	first, err := engine.CreateStreams(ctx, streams)
	require.NoError(b, err)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range streams {
		s, err := engine.OpenStream(ctx, first+catalog.StreamID(i), 1)
		require.NoError(b, err)
		all.Go(func() { appendMany(b, engine, s, b.N/streams+1, size, underWay) })
	}
	all.Wait()
	b.StopTimer()
	require.NoError(b, engine.Close(ctx))
}

// appendMany appends records and waits for each once so many others are under way.
func appendMany(b *testing.B, engine *stream.Engine, s *stream.Stream, count, size, underWay int) {
	ctx := context.Background()
	var acks []*stream.Ack
	for range count {
		room, err := engine.Admit(ctx, 1, size)
		if err != nil {
			b.Error(err)
			return
		}
		ack, err := s.Submit(room, 1, make([]byte, size))
		room.Release()
		if err != nil {
			b.Error(err)
			return
		}
		if acks = append(acks, ack); len(acks) == underWay {
			if err := acks[0].Wait(ctx); err != nil {
				b.Error(err)
			}
			acks = acks[1:]
		}
	}
	for _, ack := range acks {
		if err := ack.Wait(ctx); err != nil {
			b.Error(err)
		}
	}
}
