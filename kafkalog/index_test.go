package kafkalog

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/vfs"
)

const indexPath = partsDir + "/00000000000000001000.index"

// roomyIndex is a number of entries that tests do not reach.
const roomyIndex = 1 << 20

// newTestIndex returns an empty active index with base 1000 and its file.
func newTestIndex(t testing.TB, fsys vfs.FS, maxEntries int) *offsetIndex {
	t.Helper()
	file, err := newHandleCache(fsys, 4).create(indexPath, vfs.CreateTruncate)
	require.NoError(t, err)
	return newOffsetIndex(file, 1000, maxEntries)
}

// reopenIndex returns the sealed index that another process finds in the file.
func reopenIndex(fsys vfs.FS, limits indexLimits) *offsetIndex {
	return openOffsetIndex(newHandleCache(fsys, 4).open(indexPath, vfs.ReadWrite), 1000, roomyIndex, limits)
}

// indexBytes encodes pairs of relative offset and position.
func indexBytes(entries ...[2]int32) []byte {
	var data []byte
	for _, e := range entries {
		data = binary.BigEndian.AppendUint32(data, uint32(e[0]))
		data = binary.BigEndian.AppendUint32(data, uint32(e[1]))
	}
	return data
}

// fillIndex appends count entries: offset 1010, 1020... at position 100, 200...
func fillIndex(t testing.TB, x *offsetIndex, from, count int) {
	t.Helper()
	for i := from; i < from+count; i++ {
		require.NoError(t, x.append(1010+int64(i)*10, 100+int64(i)*100))
	}
}

func requireLookup(t testing.TB, x *offsetIndex, offset, wantOffset, wantPosition int64) {
	t.Helper()
	entry, err := x.lookup(offset)
	require.NoError(t, err)
	require.Equal(t, indexEntry{offset: wantOffset, position: wantPosition}, entry, "lookup of %d", offset)
}

func TestAnIndexEntryHasKafkasBytes(t *testing.T) {
	fsys := newPartsFS(t)
	file, err := newHandleCache(fsys, 4).create(indexPath, vfs.CreateNew)
	require.NoError(t, err)
	x := newOffsetIndex(file, 0, roomyIndex)
	require.NoError(t, x.append(43, 4200))
	require.NoError(t, x.seal())
	require.Equal(t, formatBytes(t, "index"), storedFile(t, fsys, indexPath))
}

func TestLookupReturnsTheGreatestEntryAtOrBelow(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, roomyIndex)
	requireLookup(t, x, 1000, 1000, 0)
	requireLookup(t, x, 5000, 1000, 0)
	fillIndex(t, x, 0, 3)
	check := func(x *offsetIndex) {
		requireLookup(t, x, 0, 1000, 0)
		requireLookup(t, x, 1009, 1000, 0)
		requireLookup(t, x, 1010, 1010, 100)
		requireLookup(t, x, 1019, 1010, 100)
		requireLookup(t, x, 1020, 1020, 200)
		requireLookup(t, x, math.MaxInt64, 1030, 300)
	}
	check(x)
	require.NoError(t, x.seal())
	check(x)
	check(reopenIndex(fsys, unlimited()))
}

func TestUpperBoundReturnsTheFirstEntryAtOrBehindAPosition(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, roomyIndex)
	_, found, err := x.upperBound(0)
	require.NoError(t, err)
	require.False(t, found)

	fillIndex(t, x, 0, 3)
	check := func(x *offsetIndex) {
		for position, want := range map[int64]int64{0: 100, 100: 100, 101: 200, 300: 300} {
			entry, found, err := x.upperBound(position)
			require.NoError(t, err)
			require.True(t, found, "position %d", position)
			require.Equal(t, want, entry.position, "position %d", position)
		}
		_, found, err := x.upperBound(301)
		require.NoError(t, err)
		require.False(t, found)
	}
	check(x)
	require.NoError(t, x.seal())
	check(x)
	check(reopenIndex(fsys, unlimited()))
}

