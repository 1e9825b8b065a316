package stream_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
	"github.com/tidemark-io/tidemark/vfs"
)

// killsVariable is how often TestKilledProcessesLoseNothing kills, takeoversVariable how often processes are overtaken.
const (
	killsVariable     = "TIDEMARK_TEST_KILLS"
	takeoversVariable = "TIDEMARK_TEST_TAKEOVERS"
)

// childVariable has the orders of a process that a test starts: itself again, to run [TestTheChild].
const childVariable = "TIDEMARK_TEST_CHILD"

// orders is what a child does: it opens the engine of a node and appends to all streams of the catalog until it fails or is
// killed. It says on its standard output what was acknowledged.
type orders struct {
	// Socket is where the catalog is served; empty if the child opens the metadata log in the directory Metadata itself.
	Socket, Metadata string
	Store            string
	Node             catalog.NodeID
	// Tag is part of all that it appends.
	Tag string
	// Quiet children do nothing but append: they meet metadata no more once they are open.
	Quiet bool
	// MaxPutAge, unless it is 0, is how old a proof of the node's epoch may be. Proofs then come from the catalog; otherwise
	// the child believes at any time that it is the node.
	MaxPutAge time.Duration
}

// bench is a store in a directory and a catalog at a socket, which several processes share.
type bench struct {
	*testing.T
	root, socket, metadata string
	catalog                catalog.Catalog // what this process has of it
	streams                []catalog.StreamID
	acked                  []ackLine                  // of all children, in no order
	trims                  map[catalog.StreamID]int64 // the highest start that any child has asked for
	tags                   int
	config                 stream.Config // of the engines in this process
	maxPutAge              time.Duration // of children
	ahead                  atomic.Int64  // how far the clock of metadata is ahead, in this process
}

// now is the clock of metadata.
func (b *bench) now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }

// ackLine is an append that a child says was acknowledged.
type ackLine struct {
	Stream catalog.StreamID
	Base   int64
	Count  int32
	Size   int
	Tag    string
}

func payloadOf(a ackLine) []byte {
	text := fmt.Appendf(nil, "%d at %d by %s, ", a.Stream, a.Base, a.Tag)
	return bytes.Repeat(text, a.Size/len(text)+1)[:a.Size]
}

// processConfig has everything happen within milliseconds.
func processConfig() stream.Config {
	c := stream.DefaultConfig()
	c.WALBatchInterval, c.WALTrimPersist, c.UploadInterval = time.Millisecond, 10*time.Millisecond, 30*time.Millisecond
	c.CompactInterval, c.GCInterval, c.GCGrace = 50*time.Millisecond, 20*time.Millisecond, 200*time.Millisecond
	c.UploadStreamSplit, c.CompactSplit, c.ObjectBlockSize = 16<<10, 32<<10, 4<<10
	return c
}

func newBench(t *testing.T) *bench {
	root := t.TempDir()
	sockets, err := os.MkdirTemp("", "tidemark") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	b := &bench{T: t, root: root, socket: filepath.Join(sockets, "s"), config: processConfig()}
	b.catalog = catalogtest.NewMemory(b.now)
	serveCatalog(t, b.catalog, b.socket)
	b.fill()
	return b
}

// newLonelyBench is a bench with the real metadata log, which one process at a time has.
func newLonelyBench(t *testing.T) *bench {
	b := &bench{T: t, root: t.TempDir(), metadata: t.TempDir(), config: processConfig()}
	b.fill()
	return b
}

// processStreams is how many streams a bench has.
const processStreams = 64

// openStore opens the store of a bench: a directory, or the bucket of a URL.
func openStore(ctx context.Context, t require.TestingT, root string) objstore.Store {
	if strings.Contains(root, "://") {
		store, err := cloud.Open(ctx, root, cloud.Options{PartBytes: cloud.MinPartBytes})
		require.NoError(t, err)
		return store
	}
	store, err := dir.Open(vfs.OS(), root)
	require.NoError(t, err)
	return store
}

