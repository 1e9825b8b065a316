package kafkalog

import (
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// far is more than a segment's indexes can say.
const far = math.MaxInt32 + 1

// overflowing is a partition directory with a segment that does not fit its indexes: offsets 0 to 7, then some about far, an
// aborted transaction among them, then some about 3*far. A segment that fits is before it and, if sealed, one behind it.
type overflowing struct {
	fs     *memfs.FS
	base   int64 // of the segment
	want   []batch.Batch
	parts  []int64 // bases that it has to be split into
	next   int64   // base of the segment behind it, or the log end
	sealed bool
	mtime  time.Time
}

// newOverflowing writes the directory as a broker from before Kafka 1.1 may have left it.
func newOverflowing(t require.TestingT, sealed bool) *overflowing {
	o := &overflowing{fs: memfs.New(), sealed: sealed, base: 4, mtime: time.UnixMilli(epochMs - 5000)}
	b := makeBench(t, o.fs)
	l := b.open(Options{})
	put := func(d data, at int64) {
		given := d.build(t)
		if d.ts == markerStamp {
			given = marker(d.producer, 0, false)
		}
		given.SetLeaderEpoch(int32(at / far))
		_, err := l.AppendAt(given, at)
		require.NoError(t, err)
		o.want = append(o.want, given)
	}
	put(data{records: 2, producer: 7, seed: 1}, 0)
	put(data{records: 2, producer: 7, sequence: 2, seed: 2}, 2)
	_, err := l.Roll()
	require.NoError(t, err)
	put(data{records: 4, producer: 7, sequence: 4, seed: 3}, 4)
	o.parts = []int64{4, far + 10, 3 * far}
	for i, base := range o.parts[1:] {
		put(data{records: 2, producer: 8, txn: true, sequence: int32(2 * i), seed: 4 + i}, base)
		put(data{records: 1, seed: 14 + i}, base+2)
		put(data{producer: 8, ts: markerStamp}, base+5)
	}
	o.next = 3*far + 6
	if sealed {
		put(data{records: 3, producer: 7, sequence: 8, seed: 30}, 5*far)
		o.next = 5 * far
	}
	require.NoError(t, l.Sync())
	require.NoError(t, b.env.Close())
	o.join(t)
	return o
}

// markerStamp stands for a batch that aborts the transaction.
const markerStamp = -7

// join makes one segment of those that the log rolled because they do not fit.
func (o *overflowing) join(t require.TestingT) {
	joined, aborted := []byte{}, []byte{}
	for _, base := range o.parts {
		for suffix, into := range map[string]*[]byte{logSuffix: &joined, txnIndexSuffix: &aborted} {
			if content, err := vfs.ReadFile(o.fs, filePath(testDir, base, suffix)); err == nil {
				*into = append(*into, content...)
			}
		}
		for _, suffix := range append(segmentFiles[:], snapshotSuffix) {
			if base != o.base || suffix != snapshotSuffix {
				_ = o.fs.Remove(filePath(testDir, base, suffix)) // not all of them are there
			}
		}
	}
	for suffix, content := range map[string][]byte{logSuffix: joined, txnIndexSuffix: aborted} {
		edit(t, writable{o.fs}, filePath(testDir, o.base, suffix), func([]byte) []byte { return content })
	}
	for suffix, junk := range map[string]string{indexSuffix: "12345678", timeIndexSuffix: "123456789012"} {
		edit(t, writable{o.fs}, filePath(testDir, o.base, suffix), func([]byte) []byte { return []byte(junk) })
	}
	require.NoError(t, o.fs.Chtimes(filePath(testDir, o.base, logSuffix), o.mtime))
	file, err := o.fs.Open(filePath(testDir, o.base, logSuffix), vfs.ReadWrite)
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	require.NoError(t, file.Close())
	require.NoError(t, o.fs.SyncDir(testDir))
}

// requireWhole says that the log holds what it should, in segments that fit, and that it goes on.
func (o *overflowing) requireWhole(t require.TestingT, l *Log) {
	require.Equal(t, joined(o.want), allBytes(t, l))
	require.Equal(t, o.want[len(o.want)-1].NextOffset(), l.LogEnd())
	bases := append([]int64{0}, o.parts...)
	if o.sealed {
		bases = append(bases, o.next)
	}
	require.Equal(t, bases, l.view.Load().bases())
	require.Empty(t, l.Check())

	aborted, err := l.AbortedInRange(0, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, []AbortedTxn{
		{ProducerID: 8, FirstOffset: far + 10, LastOffset: far + 15, LastStableOffset: far + 16},
		{ProducerID: 8, FirstOffset: 3 * far, LastOffset: 3*far + 5, LastStableOffset: 3*far + 6},
	}, aborted)
	last := int32(7)
	if o.sealed {
		last = 10
	}
	entry, found := l.ProducerStateEntry(7)
	require.True(t, found)
	require.Equal(t, last, entry.LastSequence)
	entry, found = l.ProducerStateEntry(8)
	require.True(t, found)
	require.Equal(t, ProducerSnapshotEntry{
		ProducerID: 8, LastSequence: 3, LastOffset: 3*far + 1, OffsetDelta: 1, Timestamp: epochMs, TxnFirstOffset: -1,
	}, entry)
	for _, offset := range []int64{2, 6, far + 10, far + 12, 3 * far, 3*far + 2} {
		read, err := l.ReadRaw(offset, l.LogEnd(), 1)
		require.NoError(t, err)
		require.LessOrEqual(t, read.StartOffset, offset)
		require.GreaterOrEqual(t, read.LastOffset, offset)
	}
	end := l.LogEnd()
	require.Equal(t, end, mustAppend(t, l, data{producer: 7, sequence: last + 1, seed: 40}))
	require.NoError(t, l.Sync())
}

func TestASegmentWhoseOffsetsOverflowItsIndexesIsSplit(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		for name, options := range map[string]Options{
			"unclean":           {},
			"flushed":           {RecoveryPoint: 5*far + 3},
			"clean":             {Clean: true},
			"of a Kafka broker": {Foreign: true},
		} {
			t.Run(fmt.Sprintf("%s, sealed %t", name, sealed), func(t *testing.T) {
				o := newOverflowing(t, sealed)
				b := newBenchOn(t, o.fs)
				if !sealed {
					options.RecoveryPoint = min(options.RecoveryPoint, o.next)
				}
				l := b.open(options)
				require.Equal(t, []SplitEvent{{Dir: testDir, Base: o.base, Bases: o.parts[1:], Bytes: o.size(t)}}, eventsOf[SplitEvent](b))
				require.Empty(t, eventsOf[PartialBatchEvent](b))
				if sealed {
					info, err := o.fs.Stat(logPath(o.base))
					require.NoError(t, err)
					require.Equal(t, o.mtime, info.ModTime(), "retention by age goes by it")
				}
				o.requireWhole(t, l)
				l = b.reopen(l, Options{})
				o.want = append(o.want, lastBatch(t, l))
				require.Equal(t, joined(o.want), allBytes(t, l))
			})
		}
	}
}

