package stream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// ledgerGroup is a group at a window: the records in the order of submission, each given as its stream.
func ledgerGroup(window, trim int64, streams ...catalog.StreamID) *walGroup {
	g := &walGroup{window: window * Window, trim: trim}
	for i, id := range streams {
		record := Record{Stream: id, Base: int64(i), Count: 1}
		if id == -1 {
			record = Sentinel()
		}
		g.items = append(g.items, &walItem{record: record})
	}
	offset := g.window
	for _, item := range g.byPlace() {
		item.offset = offset
		offset += int64(FrameLen(item.record))
	}
	return g
}

const ledgerFrame = frameHeaderSize + RecordHeaderSize

func TestF07_ATrimOffsetOnlyCoversObjectsThatAreCommittedWhole(t *testing.T) {
	l := newWALLedger()
	g := ledgerGroup(0, -1, 2, 1, 3) // frames lie as 1, 2, 3; acknowledged as 2, 1, 3
	l.stored(g)
	offset := func(i int) int64 { return g.items[i].offset }
	require.Equal(t, []int64{ledgerFrame, 0, 2 * ledgerFrame}, []int64{offset(0), offset(1), offset(2)})

	trim, moved := l.committed(offset(0)) // the record of stream 1 lies below it and is not committed
	require.Equal(t, []any{int64(-1), false}, []any{trim, moved})
	trim, moved = l.committed(offset(1))
	require.Equal(t, []any{int64(-1), false}, []any{trim, moved})
	trim, moved = l.committed(offset(2))
	require.Equal(t, []any{offset(2), true}, []any{trim, moved})
	_, moved = l.committed(offset(2))
	require.False(t, moved)
}

func TestWAL19_TheTrimOffsetIsTheNewestDataRecordsAndNeverASentinels(t *testing.T) {
	l := newWALLedger()
	l.stored(ledgerGroup(0, -1, 1))
	l.stored(ledgerGroup(1, -1, -1))
	l.stored(ledgerGroup(2, -1, -1, 1))
	l.stored(ledgerGroup(3, -1, 1))
	trim, moved := l.committed(2*Window + ledgerFrame)
	require.Equal(t, []any{int64(2*Window + ledgerFrame), true}, []any{trim, moved})
	l = newWALLedger()
	l.stored(ledgerGroup(0, -1, 1))
	l.stored(ledgerGroup(1, -1, -1))
	l.stored(ledgerGroup(2, -1, 1, 2))
	trim, moved = l.committed(2 * Window)
	require.Equal(t, []any{int64(0), true}, []any{trim, moved}, "a sentinel's offset does not count, nor half an object")
}

func TestWAL21_WAL22_OnlyWhatALaterAcknowledgedObjectCoversMayGo(t *testing.T) {
	l := newWALLedger()
	l.first = 99 * Window // an object that is not looked at here
	l.stored(ledgerGroup(0, -1, 1))
	l.stored(ledgerGroup(1, -1, 1))
	l.committed(Window)
	require.Empty(t, l.deletable(), "nothing carries the trim offset")
	l.stored(ledgerGroup(2, 0, 1))
	require.Equal(t, []int64{0}, l.deletable())
	l.stored(ledgerGroup(3, Window, -1))
	require.Equal(t, []int64{0, Window}, l.deletable())
	l.deleted([]int64{Window})
	require.Equal(t, []int64{0}, l.deletable())
	l.deleted([]int64{0})
	l.committed(2 * Window)
	l.stored(ledgerGroup(4, 2*Window, -1))
	require.Equal(t, []int64{2 * Window}, l.deletable(), "the sentinel lies above the trim offset, and the newest stays")
	l.stored(ledgerGroup(5, 2*Window, 1))
	l.committed(5 * Window)
	l.stored(ledgerGroup(6, 5*Window, 1))
	require.Equal(t, []int64{2 * Window, 3 * Window, 4 * Window, 5 * Window}, l.deletable())
}

// TestF45_TheFirstObjectOfAnEpochStays: whoever begins the same epoch meets it.
func TestF45_TheFirstObjectOfAnEpochStays(t *testing.T) {
	l := newWALLedger()
	for window := range int64(3) {
		l.stored(ledgerGroup(7+window, 8*Window, 1))
	}
	require.Equal(t, []int64{8 * Window}, l.deletable())
	l.deleted([]int64{8 * Window})
	require.Empty(t, l.deletable())
}