// fill makes the streams.
func (b *bench) fill() {
	b.trims = map[catalog.StreamID]int64{}
	e, done := b.open(0)
	first, err := e.CreateStreams(b.Context(), processStreams)
	require.NoError(b, err)
	for i := range processStreams {
		b.streams = append(b.streams, first+catalog.StreamID(i))
	}
	require.NoError(b, e.Close(b.Context()))
	done()
}

// open opens an engine in this process. done must be called after its Close.
func (b *bench) open(node catalog.NodeID) (e *stream.Engine, done func()) {
	b.Helper()
	closed := func() {}
	if b.metadata != "" {
		b.catalog, closed = openMetadata(b.Context(), b, b.metadata, b.now)
	}
	store := openStore(b.Context(), b, b.root)
	e, err := stream.Open(b.Context(), stream.Options{
		Catalog: b.catalog, Node: node, Cluster: "processes", WAL: store, Data: store, Proof: time.Now, Config: b.config,
	})
	require.NoError(b, err)
	return e, func() {
		require.NoError(b, store.Close())
		closed()
	}
}

// child is a process that appends.
type child struct {
	*exec.Cmd
	b      *bench
	node   catalog.NodeID
	output sync.WaitGroup
	mu     sync.Mutex
	acked  []ackLine
	trims  []ackLine     // of which Base is the start that it asks for
	failed string        // what ended it
	more   chan struct{} // a line came
}

// start starts a child under a node's id.
func (b *bench) start(node catalog.NodeID, quiet bool) *child {
	b.Helper()
	b.tags++
	text, err := json.Marshal(orders{Socket: b.socket, Metadata: b.metadata, Store: b.root, Node: node, Tag: fmt.Sprintf("child %d", b.tags), Quiet: quiet, MaxPutAge: b.maxPutAge})
	require.NoError(b, err)
	c := &child{Cmd: exec.Command(os.Args[0], "-test.run=^TestTheChild$"), b: b, node: node, more: make(chan struct{}, 1)}
	c.Env = append(os.Environ(), childVariable+"="+string(text))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, c.Start())
	c.output.Go(func() { c.read(out) })
	return c
}

// read takes what the child says. A line that a kill has cut off was not said.
func (c *child) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		c.mu.Lock()
		var a ackLine
		if text, isAck := bytes.CutPrefix(line, []byte("acked ")); isAck && json.Unmarshal(text, &a) == nil {
			c.acked = append(c.acked, a)
		}
		if text, isTrim := bytes.CutPrefix(line, []byte("trims ")); isTrim && json.Unmarshal(text, &a) == nil {
			c.trims = append(c.trims, a)
		}
		if text, isEnd := bytes.CutPrefix(line, []byte("failed ")); isEnd {
			c.failed = string(text)
		}
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
	}
}

func (c *child) said() (acks int, failed string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acked), c.failed
}

// await waits until so many appends were acknowledged.
func (c *child) await(n int) {
	c.b.Helper()
	for {
		acks, failed := c.said()
		if acks >= n {
			return
		}
		require.Empty(c.b, failed)
		select {
		case <-c.more:
		case <-c.b.Context().Done():
			c.b.Fatal("the test ends")
		}
	}
}

// end waits until the process has ended and all that it said was read.
func (c *child) end() {
	c.b.Helper()
	c.output.Wait()
	_ = c.Wait() // killed, or not
	c.b.acked = append(c.b.acked, c.acked...)
	for _, trim := range c.trims {
		c.b.trims[trim.Stream] = max(c.b.trims[trim.Stream], trim.Base)
	}
}

func (c *child) signal(s syscall.Signal) {
	c.b.Helper()
	require.NoError(c.b, syscall.Kill(c.Process.Pid, s))
}

// pause stops a process and returns when it stands still.
func (c *child) pause() {
	c.b.Helper()
	c.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		require.NoError(c.b, err)
		require.True(c.b, status.Stopped())
		return
	}
}

