package kafkalog

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/vfs"
)

const timeIndexPath = partsDir + "/00000000000000001000.timeindex"

func newTestTimeIndex(t require.TestingT, fsys vfs.FS, maxEntries int) *timeIndex {
	file, err := newHandleCache(fsys, 4).create(timeIndexPath, vfs.CreateTruncate)
	require.NoError(t, err)
	return newTimeIndex(file, 1000, maxEntries)
}

func reopenTimeIndex(fsys vfs.FS, limits indexLimits) *timeIndex {
	return openTimeIndex(newHandleCache(fsys, 4).open(timeIndexPath, vfs.ReadWrite), 1000, roomyIndex, limits)
}

// timeBytes encodes pairs of timestamp and relative offset.
func timeBytes(entries ...[2]int64) []byte {
	var data []byte
	for _, e := range entries {
		data = binary.BigEndian.AppendUint64(data, uint64(e[0]))
		data = binary.BigEndian.AppendUint32(data, uint32(e[1]))
	}
	return data
}

func requireTimes(t *testing.T, x *timeIndex, want ...timeEntry) {
	t.Helper()
	count, err := x.entries()
	require.NoError(t, err)
	var got []timeEntry
	for at := int64(math.MaxInt64); ; {
		entry, err := x.lookup(at)
		require.NoError(t, err)
		if entry.timestamp < 0 {
			require.Equal(t, timeEntry{-1, 1000}, entry)
			break
		}
		got = append(got, entry)
		at = entry.timestamp - 1
	}
	slices.Reverse(got)
	require.Equal(t, want, got)
	require.Len(t, want, count)
	last, err := x.last()
	require.NoError(t, err)
	if count == 0 {
		require.Equal(t, timeEntry{-1, 1000}, last)
	} else {
		require.Equal(t, want[count-1], last)
	}
}

func TestATimeIndexEntryHasKafkasBytes(t *testing.T) {
	fsys := newPartsFS(t)
	file, err := newHandleCache(fsys, 4).create(timeIndexPath, vfs.CreateNew)
	require.NoError(t, err)
	x := newTimeIndex(file, 0, roomyIndex)
	require.NoError(t, x.maybeAppend(1700000000005, 43, false))
	require.NoError(t, x.seal())
	require.Equal(t, formatBytes(t, "timeindex"), storedFile(t, fsys, timeIndexPath))
}

func TestOnlyALargerTimestampGetsATimeIndexEntry(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestTimeIndex(t, fsys, roomyIndex)
	require.NoError(t, x.maybeAppend(-1, 1000, false))
	requireTimes(t, x)
	require.NoError(t, x.maybeAppend(0, 1003, false))
	require.NoError(t, x.maybeAppend(5, 1007, false))
	require.NoError(t, x.maybeAppend(5, 1007, false))
	require.NoError(t, x.maybeAppend(5, 1009, false))
	require.NoError(t, x.maybeAppend(6, 1009, false))
	want := []timeEntry{{0, 1003}, {5, 1007}, {6, 1009}}
	requireTimes(t, x, want...)

	require.ErrorIs(t, x.maybeAppend(4, 1010, false), ErrInvalidArgument, "a timestamp that falls")
	require.ErrorIs(t, x.maybeAppend(7, 1008, false), ErrInvalidArgument, "an offset that falls")
	require.ErrorIs(t, x.maybeAppend(7, 1000+math.MaxInt32+1, false), ErrInvalidArgument)
	requireTimes(t, x, want...)
	require.NoError(t, x.seal())
	requireTimes(t, x, want...)
	requireTimes(t, reopenTimeIndex(fsys, unlimited()), want...)
}

