package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/vfs/memfs"
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

func TestAnIdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		silent, used := r.dial(), r.dial()
		pass(9 * time.Minute)
		do[*kmsg.MetadataResponse](used, metadataOf(13, false))
		silent.requireClosed()
		closed := r.events.closing(t, 1)
		require.Equal(t, ClosedIdle, closed.Reason)
		require.Equal(t, 10*time.Minute, closed.Lasted)

		pass(8*time.Minute + 59*time.Second)
		do[*kmsg.MetadataResponse](used, metadataOf(13, false))
		used.requireClosed()
		closed = r.events.closing(t, 2)
		require.Equal(t, ClosedIdle, closed.Reason)
		require.Equal(t, 9*time.Minute+(8*time.Minute+59*time.Second)+time.Minute+10*time.Minute, closed.Lasted)
		r.stop()
	})
}

func TestAConnectionThatWaitsForItsAnswerIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.ConnectionsMaxIdle = time.Minute })
		topic := r.topic("t", 1, nil)
		c := r.dial()
		pass(30 * time.Second)
		req := fetchFrom(18, topic, 0, 0)
		req.MaxWaitMillis, req.MinBytes = 60_000, 1
		require.Equal(t, codeNone, c.fetchOne(req).ErrorCode) // answered after a minute
		pass(59 * time.Second)
		do[*kmsg.MetadataResponse](c, metadataOf(13, false))
		c.requireClosed()
		require.Equal(t, ClosedIdle, r.events.closing(t, 1).Reason)
		r.stop()
	})
}

func TestASlowRequestIsCutOffAndGivesItsBudgetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		frame := frameOf(produceTo(13, topic, 0, -1, records(strings.Repeat("x", 3<<20))), 1)
		for name, sent := range map[string]int{"in the size": 2, "in the header": 7, "in the body": 5000} {
			nc := r.dialRaw()
			start := time.Now()
			_, err := nc.Write(frame[:sent])
			require.NoError(t, err)
			synctest.Wait()
			held, _ := r.server.large.used()
			if sent > sizeBytes+fixedHeader {
				require.Equal(t, int64(len(frame)-sizeBytes), held, "the share is taken before the body is read")
			} else {
				require.Zero(t, held)
			}
			(&client{t: t, conn: nc}).requireClosed()
			want := 30 * time.Second
			if sent > sizeBytes+fixedHeader {
				want = 33 * time.Second // a second more for each MiB
			}
			require.Equal(t, want, time.Since(start), name)
			held, _ = r.server.large.used()
			require.Zero(t, held)
		}
		for i := range 3 {
			require.Equal(t, ClosedSlowRequest, r.events.closing(t, i+1).Reason)
		}
		r.stop()
	})
}

func TestASlowReaderOfAResponseIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		producer := r.dial()
		producer.mustProduce(topic, 0, records(strings.Repeat("x", 900_000)))
		require.NoError(t, producer.conn.Close())

		c := r.dial()
		c.send(fetchFrom(18, topic, 0, 0))
		start := time.Now()
		for range 4 { // slow is no fault as long as something is taken in time
			pass(29 * time.Second)
			_, err := io.ReadFull(c.conn, make([]byte, sendChunk))
			require.NoError(t, err)
		}
		closed := r.events.closing(t, 2)
		require.Equal(t, ClosedSlowResponse, closed.Reason)
		require.Equal(t, 4*29*time.Second+30*time.Second, time.Since(start))
		r.stop()
	})
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

func TestAConnectionWhoseQueueIsFullIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk, func(o *Options) { o.QueuedMaxRequests = 16 })
		topic := r.topic("t", 1, nil)
		c := r.dial()
		disk.hold()
		req := produceTo(13, topic, 0, -1, records("x"))
		sent := make(chan int32, 100)
		go func() {
			for range 40 {
				sent <- c.send(req)
			}
		}()
		synctest.Wait()
		// 16 in the queue, one with the writer, and one that its reader has executed and cannot queue.
		require.Equal(t, int64(18), r.log(topic, 0).Offsets().LogEnd)
		disk.release()
		for range 40 {
			c.receive(req, <-sent)
		}
		require.Equal(t, int64(40), r.log(topic, 0).Offsets().LogEnd)
		r.stop()
	})
}

