package partition

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// TestF10_WritesThatFailCostNothingThatWasAcknowledged fails writes to some logs, with and without effect, while appends to them wait
// for the journal or a sync, and cuts the power.
func TestF10_WritesThatFailCostNothingThatWasAcknowledged(t *testing.T) {
	failed := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		d := journaledDisk(t, 64<<10)
		logs := d.openAll(5)
		var calls atomic.Int64
		from, every := int64(rng.IntN(60)), 1+int64(rng.IntN(20))
		fault := faultfs.Fault{Err: errDevice, After: seed%3 == 1, Short: int64(seed % 3 / 2 * 30)}
		d.faults.SetInjector(faultfs.When(faultfs.Matching(faultfs.OpWriteAt, "data/orders-*/*.log"), func(faultfs.Op) faultfs.Fault {
			if n := calls.Add(1); n < from || n%every != 0 {
				return faultfs.Fault{}
			}
			return fault
		}))
		a := acknowledged{}
		type sent struct {
			l     *Log
			done  *Append
			value string
		}
		for i := range 12 {
			var waiting []sent
			for range 1 + rng.IntN(20) {
				l := logs[rng.IntN(len(logs))]
				value := fmt.Sprintf("%d-%s", i, strings.Repeat("v", rng.IntN(900)))
				if done, err := l.Append(t.Context(), one(value), AppendOptions{Acks: -1}); err == nil {
					waiting = append(waiting, sent{l, done, value})
				}
			}
			for _, s := range waiting {
				if s.done.Wait(t.Context()) == nil {
					a[s.l.Index()] = append(a[s.l.Index()], fmt.Sprintf("%d:%s", s.done.BaseOffset, s.value))
				}
			}
		}
		for _, l := range logs {
			if l.Failed() != nil {
				failed++
			}
		}
		d.cutPower(seed)
		a.kept(t, d.openAll(5))
		require.NoError(t, d.stop())
	}
	require.Greater(t, failed, 20)
}
