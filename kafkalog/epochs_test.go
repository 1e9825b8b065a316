package kafkalog

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/vfs"
)

const epochPath = partsDir + "/" + epochFileName

// threeEpochs returns a cache with the epochs 0 from offset 0, 1 from 50 and 2 from 100.
func threeEpochs(t testing.TB, fsys vfs.FS) *epochCache {
	t.Helper()
	c := newEpochCache(fsys, partsDir)
	require.NoError(t, c.assign(0, 0))
	require.NoError(t, c.assign(1, 50))
	require.NoError(t, c.assign(2, 100))
	return c
}

// requireStored holds the cache against the file that a new process would read.
func requireStored(t require.TestingT, fsys vfs.FS, c *epochCache) {
	loaded, found, err := loadEpochCache(fsys, partsDir)
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, slices.Equal(c.entries(), loaded.entries()), "%v in memory, %v in the file", c.entries(), loaded.entries())
}

func TestTheEpochFileHasKafkasBytes(t *testing.T) {
	fsys := newPartsFS(t)
	c := threeEpochs(t, fsys)
	require.Equal(t, formatBytes(t, "leader-epoch-checkpoint"), storedFile(t, fsys, epochPath))
	requireStored(t, fsys, c)
}

func TestAMissingEpochFileIsAnEmptyCache(t *testing.T) {
	c, found, err := loadEpochCache(newPartsFS(t), partsDir)
	require.NoError(t, err)
	require.False(t, found)
	require.Empty(t, c.entries())
}

func TestF51_AnEpochFileWithoutACountSaysNothing(t *testing.T) {
	for text, want := range map[string]bool{"": false, "0": false, "0\n": false, "0\n0\n": true, "0\n0": true, "0\n1\n0 0\n": true} {
		fsys := newPartsFS(t)
		storeFile(t, fsys, epochPath, []byte(text))
		_, found, err := loadEpochCache(fsys, partsDir)
		require.NoError(t, err)
		require.Equal(t, want, found, "%q", text)
	}
	fsys := newPartsFS(t)
	c := threeEpochs(t, fsys)
	require.NoError(t, c.clear())
	_, found, err := loadEpochCache(fsys, partsDir)
	require.NoError(t, err)
	require.True(t, found, "no epochs, and known to be so")
}

func TestF51_ADamagedEpochFileIsReportedAndTheCacheCanBeRebuilt(t *testing.T) {
	for _, text := range []string{
		"0\n2\n0 0\n", "0\n2\n1 0\n0 50\n", "0\n2\n1 0\n1 50\n", "0\n2\n0 50\n1 50\n", "0\n2\n0 50\n1 10\n", "0\n1\n-1 0\n",
		"0\n1\n0 -5\n", "0\n1\n2147483648 0\n", "0\n1\n0 9223372036854775808\n", "1\n1\n0 0\n", "0\n1\n0 0", "\x00\x00\x00\x00",
	} {
		fsys := newPartsFS(t)
		storeFile(t, fsys, epochPath, []byte(text))
		c, found, err := loadEpochCache(fsys, partsDir)
		if text == "0\n1\n0 0" {
			require.NoError(t, err, "a last line without its line end is whole")
			continue
		}
		require.True(t, damaged(err), "%q: %v", text, err)
		require.True(t, found)
		require.Empty(t, c.entries())

		c.replay(0, 0)
		c.replay(0, 20)
		c.replay(-1, 30)
		c.replay(3, 40)
		c.replay(2, 60)
		require.Equal(t, []EpochEntry{{0, 0}, {3, 40}}, c.entries(), "an epoch that does not rise is no new epoch")
		require.Equal(t, text, string(storedFile(t, fsys, epochPath)), "replay writes nothing")
		require.NoError(t, c.write())
		requireStored(t, fsys, c)
	}
}

