package broker

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/budget"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

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
				require.Equal(t, int64(firstShare), held, "little more is held than has come")
			} else {
				require.Zero(t, held)
			}
			(&client{t: t, conn: nc}).requireClosed()
			want := 30 * time.Second
			if sent > sizeBytes+fixedHeader {
				want = 11 * time.Second // something came in the first, and nothing in ten more
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

// begin sends the first n bytes of a frame on a new connection, and waits until the server has them.
func (r *rig) begin(frame []byte, n int) net.Conn {
	r.t.Helper()
	nc := r.dialRaw()
	_, err := nc.Write(frame[:n])
	require.NoError(r.t, err)
	synctest.Wait()
	return nc
}

// Seventeen connections that sent 12 bytes each held up every producer, and every consumer, for half a minute.
func TestPeersThatAnnounceRequestsAndSendNothingHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		start := time.Now()
		for _, announced := range []struct{ key, size int }{{0, 2 << 20}, {3, 2 << 20}, {0, 90 << 20}} {
			head := binary.BigEndian.AppendUint32(nil, uint32(announced.size))
			head = binary.BigEndian.AppendUint16(head, uint16(announced.key))
			head = append(binary.BigEndian.AppendUint16(head, 9), 0, 0, 0, 1)
			for range 40 {
				r.begin(head, len(head))
			}
		}
		r.dial().mustProduce(topic, 0, records("x"))
		r.dial().mustProduce(topic, 0, records(strings.Repeat("x", 900_000)))
		r.stillThere()
		for _, in := range []*intake{r.server.large, r.server.produce.bytes, r.server.control.bytes} {
			held, waiting := in.used()
			require.Zero(t, held)
			require.Zero(t, waiting)
		}
		require.Zero(t, time.Since(start))
		r.stop()
	})
}

func TestRequestsThatStallGiveWayToThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.SocketRequestMaxBytes, o.QueuedMaxRequestBytes = 4<<20, 8<<20 }) // 1 MiB for Produce
		topic := r.topic("t", 1, nil)
		frame := frameOf(produceTo(13, topic, 0, -1, records(strings.Repeat("x", 700_000))), 1)
		start := time.Now()
		for range 2 {
			r.begin(frame, 400_000)
		}
		held, _ := r.server.produce.bytes.used()
		const each = bodyGrowth*firstShare + 2*mostAhead // what the steps come to that 400,000 bytes have begun
		require.Equal(t, int64(2*each), held, "the second holds more than there is")
		r.dial().mustProduce(topic, 0, records("x"))
		require.Zero(t, time.Since(start), "what fits the connection's buffer needs no room")
		r.dial().mustProduce(topic, 0, records(strings.Repeat("x", 5000)))
		require.Equal(t, time.Second, time.Since(start), "one in which less came than a thirtieth")
		require.Equal(t, ClosedSlowRequest, r.events.closing(t, 1).Reason)
		r.stop()
	})
}

func TestRequestsThatWaitForEachOthersRoomAllEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.SocketRequestMaxBytes, o.QueuedMaxRequestBytes = 4<<20, 8<<20 }) // 1 MiB for Produce
		topic := r.topic("t", 1, nil)
		frame := frameOf(produceTo(13, topic, 0, -1, records(strings.Repeat("x", 700_000))), 1)
		var sending sync.WaitGroup
		for range 40 {
			nc := r.dialRaw()
			sending.Go(func() {
				for rest := frame; len(rest) > 0; {
					n := min(len(rest), 5000)
					if _, err := nc.Write(rest[:n]); err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
				readFrame(t, nc)
			})
		}
		sending.Wait()
		require.Equal(t, int64(40), r.log(topic, 0).Offsets().LogEnd)
		held, _ := r.server.produce.bytes.used()
		require.Zero(t, held)
		r.stop()
	})
}

func TestTheQueueTellsWhatIsHeldAndWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.SocketRequestMaxBytes, o.QueuedMaxRequestBytes = 4<<20, 8<<20 }) // 1 MiB for Produce
		topic := r.topic("t", 1, nil)
		require.Zero(t, r.server.Queue())
		all := share{intake: r.server.produce.bytes}
		require.NoError(t, all.growTo(t.Context(), all.intake.capacity))
		c := r.dial()
		req := produceTo(13, topic, 0, -1, records(strings.Repeat("x", 100_000)))
		sent := make(chan int32, 1)
		go func() { sent <- c.send(req) }()
		synctest.Wait()
		require.Equal(t, Queue{Bytes: all.held, Waiting: 1}, r.server.Queue())
		all.release()
		c.receive(req, <-sent)
		synctest.Wait()
		require.Zero(t, r.server.Queue())
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
		for _, b := range []*budget.Budget{r.server.produce.decoded, r.server.control.decoded, r.server.answers} {
			held, _ := b.Used()
			require.Zero(t, held)
		}
		for _, b := range []*intake{r.server.produce.bytes, r.server.control.bytes} {
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

func TestASlowReaderOfASocketIsCutOff(t *testing.T) {
	r := newRigOn(t, vfs.OS())
	r.backend.root = t.TempDir()
	topic := r.topic("t", 1, nil)
	producer := r.dial()
	for range 20 {
		producer.mustProduce(topic, 0, records(strings.Repeat("x", 1_000_000)))
	}
	events := newRecorder()
	impatient, err := New(Options{Backend: r.backend, Events: events.events(), ResponseWriteTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.serving.Go(func() { require.NoError(t, impatient.Serve(l)) })
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer nc.Close()
	req := fetchFrom(18, topic, 0, 0)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
	(&client{t: t, conn: nc}).send(req) // and does not read
	require.Equal(t, ClosedSlowResponse, events.closing(t, 1).Reason)
	require.NoError(t, impatient.Shutdown(t.Context()))
}
