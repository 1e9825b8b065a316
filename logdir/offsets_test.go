package logdir_test

import (
	"fmt"
	"maps"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

type offsets = map[logdir.Partition]int64

var (
	orders3  = logdir.Partition{Topic: "orders", Index: 3}
	orders4  = logdir.Partition{Topic: "orders", Index: 4}
	payments = logdir.Partition{Topic: "payments"}
)

func load(t require.TestingT, o *logdir.Offsets) offsets {
	got, err := o.Load()
	require.NoError(t, err)
	return got
}

func TestAnUpdateKeepsTheLinesOfOtherPartitions(t *testing.T) {
	m := memfs.New()
	require.NoError(t, open(t, m).Close())
	put(t, m, "data/recovery-point-offset-checkpoint", "0\n2\norders 3 4711\npayments 0 12\n")
	d := open(t, m)
	o := d.RecoveryPoints()
	require.NoError(t, o.Update(offsets{orders4: 5}))
	require.NoError(t, o.Update(offsets{orders3: 4000}, payments), "down as well as up")
	require.Equal(t, "0\n2\norders 3 4000\norders 4 5\n", content(t, m, "data/recovery-point-offset-checkpoint"))
	require.NoError(t, o.Update(offsets{orders3: 1}, orders3), "set and removed is set")
	require.Equal(t, offsets{orders3: 1, orders4: 5}, load(t, o))
	require.Equal(t, load(t, o), load(t, open(t, m.CrashClean()).RecoveryPoints()), "durable on return")
	require.Equal(t, "", content(t, m, "data/log-start-offset-checkpoint"), "one file a purpose")
}

func TestALoadedMapIsTheCallersOwn(t *testing.T) {
	d := open(t, memfs.New())
	require.NoError(t, d.LogStarts().Update(offsets{orders3: 1}))
	load(t, d.LogStarts())[orders3] = 99
	require.Equal(t, offsets{orders3: 1}, load(t, d.LogStarts()))
}

func TestAnEntryThatCouldNotBeReadBackIsRefused(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	for _, bad := range []offsets{
		{orders3: -1},
		{logdir.Partition{Topic: "two words"}: 1},
		{logdir.Partition{Topic: "line\nbreak"}: 1},
		{logdir.Partition{Topic: ""}: 1},
		{logdir.Partition{Topic: "t", Index: -1}: 1},
	} {
		require.Error(t, d.LogStarts().Update(bad))
	}
	require.Equal(t, "", content(t, m, "data/log-start-offset-checkpoint"))
}

func TestADamagedCheckpointIsReplacedOnlyWhenTheOwnerSaysSo(t *testing.T) {
	m := memfs.New()
	require.NoError(t, open(t, m).Close())
	const damaged = "0\n2\norders 3 4711\n"
	put(t, m, "data/recovery-point-offset-checkpoint", damaged)
	d := open(t, m)
	o := d.RecoveryPoints()
	want := &logdir.FormatError{File: "data/recovery-point-offset-checkpoint", Line: 2, Reason: "2 entries are announced and 1 there"}
	_, err := o.Load()
	require.Equal(t, want, err)
	require.Equal(t, want, o.Update(offsets{orders4: 5}))
	require.Equal(t, damaged, content(t, m, "data/recovery-point-offset-checkpoint"))

	require.NoError(t, o.Discard())
	require.Empty(t, load(t, o))
	require.Equal(t, damaged, content(t, m, "data/recovery-point-offset-checkpoint"), "not before there is something better")
	require.NoError(t, o.Update(nil))
	require.Equal(t, "0\n0\n", content(t, m, "data/recovery-point-offset-checkpoint"))
	require.NoError(t, o.Update(offsets{orders4: 5}))
	require.NoError(t, o.Discard(), "a file that can be read is not discarded")
	require.Equal(t, offsets{orders4: 5}, load(t, o))
}

func TestACheckpointOfALaterVersionIsLeftAlone(t *testing.T) {
	m := memfs.New()
	require.NoError(t, open(t, m).Close())
	put(t, m, "data/log-start-offset-checkpoint", "1\nwhatever\n")
	o := open(t, m).LogStarts()
	want := &logdir.VersionError{File: "data/log-start-offset-checkpoint", Found: 1, Newest: 0}
	_, err := o.Load()
	require.Equal(t, want, err)
	require.Equal(t, want, o.Update(offsets{orders3: 1}))
	require.Equal(t, want, o.Discard())
	require.EqualError(t, want, "data/log-start-offset-checkpoint: format version 1 is not known here; this build reads version 0")
	require.Equal(t, "1\nwhatever\n", content(t, m, "data/log-start-offset-checkpoint"))
}

func TestAFailedReadIsTriedAgain(t *testing.T) {
	m := memfs.New()
	require.NoError(t, open(t, m).Close())
	put(t, m, "data/log-start-offset-checkpoint", "0\n1\norders 3 4711\n")
	disk := faultfs.New(m, nil)
	o := open(t, disk).LogStarts()
	disk.SetInjector(faultfs.FailMatching(faultfs.OpReadAt, "*", syscall.EIO))
	require.ErrorIs(t, o.Update(offsets{orders4: 5}), syscall.EIO)
	require.ErrorIs(t, o.Discard(), syscall.EIO, "what could not be read is not damaged")
	disk.SetInjector(nil)
	require.NoError(t, o.Update(offsets{orders4: 5}))
	require.Equal(t, offsets{orders3: 4711, orders4: 5}, load(t, o))
}

func TestAFailedUpdateIsMadeUpForByTheNext(t *testing.T) {
	for n := 0; ; n++ {
		m := memfs.New()
		disk := faultfs.New(m, nil)
		o := open(t, disk).HighWatermarks()
		require.NoError(t, o.Update(offsets{orders3: 1, payments: 9}))
		before := disk.Calls()
		disk.SetInjector(faultfs.FailNth(n, syscall.ENOSPC))
		err := o.Update(offsets{orders3: 2})
		if disk.Calls()-before <= n {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		onDisk := load(t, open(t, m.CrashClean()).HighWatermarks())
		require.Contains(t, []offsets{{orders3: 1, payments: 9}, {orders3: 2, payments: 9}}, onDisk)
		disk.SetInjector(nil)
		require.NoError(t, o.Update(nil))
		require.Equal(t, offsets{orders3: 2, payments: 9}, load(t, open(t, m.CrashClean()).HighWatermarks()))
	}
}

// The file side of F-37: files deleted by hand, or a power cut without a sync, leave a recovery point and a log start
// beyond the log's end. The file must give them as they are, for the log to clamp them and to honour the start; and once
// the log has said where it really ends, the lower value must stay, also over a crash in the middle of recovery.
func TestF37_ACheckpointBeyondTheLogEndIsReadAndCanBeLowered(t *testing.T) {
	m := memfs.New()
	require.NoError(t, open(t, m).Close())
	const beyond = 1<<63 - 1
	put(t, m, "data/recovery-point-offset-checkpoint", fmt.Sprintf("0\n2\norders 3 %d\npayments 0 12\n", int64(beyond)))
	put(t, m, "data/log-start-offset-checkpoint", "0\n1\norders 3 5000\n")
	d := open(t, m)
	require.Equal(t, offsets{orders3: beyond, payments: 12}, load(t, d.RecoveryPoints()))
	require.Equal(t, offsets{orders3: 5000}, load(t, d.LogStarts()))

	// Recovery crashes before it has written anything: the next start sees the same.
	m = m.CrashClean()
	require.Equal(t, offsets{orders3: beyond, payments: 12}, load(t, open(t, m).RecoveryPoints()))

	// Recovery clamps, and the power goes at any call of the write: the next start sees the old value or the clamped one,
	// and the third one ends where a single clean recovery would have.
	for n := range 6 {
		m := m.CrashClean()
		disk := faultfs.New(m, nil)
		second := open(t, disk)
		load(t, second.RecoveryPoints())
		disk.SetInjector(faultfs.FailFrom(n, syscall.EIO))
		require.Error(t, second.RecoveryPoints().Update(offsets{orders3: 4200}))
		for seed := range uint64(10) {
			third := open(t, m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true}))
			found := load(t, third.RecoveryPoints())
			require.Contains(t, []int64{beyond, 4200}, found[orders3])
			require.NoError(t, third.RecoveryPoints().Update(offsets{orders3: 4200}))
			require.Equal(t, offsets{orders3: 4200, payments: 12}, load(t, third.RecoveryPoints()))
			require.Equal(t, offsets{orders3: 5000}, load(t, third.LogStarts()), "the start is honoured")
		}
	}
}

