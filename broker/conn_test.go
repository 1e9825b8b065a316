package broker

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pass lets time go by.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// stillThere checks that the server serves somebody else.
func (r *rig) stillThere() {
	r.t.Helper()
	c := r.dial()
	require.Equal(r.t, codeNone, do[*kmsg.MetadataResponse](c, metadataOf(13, false)).ErrorCode)
}

func TestABadPeerIsClosedAndDisturbsNobody(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<31-1)
	tests := []struct {
		name  string
		sends []byte
	}{
		{"garbage", []byte("GET / HTTP/1.1\r\nHost: example\r\n\r\n")},
		{"negative size", []byte{0xFF, 0xFF, 0xFF, 0xFF}},
		{"huge size", huge},
		{"size just above the limit", binary.BigEndian.AppendUint32(nil, 100<<20+1)},
		{"size zero", []byte{0, 0, 0, 0}},
		{"size of half a header", []byte{0, 0, 0, 9, 0, 3, 0, 1, 0, 0, 0, 1, 0}},
		{"client id longer than the frame", []byte{0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0, 200, 'x', 'y'}},
		{"client id of negative length", []byte{0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0xFF, 0xF0, 'x', 'y'}},
		{"client id that is not UTF-8", []byte{0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0, 2, 0xC3, 0x28}},
		{"header tags that never end", []byte{0, 0, 0, 15, 0, 3, 0, 9, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F}},
		{"body that is cut short", []byte{0, 0, 0, 11, 0, 3, 0, 1, 0, 0, 0, 1, 0xFF, 0xFF, 7}},
		{"array of 2^31-1 topics", append([]byte{0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xFF, 0xFF}, 0x7F, 0xFF, 0xFF, 0xFF)},
		{"produce with an array of 2^31-1 topics", append(
			[]byte{0, 0, 0, 22, 0, 0, 0, 3, 0, 0, 0, 1, 0xFF, 0xFF}, 0xFF, 0xFF, 0, 1, 0, 0, 0, 9, 0x7F, 0xFF, 0xFF, 0xFF)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			nc := r.dialRaw()
			go func() { _, _ = nc.Write(test.sends) }() // the server may close before it has read everything
			(&client{t: t, conn: nc}).requireClosed()
			require.Equal(t, ClosedRefused, r.events.closing(t, 1).Reason)
			require.Len(t, r.events.refused, 1)
			require.Error(t, r.events.refused[0].Err)
			require.Empty(t, r.events.panics)
			r.stillThere()
		})
	}
}

func TestRandomBytesNeverHurt(t *testing.T) {
	r := newRig(t, func(o *Options) { o.SocketRequestMaxBytes = 1 << 16 })
	topic := r.topic("t", 1, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		a := apiTable()[rng.IntN(len(apiTable()))]
		version := a.served + int16(rng.IntN(int(a.max-a.served)+1))
		frame := frameOf(sample(a.key, version, topic), 1)
		for range 1 + rng.IntN(4) {
			frame[12+rng.IntN(len(frame)-12)] = byte(rng.Uint32())
		}
		nc := r.dialRaw()
		go func() {
			_, _ = nc.Write(frame)
			_, _ = io.Copy(io.Discard, nc)
		}()
		pump := r.dial()
		do[*kmsg.MetadataResponse](pump, metadataOf(13, false))
		_ = pump.conn.Close()
		_ = nc.Close()
	}
	r.stillThere()
	require.Empty(t, r.events.panics)
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	produce, fetch, metadata := produceTo(13, topic, 0, -1, records("x")), fetchFrom(18, topic, 0, 0), metadataOf(13, false)
	go func() {
		var all []byte
		for i := range int32(100) {
			all = append(all, frameOf(produce, 3*i)...)
			all = append(all, frameOf(metadata, 3*i+1)...)
			all = append(all, frameOf(fetch, 3*i+2)...)
		}
		_, _ = c.conn.Write(all) // a failure shows in what is read
	}()
	for i := range int32(100) {
		got := c.receive(produce, 3*i).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		require.Equal(t, int64(i), got.BaseOffset)
		c.receive(metadata, 3*i+1)
		read := c.receive(fetch, 3*i+2).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		require.GreaterOrEqual(t, len(values(t, read.RecordBatches)), int(i)+1, "a request sees what the ones before it did")
	}
}

func TestAPanicReachesNobody(t *testing.T) {
	r := newRig(t)
	r.server.apis[10].handle = func(*call) (answer, error) { panic("in a handler") }
	r.server.apis[22].handle = func(*call) (answer, error) { return panicAnswer{}, nil }
	for i, test := range []struct {
		key  int16
		want string
	}{{10, "in a handler"}, {22, "in an answer"}} {
		c := r.dial()
		req := kmsg.RequestForKey(test.key)
		c.send(req)
		c.requireClosed()
		closed := r.events.closing(t, i+1)
		require.Equal(t, ClosedPanic, closed.Reason)
		require.ErrorContains(t, closed.Err, test.want)
		p := r.events.panics[i]
		require.Equal(t, test.want, p.Value)
		require.Equal(t, test.key, p.Key)
		require.Equal(t, testClientID, p.ClientID)
		require.Contains(t, string(p.Stack), "conn_test.go")
	}
	held, _ := r.server.control.decoded.Used()
	require.Zero(t, held)
	r.stillThere()
}

type panicAnswer struct{}

func (panicAnswer) weight() int { return 1 }

func (panicAnswer) write(*answerWriter) error { panic("in an answer") }

func TestEventsDescribeARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		req := fetchFrom(18, topic, 0, 0)
		req.MaxWaitMillis, req.MinBytes = 5_000, 1
		frame := frameOf(req, 1)
		_, err := c.conn.Write(frame)
		require.NoError(t, err)
		answer := readFrame(t, c.conn)
		require.NoError(t, c.conn.Close())
		closed := r.events.closing(t, 1)
		require.Equal(t, []Connection{closed.Connection}, r.events.opened)
		require.Equal(t, []RequestDone{{
			ConnectionID: 1, API: "Fetch", Key: 1, Version: 18, ClientID: testClientID,
			BytesIn: len(frame) - sizeBytes, BytesOut: int64(len(answer) + sizeBytes), Latency: 5 * time.Second,
		}}, r.events.done)
		closed.Connection = Connection{}
		closed.Err = nil
		require.Equal(t, ConnectionClosed{Reason: ClosedByClient, ClientID: testClientID, Requests: 1, Lasted: 5 * time.Second}, closed)
		r.stop()
	})
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "Backend")
	_, err = New(Options{Backend: &testBackend{}, QueuedMaxRequests: 65, NumPartitions: -1, QueuedMaxRequestBytes: 5})
	require.ErrorContains(t, err, "QueuedMaxRequests is not in")
	require.ErrorContains(t, err, "NumPartitions")
	require.ErrorContains(t, err, "QueuedMaxRequestBytes")
	_, err = New(Options{Backend: &testBackend{}})
	require.NoError(t, err)
}
