package kafkalog

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// ledger is what a scenario was told about its appends.
type ledger struct {
	acked  map[int64]string // base offset -> bytes of the payload
	failed map[string]bool  // payloads whose append failed
	synced int64            // log end of the last Sync that succeeded
}

// faultScenario appends, syncs, rolls, applies retention, truncates, closes and opens again. It goes on after errors as a
// caller would: with the next operation. A log that takes no more appends is opened again.
func faultScenario(t require.TestingT, b *bench, disk *faultfs.FS, book *ledger) {
	c := smallSegments()
	var l *Log
	open := func() bool {
		if l != nil {
			_ = l.Close() // what it could not write, the next Open makes
		}
		for range 2 {
			var err error
			if l, err = Open(b.env, testDir, Options{Config: c}); err == nil {
				return true
			}
			l = nil
		}
		return false
	}
	if !open() {
		return
	}
	seq := int32(0)
	appendOne := func(seed int, txn bool, epoch int32) {
		d := data{records: 1, size: 60, seed: seed, producer: 1, sequence: seq, txn: txn}.build(t)
		payload := string(d.Payload())
		end := l.LogEnd()
		a, err := l.AppendVerbatim(d, AppendOptions{LeaderEpoch: epoch})
		if err != nil {
			book.failed[payload] = true
			require.Equal(t, end, l.LogEnd(), "a failed append moves nothing")
			if b.fs == disk && l.failure() != nil {
				_, again := l.AppendVerbatim(d, AppendOptions{LeaderEpoch: epoch})
				require.Error(t, again, "the failure sticks")
				open()
			}
			return
		}
		require.Equal(t, end, a.BaseOffset, "no gap and no overlap")
		book.acked[a.BaseOffset] = payload
		seq++
	}
	sync := func() {
		end := l.LogEnd()
		if err := l.Sync(); err == nil {
			book.synced = end
		} else if l.failure() != nil {
			require.Error(t, l.Sync(), "a failed fsync is not tried again")
			open()
		}
	}
	for i := range 8 {
		appendOne(i, false, int32(i/4))
		if l == nil {
			return
		}
	}
	sync()
	for i := range 4 {
		if l == nil {
			return
		}
		appendOne(20+i, true, 2)
	}
	if l == nil {
		return
	}
	end := l.LogEnd()
	if _, err := l.AppendVerbatim(marker(1, 0, false), AppendOptions{LeaderEpoch: 2, Origin: Coordinator}); err != nil {
		require.Equal(t, end, l.LogEnd())
	}
	_, _ = l.Roll()
	sync()
	if l == nil {
		return
	}
	_ = l.SetLogStart(2)
	_ = l.Tick(b.now(), l.LogEnd())
	_ = l.Maintain(b.advance(time.Minute))
	if _, err := l.Read(l.LogStart(), 1<<20); err != nil {
		require.ErrorIs(t, err, ErrStorage)
	}
	_ = l.Close()
	open()
	if l == nil {
		return
	}
	appendOne(40, false, 3)
	if l != nil {
		sync()
	}
	if l != nil {
		_ = l.Close()
	}
}

// TestF10_EveryFailingCallLeavesAWholeLog fails each call of the scenario once, and then opens what is left without
// faults: after a restart of the process, and after a power cut.
func TestF10_EveryFailingCallLeavesAWholeLog(t *testing.T) {
	for _, fault := range []struct {
		name string
		at   func(n int) faultfs.Injector
	}{
		{"error", func(n int) faultfs.Injector { return faultfs.FailNth(n, syscall.EIO) }},
		{"short write", func(n int) faultfs.Injector {
			fail := faultfs.FailNth(n, syscall.ENOSPC)
			return func(op faultfs.Op) faultfs.Fault {
				f := fail(op)
				if f.Err != nil {
					f.Short = op.Len / 2
				}
				return f
			}
		}},
		{"answer lost", func(n int) faultfs.Injector {
			fail := faultfs.FailNth(n, syscall.EIO)
			return func(op faultfs.Op) faultfs.Fault {
				f := fail(op)
				f.After = f.Err != nil
				return f
			}
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			for n := 0; ; n++ {
				base := memfs.New()
				disk := faultfs.New(base, fault.at(n))
				b := makeBench(t, disk)
				book := &ledger{acked: map[int64]string{}, failed: map[string]bool{}}
				faultScenario(t, b, disk, book)
				calls := disk.Calls()
				_ = b.env.Close() // a log may have been left open by a failed step

				for _, left := range []struct {
					name string
					fs   vfs.FS
					from int64
				}{
					{"restart", base, math.MaxInt64},
					{"power cut", base.CrashClean(), book.synced},
					{"torn power cut", base.Crash(memfs.CrashOptions{Seed: uint64(n), KeepUnsynced: 0.5, Torn: true}), book.synced},
				} {
					after := makeBench(t, left.fs)
					l, err := Open(after.env, testDir, Options{Config: smallSegments()})
					require.NoError(t, err, "%s, call %d", left.name, n)
					require.Empty(t, l.Check(), "%s, call %d", left.name, n)
					holdAgainst(t, l, book, left.from, fmt.Sprintf("%s, call %d", left.name, n))
					mustAppend(t, l, data{size: 10})
					require.NoError(t, after.env.Close())
				}
				if calls <= n {
					t.Logf("%d calls", calls)
					break
				}
			}
		})
	}
}