func TestF51_EpochZeroIsAnEpoch(t *testing.T) {
	fsys := newPartsFS(t)
	c := newEpochCache(fsys, partsDir)
	c.replay(0, 7)
	require.NoError(t, c.write())
	loaded, _, err := loadEpochCache(fsys, partsDir)
	require.NoError(t, err)
	epoch, found := loaded.epochFor(7)
	require.True(t, found)
	require.Zero(t, epoch)
	_, found = loaded.epochFor(6)
	require.False(t, found)
}

func TestF51_AnAssignedEpochSurvivesAPowerCut(t *testing.T) {
	fsys := newPartsFS(t)
	require.NoError(t, fsys.SyncDir("."))
	c := threeEpochs(t, fsys)
	requireStored(t, fsys.CrashClean(), c)
	require.NoError(t, c.truncateFromEnd(60))
	requireStored(t, fsys.CrashClean(), c)
	require.NoError(t, c.truncateFromStart(10, true))
	requireStored(t, fsys.CrashClean(), c)
	require.NoError(t, c.clear())
	requireStored(t, fsys.CrashClean(), c)
}

func TestAssignRemovesWhatContradictsTheNewEntry(t *testing.T) {
	for name, test := range map[string]struct {
		epoch int32
		start int64
		want  []EpochEntry
	}{
		"a later epoch is added":                          {3, 150, []EpochEntry{{0, 0}, {1, 50}, {2, 100}, {3, 150}}},
		"the latest epoch further on is known":            {2, 150, []EpochEntry{{0, 0}, {1, 50}, {2, 100}}},
		"the latest epoch at its start is known":          {2, 100, []EpochEntry{{0, 0}, {1, 50}, {2, 100}}},
		"the latest epoch earlier replaces it":            {2, 80, []EpochEntry{{0, 0}, {1, 50}, {2, 80}}},
		"a later epoch at the same start":                 {5, 100, []EpochEntry{{0, 0}, {1, 50}, {5, 100}}},
		"a later epoch in the middle cuts what follows":   {5, 50, []EpochEntry{{0, 0}, {5, 50}}},
		"an earlier epoch cuts the ones at or above it":   {1, 120, []EpochEntry{{0, 0}, {1, 120}}},
		"an earlier epoch at the front removes all":       {0, 0, []EpochEntry{{0, 0}}},
		"an epoch between two, behind both, cuts the one": {1, 60, []EpochEntry{{0, 0}, {1, 60}}},
	} {
		fsys := newPartsFS(t)
		c := threeEpochs(t, fsys)
		require.NoError(t, c.assign(test.epoch, test.start), name)
		require.Equal(t, test.want, c.entries(), name)
		requireStored(t, fsys, c)
	}
}

func TestANegativeEpochOrOffsetIsNoEpoch(t *testing.T) {
	c := threeEpochs(t, newPartsFS(t))
	require.ErrorIs(t, c.assign(-1, 150), ErrInvalidArgument)
	require.ErrorIs(t, c.assign(3, -1), ErrInvalidArgument)
	require.Len(t, c.entries(), 3)
}

func TestTruncateFromEndDropsTheEntriesAtOrAbove(t *testing.T) {
	for end, want := range map[int64][]EpochEntry{
		-1:            {{0, 0}, {1, 50}, {2, 100}},
		math.MaxInt64: {{0, 0}, {1, 50}, {2, 100}},
		101:           {{0, 0}, {1, 50}, {2, 100}},
		100:           {{0, 0}, {1, 50}},
		51:            {{0, 0}, {1, 50}},
		50:            {{0, 0}},
		1:             {{0, 0}},
		0:             {},
	} {
		fsys := newPartsFS(t)
		c := threeEpochs(t, fsys)
		require.NoError(t, c.truncateFromEnd(end))
		require.ElementsMatch(t, want, c.entries(), "end %d", end)
		requireStored(t, fsys, c)
	}
}

