package stream_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
	"github.com/tidemark-io/tidemark/vfs"
)

// storeVariable names the environment variable with the URL of a bucket, or of a prefix in one, that is empty and may be
// written: then the end-to-end test runs against it too.
const storeVariable = "TIDEMARK_TEST_STORE"

// livesVariable is how many times the end-to-end test ends its engine and opens it again.
const livesVariable = "TIDEMARK_TEST_LIVES"

// number is what an environment variable says, if it is set.
func number(t testing.TB, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestEndToEndInMemoryWithFaults: 64 streams with everything that an engine does, over stores that fail for now or lose a
// reply one time in fifty; F24.
func TestEndToEndInMemoryWithFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newWorld(t, mem.New(), mem.New(), 0.02).run()
	})
}

// TestEndToEndInADirectory has the real metadata log too.
func TestEndToEndInADirectory(t *testing.T) {
	store, err := dir.Open(vfs.OS(), t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	w := newWorld(t, store, store, 0)
	metadata, closed := openMetadata(t.Context(), t, t.TempDir(), w.now)
	defer closed()
	w.catalog = metadata
	w.run()
}

// TestEndToEndInABucket runs against the bucket that the environment names, if it names one.
func TestEndToEndInABucket(t *testing.T) {
	url := os.Getenv(storeVariable)
	if url == "" {
		t.Logf("%s is not set: no bucket to run against", storeVariable)
		return
	}
	store, err := cloud.Open(t.Context(), url, cloud.Options{PartBytes: cloud.MinPartBytes})
	require.NoError(t, err)
	defer store.Close()
	newWorld(t, store, store, 0).run()
}

// world is a bucket or two, a catalog, and the plain model of what was appended. One engine after the other runs in it.
type world struct {
	*testing.T
	seed      uint64
	catalog   catalog.Catalog
	waited    atomic.Int64 // how far the catalog's clock is ahead
	wal, data *faultstore.Store
	faults    float64
	streams   []*modelStream
	engine    *stream.Engine
	dying     atomic.Bool // the engine crashes: calls fail
}

// seedVariable has the seed that a failed test told of.
const seedVariable = "TIDEMARK_TEST_SEED"

func seed(t *testing.T) uint64 {
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

func newWorld(t *testing.T, wal, data objstore.Store, faults float64) *world {
	w := &world{T: t, seed: seed(t), faults: faults}
	w.catalog = catalogtest.NewMemory(w.now)
	w.wal, w.data = faultstore.New(wal, nil), faultstore.New(data, nil)
	t.Logf("%s=%d", seedVariable, w.seed)
	return w
}

// now is the clock of the catalog.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.waited.Load())) }

// config is small, so that every part of the engine has something to do.
func (w *world) config() stream.Config {
	c := stream.DefaultConfig()
	c.WALBatchInterval, c.WALBatchBytes, c.WALTrimPersist = time.Millisecond, 32<<10, 10*time.Millisecond
	c.CacheWALSize, c.CacheBlockSize, c.UploadThreshold = 3<<20, 1<<20, 1<<20
	c.UploadInterval, c.UploadStreamSplit, c.ObjectBlockSize = 50*time.Millisecond, 8<<10, 2<<10
	c.CompactInterval, c.CompactMinorInterval, c.GCInterval = time.Hour, time.Hour, time.Hour // the test calls them
	c.CompactSplit, c.CompactCache, c.CompactMaxStreamObject = 64<<10, 256<<10, 512<<10
	return c
}

// modelStream is what a stream should be.
type modelStream struct {
	id      catalog.StreamID
	handle  *stream.Stream
	start   int64
	acked   []modelRecord // all that was appended and acknowledged, from offset 0 on
	unknown []modelRecord // behind them: appended, and the outcome is not known
	// trimming and destroying are under way, and may have happened or not if the engine crashed.
	trimming   int64
	destroying bool
}

type modelRecord struct {
	base  int64
	count int32
	size  int
}

func (r modelRecord) end() int64 { return r.base + int64(r.count) }

// payload is determined by where it belongs.
func (m *modelStream) payload(r modelRecord) []byte {
	random := rand.NewPCG(uint64(m.id), uint64(r.base))
	b := make([]byte, 0, r.size+8)
	for len(b) < r.size {
		b = binary.BigEndian.AppendUint64(b, random.Uint64())
	}
	return b[:r.size]
}

func (m *modelStream) end() int64 {
	if n := len(m.acked); n > 0 {
		return m.acked[n-1].end()
	}
	return 0
}

// run lets one engine after the other live and checks what is left.
func (w *world) run() {
	for life := range number(w, livesVariable, 3) {
		w.open()
		w.readAll()
		w.live(life)
		if !w.dying.Load() {
			require.NoError(w, w.engine.Close(w.Context()))
		}
	}
	w.finish()
}

// inject makes calls fail for now, or lose their replies.
func (w *world) inject(store *faultstore.Store, seed uint64) {
	if w.faults == 0 {
		store.SetInjector(nil)
		return
	}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(w.seed, seed))
	store.SetInjector(func(op faultstore.Op) faultstore.Fault {
		mu.Lock()
		defer mu.Unlock()
		if random.Float64() >= w.faults {
			return faultstore.Fault{}
		}
		return faultstore.Fault{Err: objstore.ErrTransient, After: random.IntN(2) == 0}
	})
}

func (w *world) open() {
	w.dying.Store(false)
	w.inject(w.wal, 1)
	w.inject(w.data, 2)
	engine, err := stream.Open(w.Context(), stream.Options{
		Catalog: w.catalog, Node: 1, Cluster: "end-to-end", WAL: w.wal, Data: w.data, Proof: time.Now, Config: w.config(),
		Events: stream.Events{CompactionFailed: func(e stream.FailedEvent) {
			if !objstore.Retriable(e.Err) {
				w.Errorf("compaction: %v", e.Err)
			}
		}},
	})
	require.NoError(w, err)
	w.engine = engine
	for _, m := range w.streams {
		w.openStream(m)
	}
	for len(w.streams) < 64 {
		m := &modelStream{}
		w.create(m)
		w.streams = append(w.streams, m)
	}
}

// openStream opens a stream under its next epoch, or a new one if it was destroyed.
func (w *world) openStream(m *modelStream) {
	row, exists := w.catalog.View().Stream(m.id)
	if !exists && m.destroying {
		w.create(m)
		return
	}
	handle, err := w.engine.OpenStream(w.Context(), m.id, row.Epoch+1)
	if !w.fine(err) {
		return
	}
	if m.trimming > m.start && handle.Start() == m.trimming {
		m.start = m.trimming
	}
	m.destroying, m.trimming = false, 0
	require.Equal(w, m.start, handle.Start())
	m.handle = handle
}

// crash ends an engine in the middle of what it does: nothing of it takes effect any more.
func (w *world) crash() {
	w.dying.Store(true)
	gone := faultstore.Always(faultstore.Fault{Err: errors.New("the process is dead")})
	w.wal.SetInjector(gone)
	w.data.SetInjector(gone)
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	require.Error(w, w.engine.Close(ctx))
}

// live runs workers that append to streams of their own, and read, trim, close and destroy them, beside uploads,
// compactions and cleanings. Every other life ends by a crash in the middle.
func (w *world) live(life int) {
	const steps = 150
	crashAt := int64(-1)
	if life%2 == 0 {
		crashAt = rand.New(rand.NewPCG(w.seed, uint64(1000+life))).Int64N(8 * steps)
	}
	var stepped atomic.Int64
	ctx, stop := context.WithCancel(w.Context())
	var background, workers sync.WaitGroup
	background.Go(func() { w.maintain(ctx, life) })
	const n = 8
	for i := range n {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(w.seed, uint64(life*100+i)))
			for range steps {
				if w.dying.Load() {
					return
				}
				if stepped.Add(1) == crashAt {
					background.Go(w.crash)
				}
				w.step(random, w.streams[i*len(w.streams)/n+random.IntN(len(w.streams)/n)])
			}
		})
	}
	workers.Wait()
	stop()
	background.Wait()
}