// size is the bytes of the segment.
func (o *overflowing) size(t require.TestingT) (size int64) {
	for _, b := range o.want {
		if b.BaseOffset() >= o.base && (!o.sealed || b.BaseOffset() < o.next) {
			size += int64(len(b))
		}
	}
	return size
}

func lastBatch(t require.TestingT, l *Log) batch.Batch {
	read, err := l.ReadRaw(l.LogEnd()-1, l.LogEnd(), 1)
	require.NoError(t, err)
	return read.Bytes
}

func TestASplitThatIsInterruptedAnywhereIsDoneAgain(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		source := newOverflowing(t, sealed)
		calls := openUntil(copyDir(t, source.fs), math.MaxInt)
		for n := range calls {
			for _, crash := range []memfs.CrashOptions{{KeepUnsynced: 1}, {}, {KeepUnsynced: 0.5, Seed: uint64(n), Torn: true}} {
				fsys := copyDir(t, source.fs)
				openUntil(fsys, n)
				o := *source
				o.fs = fsys.Crash(crash)
				b := makeBench(t, o.fs)
				o.requireWhole(t, b.open(Options{RecoveryPoint: 4}))
				require.NoError(t, b.env.Close())
			}
		}
	}
}

func TestASplitIsInterruptedTwice(t *testing.T) {
	source := newOverflowing(t, true)
	calls := openUntil(copyDir(t, source.fs), math.MaxInt)
	for n := 0; n < calls; n += 5 {
		fsys := copyDir(t, source.fs)
		openUntil(fsys, n)
		first := fsys.Crash(memfs.CrashOptions{KeepUnsynced: 0.5, Seed: uint64(n)})
		again := openUntil(first.Crash(memfs.CrashOptions{}), math.MaxInt)
		for m := n % 4; m < again; m += 4 {
			second := first.Crash(memfs.CrashOptions{})
			openUntil(second, m)
			o := *source
			o.fs = second.Crash(memfs.CrashOptions{KeepUnsynced: 0.5, Seed: uint64(m)})
			b := makeBench(t, o.fs)
			o.requireWhole(t, b.open(Options{}))
			require.NoError(t, b.env.Close())
		}
	}
}