// verify opens all streams in an engine and reads everything: the records follow each other, and all that any child says was
// acknowledged is there.
func (b *bench) verify(e *stream.Engine) {
	b.Helper()
	acked := map[catalog.StreamID]map[int64]ackLine{}
	for _, a := range b.acked {
		if acked[a.Stream] == nil {
			acked[a.Stream] = map[int64]ackLine{}
		}
		if first, twice := acked[a.Stream][a.Base]; twice {
			require.Equal(b, first, a, "two appends were acknowledged at one offset")
		}
		acked[a.Stream][a.Base] = a
	}
	found, want := 0, 0
	for _, id := range b.streams {
		s := b.openStream(e, id)
		start := s.Start()
		require.LessOrEqual(b, start, b.trims[id], "nobody has asked for more to be trimmed")
		for base := range acked[id] {
			if base >= start {
				want++
			}
		}
		for at := start; at < s.Confirm(); {
			got, err := s.Fetch(b.Context(), stream.FetchRequest{Start: at, End: s.Confirm(), MaxBytes: 1 << 20})
			require.NoError(b, err)
			for _, r := range got.Records {
				if at > start {
					require.Equal(b, at, r.Base)
				}
				at = r.End()
				if a, was := acked[id][r.Base]; was && r.Base >= start {
					require.Equal(b, a.Count, r.Count)
					require.Equal(b, string(payloadOf(a)), string(r.Payload))
					found++
				}
			}
		}
	}
	require.Equal(b, want, found, "every acknowledged append is there, or was trimmed")
}

func (b *bench) openStream(e *stream.Engine, id catalog.StreamID) *stream.Stream {
	b.Helper()
	row, _ := b.catalog.View().Stream(id)
	s, err := e.OpenStream(b.Context(), id, row.Epoch+1)
	require.NoError(b, err)
	return s
}

// check finds nothing wrong.
func (b *bench) check() {
	b.Helper()
	for _, f := range b.findings() {
		b.Errorf("%s", f)
	}
}

// findings is all that a check finds.
func (b *bench) findings() (found []stream.Finding) {
	b.Helper()
	store := openStore(b.Context(), b, b.root)
	defer store.Close()
	for f, err := range stream.Check(b.Context(), stream.CheckOptions{
		Catalog: b.catalog, WAL: store, Data: store, Cluster: "processes", Deep: true,
	}) {
		require.NoError(b, err)
		found = append(found, f)
	}
	return found
}

// orphans is how many objects a compaction or an upload left whose ids expired meanwhile, since the clock was set ahead.
func (b *bench) orphans() (n int) {
	b.Helper()
	for _, f := range b.findings() {
		if f.Kind == stream.FoundOrphan {
			n++
		}
	}
	return n
}

// cleanAll lets more time pass than any id is reserved, and then the grace; a round of the cleaner removes only so much.
func (b *bench) cleanAll(e *stream.Engine) {
	b.Helper()
	b.ahead.Add(int64(25 * time.Hour))
	require.NoError(b, e.Clean(b.Context()))
	for range 100 {
		b.ahead.Add(int64(25 * time.Hour)) // a compaction in the background may have destroyed more since
		require.NoError(b, e.Clean(b.Context()))
		if len(b.catalog.View().Destroyed(1)) == 0 && b.orphans() == 0 {
			return
		}
	}
	b.Fatal("the cleaner comes to no end")
}