func TestWAL20_ASentinelCarriesTheTrimOffsetWhenNoAppendDoes(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		for range 3 {
			c.appendMany(s, 1)
			c.pass(time.Second)
		}
		trace := p.wal.Trace(nil)
		require.NoError(c, p.Upload(c.Context()))
		c.pass(c.config.WALTrimPersist - time.Millisecond)
		require.Empty(c, trace.String())
		c.pass(time.Millisecond)
		require.Equal(c, []string{
			fmt.Sprintf("put-if-absent %s +%d", walKey(5, 1, 3), fenceSize+markSize),
			fmt.Sprintf("delete %s %s", walKey(5, 1, 1), walKey(5, 1, 2)),
		}, strings.Split(strings.TrimSpace(trace.String()), "\n"))
		require.Equal(c, []string{"1/0", "1/3"}, c.walKeys(5), "the first one stays")
		data, err := c.wal.Open().Get(c.Context(), walKey(5, 1, 3))
		require.NoError(c, err)
		h, frames, err := DecodeWALObject("k", data)
		require.NoError(c, err)
		require.EqualValues(c, 2*Window, h.Trim)
		require.True(c, frames[0].Record.IsSentinel())

		trace.Reset()
		c.pass(time.Hour)
		require.Empty(c, trace.String(), "an idle log costs nothing")
		p.kill()
		next := c.start(5)
		require.Equal(c, RecoveredEvent{
			Node: catalog.Node{ID: 5, Epoch: 2}, Epoch: 1, From: 3 * Window, To: 4 * Window, Objects: 1,
		}, next.events.recovered(), "WAL-28: nothing is left to recover")
		next.close()
	})
}

func TestWAL20_AnAppendCarriesTheTrimOffset(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		c.appendMany(s, 1)
		require.NoError(c, p.Upload(c.Context()))
		c.appendMany(s, 1)
		c.pass(time.Hour)
		require.Equal(c, 2, p.wal.Count(objstore.OpPutIfAbsent), "no sentinel was needed")
		c.appendMany(s, 1)
		require.NoError(c, p.Upload(c.Context()))
		c.appendMany(s, 1)
		synctest.Wait()
		require.Equal(c, []string{"1/0", "1/3"}, c.walKeys(5))
		p.close()
	})
}

func TestWAL23_F69_ADeleteThatFailsIsTriedAgainAndHoldsUpNobody(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		for range 3 {
			c.appendMany(s, 1)
			c.pass(time.Second)
		}
		p.wal.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete },
			faultstore.Always(faultstore.Fault{Keys: map[string]error{walKey(5, 1, 1): objstore.ErrDenied}})))
		require.NoError(c, p.Upload(c.Context()))
		c.appendMany(s, 1)
		synctest.Wait()
		require.Equal(c, []string{"1/0", "1/1", "1/3"}, c.walKeys(5), "the other one is gone")
		require.Equal(c, "delete failed", p.events.String())
		c.appendMany(s, 1)
		c.pass(deleteRetry)
		require.Contains(c, c.walKeys(5), "1/1")
		p.wal.SetInjector(nil)
		c.pass(deleteRetry)
		require.NotContains(c, c.walKeys(5), "1/1")
		require.NoError(c, p.Err())
		p.close()
	})
}

func TestWAL22_AYoungFenceStaysAndAnOldOneGoes(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.start(5).kill()
		second := c.start(5)
		require.Equal(c, []string{"1/0"}, c.walKeys(5), "the fence of an empty log")
		second.close()
		c.pass(c.config.WALFenceRetention - time.Second)
		c.start(5).close()
		require.Equal(c, []string{"1/0"}, c.walKeys(5))
		c.pass(time.Second)
		c.start(5).close()
		require.Empty(c, c.walKeys(5))
	})
}

// TestWAL22_ARunningEngineRemovesFencesThatHaveGrownOld: those of its own node's older openings, and those of a node that it
// took over, with one listing for all that grow old by then.
func TestWAL22_ARunningEngineRemovesFencesThatHaveGrownOld(t *testing.T) {
	runCluster(t, func(c *cluster) {
		c.start(5).kill()
		c.pass(time.Hour)
		c.start(5).kill()
		c.start(6).kill()
		p := c.start(5)
		require.NoError(c, p.Failover(c.Context(), 6))
		synctest.Wait()
		require.Equal(c, []string{"1/0", "2/1"}, c.walKeys(5))
		require.Equal(c, []string{"1/0"}, c.walKeys(6))
		p.wal.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete },
			faultstore.FailNth(0, objstore.ErrTransient)))
		calls := p.wal.Calls()
		c.pass(c.config.WALFenceRetention - time.Second)
		require.Equal(c, calls, p.wal.Calls(), "nothing is asked for before that")
		require.Equal(c, []string{"1/0", "2/1"}, c.walKeys(5))
		c.pass(time.Second)
		c.pass(deleteRetry) // one delete had failed
		require.Empty(c, c.walKeys(5))
		require.Empty(c, c.walKeys(6))
		calls = p.wal.Calls()
		c.pass(10 * c.config.WALFenceRetention)
		require.Equal(c, calls, p.wal.Calls(), "and then no more")
		p.close()
	})
}

// trimWitness is the store of a log. Its answers are late, so that what is durable is not in the cache yet; and of each object
// that comes it wants that what its trim offset covers is in data objects.
type trimWitness struct {
	objstore.Store
	c      *cluster
	random func(n int) time.Duration

	mu      sync.Mutex
	records map[int64]Record // by logical offset, of all objects that came
	trims   map[int64]bool
}

