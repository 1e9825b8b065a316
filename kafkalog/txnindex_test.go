package kafkalog

import (
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/vfs"
)

const txnIndexPath = partsDir + "/00000000000000000040.txnindex"

func newTestTxnIndex(fsys vfs.FS) *txnIndex {
	return newTxnIndex(newHandleCache(fsys, 4).open(txnIndexPath, vfs.ReadWrite), 40)
}

func reopenTxnIndex(fsys vfs.FS) *txnIndex {
	return openTxnIndex(newHandleCache(fsys, 4).open(txnIndexPath, vfs.ReadWrite), 40)
}

func txnBytes(all ...AbortedTxn) []byte {
	data := make([]byte, len(all)*txnEntrySize)
	for i, t := range all {
		putAbortedTxn(data[i*txnEntrySize:], t)
	}
	return data
}

func requireTxns(t require.TestingT, x *txnIndex, want ...AbortedTxn) {
	require.NoError(t, x.verify())
	got, err := x.all()
	require.NoError(t, err)
	require.True(t, slices.Equal(want, got), "want %v, got %v", want, got)
}

func TestATxnIndexEntryHasKafkasBytes(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestTxnIndex(fsys)
	require.NoError(t, x.append(AbortedTxn{ProducerID: 1000, FirstOffset: 44, LastOffset: 45, LastStableOffset: 46}))
	require.Equal(t, formatBytes(t, "txnindex"), storedFile(t, fsys, txnIndexPath))
	requireTxns(t, reopenTxnIndex(fsys), AbortedTxn{ProducerID: 1000, FirstOffset: 44, LastOffset: 45, LastStableOffset: 46})
}

