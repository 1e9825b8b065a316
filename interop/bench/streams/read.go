package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
)

// measureTail reads each append after it was acknowledged, and counts the requests of reading.
func measureTail(ctx context.Context, _ options, b *bucket, r *report) error {
	n, err := newNode(ctx, b, func(c *stream.Config) { c.WALBatchInterval = time.Millisecond })
	if err != nil {
		return err
	}
	streams, err := n.streams(ctx, 64)
	if err != nil {
		return err
	}
	const records = 2000
	var reads int64
	var l latencies
	for i := range records {
		s := streams[i%len(streams)]
		base, err := s.Append(ctx, 1, payload(1024))
		if err != nil {
			return err
		}
		before, began := n.store.bill(), time.Now()
		got, err := s.Fetch(ctx, stream.FetchRequest{Start: base, End: base + 1, MaxBytes: 1 << 20})
		if err != nil || len(got.Records) != 1 {
			return fmt.Errorf("read %d record(s) of 1: %w", len(got.Records), err)
		}
		l.add(time.Since(began))
		reads += n.store.bill().since(before).reads
	}
	r.tail(b.kind, records, reads, l)
	return n.close(ctx)
}

// scanRounds is how often a scan and the bare reads take turns.
const scanRounds = 5

// bareParallel are the tested numbers of parallel bare reads; the best one counts.
func bareParallel() []int { return []int{4, 16, 32} }

// measureScan reads one stream from its objects with cold caches, in turn with parallel range GETs of the same objects.
func measureScan(ctx context.Context, o options, b *bucket, r *report) error {
	n, err := newNode(ctx, b, func(c *stream.Config) {})
	if err != nil {
		return err
	}
	streams, err := n.streams(ctx, 1)
	if err != nil {
		return err
	}
	if err := fill(ctx, n, streams, o.bytes); err != nil {
		return err
	}
	id, end := streams[0].ID(), streams[0].Confirm()
	if err := n.Engine.Close(ctx); err != nil {
		return err
	}
	var scans []float64
	bare := make([][]float64, len(bareParallel()))
	var cost bill
	for range scanRounds {
		before := n.store.bill()
		rate, err := n.scan(ctx, id, end)
		if err != nil {
			return err
		}
		scans, cost = append(scans, rate), n.store.bill().since(before)
		for i, parallel := range bareParallel() {
			if rate, err = getAll(ctx, n.store, parallel); err != nil {
				return err
			}
			bare[i] = append(bare[i], rate)
		}
	}
	r.scan(b.kind, scans, slices.MaxFunc(bare, func(a, b []float64) int { return cmp.Compare(median(a), median(b)) }))
	r.reading(b.kind, o.bytes, cost)
	return n.close(ctx)
}

// scan reopens the engine and reads a stream from its start to its end; it returns bytes a second.
func (n *testNode) scan(ctx context.Context, id streamID, end int64) (float64, error) {
	if err := n.reopen(ctx); err != nil {
		return 0, err
	}
	row, _ := n.options.Catalog.View().Stream(id)
	s, err := n.OpenStream(ctx, id, row.Epoch+1)
	if err != nil {
		return 0, err
	}
	bytes, began := 0, time.Now()
	for at := int64(0); at < end; {
		got, err := s.Fetch(ctx, stream.FetchRequest{Start: at, End: end, MaxBytes: 1 << 20})
		if err != nil {
			return 0, err
		}
		for _, record := range got.Records {
			bytes += len(record.Payload)
			at = record.End()
		}
	}
	rate := float64(bytes) / time.Since(began).Seconds()
	return rate, n.Engine.Close(ctx)
}