func TestF06_ARelativeOffsetUpToTheLargestInt32Fits(t *testing.T) {
	for _, test := range []struct {
		base, offset int64
		fits         bool
	}{
		{0, 0, true}, {0, math.MaxInt32 - 1, true}, {0, math.MaxInt32, true}, {0, math.MaxInt32 + 1, false},
		{0, 1 << 32, false}, {0, 1<<32 + 5, false}, {0, 1 << 40, false}, {0, math.MaxInt64, false},
		{5, 4, false}, {5, 5, true}, {1 << 40, 1<<40 + math.MaxInt32, true}, {1 << 40, 1<<40 + math.MaxInt32 + 1, false},
		{math.MaxInt64, math.MaxInt64, true}, {math.MaxInt64, 0, false}, {1, math.MaxInt64, false},
	} {
		relative, fits := relativeOffset(test.base, test.offset)
		require.Equal(t, test.fits, fits, "%d in a segment at %d", test.offset, test.base)
		if fits {
			require.Equal(t, test.offset-test.base, int64(relative))
		}
	}
}

func TestF06_AnOffsetThatDoesNotFitIsRefusedAndTheLastOneThatDoesIsFound(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, roomyIndex)
	require.NoError(t, x.append(1000+math.MaxInt32-1, 100))
	require.NoError(t, x.append(1000+math.MaxInt32, 200))
	for _, offset := range []int64{1000 + math.MaxInt32 + 1, 1000 + 1<<32, 1000 + 1<<32 + 5, 1 << 40, math.MaxInt64, 999, 0} {
		require.ErrorIs(t, x.append(offset, 300), ErrInvalidArgument, "offset %d", offset)
	}
	require.NoError(t, x.seal())
	for _, x := range []*offsetIndex{x, reopenIndex(fsys, unlimited())} {
		requireLookup(t, x, math.MaxInt64, 1000+math.MaxInt32, 200)
		requireLookup(t, x, 1000+math.MaxInt32-1, 1000+math.MaxInt32-1, 100)
	}
}

func TestAnEntryThatDoesNotRiseIsRefused(t *testing.T) {
	x := newTestIndex(t, newPartsFS(t), roomyIndex)
	require.ErrorIs(t, x.append(1005, 0), ErrInvalidArgument, "the first batch needs no entry")
	require.NoError(t, x.append(1010, 100))
	require.ErrorIs(t, x.append(1010, 200), ErrInvalidArgument)
	require.ErrorIs(t, x.append(1009, 200), ErrInvalidArgument)
	require.ErrorIs(t, x.append(1011, 100), ErrInvalidArgument)
	require.ErrorIs(t, x.append(1011, math.MaxInt32+1), ErrInvalidArgument)
	require.Equal(t, 1, x.mark())
}

func TestAFullIndexTakesNoEntry(t *testing.T) {
	x := newTestIndex(t, newPartsFS(t), 2)
	fillIndex(t, x, 0, 1)
	require.False(t, x.full())
	fillIndex(t, x, 1, 1)
	require.True(t, x.full())
	var full *IndexFullError
	require.ErrorAs(t, x.append(1030, 300), &full)
	require.Equal(t, &IndexFullError{Path: indexPath, Entries: 2}, full)
	require.NoError(t, x.truncateTo(1020))
	require.False(t, x.full())
}

func TestEntriesReachTheFileAtWriteAndItsExactLengthAtSeal(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, roomyIndex)
	fillIndex(t, x, 0, 3)
	require.Empty(t, storedFile(t, fsys, indexPath))
	require.NoError(t, x.write())
	require.Equal(t, indexBytes([2]int32{10, 100}, [2]int32{20, 200}, [2]int32{30, 300}), storedFile(t, fsys, indexPath))
	fillIndex(t, x, 3, 1)
	require.NoError(t, x.write())
	require.NoError(t, x.write())
	require.Len(t, storedFile(t, fsys, indexPath), 4*indexEntrySize)
	require.NoError(t, x.seal())
	require.Len(t, storedFile(t, fsys, indexPath), 4*indexEntrySize)
}

func TestSyncedEntriesSurviveAPowerCut(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, roomyIndex)
	require.NoError(t, fsys.SyncDir("."))
	require.NoError(t, fsys.SyncDir(partsDir))
	fillIndex(t, x, 0, 3)
	require.NoError(t, x.seal())
	require.NoError(t, x.sync())
	requireLookup(t, reopenIndex(fsys.CrashClean(), unlimited()), 1025, 1020, 200)
}

