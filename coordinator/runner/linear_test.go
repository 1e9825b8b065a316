package runner_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/coordinator"
)

// offsetOp is a commit or a read of the offset of one partition of one group.
type offsetOp struct {
	key   string
	write bool
	value int64
}

// offsetModel is a register for each group and partition.
var offsetModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			in, _ := op.Input.(offsetOp)
			byKey[in.key] = append(byKey[in.key], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return int64(-1) },
	Step: func(state, input, output any) (bool, any) {
		in, _ := input.(offsetOp)
		if in.write {
			return true, in.value
		}
		return output == state, state
	},
}

// history is what clients did, in a time that only orders.
type history struct {
	mu    sync.Mutex
	clock atomic.Int64
	ops   []porcupine.Operation
}

func (h *history) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// TestCommitsAndReadsAreLinearizableOverCrashes has clients commit and read offsets while the log is synced at random, and
// lets the machine crash now and then: what was read or answered must still be so after it.
func TestCommitsAndReadsAreLinearizableOverCrashes(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := &history{}
		var values atomic.Int64
		logs := []*memLog{newMemLog(), newMemLog()}
		for life := range 6 {
			for _, l := range logs {
				l.hold()
			}
			r := newRig(t, slices.Clone(logs))
			r.runner.StartAll()
			runClients(r, h, &values, seed*100+uint64(life), 20+random.IntN(40))
			for i, l := range logs {
				logs[i] = l.crash() // before the shards end: what is in flight is lost
			}
			r.close()
		}
		require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(offsetModel, h.ops, 0), "seed %d", seed)
	}
}

// runClients runs clients until a number of syncs has been made. Commits without an answer may or may not have happened.
func runClients(r *rig, h *history, values *atomic.Int64, seed uint64, syncs int) {
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				oneOp(r, h, values, random, int(seed)*10+i, stop)
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, 99))
	begun := h.clock.Load()
	for range syncs {
		for h.clock.Load() < begun+2 { // let them do something
			r.logs[random.IntN(len(r.logs))].release()
		}
		begun = h.clock.Load()
		r.logs[random.IntN(len(r.logs))].release()
	}
	close(stop)
	clients.Wait()
}

func oneOp(r *rig, h *history, values *atomic.Int64, random *rand.Rand, client int, stop <-chan struct{}) {
	group, partition := fmt.Sprintf("g%d", random.IntN(3)), random.Int32N(2)
	op := offsetOp{key: fmt.Sprint(group, partition), write: random.IntN(2) == 0}
	var req coordinator.Request = fetchOf(group, partition)
	if op.write {
		op.value = values.Add(1)
		req = commitOf(group, partition, op.value)
	}
	began := h.clock.Add(1)
	call := r.runner.Submit(req)
	select {
	case <-call.Done():
	case <-stop: // the crash comes before the answer
		if op.write {
			h.add(porcupine.Operation{ClientId: client, Input: op, Call: began, Return: math.MaxInt64})
		}
		return
	}
	if err := call.Answer().Error(); err != nil {
		if op.write && !errors.Is(err, coordinator.ErrLoading) { // that was not even taken
			h.add(porcupine.Operation{ClientId: client, Input: op, Call: began, Return: math.MaxInt64})
		}
		return
	}
	out := any(nil)
	if a, ok := call.Answer().(*coordinator.FetchAnswer); ok {
		out = a.Topics[0].Partitions[0].Offset
	}
	h.add(porcupine.Operation{ClientId: client, Input: op, Output: out, Call: began, Return: h.clock.Add(1)})
}
