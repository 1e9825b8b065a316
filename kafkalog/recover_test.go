package kafkalog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// edit changes the bytes of a file in place.
func edit(t require.TestingT, fsys vfs.FS, name string, change func([]byte) []byte) {
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	data = change(data)
	f, err := fsys.Open(name, vfs.CreateTruncate)
	require.NoError(t, err)
	_, err = f.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// flip returns a change that flips one bit of the byte at a position.
func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at] ^= 0x10
		return b
	}
}

// copyDir copies the test's partition directory to a new file system.
func copyDir(t require.TestingT, from vfs.FS) *memfs.FS {
	to := memfs.New()
	require.NoError(t, vfs.EnsureDir(to, testDir))
	entries, err := from.List(testDir)
	require.NoError(t, err)
	for _, e := range entries {
		name := path.Join(testDir, e.Name())
		data, err := vfs.ReadFile(from, name)
		require.NoError(t, err)
		edit(t, writable{to}, name, func([]byte) []byte { return data })
	}
	require.NoError(t, to.SyncDir(testDir))
	return to
}

// writable lets edit make files.
type writable struct{ vfs.FS }

func (w writable) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if mode == vfs.ReadOnly {
		mode = vfs.Create
	}
	return w.FS.Open(name, mode)
}

// logPath is the record file of the segment at a base.
func logPath(base int64) string { return filePath(testDir, base, logSuffix) }

// segmentBases returns the bases of the record files on disk.
func segmentBases(t require.TestingT, fsys vfs.FS) []int64 {
	entries, err := fsys.List(testDir)
	require.NoError(t, err)
	var bases []int64
	for _, e := range entries {
		if isLogName(e.Name()) {
			base, err := parseLogName(e.Name())
			require.NoError(t, err)
			bases = append(bases, base)
		}
	}
	return bases
}

func TestF03_TornTailAtEveryByteOpens(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{})
	fill(t, l, 4)
	cuts := len(allBytes(t, l)) // down to an empty file
	sizes := []int{}
	for rest := allBytes(t, l); len(rest) > 0; {
		b, tail, err := batch.Next(rest)
		require.NoError(t, err)
		sizes, rest = append(sizes, len(b)), tail
	}
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	for _, clean := range []bool{false, true} {
		for n := 1; n <= cuts; n++ {
			fsys := copyDir(t, source.fs)
			edit(t, fsys, logPath(0), func(b []byte) []byte { return b[:len(b)-n] })
			b := makeBench(t, fsys)
			l := b.open(Options{Clean: clean, RecoveryPoint: 8})
			whole, left := int64(0), cuts-n
			for _, size := range sizes {
				if left -= size; left < 0 {
					break
				}
				whole++
			}
			require.Equal(t, 2*whole, l.LogEnd(), "%d bytes cut", n)
			cutEvents := eventsOf[PartialBatchEvent](b)
			if len(cutEvents) > 0 {
				require.Len(t, cutEvents, 1)
				require.Equal(t, 2*whole, cutEvents[0].Offset)
			}
			require.Equal(t, 2*whole, mustAppend(t, l, data{}))
			require.Empty(t, l.Check())
			require.NoError(t, b.env.Close())
		}
	}
}

