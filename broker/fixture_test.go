package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testNode    = 7
	testCluster = "AAAAAAAAAAAAAAAAAAAAAQ"
)

// testBackend is a node without metadata log: topics in a map, their partitions real logs on a file system in memory.
type testBackend struct {
	t          testing.TB
	disk       vfs.FS
	env        *kafkalog.Env
	flusher    *partition.Flusher
	maintainer *partition.Maintainer
	defaults   map[string]string // of every topic

	mu      sync.Mutex
	topics  map[TopicID]*Topic
	logs    map[TopicID][]*partition.Log
	created [][]CreateTopic
	lastID  int64
	failing error // of the calls that take a context
	dirs    int
	root    string      // directory of the logs
	view    *testTopics // nil: out of date
}

func newTestBackend(t testing.TB, disk vfs.FS) *testBackend {
	b := &testBackend{
		t:          t,
		disk:       disk,
		env:        kafkalog.NewEnv(kafkalog.EnvOptions{FS: disk}),
		flusher:    partition.NewFlusher(partition.FlusherOptions{}),
		maintainer: partition.NewMaintainer(partition.MaintainerOptions{}),
		topics:     map[TopicID]*Topic{},
		logs:       map[TopicID][]*partition.Log{},
		lastID:     1000,
		root:       "/data",
	}
	return b
}

func (b *testBackend) close() {
	for _, logs := range b.logs {
		for _, l := range logs {
			_ = l.Close() // a test may have broken the disk under it
		}
	}
	b.flusher.Close()
	b.maintainer.Close()
	require.NoError(b.t, b.env.Close())
}

func (b *testBackend) ClusterID() string { return testCluster }

func (b *testBackend) NodeID() int32 { return testNode }

func (b *testBackend) Nodes(listener net.Addr) []Node {
	n := Node{ID: testNode, Host: "pipe.example", Port: 9092, Rack: "r1"}
	if tcp, ok := listener.(*net.TCPAddr); ok {
		n.Host, n.Port = tcp.IP.String(), int32(tcp.Port)
	}
	return []Node{n}
}

// testTopics is a view of the topics at one moment.
type testTopics struct {
	byName map[string]*Topic
	byID   map[TopicID]*Topic
}

func (b *testBackend) Topics() Topics {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.view == nil {
		b.view = b.viewLocked()
	}
	return b.view
}

func (b *testBackend) viewLocked() *testTopics {
	v := &testTopics{byName: map[string]*Topic{}, byID: maps.Clone(b.topics)}
	for _, t := range b.topics {
		v.byName[t.Name] = t
	}
	return v
}

func (v *testTopics) ByName(name string) (*Topic, bool) { t, ok := v.byName[name]; return t, ok }

func (v *testTopics) ByID(id TopicID) (*Topic, bool) { t, ok := v.byID[id]; return t, ok }

func (v *testTopics) ByCollision(name string) (*Topic, bool) {
	for _, t := range v.byName {
		if collisionKey(t.Name) == collisionKey(name) {
			return t, true
		}
	}
	return nil, false
}

func (v *testTopics) All() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		for _, name := range slices.Sorted(maps.Keys(v.byName)) {
			if !yield(v.byName[name]) {
				return
			}
		}
	}
}

func (v *testTopics) Len() int { return len(v.byName) }

func (b *testBackend) Partition(id TopicID, index int32) (*partition.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	logs, ok := b.logs[id]
	switch {
	case !ok:
		return nil, ErrUnknownTopicID
	case int(index) >= len(logs):
		return nil, ErrUnknownPartition
	}
	return logs[index], nil
}

func (b *testBackend) ResolveConfig(_ string, overrides map[string]string) (topicconfig.Config, error) {
	c, err := topicconfig.Parse(b.defaults)
	if err != nil {
		return c, err
	}
	return c.With(overrides)
}

func (b *testBackend) CreateTopics(ctx context.Context, topics []CreateTopic) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.created = append(b.created, topics)
	errs := make([]error, len(topics))
	for i, t := range topics {
		errs[i] = b.createLocked(ctx, t)
	}
	return errs
}

