package kafkalog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestF24_ADamagedTransactionIndexIsMadeAgainFromTheRecords(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	transactions(t, l)
	require.NoError(t, l.Sync())
	end := l.LogEnd()
	want, err := l.AbortedInRange(0, end)
	require.NoError(t, err)
	require.Len(t, want, 3)
	stable := l.LastStable(end)
	require.NoError(t, l.Close())

	damaged := 0
	for _, base := range segmentBases(t, source.fs) {
		name := filePath(testDir, base, txnIndexSuffix)
		if _, err := source.fs.Stat(name); err != nil {
			continue
		}
		damaged++
		for kind, change := range map[string]func([]byte) []byte{
			"half an entry":  func(b []byte) []byte { return b[:len(b)-10] },
			"a version of 1": func(b []byte) []byte { b[1] = 1; return b },
			"a low marker":   func(b []byte) []byte { clear(b[18:26]); return b },
			"text":           func([]byte) []byte { return []byte("this is no transaction index at all, is it?") },
		} {
			for _, clean := range []bool{true, false} {
				place := fmt.Sprintf("%s in segment %d, clean=%v", kind, base, clean)
				fsys := copyDir(t, source.fs)
				edit(t, fsys, name, change)
				b := makeBench(t, fsys)
				l := b.open(Options{Config: smallSegments(), Clean: clean})
				require.Equal(t, end, l.LogEnd(), place)
				got, err := l.AbortedInRange(0, end)
				require.NoError(t, err, place)
				require.Equal(t, want, got, place)
				require.Equal(t, stable, l.LastStable(end), place)
				require.NoError(t, b.env.Close())
			}
		}
	}
	require.Greater(t, damaged, 1)
}

func TestF23_ABatchOlderThanFiveIsOutOfOrder(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	for range 2 {
		for i := range int32(9) {
			again, err := l.Append(data{records: 2, producer: 7, sequence: 2 * i}.build(t), AppendOptions{LeaderEpoch: -1})
			if l.LogEnd() == 18 && i < 4 {
				require.ErrorIs(t, err, ErrOutOfOrderSequence, "batch %d", i)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, int64(2*i), again.BaseOffset)
		}
		require.EqualValues(t, 18, l.LogEnd())
	}
}

func TestF22_TheSequenceOfAnIdleProducerOutlivesItsRecords(t *testing.T) {
	for _, clean := range []bool{true, false} {
		b := newBench(t)
		c := smallSegments()
		c.RetentionMs = time.Hour.Milliseconds()
		l := b.open(Options{Config: c})
		_, err := l.Append(data{records: 2, size: 40, producer: 7}.build(t), AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
		fill(t, l, 12)
		now := b.advance(2 * time.Hour)
		mustAppend(t, l, data{records: 2, size: 300, ts: now.UnixMilli()})
		mustAppend(t, l, data{records: 2, size: 300, ts: now.UnixMilli()})
		require.NoError(t, l.Tick(now, l.LogEnd()))
		require.Greater(t, l.LogStart(), int64(2), "the producer's records are gone")
		require.NoError(t, l.Sync())
		require.NoError(t, l.Close())

		l = b.open(Options{Config: c, Clean: clean})
		again, err := l.Append(data{records: 2, size: 40, producer: 7}.build(t), AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
		require.Equal(t, Appended{BaseOffset: 0, LastOffset: 1, AppendTime: -1, Duplicate: true}, again, "clean=%v", clean)
		_, err = l.Append(data{producer: 7, sequence: 5}.build(t), AppendOptions{LeaderEpoch: -1})
		require.ErrorIs(t, err, ErrOutOfOrderSequence)
		_, err = l.Append(data{producer: 7, sequence: 2}.build(t), AppendOptions{LeaderEpoch: -1})
		require.NoError(t, err)
	}
}

func TestF16_ATruncatedLogForgetsWhatItNoLongerHolds(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	put := func(sequence int32) (Appended, error) {
		return l.Append(data{records: 2, size: 40, producer: 7, sequence: sequence}.build(t), AppendOptions{LeaderEpoch: -1})
	}
	for i := range int32(16) {
		_, err := put(2 * i)
		require.NoError(t, err)
	}
	require.NoError(t, l.TruncateTo(20))
	for range 2 {
		again, err := put(18)
		require.NoError(t, err)
		require.True(t, again.Duplicate)
		_, err = put(22)
		require.ErrorIs(t, err, ErrOutOfOrderSequence)
		l = b.reopen(l, Options{Config: smallSegments()})
	}
	next, err := put(20)
	require.NoError(t, err)
	require.Equal(t, Appended{BaseOffset: 20, LastOffset: 21, AppendTime: -1}, next)
}