// TestAnActiveIndexKeepsFewEntriesInMemory also crosses every border between the entries in memory and those in the
// file.
func TestAnActiveIndexKeepsFewEntriesInMemory(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, roomyIndex)
	const count = 3*spillEntries + 100
	for i := range count {
		fillIndex(t, x, i, 1)
		require.LessOrEqual(t, len(x.view.Load().recent), spillEntries)
		if i%777 == 0 {
			requireLookup(t, x, 1010+int64(i)*10+5, 1010+int64(i)*10, 100+int64(i)*100)
		}
	}
	require.Positive(t, x.view.Load().filed)
	checkFilledIndex(t, x, count)
	require.NoError(t, x.write())
	require.LessOrEqual(t, len(x.view.Load().recent), 2*warmEntries)
	checkFilledIndex(t, x, count)
	require.NoError(t, x.seal())
	require.Empty(t, x.view.Load().recent)
	checkFilledIndex(t, x, count)
	checkFilledIndex(t, reopenIndex(fsys, unlimited()), count)
}

// checkFilledIndex looks up every entry of a small index and every seventh of a large one, the offset before and after
// it, and its position.
func checkFilledIndex(t *testing.T, x *offsetIndex, count int) {
	t.Helper()
	entries, err := x.entries()
	require.NoError(t, err)
	require.Equal(t, count, entries)
	last, found, err := x.last()
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, indexEntry{1000 + int64(count)*10, int64(count) * 100}, last)
	step := int64(1)
	if count > 1000 {
		step = 7
	}
	for i := int64(0); i < int64(count); i += step {
		offset, position := 1010+i*10, 100+i*100
		before := indexEntry{offset - 10, position - 100}
		at := indexEntry{offset, position}
		for _, test := range []struct {
			lookup int64
			want   indexEntry
		}{{offset - 1, before}, {offset, at}, {offset + 9, at}} {
			got, err := x.lookup(test.lookup)
			if err != nil || got != test.want {
				require.Equal(t, test.want, got, "lookup of %d: %v", test.lookup, err)
			}
		}
		got, found, err := x.upperBound(position)
		if err != nil || !found || got != at {
			require.Equal(t, at, got, "upper bound of %d: %v", position, err)
		}
	}
}

func TestTruncateDropsTheEntriesAtOrAbove(t *testing.T) {
	for _, state := range []string{"in memory", "written", "sealed", "reopened"} {
		for offset, want := range map[int64]int{
			0: 0, 1000: 0, 1010: 0, 1011: 1, 1020: 1, 1021: 2, 1030: 2, 1031: 3, math.MaxInt64: 3,
		} {
			fsys := newPartsFS(t)
			x := newTestIndex(t, fsys, roomyIndex)
			fillIndex(t, x, 0, 3)
			switch state {
			case "written":
				require.NoError(t, x.write())
			case "sealed":
				require.NoError(t, x.seal())
			case "reopened":
				require.NoError(t, x.seal())
				x = reopenIndex(fsys, unlimited())
			}
			require.NoError(t, x.truncateTo(offset))
			entries, err := x.entries()
			require.NoError(t, err)
			require.Equal(t, want, entries, "%s, to %d", state, offset)
			fillIndex(t, x, want, 2)
			require.NoError(t, x.seal())
			checkFilledIndex(t, x, want+2)
			require.Len(t, storedFile(t, fsys, indexPath), (want+2)*indexEntrySize, "%s, to %d", state, offset)
		}
	}
}

func TestF71_AnIndexTruncatedToNothingTakesEntriesAgain(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, 3)
	fillIndex(t, x, 0, 3)
	require.NoError(t, x.seal())
	require.NoError(t, x.truncateTo(1000))
	require.False(t, x.full())
	_, found, err := x.last()
	require.NoError(t, err)
	require.False(t, found)
	fillIndex(t, x, 0, 3)
	require.True(t, x.full())

	require.NoError(t, x.reset())
	require.False(t, x.full())
	require.Empty(t, storedFile(t, fsys, indexPath))
	fillIndex(t, x, 0, 3)
}

