package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/ledger"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// life is a machine with clients at work on it, of which a ledger is kept: idempotent writers with several batches under
// way, writers that are not, a reader, one who deletes old records, one who stores offsets of a group, and one who asks for
// starts and ends.
type life struct {
	t      *testing.T
	m      *nodetest.Machine
	rand   *rand.Rand
	ledger *ledger.Ledger
	load   *ledger.Load
	poll   func() // ends the asking
}

// begin starts a machine and the clients. The topic's records are flushed as told. Values of 30 to 100 kB fill a segment every few records.
func begin(t *testing.T, m *nodetest.Machine, seed uint64, flush string) *life {
	t.Helper()
	m.Start()
	createTopic(t, client(t, m), 3, map[string]string{"segment.bytes": "1048576", "tidemark.flush": flush}, "loaded")
	writers := ledger.DefaultWriters()
	for i := range writers {
		if writers[i].MinBytes > 10_000 {
			writers[i].MinBytes, writers[i].MaxBytes = 30_000, 100_000
		}
	}
	l := &life{t: t, m: m, rand: rand.New(rand.NewPCG(seed, 0)), ledger: ledger.New("loaded")}
	var err error
	l.load, err = ledger.StartLoad(l.ledger, ledger.LoadOptions{
		Client: []kgo.Opt{kgo.SeedBrokers(m.Addr())}, Writers: writers, Readers: 1, Keep: 150, Group: "billing",
	})
	require.NoError(t, err)
	t.Cleanup(l.load.Close)
	l.poll = pollOffsets(t, m, "loaded")
	return l
}

// verify reads everything back. What is under way goes on meanwhile, and nothing new is begun.
func (l *life) verify(when string) {
	l.t.Helper()
	l.load.Pause()
	defer l.load.Resume()
	report, err := l.ledger.Verify(within(l.t), kgo.SeedBrokers(l.m.Addr()))
	require.NoError(l.t, err, when)
	require.NoError(l.t, report.Err(), when)
}

// works waits until so many more records were acknowledged.
func (l *life) works(acks int64) {
	l.t.Helper()
	require.NoError(l.t, l.ledger.WaitAcks(within(l.t), l.ledger.Acks()+acks))
}

// end lets the clients finish and reads everything back.
func (l *life) end() {
	l.t.Helper()
	l.works(100)
	require.NoError(l.t, l.load.Stop(within(l.t)))
	l.poll()
	l.verify("at the end")
	l.m.Stop()
}

// pollOffsets asks for the start and the end of every partition again and again, over restarts, until the returned func is
// called, and fails the test when one of them goes back.
func pollOffsets(t *testing.T, m *nodetest.Machine, topic string) (stop func()) {
	admin := kadm.NewClient(client(t, m))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		starts, ends := map[int32]int64{}, map[int32]int64{}
		rises := func(highest map[int32]int64, listed kadm.ListedOffsets) {
			listed.Each(func(o kadm.ListedOffset) {
				if o.Err != nil {
					return // the server is away
				}
				if o.Offset < highest[o.Partition] {
					t.Errorf("partition %d went back from %d to %d", o.Partition, highest[o.Partition], o.Offset)
				}
				highest[o.Partition] = max(highest[o.Partition], o.Offset)
			})
		}
		for ctx.Err() == nil {
			if listed, err := admin.ListStartOffsets(ctx, topic); err == nil {
				rises(starts, listed)
			}
			if listed, err := admin.ListEndOffsets(ctx, topic); err == nil {
				rises(ends, listed)
			}
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-ended
	})
}

// guillotine takes a machine's disk away before a given call that changes it.
type guillotine struct {
	m    *nodetest.Machine
	left atomic.Int64 // calls until then; never reached below zero
	fell chan struct{}
}

func newGuillotine(m *nodetest.Machine) *guillotine {
	g := &guillotine{m: m, fell: make(chan struct{}, 1)}
	g.left.Store(-1)
	m.Wrap = func(base vfs.FS) vfs.FS {
		disk := m.FS
		return faultfs.New(base, faultfs.When(faultfs.Writes, func(faultfs.Op) faultfs.Fault {
			if g.left.Add(-1) != 0 {
				return faultfs.Fault{}
			}
			return faultfs.Fault{Hook: func() {
				disk.Kill()
				g.fell <- struct{}{}
			}}
		}))
	}
	return g
}

// wait blocks until the disk is gone.
func (g *guillotine) wait(t *testing.T) {
	t.Helper()
	select {
	case <-g.fell:
	case <-within(t).Done():
		require.Fail(t, "nobody writes to the disk")
	}
}

