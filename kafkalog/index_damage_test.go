package kafkalog

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// damageSource is a log of several segments on a file system that is copied for every kind of damage.
type damageSource struct {
	fs      *memfs.FS
	bases   []int64
	end     int64
	bytes   []byte
	batches []batch.Batch // of bytes
}

func newDamageSource(t *testing.T) *damageSource { return newDamageSourceOf(t, 22) }

func newDamageSourceOf(t *testing.T, batches int) *damageSource {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, batches)
	require.NoError(t, l.Sync())
	src := &damageSource{fs: b.fs.(*memfs.FS), end: l.LogEnd(), bytes: allBytes(t, l)}
	require.NoError(t, l.Close())
	src.bases = segmentBases(t, src.fs)
	require.Greater(t, len(src.bases), 3)
	for rest := src.bytes; len(rest) > 0; {
		one, after, err := batch.Next(rest)
		require.NoError(t, err)
		src.batches = append(src.batches, one)
		rest = after
	}
	return src
}

// upper is the base of the segment after the i-th, or the log end.
func (src *damageSource) upper(i int) int64 {
	if i+1 < len(src.bases) {
		return src.bases[i+1]
	}
	return src.end
}

// requireEverythingIsRead reads the log from every offset and step by step to its end. Each read must make progress, so
// that no reader asks forever.
func (src *damageSource) requireEverythingIsRead(t *testing.T, l *Log, name string) {
	t.Helper()
	require.Equal(t, src.end, l.LogEnd(), name)
	require.Equal(t, src.bytes, allBytes(t, l), name)
	for _, b := range src.batches {
		for offset := b.BaseOffset(); offset <= b.LastOffset(); offset++ {
			r, err := l.ReadRaw(offset, l.LogEnd(), 1)
			require.NoError(t, err, "%s: read of %d", name, offset)
			require.Equal(t, b.BaseOffset(), r.StartOffset, "%s: read of %d", name, offset)
			require.Equal(t, []byte(b), r.Bytes, "%s: read of %d", name, offset)
		}
	}
	for offset, steps := int64(0), 0; offset < src.end; steps++ {
		r, err := l.ReadRaw(offset, l.LogEnd(), 300)
		require.NoError(t, err, name)
		require.Greater(t, r.LastOffset, offset-1, "%s: a read of %d that gives nothing", name, offset)
		require.LessOrEqual(t, steps, len(src.batches), name)
		offset = r.LastOffset + 1
	}
}

// requireTimestampsAreFound looks up the timestamp of every batch; fill gave the i-th batch epochMs + 10i and +1.
func (src *damageSource) requireTimestampsAreFound(t *testing.T, l *Log, name string) {
	t.Helper()
	for i, b := range src.batches {
		ts := epochMs + int64(10*i)
		for ask, want := range map[int64]TimestampOffset{
			ts - 5: {Offset: b.BaseOffset(), Timestamp: ts},
			ts:     {Offset: b.BaseOffset(), Timestamp: ts},
			ts + 1: {Offset: b.LastOffset(), Timestamp: ts + 1},
		} {
			found, ok, err := l.OffsetForTimestamp(ask)
			require.NoError(t, err, "%s: timestamp %d", name, ask)
			require.True(t, ok, "%s: timestamp %d", name, ask)
			require.Equal(t, want, found, "%s: timestamp %d", name, ask)
		}
	}
	_, ok, err := l.OffsetForTimestamp(epochMs + 1_000_000)
	require.NoError(t, err, name)
	require.False(t, ok, name)
}

// craft is an index file that lies. It gets the segment's bounds and the batches in it.
type craft func(base, upper int64, size int32, batches []batch.Batch) []byte