func TestRewindTakesBackWhatWasAppended(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, roomyIndex)
	fillIndex(t, x, 0, spillEntries)
	mark := x.mark()
	fillIndex(t, x, spillEntries, 1)
	require.Positive(t, x.written, "the append wrote the entries before it")
	require.NoError(t, x.rewind(mark))
	checkFilledIndex(t, x, spillEntries)
	fillIndex(t, x, spillEntries, 5)
	checkFilledIndex(t, x, spillEntries+5)
	require.NoError(t, x.rewind(3))
	require.NoError(t, x.seal())
	checkFilledIndex(t, reopenIndex(fsys, unlimited()), 3)
}

func TestAPreallocatedIndexEndsWhereItsZerosBegin(t *testing.T) {
	for count := range 4 {
		fsys := newPartsFS(t)
		x := newTestIndex(t, fsys, roomyIndex)
		fillIndex(t, x, 0, count)
		require.NoError(t, x.seal())
		data := append(storedFile(t, fsys, indexPath), make([]byte, 4000*indexEntrySize)...)
		storeFile(t, fsys, indexPath, data)

		sealed := reopenIndex(fsys, unlimited())
		entries, err := sealed.entries()
		require.NoError(t, err)
		require.Equal(t, count, entries)
		requireLookup(t, sealed, math.MaxInt64, 1000+int64(count)*10, int64(count)*100)

		active := reopenIndex(fsys, unlimited())
		require.NoError(t, active.activate())
		fillIndex(t, active, count, 2)
		require.NoError(t, active.write())
		require.Len(t, storedFile(t, fsys, indexPath), len(data), "the room that was reserved stays until the seal")
		require.NoError(t, active.seal())
		checkFilledIndex(t, reopenIndex(fsys, unlimited()), count+2)
		require.Len(t, storedFile(t, fsys, indexPath), (count+2)*indexEntrySize)
	}
}

func TestF41_AnIndexThatCannotBeRightIsRejected(t *testing.T) {
	limits := indexLimits{end: 1100, size: 5000}
	for name, test := range map[string]struct {
		data     []byte
		position int64
		reason   string
	}{
		"last entry past the log end":            {indexBytes([2]int32{10, 100}, [2]int32{101, 200}), 8, "an offset past the end of the segment"},
		"last entry at the next segment's base":  {indexBytes([2]int32{10, 100}, [2]int32{100, 200}), 8, "an offset past the end of the segment"},
		"position at the end of the file":        {indexBytes([2]int32{10, 100}, [2]int32{20, 5000}), 8, "a position past the end of the segment"},
		"position past the end of the file":      {indexBytes([2]int32{10, 100}, [2]int32{20, math.MaxInt32}), 8, "a position past the end of the segment"},
		"offsets descend":                        {indexBytes([2]int32{20, 100}, [2]int32{10, 200}, [2]int32{30, 300}), 8, "an offset that does not rise"},
		"offset repeats":                         {indexBytes([2]int32{20, 100}, [2]int32{20, 200}), 8, "an offset that does not rise"},
		"positions descend":                      {indexBytes([2]int32{10, 200}, [2]int32{20, 100}), 8, "a position that does not rise"},
		"position repeats":                       {indexBytes([2]int32{10, 200}, [2]int32{20, 200}), 8, "a position that does not rise"},
		"negative offset":                        {indexBytes([2]int32{-10, 100}), 0, "an offset below the segment's base"},
		"negative position":                      {indexBytes([2]int32{10, -100}), 0, "a position that is not above 0"},
		"first entry at position 0":              {indexBytes([2]int32{10, 0}), 0, "a position that is not above 0"},
		"an entry after zeros":                   {indexBytes([2]int32{10, 100}, [2]int32{0, 0}, [2]int32{20, 200}), 16, "an entry after zeros"},
		"an entry after nothing but zeros":       {indexBytes([2]int32{0, 0}, [2]int32{20, 200}), 8, "an entry after zeros"},
		"half an entry":                          {append(indexBytes([2]int32{10, 100}), 0, 0, 0), 8, "length is no multiple of the entry size"},
		"text":                                   {[]byte("this is no index"), 0, "an offset past the end of the segment"},
		"an old entry behind the truncated ones": {indexBytes([2]int32{10, 100}, [2]int32{50, 900}, [2]int32{40, 400}), 16, "an offset that does not rise"},
	} {
		fsys := newPartsFS(t)
		storeFile(t, fsys, indexPath, test.data)
		for use, call := range map[string]func(x *offsetIndex) error{
			"verify":     func(x *offsetIndex) error { _, err := x.verify(); return err },
			"activate":   func(x *offsetIndex) error { return x.activate() },
			"lookup":     func(x *offsetIndex) error { _, err := x.lookup(1015); return err },
			"upperBound": func(x *offsetIndex) error { _, _, err := x.upperBound(150); return err },
			"truncateTo": func(x *offsetIndex) error { return x.truncateTo(1015) },
		} {
			x := reopenIndex(fsys, limits)
			err := call(x)
			var corrupt *CorruptionError
			require.ErrorAs(t, err, &corrupt, "%s, %s", name, use)
			require.Equal(t, indexPath, corrupt.Path)
			require.Equal(t, test.position, corrupt.Position, "%s, %s", name, use)
			require.Equal(t, test.reason, corrupt.Reason, "%s, %s", name, use)

			require.NoError(t, x.reset(), "%s: rebuilt after %s", name, use)
			fillIndex(t, x, 0, 3)
			require.NoError(t, x.seal())
			checkFilledIndex(t, reopenIndex(fsys, limits), 3)
			storeFile(t, fsys, indexPath, test.data)
		}
	}
}