func TestASplitWithoutRoomLeavesTheSegmentAsItWas(t *testing.T) {
	o := newOverflowing(t, true)
	before := fileNames(t, o.fs)
	disk := faultfs.New(o.fs, nil)
	quota := faultfs.NewQuota(o.size(t) / 2)
	disk.SetInjector(quota.Inject)
	b := newBenchOn(t, disk)
	_, err := Open(b.env, testDir, Options{})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, ErrStorage)
	require.Equal(t, before, fileNames(t, o.fs))
	disk.SetInjector(nil)
	o.requireWhole(t, b.open(Options{}))
}

func TestATornTailOfASegmentThatIsSplitIsCut(t *testing.T) {
	o := newOverflowing(t, false)
	edit(t, o.fs, logPath(o.base), func(b []byte) []byte { return append(b, "what was never a batch"...) })
	b := newBenchOn(t, o.fs)
	l := b.open(Options{})
	require.Len(t, eventsOf[PartialBatchEvent](b), 1)
	o.requireWhole(t, l)
}

func TestADamagedTransactionIndexOfASegmentThatIsSplitIsMadeAgain(t *testing.T) {
	for _, options := range []Options{{}, {Clean: true}} {
		o := newOverflowing(t, true)
		edit(t, o.fs, filePath(testDir, o.base, txnIndexSuffix), func(b []byte) []byte { return b[:len(b)-1] })
		o.requireWhole(t, newBenchOn(t, o.fs).open(options))
	}
}

func TestASegmentThatHoldsOnlyFarOffsetsIsSplitBehindAnEmptyOne(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{})
	fill(t, l, 3)
	all := allBytes(t, l)
	require.NoError(t, source.env.Close())
	moved := []batch.Batch{}
	for i, base := range baseOffsets(t, all) {
		b, rest, err := batch.Next(all)
		require.NoError(t, err)
		b.SetBaseOffset(base + far + int64(i))
		moved, all = append(moved, b), rest
	}
	fsys := memfs.New()
	require.NoError(t, vfs.EnsureDir(fsys, testDir))
	edit(t, writable{fsys}, logPath(0), func([]byte) []byte { return joined(moved) })
	b := newBenchOn(t, fsys)
	l = b.open(Options{})
	require.Equal(t, []int64{0, far}, l.view.Load().bases())
	read, err := l.ReadRaw(far, l.LogEnd(), 1<<20)
	require.NoError(t, err)
	require.Equal(t, joined(moved), read.Bytes)
	require.Empty(t, l.Check())
}