func TestF04_DamageInFlushedRecordsIsReportedAndNothingIsLost(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	fill(t, l, 14)
	require.NoError(t, l.Sync())
	all := allBytes(t, l)
	end := l.LogEnd()
	bases := segmentBases(t, source.fs)
	require.Greater(t, len(bases), 3)
	require.NoError(t, l.Close())

	for _, c := range []struct {
		name string
		file string
		at   int
		o    Options
	}{
		{"sealed, after a crash", logPath(bases[1]), 100, Options{}},
		{"sealed, after a clean stop", logPath(bases[1]), 100, Options{Clean: true}},
		{"active, below the recovery point", logPath(bases[len(bases)-1]), 100, Options{RecoveryPoint: end}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := copyDir(t, source.fs)
			edit(t, fsys, c.file, flip(c.at))
			b := makeBench(t, fsys)
			c.o.Config = smallSegments()
			l := b.open(c.o)
			require.Equal(t, end, l.LogEnd(), "never shorter")
			raw := allBytes(t, l)
			require.Len(t, raw, len(all), "raw reads serve what is there, the client sees the checksum")
			_, err := l.Read(0, 1<<20)
			var damage *ChecksumError
			require.ErrorAs(t, err, &damage)
			require.ErrorIs(t, err, ErrStorage)
			require.Equal(t, c.file, damage.Path)
			findings, counts := l.CheckCounted()
			require.Len(t, findings, 1)
			require.Equal(t, c.file, findings[0].File)
			require.Equal(t, CheckCounts{Segments: len(bases), Batches: 14, Records: 28, Bytes: int64(len(all))}, counts,
				"the damaged batch is counted too")
			// Everything behind the damage is read.
			after, err := l.Read(end-2, 1<<20)
			require.NoError(t, err)
			require.Len(t, after.Batches, 1)
			require.NoError(t, b.env.Close())
		})
	}

	t.Run("active, not known to be flushed", func(t *testing.T) {
		fsys := copyDir(t, source.fs)
		last := bases[len(bases)-1]
		edit(t, fsys, logPath(last), flip(100))
		b := makeBench(t, fsys)
		l := b.open(Options{Config: smallSegments()})
		require.Equal(t, last, l.LogEnd())
		cut := eventsOf[PartialBatchEvent](b)
		require.Len(t, cut, 1)
		require.Equal(t, logPath(last), cut[0].File)
		require.Equal(t, int64(0), cut[0].Position)
		require.NoError(t, b.env.Close())
	})

	t.Run("a length in what was flushed", func(t *testing.T) {
		fsys := copyDir(t, source.fs)
		last := bases[len(bases)-1]
		edit(t, fsys, logPath(last), func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[8:], 1<<20) // as if the first batch reached behind the end of the file
			return b
		})
		b := makeBench(t, fsys)
		_, err := Open(b.env, testDir, Options{Config: smallSegments(), RecoveryPoint: end})
		var corrupt *CorruptionError
		require.ErrorAs(t, err, &corrupt)
		require.Equal(t, logPath(last), corrupt.Path)
		require.NoError(t, b.env.Close())
	})
}

func TestF81_WhatCannotBeDecodedIsKept(t *testing.T) {
	// Batches with right checksums that nobody here can decode: unknown codecs, a payload that does not decompress, a
	// wrong count, and a snappy block without framing.
	strange := func(codec batch.Codec, payload []byte, count int32) batch.Batch {
		h := batch.Header{
			Length: int32(batch.HeaderSize - 12 + len(payload)), LeaderEpoch: -1, Magic: 2, Attributes: batch.Attributes(codec),
			LastOffsetDelta: 1, BaseTimestamp: epochMs, MaxTimestamp: epochMs + 1, ProducerID: -1, ProducerEpoch: -1,
			BaseSequence: -1, Count: count,
		}
		b := make(batch.Batch, batch.HeaderSize+len(payload))
		copy(b[batch.HeaderSize:], payload)
		h.Put(b)
		var crc *batch.CRCError
		require.ErrorAs(t, b.VerifyCRC(), &crc)
		h.CRC = crc.Computed
		h.Put(b)
		return b
	}
	b := newBench(t)
	l := b.open(Options{})
	var want []int64
	for _, s := range []batch.Batch{
		strange(5, []byte("?"), 2), strange(6, []byte("??"), 2), strange(7, []byte("???"), 2),
		strange(batch.Zstd, []byte("no frame"), 2), strange(batch.LZ4, []byte{4, 34, 77, 24, 96, 64, 0}, 2),
		strange(batch.Snappy, []byte{1, 2, 3}, 2), strange(batch.None, []byte{2, 0}, 2), strange(batch.None, nil, 9),
	} {
		a, err := l.AppendVerbatim(s, AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
		want = append(want, a.BaseOffset)
	}
	want = append(want, mustAppend(t, l, data{ts: epochMs + 100}))
	require.NoError(t, l.Close())

	l = b.open(Options{})
	require.Empty(t, eventsOf[PartialBatchEvent](b))
	require.Equal(t, want, baseOffsets(t, allBytes(t, l)))
	one, err := l.ReadRaw(0, l.LogEnd(), 1)
	require.NoError(t, err)
	require.Equal(t, int64(0), one.StartOffset)
	require.Equal(t, int64(1), one.LastOffset)
	_, _, err = l.OffsetForTimestamp(epochMs)
	var stored *StoredBatchError
	require.ErrorAs(t, err, &stored)
	require.ErrorIs(t, err, ErrInvalidBatch)
	require.Equal(t, logPath(0), stored.Path)
	found, ok, err := l.OffsetForTimestamp(epochMs + 50)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimestampOffset{Offset: 16, Timestamp: epochMs + 100}, found)
}