// maintain does at random what otherwise goes by the clock.
func (w *world) maintain(ctx context.Context, life int) {
	random := rand.New(rand.NewPCG(w.seed, uint64(life)))
	bounds := map[catalog.StreamID]catalog.Stream{}
	for ctx.Err() == nil {
		w.watch(bounds)
		var err error
		switch random.IntN(4) {
		case 0:
			err = w.engine.Upload(ctx)
		case 1:
			err = w.engine.Compact(ctx)
		case 2:
			err = w.engine.Clean(ctx)
		case 3:
			w.waited.Add(int64(time.Duration(random.IntN(20)) * time.Minute))
		}
		if ctx.Err() == nil {
			w.fine(err)
		}
		wait(ctx, 5*time.Millisecond)
	}
}

// watch looks whether the bounds of a stream ever go back (F-36). Those that clients see are held against the model.
func (w *world) watch(bounds map[catalog.StreamID]catalog.Stream) {
	for now := range w.catalog.View().Streams() {
		if before, seen := bounds[now.ID]; seen && (now.Start < before.Start || now.End < before.End || now.Epoch < before.Epoch) {
			w.Errorf("stream %d went back from %+v to %+v", now.ID, before, now)
		}
		bounds[now.ID] = now
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// step does one thing to a stream. The caller is the only one.
func (w *world) step(random *rand.Rand, m *modelStream) {
	switch n := random.IntN(100); {
	case n < 60:
		w.append(random, m)
	case n < 90:
		w.fetch(random, m)
	case n < 96:
		to := m.start + random.Int64N(m.end()-m.start+1)
		if random.IntN(8) == 0 {
			to = m.end()
		}
		m.trimming = to
		if w.fine(m.handle.Trim(w.Context(), to)) {
			m.start = to
		}
	case n < 99:
		if w.fine(m.handle.Close(w.Context())) {
			w.openStream(m)
		}
	default:
		w.recreate(m)
	}
}

// fine reports whether a call succeeded; it may fail for now, and in a crash.
func (w *world) fine(err error) bool {
	if err != nil && !objstore.Retriable(err) && !w.dying.Load() {
		w.Errorf("%v", err)
	}
	return err == nil
}

// recreate destroys a stream and takes a new one in its place.
func (w *world) recreate(m *modelStream) {
	m.destroying = true
	if w.fine(m.handle.Destroy(w.Context())) {
		w.create(m)
	}
}

// create makes a new stream.
func (w *world) create(m *modelStream) {
	id, err := w.engine.CreateStreams(w.Context(), 1)
	if w.fine(err) {
		m.id, m.start, m.trimming, m.acked, m.unknown, m.destroying = id, 0, 0, nil, nil, false
		w.openStream(m)
	}
}

// append submits a few records and waits for all of them.
func (w *world) append(random *rand.Rand, m *modelStream) {
	size := func() int { return random.IntN(1 << random.IntN(15)) }
	for range 1 + random.IntN(3) {
		r := modelRecord{base: m.end(), count: int32(1 + random.IntN(5)), size: size()}
		m.unknown = append(m.unknown, r)
		base, err := m.handle.Append(w.Context(), r.count, m.payload(r))
		if err != nil && !w.dying.Load() {
			w.Errorf("append: %v", err)
		}
		if err != nil {
			return
		}
		if base != r.base {
			w.Errorf("stream %d: appended at %d, want %d", m.id, base, r.base)
		}
		m.acked, m.unknown = append(m.acked, r), nil
	}
	if m.handle.Confirm() != m.end() {
		w.Errorf("stream %d: confirmed up to %d, acknowledged to %d", m.id, m.handle.Confirm(), m.end())
	}
}

// fetch reads a part of a stream and holds it against the model.
func (w *world) fetch(random *rand.Rand, m *modelStream) {
	from := m.start + random.Int64N(m.end()-m.start+1)
	to := from + random.Int64N(m.end()-from+1)
	got, err := m.handle.Fetch(w.Context(), stream.FetchRequest{Start: from, End: to, MaxBytes: 1 << random.IntN(18)})
	if !w.fine(err) {
		return
	}
	if err := m.compare(from, got.Records); err != nil {
		w.Errorf("fetch %d to %d: %v", from, to, err)
	}
	if len(got.Records) == 0 && from < to {
		w.Errorf("stream %d: nothing from %d to %d", m.id, from, to)
	}
}

// compare holds records that begin with the one that holds from against the model.
func (m *modelStream) compare(from int64, got []stream.Record) error {
	i := 0
	for i < len(m.acked) && m.acked[i].end() <= from {
		i++
	}
	for k, r := range got {
		if i+k >= len(m.acked) {
			return fmt.Errorf("stream %d: a record at %d, the last one ends at %d", m.id, r.Base, m.end())
		}
		want := m.acked[i+k]
		if r.Base != want.base || r.Count != want.count || !bytes.Equal(r.Payload, m.payload(want)) {
			return fmt.Errorf("stream %d: record at %d of %d rows and %d bytes, want %+v", m.id, r.Base, r.Count, len(r.Payload), want)
		}
	}
	return nil
}

// readAll reads every stream from its start on. What was not acknowledged may be there, as far as it follows.
func (w *world) readAll() {
	for _, m := range w.streams {
		for m.handle.Confirm() > m.end() {
			require.NotEmpty(w, m.unknown, "stream %d reaches to %d, acknowledged is %d", m.id, m.handle.Confirm(), m.end())
			m.acked, m.unknown = append(m.acked, m.unknown[0]), m.unknown[1:]
		}
		m.unknown = nil
		require.Equal(w, m.end(), m.handle.Confirm(), "stream %d", m.id)
		for at := m.start; at < m.end(); {
			got, err := m.handle.Fetch(w.Context(), stream.FetchRequest{Start: at, End: m.end(), MaxBytes: 64 << 10})
			if !w.fine(err) {
				continue
			}
			require.NoError(w, m.compare(at, got.Records))
			require.NotEmpty(w, got.Records)
			at = got.Records[len(got.Records)-1].End()
		}
	}
}

// finish lets everything settle: what is left is healthy, and no object that nothing needs (GC-7).
func (w *world) finish() {
	w.faults = 0
	w.wal.SetInjector(nil)
	w.data.SetInjector(nil)
	w.open()
	w.readAll()
	w.settle()
	w.readAll()
	for _, m := range w.streams {
		require.NoError(w, m.handle.Trim(w.Context(), m.end()))
		m.start = m.end()
	}
	w.settle()
	require.Empty(w, w.dataKeys(), "GC-7: all streams are trimmed")
	require.NoError(w, w.engine.Close(w.Context()))
	w.check()
}

// settle uploads, compacts and cleans until nothing is left to do, and checks.
func (w *world) settle() {
	require.NoError(w, w.engine.Upload(w.Context()))
	require.NoError(w, w.engine.Compact(w.Context()))
	for range 2 {
		w.waited.Add(int64(25 * time.Hour))
		require.NoError(w, w.engine.Clean(w.Context()))
	}
	require.Empty(w, w.catalog.View().Destroyed(10))
	w.check()
}

func (w *world) check() {
	for f, err := range stream.Check(w.Context(), stream.CheckOptions{
		Catalog: w.catalog, WAL: w.wal, Data: w.data, Cluster: "end-to-end", Deep: true,
	}) {
		require.NoError(w, err)
		if f.Kind != stream.FoundLeftover { // which are deleted in the background
			w.Errorf("%s", f)
		}
	}
}

func (w *world) dataKeys() (keys []string) {
	for token := ""; ; {
		page, err := w.data.List(w.Context(), objstore.ListRequest{Token: token})
		require.NoError(w, err)
		for _, o := range page.Objects {
			if _, err := stream.ParseDataKey(stream.DefaultNamespace, o.Key); err == nil {
				keys = append(keys, o.Key)
			}
		}
		if token = page.Next; token == "" {
			return keys
		}
	}
}