// settle lets all ids expire that dead processes had reserved, and every grace pass, and trims everything: no data object is
// left then. It is the end of a bench.
func (b *bench) settle(node catalog.NodeID) {
	b.Helper()
	e, done := b.open(node)
	b.cleanAll(e)
	b.check() // an object that nobody refers to would be found
	for _, id := range b.streams {
		s := b.openStream(e, id)
		require.NoError(b, s.Trim(b.Context(), s.Confirm()))
	}
	require.NoError(b, e.Upload(b.Context()))
	require.NoError(b, e.Compact(b.Context()))
	b.cleanAll(e)
	require.NoError(b, e.Close(b.Context()))
	b.check()
	store := openStore(b.Context(), b, b.root)
	defer store.Close()
	for token := ""; ; {
		page, err := store.List(b.Context(), objstore.ListRequest{Token: token})
		require.NoError(b, err)
		for _, o := range page.Objects {
			_, err := stream.ParseDataKey(stream.DefaultNamespace, o.Key)
			require.Error(b, err, "%s is left, which nobody needs", o.Key)
		}
		if token = page.Next; token == "" {
			break
		}
	}
	done()
}

// TestKilledProcessesLoseNothing: whole processes, with the metadata log in a file, are killed while they append.
func TestKilledProcessesLoseNothing(t *testing.T) {
	b := newLonelyBench(t)
	for kill := range number(t, killsVariable, 4) {
		c := b.start(1, false)
		c.await(1 + rand.IntN(400)) // it has opened its engine
		c.signal(syscall.SIGKILL)
		c.end()
		e, done := b.open(1)
		b.verify(e)
		if kill%2 == 0 { // else the next process finds an engine that ended like a crash
			require.NoError(t, e.Close(t.Context()))
			b.check()
		} else {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, e.Close(ended))
		}
		done()
	}
	t.Logf("%d appends were acknowledged", len(b.acked))
	b.settle(1)
}

// TestKilledProcessesLoseNothingInABucket is that over the bucket that the environment names.
func TestKilledProcessesLoseNothingInABucket(t *testing.T) {
	url := os.Getenv(storeVariable)
	if url == "" {
		t.Logf("%s is not set: no bucket to run against", storeVariable)
		return
	}
	b := &bench{T: t, root: url, metadata: t.TempDir(), config: processConfig()}
	b.fill()
	for range number(t, killsVariable, 2) {
		c := b.start(1, false)
		c.await(1 + rand.IntN(400))
		c.signal(syscall.SIGKILL)
		c.end()
		e, done := b.open(1)
		b.verify(e)
		require.NoError(t, e.Close(t.Context()))
		b.check()
		done()
	}
	t.Logf("%d appends were acknowledged", len(b.acked))
	b.settle(1)
}

// TestProcessesThatAreOvertakenLoseNothing: a second process takes a node over, under its own id or another one's, while the
// first one appends.
func TestProcessesThatAreOvertakenLoseNothing(t *testing.T) {
	b := newBench(t)
	for takeover := range number(t, takeoversVariable, 4) {
		c := b.start(1, false)
		c.await(1 + rand.IntN(400)) // it has opened its engine
		node := catalog.NodeID(1 + takeover%2)
		e, done := b.open(node)
		if node != 1 {
			require.NoError(t, e.Failover(t.Context(), 1))
		}
		c.end() // it finds out by itself
		_, failed := c.said()
		require.Regexp(t, "was fenced|has been taken over", failed)
		b.verify(e)
		require.NoError(t, e.Close(t.Context()))
		b.check()
		done()
	}
	t.Logf("%d appends were acknowledged", len(b.acked))
	b.settle(1)
}

// overtake pauses a child in the middle of its appends, lets another node take over and do more, and lets the child go on:
// it acknowledges nothing any more. Of how it ended is told.
func (b *bench) overtake(quiet bool, more func(e *stream.Engine, s []*stream.Stream)) (failed string) {
	c := b.start(1, quiet)
	c.await(50)
	c.pause()
	e, done := b.open(2)
	require.NoError(b, e.Failover(b.Context(), 1))
	var streams []*stream.Stream
	for _, id := range b.streams {
		streams = append(streams, b.openStream(e, id))
	}
	more(e, streams)
	require.NoError(b, e.Upload(b.Context()))
	before := b.files()

	c.signal(syscall.SIGCONT)
	c.end()
	_, failed = c.said()
	require.NotEmpty(b, failed)
	after := b.files()
	for name, content := range before {
		if now, there := after[name]; there { // the cleaner runs meanwhile
			require.True(b, bytes.Equal(content, now), "%s has changed", name)
		}
	}
	for _, s := range streams {
		require.NoError(b, s.Close(b.Context()))
	}
	b.verify(e)
	require.NoError(b, e.Close(b.Context()))
	b.check()
	done()
	return failed
}