// offsetCrafts are the crafted last entries of the report, and lies that look like an index.
var offsetCrafts = map[string]craft{
	"past the log end": func(base, upper int64, size int32, _ []batch.Batch) []byte {
		return indexBytes([2]int32{int32(upper - base + 1000), size - 1})
	},
	"at the next segment's base": func(base, upper int64, size int32, _ []batch.Batch) []byte {
		return indexBytes([2]int32{int32(upper - base), size - 1})
	},
	"position past the file": func(_, _ int64, size int32, _ []batch.Batch) []byte {
		return indexBytes([2]int32{1, size + 1000})
	},
	"descending": func(_, _ int64, size int32, _ []batch.Batch) []byte {
		return indexBytes([2]int32{3, size - 10}, [2]int32{1, size - 5})
	},
	"in the middle of a batch": func(_, _ int64, _ int32, b []batch.Batch) []byte {
		return indexBytes([2]int32{1, int32(len(b[0])) + 7})
	},
	"a position behind the offset's batch": func(base, _ int64, _ int32, b []batch.Batch) []byte {
		position := 0
		for _, earlier := range b[:len(b)-1] {
			position += len(earlier)
		}
		return indexBytes([2]int32{int32(b[0].LastOffset() - base), int32(position)})
	},
	"entries moved by one batch": func(base, _ int64, _ int32, b []batch.Batch) []byte {
		var entries [][2]int32
		position := len(b[0])
		for i := range len(b) - 1 {
			entries = append(entries, [2]int32{int32(b[i].LastOffset() - base), int32(position)})
			position += len(b[i+1])
		}
		return indexBytes(entries...)
	},
}

func TestF41_CraftedOffsetIndexesNeitherHideRecordsNorHoldReaders(t *testing.T) {
	src := newDamageSource(t)
	for kind, make := range offsetCrafts {
		for i, base := range src.bases {
			for _, clean := range []bool{true, false} {
				src.withCraft(t, i, indexSuffix, make, clean, fmt.Sprintf("%s, segment %d, clean=%v", kind, base, clean))
			}
		}
	}
}

// withCraft opens a copy of the log in which one index lies, and holds every answer against the truth, before and after
// the log goes on.
func (src *damageSource) withCraft(t *testing.T, i int, suffix string, make craft, clean bool, name string) {
	t.Helper()
	fsys := copyDir(t, src.fs)
	base, upper := src.bases[i], src.upper(i)
	var inside []batch.Batch
	size := 0
	for _, b := range src.batches {
		if b.BaseOffset() >= base && b.BaseOffset() < upper {
			inside = append(inside, b)
			size += len(b)
		}
	}
	edit(t, fsys, filePath(testDir, base, suffix), func([]byte) []byte {
		return make(base, upper, int32(size), inside)
	})
	b := makeBench(t, fsys)
	l := b.open(Options{Config: smallSegments(), Clean: clean})
	src.requireEverythingIsRead(t, l, name)
	src.requireTimestampsAreFound(t, l, name)

	appended := mustAppend(t, l, data{ts: epochMs + 500})
	require.Equal(t, src.end, appended, name)
	require.NoError(t, l.TruncateTo(inside[0].NextOffset()), name)
	require.Equal(t, inside[0].NextOffset(), l.LogEnd(), name)
	mustAppend(t, l, data{ts: epochMs + 600})
	r, err := l.ReadRaw(inside[0].NextOffset(), l.LogEnd(), 1)
	require.NoError(t, err, name)
	require.Equal(t, inside[0].NextOffset(), r.StartOffset, name)
	require.NoError(t, b.env.Close(), name)
}

// timeCrafts are time indexes that lie.
var timeCrafts = map[string]craft{
	"past the log end": func(base, upper int64, _ int32, _ []batch.Batch) []byte {
		return timeBytes([2]int64{epochMs + 900, upper - base + 1000})
	},
	"at the next segment's base": func(base, upper int64, _ int32, _ []batch.Batch) []byte {
		return timeBytes([2]int64{epochMs + 900, upper - base})
	},
	"descending": func(_, _ int64, _ int32, b []batch.Batch) []byte {
		return timeBytes([2]int64{b[0].MaxTimestamp(), 1}, [2]int64{b[0].MaxTimestamp() - 1, 2})
	},
}

