package broker

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
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
			held, _ := r.server.large.Used()
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
			held, _ = r.server.large.Used()
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
		held, waiting := r.server.produce.bytes.Used()
		require.Equal(t, int64(len(frame)-sizeBytes), held)
		require.Equal(t, 2, waiting)
		r.stillThere() // other requests have a budget of their own

		require.NoError(t, first.Close())
		synctest.Wait()
		held, waiting = r.server.produce.bytes.Used()
		require.Equal(t, int64(len(frame)+len(small)-2*sizeBytes), held)
		require.Zero(t, waiting)
		for nc, frame := range map[net.Conn][]byte{third: small, second: frame} {
			_, err := nc.Write(frame[100:])
			require.NoError(t, err)
			readFrame(t, nc)
		}
		held, _ = r.server.produce.bytes.Used()
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
		held, waiting := r.server.large.Used()
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
		for _, b := range []*budget.Budget{
			r.server.produce.bytes, r.server.produce.decoded, r.server.control.bytes, r.server.control.decoded,
		} {
			held, _ := b.Used()
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
	r := newRigOn(t, vfs.OS(), func(o *Options) { o.ResponseWriteTimeout = 50 * time.Millisecond })
	r.backend.root = t.TempDir()
	topic := r.topic("t", 1, nil)
	producer := r.dial()
	for range 20 {
		producer.mustProduce(topic, 0, records(strings.Repeat("x", 1_000_000)))
	}
	nc, err := net.Dial("tcp", r.listen())
	require.NoError(t, err)
	defer nc.Close()
	req := fetchFrom(18, topic, 0, 0)
	req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
	(&client{t: t, conn: nc}).send(req) // and does not read
	closed := r.events.closing(t, 1)
	require.Equal(t, ClosedSlowResponse, closed.Reason)
	require.NoError(t, producer.conn.Close())
}