// files are the objects of node 2's log and all data objects.
func (b *bench) files() map[string][]byte {
	b.Helper()
	files := map[string][]byte{}
	require.NoError(b, filepath.WalkDir(b.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path)[0] == '.' {
			return nil // it is gone, or is no object
		}
		content, err := os.ReadFile(path)
		if err == nil {
			files[path] = content
		}
		return nil
	}))
	return files
}

// appendTo appends as a child would, in this process.
func (b *bench) appendTo(s *stream.Stream, size int) {
	b.Helper()
	a := ackLine{Stream: s.ID(), Base: s.Next(), Count: 2, Size: size, Tag: "the parent"}
	base, err := s.Append(b.Context(), a.Count, payloadOf(a))
	require.NoError(b, err)
	require.Equal(b, a.Base, base)
	b.acked = append(b.acked, a)
}

func TestF08_APausedWriterAcknowledgesNothingAfterATakeover(t *testing.T) {
	b := newBench(t)
	failed := b.overtake(true, func(_ *stream.Engine, streams []*stream.Stream) {
		for i := range 40 {
			b.appendTo(streams[i%len(streams)], 1000)
		}
	})
	require.Contains(t, failed, "was fenced at", "by the store alone")
}

// TestF34_FencesDoNotDependOnWhatTheCleanerLeaves: the new owner appends, uploads, compacts and cleans without any grace, and
// the fence has grown old, as its file says, and is deleted, before the paused one goes on. Nothing in the bucket tells it any
// more that it was taken over. But the last proof that it has of its epoch has become too old by then: longer than that fences
// are kept.
func TestF34_FencesDoNotDependOnWhatTheCleanerLeaves(t *testing.T) {
	b := newBench(t)
	b.config.GCGrace = 0
	b.maxPutAge = 10 * time.Second // the child keeps proofs younger than that, however busy the machine is
	failed := b.overtake(true, func(e *stream.Engine, streams []*stream.Stream) {
		paused := time.Now()
		for i := range 50 {
			b.appendTo(streams[i%len(streams)], 1000)
			if i%5 == 0 {
				require.NoError(t, e.Upload(t.Context()))
			}
		}
		require.NoError(t, e.Compact(t.Context()))
		require.NoError(t, e.Clean(t.Context()))
		b.cleanLog(1)
		<-time.After(time.Until(paused.Add(b.maxPutAge + time.Second)))
	})
	require.Contains(t, failed, "epoch was last known to be current", "by its own clock alone")
}

// cleanLog makes what is left of the log of a node that was taken over old, the fence included, and has it removed.
func (b *bench) cleanLog(node catalog.NodeID) {
	b.Helper()
	store, err := dir.Open(vfs.OS(), b.root)
	require.NoError(b, err)
	defer store.Close()
	prefix := stream.WALPrefix{Cluster: "processes", Node: node}.String()
	left := func() []objstore.Info {
		page, err := store.List(b.Context(), objstore.ListRequest{Prefix: prefix})
		require.NoError(b, err)
		return page.Objects
	}
	long := time.Now().Add(-2 * stream.DefaultConfig().WALFenceRetention)
	for _, o := range left() {
		err := os.Chtimes(filepath.Join(b.root, filepath.FromSlash(o.Key)), long, long)
		require.True(b, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err) // the engine removes the rest meanwhile
	}
	again, err := stream.CleanLog(b.Context(), stream.CleanLogOptions{Catalog: b.catalog, WAL: store, Cluster: "processes", Node: node})
	require.NoError(b, err)
	require.Zero(b, again)
	require.Empty(b, left())
}