func TestF41_ADamagedIndexIsReadOnce(t *testing.T) {
	fsys := &probeFS{FS: newPartsFS(t)}
	storeFile(t, fsys.FS, indexPath, indexBytes([2]int32{20, 100}, [2]int32{10, 200}, [2]int32{30, 300}))
	reads := 0
	fsys.failWith(func(op, _ string) error {
		if op == "read" {
			reads++
		}
		return nil
	})
	x := reopenIndex(fsys, indexLimits{end: 1100, size: 5000})
	for range 10 {
		_, err := x.lookup(1015)
		require.True(t, damaged(err), "%v", err)
	}
	require.Equal(t, 1, reads)
	require.NoError(t, x.reset())
	fillIndex(t, x, 0, 3)
	checkFilledIndex(t, x, 3)
}

func TestF41_TheIndexOfAnEmptySegmentHasNoEntries(t *testing.T) {
	fsys := newPartsFS(t)
	storeFile(t, fsys, indexPath, indexBytes([2]int32{10, 100}))
	_, err := reopenIndex(fsys, indexLimits{end: 1000, size: 0}).verify()
	require.True(t, damaged(err), "%v", err)
}

func TestF41_TheLastEntryOfASealedIndexIsCheckedBeforeItIsBelieved(t *testing.T) {
	for _, data := range [][]byte{
		indexBytes([2]int32{10, 100}, [2]int32{100, 200}), indexBytes([2]int32{20, 100}, [2]int32{10, 200}),
		indexBytes([2]int32{5, 50}, [2]int32{10, 200}, [2]int32{20, 100}), indexBytes([2]int32{-1, 50}),
	} {
		fsys := newPartsFS(t)
		storeFile(t, fsys, indexPath, data)
		_, _, err := reopenIndex(fsys, indexLimits{end: 1100, size: 5000}).last()
		require.True(t, damaged(err), "%v", err)
	}
}

func TestAnIndexIndexedOncePerAppendCallIsTaken(t *testing.T) {
	// Older brokers wrote the last offset of a whole append with the position of its first batch.
	fsys := newPartsFS(t)
	storeFile(t, fsys, indexPath, indexBytes([2]int32{99, 100}))
	requireLookup(t, reopenIndex(fsys, indexLimits{end: 1100, size: 5000}), 1099, 1099, 100)
}

func TestAMissingIndexIsSaidToBeMissing(t *testing.T) {
	_, err := reopenIndex(newPartsFS(t), unlimited()).lookup(1000)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, ErrStorage)
}

