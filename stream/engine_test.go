package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// cluster is what processes share: two buckets and the catalog. Time is that of a synctest bubble.
type cluster struct {
	*testing.T
	wal, data *mem.Bucket
	catalog   *catalogtest.Memory
	config    Config
	processes []*process
	// damages are what a test has damaged deliberately: the kinds of findings of that severity that Check must have, and no
	// others, when all is over.
	damages []FindingKind
}

// runCluster runs a test in a bubble: time passes when everybody waits, and every goroutine must have ended with the test.
// What is in the buckets and in the catalog then is held against each other, whatever the test looked at.
func runCluster(t *testing.T, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{
			T: t, wal: mem.NewBucket(time.Now), data: mem.NewBucket(time.Now), catalog: catalogtest.NewMemory(time.Now),
			config: engineConfig(),
		}
		defer c.check()
		defer c.killAll()
		test(c)
	})
}

// check finds no damage, or that which the test says it has done. Objects that nobody needs are no damage: processes were
// killed.
func (c *cluster) check() {
	if c.Failed() {
		return // it says enough
	}
	var kinds []FindingKind
	var findings []string
	for f, err := range Check(c.Context(), CheckOptions{
		Catalog: c.catalog, WAL: c.wal.Open(), Data: c.data.Open(), Cluster: "tm-1", Deep: true,
	}) {
		require.NoError(c, err)
		if f.Severity != Damage {
			continue
		}
		findings = append(findings, f.String())
		if !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
	}
	require.ElementsMatch(c, c.damages, kinds, "%q", findings)
}

// engineConfig has no background work but what appends and trims cause.
func engineConfig() Config {
	c := DefaultConfig()
	c.WALBatchInterval = 5 * time.Millisecond
	c.WALInflight = 3
	c.UploadInterval = 1000 * time.Hour
	c.CompactInterval, c.CompactMinorInterval, c.GCInterval = 1000*time.Hour, 1000*time.Hour, 1000*time.Hour
	return c
}

// process is one engine, with stores and a catalog of its own that can be made to fail.
type process struct {
	*Engine
	c         *cluster
	wal, data *faultstore.Store
	catalog   *faultyCatalog
	events    *eventLog
}

// prepare is a process that was not opened yet.
func (c *cluster) prepare() *process {
	p := &process{
		c: c, wal: faultstore.New(c.wal.Open(), nil), data: faultstore.New(c.data.Open(), nil),
		catalog: &faultyCatalog{Catalog: c.catalog}, events: &eventLog{},
	}
	c.processes = append(c.processes, p)
	return p
}

// killAll ends what a test leaves running.
func (c *cluster) killAll() {
	for _, p := range c.processes {
		if p.Engine != nil {
			p.kill()
		}
	}
}

func (p *process) options(node catalog.NodeID) Options {
	return Options{
		Catalog: p.catalog, Node: node, Cluster: "tm-1", WAL: p.wal, Data: p.data, Proof: time.Now, Config: p.c.config,
		Events: p.events.events(), Slots: 1,
	}
}

// open opens an engine for a node.
func (p *process) open(node catalog.NodeID) error {
	e, err := Open(p.c.Context(), p.options(node))
	p.Engine = e
	return err
}

// start is a process that runs.
func (c *cluster) start(node catalog.NodeID) *process {
	c.Helper()
	p := c.prepare()
	require.NoError(c, p.open(node))
	synctest.Wait() // what older epochs left is removed
	return p
}

// kill ends a process as kill -9 does: nothing of what it is doing takes effect any more.
func (p *process) kill() {
	gone := errors.New("the process is dead")
	for _, s := range []*faultstore.Store{p.wal, p.data} {
		s.SetInjector(faultstore.Always(faultstore.Fault{Err: gone}))
	}
	p.catalog.fail(gone)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Close(ended)
}

// close ends a process cleanly.
func (p *process) close() {
	p.c.Helper()
	require.NoError(p.c, p.Close(p.c.Context()))
}

// stream makes a stream and opens it.
func (p *process) stream() *Stream {
	p.c.Helper()
	id, err := p.CreateStreams(p.c.Context(), 1)
	require.NoError(p.c, err)
	return p.reopen(id)
}

// admitted is how many bytes were admitted and are neither acknowledged nor given back.
func (p *process) admitted() int64 {
	synctest.Wait()
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return p.gate.mu.reserved
}

// reopen opens a stream under its next epoch.
func (p *process) reopen(id catalog.StreamID) *Stream {
	p.c.Helper()
	row, ok := p.c.catalog.View().Stream(id)
	require.True(p.c, ok)
	s, err := p.OpenStream(p.c.Context(), id, row.Epoch+1)
	require.NoError(p.c, err)
	return s
}

// append appends one row and waits for it.
func (c *cluster) append(s *Stream, payload string) int64 {
	c.Helper()
	base, err := s.Append(c.Context(), 1, []byte(payload))
	require.NoError(c, err)
	return base
}