func (b *testBackend) createLocked(ctx context.Context, c CreateTopic) error {
	if b.failing != nil {
		return b.failing
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, t := range b.topics {
		if t.Name == c.Name {
			return ErrTopicExists
		}
	}
	config, err := b.ResolveConfig(c.Name, c.Overrides)
	if err != nil {
		return err
	}
	t := &Topic{Name: c.Name, ID: c.ID, Internal: isInternalName(c.Name), Config: config}
	for i := range c.Partitions {
		b.dirs++
		l, err := partition.Open(partition.Options{
			Env: b.env, Flusher: b.flusher, Maintainer: b.maintainer,
			Dir: fmt.Sprintf("%s/%s-%d.%d", b.root, c.Name, i, b.dirs), Topic: c.Name, Index: i, TopicID: c.ID, Config: config,
			RecoveryPoint: -1, HighWatermark: -1, LogStart: -1,
		})
		if err != nil {
			return err
		}
		b.logs[c.ID] = append(b.logs[c.ID], l)
		t.Partitions = append(t.Partitions, Partition{Leader: testNode, Replicas: []int32{testNode}, InSync: []int32{testNode}})
	}
	b.topics[c.ID] = t
	b.view = nil
	return nil
}

func (b *testBackend) DeleteTopics(ctx context.Context, ids []TopicID) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(ids))
	for i, id := range ids {
		switch {
		case b.failing != nil:
			errs[i] = b.failing
		case b.topics[id] == nil:
			errs[i] = ErrUnknownTopicID
		default:
			delete(b.topics, id)
			b.view = nil
			for _, l := range b.logs[id] {
				errs[i] = l.Remove(func() (string, error) { return l.Dir() + "-delete", b.disk.Rename(l.Dir(), l.Dir()+"-delete") })
			}
			delete(b.logs, id)
		}
	}
	return errs
}

func (b *testBackend) NextProducerID(context.Context) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing != nil {
		return 0, b.failing
	}
	b.lastID++
	return b.lastID, nil
}

// setPartition changes what the metadata say about a partition.
func (b *testBackend) setPartition(name string, index int, p Partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, t := range b.topics {
		if t.Name == name {
			changed := *t
			changed.Partitions = slices.Clone(t.Partitions)
			changed.Partitions[index] = p
			b.topics[id] = &changed
			b.view = nil
		}
	}
}

// recorder keeps the events of a server.
type recorder struct {
	mu       sync.Mutex
	opened   []Connection
	closed   []ConnectionClosed
	rejected []ConnectionRefused
	done     []RequestDone
	refused  []RequestRefused
	panics   []Panicked
	news     chan struct{} // has a value after an event
}

func newRecorder() *recorder { return &recorder{news: make(chan struct{}, 1)} }

