package broker

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
