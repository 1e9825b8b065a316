package kafkalog

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// TestF10_AnOpenOfWhichAnyCallFailsCostsNothing opens what power cuts left with each call failing once: what the next Open finds, or
// the log that came of it all the same, is what an Open without a failure makes of it.
func TestF10_AnOpenOfWhichAnyCallFailsCostsNothing(t *testing.T) {
	for _, seed := range []uint64{0, 3} {
		base := memfs.New()
		b := makeBench(t, base)
		l := b.open(Options{Config: smallSegments()})
		transactions(t, l)
		require.NoError(t, l.Sync())
		if seed%2 == 1 {
			require.NoError(t, l.TruncateTo(27))
		}
		for i := range 5 {
			mustAppend(t, l, data{producer: 9, sequence: int32(i), size: 30, seed: i})
		}
		synced, err := l.SyncTo()
		require.NoError(t, err)
		for i := range 7 {
			mustAppend(t, l, data{producer: 9, sequence: int32(5 + i), size: 90, seed: i})
		}
		left := base.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.7, Torn: true})
		_ = b.env.Close()
		o := Options{Config: smallSegments(), RecoveryPoint: synced, Contiguous: seed < 2}

		good := makeBench(t, copyDir(t, left))
		want := good.open(o)
		state, records := logState(t, want), allBytes(t, want)
		require.NoError(t, good.env.Close())

		for _, fault := range []error{syscall.EIO, syscall.ENOSPC, syscall.EMFILE} {
			for _, done := range []bool{false, true} { // whether the call that fails has taken effect
				for n := 0; ; n++ {
					what := fmt.Sprintf("seed %d, %v, done %v, call %d", seed, fault, done, n)
					fsys := copyDir(t, left)
					fail := faultfs.FailNth(n, fault)
					disk := faultfs.New(fsys, func(op faultfs.Op) faultfs.Fault {
						f := fail(op)
						f.After = f.Err != nil && done
						return f
					})
					b := makeBench(t, disk)
					l, err := Open(b.env, testDir, o)
					calls := disk.Calls()
					disk.SetInjector(nil)
					if err != nil {
						l, err = Open(b.env, testDir, o)
					}
					require.NoError(t, err, what)
					require.Equal(t, records, allBytes(t, l), what)
					require.Equal(t, state, logState(t, l), what)
					require.Empty(t, l.Check(), what)
					mustAppend(t, l, data{producer: 10, size: 30})
					end, err := l.SyncTo()
					if err == nil {
						held := allBytes(t, l)
						after := makeBench(t, fsys.Crash(memfs.CrashOptions{Seed: uint64(n), KeepUnsynced: 0.5 * float64(n%2), Torn: true}))
						l, err := Open(after.env, testDir, Options{Config: smallSegments(), RecoveryPoint: end})
						require.NoError(t, err, what)
						require.Equal(t, held, allBytes(t, l), what)
						require.NoError(t, after.env.Close())
					}
					_ = b.env.Close()
					if calls <= n {
						break
					}
				}
			}
		}
	}
}