func record[T any](r *recorder, list *[]T) func(T) {
	return func(e T) {
		r.mu.Lock()
		*list = append(*list, e)
		r.mu.Unlock()
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
}

func (r *recorder) events() Events {
	return Events{
		ConnectionOpened:  record(r, &r.opened),
		ConnectionClosed:  record(r, &r.closed),
		ConnectionRefused: record(r, &r.rejected),
		RequestDone:       record(r, &r.done),
		RequestRefused:    record(r, &r.refused),
		Panicked:          record(r, &r.panics),
	}
}

// await waits until the events are as wanted.
func (r *recorder) await(t testing.TB, what string, wanted func() bool) {
	t.Helper()
	timeout := time.After(5 * time.Minute)
	for {
		r.mu.Lock()
		ok := wanted()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.news:
		case <-timeout:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// closing waits for the end of the n-th connection and says how it came.
func (r *recorder) closing(t testing.TB, n int) ConnectionClosed {
	t.Helper()
	r.await(t, "the end of a connection", func() bool { return len(r.closed) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed[n-1]
}

// pipeListener is a listener whose connections are made by dial.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }

func (pipeAddr) String() string { return "pipe" }

// rig is a server on a listener in memory.
type rig struct {
	t        testing.TB
	backend  *testBackend
	server   *Server
	events   *recorder
	listener *pipeListener
	serving  sync.WaitGroup
	stopped  sync.Once
	clients  []net.Conn
}

func newRig(t testing.TB, options ...func(*Options)) *rig {
	return newRigOn(t, memfs.New(), options...)
}

func newRigOn(t testing.TB, disk vfs.FS, options ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, backend: newTestBackend(t, disk), events: newRecorder(), listener: newPipeListener()}
	o := Options{Backend: r.backend, Events: r.events.events()}
	for _, set := range options {
		set(&o)
	}
	var err error
	r.server, err = New(o)
	require.NoError(t, err)
	r.server.buffers.poison = true
	r.serving.Go(func() { require.NoError(t, r.server.Serve(r.listener)) })
	t.Cleanup(r.stop)
	if held, ok := disk.(*heldDisk); ok {
		t.Cleanup(held.release) // before stop, also when the test failed
	}
	return r
}

// stop closes the clients, then ends the server and then the logs. It runs once.
func (r *rig) stop() { r.stopped.Do(r.stopNow) }

func (r *rig) stopNow() {
	for _, nc := range r.clients {
		_ = nc.Close() // the test may have closed it
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(r.t, r.server.Shutdown(ctx))
	r.serving.Wait()
	r.backend.close()
}

// topic creates a topic.
func (r *rig) topic(name string, partitions int32, overrides map[string]string) *Topic {
	r.t.Helper()
	id := newTopicID()
	errs := r.backend.CreateTopics(context.Background(), []CreateTopic{
		{Name: name, ID: id, Partitions: partitions, Replicas: 1, Overrides: overrides},
	})
	require.NoError(r.t, errs[0])
	t, ok := r.backend.Topics().ByID(id)
	require.True(r.t, ok)
	return t
}

func (r *rig) log(t *Topic, index int32) *partition.Log {
	r.t.Helper()
	l, err := r.backend.Partition(t.ID, index)
	require.NoError(r.t, err)
	return l
}

// client speaks to a server in requests and responses of kmsg.
type client struct {
	t    testing.TB
	conn net.Conn
	last atomic.Int32 // correlation id
}

func (r *rig) dial() *client {
	r.t.Helper()
	return &client{t: r.t, conn: r.dialRaw()}
}

func (r *rig) dialRaw() net.Conn {
	r.t.Helper()
	ours, theirs := net.Pipe()
	r.listener.conns <- theirs
	r.clients = append(r.clients, ours)
	return ours
}

const testClientID = "tester"

// frameOf encodes a request.
func frameOf(req kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(testClientID)).AppendRequest(nil, req, correlation)
}

// send sends a request and returns its correlation id.
func (c *client) send(req kmsg.Request) int32 {
	c.t.Helper()
	correlation := c.last.Add(1)
	_, err := c.conn.Write(frameOf(req, correlation))
	require.NoError(c.t, err)
	return correlation
}

// receive reads the response to a request.
func (c *client) receive(req kmsg.Request, correlation int32) kmsg.Response {
	c.t.Helper()
	frame := readFrame(c.t, c.conn)
	resp := req.ResponseKind()
	body := responseBody(c.t, frame, correlation, resp.IsFlexible() && resp.Key() != apiVersionsKey)
	require.NoError(c.t, resp.ReadFrom(body))
	again := resp.AppendTo(nil)
	if resp.Key() != 1 { // null and empty records of a Fetch are the same to kmsg
		require.Equal(c.t, body, again, "the response has bytes that its schema does not know")
	}
	return resp
}

func readFrame(t testing.TB, r io.Reader) []byte {
	t.Helper()
	var size [4]byte
	_, err := io.ReadFull(r, size[:])
	require.NoError(t, err)
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(r, frame)
	require.NoError(t, err)
	return frame
}

func responseBody(t testing.TB, frame []byte, correlation int32, tagged bool) []byte {
	t.Helper()
	require.GreaterOrEqual(t, len(frame), 4)
	require.Equal(t, correlation, int32(binary.BigEndian.Uint32(frame)))
	frame = frame[4:]
	if tagged {
		require.Equal(t, byte(0), frame[0])
		frame = frame[1:]
	}
	return frame
}

// do sends a request and reads its response.
func do[R kmsg.Response](c *client, req kmsg.Request) R {
	c.t.Helper()
	return c.receive(req, c.send(req)).(R)
}

// requireClosed checks that the server closes the connection and sends nothing before that.
func (c *client) requireClosed() {
	c.t.Helper()
	n, err := c.conn.Read(make([]byte, 1))
	require.Equal(c.t, 0, n, "the server answered")
	require.ErrorIs(c.t, err, io.EOF)
}

// at sets the version of a request.
func at[R kmsg.Request](version int16, req R) R {
	req.SetVersion(version)
	return req
}

// testTime is the timestamp of the first record of a batch that does not say otherwise: where the clock of a synctest
// bubble begins.
const testTime = 946684800000

// records builds a batch of records with the given values.
func records(values ...string) []byte { return batchOf(batch.BuilderOptions{}, values...) }

func batchOf(o batch.BuilderOptions, values ...string) []byte {
	b := batch.NewBuilder(o)
	for i, v := range values {
		b.Add(testTime+int64(i), []byte("k"), []byte(v))
	}
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return slices.Clone([]byte(built))
}

// idempotent builds a batch of a producer.
func idempotent(id int64, epoch int16, sequence int32, values ...string) []byte {
	return batchOf(batch.BuilderOptions{HasProducer: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: sequence}, values...)
}

// produceTo makes a Produce request for one partition.
func produceTo(version int16, t *Topic, index int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := at(version, kmsg.NewPtrProduceRequest())
	req.Acks, req.TimeoutMillis = acks, 30_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = t.Name, t.ID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = index, records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// produce appends a batch and returns the answer for its partition.
func (c *client) produce(t *Topic, index int32, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	resp := do[*kmsg.ProduceResponse](c, produceTo(13, t, index, -1, records))
	require.Len(c.t, resp.Topics, 1)
	require.Len(c.t, resp.Topics[0].Partitions, 1)
	return resp.Topics[0].Partitions[0]
}

// mustProduce appends a batch and returns its base offset.
func (c *client) mustProduce(t *Topic, index int32, records []byte) int64 {
	c.t.Helper()
	p := c.produce(t, index, records)
	require.Equal(c.t, codeNone, p.ErrorCode, "%v", p.ErrorMessage)
	return p.BaseOffset
}

// fetchFrom makes a Fetch request for one partition.
func fetchFrom(version int16, t *Topic, index int32, offset int64) *kmsg.FetchRequest {
	req := at(version, kmsg.NewPtrFetchRequest())
	req.MaxBytes = 1 << 20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = t.Name, t.ID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = index, offset, 1<<20
	rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = -1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// fetchOne sends a Fetch for one partition and returns the answer for it.
func (c *client) fetchOne(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	resp := do[*kmsg.FetchResponse](c, req)
	require.Equal(c.t, codeNone, resp.ErrorCode)
	require.Len(c.t, resp.Topics, 1)
	require.Len(c.t, resp.Topics[0].Partitions, 1)
	return resp.Topics[0].Partitions[0]
}

// values reads the values of the records of whole batches.
func values(t testing.TB, b []byte) []string {
	t.Helper()
	out := []string{}
	for len(b) > 0 {
		one, rest, err := batch.Next(b)
		require.NoError(t, err)
		require.NoError(t, one.VerifyCRC())
		r := one.Records(batch.Limits{})
		for r.Next() {
			out = append(out, string(r.Record().Value))
		}
		require.NoError(t, r.Err())
		r.Close()
		b = rest
	}
	return out
}

// reopen closes the log of a partition and opens it again in a later leader epoch, as after a crash.
func (r *rig) reopen(t *Topic, index int32, epoch int32) {
	r.t.Helper()
	b := r.backend
	old := r.log(t, index)
	require.NoError(r.t, old.Close())
	l, err := partition.Open(partition.Options{
		Env: b.env, Flusher: b.flusher, Maintainer: b.maintainer,
		Dir: old.Dir(), Topic: t.Name, Index: index, TopicID: t.ID, Config: t.Config, LeaderEpoch: epoch,
		RecoveryPoint: -1, HighWatermark: -1, LogStart: -1,
	})
	require.NoError(r.t, err)
	b.mu.Lock()
	b.logs[t.ID][index] = l
	b.mu.Unlock()
	b.setPartition(t.Name, int(index), Partition{
		Leader: testNode, LeaderEpoch: epoch, Replicas: []int32{testNode}, InSync: []int32{testNode},
	})
}

// openTransaction appends records of a transaction that stays open. A client cannot do that yet.
func openTransaction(t testing.TB, l *partition.Log, template []byte) {
	t.Helper()
	o := batch.Batch(template).Header().BuilderOptions()
	o.HasProducer, o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = true, 42, 0, 0, true
	b := batch.NewBuilder(o)
	r := batch.Batch(template).Records(batch.Limits{})
	for r.Next() {
		b.Add(r.Record().Timestamp, r.Record().Key, r.Record().Value)
	}
	require.NoError(t, r.Err())
	built, err := b.Build()
	require.NoError(t, err)
	a, err := l.Append(context.Background(), built, partition.AppendOptions{ProduceVersion: 13})
	require.NoError(t, err)
	require.NoError(t, a.Wait(context.Background()))
}
