package kafkalog

import (
	"errors"
	"fmt"
	"path"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// manyDir is where the i-th of many logs is.
func manyDir(i int) string { return path.Join("data", fmt.Sprint("orders-", i)) }

// fleet is many logs of one Env, each in a state of its own, in which nothing was synced since it was made.
type fleet struct {
	mem  *memfs.FS
	disk *faultfs.FS
	env  *Env
	logs []*Log
	want []string // the bytes of each
}

func fleetTime() time.Time { return time.UnixMilli(epochMs) }

func newFleet(t require.TestingT, n int) *fleet {
	return newFleetOf(t, n, func(i int) int { return i % 5 })
}

// newYoungFleet is a fleet of which all have a few records.
func newYoungFleet(t require.TestingT, n int) *fleet {
	return newFleetOf(t, n, func(int) int { return 0 })
}

func newFleetOf(t require.TestingT, n int, state func(i int) int) *fleet {
	f := &fleet{mem: memfs.New()}
	f.disk = faultfs.New(f.mem, nil)
	for i := range n {
		require.NoError(t, vfs.EnsureDir(f.mem, manyDir(i)))
	}
	f.env = NewEnv(EnvOptions{FS: f.disk, Now: fleetTime, Volume: "data"})
	for i := range n {
		l, err := Open(f.env, manyDir(i), Options{Config: smallSegments()})
		require.NoError(t, err)
		f.logs = append(f.logs, l)
		f.write(t, i, l, state(i))
		f.want = append(f.want, string(allBytes(t, l)))
	}
	return f
}

// write brings the i-th log into a state.
func (f *fleet) write(t require.TestingT, i int, l *Log, state int) {
	require.NoError(t, l.AssignEpoch(int32(i), 0))
	switch state {
	case 0: // young
		mustAppend(t, l, data{size: 50, seed: i})
	case 1: // no longer young
		c := smallSegments()
		c.SegmentBytes = 1 << 20
		l.SetConfig(c)
		mustAppend(t, l, data{size: 2 * youngBytes, seed: i, producer: 7})
		mustAppend(t, l, data{size: 100, seed: i, producer: 7, sequence: 1})
	case 2: // several segments, and a start that waits
		fill(t, l, 10)
		_, err := l.TrimTo(5)
		require.NoError(t, err)
	case 3: // an aborted transaction
		mustAppend(t, l, data{size: 300, seed: i, producer: 3, txn: true})
		_, err := l.Append(marker(3, 0, false), AppendOptions{LeaderEpoch: -1, Origin: Coordinator})
		require.NoError(t, err)
		fill(t, l, 6)
	}
}

// reopen opens what a crash left, or a stop in order if clean.
func (f *fleet) reopen(t require.TestingT, disk vfs.FS, i int, clean bool) *Log {
	env := NewEnv(EnvOptions{FS: disk, Now: fleetTime})
	l, err := Open(env, manyDir(i), Options{Config: smallSegments(), Clean: clean, RecoveryPoint: f.logs[i].RecoveryPoint()})
	require.NoError(t, err)
	return l
}

func TestManyYoungLogsAreClosedWithOneSyncOfTheirVolume(t *testing.T) {
	f := newYoungFleet(t, 40)
	closeTogether(t, f)
	require.Equal(t, 1, f.disk.Count(faultfs.OpSyncVolume))
	require.Zero(t, f.disk.Count(faultfs.OpSync), "no file was synced by itself")
}

func TestManyLogsThatAreClosedTogetherAreAsTheyWere(t *testing.T) {
	f := newFleet(t, 100)
	closeTogether(t, f)
	require.Equal(t, 1, f.disk.Count(faultfs.OpSyncVolume))
}

// closeTogether closes the logs and opens what a power cut leaves right after that.
func closeTogether(t *testing.T, f *fleet) {
	f.env.roll.wait()
	for i, closed := range f.env.CloseAll(f.logs, 4) {
		require.Equal(t, Closed{}, closed, "log %d", i)
		require.Equal(t, f.logs[i].LogEnd(), f.logs[i].RecoveryPoint())
	}
	require.NoError(t, f.env.Close())

	f.mem.Kill()
	for _, clean := range []bool{true, false} {
		for i := range f.logs {
			l := f.reopen(t, f.mem.CrashClean(), i, clean)
			require.Empty(t, l.Check())
			require.Equal(t, f.want[i], string(allBytes(t, l)))
			if len(f.want[i]) > youngBytes { // others tell it by their records, which have no epochs here
				require.Equal(t, f.logs[i].Epochs(), l.Epochs())
			}
			require.Equal(t, f.logs[i].LogStart(), l.LogStart())
			require.Equal(t, f.logs[i].ActiveProducers(), l.ActiveProducers())
			require.NoError(t, l.env.Close())
		}
	}
}

func TestAFewLogsAreClosedByThemselves(t *testing.T) {
	f := newFleet(t, 40) // eight of which are young
	for _, closed := range f.env.CloseAll(f.logs, 4) {
		require.Equal(t, Closed{}, closed)
	}
	require.Zero(t, f.disk.Count(faultfs.OpSyncVolume))
	require.NoError(t, f.env.Close())
	for i := range f.logs {
		l := f.reopen(t, f.mem.CrashClean(), i, true)
		require.Equal(t, f.want[i], string(allBytes(t, l)))
		require.NoError(t, l.env.Close())
	}
}

func TestLogsThatHaveNothingToSayAreClosedWithoutASync(t *testing.T) {
	f := newFleet(t, 40)
	for _, closed := range f.env.CloseAll(f.logs, 4) {
		require.Equal(t, Closed{}, closed)
	}
	volumes, files := f.disk.Count(faultfs.OpSyncVolume), f.disk.Count(faultfs.OpSync)
	for i := range f.logs {
		l, err := Open(f.env, manyDir(i), Options{Config: smallSegments(), Clean: true})
		require.NoError(t, err)
		f.logs[i] = l
	}
	for _, closed := range f.env.CloseAll(f.logs, 4) {
		require.Equal(t, Closed{}, closed)
	}
	require.Equal(t, volumes, f.disk.Count(faultfs.OpSyncVolume))
	require.LessOrEqual(t, f.disk.Count(faultfs.OpSync), files+8, "what is not known to be synced: indexes of transactions")
	require.NoError(t, f.env.Close())
}

// A volume that says that something was lost does not say what: then the log is named whose bytes it was.
func TestALogWhoseBytesTheVolumeLostIsNamed(t *testing.T) {
	for _, bad := range []int{10, 11} { // one that is young, and one that is not
		t.Run(fmt.Sprint("log ", bad), func(t *testing.T) {
			f := newFleet(t, 100)
			f.env.roll.wait()
			f.disk.SetInjector(faultfs.First(
				faultfs.FailMatching(faultfs.OpSyncVolume, "*", syscall.EIO),
				faultfs.FailMatching(faultfs.OpSync, manyDir(bad)+"/*.log", syscall.EIO),
			))
			for i, closed := range f.env.CloseAll(f.logs, 4) {
				require.NoError(t, closed.Close)
				if i == bad {
					require.ErrorIs(t, closed.Sync, syscall.EIO)
					require.ErrorContains(t, closed.Sync, manyDir(bad))
					require.Less(t, f.logs[i].RecoveryPoint(), f.logs[i].LogEnd())
					continue
				}
				require.NoError(t, closed.Sync, "log %d", i)
			}
			require.NoError(t, f.env.Close())
			f.mem.Kill()
			for i := range f.logs {
				if i == bad {
					continue
				}
				l := f.reopen(t, f.mem.CrashClean(), i, true)
				require.Empty(t, l.Check())
				require.Equal(t, f.want[i], string(allBytes(t, l)))
				require.NoError(t, l.env.Close())
			}
		})
	}
}

// The power goes at each change that the closing makes, and a random part of what was not synced survives.
func TestAPowerCutWhileManyLogsAreClosedLosesNothingThatWasSynced(t *testing.T) {
	const logs = 40 // so many that the young ones among them are synced together
	run := func(cut int, seed uint64) (changes int) {
		f := newFleetOf(t, logs, func(i int) int { return i % 10 % 5 * (i % 10 / 5) }) // most are young
		f.env.roll.wait()
		for i := range f.logs {
			if i%5 == 4 {
				require.NoError(t, f.logs[i].Sync())
			}
		}
		synced := make([]int64, logs)
		for i, l := range f.logs {
			synced[i] = l.RecoveryPoint()
		}
		f.disk.SetInjector(faultfs.When(func(op faultfs.Op) bool { return op.Kind.IsWrite() }, func(op faultfs.Op) faultfs.Fault {
			changes++
			if changes-1 != cut {
				return faultfs.Fault{}
			}
			return faultfs.Fault{Hook: f.mem.Kill}
		}))
		closed := f.env.CloseAll(f.logs, 1)
		_ = f.env.Close() // the power may be gone
		f.mem.Kill()
		disk := f.mem.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true})
		for i := range f.logs {
			l := f.reopen(t, disk, i, false)
			require.Empty(t, l.Check(), "cut %d, log %d", cut, i)
			require.GreaterOrEqual(t, l.LogEnd(), max(synced[i], f.logs[i].RecoveryPoint()), "cut %d, log %d", cut, i)
			if errors.Join(closed[i].Sync, closed[i].Close) == nil {
				require.Equal(t, f.want[i], string(allBytes(t, l)), "cut %d, log %d", cut, i)
			}
			require.NoError(t, l.env.Close())
		}
		return changes
	}
	total := run(-1, 0)
	require.Greater(t, total, 40)
	for cut := range total {
		run(cut, uint64(cut))
	}
}