func TestF72_EveryRemainsOfACreatedSegmentOpen(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{})
	fill(t, l, 3)
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	half := data{}.build(t)[:30]
	next := int64(6)
	for _, c := range []struct {
		name    string
		suffix  string
		content []byte
	}{
		{"an empty record file", logSuffix, nil},
		{"zeros, as preallocated", logSuffix, make([]byte, 4096)},
		{"half a header", logSuffix, half},
		{"an index without records", indexSuffix, make([]byte, 16)},
		{"a time index without records", timeIndexSuffix, nil},
		{"a snapshot of what is not there", snapshotSuffix, []byte("junk")},
		{"a deleted segment", logSuffix + deletedSuffix, half},
		{"a temporary file", snapshotSuffix + tempSuffix, half},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := copyDir(t, source.fs)
			edit(t, writable{fsys}, filePath(testDir, next, c.suffix), func([]byte) []byte { return c.content })
			b := newBenchOn(t, fsys)
			l := b.open(Options{})
			require.Equal(t, next, l.LogEnd())
			require.Equal(t, next, mustAppend(t, l, data{}))
			rolled, err := l.Roll()
			require.NoError(t, err)
			require.True(t, rolled)
			mustAppend(t, l, data{})
			l = b.reopen(l, Options{})
			require.Equal(t, int64(8), l.LogEnd())
		})
	}
	t.Run("a log that begins high", func(t *testing.T) {
		b := newBench(t)
		l := b.open(Options{LogStart: 1_000_000})
		require.Equal(t, int64(1_000_000), l.LogStart())
		require.Equal(t, int64(1_000_000), mustAppend(t, l, data{}))
		l = b.reopen(l, Options{})
		require.Equal(t, int64(1_000_000), l.LogStart())
		require.Equal(t, int64(1_000_001), l.LogEnd())
	})
}

func TestF71_MissingAndForeignIndexFilesDoNotMatter(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	fill(t, l, 14)
	require.NoError(t, l.Sync())
	want := allBytes(t, l)
	bases := segmentBases(t, source.fs)
	require.NoError(t, l.Close())
	for _, clean := range []bool{true, false} {
		for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
			for _, base := range bases {
				for kind, change := range map[string]func([]byte) []byte{
					"gone": nil, "empty": func([]byte) []byte { return nil },
					"garbage": func(b []byte) []byte { return []byte(strings.Repeat("garbage! ", 24)) },
					"longer":  func(b []byte) []byte { return append(b, b...) },
					"padded":  func(b []byte) []byte { return append(b, make([]byte, 240)...) },
				} {
					name := fmt.Sprintf("clean=%v %s%s %s", clean, fileName(base, ""), suffix, kind)
					fsys := copyDir(t, source.fs)
					if change == nil {
						require.NoError(t, fsys.Remove(filePath(testDir, base, suffix)))
					} else {
						edit(t, fsys, filePath(testDir, base, suffix), change)
					}
					b := makeBench(t, fsys)
					l := b.open(Options{Config: smallSegments(), Clean: clean})
					require.Equal(t, want, allBytes(t, l), name)
					for _, o := range baseOffsets(t, want) {
						r, err := l.ReadRaw(o, l.LogEnd(), 1)
						require.NoError(t, err, name)
						require.Equal(t, o, r.StartOffset, name)
					}
					mustAppend(t, l, data{})
					require.NoError(t, b.env.Close())
				}
			}
		}
	}
}