func TestASegmentWithoutAbortsHasNoTxnIndexFile(t *testing.T) {
	fsys := newPartsFS(t)
	for _, x := range []*txnIndex{newTestTxnIndex(fsys), reopenTxnIndex(fsys)} {
		exists, err := x.exists()
		require.NoError(t, err)
		require.False(t, exists)
		requireTxns(t, x)
		collected, done, err := x.collect(nil, 0, 100)
		require.NoError(t, err)
		require.False(t, done)
		require.Empty(t, collected)
		require.NoError(t, x.truncateTo(0))
		require.NoError(t, x.reset())
		require.NoError(t, x.sync())
		require.NoError(t, x.seal())
		require.NoError(t, x.file.remove())
	}
	_, err := fsys.Stat(txnIndexPath)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestMarkersRise(t *testing.T) {
	x := newTestTxnIndex(newPartsFS(t))
	first := AbortedTxn{ProducerID: 1, FirstOffset: 40, LastOffset: 50, LastStableOffset: 51}
	require.NoError(t, x.append(first))
	require.ErrorIs(t, x.append(AbortedTxn{ProducerID: 2, FirstOffset: 41, LastOffset: 50, LastStableOffset: 51}), ErrInvalidArgument)
	require.ErrorIs(t, x.append(AbortedTxn{ProducerID: 2, FirstOffset: 41, LastOffset: 49, LastStableOffset: 51}), ErrInvalidArgument)
	requireTxns(t, x, first)
}

// fourAborts are aborted transactions in one segment: 1 and 2 overlap, 3 is long, 4 lies alone.
func fourAborts() []AbortedTxn {
	return []AbortedTxn{
		{ProducerID: 1, FirstOffset: 40, LastOffset: 50, LastStableOffset: 45},
		{ProducerID: 2, FirstOffset: 45, LastOffset: 60, LastStableOffset: 48},
		{ProducerID: 3, FirstOffset: 48, LastOffset: 80, LastStableOffset: 81},
		{ProducerID: 4, FirstOffset: 90, LastOffset: 99, LastStableOffset: 100},
	}
}

func TestCollectFindsTheTransactionsThatOverlap(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestTxnIndex(fsys)
	for _, a := range fourAborts() {
		require.NoError(t, x.append(a))
	}
	for _, test := range []struct {
		start, end int64
		want       []int64 // producers
		done       bool
	}{
		{40, 41, []int64{1}, true},
		{0, 40, nil, true}, // the last stable offset 45 says that nothing later begins below 40
		{40, 45, []int64{1}, true},
		{40, 46, []int64{1, 2}, true},
		{50, 55, []int64{1, 2, 3}, true},
		{51, 55, []int64{2, 3}, true},
		{61, 62, []int64{3}, true},
		{81, 90, nil, true},
		{81, 82, nil, true},
		{80, 91, []int64{3, 4}, true},
		{99, 200, []int64{4}, false},
		{100, 200, nil, false},
		{40, 1000, []int64{1, 2, 3, 4}, false},
	} {
		collected, done, err := x.collect(nil, test.start, test.end)
		require.NoError(t, err)
		var producers []int64
		for _, a := range collected {
			producers = append(producers, a.ProducerID)
		}
		require.Equal(t, test.want, producers, "[%d, %d)", test.start, test.end)
		require.Equal(t, test.done, done, "[%d, %d)", test.start, test.end)
	}
	dst := []AbortedTxn{{ProducerID: 9}}
	collected, _, err := x.collect(dst, 40, 41)
	require.NoError(t, err)
	require.Equal(t, []int64{9, 1}, []int64{collected[0].ProducerID, collected[1].ProducerID})
}

func TestTruncateDropsTheTransactionsWhoseMarkerGoes(t *testing.T) {
	aborts := fourAborts()
	for offset, want := range map[int64]int{0: 0, 50: 0, 51: 1, 60: 1, 61: 2, 80: 2, 81: 3, 99: 3, 100: 4} {
		fsys := newPartsFS(t)
		storeFile(t, fsys, txnIndexPath, txnBytes(aborts...))
		x := reopenTxnIndex(fsys)
		require.NoError(t, x.truncateTo(offset))
		requireTxns(t, x, aborts[:want]...)
		require.Len(t, storedFile(t, fsys, txnIndexPath), want*txnEntrySize)
		next := AbortedTxn{ProducerID: 5, FirstOffset: 100, LastOffset: 101, LastStableOffset: 102}
		require.NoError(t, x.append(next))
		requireTxns(t, reopenTxnIndex(fsys), append(aborts[:want:want], next)...)
	}
}

func TestF10_AFailedAppendToTheTxnIndexLeavesNothingBehind(t *testing.T) {
	for _, op := range []string{"open", "write"} {
		fsys := &probeFS{FS: newPartsFS(t)}
		x := newTestTxnIndex(fsys)
		aborts := fourAborts()
		if op == "write" {
			require.NoError(t, x.append(aborts[0]))
		} else {
			aborts = aborts[1:]
		}
		before, err := x.all()
		require.NoError(t, err)
		fsys.failOnce(op)
		require.ErrorIs(t, x.append(aborts[1]), errInjected, op)
		requireTxns(t, x, before...)

		require.NoError(t, x.seal(), "cuts off what the short write left")
		requireTxns(t, reopenTxnIndex(fsys), before...)
		require.NoError(t, x.append(aborts[1]))
		requireTxns(t, reopenTxnIndex(fsys), append(before, aborts[1])...)
	}
}

func TestF10_RewindTakesBackAnAbort(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestTxnIndex(fsys)
	aborts := fourAborts()
	require.NoError(t, x.append(aborts[0]))
	mark, err := x.mark()
	require.NoError(t, err)
	require.NoError(t, x.append(aborts[1]))
	require.NoError(t, x.rewind(mark))
	requireTxns(t, x, aborts[0])
	requireTxns(t, reopenTxnIndex(fsys), aborts[0])
	require.NoError(t, x.append(aborts[1]))
	requireTxns(t, x, aborts[:2]...)
}

func TestSyncedAbortsSurviveAPowerCut(t *testing.T) {
	fsys := newPartsFS(t)
	require.NoError(t, fsys.SyncDir("."))
	x := newTestTxnIndex(fsys)
	require.NoError(t, x.append(fourAborts()[0]))
	require.NoError(t, x.sync())
	require.NoError(t, fsys.SyncDir(partsDir))
	requireTxns(t, reopenTxnIndex(fsys.CrashClean()), fourAborts()[0])
}

func TestADamagedTxnIndexIsReportedAndCanBeReset(t *testing.T) {
	good := fourAborts()[0]
	versioned := func(high, low byte) []byte {
		data := txnBytes(good)
		data[0], data[1] = high, low
		return data
	}
	for name, data := range map[string][]byte{
		"half an entry":                   append(txnBytes(good), 0, 0),
		"version 256":                     versioned(1, 0),
		"version 1":                       versioned(0, 1),
		"version -1":                      versioned(0xff, 0xff),
		"a marker below the segment":      txnBytes(AbortedTxn{1, 30, 39, 40}),
		"markers that do not rise":        txnBytes(good, good),
		"a first offset after the marker": txnBytes(AbortedTxn{1, 51, 50, 51}),
		"no producer":                     txnBytes(AbortedTxn{-1, 41, 50, 51}),
	} {
		fsys := newPartsFS(t)
		storeFile(t, fsys, txnIndexPath, data)
		x := reopenTxnIndex(fsys)
		err := x.verify()
		require.True(t, damaged(err), "%s: %v", name, err)
		require.NoError(t, x.reset(), name)
		requireTxns(t, x)
		require.NoError(t, x.append(good), name)
		requireTxns(t, reopenTxnIndex(fsys), good)
	}
}

func TestARenamedTxnIndexIsReadUnderItsNewName(t *testing.T) {
	fsys := newPartsFS(t)
	x := newTestTxnIndex(fsys)
	require.NoError(t, x.append(fourAborts()[0]))
	require.NoError(t, x.file.rename(txnIndexPath+deletedSuffix))
	require.Equal(t, txnIndexPath+deletedSuffix, x.file.path())
	requireTxns(t, x, fourAborts()[0])
	require.NoError(t, x.file.remove())
	_, _, err := x.collect(nil, 0, 100)
	require.ErrorIs(t, err, ErrClosed)
}

func TestReadersCollectWhileTheWriterAppendsAndTruncates(t *testing.T) {
	x := newTestTxnIndex(newPartsFS(t))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				collected, _, err := x.collect(nil, 100, 5000)
				if err != nil {
					t.Error(err)
					return
				}
				for _, a := range collected {
					if a.LastOffset != a.FirstOffset+1 {
						t.Errorf("a transaction that nobody wrote: %+v", a)
						return
					}
				}
			}
		})
	}
	for round := range int64(20) {
		for i := range int64(100) {
			offset := 40 + (round*50+i)*2
			require.NoError(t, x.append(AbortedTxn{1, offset, offset + 1, offset + 2}))
		}
		require.NoError(t, x.truncateTo(40+(round+1)*100))
	}
	close(done)
	readers.Wait()
}

func TestTheTxnIndexAgreesWithALinearScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := newPartsFS(t)
		x := newTestTxnIndex(fsys)
		var naive []AbortedTxn
		next := int64(40)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				step := rapid.Int64Range(1, 4).Draw(t, "step")
				length := rapid.Int64Range(0, 30).Draw(t, "length")
				stable := rapid.Int64Range(0, length+1).Draw(t, "last stable")
				for range rapid.SampledFrom([]int{1, 5, 500}).Draw(t, "aborts") {
					next += step
					a := AbortedTxn{1, next - length, next, next - length + stable}
					require.NoError(t, x.append(a))
					naive = append(naive, a)
				}
			},
			"truncate": func(t *rapid.T) {
				offset := rapid.Int64Range(max(0, next-50), next+1).Draw(t, "offset")
				require.NoError(t, x.truncateTo(offset))
				naive = slices.DeleteFunc(naive, func(a AbortedTxn) bool { return a.LastOffset >= offset })
			},
			"reopen": func(t *rapid.T) { x = reopenTxnIndex(fsys) },
			"": func(t *rapid.T) {
				start := rapid.Int64Range(0, next+2).Draw(t, "start")
				end := start + rapid.Int64Range(0, 40).Draw(t, "length")
				var want []AbortedTxn
				wantDone := false
				for _, a := range naive {
					if a.LastOffset >= start && a.FirstOffset < end && !wantDone {
						want = append(want, a)
					}
					wantDone = wantDone || a.LastStableOffset >= end && a.LastOffset >= start
				}
				got, done, err := x.collect(nil, start, end)
				require.NoError(t, err)
				require.True(t, slices.Equal(want, got), "[%d, %d): want %v, got %v", start, end, want, got)
				require.Equal(t, wantDone, done, "[%d, %d)", start, end)
			},
		})
	})
}

func FuzzTxnIndexLoad(f *testing.F) {
	f.Add(txnBytes(fourAborts()...))
	f.Add(txnBytes(AbortedTxn{1, 51, 50, 51}))
	f.Add([]byte{0, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := newPartsFS(t)
		storeFile(t, fsys, txnIndexPath, data)
		x := reopenTxnIndex(fsys)
		if err := x.verify(); err != nil {
			require.True(t, damaged(err), "%v", err)
			return
		}
		all, err := x.all()
		require.NoError(t, err)
		require.Equal(t, data, txnBytes(all...)[:len(data)])
		collected, _, err := x.collect(nil, 0, 1<<62)
		require.NoError(t, err)
		require.LessOrEqual(t, len(collected), len(all))
	})
}