func TestF41_CraftedTimeIndexesNeitherHideRecordsNorHoldReaders(t *testing.T) {
	src := newDamageSource(t)
	for kind, make := range timeCrafts {
		for i, base := range src.bases {
			for _, clean := range []bool{true, false} {
				src.withCraft(t, i, timeIndexSuffix, make, clean, fmt.Sprintf("%s, segment %d, clean=%v", kind, base, clean))
			}
		}
	}
}

func TestF41_TheIndexOfAnEmptyActiveSegmentIsNotBelieved(t *testing.T) {
	for _, clean := range []bool{true, false} {
		b := newBench(t)
		l := b.open(Options{Config: smallSegments()})
		fill(t, l, 3)
		rolled, err := l.Roll()
		require.NoError(t, err)
		require.True(t, rolled)
		end := l.LogEnd()
		require.NoError(t, l.Sync())
		require.NoError(t, l.Close())
		edit(t, b.fs, filePath(testDir, end, indexSuffix), func([]byte) []byte { return indexBytes([2]int32{5, 100}) })
		edit(t, b.fs, filePath(testDir, end, timeIndexSuffix), func([]byte) []byte { return timeBytes([2]int64{epochMs, 5}) })

		l = b.open(Options{Config: smallSegments(), Clean: clean})
		require.Equal(t, end, l.LogEnd())
		r, err := l.ReadRaw(end, l.LogEnd(), 100)
		require.NoError(t, err)
		require.Empty(t, r.Bytes)
		require.Equal(t, end, mustAppend(t, l, data{}))
		r, err = l.ReadRaw(end, l.LogEnd(), 100)
		require.NoError(t, err)
		require.Equal(t, end, r.LastOffset)
	}
}

func TestF71_AnEmptyActiveSegmentWithoutIndexesTakesAnAppendAfterAnIdleHour(t *testing.T) {
	for _, gone := range [][]string{{indexSuffix}, {timeIndexSuffix}, {indexSuffix, timeIndexSuffix}} {
		for _, clean := range []bool{true, false} {
			b := newBench(t)
			l := b.open(Options{Config: smallSegments()})
			fill(t, l, 3)
			_, err := l.Roll()
			require.NoError(t, err)
			end := l.LogEnd()
			require.NoError(t, l.Sync())
			require.NoError(t, l.Close())
			for _, suffix := range gone {
				require.NoError(t, b.fs.Remove(filePath(testDir, end, suffix)))
			}

			c := smallSegments()
			c.SegmentMs = time.Minute.Milliseconds()
			l = b.open(Options{Config: c, Clean: clean})
			for i := range int64(3) {
				b.advance(time.Hour)
				require.Equal(t, end+i, mustAppend(t, l, data{ts: b.now().UnixMilli()}))
			}
			require.Equal(t, []int64{end, end + 1, end + 2}, segmentBases(t, b.fs)[1:], "no roll of an empty segment, one for each hour")
		}
	}
}

func TestF71_AnEmptyFileWithTheNextSegmentsNameIsNoReasonToRollForEver(t *testing.T) {
	for _, clean := range []bool{true, false} {
		b := newBench(t)
		l := b.open(Options{Config: smallSegments()})
		fill(t, l, 3)
		end := l.LogEnd()
		require.NoError(t, l.Sync())
		require.NoError(t, l.Close())
		for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix} {
			storeFile(t, b.fs, filePath(testDir, end, suffix), nil)
		}
		l = b.open(Options{Config: smallSegments(), Clean: clean})
		require.Equal(t, end, l.LogEnd())
		b.advance(time.Hour)
		require.Equal(t, end, mustAppend(t, l, data{}))
		require.LessOrEqual(t, len(segmentBases(t, b.fs)), 3)
		r, err := l.ReadRaw(end, l.LogEnd(), 1)
		require.NoError(t, err)
		require.Equal(t, end, r.LastOffset)
	}
}