func TestTimeIndexLookupReturnsTheGreatestTimestampAtOrBelow(t *testing.T) {
	fsys := newPartsFS(t)
	storeFile(t, fsys, timeIndexPath, timeBytes([2]int64{100, 5}, [2]int64{200, 9}))
	x := reopenTimeIndex(fsys, unlimited())
	for timestamp, want := range map[int64]timeEntry{
		math.MinInt64: {-1, 1000}, 99: {-1, 1000}, 100: {100, 1005}, 199: {100, 1005}, 200: {200, 1009}, math.MaxInt64: {200, 1009},
	} {
		got, err := x.lookup(timestamp)
		require.NoError(t, err)
		require.Equal(t, want, got, "lookup of %d", timestamp)
	}
}

func TestTheTimeIndexKeepsRoomForTheEntryThatSealsIt(t *testing.T) {
	x := newTestTimeIndex(t, newPartsFS(t), 3)
	require.NoError(t, x.maybeAppend(1, 1001, false))
	require.False(t, x.full())
	require.NoError(t, x.maybeAppend(2, 1002, false))
	require.True(t, x.full())
	var full *IndexFullError
	require.ErrorAs(t, x.maybeAppend(3, 1003, false), &full)
	require.NoError(t, x.maybeAppend(3, 1003, true))
	requireTimes(t, x, timeEntry{1, 1001}, timeEntry{2, 1002}, timeEntry{3, 1003})
}

func TestTheTimeIndexIsTruncatedByOffset(t *testing.T) {
	entries := []timeEntry{{100, 1005}, {200, 1009}, {300, 1009}, {400, 1020}}
	for offset, want := range map[int64]int{1000: 0, 1005: 0, 1006: 1, 1009: 1, 1010: 3, 1020: 3, 1021: 4, math.MaxInt64: 4} {
		fsys := newPartsFS(t)
		x := newTestTimeIndex(t, fsys, roomyIndex)
		for _, e := range entries {
			require.NoError(t, x.maybeAppend(e.timestamp, e.offset, false))
		}
		require.NoError(t, x.seal())
		x = reopenTimeIndex(fsys, unlimited())
		require.NoError(t, x.truncateTo(offset))
		requireTimes(t, x, append([]timeEntry(nil), entries[:want]...)...)
		require.NoError(t, x.maybeAppend(500, 1030, false))
		require.NoError(t, x.seal())
		requireTimes(t, reopenTimeIndex(fsys, unlimited()), append(slices.Clone(entries[:want]), timeEntry{500, 1030})...)
	}
}

func TestF71_ATimeIndexTruncatedToNothingTakesEntriesAgain(t *testing.T) {
	x := newTestTimeIndex(t, newPartsFS(t), 3)
	require.NoError(t, x.maybeAppend(100, 1005, false))
	require.NoError(t, x.maybeAppend(200, 1006, false))
	require.True(t, x.full())
	require.NoError(t, x.truncateTo(1000))
	require.False(t, x.full())
	requireTimes(t, x)
	require.NoError(t, x.maybeAppend(50, 1001, false))
	requireTimes(t, x, timeEntry{50, 1001})
}

func TestAPreallocatedTimeIndexEndsWhereItsZerosBegin(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		want []timeEntry
	}{
		"nothing written":                  {nil, nil},
		"one entry":                        {timeBytes([2]int64{100, 5}), []timeEntry{{100, 1005}}},
		"an entry that is zeros, and more": {timeBytes([2]int64{0, 0}, [2]int64{100, 5}), []timeEntry{{0, 1000}, {100, 1005}}},
	} {
		fsys := newPartsFS(t)
		storeFile(t, fsys, timeIndexPath, append(test.data, make([]byte, 3000*timeIndexEntrySize)...))
		requireTimes(t, reopenTimeIndex(fsys, unlimited()), test.want...)
		x := reopenTimeIndex(fsys, unlimited())
		require.NoError(t, x.activate())
		require.NoError(t, x.maybeAppend(200, 1010, false))
		require.NoError(t, x.seal())
		requireTimes(t, reopenTimeIndex(fsys, unlimited()), append(test.want, timeEntry{200, 1010})...)
		require.Len(t, storedFile(t, fsys, timeIndexPath), (len(test.want)+1)*timeIndexEntrySize, name)
	}
}

