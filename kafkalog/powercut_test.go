package kafkalog

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// cutSeeds is how many power cuts a test looks at in each place.
const cutSeeds = 3

// bigChange removes records.
type bigChange struct {
	name   string
	change func(b *bench, l *Log) error
	keeps  int // what of the records nobody gave up
	mayEnd int64
}

// What a bigChange keeps.
const (
	keepsNone  = 0
	keepsBelow = 1 // the log end that it makes
	keepsAbove = 2 // the log start that it makes
)

func bigChanges() []bigChange {
	retain := func(bytes int64) func(b *bench, l *Log) error {
		return func(b *bench, l *Log) error {
			c := smallSegments()
			c.RetentionBytes = bytes
			l.SetConfig(c)
			defer l.SetConfig(smallSegments())
			return l.Tick(b.now(), l.LogEnd())
		}
	}
	return []bigChange{
		{"truncate to the middle", func(_ *bench, l *Log) error { return l.TruncateTo(10) }, keepsBelow, 0},
		{"truncate to a segment's base", func(_ *bench, l *Log) error { return l.TruncateTo(l.view.Load().segments[2].base) }, keepsBelow, 0},
		{"truncate to nothing", func(_ *bench, l *Log) error { return l.TruncateTo(0) }, keepsBelow, 0},
		{"reset below", func(_ *bench, l *Log) error { return l.ResetTo(5) }, keepsNone, 5},
		{"reset above", func(_ *bench, l *Log) error { return l.ResetTo(1000) }, keepsNone, 1000},
		{"trim", func(_ *bench, l *Log) error { _, err := l.TrimTo(20); return err }, keepsAbove, 0},
		{"move the start", func(_ *bench, l *Log) error { return l.SetLogStart(20) }, keepsAbove, 0},
		{"retention by size", retain(700), keepsAbove, 0},
		{"retention of everything", retain(0), keepsAbove, 0},
	}
}

// TestAPowerCutAtAnyMomentOfAChangeLeavesNoHole cuts the power before every call of what removes records from a log that was
// synced, and once more when it has returned.
func TestAPowerCutAtAnyMomentOfAChangeLeavesNoHole(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	transactions(t, l)
	require.Greater(t, len(l.view.Load().segments), 4)
	end := l.LogEnd()
	whole := map[int64]string{}
	all, err := l.Read(0, 1<<30)
	require.NoError(t, err)
	for _, b := range all.Batches {
		whole[b.BaseOffset()] = string(b)
	}
	aborted, err := l.AbortedInRange(0, end)
	require.NoError(t, err)
	require.NotEmpty(t, aborted)
	require.NoError(t, l.Sync())
	for _, c := range bigChanges() {
		for _, contiguous := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, contiguous %v", c.name, contiguous), func(t *testing.T) {
				base := copyDir(t, source.fs)
				disk := faultfs.New(base, nil)
				b := makeBench(t, disk)
				l := b.open(Options{Config: smallSegments(), Clean: true, Contiguous: contiguous})
				type image struct {
					fs   *memfs.FS
					what string
				}
				var images []image
				var taking sync.Mutex // a segment that was rolled is flushed beside the change
				take := func(what string) {
					taking.Lock()
					defer taking.Unlock()
					images = append(images, image{base.CrashClean(), what + ", clean"})
					for seed := range uint64(cutSeeds) {
						images = append(images, image{
							base.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true}), fmt.Sprintf("%s, seed %d", what, seed),
						})
					}
				}
				disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
					if op.Kind.IsWrite() {
						take(fmt.Sprintf("before %s", op))
					}
					return faultfs.Fault{}
				})
				require.NoError(t, c.change(b, l))
				disk.SetInjector(nil)
				take("after it")
				from, to := int64(0), int64(0)
				switch c.keeps {
				case keepsBelow:
					to = l.LogEnd()
				case keepsAbove:
					from, to = l.LogStart(), end
				}
				require.NoError(t, b.env.Close())
				for _, i := range images {
					after := makeBench(t, i.fs)
					l, err := Open(after.env, testDir, Options{Config: smallSegments(), Contiguous: contiguous})
					require.NoError(t, err, i.what)
					require.Empty(t, l.Check(), i.what)
					read, err := l.Read(l.LogStart(), 1<<30)
					require.NoError(t, err, i.what)
					next, stored := l.LogStart(), map[int64]bool{}
					for n, got := range read.Batches {
						if n > 0 || got.BaseOffset() > next {
							require.Equal(t, next, got.BaseOffset(), "%s: a hole", i.what)
						}
						require.Equal(t, whole[got.BaseOffset()], string(got), i.what)
						next = got.NextOffset()
						stored[got.BaseOffset()] = true
					}
					if len(read.Batches) > 0 {
						require.Equal(t, l.LogEnd(), next, "%s: a hole at the end", i.what)
					}
					require.LessOrEqual(t, l.LogEnd(), max(end, c.mayEnd), i.what)
					for offset, bytes := range whole {
						if last := batch.Batch(bytes).LastOffset(); offset >= from && last < to {
							require.True(t, stored[offset], "%s: offset %d is gone, of [%d, %d)", i.what, offset, l.LogStart(), l.LogEnd())
						}
					}
					known, err := l.AbortedInRange(l.LogStart(), l.LogEnd())
					require.NoError(t, err, i.what)
					for _, a := range aborted {
						if stored[a.LastOffset] && a.FirstOffset >= l.LogStart() {
							require.Contains(t, known, a, i.what)
						}
					}
					require.NoError(t, after.env.Close())
				}
			})
		}
	}
}

