package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
)

func TestBuffersHaveTheLengthThatWasAsked(t *testing.T) {
	var p buffers
	for _, n := range []int{0, 1, 1023, 1024, 1025, 4096, 100_000, 4 << 20, 4<<20 + 1} {
		b := p.take(n)
		require.Len(t, b, n)
		p.give(b)
		require.Len(t, p.take(n), n)
	}
	p.give(make([]byte, 10))   // smaller than any class
	p.give(make([]byte, 5000)) // between two: it serves the smaller
	require.Len(t, p.take(4096), 4096)
	p.give(make([]byte, 64<<20)) // larger than any
	require.Len(t, p.take(64<<20), 64<<20)
}

// ledger is what was acknowledged: the value at each offset.
type ledger struct {
	mu     sync.Mutex
	values map[int64]string
}

func (l *ledger) put(offset int64, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[offset] = value
}

func (l *ledger) check(t *testing.T, offset int64, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want, known := l.values[offset]; known && want != value {
		t.Errorf("offset %d: got %.40q, want %.40q", offset, value, want)
	}
}

// checkFetched holds every record of a fetch against the ledger.
func (l *ledger) checkFetched(t *testing.T, b []byte) {
	for len(b) > 0 {
		one, rest, err := batch.Next(b)
		if err == nil {
			err = one.VerifyCRC()
		}
		if err != nil {
			t.Error(err)
			return
		}
		r := one.Records(batch.Limits{})
		for r.Next() {
			l.check(t, r.Record().Offset, string(r.Record().Value))
		}
		r.Close()
		b = rest
	}
}

// Every buffer that is given back is overwritten (the rig does so). Writers, readers at random offsets, a reader that
// takes a byte at a time, and a trimmer share the server; nobody may see anybody else's bytes.
func TestF19_NobodySeesAnothersBytes(t *testing.T) {
	const writers, readers, each = 4, 6, 25
	r := osRig(t)
	r.server.buffers.poison = true
	topic := r.topic("t", 1, map[string]string{"segment.bytes": "1048576"})
	addr := r.listen()
	dial := func() *client {
		nc, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		return &client{t: t, conn: nc}
	}
	l := &ledger{values: map[int64]string{}}
	var writing, reading sync.WaitGroup
	var written atomic.Bool

	for w := range writers {
		c := dial()
		writing.Go(func() {
			defer c.conn.Close()
			for i := range each {
				value := fmt.Sprintf("%d/%d %s", w, i, strings.Repeat(string(rune('a'+w)), 1+i*i*20))
				l.put(c.mustProduce(topic, 0, records(value)), value)
			}
		})
	}
	for i := range readers {
		c := dial()
		slow := i == 0
		reading.Go(func() {
			defer c.conn.Close()
			rng := rand.New(rand.NewPCG(uint64(i), 9))
			for !written.Load() {
				o := r.log(topic, 0).Offsets()
				req := fetchFrom(18, topic, 0, o.LogStart+rng.Int64N(o.HighWatermark-o.LogStart+1))
				req.MaxBytes = 1 + rng.Int32N(1<<20)
				correlation := c.send(req)
				if slow {
					c.conn = &trickle{Conn: c.conn}
				}
				resp := c.receive(req, correlation).(*kmsg.FetchResponse)
				if p := resp.Topics[0].Partitions[0]; p.ErrorCode == codeNone {
					l.checkFetched(t, p.RecordBatches)
				} else if p.ErrorCode != codeOffsetOutOfRange {
					t.Errorf("error %d", p.ErrorCode)
				}
			}
		})
	}
	reading.Go(func() {
		for !written.Load() {
			o := r.log(topic, 0).Offsets()
			if _, err := r.log(topic, 0).DeleteRecords(o.LogStart + (o.HighWatermark-o.LogStart)/8); err != nil {
				t.Error(err)
			}
			if c := dial(); true {
				do[*kmsg.MetadataResponse](c, metadataOf(13, false, "t", strings.Repeat("z", rand.IntN(200))))
				_ = c.conn.Close()
			}
		}
	})
	writing.Wait()
	written.Store(true)
	reading.Wait()
	require.Len(t, l.values, writers*each)
	require.NoError(t, r.backend.DeleteTopics(context.Background(), []TopicID{topic.ID})[0])
}

// trickle is a connection that is read in small pieces.
type trickle struct{ net.Conn }

func (c *trickle) Read(b []byte) (int, error) { return c.Conn.Read(b[:min(len(b), 1000)]) }