func TestF51_AnEpochFileThatIsGoneOrDamagedComesBackFromTheBatches(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	for epoch := range int32(4) {
		for i := range 4 {
			_, err := l.Append(data{records: 2, size: 40, seed: i}.build(t), AppendOptions{LeaderEpoch: 2 * epoch})
			require.NoError(t, err)
		}
	}
	want := l.Epochs()
	require.Equal(t, []EpochEntry{{0, 0}, {2, 8}, {4, 16}, {6, 24}}, want)
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	for kind, change := range map[string]func([]byte) []byte{
		"gone": nil, "0 bytes": func([]byte) []byte { return nil }, "half": func(b []byte) []byte { return b[:len(b)/2] },
		"zeros": func(b []byte) []byte { clear(b); return b }, "an entry too few": func(b []byte) []byte { return b[:len(b)-5] },
	} {
		for _, clean := range []bool{true, false} {
			fsys := copyDir(t, source.fs)
			name := testDir + "/" + epochFileName
			if change == nil {
				require.NoError(t, fsys.Remove(name))
			} else {
				edit(t, fsys, name, change)
			}
			b := makeBench(t, fsys)
			l := b.open(Options{Config: smallSegments(), Clean: clean})
			require.Equal(t, want, l.Epochs(), "%s, clean=%v", kind, clean)
			for requested, answer := range map[int32][2]int64{0: {0, 8}, 1: {0, 8}, 2: {2, 16}, 5: {4, 24}, 6: {6, 32}, 7: {-1, -1}} {
				epoch, end := l.EndOffsetForEpoch(requested)
				require.Equal(t, answer, [2]int64{int64(epoch), end}, "%s: epoch %d", kind, requested)
			}
			require.NoError(t, b.env.Close())

			b = makeBench(t, fsys)
			require.Equal(t, want, b.open(Options{Config: smallSegments(), Clean: true}).Epochs(), "%s, opened again", kind)
			require.NoError(t, b.env.Close())
		}
	}
}

func TestF16_AProducerGoesOnAfterAnyOneSnapshotIsLost(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	for i := range int32(20) {
		_, err := l.Append(data{records: 2, size: 40, producer: 7, sequence: 2 * i}.build(t), AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
	}
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	files, err := loadSnapshotFiles(source.fs, testDir)
	require.NoError(t, err)
	offsets := files.all()
	require.Greater(t, len(offsets), 3)
	for _, lost := range offsets {
		for _, clean := range []bool{true, false} {
			fsys := copyDir(t, source.fs)
			require.NoError(t, fsys.Remove(filePath(testDir, lost, snapshotSuffix)))
			b := makeBench(t, fsys)
			l := b.open(Options{Config: smallSegments(), Clean: clean})
			again, err := l.Append(data{records: 2, size: 40, producer: 7, sequence: 38}.build(t), AppendOptions{LeaderEpoch: -1})
			require.NoError(t, err)
			require.True(t, again.Duplicate, "snapshot %d, clean=%v", lost, clean)
			require.EqualValues(t, 38, again.BaseOffset)
			next, err := l.Append(data{records: 2, size: 40, producer: 7, sequence: 40}.build(t), AppendOptions{LeaderEpoch: -1})
			require.NoError(t, err)
			require.EqualValues(t, 40, next.BaseOffset)
			_, err = l.Append(data{records: 2, size: 40, producer: 7, sequence: 50}.build(t), AppendOptions{LeaderEpoch: -1})
			require.ErrorIs(t, err, ErrOutOfOrderSequence)
			require.NoError(t, b.env.Close())
		}
	}
}

func TestF54_AProducerThatExpiredWhileTheLogWasClosedGoesOn(t *testing.T) {
	c := smallSegments()
	c.ProducerExpirationMs = 30_000
	for _, clean := range []bool{true, false} {
		b := newBench(t)
		l := b.open(Options{Config: c})
		for i := range int32(8) {
			_, err := l.Append(data{records: 2, size: 40, producer: 7, sequence: 2 * i}.build(t), AppendOptions{LeaderEpoch: -1})
			require.NoError(t, err)
		}
		_, err := l.Append(data{records: 2, size: 40, producer: 8, txn: true}.build(t), AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
		require.NoError(t, l.Sync())
		require.NoError(t, l.Close())

		b.advance(time.Minute)
		l = b.open(Options{Config: c, Clean: clean})
		l.RemoveExpiredProducers(b.now(), 30*time.Second)
		_, found := l.ProducerStateEntry(7)
		require.False(t, found, "clean=%v", clean)
		entry, found := l.ProducerStateEntry(8)
		require.True(t, found, "a transaction is open")
		require.EqualValues(t, 16, entry.TxnFirstOffset)
		_, err = l.Append(data{records: 2, size: 40, producer: 7, sequence: 16, ts: b.now().UnixMilli()}.build(t), AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err, "the next sequence of a producer that is not known")
	}
}

// TestF41_EveryByteOfAnIndexMayBeWrong flips each bit of each index of a small log, one at a time.
func TestF41_EveryByteOfAnIndexMayBeWrong(t *testing.T) {
	src := newDamageSource(t)
	for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
		base := src.bases[1]
		name := filePath(testDir, base, suffix)
		length := len(storedFile(t, src.fs, name))
		require.Positive(t, length)
		for bit := range length * 8 {
			fsys := copyDir(t, src.fs)
			edit(t, fsys, name, func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b })
			b := makeBench(t, fsys)
			l := b.open(Options{Config: smallSegments(), Clean: true})
			src.requireEverythingIsRead(t, l, fmt.Sprintf("%s, bit %d", suffix, bit))
			src.requireTimestampsAreFound(t, l, fmt.Sprintf("%s, bit %d", suffix, bit))
			require.NoError(t, b.env.Close())
		}
	}
}