func TestF37_ACheckpointBeyondTheLogIsClampedAndAStartAboveItHonoured(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	for i := range 14 {
		_, err := l.Append(data{records: 2, size: 40, producer: 9, sequence: int32(2 * i)}.build(t), AppendOptions{LeaderEpoch: int32(i)})
		require.NoError(t, err)
	}
	require.NoError(t, l.Sync())
	end := l.LogEnd()
	bases := segmentBases(t, source.fs)
	last := bases[len(bases)-1]
	require.NoError(t, l.Close())
	fsys := copyDir(t, source.fs)
	for _, suffix := range segmentFiles {
		_ = fsys.Remove(filePath(testDir, last, suffix)) // the newest segment, by hand
	}

	b := newBenchOn(t, copyDir(t, fsys))
	l = b.open(Options{Config: smallSegments(), RecoveryPoint: end + 100})
	require.Equal(t, last, l.LogEnd())
	require.Equal(t, last, l.RecoveryPoint())
	require.Len(t, eventsOf[LogEndBehindEvent](b), 1)
	epoch, _ := l.LatestEpoch()
	require.Equal(t, int32(last/2-1), epoch)
	state, found := l.ProducerStateEntry(9)
	require.True(t, found)
	require.Equal(t, last-1, state.LastOffset)

	b = newBenchOn(t, copyDir(t, fsys))
	l = b.open(Options{Config: smallSegments(), LogStart: end})
	require.Equal(t, end, l.LogStart())
	require.Equal(t, end, l.LogEnd())
	require.Empty(t, l.Epochs())
	require.Empty(t, l.ActiveProducers())
	require.Equal(t, end, mustAppend(t, l, data{}))
	l = b.reopen(l, Options{Config: smallSegments()})
	require.Equal(t, end, l.LogStart())
}

func TestF37_CrashesDuringRecoveryEndLikeOneRecovery(t *testing.T) {
	source := makeBench(t, memfs.New())
	l := source.open(Options{Config: smallSegments()})
	for i := range 16 {
		_, err := l.Append(data{records: 2, size: 40, producer: 3, sequence: int32(2 * i)}.build(t), AppendOptions{LeaderEpoch: int32(i / 4)})
		require.NoError(t, err)
	}
	// The process dies here; everything but the last bytes is in the files.
	source.env.roll.end(&l.rollJobs)
	left := copyDir(t, source.fs)
	bases := segmentBases(t, left)
	edit(t, left, logPath(bases[len(bases)-1]), func(b []byte) []byte { return b[:len(b)-5] })
	for _, base := range bases[1:] {
		_ = left.Remove(filePath(testDir, base, snapshotSuffix)) // nothing proves that anything was flushed
	}
	require.NoError(t, source.env.Close())

	recovered := func(fsys *memfs.FS) (*bench, *Log) {
		b := makeBench(t, fsys)
		return b, b.open(Options{Config: smallSegments()})
	}
	once := copyDir(t, left)
	b, l := recovered(once)
	want := logState(t, l)
	require.NoError(t, b.env.Close())
	calls := openUntil(copyDir(t, left), math.MaxInt)
	require.Greater(t, calls, 20)
	for point := range 10 {
		n := calls * (point + 1) / 11
		fsys := copyDir(t, left)
		openUntil(fsys, n)
		fsys.Kill()
		crashed := fsys.Crash(memfs.CrashOptions{Seed: uint64(point), KeepUnsynced: 0.5, Torn: true})
		b, l := recovered(crashed)
		require.Equal(t, want, logState(t, l), "crash after %d of %d calls", n, calls)
		require.Empty(t, l.Check())
		require.NoError(t, b.env.Close())
	}
}