// cutSomewhere cuts the power: half of the time when some records were acknowledged, half of the time at some call of the
// server to its disk, be it in the middle of the next start.
func (l *life) cutSomewhere(g *guillotine, seed uint64) {
	l.t.Helper()
	if l.rand.IntN(2) == 0 {
		l.works(l.rand.Int64N(200))
	} else {
		g.left.Store(1 + l.rand.Int64N(500))
		g.wait(l.t)
	}
	l.m.CutPower(nodetest.Cut{Seed: seed, Keep: l.keep()})
	for l.rand.IntN(4) == 0 {
		g.left.Store(1 + l.rand.Int64N(150)) // a start makes some hundred calls
		_, _ = l.m.TryStart(within(l.t))     // it may just have been ready
		g.wait(l.t)
		l.m.CutPower(nodetest.Cut{Seed: seed, Keep: l.keep()})
	}
	g.left.Store(-1)
	l.m.Start()
}

// keep draws the share of unsynced sectors that survives: often none, sometimes all, mostly something in between.
func (l *life) keep() float64 {
	return []float64{0, 0, 1, l.rand.Float64(), l.rand.Float64(), l.rand.Float64()}[l.rand.IntN(6)]
}

// cutsOfALife is how many power cuts one machine sees, before the next one begins with an empty disk.
const cutsOfALife = 50

// fromEnv returns the number in the environment variable, or the value for when it is not set.
func fromEnv(t *testing.T, name string, unset int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// NODE_POWER_CUTS in the environment is how often the power is cut, NODE_POWER_CUTS_SEED makes other cuts of them.
func TestF01_F36_NothingAcknowledgedIsLostAndNoOffsetGoesBackInPowerCutsUnderLoad(t *testing.T) {
	cuts, seed := fromEnv(t, "NODE_POWER_CUTS", 5), fromEnv(t, "NODE_POWER_CUTS_SEED", 0)
	for first := 0; first < cuts; first += cutsOfALife {
		number := first / cutsOfALife
		flush := []string{"group", "every"}[number%2] // the two modes in which nothing acknowledged may be lost
		t.Run(fmt.Sprintf("machine %d, %s", number, flush), func(t *testing.T) {
			m := machine(t)
			g := newGuillotine(m)
			l := begin(t, m, uint64(seed+first), flush)
			for i := first; i < min(first+cutsOfALife, cuts); i++ {
				l.cutSomewhere(g, uint64(seed+i))
				l.verify(fmt.Sprint("after cut ", i))
			}
			l.end()
		})
	}
}

// snapshots does something to every producer snapshot of a machine that is off, and returns how many there were.
func snapshots(t *testing.T, m *nodetest.Machine, do func(name string, data []byte) error) (found int) {
	t.Helper()
	for _, name := range under(tree(t, m.FS, nodetest.DataDir), ".snapshot") {
		data, err := vfs.ReadFile(m.FS, name)
		require.NoError(t, err)
		require.NoError(t, do(name, data))
		found++
	}
	return found
}

func TestF16_RetriesOverKillsAndRestartsUnderLoadWriteNothingTwice(t *testing.T) {
	m := machine(t)
	l := begin(t, m, 0, "group")
	rewrite := func(change func(data []byte) []byte) func(string, []byte) error {
		return func(name string, data []byte) error {
			if len(data) == 0 { // the kill was amid its making: it is damaged enough
				return nil
			}
			return vfs.WriteFileAtomic(m.FS, name, change(data))
		}
	}
	for i := range 20 {
		l.works(l.rand.Int64N(200))
		if i%2 == 0 {
			m.CutPower(nodetest.Cut{Seed: uint64(i), Keep: 1}) // the process is killed, the machine runs on
		} else {
			m.Stop()
		}
		switch i {
		case 4, 5:
			require.Positive(t, snapshots(t, m, func(name string, _ []byte) error { return m.FS.Remove(name) }))
		case 8, 9:
			require.Positive(t, snapshots(t, m, rewrite(func(data []byte) []byte { data[len(data)/2] ^= 1; return data })))
		case 12, 13:
			require.Positive(t, snapshots(t, m, rewrite(func([]byte) []byte { return nil })))
		case 16, 17:
			require.Positive(t, snapshots(t, m, rewrite(func(data []byte) []byte { data[1] = 99; return data })), "another version")
		}
		m.Start()
		l.verify(fmt.Sprint("after start ", i))
	}
	l.end()
}

func TestF01_TenThousandRecordsSurviveAPowerCutRightAfterTheLastAnswer(t *testing.T) {
	m := machine(t) // as it is shipped
	m.Start()
	c := client(t, m, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MaxBufferedRecords(10_000))
	createTopic(t, c, 1, nil, "orders")
	require.Equal(t, "group", setting(t, c, "orders", "tidemark.flush"), "the weaker mode is not the default")
	want := map[position]string{}
	var last sync.WaitGroup
	var mu sync.Mutex
	for i := range 10_000 {
		last.Add(1)
		c.Produce(t.Context(), &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i)}, func(r *kgo.Record, err error) {
			defer last.Done()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			want[position{"orders", 0, r.Offset}] = string(r.Value)
		})
	}
	last.Wait()
	m.CutPower(nodetest.Cut{})
	m.Start()
	require.Equal(t, want, consume(t, m, "orders"))
	require.Len(t, want, 10_000)
}
