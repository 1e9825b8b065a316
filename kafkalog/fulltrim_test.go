package kafkalog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// fullDisk is a log of several segments on a disk without a free byte. Each unlinked record file frees its own, but for the
// first ones, if a test says so.
type fullDisk struct {
	*bench
	memory *memfs.FS
	disk   *faultfs.FS
	quota  *faultfs.Quota
	log    *Log
	bases  []int64 // of the segments
	hollow int     // so many unlinked record files free nothing
}

func newFullDisk(t testing.TB) *fullDisk {
	d := &fullDisk{memory: memfs.New(), quota: faultfs.NewQuota(1 << 20)}
	d.disk = faultfs.New(d.memory, d.inject)
	d.bench = newBenchOn(t, d.disk)
	d.log = d.open(Options{Config: smallSegments(), Contiguous: true})
	for i := range 20 {
		b := data{records: 2, size: 40, ts: epochMs + int64(10*i), seed: i}.build(t)
		_, err := d.log.Append(b, AppendOptions{LeaderEpoch: int32(i / 4)})
		require.NoError(t, err)
	}
	require.NoError(t, d.log.Sync())
	d.bases = d.log.view.Load().bases()
	require.Equal(t, []int64{0, 6, 12, 18, 24, 30, 36}, d.bases)
	d.quota.Free(-d.quota.Left())
	return d
}

func (d *fullDisk) inject(op faultfs.Op) faultfs.Fault {
	if faultfs.Matching(faultfs.OpRemove, "*"+logSuffix+deletedSuffix)(op) {
		if d.hollow--; d.hollow < 0 {
			d.quota.Free(600)
		}
	}
	return d.quota.Inject(op)
}

// requireWhole requires that a log begins at the offset and holds everything from there on.
func requireWhole(t testing.TB, l *Log, start int64, what string) {
	t.Helper()
	require.Equal(t, start, l.LogStart(), what)
	require.Equal(t, int64(40), l.LogEnd(), what)
	var want []int64
	for base := start / 2 * 2; base < 40; base += 2 {
		want = append(want, base)
	}
	require.Equal(t, want, baseOffsets(t, allBytes(t, l)), what)
	require.Empty(t, l.Check(), what)
}

func TestF79_RecordsAreDeletedOnAFullDiskAndStaySo(t *testing.T) {
	for _, to := range []int64{6, 7, 12, 19, 35, 36, 40} {
		d := newFullDisk(t)
		start, err := d.log.TrimTo(to)
		require.NoError(t, err, "to %d", to)
		require.Equal(t, to, start)
		if to < 40 {
			requireWhole(t, d.log, to, fmt.Sprint("to ", to))
		}
		for seed := range uint64(10) {
			after := newBenchOn(t, d.memory.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true}))
			l := after.open(Options{Config: smallSegments(), Contiguous: true, RecoveryPoint: 40})
			require.Equal(t, []int64{to, 40}, []int64{l.LogStart(), l.LogEnd()}, "seed %d", seed)
		}
		mustAppend(t, d.log, data{})
	}
}

// The power goes before each call that the deletion makes, with what was not synced kept in part. The start is then the one
// before, the one that was wanted, or the base of a segment between them, and there is no hole.
func TestAPowerCutAmidADeletionOnAFullDiskLeavesNoHole(t *testing.T) {
	const to = 33
	for n, done := 0, false; !done; n++ {
		d := newFullDisk(t)
		d.hollow = 3
		var cuts []*memfs.FS
		before := d.disk.Calls()
		d.disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
			for seed := range uint64(8) {
				if op.Index == before+n {
					cuts = append(cuts, d.memory.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true}))
				}
			}
			return d.inject(op)
		})
		_, err := d.log.TrimTo(to)
		require.NoError(t, err)
		d.disk.SetInjector(nil)
		done = len(cuts) == 0
		for seed, cut := range cuts {
			what := fmt.Sprintf("call %d, seed %d", n, seed)
			recovered := int64(40 * (seed % 2)) // whether a checkpoint says what is flushed
			l := newBenchOn(t, cut).open(Options{Config: smallSegments(), Contiguous: true, RecoveryPoint: recovered})
			require.Contains(t, append([]int64{to}, d.bases[:6]...), l.LogStart(), what)
			requireWhole(t, l, l.LogStart(), what)
		}
	}
}

func TestRecordsOfTheOnlySegmentCannotBeDeletedOnAFullDisk(t *testing.T) {
	d := newFullDisk(t)
	d.hollow = len(d.bases)
	for range 2 {
		start, err := d.log.TrimTo(5)
		require.True(t, vfs.IsNoSpace(err), "%v", err)
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorContains(t, err, "no segment lies below the new log start as a whole")
		require.Equal(t, int64(0), start)
		requireWhole(t, d.log, 0, "nothing has changed")
	}
	start, err := d.log.TrimTo(14) // two go, and give no room
	require.True(t, vfs.IsNoSpace(err), "%v", err)
	require.Equal(t, int64(12), start)
	requireWhole(t, d.log, 12, "as far as it got")
	start, err = d.log.TrimTo(18)
	require.NoError(t, err, "that it is gone says enough")
	require.Equal(t, int64(18), start)

	d.quota.Free(1 << 20)
	require.NoError(t, d.log.Maintain(d.advance(time.Hour)), "what is owed is written")
	start, found, err := readLogStart(d.memory, testDir)
	require.NoError(t, err)
	require.Equal(t, []any{int64(18), true}, []any{start, found})
}

// Files that wait to be unlinked are the first to go.
func TestADeletionOnAFullDiskUnlinksWhatWasDeletedBefore(t *testing.T) {
	d := newFullDisk(t)
	d.quota.Free(1 << 20)
	_, err := d.log.TrimTo(13)
	require.NoError(t, err)
	require.NotEmpty(t, d.log.mu.retired)
	d.quota.Free(-d.quota.Left())
	start, err := d.log.TrimTo(14)
	require.NoError(t, err)
	require.Equal(t, int64(14), start)
	require.Empty(t, d.log.mu.retired)
	requireWhole(t, d.log, 14, "with the segment of the start")
}