// TestWhatASyncCoveredAfterAnyFailureSurvivesAPowerCut fails each call of a change once, goes on as a caller would, and cuts the
// power after a sync that succeeded: then the log holds what it held.
func TestWhatASyncCoveredAfterAnyFailureSurvivesAPowerCut(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	transactions(t, l)
	require.NoError(t, l.Sync())
	changes := bigChanges()
	add := func(name string, change func(b *bench, l *Log) error) {
		changes = append(changes, bigChange{name: name, change: change})
	}
	add("roll", func(_ *bench, l *Log) error { _, err := l.Roll(); return err })
	add("new epoch and roll", func(_ *bench, l *Log) error {
		if err := l.AssignEpoch(9, l.LogEnd()); err != nil {
			return err
		}
		_, err := l.Roll()
		return err
	})
	add("maintain", func(b *bench, l *Log) error {
		_, _ = l.TrimTo(6)
		return l.Maintain(b.advance(time.Hour))
	})
	add("take a snapshot", func(_ *bench, l *Log) error { return l.TakeProducerSnapshot() })
	add("abort", func(_ *bench, l *Log) error {
		_, err := l.Append(marker(2, 0, false), AppendOptions{LeaderEpoch: 4, Origin: Coordinator})
		return err
	})
	add("sync", func(_ *bench, l *Log) error { return l.Sync() })
	for _, fault := range []struct {
		name string
		f    func(n int) faultfs.Injector
	}{
		{"error", func(n int) faultfs.Injector { return faultfs.FailNth(n, syscall.EIO) }},
		{"answer lost", func(n int) faultfs.Injector {
			fail := faultfs.FailNth(n, syscall.EIO)
			return func(op faultfs.Op) faultfs.Fault {
				f := fail(op)
				f.After = f.Err != nil
				return f
			}
		}},
		{"no descriptor", func(n int) faultfs.Injector { return faultfs.FailNth(n, syscall.EMFILE) }},
	} {
		for _, c := range changes {
			t.Run(fault.name+", "+c.name, func(t *testing.T) {
				for n := 0; ; n++ {
					base := copyDir(t, source.fs)
					disk := faultfs.New(base, nil)
					b := makeBench(t, disk)
					l := b.open(Options{Config: smallSegments(), Clean: true})
					mustAppend(t, l, data{size: 20, seed: 77})
					before := disk.Calls()
					disk.SetInjector(fault.f(n))
					changeErr := c.change(b, l)
					calls := disk.Calls() - before
					disk.SetInjector(nil)
					what := fmt.Sprintf("call %d: %v", n, changeErr)
					for i := range 3 {
						_, err := l.Append(data{size: 20, seed: 90 + i}.build(t), AppendOptions{LeaderEpoch: 10})
						if err != nil {
							require.Error(t, l.failure(), "%s, and then %v", what, err)
						}
					}
					synced, err := l.SyncTo()
					if err == nil {
						what += fmt.Sprintf(", synced to %d of %s", synced, l)
						require.Equal(t, l.LogEnd(), synced, what)
						end, start, held := l.LogEnd(), l.LogStart(), allBytes(t, l)
						aborted, err := l.AbortedInRange(start, end)
						require.NoError(t, err, what)
						producers := l.ActiveProducers()
						for i, recovery := range []int64{0, synced} {
							left := base.Crash(memfs.CrashOptions{Seed: uint64(n), KeepUnsynced: 0.5 * float64(i), Torn: true})
							after := makeBench(t, left)
							l, err := Open(after.env, testDir, Options{Config: smallSegments(), RecoveryPoint: recovery})
							require.NoError(t, err, what)
							require.Equal(t, end, l.LogEnd(), what)
							require.LessOrEqual(t, l.LogStart(), start, what)
							got, err := l.ReadRaw(start, end, 1<<30)
							require.NoError(t, err, what)
							require.Equal(t, baseOffsets(t, held), baseOffsets(t, got.Bytes), what)
							require.Equal(t, held, got.Bytes, what)
							require.Empty(t, l.Check(), what)
							again, err := l.AbortedInRange(start, end)
							require.NoError(t, err, what)
							require.Equal(t, aborted, again, what)
							require.Equal(t, producers, l.ActiveProducers(), what)
							require.NoError(t, after.env.Close())
						}
					}
					_ = b.env.Close() // a log that failed has been told of
					if calls <= n {
						break
					}
				}
			})
		}
	}
}

func TestF16_ASnapshotThatIsThereAlthoughItFailedProvesNothing(t *testing.T) {
	base := memfs.New()
	disk := faultfs.New(base, nil)
	b := makeBench(t, disk)
	b.env.roll.manual = true
	l := b.open(Options{})
	mustAppend(t, l, data{producer: 1, size: 40})
	synced, err := l.SyncTo()
	require.NoError(t, err)
	mustAppend(t, l, data{producer: 1, sequence: 1, size: 40})
	disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if op.Kind != faultfs.OpRename {
			return faultfs.Fault{}
		}
		return faultfs.Fault{Err: syscall.EIO, After: true}
	})
	require.ErrorIs(t, l.TakeProducerSnapshot(), syscall.EIO)
	disk.SetInjector(nil)
	mustRoll(t, l)
	mustAppend(t, l, data{producer: 1, sequence: 2, size: 40})
	require.NoError(t, base.SyncDir(testDir)) // names are durable, and records are not
	left := base.CrashClean()
	require.NoError(t, b.env.Close())
	b = newBenchOn(t, left)
	l = b.open(Options{RecoveryPoint: synced, Contiguous: true})
	require.Equal(t, synced, l.LogEnd())
	require.Len(t, baseOffsets(t, allBytes(t, l)), 1)
}