// appendMany appends rows named after their offsets.
func (c *cluster) appendMany(s *Stream, count int) {
	c.Helper()
	for range count {
		c.append(s, fmt.Sprintf("%d@%d", s.ID(), s.Next()))
	}
}

// submit submits one row without waiting.
func (c *cluster) submit(s *Stream, payload string) *Ack {
	c.Helper()
	a, err := s.engine.Admit(c.Context(), 1, len(payload))
	require.NoError(c, err)
	defer a.Release()
	ack, err := s.Submit(a, 1, []byte(payload))
	require.NoError(c, err)
	return ack
}

// rows reads all of a stream.
func (c *cluster) rows(s *Stream) []string {
	c.Helper()
	return c.rowsUpTo(s, Confirmed)
}

func (c *cluster) rowsUpTo(s *Stream, bound Bound) []string {
	c.Helper()
	rows, next := []string{}, s.Start()
	for {
		f, err := s.Fetch(c.Context(), FetchRequest{Start: next, End: 1 << 40, MaxBytes: 100, Bound: bound})
		require.NoError(c, err)
		if len(f.Records) == 0 {
			require.Equal(c, f.bound(bound), next)
			return rows
		}
		for _, r := range f.Records {
			require.Equal(c, next, r.Base)
			rows, next = append(rows, string(r.Payload)), r.End()
		}
	}
}

// named are the rows that appendMany writes.
func named(s *Stream, from, to int64) []string {
	rows := []string{}
	for offset := from; offset < to; offset++ {
		rows = append(rows, fmt.Sprintf("%d@%d", s.ID(), offset))
	}
	return rows
}

// pass lets time pass, and everything happen that is due.
func (c *cluster) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// walKeys are the keys on the WAL bucket, without what they have in common.
func (c *cluster) walKeys(node catalog.NodeID) []string {
	c.Helper()
	listed, err := listAll(c.Context(), c.wal.Open(), WALPrefix{Cluster: "tm-1", Node: node}.String())
	require.NoError(c, err)
	var keys []WALKey
	for _, o := range listed {
		k, err := WALPrefix{Cluster: "tm-1", Node: node}.Parse(o.Key)
		require.NoError(c, err)
		keys = append(keys, k)
	}
	slices.SortFunc(keys, WALKey.Compare)
	texts := []string{}
	for _, k := range keys {
		texts = append(texts, fmt.Sprintf("%d/%d", k.Epoch, k.Start/Window))
	}
	return texts
}

func walKey(node catalog.NodeID, epoch, window int64) string {
	return WALPrefix{Cluster: "tm-1", Node: node}.Key(WALKey{Epoch: epoch, Start: window * Window})
}

// eventLog gathers events as text.
type eventLog struct {
	mu    sync.Mutex
	lines []string
	last  RecoveredEvent
}

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *eventLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func (l *eventLog) recovered() RecoveredEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *eventLog) events() Events {
	return Events{
		Recovered: func(e RecoveredEvent) {
			l.mu.Lock()
			defer l.mu.Unlock()
			e.Took = 0
			l.last = e
		},
		PutRetried:      func(e PutRetriedEvent) { l.add("put again") },
		ReadRetried:     func(e StoreRetriedEvent) { l.add("read again") },
		WALDeleted:      func(e WALDeletedEvent) { l.add("deleted %d", len(e.Keys)) },
		WALDeleteFailed: func(e FailedEvent) { l.add("delete failed") },
		Failed:          func(e FailedEvent) { l.add("failed: %v", e.Err) },
	}
}

// faultyCatalog is a process's way to the catalog.
type faultyCatalog struct {
	catalog.Catalog

	mu     sync.Mutex
	broken error
	around func(call string, do func() error) error // makes each change
}

func (f *faultyCatalog) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
}

// set has functions asked before each change, and after each one that took effect: their errors are the answer, the latter
// loses the reply. Either may be nil.
func (f *faultyCatalog) set(before, after func(call string) error) {
	f.setAround(func(call string, do func() error) error {
		if before != nil {
			if err := before(call); err != nil {
				return err
			}
		}
		if err := do(); err != nil || after == nil {
			return err
		}
		return after(call)
	})
}

