package kafkalog

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestF17_TheFirstRecordIsFoundFromTheBeginningOfTime(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	for i := range 9 {
		mustAppend(t, l, data{records: 2, size: 60, ts: epochMs + int64(10*i), seed: i})
	}
	for _, ts := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, epochMs} {
		for _, look := range []func(int64) (TimestampOffset, bool, error){l.OffsetForTimestamp, l.OffsetForTimestampChecked} {
			got, found, err := look(ts)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, TimestampOffset{Offset: 0, Timestamp: epochMs}, got, "from %d", ts)
		}
	}
}

func TestATimestampBeforeTheBeginningOfTimeRollsNothing(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	mustAppend(t, l, data{})
	for i := range 3 {
		odd := data{seed: i}.build(t)
		h := odd.Header()
		h.BaseTimestamp, h.MaxTimestamp = math.MinInt64, math.MinInt64+int64(i)
		h.Put(odd)
		var crc *batch.CRCError
		require.ErrorAs(t, odd.VerifyCRC(), &crc)
		h.CRC = crc.Computed
		h.Put(odd)
		_, err := l.AppendVerbatim(odd, AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
	}
	require.Len(t, l.view.Load().segments, 1)
}

// TestALogAtTheEndOfItsOffsetsRefusesWhatDoesNotFit begins logs so high that few offsets, or none, are left.
func TestALogAtTheEndOfItsOffsetsRefusesWhatDoesNotFit(t *testing.T) {
	for _, start := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - 2, math.MaxInt64 - 5, math.MaxInt64 - math.MaxInt32} {
		t.Run(fmt.Sprint(start), func(t *testing.T) {
			b := newBench(t)
			l := b.open(Options{Config: smallSegments()})
			fill(t, l, 4)
			require.NoError(t, l.ResetTo(start))
			var held []int64
			for i := range 8 {
				a, err := l.Append(data{records: 2, size: 100, seed: i}.build(t), AppendOptions{LeaderEpoch: 1})
				if err != nil {
					require.ErrorIs(t, err, ErrInvalidArgument)
					break
				}
				held = append(held, a.BaseOffset)
			}
			_, err := l.Roll()
			require.NoError(t, err)
			read := func() {
				raw, err := l.ReadRaw(start, math.MaxInt64, 1<<20)
				require.NoError(t, err)
				require.Equal(t, append([]int64{}, held...), baseOffsets(t, raw.Bytes))
				for _, offset := range held {
					got, err := l.Read(offset+1, 1)
					require.NoError(t, err)
					require.Equal(t, offset, got.StartOffset)
				}
			}
			read()
			_, _, err = l.OffsetForTimestamp(epochMs)
			require.NoError(t, err)
			require.NoError(t, l.Tick(b.now(), l.LogEnd()))
			require.NoError(t, l.Maintain(b.advance(time.Hour)))
			require.NoError(t, l.SetLogStart(start))
			end := l.LogEnd()
			l = b.reopen(l, Options{Config: smallSegments()})
			require.Equal(t, end, l.LogEnd())
			read()
			require.NoError(t, l.Close())
			l = b.open(Options{Config: smallSegments(), RecoveryPoint: end})
			require.Equal(t, end, l.LogEnd())
			read()
			trimmed, err := l.TrimTo(math.MaxInt64)
			require.NoError(t, err)
			require.Equal(t, end, trimmed)
			require.NoError(t, l.TruncateTo(start))
			require.Equal(t, start, l.LogEnd())
		})
	}
}

func TestF12_ADuplicateInAGroupIsNotAnsweredBeforeItsFirstCopyIsInTheLog(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	b := newBenchOn(t, disk)
	l := b.open(Options{})
	first := data{producer: 7, size: 40}.build(t)
	group := func() []GroupItem {
		items := []GroupItem{{Batch: first}, {Batch: bytes.Clone(first)}, {Batch: data{producer: 8, size: 40}.build(t)}}
		for i := range items {
			items[i].At, items[i].Verbatim, items[i].Options.LeaderEpoch = NextOffset, true, -1
		}
		return items
	}
	mustAppend(t, l, data{})
	items := group()
	disk.SetInjector(faultfs.When(faultfs.Writes, faultfs.FailNth(0, syscall.ENOSPC)))
	l.AppendGroup(items)
	disk.SetInjector(nil)
	require.ErrorIs(t, items[0].Err, syscall.ENOSPC)
	stored := baseOffsets(t, allBytes(t, l))
	for i, it := range items[1:] {
		if it.Err == nil {
			require.Contains(t, stored, it.Result.BaseOffset, "item %d was answered", i+1)
		}
	}
	require.NoError(t, items[1].Err, "it is the first copy then")
	require.False(t, items[1].Result.Duplicate)

	items = group()
	l.AppendGroup(items)
	require.Equal(t, []Appended{
		{BaseOffset: 1, LastOffset: 1, AppendTime: -1, Duplicate: true}, {BaseOffset: 1, LastOffset: 1, AppendTime: -1, Duplicate: true},
	}, []Appended{items[0].Result, items[1].Result})
	require.Equal(t, int64(3), l.LogEnd())
}