// TestF16_NothingIsKeptBehindRecordsThatAPowerCutLost takes an unsynced batch away from a sealed segment, as a power cut
// may that kept the later segment, and from within a file.
func TestF16_NothingIsKeptBehindRecordsThatAPowerCutLost(t *testing.T) {
	source := makeBench(t, memfs.New())
	source.env.roll.manual = true // nothing is flushed in the background
	l := source.open(Options{})
	fill(t, l, 3)
	size := len(allBytes(t, l)) / 3
	_, err := l.Roll()
	require.NoError(t, err)
	fill(t, l, 2)
	left := copyDir(t, source.fs)
	require.NoError(t, source.env.Close())

	shorter := func(b []byte) []byte { return b[:2*size] }
	zeros := func(b []byte) []byte {
		clear(b[size : 2*size])
		return b
	}
	closed := func(b []byte) []byte { return append(b[:size:size], b[2*size:]...) }
	for _, c := range []struct {
		name  string
		o     Options
		edit  func([]byte) []byte
		end   int64
		bases []int64
		found []int64
	}{
		{"the last batch before a roll", Options{Contiguous: true}, shorter, 4, []int64{0}, []int64{0, 2}},
		{"zeros within a file", Options{Contiguous: true}, zeros, 2, []int64{0}, []int64{0}},
		{"offsets missing within a file", Options{Contiguous: true}, closed, 2, []int64{0}, []int64{0}},
		{"a file of no batch", Options{Contiguous: true}, func([]byte) []byte { return nil }, 0, []int64{0}, []int64{}},
		{"below what was flushed", Options{Contiguous: true, RecoveryPoint: 10}, closed, 10, []int64{0, 6}, []int64{0, 4, 6, 8}},
		{"below the log start", Options{Contiguous: true, LogStart: 6}, shorter, 10, []int64{0, 6}, []int64{6, 8}},
		{"on a follower", Options{}, shorter, 10, []int64{0, 6}, []int64{0, 2, 6, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := copyDir(t, left)
			edit(t, fsys, logPath(0), c.edit)
			b := makeBench(t, fsys)
			l := b.open(c.o)
			require.Equal(t, c.end, l.LogEnd())
			require.Equal(t, c.bases, segmentBases(t, fsys))
			require.Equal(t, c.found, baseOffsets(t, allBytes(t, l)))
			require.Equal(t, c.end < 10, len(eventsOf[PartialBatchEvent](b)) == 1)
			require.Equal(t, c.end, mustAppend(t, l, data{}))
			require.Empty(t, l.Check())
			require.NoError(t, b.env.Close())

			// The removed segments do not come back when the power is cut right after the open.
			b = makeBench(t, fsys.Crash(memfs.CrashOptions{}))
			b.open(c.o)
			require.Equal(t, c.bases, segmentBases(t, b.fs))
			require.NoError(t, b.env.Close())
		})
	}
}

func TestF16_ProducersComeBackFromTheRecordsWhenSnapshotsAreGoneOrDamaged(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	for i := range 20 {
		_, err := l.Append(data{records: 2, size: 40, producer: int64(1 + i%3), sequence: int32(2 * (i / 3))}.build(t), AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
	}
	want := l.ProducerStateSnapshot()
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	for kind, change := range map[string]func([]byte) []byte{
		"gone": nil, "bit flip": flip(12), "empty": func([]byte) []byte { return nil }, "unknown version": flip(1),
		"cut": func(b []byte) []byte { return b[:len(b)-3] },
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, clean=%v", kind, clean), func(t *testing.T) {
				fsys := copyDir(t, source.fs)
				entries, err := fsys.List(testDir)
				require.NoError(t, err)
				for _, e := range entries {
					name := path.Join(testDir, e.Name())
					switch {
					case !strings.HasSuffix(name, snapshotSuffix):
					case change == nil:
						require.NoError(t, fsys.Remove(name))
					default:
						edit(t, fsys, name, change)
					}
				}
				b := newBenchOn(t, fsys)
				l := b.open(Options{Config: smallSegments(), Clean: clean, RecoveryPoint: 40})
				require.Equal(t, want, l.ProducerStateSnapshot())
				// The retry of the last batch gets its first answer, and the next one is taken.
				again, err := l.Append(data{records: 2, size: 40, producer: 2, sequence: 12}.build(t), AppendOptions{LeaderEpoch: -1})
				require.NoError(t, err)
				require.Equal(t, Appended{BaseOffset: 38, LastOffset: 39, AppendTime: -1, Duplicate: true}, again)
				_, err = l.Append(data{records: 2, size: 40, producer: 2, sequence: 14}.build(t), AppendOptions{LeaderEpoch: -1})
				require.NoError(t, err)
			})
		}
	}
}