// setAround has each change made by a function.
func (f *faultyCatalog) setAround(around func(call string, do func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.around = around
}

// change makes a call that changes something.
func (f *faultyCatalog) change(name string, call func() error) error {
	f.mu.Lock()
	broken, around := f.broken, f.around
	f.mu.Unlock()
	switch {
	case broken != nil:
		return broken
	case around == nil:
		return call()
	}
	return around(name, func() error {
		f.mu.Lock()
		broken := f.broken
		f.mu.Unlock()
		if broken != nil { // it died meanwhile
			return broken
		}
		return call()
	})
}

func (f *faultyCatalog) RegisterNode(ctx context.Context, r catalog.Registration) (epoch int64, err error) {
	err = f.change("register", func() error { epoch, err = f.Catalog.RegisterNode(ctx, r); return err })
	return epoch, err
}

func (f *faultyCatalog) CreateStreams(
	ctx context.Context, n catalog.Node, count int,
) (first catalog.StreamID, err error) {
	err = f.change("create streams", func() error { first, err = f.Catalog.CreateStreams(ctx, n, count); return err })
	return first, err
}

func (f *faultyCatalog) CompactStream(ctx context.Context, n catalog.Node, c catalog.StreamCompaction) error {
	return f.change("compact stream", func() error { return f.Catalog.CompactStream(ctx, n, c) })
}

func (f *faultyCatalog) OpenWAL(ctx context.Context, n catalog.Node, start int64) error {
	return f.change("open WAL", func() error { return f.Catalog.OpenWAL(ctx, n, start) })
}

func (f *faultyCatalog) CloseWAL(ctx context.Context, n catalog.Node, start int64) error {
	return f.change("close WAL", func() error { return f.Catalog.CloseWAL(ctx, n, start) })
}

func (f *faultyCatalog) OpenStream(
	ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64,
) (row catalog.Stream, err error) {
	err = f.change("open stream", func() error { row, err = f.Catalog.OpenStream(ctx, n, s, epoch); return err })
	return row, err
}

func (f *faultyCatalog) TrimStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch, start int64) error {
	return f.change("trim", func() error { return f.Catalog.TrimStream(ctx, n, s, epoch, start) })
}

func (f *faultyCatalog) CloseStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64) error {
	return f.change("close stream", func() error { return f.Catalog.CloseStream(ctx, n, s, epoch) })
}

func (f *faultyCatalog) DeleteStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64) error {
	return f.change("delete stream", func() error { return f.Catalog.DeleteStream(ctx, n, s, epoch) })
}

func (f *faultyCatalog) PrepareObjects(
	ctx context.Context, n catalog.Node, count int, ttl time.Duration,
) (first catalog.ObjectID, err error) {
	err = f.change("prepare", func() error { first, err = f.Catalog.PrepareObjects(ctx, n, count, ttl); return err })
	return first, err
}

func (f *faultyCatalog) Commit(ctx context.Context, n catalog.Node, c catalog.Commit) error {
	return f.change("commit", func() error { return f.Catalog.Commit(ctx, n, c) })
}

func TestALoneAppendOfTheEngineCostsOnePutAndNothingElse_WAL3(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.pass(time.Minute)
		wal, data := p.wal.Trace(nil), p.data.Trace(nil)
		begun := time.Now()
		c.append(s, "tide")
		require.Equal(c, "put-if-absent "+walKey(5, 1, 0)+" +109\n", wal.String())
		require.Empty(c, data.String())
		require.Equal(c, begun, time.Now(), "and no waiting")
		require.Equal(c, []string{"tide"}, c.rows(s))
		require.Equal(c, []int64{0, 1, 1}, []int64{s.Start(), s.Confirm(), s.Next()})
		c.pass(time.Minute)
		require.Equal(c, 1, strings.Count(wal.String(), "\n"), "nor anything afterwards")
		p.close()
	})
}

func TestEventsTellOfAnEnginesLife(t *testing.T) {
	runCluster(t, func(c *cluster) {
		first := c.start(5)
		c.appendMany(first.stream(), 1)
		first.kill()
		p := c.prepare()
		options := p.options(5)
		var told []string
		options.Events.Opened = func(e OpenedEvent) {
			told = append(told, fmt.Sprintf("opened %v at window %d", e.Node, e.Start/Window))
		}
		options.Events.Acknowledged = func(e AcknowledgedEvent) {
			told = append(told, fmt.Sprintf("window %d: %d records in %d bytes after %v", e.Window/Window, e.Records, e.Bytes, e.Waited))
		}
		var err error
		p.Engine, err = Open(c.Context(), options)
		require.NoError(c, err)
		s := p.stream()
		c.append(s, "alone")
		c.submit(s, "to")
		c.submit(s, "gether")
		c.pass(c.config.WALBatchInterval)
		require.Equal(c, []string{
			"opened {5 2} at window 2",
			"window 2: 1 records in 62 bytes after 0s",
			"window 3: 2 records in 122 bytes after 5ms",
		}, told)
		require.Equal(c, 1, p.events.recovered().Records)
		p.close()
	})
}

func TestGroupCommit_OnePutForAllThatCameTogether(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		streams := []*Stream{p.stream(), p.stream(), p.stream()}
		c.append(streams[0], "makes the log busy")
		trace := p.wal.Trace(nil)
		var acks []*Ack
		for i := range 30 {
			acks = append(acks, c.submit(streams[2-i%3], fmt.Sprint(i)))
		}
		require.Empty(c, trace.String())
		c.pass(c.config.WALBatchInterval)
		require.Equal(c, 1, strings.Count(trace.String(), "\n"))
		require.Contains(c, trace.String(), "put-if-absent")
		for _, a := range acks {
			require.NoError(c, a.Wait(c.Context()))
		}
		p.close()
	})
}