func (w *trimWitness) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	h, frames, err := DecodeWALObject(key, data)
	if err != nil {
		return err
	}
	w.mu.Lock()
	for _, f := range frames {
		w.records[f.Offset] = f.Record
	}
	w.trims[h.Trim] = true
	covered := map[catalog.StreamID]int64{}
	for offset, r := range w.records {
		if offset <= h.Trim && !r.IsSentinel() && !r.IsMark() {
			covered[r.Stream] = max(covered[r.Stream], r.End())
		}
	}
	w.mu.Unlock()
	view := w.c.catalog.View()
	for id, end := range covered {
		at := int64(0)
		for _, o := range view.Objects(id, 0, end, 1000) {
			if _, err := w.c.data.Open().Head(context.WithoutCancel(ctx), DataKey(DefaultNamespace, o.Object)); err == nil && o.Start <= at {
				at = max(at, o.End)
			}
		}
		if at < end {
			w.c.Errorf("the trim offset %d in %q covers stream %d up to %d, objects hold it up to %d", h.Trim, key, id, end, at)
		}
	}
	err = w.Store.PutIfAbsent(ctx, key, data)
	<-time.After(w.random(9)) // it is durable, and not in the cache
	return err
}

// TestF07_NoTrimOffsetCoversWhatIsNotInObjects: 64 streams append side by side, with pauses between what is durable and what is
// in the cache, while uploads are slow and overtake each other. At every put of the log its trim offset is held against the
// data objects; then the process dies, and all that was acknowledged is there.
func TestF07_NoTrimOffsetCoversWhatIsNotInObjects(t *testing.T) {
	trims := 0
	defer func() { require.Greater(t, trims, 12, "there was something to look at") }()
	for seed := range uint64(12) {
		runCluster(t, func(c *cluster) {
			c.config.CacheMaxStreams = []int{1, 3, 100}[seed%3]
			c.config.WALInflight = 20
			c.config.WALBatchInterval = time.Millisecond
			c.config.UploadInterval = 20 * time.Millisecond
			c.config.WALTrimPersist = 10 * time.Millisecond
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 7))
			pauses := func(n int) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.IntN(n)) * time.Millisecond
			}
			p := c.prepare()
			p.data.SetInjector(faultstore.When(faultstore.Writes, faultstore.Always(faultstore.Fault{
				Hook: func(ctx context.Context) { _ = pause(ctx, pauses(60)) },
			})))
			options := p.options(5)
			witness := &trimWitness{Store: p.wal, c: c, random: pauses, records: map[int64]Record{}, trims: map[int64]bool{}}
			options.WAL = witness
			var err error
			p.Engine, err = Open(c.Context(), options)
			require.NoError(c, err)
			var streams []*Stream
			for range 64 {
				streams = append(streams, p.stream())
			}
			acked := make([]int64, len(streams))
			var writers sync.WaitGroup
			for i, s := range streams {
				writers.Go(func() {
					for range 12 {
						if _, err := s.Append(c.Context(), 1, fmt.Appendf(nil, "%d@%d", s.ID(), s.Next())); err != nil {
							return
						}
						acked[i]++
						<-time.After(pauses(20))
					}
				})
			}
			c.pass(time.Duration(40+20*seed) * time.Millisecond)
			p.kill()
			writers.Wait()
			trims += len(witness.trims) - 1
			next := c.start(5)
			for i, s := range streams {
				rows := c.rows(next.reopen(s.ID()))
				require.GreaterOrEqual(c, int64(len(rows)), acked[i])
				require.Equal(c, named(s, 0, int64(len(rows))), rows)
			}
			next.close()
		})
	}
}

// TestF07_SlowAndReorderedUploads has many streams append in any order, blocks of one stream each, and the first block's
// object be the slowest. After each commit the trim offset covers nothing that is not committed.
func TestF07_SlowAndReorderedUploadsLoseNothing(t *testing.T) {
	for crashAfter := range 8 {
		runCluster(t, func(c *cluster) {
			c.config.CacheMaxStreams = 1
			p := c.start(5)
			var streams []*Stream
			for range 64 {
				streams = append(streams, p.stream())
			}
			writes := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpPutIfAbsent })
			p.data.SetInjector(writes.Inject)
			for i := range streams {
				s := streams[(i*37)%64]
				c.submit(s, fmt.Sprintf("%d@0", s.ID()))
			}
			c.pass(time.Second)
			for range crashAfter { // the later ones first
				held, err := writes.Held(c.Context(), 1)
				require.NoError(c, err)
				writes.Release(held[len(held)-1])
				synctest.Wait()
			}
			c.pass(2 * time.Second) // a trim offset, if there is one, is persisted
			p.kill()
			next := c.start(5)
			for _, s := range streams {
				require.Equal(c, named(s, 0, 1), c.rows(next.reopen(s.ID())), "after %d", crashAfter)
			}
			next.close()
		})
	}
}