func TestF51_EpochsSurviveReopensAndComeBackFromTheBatches(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	var want []EpochEntry
	for epoch := range int32(4) {
		want = append(want, EpochEntry{Epoch: epoch, Start: l.LogEnd()})
		for i := range 3 {
			_, err := l.Append(data{records: 2, size: 40, seed: i}.build(t), AppendOptions{LeaderEpoch: epoch})
			require.NoError(t, err)
		}
		l = b.reopen(l, Options{Config: smallSegments()})
	}
	require.Equal(t, want, l.Epochs())
	for epoch := range int32(4) {
		got, end := l.EndOffsetForEpoch(epoch)
		require.Equal(t, epoch, got)
		require.Equal(t, int64(6*(epoch+1)), end)
		owner, found := l.EpochForOffset(int64(6 * epoch))
		require.True(t, found)
		require.Equal(t, epoch, owner)
	}
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	for kind, change := range map[string]func([]byte) []byte{
		"gone": nil, "garbage": func([]byte) []byte { return []byte("junk") },
		"cut": func(b []byte) []byte { return b[:len(b)-4] },
	} {
		for _, clean := range []bool{true, false} {
			fsys := copyDir(t, b.fs)
			name := path.Join(testDir, epochFileName)
			if change == nil {
				require.NoError(t, fsys.Remove(name))
			} else {
				edit(t, fsys, name, change)
			}
			other := makeBench(t, fsys)
			l := other.open(Options{Config: smallSegments(), Clean: clean})
			require.Equal(t, want, l.Epochs(), "%s, clean=%v", kind, clean)
			require.NoError(t, other.env.Close())
		}
	}
}

func TestF77_AnUncleanOpenReadsOnlyWhatMayBeUnflushed(t *testing.T) {
	for _, size := range []int{100 << 10, 700 << 10, 1200 << 10} { // less than is read at once, most of it, and more
		t.Run(fmt.Sprintf("batches of %d", size), func(t *testing.T) { readsTheActiveSegment(t, size) })
	}
}

func readsTheActiveSegment(t *testing.T, size int) {
	source := newBench(t)
	c := DefaultConfig()
	c.SegmentBytes = max(5*int64(size)/2, 1<<20)
	l := source.open(Options{Config: c})
	for i := range max(12, 8<<20/size+5) {
		mustAppend(t, l, data{size: size, seed: i})
	}
	require.NoError(t, l.Sync())
	active := l.view.Load().active().size.Load()
	total := l.Size()
	require.NoError(t, l.Close())
	require.Greater(t, total, 5*active)

	var records atomic.Int64
	counting := faultfs.New(source.fs, func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.OpReadAt && isLogName(op.Name) {
			records.Add(op.Len)
		}
		return faultfs.Fault{}
	})
	b := newBenchOn(t, counting)
	l = b.open(Options{Config: c})
	read := records.Load()
	t.Logf("unclean: %d of %d bytes read", read, total)
	require.LessOrEqual(t, read, active+64<<10)
	records.Store(0)
	b.reopen(l, Options{Config: c})
	t.Logf("clean: %d bytes read", records.Load())
	require.LessOrEqual(t, records.Load(), int64(4*windowSize), "a few headers: there is no summary")
}

func TestAFileWithAStrangeNameIsNotIgnored(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	require.NoError(t, l.Close())
	edit(t, writable{b.fs}, path.Join(testDir, "5.log"), func([]byte) []byte { return []byte("x") })
	_, err := Open(b.env, testDir, Options{})
	require.Equal(t, &SegmentNameError{Name: "5.log"}, err)
	require.NoError(t, b.fs.Remove(path.Join(testDir, "5.log")))
	edit(t, writable{b.fs}, path.Join(testDir, "notes.txt"), func([]byte) []byte { return []byte("x") })
	l = b.open(Options{})
	require.NoError(t, l.Close())
	_, err = b.fs.Stat(path.Join(testDir, "notes.txt"))
	require.NoError(t, err)
}