// holdAgainst requires that the log holds every acknowledged append below an offset, and no failed one there.
func holdAgainst(t require.TestingT, l *Log, book *ledger, below int64, what string) {
	read, err := l.Read(l.LogStart(), 1<<20)
	require.NoError(t, err, what)
	stored := map[int64]string{}
	for _, b := range read.Batches {
		stored[b.BaseOffset()] = string(b.Payload())
		if b.BaseOffset() < below { // what nobody synced may be back after a power cut, like any other unsynced append
			require.False(t, book.failed[string(b.Payload())], "%s: a failed append is in the log at %d", what, b.BaseOffset())
		}
	}
	for offset, payload := range book.acked {
		if offset >= l.LogStart() && offset < below {
			require.Equal(t, payload, stored[offset], "%s: offset %d", what, offset)
		}
	}
}

func TestF10_AWriteThatTheDeviceFailsIsFinalUntilTheLogIsOpenedAgain(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	b := newBenchOn(t, disk)
	l := b.open(Options{})
	fill(t, l, 3)
	_, err := l.SyncTo()
	require.NoError(t, err)
	disk.SetInjector(faultfs.When(faultfs.Writes, faultfs.FailNth(0, syscall.EIO)))
	_, err = l.Append(data{}.build(t), AppendOptions{})
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, ErrStorage)
	writes := disk.Count(faultfs.OpWriteAt, faultfs.OpWriteVectorAt)
	_, err = l.Append(data{}.build(t), AppendOptions{})
	require.ErrorIs(t, err, syscall.EIO, "the device works again, but nobody asks it")
	require.Equal(t, writes, disk.Count(faultfs.OpWriteAt, faultfs.OpWriteVectorAt))
	require.ErrorIs(t, l.Failed(), syscall.EIO)
	require.Equal(t, int64(6), l.LogEnd(), "what was written in part was taken back")
	require.Len(t, baseOffsets(t, allBytes(t, l)), 3, "reads go on")
	require.Len(t, eventsOf[FailedEvent](b), 1)
	require.NoError(t, l.Close())
	l = b.open(Options{})
	require.NoError(t, l.Failed())
	require.Equal(t, int64(6), mustAppend(t, l, data{}))
}

func TestF10_AWriteThatFindsNoRoomRefusesOneAppendAndNoMore(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		disk := faultfs.New(memfs.New(), nil)
		b := newBenchOn(t, disk)
		l := b.open(Options{})
		fill(t, l, 3)
		disk.SetInjector(faultfs.When(faultfs.Writes, faultfs.FailNth(0, full)))
		_, err := l.Append(data{}.build(t), AppendOptions{})
		require.ErrorIs(t, err, full)
		require.NoError(t, l.Failed())
		require.Equal(t, int64(6), mustAppend(t, l, data{}))
		require.Empty(t, eventsOf[FailedEvent](b))
	}
}

func TestF10_AFailedFsyncIsFinalUntilTheLogIsOpenedAgain(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	b := newBenchOn(t, disk)
	l := b.open(Options{})
	fill(t, l, 3)
	disk.SetInjector(faultfs.When(faultfs.Matching(faultfs.OpSync, "*.log"), faultfs.FailNth(0, syscall.EIO)))
	_, err := l.SyncTo()
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, ErrStorage)
	syncs := disk.Count(faultfs.OpSync)
	_, err = l.SyncTo()
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, syncs, disk.Count(faultfs.OpSync), "not tried again")
	_, err = l.Append(data{}.build(t), AppendOptions{})
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, l.Maintain(b.now()), syscall.EIO)
	_, err = l.Roll()
	require.ErrorIs(t, err, syscall.EIO)
	require.Len(t, baseOffsets(t, allBytes(t, l)), 3, "reads go on")
	require.Len(t, eventsOf[FailedEvent](b), 1)
	require.NoError(t, l.Close())
	l = b.open(Options{})
	require.Equal(t, int64(6), mustAppend(t, l, data{}))
	_, err = l.SyncTo()
	require.NoError(t, err)
}