// sortedOffsets are the offsets at which files with a suffix stand.
func sortedOffsets(names []string, suffix string) []int64 {
	var offsets []int64
	for _, name := range names {
		if offset, ok := parseOffset(name); ok && name == fileName(offset, suffix) {
			offsets = append(offsets, offset)
		}
	}
	slices.Sort(offsets)
	return offsets
}

// TestSealedIndexesHaveTheirExactLengthAndEntriesLeadToBatches looks at the files after a clean close.
func TestSealedIndexesHaveTheirExactLengthAndEntriesLeadToBatches(t *testing.T) {
	src := newDamageSource(t)
	for _, base := range sortedOffsets(fileNames(t, src.fs), indexSuffix) {
		data := storedFile(t, src.fs, filePath(testDir, base, indexSuffix))
		records := storedFile(t, src.fs, filePath(testDir, base, logSuffix))
		require.Zero(t, len(data)%indexEntrySize)
		for ; len(data) > 0; data = data[indexEntrySize:] {
			position := binary.BigEndian.Uint32(data[4:])
			require.Positive(t, position)
			one, _, err := batch.Next(records[position:])
			require.NoError(t, err)
			require.Equal(t, one.LastOffset(), base+int64(binary.BigEndian.Uint32(data)))
		}
	}
}

// An index file that a power cut left beside no records says nothing of those that come.
func TestAnIndexLeftBesideNoRecordsDoesNotComeBack(t *testing.T) {
	fsys := memfs.New()
	require.NoError(t, vfs.EnsureDir(fsys, testDir))
	edit(t, writable{fsys}, logPath(0), func([]byte) []byte { return nil })
	edit(t, writable{fsys}, filePath(testDir, 0, indexSuffix), func([]byte) []byte { return indexBytes([2]int32{5, 75}) })
	require.NoError(t, fsys.SyncDir(testDir))
	for _, clean := range []bool{false, true} {
		left := fsys.CrashClean()
		b := newBenchOn(t, left)
		l := b.open(Options{Clean: clean})
		mustAppend(t, l, data{})
		_, err := l.Roll()
		require.NoError(t, err)
		require.NoError(t, l.Sync())
		l = newBenchOn(t, left.CrashClean()).open(Options{})
		require.Equal(t, int64(1), l.LogEnd())
		require.Empty(t, l.Check())
	}
}
