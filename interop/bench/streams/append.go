package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/stream"
)

// payload is bytes that do not compress.
func payload(size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(1, uint64(size)))
	for i := 0; i+8 <= size; i += 8 {
		v := r.Uint64()
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	return b
}

// idlePause is how long the store is idle before a single append or a bare PUT, so that both meet a log, a connection and
// processors that have been idle for as long.
const idlePause = 2 * time.Millisecond

// measureLone appends single records to an idle log, in turn with bare PUTs of objects of the same size. Both are the same
// call of the same store: a put of a key that must not be there.
func measureLone(ctx context.Context, o options, b *bucket, r *report) error {
	n, err := newNode(ctx, b, func(c *stream.Config) { c.WALBatchInterval = time.Millisecond })
	if err != nil {
		return err
	}
	streams, err := n.streams(ctx, 1)
	if err != nil {
		return err
	}
	record := payload(1024)
	object := payload(1024 + 24 + stream.RecordHeaderSize + stream.WALHeaderSize)
	var bare, appends latencies
	var asked int64
	for i := range o.lone {
		time.Sleep(idlePause)
		began := time.Now()
		if err := n.store.PutIfAbsent(ctx, fmt.Sprintf("bare/%d", i), object); err != nil {
			return err
		}
		bare.add(time.Since(began))
		time.Sleep(idlePause) // the log's interval has passed
		before := n.store.bill()
		began = time.Now()
		if _, err := streams[0].Append(ctx, 1, record); err != nil {
			return err
		}
		appends.add(time.Since(began))
		asked += n.store.bill().since(before).writes
	}
	r.lone(b.kind, bare, appends, float64(asked)/float64(o.lone))
	return n.close(ctx)
}

// load is a way to append.
type load struct {
	name     string
	depth    int           // how many records a client has in flight
	interval time.Duration // the engine's pause between groups
}

// loadClients is how many clients a load has.
const loadClients = 64

func loads() []load {
	pause := stream.DefaultConfig().WALBatchInterval
	return []load{
		{"one at a time, no interval", 1, 0},
		{fmt.Sprintf("one at a time, interval %v", pause), 1, pause},
		{fmt.Sprintf("256 at a time, interval %v", pause), 256, pause},
	}
}

// measureLoad has clients append records of 1 KiB to 1, 64 and 1,024 streams.
func measureLoad(ctx context.Context, o options, b *bucket, r *report) error {
	for _, l := range loads() {
		for _, count := range []int{1, 64, 1024} {
			if err := measureOneLoad(ctx, o, b, r, l, count); err != nil {
				return err
			}
		}
	}
	return nil
}

func measureOneLoad(ctx context.Context, o options, b *bucket, r *report, l load, count int) error {
	n, err := newNode(ctx, b, func(c *stream.Config) { c.WALBatchInterval = l.interval })
	if err != nil {
		return err
	}
	streams, err := n.streams(ctx, count)
	if err != nil {
		return err
	}
	var all latencies
	var lock sync.Mutex
	var group sync.WaitGroup
	var failed error
	before, began := n.store.bill(), time.Now()
	for c := range loadClients {
		group.Go(func() {
			mine, err := appendUntil(ctx, n, streams, c, l.depth, began.Add(o.phase))
			lock.Lock()
			defer lock.Unlock()
			all.merge(mine)
			if err != nil {
				failed = err
			}
		})
	}
	group.Wait()
	if failed != nil {
		return failed
	}
	took := time.Since(began)
	log := n.store.bill().since(before)
	if err := n.Upload(ctx); err != nil {
		return err
	}
	whole := n.store.bill().since(before)
	bare, err := barePuts(ctx, n.store, int(log.written/max(log.writes, 1)))
	if err != nil {
		return err
	}
	r.load(loadResult{
		store: b.kind, streams: count, load: l, latencies: all, bare: bare, took: took, bill: whole,
	})
	return n.close(ctx)
}

// appendUntil appends to streams in turn until a moment, with depth records in flight.
func appendUntil(ctx context.Context, n *testNode, streams []*stream.Stream, client, depth int, end time.Time) (latencies, error) {
	type pending struct {
		ack   *stream.Ack
		began time.Time
	}
	record := payload(1024)
	var l latencies
	var waiting []pending
	for i := client; ; i += loadClients {
		if len(waiting) == depth {
			if err := waiting[0].ack.Wait(ctx); err != nil {
				return l, err
			}
			l.add(time.Since(waiting[0].began))
			waiting = waiting[1:]
		}
		began := time.Now()
		if began.After(end) {
			break
		}
		a, err := n.Admit(ctx, 1, len(record))
		if err != nil {
			return l, err
		}
		ack, err := streams[i%len(streams)].Submit(a, 1, record)
		a.Release()
		if err != nil {
			return l, err
		}
		waiting = append(waiting, pending{ack, began})
	}
	for _, w := range waiting {
		if err := w.ack.Wait(ctx); err != nil {
			return l, err
		}
		l.add(time.Since(w.began))
	}
	return l, nil
}

// barePutCount is how many bare PUTs a load is compared with: enough that four are above the p99.
const barePutCount = 400

// barePuts puts objects of the size of the log's, one after the other, until the count or 5 s is reached.
func barePuts(ctx context.Context, s *counted, size int) (latencies, error) {
	var l latencies
	object := payload(size)
	end := time.Now().Add(5 * time.Second)
	for i := range barePutCount {
		began := time.Now()
		if began.After(end) {
			break
		}
		if err := s.Store.PutIfAbsent(ctx, fmt.Sprintf("bare/%d-%d", size, i), object); err != nil {
			return l, err
		}
		l.add(time.Since(began))
	}
	return l, nil
}