func TestAConnectionWithTooManyBytesOfAnswersIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.QueuedMaxResponseBytes = 64 << 10 })
		r.topic("t", 1000, nil)
		c := r.dial()
		req := metadataOf(13, false, "t") // an answer of about 40 KB
		go func() {
			for {
				if _, err := c.conn.Write(frameOf(req, 5)); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		for k := range r.server.mu.open {
			require.LessOrEqual(t, k.weight.Load(), int64(3*64<<10))
			require.Positive(t, k.weight.Load())
		}
		require.NoError(t, c.conn.Close())
		r.stop()
	})
}

// A first version took off the weight that an answer had after it was written, which is none: a connection stopped being
// read after a MiB of answers.
func TestAnswersThatWereWrittenWeighNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.QueuedMaxResponseBytes = 1000 })
		topic := r.topic("t", 10, nil)
		c := r.dial()
		for range 20 {
			for _, a := range apiTable() {
				if a.key != 19 && a.key != 20 {
					req := sample(a.key, a.max, topic)
					c.receive(req, c.send(req))
				}
			}
		}
		synctest.Wait()
		for k := range r.server.mu.open {
			require.Zero(t, k.weight.Load())
			require.Zero(t, k.waiting.Load())
		}
		r.stop()
	})
}

// begin sends the first bytes of a frame on a new connection, and waits until the server has them.
func (r *rig) begin(frame []byte) net.Conn {
	r.t.Helper()
	nc := r.dialRaw()
	_, err := nc.Write(frame[:100])
	require.NoError(r.t, err)
	synctest.Wait()
	return nc
}

func TestTheRequestBudgetIsSharedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.SocketRequestMaxBytes, o.QueuedMaxRequestBytes = 4<<20, 8<<20 }) // 1 MiB for Produce
		topic := r.topic("t", 1, nil)
		frame := frameOf(produceTo(13, topic, 0, -1, records(strings.Repeat("x", 700_000))), 1)
		small := frameOf(produceTo(13, topic, 0, -1, records("x")), 1)

		first := r.begin(frame)  // holds most of the budget and sends no more
		second := r.begin(frame) // waits
		third := r.begin(small)  // would find room, and waits its turn
		held, waiting := r.server.produce.bytes.used()
		require.Equal(t, int64(len(frame)-sizeBytes), held)
		require.Equal(t, 2, waiting)
		r.stillThere() // other requests have a budget of their own

		require.NoError(t, first.Close())
		synctest.Wait()
		held, waiting = r.server.produce.bytes.used()
		require.Equal(t, int64(len(frame)+len(small)-2*sizeBytes), held)
		require.Zero(t, waiting)
		for nc, frame := range map[net.Conn][]byte{third: small, second: frame} {
			_, err := nc.Write(frame[100:])
			require.NoError(t, err)
			readFrame(t, nc)
		}
		held, _ = r.server.produce.bytes.used()
		require.Zero(t, held)
		r.stop()
	})
}

func TestLargeRequestsThatDoNotComeHoldUpOnlyEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		announced := frameOf(produceTo(13, topic, 0, -1, records("x")), 1)
		binary.BigEndian.PutUint32(announced, 70<<20)
		r.begin(announced)
		r.begin(announced) // waits for the first
		held, waiting := r.server.large.used()
		require.Equal(t, int64(70<<20), held)
		require.Equal(t, 1, waiting)
		r.dial().mustProduce(topic, 0, records("x"))
		require.Equal(t, 30*time.Second+70*time.Second, r.events.closing(t, 1).Lasted)
		r.stop()
	})
}

func TestTheRequestBudgetIsFreeWhileAnAnswerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic := r.topic("t", 1, nil)
		c := r.dial()
		disk.hold()
		req := produceTo(13, topic, 0, -1, records(strings.Repeat("x", 100_000)))
		correlation := c.send(req)
		fetch := fetchFrom(18, topic, 0, 0)
		fetch.MaxWaitMillis, fetch.MinBytes = 60_000, 1
		r.dial().send(fetch)
		synctest.Wait()
		for _, b := range []*budget{
			r.server.produce.bytes, r.server.produce.decoded, r.server.control.bytes, r.server.control.decoded,
		} {
			held, _ := b.used()
			require.Zero(t, held)
		}
		disk.release()
		c.receive(req, correlation)
		r.stop()
	})
}