func TestF10_AFailedWriteOfTheIndexLosesNothing(t *testing.T) {
	for _, op := range []string{"write", "truncate"} {
		fsys := &probeFS{FS: newPartsFS(t)}
		x := newTestIndex(t, fsys, roomyIndex)
		fillIndex(t, x, 0, spillEntries)
		require.NoError(t, x.write())
		fillIndex(t, x, spillEntries, 10)
		fsys.failOnce(op)
		var err error
		if op == "write" {
			err = x.write()
		} else {
			err = x.truncateTo(1015)
		}
		require.ErrorIs(t, err, errInjected)
		checkFilledIndex(t, x, spillEntries+10)
		fillIndex(t, x, spillEntries+10, 1)
		require.NoError(t, x.seal())
		checkFilledIndex(t, reopenIndex(fsys, unlimited()), spillEntries+11)
	}
}

func TestF10_AnAppendThatCannotSpillAddsNothing(t *testing.T) {
	fsys := &probeFS{FS: newPartsFS(t)}
	x := newTestIndex(t, fsys, roomyIndex)
	fillIndex(t, x, 0, spillEntries)
	fsys.failOnce("write")
	require.ErrorIs(t, x.append(1010+spillEntries*10, 100+spillEntries*100), errInjected)
	checkFilledIndex(t, x, spillEntries)
	fillIndex(t, x, spillEntries, 1)
	checkFilledIndex(t, x, spillEntries+1)
}

func TestLookupsInMemoryDoNotAllocate(t *testing.T) {
	x := newTestIndex(t, newPartsFS(t), roomyIndex)
	fillIndex(t, x, 0, 1000)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := x.lookup(5005); err != nil {
			t.Error(err)
		}
		if _, _, err := x.upperBound(5050); err != nil {
			t.Error(err)
		}
	}))
}

// TestReadersSearchWhileTheWriterAppendsTruncatesAndSeals also holds every answer against what all states of the index
// have in common: entry i is offset 1010 + 10i at position 100 + 100i.
func TestReadersSearchWhileTheWriterAppendsTruncatesAndSeals(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestIndex(t, fsys, roomyIndex)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			for i := int64(r); ; i += 37 {
				select {
				case <-done:
					return
				default:
				}
				if err := checkSharedLookup(x, 1000+i%50000); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	count := 0
	for round := range 30 {
		fillIndex(t, x, count, 700)
		count += 700
		switch round % 5 {
		case 1:
			require.NoError(t, x.write())
		case 2:
			count = count * 2 / 3
			require.NoError(t, x.truncateTo(1010+int64(count)*10))
		case 3:
			require.NoError(t, x.seal())
			require.NoError(t, x.truncateTo(1010+int64(count-10)*10))
			count -= 10
		case 4:
			require.NoError(t, x.rewind(count-3))
			count -= 3
		}
	}
	close(done)
	readers.Wait()
	checkFilledIndex(t, x, count)
}

func checkSharedLookup(x *offsetIndex, offset int64) error {
	entry, err := x.lookup(offset)
	if err != nil {
		return err
	}
	if entry.offset > max(offset, 1000) || entry.position != (entry.offset-1000)*10 {
		return fmt.Errorf("lookup of %d is %+v", offset, entry)
	}
	bound, found, err := x.upperBound(offset)
	if err != nil {
		return err
	}
	if found && (bound.position < offset || bound.position != (bound.offset-1000)*10) {
		return fmt.Errorf("upper bound of %d is %+v", offset, bound)
	}
	return nil
}

func TestTheOffsetIndexAgreesWithALinearScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := newPartsFS(t)
		cache := newHandleCache(fsys, 2)
		file, err := cache.create(indexPath, vfs.CreateTruncate)
		require.NoError(t, err)
		x := newOffsetIndex(file, 1000, roomyIndex)
		var naive []indexEntry
		active := true
		last := func() indexEntry {
			if len(naive) == 0 {
				return indexEntry{1000, 0}
			}
			return naive[len(naive)-1]
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				if !active {
					require.NoError(t, x.activate())
					active = true
				}
				offsetStep := rapid.Int64Range(1, 3).Draw(t, "offset step")
				positionStep := rapid.Int64Range(1, 3).Draw(t, "position step")
				for range rapid.SampledFrom([]int{1, 3, 200, spillEntries}).Draw(t, "entries") {
					next := last()
					next.offset += offsetStep
					next.position += positionStep
					require.NoError(t, x.append(next.offset, next.position))
					naive = append(naive, next)
				}
			},
			"truncate": func(t *rapid.T) {
				offset := rapid.Int64Range(999, last().offset+1).Draw(t, "offset")
				require.NoError(t, x.truncateTo(offset))
				active = true
				naive = slices.DeleteFunc(naive, func(e indexEntry) bool { return e.offset >= offset })
			},
			"rewind": func(t *rapid.T) {
				if !active {
					return
				}
				mark := max(0, len(naive)-rapid.IntRange(0, 5).Draw(t, "entries"))
				require.NoError(t, x.rewind(mark))
				naive = naive[:mark]
			},
			"write": func(t *rapid.T) { require.NoError(t, x.write()) },
			"seal": func(t *rapid.T) {
				require.NoError(t, x.seal())
				active = false
			},
			"reopen": func(t *rapid.T) {
				require.NoError(t, x.seal())
				if rapid.Bool().Draw(t, "preallocated") {
					storedTail(t, fsys, indexPath, 100*indexEntrySize)
				}
				require.NoError(t, x.file.close())
				limits := indexLimits{end: last().offset + 1, size: last().position + 1}
				x = openOffsetIndex(cache.open(indexPath, vfs.ReadWrite), 1000, roomyIndex, limits)
				active = false
			},
			"": func(t *rapid.T) {
				count, err := x.entries()
				require.NoError(t, err)
				require.Equal(t, len(naive), count)
				offset := rapid.Int64Range(999, last().offset+2).Draw(t, "lookup")
				want := indexEntry{1000, 0}
				for _, e := range naive {
					if e.offset <= offset {
						want = e
					}
				}
				got, err := x.lookup(offset)
				require.NoError(t, err)
				require.Equal(t, want, got, "lookup of %d", offset)

				position := rapid.Int64Range(0, last().position+2).Draw(t, "position")
				i := slices.IndexFunc(naive, func(e indexEntry) bool { return e.position >= position })
				bound, found, err := x.upperBound(position)
				require.NoError(t, err)
				require.Equal(t, i >= 0, found, "upper bound of %d", position)
				if found {
					require.Equal(t, naive[i], bound, "upper bound of %d", position)
				}
			},
		})
	})
}

