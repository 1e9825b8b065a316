package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// emptyBackend is a node without topics that creates none.
type emptyBackend struct{}

func (emptyBackend) ClusterID() string { return testCluster }

func (emptyBackend) NodeID() int32 { return testNode }

func (emptyBackend) Nodes(Via) []Node { return []Node{{ID: testNode, Host: "h", Port: 1}} }

func (emptyBackend) Topics() Topics { return emptyTopics{} }

func (emptyBackend) Partition(TopicID, int32) (*partition.Log, error) { return nil, ErrUnknownTopicID }

func (emptyBackend) ResolveConfig(_ string, o map[string]string) (topicconfig.Config, error) {
	return topicconfig.Parse(o)
}

func (emptyBackend) CreateTopics(_ context.Context, topics []CreateTopic) []error {
	errs := make([]error, len(topics))
	for i := range errs {
		errs[i] = context.DeadlineExceeded
	}
	return errs
}

func (emptyBackend) DeleteTopics(_ context.Context, ids []TopicID) []error {
	return make([]error, len(ids))
}

func (emptyBackend) NextProducerID(context.Context) (int64, error) { return 1, nil }

type emptyTopics struct{}

func (emptyTopics) ByName(string) (*Topic, bool) { return nil, false }

func (emptyTopics) ByID(TopicID) (*Topic, bool) { return nil, false }

func (emptyTopics) ByCollision(string) (*Topic, bool) { return nil, false }

func (emptyTopics) All() iter.Seq[*Topic] { return func(func(*Topic) bool) {} }

func (emptyTopics) Len() int { return 0 }

// bench is a server whose handlers are called without a connection.
type bench struct {
	server *Server
	conn   *conn
}

func newBench(t testing.TB) *bench {
	t.Helper()
	s, err := New(Options{Backend: emptyBackend{}})
	require.NoError(t, err)
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() }) // pipes do not fail
	return &bench{server: s, conn: newConn(s, ours, pipeAddr{}, 1)}
}

// handle runs the handler of a request.
func (b *bench) handle(key, version int16, body []byte) (answer, error) {
	a := b.server.apis[key]
	return a.handle(&call{
		requestHeader: requestHeader{key: key, version: version, correlation: 1},
		api:           a, server: b.server, conn: b.conn, arrived: time.Now(), body: body,
	})
}

// write completes an answer and returns its frame.
func (b *bench) write(a answer) ([]byte, error) {
	var out sinkConn
	done := make(chan struct{})
	close(done)
	err := a.write(&answerWriter{server: b.server, ctx: context.Background(), hurry: done, sink: &out})
	return out.Buffer.Bytes(), err
}

// allocated is how many bytes f allocates in all.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// hugeCounts are bodies that declare arrays far larger than the frame can hold, at every place where a request has one.
func hugeCounts(t *testing.T, a api, version int16) [][]byte {
	t.Helper()
	topic := &Topic{Name: "t", ID: TopicID{1}}
	body := sample(a.key, version, topic).AppendTo(nil)
	var out [][]byte
	for i := range body {
		if a.isFlexible(version) {
			out = append(out, append(append(bytes.Clone(body[:i]), 0xFF, 0xFF, 0xFF, 0xFF, 0x07), body[i+1:]...))
		} else if i+4 <= len(body) {
			b := bytes.Clone(body)
			binary.BigEndian.PutUint32(b[i:], math.MaxInt32)
			out = append(out, b)
		}
	}
	return out
}

func TestT35_HugeCountsInSmallFramesAllocateNothing(t *testing.T) {
	b := newBench(t)
	for _, a := range apiTable() {
		for version := a.served; version <= a.max; version++ {
			for _, body := range hugeCounts(t, a, version) {
				got := allocated(func() {
					if answer, err := b.handle(a.key, version, body); err == nil && answer != nil {
						_, _ = b.write(answer) // how it is answered is not the matter here
					}
				})
				require.Less(t, got, int64(256<<10), "%s version %d: %x", a.name, version, body)
			}
		}
	}
}

