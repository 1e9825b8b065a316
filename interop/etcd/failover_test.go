package etcd_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
)

// counting appends to a counter from many nodes at once until it has been told to stop, and counts what was acknowledged.
type counting struct {
	logs []*meta.Log
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	acked   int
	unknown int // a node that fell behind what was truncated cannot learn what became of its entry
	ids     map[uint64]bool
	errs    []error
}

func startCounting(t *testing.T, logs []*meta.Log) *counting {
	c := &counting{logs: logs, stop: make(chan struct{}), ids: map[uint64]bool{}}
	for i, l := range logs {
		epoch, err := l.Do(t.Context(), meta.RegisterNode{Node: int32(i), ExpectedEpoch: -1, Incarnation: [16]byte{byte(i + 1)}})
		require.NoError(t, err)
		c.done.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
					c.step(t, l, int32(i), int64(epoch.ID))
				}
			}
		})
	}
	return c
}

// step takes producer ids and adds one to the counter, which is two commands that do not bear to be done twice.
func (c *counting) step(t *testing.T, l *meta.Log, node int32, epoch int64) {
	kv, _ := l.View().Get("counter")
	n, _ := strconv.Atoi(string(kv.Value))
	results, err := l.Propose(t.Context(),
		meta.AllocateProducerIDs{Node: node, NodeEpoch: epoch, Count: 1},
		meta.CasKv{Key: "counter", Expected: kv.Version, Value: []byte(strconv.Itoa(n + 1))})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, meta.ErrOutcomeUnknown):
		c.unknown++
	case err != nil:
		c.errs = append(c.errs, err)
	case c.ids[results[0].ID]:
		c.errs = append(c.errs, fmt.Errorf("producer id %d was given twice", results[0].ID))
	default:
		c.ids[results[0].ID] = true
		if results[1].Swapped {
			c.acked++
		}
	}
}

// waitFor waits until so many additions were acknowledged.
func (c *counting) waitFor(t *testing.T, acked int) {
	t.Helper()
	for l := c.logs[0]; ; {
		changed := l.Changes()
		c.mu.Lock()
		n, errs := c.acked, c.errs
		c.mu.Unlock()
		require.Empty(t, errs)
		if n >= acked {
			return
		}
		<-changed
	}
}

func (c *counting) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked
}

func TestF38_NothingIsLostOrDoubledWhenTheLeaderOfThreeChangesAmidAppends(t *testing.T) {
	cluster := startCluster(t, 3, nil)
	var logs []*meta.Log
	for node := range int32(3) {
		logs = append(logs, openLog(t, cluster.config("failover"), meta.Options{Node: node, SnapshotEvery: 50}))
	}
	load := startCounting(t, logs)
	load.waitFor(t, 20)
	for range 3 {
		leader := cluster.leader()
		require.GreaterOrEqual(t, leader, 0)
		cluster.stop(leader)
		load.waitFor(t, load.total()+20)
		cluster.start(leader)
		load.waitFor(t, load.total()+20)
	}
	close(load.stop)
	load.done.Wait()
	require.Empty(t, load.errs)

	last := uint64(0)
	for _, l := range logs {
		last = max(last, l.View().Index())
	}
	var snapshots []string
	for _, l := range logs {
		s, err := l.WaitApplied(t.Context(), last)
		require.NoError(t, err)
		kv, _ := s.Get("counter")
		counted, err := strconv.Atoi(string(kv.Value))
		require.NoError(t, err)
		require.GreaterOrEqual(t, counted, load.acked, "what was acknowledged is there")
		require.LessOrEqual(t, counted, load.acked+load.unknown, "and each once")
		snapshots = append(snapshots, string(s.EncodeSnapshot()))
	}
	require.Equal(t, snapshots[0], snapshots[1])
	require.Equal(t, snapshots[0], snapshots[2])
	fresh := openLog(t, cluster.config("failover"), meta.Options{Node: 9})
	require.Equal(t, snapshots[0], string(fresh.View().EncodeSnapshot()), "a node that starts now sees the same")
}
