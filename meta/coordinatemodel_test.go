package meta_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

// lateClaims is the backend of a process that hears late that it has lost the lease.
type lateClaims struct {
	meta.Backend
	mu     sync.Mutex
	random *rand.Rand
}

type lateClaim struct {
	meta.Claim
	lost chan struct{}
}

func (c lateClaim) Lost() <-chan struct{} { return c.lost }

func (l *lateClaims) Claim(ctx context.Context, key string, value []byte) (meta.Claim, error) {
	c, err := l.Backend.Claim(ctx, key, value)
	if err != nil || key != meta.LeaseKey {
		return c, err
	}
	late := lateClaim{c, make(chan struct{})}
	l.mu.Lock()
	delay := time.Duration(l.random.Int64N(int64(20 * time.Second)))
	l.mu.Unlock()
	go func() {
		<-c.Lost()
		<-time.After(delay)
		close(late.lost)
	}()
	return late, nil
}

// crowd are processes of which one should lead.
type crowd struct {
	*testing.T
	random    *rand.Rand
	storage   *metatest.Memory
	processes []crowdProcess
	newest    int64 // epoch of a coordinator
}

type crowdProcess struct {
	m *meta.Member
	l *meta.Log
	b meta.Backend
}

func (c *crowd) begin(node int32) crowdProcess {
	var b meta.Backend = &lateClaims{Backend: c.storage.Join(), random: rand.New(rand.NewPCG(c.random.Uint64(), 9))}
	if c.random.IntN(2) == 0 {
		b = metatest.Lossy(b, c.random.Uint64())
	}
	l, err := meta.Open(c.Context(), b, meta.Options{Node: node, SnapshotEvery: 1 + c.random.Uint64N(20)})
	require.NoError(c, err)
	for {
		m, err := meta.Join(c.Context(), l, meta.MemberOptions{Node: node, Announce: true})
		if errors.Is(err, meta.ErrOutcomeUnknown) {
			continue // others have truncated what it would have shown in
		}
		require.NoError(c, err)
		return crowdProcess{m, l, b}
	}
}

func (c *crowd) end(p crowdProcess) {
	p.m.Close()
	require.NoError(c, p.l.Close())
	_ = p.b.Close()
}

// step does one thing to one process.
func (c *crowd) step() {
	i := c.random.IntN(len(c.processes))
	p := c.processes[i]
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	switch c.random.IntN(7) {
	case 0:
		c.storage.Expire(meta.LeaseKey)
	case 1:
		p.l.Resign(time.Duration(c.random.Int64N(int64(30 * time.Second))))
	case 2:
		p.l.Candidate()
	case 3:
		_, _ = p.m.Renew(ctx)
	case 4:
		c.end(p)
		c.processes[i] = c.begin(int32(i + 1))
	default:
		_, _ = p.l.Do(ctx, put("k", "v"))
	}
	if c.random.IntN(2) == 0 {
		pass(time.Duration(c.random.Int64N(int64(5 * time.Second))))
	}
}

// check looks at the processes that have read all of the log.
func (c *crowd) check(head uint64) {
	leaders := 0
	for _, p := range c.processes {
		view := p.l.View()
		if view.Index() != head || view.Level() < meta.LevelTables {
			continue
		}
		require.GreaterOrEqual(c, view.Coordinator().Epoch, c.newest)
		c.newest = view.Coordinator().Epoch
		if epoch, leads := p.l.CoordinatorEpoch(); leads && epoch > 0 {
			leaders++
		}
	}
	require.LessOrEqual(c, leaders, 1)
}

// leaders are the nodes that lead by all that is in the log.
func (c *crowd) leaders() (nodes []int32) {
	for _, p := range c.processes {
		require.NoError(c, p.m.Err())
		err := p.l.ConfirmLead(c.Context())
		for err != nil && !errors.Is(err, meta.ErrNotLeading) {
			err = p.l.ConfirmLead(c.Context()) // the network was down
		}
		if err == nil {
			nodes = append(nodes, p.m.Node())
		}
	}
	return nodes
}

// TestMP9_InAnyOrderOfEventsOneLeadsInTheEnd: the lease expires, which its holder hears late, replies are lost, processes end and
// begin, renew their epochs, and resign. Of those that have read all of the log one leads at most, and when all is calm one does.
func TestMP9_InAnyOrderOfEventsOneLeadsInTheEnd(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{T: t, random: rand.New(rand.NewPCG(seed, 9)), storage: metatest.NewMemory("c")}
			for node := range int32(3) {
				c.processes = append(c.processes, c.begin(node+1))
			}
			for c.processes[0].m.RaiseLevel(t.Context(), meta.LevelStreams) != nil {
				pass(time.Second)
			}
			reader := c.storage.Join()
			for range 100 {
				c.step()
				synctest.Wait() // nobody does anything during the check
				head, err := reader.Head(t.Context())
				require.NoError(t, err)
				c.check(head)
			}
			pass(2 * time.Minute)
			coordinator := c.processes[0].l.View().Coordinator()
			require.Equal(t, []int32{coordinator.Node}, c.leaders(), "seed %d", seed)
			for _, p := range c.processes {
				c.end(p)
			}
			require.NoError(t, reader.Close())
			pass(time.Minute) // all has been heard
		})
	}
}