func TestAnInterruptedSwapIsFinishedOrUndone(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	fill(t, l, 14)
	require.NoError(t, l.Sync())
	bases := segmentBases(t, source.fs)
	first, second := bases[0], bases[1]
	replacement, err := l.ReadRaw(second-2, second, 1) // the last batch of the first segment
	require.NoError(t, err)
	require.NoError(t, l.Close())
	put := func(fsys vfs.FS, base int64, suffix string, content []byte) {
		edit(t, writable{fsys}, filePath(testDir, base, suffix), func([]byte) []byte { return content })
	}

	ready := copyDir(t, source.fs)
	put(ready, first, logSuffix+swapSuffix, replacement.Bytes)
	put(ready, first, indexSuffix+swapSuffix, nil)
	var stamp [timeIndexEntrySize]byte
	timeCodec{}.put(stamp[:], packedTimeEntry{timestamp: batch.Batch(replacement.Bytes).MaxTimestamp(), relative: int32(second - 1 - first)})
	put(ready, first, timeIndexSuffix+swapSuffix, stamp[:])
	b := newBenchOn(t, ready)
	l = b.open(Options{Config: smallSegments()})
	got := baseOffsets(t, allBytes(t, l))
	require.Equal(t, []int64{second - 2, second}, got[:2])

	halfway := copyDir(t, source.fs)
	put(halfway, first, logSuffix+cleanedSuffix, replacement.Bytes)
	put(halfway, second, logSuffix+swapSuffix, replacement.Bytes)
	b = newBenchOn(t, halfway)
	l = b.open(Options{Config: smallSegments()})
	require.Equal(t, []int64{0, 2}, baseOffsets(t, allBytes(t, l))[:2])
	require.Equal(t, int64(28), l.LogEnd())
}

// openUntil opens the log on a device that is gone from the n-th call on, lets go of it, and returns the calls made by
// Open.
func openUntil(fsys vfs.FS, n int) int {
	disk := faultfs.New(fsys, faultfs.FailFrom(n, syscall.EIO))
	env := NewEnv(EnvOptions{FS: disk, Now: func() time.Time { return time.UnixMilli(epochMs) }})
	_, _ = Open(env, testDir, Options{Config: smallSegments()}) // what it leaves behind is what matters
	calls := disk.Calls()
	_ = env.Close()
	return calls
}

// fileNames returns the names in the test's directory.
func fileNames(t require.TestingT, fsys vfs.FS) []string {
	entries, err := fsys.List(testDir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// observed is what a reopen must not change.
type observed struct {
	start, end int64
	records    string // digest of the raw bytes
	epochs     []EpochEntry
	producers  []ProducerSnapshotEntry
	unstable   int64
}

func logState(t require.TestingT, l *Log) observed {
	return observed{
		start: l.LogStart(), end: l.LogEnd(), records: fmt.Sprintf("%x", sha256.Sum256(allBytes(t, l))), epochs: l.Epochs(),
		producers: l.ProducerStateSnapshot(), unstable: l.FirstUnstable(),
	}
}

func TestAFileThatARollLeftBehindCostsNoRecords(t *testing.T) {
	source := makeBench(t, memfs.New())
	l := source.open(Options{Contiguous: true})
	fill(t, l, 7)
	end, all := l.LogEnd(), allBytes(t, l)
	require.NoError(t, l.Sync())
	left := copyDir(t, source.fs)
	require.NoError(t, source.env.Close())
	for _, o := range []Options{{Contiguous: true}, {Contiguous: true, RecoveryPoint: end}, {}} {
		fsys := copyDir(t, left)
		for _, base := range []int64{end - 6, end - 4} { // the log went on without them
			edit(t, writable{fsys}, logPath(base), func([]byte) []byte { return nil })
		}
		b := makeBench(t, fsys)
		l := b.open(o)
		require.Equal(t, end, l.LogEnd())
		require.Equal(t, all, allBytes(t, l))
		require.Equal(t, []int64{0}, segmentBases(t, fsys))
		require.Empty(t, eventsOf[PartialBatchEvent](b))
		require.Equal(t, end, mustAppend(t, l, data{}))
		require.Empty(t, l.Check())
		require.NoError(t, b.env.Close())
	}
}