func TestF10_AGroupWithOffsetsOfItsOwnLeavesNoHoleBehindABatchThatFailed(t *testing.T) {
	for _, c := range []struct {
		name string
		size int // of each batch: large ones are written one by one
	}{{"one write", 40}, {"a write each", 700 << 10}} {
		for fails := range 4 {
			t.Run(fmt.Sprintf("%s, %d", c.name, fails), func(t *testing.T) {
				disk := faultfs.New(memfs.New(), nil)
				b := newBenchOn(t, disk)
				l := b.open(Options{})
				mustAppend(t, l, data{})
				var items []GroupItem
				for i := range 4 {
					items = append(items, GroupItem{Batch: data{size: c.size, seed: i}.build(t), At: int64(1 + i)})
				}
				items[0].At = 0 // is there already, as the start of what a leader sends may be
				broken := bytes.Clone(items[2].Batch)
				if fails == 3 {
					items[2].Batch = broken[:len(broken)-1]
				}
				items[1].At, items[2].At, items[3].At = 1, 2, 3
				disk.SetInjector(faultfs.When(func(op faultfs.Op) bool {
					return op.Kind == faultfs.OpWriteAt || op.Kind == faultfs.OpWriteVectorAt
				}, faultfs.FailNth(fails, syscall.EIO)))
				l.AppendGroup(items)
				disk.SetInjector(nil)
				var below *OffsetMismatchError
				require.ErrorAs(t, items[0].Err, &below)
				held := baseOffsets(t, allBytes(t, l))
				for i, offset := range held {
					require.Equal(t, int64(i), offset, "a hole")
				}
				for i, it := range items[1:] {
					require.Equal(t, i+1 < len(held), it.Err == nil, "item %d: %v", i+1, it.Err)
				}
			})
		}
	}
}

func TestNothingIsWrittenOnceALogIsFenced(t *testing.T) {
	disk := faultfs.New(memfs.New(), faultfs.FailMatching(faultfs.OpCreate, "*.snapshot*", syscall.ENOSPC))
	b := newBenchOn(t, disk)
	b.env.roll.manual = true
	l := b.open(Options{})
	fill(t, l, 2)
	mustRoll(t, l)
	mustAppend(t, l, data{})
	_, err := l.SyncTo()
	require.NoError(t, err)
	require.True(t, l.sealed.stalled.Load(), "a snapshot is owed")

	var fenced atomic.Bool
	begun, late := make(chan struct{}), make(chan struct{})
	disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if fenced.Load() && op.Kind.IsWrite() {
			t.Errorf("%s, behind the fence", op)
		}
		if op.Kind == faultfs.OpCreate {
			return faultfs.Fault{Hook: func() {
				close(begun)
				<-late
			}}
		}
		return faultfs.Fault{}
	})
	var upkeep, fence sync.WaitGroup
	upkeep.Go(func() { _ = l.Maintain(b.now()) })
	<-begun
	fence.Go(func() {
		l.Fence()
		fenced.Store(true)
	})
	for !l.fenced.Load() {
		runtime.Gosched()
	}
	for range 1000 {
		runtime.Gosched() // time to return too early
	}
	close(late)
	fence.Wait()
	upkeep.Wait()
}

func TestF24_WhatAYoungLogSaysOfAbortedTransactionsSurvivesItsClose(t *testing.T) {
	fsys := memfs.New()
	b := makeBench(t, fsys)
	l := b.open(Options{})
	_, err := l.Append(data{producer: 7, txn: true}.build(t), AppendOptions{LeaderEpoch: -1})
	require.NoError(t, err)
	require.NoError(t, l.Sync())
	_, err = l.Append(marker(7, 0, false), AppendOptions{LeaderEpoch: -1, Origin: Coordinator})
	require.NoError(t, err)
	want, err := l.AbortedInRange(0, 2)
	require.NoError(t, err)
	require.Len(t, want, 1)
	require.NoError(t, l.Sync())
	require.NoError(t, l.Close())
	require.NoError(t, b.env.Close())
	b = newBenchOn(t, fsys.CrashClean())
	l = b.open(Options{Clean: true, RecoveryPoint: 2})
	got, err := l.AbortedInRange(0, 2)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestAnIndexThatTheDeviceDoesNotGiveKeepsNobodyFromTheRecords(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	fill(t, l, 12)
	require.NoError(t, l.Sync())
	all, end := allBytes(t, l), l.LogEnd()
	disk := faultfs.New(copyDir(t, source.fs), nil)
	b := makeBench(t, disk)
	l = b.open(Options{Config: smallSegments(), Clean: true})
	var told []DamagedIndexEvent
	b.env.events.DamagedIndex = func(e DamagedIndexEvent) { told = append(told, e) }
	disk.SetInjector(faultfs.First(
		faultfs.FailMatching(faultfs.OpReadAt, "*.index", syscall.EIO), faultfs.FailMatching(faultfs.OpReadAt, "*.timeindex", syscall.EIO),
	))
	for offset := range end {
		read, err := l.Read(offset, 1)
		require.NoError(t, err, "offset %d", offset)
		require.Equal(t, offset/2*2, read.StartOffset)
	}
	got, err := l.ReadRaw(0, end, 1<<20)
	require.NoError(t, err)
	require.Equal(t, all, got.Bytes)
	found, ok, err := l.OffsetForTimestamp(epochMs + 61)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimestampOffset{Offset: 13, Timestamp: epochMs + 61}, found)
	require.NotEmpty(t, told)
	disk.SetInjector(faultfs.FailMatching(faultfs.OpReadAt, "*.log", syscall.EIO))
	_, err = l.Read(0, 1)
	require.ErrorIs(t, err, syscall.EIO, "of records it is told")
	require.NoError(t, b.env.Close())
}