// storedTail lengthens a file by zeros.
func storedTail(t require.TestingT, fsys vfs.FS, name string, n int64) {
	file, err := fsys.Open(name, vfs.ReadWrite)
	require.NoError(t, err)
	info, err := file.Stat()
	require.NoError(t, err)
	require.NoError(t, file.Truncate(info.Size()+n))
	require.NoError(t, file.Close())
}

func FuzzOffsetIndexLoad(f *testing.F) {
	f.Add(indexBytes([2]int32{43, 4200}), int64(1<<20), int64(1<<20))
	f.Add(indexBytes([2]int32{10, 100}, [2]int32{20, 200}, [2]int32{0, 0}), int64(1100), int64(300))
	f.Add(indexBytes([2]int32{0, 0}, [2]int32{0, 0}), int64(0), int64(0))
	f.Add([]byte{1, 2, 3}, int64(0), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, end, size int64) {
		fsys := newPartsFS(t)
		storeFile(t, fsys, indexPath, data)
		x := reopenIndex(fsys, indexLimits{end: end, size: size})
		if err := x.activate(); err != nil {
			require.True(t, damaged(err), "%v", err)
			_, err := x.lookup(1000)
			require.True(t, damaged(err), "%v", err)
			return
		}
		count, err := x.entries()
		require.NoError(t, err)
		if last, found, _ := x.last(); found {
			require.Less(t, last.offset, end)
			require.Less(t, last.position, size)
		}
		require.NoError(t, x.seal())
		require.Equal(t, data[:count*indexEntrySize], storedFile(t, fsys, indexPath))
		for i := range count {
			relative := int64(int32(binary.BigEndian.Uint32(data[i*indexEntrySize:])))
			position := int64(int32(binary.BigEndian.Uint32(data[i*indexEntrySize+4:])))
			requireLookup(t, x, 1000+relative, 1000+relative, position)
		}
	})
}
