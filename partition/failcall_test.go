package partition

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// TestF10_WhicheverCallFailsNothingAcknowledgedIsLostOrDoubled fails the n-th call that changes the disk, for every n: an
// append that got no answer may be there or not, one that got one is there once, and the log goes on after it is opened
// again, if not before.
func TestF10_WhicheverCallFailsNothingAcknowledgedIsLostOrDoubled(t *testing.T) {
	for _, after := range []bool{false, true} { // the call does nothing, or does it and then fails
		for n := 0; ; n++ {
			d := newDisk(t)
			d.settings = map[string]string{"segment.bytes": "1048576", "index.interval.bytes": "0"}
			l := d.open(0)
			var failed atomic.Bool
			nth := faultfs.FailNth(n, errDevice)
			d.faults.SetInjector(faultfs.When(faultfs.Writes, func(op faultfs.Op) faultfs.Fault {
				f := nth(op)
				if f.Err != nil {
					failed.Store(true)
					f.After = after
				}
				return f
			}))
			acked := map[string]bool{}
			for i := range int32(6) {
				a, err := l.Append(t.Context(), large(7, i), AppendOptions{Acks: -1})
				if err == nil {
					err = a.Wait(t.Context())
				}
				if err != nil {
					require.ErrorIs(t, err, ErrStorage)
					break // its producer cannot go on before it knows
				}
				acked[fmt.Sprintf("%d:%d", a.BaseOffset, i)] = true
			}
			seen := len(values(t, l, ReadUncommitted))
			require.GreaterOrEqual(t, seen, len(acked))
			_ = d.stop() // fails when the call did
			d.mem = d.mem.Crash(memfs.CrashOptions{Seed: uint64(n), KeepUnsynced: 0.5, Torn: true})
			d.clean = false
			d.boot()

			l = d.open(0)
			kept := values(t, l, ReadUncommitted)
			require.GreaterOrEqual(t, len(kept), seen, "call %d: what was visible is", n)
			for i, record := range kept {
				require.Equal(t, fmt.Sprintf("%d:%d", i, i), record, "call %d", n)
			}
			for record := range acked {
				require.Contains(t, kept, record, "call %d", n)
			}
			next := int32(len(kept))
			a, err := l.Append(t.Context(), large(7, next), AppendOptions{})
			require.NoError(t, err)
			require.NoError(t, a.Wait(t.Context()))
			require.Equal(t, int64(next), a.BaseOffset)
			require.NoError(t, d.stop())
			if !failed.Load() {
				require.Greater(t, n, 10)
				break
			}
		}
	}
}