// dataObjects lists the objects with the engine's data, excluding the log.
func dataObjects(ctx context.Context, s *counted) ([]objstore.Info, error) {
	var objects []objstore.Info
	request := objstore.ListRequest{}
	for {
		page, err := s.Store.List(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Objects {
			if _, err := stream.ParseDataKey(stream.DefaultNamespace, info.Key); err == nil {
				objects = append(objects, info)
			}
		}
		if request.Token = page.Next; request.Token == "" {
			return objects, nil
		}
	}
}

// getAll reads the data objects in ranges of 1 MiB, that many at once, into reused memory; it returns bytes a second.
func getAll(ctx context.Context, s *counted, parallel int) (float64, error) {
	const piece = 1 << 20
	objects, err := dataObjects(ctx, s)
	if err != nil {
		return 0, err
	}
	type part struct {
		key string
		off int64
		n   int64
	}
	parts := make(chan part)
	var read atomic.Int64
	var failed atomic.Value
	var group sync.WaitGroup
	began := time.Now()
	for range parallel {
		group.Go(func() {
			buf := make([]byte, piece)
			for p := range parts {
				if err := s.Store.ReadRange(ctx, p.key, buf[:p.n], p.off); err != nil {
					failed.Store(err)
				}
				read.Add(p.n)
			}
		})
	}
	for _, info := range objects {
		for off := int64(0); off < info.Size; off += piece {
			parts <- part{info.Key, off, min(piece, info.Size-off)}
		}
	}
	close(parts)
	group.Wait()
	if err, _ := failed.Load().(error); err != nil {
		return 0, err
	}
	return float64(read.Load()) / time.Since(began).Seconds(), nil
}

// measureRecovery writes a log, leaves it as a crash would, and opens the next epoch. Recovery has to write as much as
// one upload of the same bytes, which is measured too.
func measureRecovery(ctx context.Context, o options, b *bucket, r *report) error {
	n, err := newNode(ctx, b, func(c *stream.Config) {
		c.CacheWALSize, c.UploadThreshold, c.UploadInterval = 4*o.bytes, 2*o.bytes, time.Hour // nothing is uploaded
	})
	if err != nil {
		return err
	}
	streams, err := n.streams(ctx, 64)
	if err != nil {
		return err
	}
	if err := fill(ctx, n, streams, o.bytes); err != nil {
		return err
	}
	bare, err := bareUpload(ctx, n.store, o.bytes)
	if err != nil {
		return err
	}
	crashed := n.Engine // it lives on, like a paused process; the next epoch fences it
	began := time.Now()
	n.options.Config.CacheWALSize, n.options.Config.UploadThreshold = stream.DefaultConfig().CacheWALSize, stream.DefaultConfig().UploadThreshold
	if err := n.reopen(ctx); err != nil {
		return err
	}
	r.recovery(b.kind, o.bytes, time.Since(began), bare)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = crashed.Close(ended)
	return n.close(ctx)
}

// bareUpload writes one object in pieces of 1 MiB, as the engine does.
func bareUpload(ctx context.Context, s *counted, bytes int64) (time.Duration, error) {
	piece, began := payload(1<<20), time.Now()
	up, err := s.Store.Create(ctx, fmt.Sprintf("bare/upload-%d", bytes))
	if err != nil {
		return 0, err
	}
	for left := bytes; left > 0; left -= int64(len(piece)) {
		if _, err := up.Write(piece[:min(left, int64(len(piece)))]); err != nil {
			return 0, errors.Join(err, up.Abort())
		}
	}
	if err := up.Finish(); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// memoryClients is how many appends are in flight while memory is measured.
const memoryClients = 1024

// manyStreams is how many streams the memory is measured with.
const manyStreams = 10_000

// measureMemory opens many streams, appends to all of them for a while, and looks at the heap above the caches.
func measureMemory(ctx context.Context, o options, b *bucket, r *report) error {
	for range 3 { // pools of earlier measurements are empty after two
		runtime.GC()
	}
	before := heap()
	n, err := newNode(ctx, b, func(c *stream.Config) {
		c.CacheWALSize, c.CacheBlockSize, c.CacheIndexSize = 64<<20, 32<<20, 16<<20
		c.WALMaxUnflushed = 32 << 20
	})
	if err != nil {
		return err
	}
	streams, err := n.streams(ctx, manyStreams)
	if err != nil {
		return err
	}
	var peak atomic.Int64
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { watchHeap(watching, &peak) })
	end := time.Now().Add(o.phase)
	var failed atomic.Value
	var appenders sync.WaitGroup
	for c := range memoryClients {
		appenders.Go(func() {
			for i := c; time.Now().Before(end); i += memoryClients {
				if _, err := streams[i%len(streams)].Append(ctx, 1, payload(1024)); err != nil {
					failed.Store(err)
					return
				}
			}
		})
	}
	appenders.Wait()
	stop()
	group.Wait()
	if err, _ := failed.Load().(error); err != nil {
		return err
	}
	c := n.options.Config
	r.memory(b.kind, peak.Load()-before, c.CacheWALSize+c.CacheBlockSize+c.CacheIndexSize+c.WALMaxUnflushed)
	return n.close(ctx)
}

// heap is the bytes of objects that are reachable or not yet swept.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// watchHeap repeatedly collects and samples the heap, to measure what the engine holds and not what the collector has yet
// to find.
func watchHeap(ctx context.Context, peak *atomic.Int64) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		runtime.GC()
		if now := heap(); now > peak.Load() {
			peak.Store(now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