// TestTheChild is the process that the tests above start. On its own it does nothing.
func TestTheChild(t *testing.T) {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var o orders
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	ctx := context.Background()
	shared, closed := o.catalog(ctx, t)
	store := openStore(ctx, t, o.Store)
	config := processConfig()
	if o.Quiet {
		config.UploadInterval, config.CompactInterval, config.GCInterval = time.Hour, time.Hour, time.Hour
	}
	proof := time.Now
	var proved atomic.Pointer[time.Time]
	if o.MaxPutAge > 0 {
		now := time.Now()
		proved.Store(&now)
		config.WALMaxPutAge = o.MaxPutAge
		proof = func() time.Time { return *proved.Load() }
	}
	e, err := stream.Open(ctx, stream.Options{
		Catalog: shared, Node: o.Node, Cluster: "processes", WAL: store, Data: store, Proof: proof, Config: config,
	})
	require.NoError(t, err)
	if o.MaxPutAge > 0 {
		go prove(ctx, shared, e.Node(), &proved)
	}
	var opened []*stream.Stream
	for row := range shared.View().Streams() {
		s, err := e.OpenStream(ctx, row.ID, row.Epoch+1)
		if err != nil {
			break // it was overtaken already
		}
		opened = append(opened, s)
	}
	var writers sync.WaitGroup
	for _, s := range opened {
		writers.Go(func() { appendForever(ctx, s, o.Tag, !o.Quiet) })
	}
	writers.Wait()
	fmt.Printf("failed %q\n", fmt.Sprint(e.Err()))
	_ = e.Close(ctx)
	_ = store.Close()
	closed()
}

// prove keeps asking the catalog whether the node is still in its epoch, and notes since when that is known.
func prove(ctx context.Context, c catalog.Catalog, n catalog.Node, proved *atomic.Pointer[time.Time]) {
	for {
		asked := time.Now()
		if _, err := c.PrepareObjects(ctx, n, 1, time.Millisecond); err != nil {
			return
		}
		proved.Store(&asked)
		<-time.After(50 * time.Millisecond)
	}
}

func (o orders) catalog(ctx context.Context, t *testing.T) (c catalog.Catalog, closed func()) {
	if o.Socket == "" {
		return openMetadata(ctx, t, o.Metadata, time.Now)
	}
	shared, err := dialCatalog(ctx, o.Socket)
	require.NoError(t, err)
	return shared, shared.close
}

// appendForever appends until it fails, and says what was acknowledged. Now and then it reads, and trims. Uploads, compaction
// and the cleaner run by themselves.
func appendForever(ctx context.Context, s *stream.Stream, tag string, trims bool) {
	for n := 1; ; n++ {
		if trims && n%20 == 0 {
			at := s.Start() + rand.Int64N(s.Confirm()-s.Start()+1)
			text, _ := json.Marshal(ackLine{Stream: s.ID(), Base: at})
			fmt.Printf("trims %s\n", text)
			if err := s.Trim(ctx, at); err != nil {
				return
			}
		}
		if n%5 == 0 {
			got, err := s.Fetch(ctx, stream.FetchRequest{Start: s.Start(), End: s.Confirm(), MaxBytes: 20_000})
			if err == nil && s.Confirm() > s.Start() && len(got.Records) == 0 {
				fmt.Printf("failed %q\n", "a read gave nothing")
				return
			}
		}
		a := ackLine{Stream: s.ID(), Base: s.Next(), Count: 1 + rand.Int32N(5), Size: 1 + rand.IntN(5000), Tag: tag}
		if _, err := s.Append(ctx, a.Count, payloadOf(a)); err != nil {
			return
		}
		text, _ := json.Marshal(a) // plain fields: it cannot fail
		fmt.Printf("acked %s\n", text)
	}
}