func TestTruncateFromStartMovesTheEntryThatHoldsTheStart(t *testing.T) {
	for start, want := range map[int64][]EpochEntry{
		-1:            {{0, 0}, {1, 50}, {2, 100}},
		0:             {{0, 0}, {1, 50}, {2, 100}},
		49:            {{0, 49}, {1, 50}, {2, 100}},
		50:            {{1, 50}, {2, 100}},
		99:            {{1, 99}, {2, 100}},
		100:           {{2, 100}},
		math.MaxInt64: {{2, math.MaxInt64}},
	} {
		fsys := newPartsFS(t)
		c := threeEpochs(t, fsys)
		require.NoError(t, c.truncateFromStart(start, false))
		require.Equal(t, want, c.entries(), "start %d", start)
		requireStored(t, fsys, c)
	}
}

func TestEpochForOffsetIsThatOfTheLastEntryAtOrBelow(t *testing.T) {
	c := newEpochCache(newPartsFS(t), partsDir)
	require.NoError(t, c.assign(4, 10))
	require.NoError(t, c.assign(7, 20))
	for offset, want := range map[int64]int32{9: -1, 10: 4, 19: 4, 20: 7, math.MaxInt64: 7} {
		epoch, found := c.epochFor(offset)
		require.Equal(t, want >= 0, found, "offset %d", offset)
		if found {
			require.Equal(t, want, epoch, "offset %d", offset)
		}
	}
}

func TestF51_EndOffsetForEpoch(t *testing.T) {
	fsys := newPartsFS(t)
	empty := newEpochCache(fsys, partsDir)
	epoch, end := empty.endOffsetFor(0, 9)
	require.Equal(t, []int64{-1, -1}, []int64{int64(epoch), end})

	c := newEpochCache(fsys, partsDir)
	require.NoError(t, c.assign(2, 10))
	require.NoError(t, c.assign(5, 30))
	require.NoError(t, c.assign(6, 40))
	for requested, want := range map[int32][2]int64{
		-1: {-1, -1}, // undefined
		0:  {0, 10},  // older than all: ends where the first known one starts
		1:  {1, 10},
		2:  {2, 30},
		3:  {2, 30}, // unknown: the one before it
		4:  {2, 30},
		5:  {5, 40},
		6:  {6, 55}, // the latest ends at the log end
		7:  {-1, -1},
	} {
		epoch, end := c.endOffsetFor(requested, 55)
		require.Equal(t, want, [2]int64{int64(epoch), end}, "requested %d", requested)
	}
}

func TestEntriesInRangeLeaveTheCacheAlone(t *testing.T) {
	c := threeEpochs(t, newPartsFS(t))
	require.Equal(t, []EpochEntry{{0, 20}, {1, 50}}, c.inRange(20, 100))
	require.Equal(t, []EpochEntry{{0, 0}, {1, 50}}, c.inRange(-1, 100))
	require.Equal(t, []EpochEntry{{1, 60}, {2, 100}}, c.inRange(60, -1))
	require.Equal(t, []EpochEntry{{0, 0}, {1, 50}, {2, 100}}, c.entries())
}

func TestLatestAndEarliest(t *testing.T) {
	fsys := newPartsFS(t)
	_, found := newEpochCache(fsys, partsDir).latest()
	require.False(t, found)
	_, found = newEpochCache(fsys, partsDir).earliest()
	require.False(t, found)
	c := threeEpochs(t, fsys)
	latest, _ := c.latest()
	require.Equal(t, EpochEntry{2, 100}, latest)
	earliest, _ := c.earliest()
	require.Equal(t, EpochEntry{0, 0}, earliest)
}

func TestTheLogStartEpochIsKnownOnlyForAnEstablishedStart(t *testing.T) {
	fsys := newPartsFS(t)
	c := threeEpochs(t, fsys)
	requireNone := func(start int64, why string) {
		t.Helper()
		_, found := c.logStartEpoch(start)
		require.False(t, found, why)
	}
	requireNone(0, "nobody cut the cache")

	require.NoError(t, c.truncateFromStart(20, false))
	requireNone(20, "the start was only derived")

	require.NoError(t, c.truncateFromStart(60, true))
	epoch, found := c.logStartEpoch(60)
	require.True(t, found)
	require.EqualValues(t, 1, epoch)
	requireNone(61, "the start is another one")

	require.NoError(t, c.assign(3, 200))
	epoch, _ = c.logStartEpoch(60)
	require.EqualValues(t, 1, epoch, "a new epoch at the end changes nothing")

	c.forgetCut()
	requireNone(60, "the start went down")

	require.NoError(t, c.truncateFromStart(60, true))
	_, found = c.logStartEpoch(60)
	require.True(t, found, "cut again, although nothing was left to cut")

	require.NoError(t, c.clear())
	requireNone(60, "the log was reset")

	require.NoError(t, c.assign(4, 100))
	require.NoError(t, c.truncateFromStart(60, true))
	requireNone(60, "no entry holds the start")
}

