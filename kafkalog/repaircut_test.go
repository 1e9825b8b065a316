package kafkalog

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// poweredOff writes batches of one producer to a log with small segments, cuts the power at a random moment, and returns what the
// disk kept of it, how many batches there were, and the offset below which all was synced.
func poweredOff(t *testing.T, seed uint64) (disk *memfs.FS, written int, proven int64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	mem := memfs.New()
	b := makeBench(t, mem)
	b.env.roll.manual = true // it runs when it is waited for
	l := b.open(Options{Config: smallSegments()})
	written = 8 + rng.IntN(20)
	for i := range written {
		mustAppend(t, l, data{size: 30 + rng.IntN(60), producer: 7, sequence: int32(i), seed: i})
		if i == 2 || rng.IntN(8) == 0 {
			_, err := l.SyncTo()
			require.NoError(t, err)
		}
	}
	proven = l.RecoveryPoint()
	mem.Kill()
	_ = b.env.Close() // the disk is gone
	return mem.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.6, Torn: true, SectorSize: 64}), written, proven
}

// recordBatches are those of a log that hold records.
func recordBatches(t *testing.T, l *Log) (whole []string) {
	for rest := allBytes(t, l); len(rest) > 0; {
		one, after, err := batch.Next(rest)
		require.NoError(t, err)
		if one.Count() > 0 {
			whole = append(whole, string(one))
		}
		rest = after
	}
	return whole
}

// A batch that has lost nothing but its offset is not a hole: a repair gives it back, and what follows it stays. A start cannot.
func TestU08_ARepairAfterAPowerCutKeepsNoMoreThanAStartWould(t *testing.T) {
	holes, segments, right := 0, 0, 0
	seeds := []uint64{5000, 5896, 5967} // of these a batch loses the sector with its offset
	for seed := range uint64(120) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		disk, written, proven := poweredOff(t, seed)
		opened := makeBench(t, disk.Crash(memfs.CrashOptions{KeepUnsynced: 1}))
		started, err := Open(opened.env, testDir, Options{Config: smallSegments(), Contiguous: true, RecoveryPoint: proven})
		require.NoError(t, err)
		want := recordBatches(t, started)
		require.GreaterOrEqual(t, started.LogEnd(), proven)

		other := disk.Crash(memfs.CrashOptions{KeepUnsynced: 1})
		if unaware := planned(t, other, RepairOptions{Flushed: proven, Visible: proven}); len(unaware.Steps) > 0 {
			_, err = unaware.Apply()
			require.NoError(t, err)
			b := makeBench(t, other)
			if len(recordBatches(t, b.open(Options{Config: smallSegments()}))) > len(want) {
				holes++
			}
			require.NoError(t, b.env.Close())
		}

		plan := planned(t, disk, RepairOptions{Flushed: proven, Visible: proven, Proven: proven})
		for _, step := range plan.Steps {
			if step.Action == SetAside && isLogName(step.File) {
				segments++
			}
		}
		isRight := func(step RepairStep) bool { return step.Action == PutRight && step.First >= started.LogEnd() }
		putRight := slices.ContainsFunc(plan.Steps, isRight)
		_, err = plan.Apply()
		require.NoError(t, err)
		require.Empty(t, planned(t, disk, RepairOptions{Flushed: proven, Visible: proven, Proven: proven}).Steps, "once is enough")
		after := makeBench(t, disk)
		repaired, err := Open(after.env, testDir, Options{Config: smallSegments(), Contiguous: true, RecoveryPoint: proven})
		require.NoError(t, err)
		for _, e := range eventsOf[PartialBatchEvent](after) { // zeros behind the end may stay
			require.Zero(t, e.LostBatches, "seed %d", seed)
		}
		require.Empty(t, eventsOf[DamagedBatchEvent](after))
		require.Empty(t, repaired.Check())
		got := recordBatches(t, repaired)
		if putRight {
			right++
			require.Greater(t, len(got), len(want))
			require.Equal(t, want, got[:len(want)], "seed %d", seed)
			for i, one := range got {
				require.Equal(t, int64(i), batch.Batch(one).BaseOffset(), "seed %d", seed)
			}
		} else {
			require.Equal(t, want, got, "seed %d", seed)
		}
		require.GreaterOrEqual(t, repaired.LogEnd(), started.LogEnd(), "no offset is used again")

		// The producer sends again what was not acknowledged.
		for i := range written {
			again := data{size: 30, producer: 7, sequence: int32(i), seed: i}.build(t)
			for l, kept := range map[*Log]int{started: len(want), repaired: len(got)} {
				done, err := l.Append(again, AppendOptions{LeaderEpoch: -1})
				if i < kept-5 {
					continue // too old for anybody to know
				}
				require.NoError(t, err)
				require.Equal(t, i < kept, done.Duplicate, "seed %d: batch %d of %d", seed, i, kept)
			}
		}
		require.NoError(t, opened.env.Close())
		require.NoError(t, after.env.Close())
	}
	require.Greater(t, holes, 12)
	require.Greater(t, segments, 6)
	require.Positive(t, right)
}

func TestARepairThatKnowsNothingOfTheStopKeepsWhatFollowsADamage(t *testing.T) {
	src := newDamageSourceOf(t, 24)
	last := src.bases[len(src.bases)-1]
	all := placedBatches(t, src.fs)
	first := all[last]
	require.Less(t, first.batch.NextOffset(), src.end, "more follow in the segment")
	wipe(t, src.fs, first)
	for _, o := range []RepairOptions{{}, {Proven: last + 1}, {Proven: src.end}} {
		plan := planned(t, src.fs, o)
		require.Len(t, plan.Steps, 1)
		require.Equal(t, LeaveOut, plan.Steps[0].Action)
		require.Equal(t, []int64{last, first.batch.NextOffset(), src.end}, []int64{plan.Steps[0].First, plan.Steps[0].Next, plan.End})
	}
	plan := planned(t, src.fs, RepairOptions{Proven: 1}) // and a snapshot proves what is in front of the segment
	steps := plan.Steps
	require.Len(t, steps, 2)
	require.Equal(t, SetAside, steps[0].Action)
	require.Equal(t, fileName(src.end, snapshotSuffix), steps[0].File)
	require.Equal(t, LeaveOut, steps[1].Action)
	require.Equal(t, []int64{last, src.end, src.end}, []int64{steps[1].First, steps[1].Next, plan.End})
	kept, err := plan.Apply()
	require.NoError(t, err)
	require.Len(t, kept, 2)
	b := makeBench(t, src.fs)
	l := b.open(Options{Config: smallSegments(), Contiguous: true})
	require.Equal(t, src.end, l.LogEnd())
	require.Len(t, recordBatches(t, l), int(last/2))
	require.NoError(t, b.env.Close())
}