func TestF10_AFailedBackgroundFlushStopsTheLog(t *testing.T) {
	disk := faultfs.New(memfs.New(), faultfs.FailMatching(faultfs.OpSync, "*0.log", syscall.EIO))
	b := newBenchOn(t, disk)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 4)
	require.ErrorIs(t, l.Sync(), syscall.EIO)
	_, err := l.Append(data{}.build(t), AppendOptions{})
	require.ErrorIs(t, err, syscall.EIO)
	require.False(t, l.snapshots.has(6), "no boundary snapshot proves what is not so")
	disk.SetInjector(nil)
}

func TestF10_AFullDiskIsNotFinal(t *testing.T) {
	quota := faultfs.NewQuota(1 << 20)
	disk := faultfs.New(memfs.New(), quota.Inject)
	b := newBenchOn(t, disk)
	l := b.open(Options{})
	fill(t, l, 2)
	quota.Free(100 - quota.Left())
	_, err := l.Append(data{size: 500}.build(t), AppendOptions{LeaderEpoch: -1})
	require.True(t, vfs.IsNoSpace(err), "%v", err)
	require.Equal(t, int64(4), l.LogEnd())
	require.Empty(t, l.Check())
	quota.Free(1 << 20)
	require.Equal(t, int64(4), mustAppend(t, l, data{size: 500}))
}

func TestF01_WhatWasSyncedSurvivesAPowerCut(t *testing.T) {
	for seed := range uint64(30) {
		fsys := memfs.New()
		b := makeBench(t, fsys)
		l := b.open(Options{Config: smallSegments()})
		synced, want := int64(0), map[int64]string{}
		for i := range 60 {
			d := data{records: 1 + i%3, size: 30 + i%50, seed: i}.build(t)
			a, err := l.AppendVerbatim(d, AppendOptions{LeaderEpoch: int32(i / 20)})
			require.NoError(t, err)
			want[a.BaseOffset] = string(d.Payload())
			if (uint64(i)+seed)%7 == 0 {
				synced, err = l.SyncTo()
				require.NoError(t, err)
				require.Equal(t, l.LogEnd(), synced)
			}
		}
		crashed := fsys.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true})
		require.NoError(t, b.env.Close())
		after := newBenchOn(t, crashed)
		l = after.open(Options{Config: smallSegments(), RecoveryPoint: synced})
		require.GreaterOrEqual(t, l.LogEnd(), synced)
		holdAgainst(t, l, &ledger{acked: want}, synced, fmt.Sprintf("seed %d", seed))
	}
}

func TestF36_OffsetsNeverGoBackUnderLoad(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	c.RetentionBytes, c.FileDeleteDelayMs = 2000, 0
	l := b.open(Options{Config: c})
	const total = 2000
	var writers, others sync.WaitGroup
	done := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			for i := range total / 2 {
				if _, err := l.AppendVerbatim(data{size: 40, seed: i*2 + w}.build(t), AppendOptions{LeaderEpoch: -1}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running := func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	others.Go(func() { // the poller
		var start, end, flushed int64
		for running() {
			nowFlushed, nowStart, nowEnd := l.RecoveryPoint(), l.LogStart(), l.LogEnd()
			if nowStart < start || nowEnd < end || nowFlushed < flushed || nowStart > nowEnd {
				t.Errorf("from [%d, %d) to [%d, %d)", start, end, nowStart, nowEnd)
				return
			}
			start, end, flushed = nowStart, nowEnd, nowFlushed
		}
	})
	for range 3 {
		others.Go(func() { // readers
			for next := int64(0); running(); {
				read, err := l.Read(next, 500)
				var low *OffsetTooLowError
				if errors.As(err, &low) {
					next = low.LogStart
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range read.Batches {
					if r.BaseOffset() != next {
						t.Errorf("read %d, want %d", r.BaseOffset(), next)
						return
					}
					next = r.NextOffset()
				}
			}
		})
	}
	others.Go(func() { // retention, syncs and look-ups
		for running() {
			if err := errors.Join(l.Tick(b.now(), l.LogEnd()), l.Maintain(b.now())); err != nil {
				t.Error(err)
			}
			if _, err := l.SyncTo(); err != nil {
				t.Error(err)
			}
			if _, _, err := l.OffsetForTimestamp(epochMs); err != nil {
				t.Error(err)
			}
			l.LastStable(l.LogEnd())
			_ = l.String()
		}
	})
	writers.Wait()
	close(done)
	others.Wait()
	require.Equal(t, int64(total), l.LogEnd())
}