func TestConnectionLimits(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxConnections, o.MaxConnectionsPerIP = 3, 2 })
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		r.serving.Go(func() { require.NoError(t, r.server.Serve(l)) })
		return l
	}
	l := listen()
	dial := func() *client {
		nc, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = nc.Close() }) // some are closed already
		return &client{t: t, conn: nc}
	}
	first, second := dial(), dial()
	do[*kmsg.MetadataResponse](first, metadataOf(13, false))
	do[*kmsg.MetadataResponse](second, metadataOf(13, false))
	dial().requireClosed()
	r.events.await(t, "a refusal", func() bool { return len(r.events.rejected) == 1 })
	require.Equal(t, "max.connections.per.ip", r.events.rejected[0].Limit)
	require.Equal(t, 2, r.events.rejected[0].Open)

	do[*kmsg.MetadataResponse](r.dial(), metadataOf(13, false)) // from elsewhere
	r.dial().requireClosed()
	r.events.await(t, "another refusal", func() bool { return len(r.events.rejected) == 2 })
	require.Equal(t, "max.connections", r.events.rejected[1].Limit)

	require.NoError(t, first.conn.Close())
	r.events.closing(t, 1)
	do[*kmsg.MetadataResponse](dial(), metadataOf(13, false))
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
	held, _ := r.server.control.decoded.used()
	require.Zero(t, held)
	r.stillThere()
}

type panicAnswer struct{}

func (panicAnswer) weight() int { return 1 }

func (panicAnswer) write(*answerWriter) error { panic("in an answer") }

func TestF60_ShutdownAnswersWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic, quiet := r.topic("t", 1, nil), r.topic("quiet", 1, nil)
		idle, half, parked, waiting := r.dial(), r.dialRaw(), r.dial(), r.dial()

		_, err := half.Write([]byte{0, 0, 1})
		require.NoError(t, err)
		fetch := fetchFrom(18, quiet, 0, 0)
		fetch.MaxWaitMillis, fetch.MinBytes = 500_000, 1
		fetched := parked.send(fetch)
		disk.hold()
		produce := produceTo(13, topic, 0, -1, records("x"))
		produced := waiting.send(produce)
		synctest.Wait()

		start := time.Now()
		done := make(chan error, 1)
		go func() { done <- r.server.Shutdown(context.Background()) }()
		idle.requireClosed()
		(&client{t: t, conn: half}).requireClosed()
		require.Empty(t, parked.receive(fetch, fetched).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
		parked.requireClosed()
		synctest.Wait()
		require.Empty(t, done, "a produce waits for its flush")
		disk.release()
		require.Equal(t, codeNone, waiting.receive(produce, produced).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		waiting.requireClosed()
		require.NoError(t, <-done)
		require.Zero(t, time.Since(start))
		for i := range 4 {
			require.Equal(t, ClosedShutdown, r.events.closing(t, i+1).Reason)
		}
		r.stop()
	})
}

func TestF60_ShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic := r.topic("t", 1, nil)
		waiting, deaf := r.dial(), r.dial()
		disk.hold()
		waiting.send(produceTo(13, topic, 0, -1, records("x")))
		deaf.send(metadataOf(13, false)) // and does not read the answer
		synctest.Wait()

		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.server.Shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		waiting.requireClosed()
		for i := range 2 {
			require.Equal(t, ClosedShutdown, r.events.closing(t, i+1).Reason)
		}
		disk.release()
		r.stop()
	})
}

func TestAfterShutdownNobodyIsServed(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.server.Shutdown(context.Background()))
	l := newPipeListener()
	require.NoError(t, r.server.Serve(l))
	select {
	case <-l.closed:
	default:
		t.Fatal("the listener is open")
	}
}

// brokenListener fails to accept a few times, as for want of file descriptors, and then for good.
type brokenListener struct {
	*pipeListener
	failures int
}

func (l *brokenListener) Accept() (net.Conn, error) {
	if l.failures--; l.failures >= 0 {
		return nil, errors.New("too many open files")
	}
	return nil, fmt.Errorf("accept: %w", net.ErrClosed)
}

func TestServeOutlivesFailuresToAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		r := newRig(t, func(o *Options) { o.Events.AcceptFailed = func(net.Addr, error) { failures++ } })
		start := time.Now()
		err := r.server.Serve(&brokenListener{newPipeListener(), 10})
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, 11, failures)
		require.Greater(t, time.Since(start), time.Second, "it waits longer and longer")
		r.stop()
	})
}

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