// Many writers update their own partitions of all files at once, as logs, flushers and the cleaner do.
func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	const writers, rounds = 8, 25
	var wg sync.WaitGroup
	for w := range int32(writers) {
		wg.Go(func() {
			mine := logdir.Partition{Topic: "t", Index: w}
			for i := range int64(rounds) {
				for _, o := range []*logdir.Offsets{d.RecoveryPoints(), d.HighWatermarks()} {
					if err := o.Update(offsets{mine: i}); err != nil {
						t.Error(err)
						return
					}
					if got, err := o.Load(); err != nil || got[mine] != i {
						t.Error(got[mine], i, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	after := open(t, m.CrashClean())
	want := offsets{}
	for w := range int32(writers) {
		want[logdir.Partition{Topic: "t", Index: w}] = rounds - 1
	}
	require.Equal(t, want, load(t, after.RecoveryPoints()))
	require.Equal(t, want, load(t, after.HighWatermarks()))
}

// A model: after any updates, failures, restarts and crashes the file holds what was last acknowledged, or what was
// attempted since.
func TestACheckpointFileAgreesWithAModel(t *testing.T) {
	partition := rapid.SampledFrom([]logdir.Partition{orders3, orders4, payments, {Topic: "a.b-c_d", Index: 1 << 30}})
	rapid.Check(t, func(t *rapid.T) {
		m := memfs.New()
		disk := faultfs.New(m, nil)
		d, err := logdir.Open(disk, "data")
		require.NoError(t, err)
		model := offsets{}                     // what the process must see
		onDisk := []offsets{maps.Clone(model)} // what a restart may find
		reopen := func(after *memfs.FS) {
			m, disk = after, faultfs.New(after, nil)
			d, err = logdir.Open(disk, "data")
			require.NoError(t, err)
			found := load(t, d.LogStarts())
			require.Contains(t, onDisk, found)
			model, onDisk = found, []offsets{maps.Clone(found)}
		}
		t.Repeat(map[string]func(*rapid.T){
			"update": func(t *rapid.T) {
				set := rapid.MapOf(partition, rapid.Int64Min(0)).Draw(t, "set")
				remove := rapid.SliceOf(partition).Draw(t, "remove")
				if rapid.Bool().Draw(t, "fail") {
					disk.SetInjector(faultfs.FailNth(rapid.IntRange(0, 6).Draw(t, "call"), syscall.EIO))
				}
				for _, p := range remove {
					delete(model, p)
				}
				maps.Copy(model, set)
				err := d.LogStarts().Update(set, remove...)
				disk.SetInjector(nil)
				onDisk = append(onDisk, maps.Clone(model))
				if err == nil {
					onDisk = []offsets{maps.Clone(model)}
				}
			},
			"restart": func(t *rapid.T) { reopen(m.Crash(memfs.CrashOptions{KeepUnsynced: 1})) },
			"crash": func(t *rapid.T) {
				reopen(m.Crash(memfs.CrashOptions{Seed: rapid.Uint64().Draw(t, "seed"), KeepUnsynced: 0.5, Torn: true}))
			},
			"": func(t *rapid.T) { require.Equal(t, model, load(t, d.LogStarts())) },
		})
	})
}