func TestF10_AnEpochThatCannotBeWrittenIsNotAssigned(t *testing.T) {
	for _, op := range []string{"open", "write", "sync", "close", "rename"} {
		for name, change := range map[string]func(c *epochCache) error{
			"assign":            func(c *epochCache) error { return c.assign(3, 150) },
			"truncateFromEnd":   func(c *epochCache) error { return c.truncateFromEnd(60) },
			"truncateFromStart": func(c *epochCache) error { return c.truncateFromStart(60, true) },
			"clear":             func(c *epochCache) error { return c.clear() },
			"restore":           func(c *epochCache) error { return c.restore([]EpochEntry{{0, 0}}) },
		} {
			fsys := &probeFS{FS: newPartsFS(t)}
			c := threeEpochs(t, fsys)
			fsys.failOnce(op)
			require.ErrorIs(t, change(c), errInjected, "%s, %s", name, op)
			require.Equal(t, []EpochEntry{{0, 0}, {1, 50}, {2, 100}}, c.entries(), "%s, %s", name, op)
			requireStored(t, fsys, c)
			_, found := c.logStartEpoch(60)
			require.False(t, found)
			require.NoError(t, change(c), "%s again after %s", name, op)
			requireStored(t, fsys, c)
		}
	}
}

func TestF10_RestoreUndoesAnAssign(t *testing.T) {
	fsys := newPartsFS(t)
	c := threeEpochs(t, fsys)
	before := c.entries()
	require.NoError(t, c.assign(1, 10))
	require.NoError(t, c.restore(before))
	require.Equal(t, []EpochEntry{{0, 0}, {1, 50}, {2, 100}}, c.entries())
	requireStored(t, fsys, c)
}

func TestReadersOfTheEpochCacheAlwaysSeeAWholeList(t *testing.T) {
	c := newEpochCache(newPartsFS(t), partsDir)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				entries := c.entries()
				for i := 1; i < len(entries); i++ {
					if entries[i].Epoch <= entries[i-1].Epoch || entries[i].Start <= entries[i-1].Start {
						t.Errorf("a list that does not rise: %v", entries)
						return
					}
				}
				c.epochFor(30)
				c.endOffsetFor(3, 100)
				c.inRange(10, 40)
			}
		})
	}
	for i := range int32(200) {
		require.NoError(t, c.assign(i%23, int64(i%17)*10))
		require.NoError(t, c.truncateFromStart(int64(i%5), false))
		if i%50 == 49 {
			require.NoError(t, c.truncateFromEnd(int64(i%7*10)))
		}
	}
	close(done)
	readers.Wait()
}

// naiveEpochs is the rules of the cache in the plainest words, one entry at a time.
type naiveEpochs []EpochEntry

func (n *naiveEpochs) assign(epoch int32, start int64) {
	if l := len(*n); l > 0 && (*n)[l-1].Epoch == epoch && start >= (*n)[l-1].Start {
		return
	}
	for l := len(*n); l > 0; l = len(*n) {
		if last := (*n)[l-1]; last.Epoch < epoch && last.Start < start {
			break
		}
		*n = (*n)[:l-1]
	}
	*n = append(*n, EpochEntry{epoch, start})
}

func (n *naiveEpochs) truncateFromEnd(end int64) {
	var kept naiveEpochs
	for _, e := range *n {
		if e.Start < end || end < 0 {
			kept = append(kept, e)
		}
	}
	*n = kept
}