// inflated are bodies of about the given size that decode to as much memory as their schemas allow.
func inflated(size int) map[string]struct {
	key, version int16
	body         []byte
} {
	type request = struct {
		key, version int16
		body         []byte
	}
	compact := func(n int) []byte { return binary.AppendUvarint(nil, uint64(n)+1) }
	count := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	repeat := func(n int, b ...byte) []byte { return bytes.Repeat(b, n) }
	tags := func(size int) []byte {
		var fields []byte
		n := 0
		for len(fields) < size {
			fields = append(binary.AppendUvarint(fields, uint64(n)), 0)
			n++
		}
		return join(binary.AppendUvarint(nil, uint64(n)), fields)
	}
	fetchHead := append(make([]byte, 4+4+4+4+1+4), 0xFF, 0xFF, 0xFF, 0xFF)
	return map[string]request{
		"metadata topics":         {3, 9, join(compact(size/2), repeat(size/2, 1, 0), []byte{0, 0, 0, 0})},
		"metadata tags":           {3, 9, join(compact(0), []byte{0, 0, 0}, tags(size))},
		"delete names":            {20, 5, join(compact(size), repeat(size, 1), make([]byte, 5))},
		"fetch topics":            {1, 12, join(fetchHead, compact(size/3), repeat(size/3, 1, 1, 0), []byte{1, 1, 0})},
		"fetch topics with a tag": {1, 12, join(fetchHead, compact(size/5), repeat(size/5, 1, 1, 1, 9, 0), []byte{1, 1, 0})},
		"fetch partitions":        {1, 12, join(fetchHead, compact(1), []byte{1}, compact(size/33), repeat(size/33, make([]byte, 33)...), []byte{0, 1, 1, 0})},
		"fetch forgotten":         {1, 11, join(fetchHead, count(0), count(size/6), repeat(size/6, make([]byte, 6)...), []byte{0, 0})},
		"list topics":             {2, 6, join(make([]byte, 5), compact(size/3), repeat(size/3, 1, 1, 0), []byte{0})},
		"list partitions":         {2, 1, join(make([]byte, 4), count(1), []byte{0, 0}, count(size/12), make([]byte, size))},
		"create topics":           {19, 5, join(compact(size/10), repeat(size/10, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0), make([]byte, 6))},
		"coordinator keys":        {10, 4, join([]byte{0}, compact(size), repeat(size, 1), []byte{0})},
		"commit topics":           {8, 8, join([]byte{1, 0, 0, 0, 0, 1, 0}, compact(size/3), repeat(size/3, 1, 1, 0), []byte{0})},
		"commit partitions":       {8, 8, join([]byte{1, 0, 0, 0, 0, 1, 0}, compact(1), []byte{1}, compact(size/18), repeat(size/18, make([]byte, 18)...), []byte{0, 0})},
		"offsets of topics":       {9, 6, join([]byte{1}, compact(size/3), repeat(size/3, 1, 1, 0), []byte{0})},
		"offsets of groups":       {9, 8, join(compact(size/3), repeat(size/3, 1, 0, 0), []byte{0, 0})},
		"offsets of partitions":   {9, 8, join(compact(1), []byte{1}, compact(1), []byte{1}, compact(size/4), make([]byte, size), []byte{0, 0, 0, 0})},
		"join protocols":          {11, 6, join([]byte{1}, make([]byte, 8), []byte{1, 0, 1}, compact(size/3), repeat(size/3, 1, 1, 0), []byte{0})},
		"leaving members":         {13, 4, join([]byte{1}, compact(size/3), repeat(size/3, 1, 0, 0), []byte{0})},
		"assignments":             {14, 4, join([]byte{1, 0, 0, 0, 0, 1, 0}, compact(size/3), repeat(size/3, 1, 1, 0), []byte{0})},
		"described groups":        {15, 5, join(compact(size), repeat(size, 1), []byte{0, 0})},
		"state filter":            {16, 4, join(compact(size), repeat(size, 1), []byte{0})},
		"deleted groups":          {42, 2, join(compact(size), repeat(size, 1), []byte{0})},
		"deleted offsets":         {47, 0, join([]byte{0, 0}, count(size/6), repeat(size/6, make([]byte, 6)...))},
	}
}

func TestT35_DecodingNeverTakesMoreThanWasCharged(t *testing.T) {
	const size = 1 << 18
	b := newBench(t)
	for name, r := range inflated(size) {
		t.Run(name, func(t *testing.T) {
			a := b.server.apis[r.key]
			charged, err := a.shape.cost(r.body, r.version, a.isFlexible(r.version), math.MaxInt64)
			require.NoError(t, err)
			got := allocated(func() {
				answer, err := b.handle(r.key, r.version, r.body)
				require.NoError(t, err)
				_, err = b.write(answer)
				require.NoError(t, err)
			})
			t.Logf("%d bytes: charged %d, allocated %d", len(r.body), charged, got)
			// What grows by doubling is allocated twice over; what is in use at a time is half of that at most.
			require.Less(t, got, 2*charged+64<<10)

			_, err = a.shape.cost(r.body, r.version, a.isFlexible(r.version), charged-1)
			require.ErrorIs(t, err, errInflated)
		})
	}
}