func TestATimeIndexOfOneEntryThatIsZerosHasThatEntry(t *testing.T) {
	fsys := newPartsFS(t)
	storeFile(t, fsys, timeIndexPath, timeBytes([2]int64{0, 0}))
	requireTimes(t, reopenTimeIndex(fsys, unlimited()), timeEntry{0, 1000})
}

func TestF41_ATimeIndexThatCannotBeRightIsRejected(t *testing.T) {
	for name, test := range map[string]struct {
		data     []byte
		position int64
		reason   string
	}{
		"offset at the next segment's base": {timeBytes([2]int64{1, 5}, [2]int64{2, 100}), 12, "an offset past the end of the segment"},
		"negative offset":                   {timeBytes([2]int64{1, -5}), 0, "an offset below the segment's base"},
		"offset falls":                      {timeBytes([2]int64{1, 5}, [2]int64{2, 4}), 12, "an offset that falls"},
		"timestamp falls":                   {timeBytes([2]int64{2, 5}, [2]int64{1, 6}), 12, "a timestamp that does not rise"},
		"timestamp repeats":                 {timeBytes([2]int64{2, 5}, [2]int64{2, 6}), 12, "a timestamp that does not rise"},
		"negative timestamp":                {timeBytes([2]int64{-2, 5}), 0, "a negative timestamp"},
		"an entry after zeros":              {timeBytes([2]int64{2, 5}, [2]int64{0, 0}, [2]int64{3, 6}), 24, "an entry after zeros"},
		"half an entry":                     {append(timeBytes([2]int64{2, 5}), 1), 12, "length is no multiple of the entry size"},
	} {
		fsys := newPartsFS(t)
		storeFile(t, fsys, timeIndexPath, test.data)
		x := reopenTimeIndex(fsys, indexLimits{end: 1100, size: 10})
		_, err := x.lookup(1)
		var corrupt *CorruptionError
		require.ErrorAs(t, err, &corrupt, name)
		require.Equal(t, test.position, corrupt.Position, name)
		require.Equal(t, test.reason, corrupt.Reason, name)
		require.NoError(t, x.reset())
		require.NoError(t, x.maybeAppend(7, 1007, false))
		requireTimes(t, x, timeEntry{7, 1007})
	}
}

func TestF44_TheLastEntryOfASealedTimeIndexIsReadWithoutTheOthers(t *testing.T) {
	fsys := &probeFS{FS: newPartsFS(t)}
	data := timeBytes([2]int64{1, 1})
	for i := int64(2); i < 5000; i++ {
		data = append(data, timeBytes([2]int64{i, i})...)
	}
	storeFile(t, fsys, timeIndexPath, data)
	reads := 0
	fsys.failWith(func(op, _ string) error {
		if op == "read" {
			reads++
		}
		return nil
	})
	x := reopenTimeIndex(fsys, unlimited())
	for range 3 {
		last, err := x.last()
		require.NoError(t, err)
		require.Equal(t, timeEntry{4999, 5999}, last)
	}
	require.Equal(t, 1, reads)
}

func TestReadersSearchTheTimeIndexWhileTheWriterAppends(t *testing.T) {
	x := newTestTimeIndex(t, newPartsFS(t), roomyIndex)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 2 {
		readers.Go(func() {
			for i := int64(r); ; i += 31 {
				select {
				case <-done:
					return
				default:
				}
				entry, err := x.lookup(i % 30000)
				if err != nil || entry.timestamp > i%30000 || entry.timestamp >= 0 && entry.offset != 1000+entry.timestamp {
					t.Errorf("lookup of %d: %+v, %v", i%30000, entry, err)
					return
				}
			}
		})
	}
	for i := int64(0); i < 20000; i += 2 {
		require.NoError(t, x.maybeAppend(i, 1000+i, false))
		if i%5000 == 4998 {
			require.NoError(t, x.truncateTo(1000+i-100))
			require.NoError(t, x.seal())
			require.NoError(t, x.activate())
		}
	}
	close(done)
	readers.Wait()
}

func TestTheTimeIndexAgreesWithALinearScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := newPartsFS(t)
		x := newTestTimeIndex(t, fsys, roomyIndex)
		var naive []timeEntry
		last := func() timeEntry {
			if len(naive) == 0 {
				return timeEntry{-1, 1000}
			}
			return naive[len(naive)-1]
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				require.NoError(t, x.activate())
				timestampStep := rapid.Int64Range(0, 3).Draw(t, "timestamp step")
				offsetStep := rapid.Int64Range(0, 2).Draw(t, "offset step")
				for range rapid.SampledFrom([]int{1, 3, 300, spillEntries}).Draw(t, "entries") {
					next := last()
					next.timestamp += timestampStep
					next.offset += offsetStep
					require.NoError(t, x.maybeAppend(next.timestamp, next.offset, false))
					if next.timestamp > last().timestamp {
						naive = append(naive, next)
					}
				}
			},
			"truncate": func(t *rapid.T) {
				offset := rapid.Int64Range(999, last().offset+1).Draw(t, "offset")
				require.NoError(t, x.truncateTo(offset))
				naive = slices.DeleteFunc(naive, func(e timeEntry) bool { return e.offset >= offset })
			},
			"write": func(t *rapid.T) { require.NoError(t, x.write()) },
			"reopen": func(t *rapid.T) {
				require.NoError(t, x.seal())
				x = reopenTimeIndex(fsys, indexLimits{end: last().offset + 1, size: math.MaxInt64})
			},
			"": func(t *rapid.T) {
				count, err := x.entries()
				require.NoError(t, err)
				require.Equal(t, len(naive), count)
				timestamp := rapid.Int64Range(-2, last().timestamp+2).Draw(t, "lookup")
				want := timeEntry{-1, 1000}
				for _, e := range naive {
					if e.timestamp <= timestamp {
						want = e
					}
				}
				got, err := x.lookup(timestamp)
				require.NoError(t, err)
				require.Equal(t, want, got, "lookup of %d", timestamp)
			},
		})
	})
}

func FuzzTimeIndexLoad(f *testing.F) {
	f.Add(timeBytes([2]int64{1700000000005, 43}), int64(1<<20))
	f.Add(timeBytes([2]int64{0, 0}, [2]int64{0, 0}), int64(1<<20))
	f.Add(timeBytes([2]int64{5, 3}, [2]int64{6, 3}, [2]int64{0, 0}), int64(1<<20))
	f.Add([]byte{0}, int64(0))
	f.Fuzz(func(t *testing.T, data []byte, end int64) {
		fsys := newPartsFS(t)
		storeFile(t, fsys, timeIndexPath, data)
		x := reopenTimeIndex(fsys, indexLimits{end: end, size: 0})
		if err := x.activate(); err != nil {
			require.True(t, damaged(err), "%v", err)
			return
		}
		count, err := x.entries()
		require.NoError(t, err)
		require.NoError(t, x.seal())
		require.Equal(t, data[:count*timeIndexEntrySize], storedFile(t, fsys, timeIndexPath))
		previous := timeEntry{-1, 1000}
		for i := range count {
			e := timeEntry{
				timestamp: int64(binary.BigEndian.Uint64(data[i*timeIndexEntrySize:])),
				offset:    1000 + int64(int32(binary.BigEndian.Uint32(data[i*timeIndexEntrySize+8:]))),
			}
			require.Greater(t, e.timestamp, previous.timestamp)
			require.GreaterOrEqual(t, e.offset, previous.offset)
			require.Less(t, e.offset, end)
			got, err := x.lookup(e.timestamp)
			require.NoError(t, err)
			require.Equal(t, e, got)
			previous = e
		}
	})
}