func (n *naiveEpochs) truncateFromStart(start int64) {
	var last *EpochEntry
	var kept naiveEpochs
	for _, e := range *n {
		if e.Start <= start {
			last = &EpochEntry{e.Epoch, start}
		} else {
			kept = append(kept, e)
		}
	}
	if last != nil {
		kept = append(naiveEpochs{*last}, kept...)
	}
	*n = kept
}

// epochOf goes over all entries.
func (n naiveEpochs) epochOf(offset int64) string {
	epoch := "none"
	for _, e := range n {
		if e.Start <= offset {
			epoch = strconv.Itoa(int(e.Epoch))
		}
	}
	return epoch
}

func (n naiveEpochs) endOffset(requested int32, logEnd int64) (int32, int64) {
	if len(n) == 0 || requested < 0 || requested > n[len(n)-1].Epoch {
		return -1, -1
	}
	if requested == n[len(n)-1].Epoch {
		return requested, logEnd
	}
	answer := requested
	for _, e := range n {
		if e.Epoch > requested {
			return answer, e.Start
		}
		answer = e.Epoch
	}
	return -1, -1
}

func TestTheEpochCacheAgreesWithANaiveList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := newPartsFS(t)
		c := newEpochCache(fsys, partsDir)
		var naive naiveEpochs
		epochs, offsets := rapid.Int32Range(0, 12), rapid.Int64Range(0, 30)
		require.NoError(t, c.assign(1, 1))
		naive.assign(1, 1)
		t.Repeat(map[string]func(*rapid.T){
			"assign": func(t *rapid.T) {
				epoch, start := epochs.Draw(t, "epoch"), offsets.Draw(t, "start")
				require.NoError(t, c.assign(epoch, start))
				naive.assign(epoch, start)
			},
			"truncateFromEnd": func(t *rapid.T) {
				end := rapid.Int64Range(-1, 31).Draw(t, "end")
				require.NoError(t, c.truncateFromEnd(end))
				naive.truncateFromEnd(end)
			},
			"truncateFromStart": func(t *rapid.T) {
				start := rapid.Int64Range(-1, 31).Draw(t, "start")
				require.NoError(t, c.truncateFromStart(start, true))
				naive.truncateFromStart(start)
			},
			"reopen": func(t *rapid.T) {
				var found bool
				var err error
				c, found, err = loadEpochCache(fsys, partsDir)
				require.NoError(t, err)
				require.True(t, found)
			},
			"": func(t *rapid.T) {
				require.True(t, slices.Equal(naive, c.entries()), "want %v, got %v", naive, c.entries())
				requireStored(t, fsys, c)
				for offset := int64(-1); offset <= 32; offset++ {
					want, got := naive.epochOf(offset), "none"
					if epoch, found := c.epochFor(offset); found {
						got = strconv.Itoa(int(epoch))
					}
					require.Equal(t, want, got, "offset %d", offset)
				}
				for requested := int32(-1); requested <= 13; requested++ {
					wantEpoch, wantEnd := naive.endOffset(requested, 40)
					epoch, end := c.endOffsetFor(requested, 40)
					require.Equal(t, [2]int64{int64(wantEpoch), wantEnd}, [2]int64{int64(epoch), end}, "requested %d", requested)
				}
			},
		})
	})
}

func FuzzParseEpochs(f *testing.F) {
	f.Add([]byte("0\n3\n0 0\n1 50\n2 100\n"))
	f.Add([]byte("0\n1\n0 9223372036854775807\n"))
	f.Add([]byte("0\n2\n0 0\n0 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseEpochs("x", data)
		if err != nil {
			require.True(t, damaged(err), "%v", err)
			return
		}
		for i := 1; i < len(entries); i++ {
			require.Greater(t, entries[i].Epoch, entries[i-1].Epoch)
			require.Greater(t, entries[i].Start, entries[i-1].Start)
		}
		again, err := parseEpochs("x", formatEpochs(entries))
		require.NoError(t, err)
		require.Equal(t, entries, again)
	})
}