func TestT35_ARequestThatInflatesTooMuchIsRefused(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.SocketRequestMaxBytes, o.QueuedMaxRequestBytes = 1<<20, 2<<20 // 256 KiB decoded
	})
	c := r.dial()
	body := inflated(8 << 10)["fetch topics with a tag"]
	frame := append([]byte{0, 1, 0, 12, 0, 0, 0, 1, 0, 1, 'x', 0}, body.body...)
	_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	require.NoError(t, err)
	c.requireClosed()
	require.Equal(t, ClosedRefused, r.events.closing(t, 1).Reason)
	require.ErrorIs(t, r.events.refused[0].Err, errInflated)
}

func TestTheShapesAreThoseOfKmsg(t *testing.T) {
	topic := &Topic{Name: "some.topic", ID: TopicID{1}}
	for _, a := range apiTable() {
		for version := a.served; version <= a.max; version++ {
			body := sample(a.key, version, topic).AppendTo(nil)
			m := meter{wireWalker: wireWalker{b: body, flexible: a.isFlexible(version)}, version: version, limit: math.MaxInt64}
			m.structure(a.shape)
			require.NoError(t, m.err, "%s version %d", a.name, version)
			require.Empty(t, m.b, "%s version %d", a.name, version)
		}
	}
}

func FuzzHeader(f *testing.F) {
	topic := &Topic{Name: "t", ID: TopicID{1}}
	for _, a := range apiTable() {
		f.Add(frameOf(sample(a.key, a.served, topic), 1)[sizeBytes:], true)
		f.Add(frameOf(sample(a.key, a.max, topic), 1)[sizeBytes:], true)
	}
	f.Fuzz(func(t *testing.T, frame []byte, flexible bool) {
		h, body, err := parseHeader(frame, func(int16, int16) bool { return flexible })
		if err != nil {
			return
		}
		require.LessOrEqual(t, smallestHeader+len(h.clientID)+len(body), len(frame))
		require.True(t, bytes.HasSuffix(frame, body))
	})
}

// FuzzRequest throws bodies at every handler: it must refuse them or answer them, with a frame that its client can read.
func FuzzRequest(f *testing.F) {
	topic := &Topic{Name: "t", ID: TopicID{1}}
	for _, a := range apiTable() {
		for version := a.served; version <= a.max; version++ {
			f.Add(a.key, version, sample(a.key, version, topic).AppendTo(nil))
		}
	}
	for _, r := range inflated(64) {
		f.Add(r.key, r.version, r.body)
	}
	b := newBench(f)
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a := b.server.apis[key]
		if a == nil || !a.supports(version) || len(body) > 1<<16 {
			return
		}
		charged, err := a.shape.cost(body, version, a.isFlexible(version), 8<<20)
		if err != nil {
			return
		}
		var answer answer
		got := allocated(func() { answer, err = b.handle(key, version, body) })
		require.Less(t, got, 1<<20+4*(charged+int64(len(body))))
		if err != nil || answer == nil {
			return
		}
		frame, err := b.write(answer)
		require.NoError(t, err)
		require.NoError(t, readResponse(a, version, frame), "%x", frame)
	})
}

// readResponse decodes a response frame.
func readResponse(a *api, version int16, frame []byte) error {
	resp := kmsg.ResponseForKey(a.key)
	resp.SetVersion(version)
	if int(binary.BigEndian.Uint32(frame))+sizeBytes != len(frame) {
		return fmt.Errorf("the frame has %d bytes", len(frame))
	}
	body := frame[2*sizeBytes:]
	if a.taggedResponseHeader(version) {
		body = body[1:]
	}
	return resp.ReadFrom(body)
}

// FuzzStream throws whole streams of bytes at a connection.
func FuzzStream(f *testing.F) {
	topic := &Topic{Name: "t", ID: TopicID{1}}
	for _, a := range apiTable() {
		f.Add(frameOf(sample(a.key, a.max, topic), 1))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		s, err := New(Options{Backend: emptyBackend{}, SocketRequestMaxBytes: 1 << 16, Events: Events{
			Panicked: func(p Panicked) { t.Errorf("%v\n%s", p.Value, p.Stack) },
		}})
		require.NoError(t, err)
		ours, theirs := net.Pipe()
		served := make(chan struct{})
		c := newConn(s, theirs, pipeAddr{}, 1)
		go func() {
			c.serve()
			close(served)
		}()
		go func() {
			_, _ = ours.Write(stream) // the server may close before it has read everything
			_ = ours.Close()
		}()
		<-served
	})
}
