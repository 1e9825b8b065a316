package meta_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

func TestMP5_TheLeaseHolderTakesSnapshotsAndTruncates(t *testing.T) {
	storage := metatest.NewMemory("c")
	b := storage.Join()
	var rec, other recorder
	l := open(t, b, meta.Options{SnapshotEvery: 10, Events: rec.events()})
	bystander := open(t, storage.Join(), meta.Options{Node: 1, SnapshotEvery: 10, Events: other.events()})
	for i := range 35 {
		_, err := l.Do(background, put("k", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	_, err := bystander.WaitApplied(background, 35)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, bystander.Close())

	var got []meta.SnapshotEvent
	for _, e := range append(rec.snaps, other.snaps...) {
		require.NotZero(t, e.Bytes)
		got = append(got, meta.SnapshotEvent{Index: e.Index, Truncated: e.Truncated})
	}
	if len(other.snaps) == 0 { // whoever was first holds the lease
		require.Equal(t, []meta.SnapshotEvent{{Index: 10}, {Index: 20, Truncated: 10}, {Index: 30, Truncated: 20}}, got)
	}
	require.True(t, len(rec.snaps) == 0 || len(other.snaps) == 0, "two nodes took snapshots")
}

func TestMP7_ANodeThatFellBehindGoesOnFromTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		leader := open(t, storage.Join(), meta.Options{SnapshotEvery: 4})
		a := &away{Backend: storage.Join()}
		lagging := open(t, a, meta.Options{Node: 1, SnapshotEvery: 1 << 60})
		a.set(true)
		for i := range 30 {
			_, err := leader.Do(background, put(fmt.Sprint("key-", i%7), fmt.Sprint(i)))
			require.NoError(t, err)
		}
		_, err := a.Read(background, 1, 1)
		require.ErrorIs(t, err, meta.ErrTruncated)
		a.set(false)
		s, err := lagging.WaitApplied(background, 30)
		require.NoError(t, err)
		require.Equal(t, leader.View().EncodeSnapshot(), s.EncodeSnapshot())
		r, err := lagging.Do(background, put("from behind", "v"))
		require.NoError(t, err)
		require.Equal(t, uint64(31), r.Version)
	})
}

// without is a backend that has lost its snapshots.
type without struct{ meta.Backend }

func (without) Snapshot(context.Context) (uint64, []byte, error) { return 0, nil, nil }

func TestMP7_EntriesThatNothingCoversAreAGap(t *testing.T) {
	storage := metatest.NewMemory("c")
	l := open(t, storage.Join(), meta.Options{SnapshotEvery: 4})
	for range 20 {
		_, err := l.Do(background, put("k", "v"))
		require.NoError(t, err)
	}
	b := storage.Join()
	defer b.Close()
	_, err := meta.Open(background, without{b}, meta.Options{})
	var gap *meta.GapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, &meta.GapError{Where: "memory", Want: 1, Head: 20}, gap)
}

// holed is a backend that has lost an entry in the middle.
type holed struct{ meta.Backend }

func (h holed) Read(ctx context.Context, from uint64, limit int) ([][]byte, error) {
	if from >= 4 {
		return nil, nil
	}
	return h.Backend.Read(ctx, from, min(limit, int(4-from)))
}

func TestAHoleInTheLogIsAGapAndNotTheEnd(t *testing.T) {
	b := metatest.NewMemory("c").Join()
	l := open(t, b, meta.Options{})
	for range 6 {
		_, err := l.Do(background, put("k", "v"))
		require.NoError(t, err)
	}
	_, err := meta.Open(background, holed{b}, meta.Options{})
	require.Equal(t, &meta.GapError{Where: "memory", Want: 4, Head: 6}, err)
	require.EqualError(t, err, "meta: memory: log entry 4 is missing and no snapshot covers it (head is 6)")
}

// rewound is a backend whose head went back.
type rewound struct{ meta.Backend }

func (rewound) Head(context.Context) (uint64, error) { return 2, nil }

func TestALogThatBecameShorterStopsTheNode(t *testing.T) {
	storage := metatest.NewMemory("c")
	b := storage.Join()
	l := open(t, b, meta.Options{SnapshotEvery: 2})
	for range 9 {
		_, err := l.Do(background, put("k", "v"))
		require.NoError(t, err)
	}
	_, err := meta.Open(background, rewound{b}, meta.Options{})
	var gap *meta.GapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, uint64(2), gap.Head)
}

func TestF33_NoKeyIsLostBySnapshotsBetweenEveryTwoWrites(t *testing.T) {
	storage := metatest.NewMemory("c")
	r := start(t, storage.Open, meta.Options{SnapshotEvery: 1})
	defer func() { r.stop() }()
	m := newModel()
	for i := range 3000 {
		key := fmt.Sprint("key-", i*7919%1000)
		var c meta.Command = meta.PutKv{Key: key, Value: fmt.Append(nil, i)}
		if i%3 == 2 {
			c = meta.DeleteKv{Key: fmt.Sprint("key-", i*104729%1000)}
		}
		m.apply(c)
		_, err := r.Do(background, c)
		require.NoError(t, err)
		if i%500 == 499 {
			r.restart(t)
			require.Equal(t, m.visible(), modelOf(r.View()))
		}
	}
}

// flip changes one bit.
func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b = bytes.Clone(b)
		b[at%len(b)] ^= 0x40
		return b
	}
}

func TestF13_ADamagedEntryOrSnapshotIsRefusedAndNamed(t *testing.T) {
	for _, c := range []struct {
		name     string
		snapshot bool
		index    uint64
		change   func([]byte) []byte
		want     string
	}{
		{"an entry with a bit changed", false, 22, flip(40), "meta: memory: log entry 22: "},
		{"an entry with its end cut off", false, 22, func(b []byte) []byte { return b[:len(b)-1] }, "meta: memory: log entry 22: "},
		{"an empty entry", false, 21, func([]byte) []byte { return nil }, "meta: memory: log entry 21: "},
		{"the snapshot of another index", true, 20, func([]byte) []byte { return meta.Empty().EncodeSnapshot() }, "stored under another index"},
	} {
		t.Run(c.name, func(t *testing.T) {
			storage := metatest.NewMemory("c")
			r := start(t, storage.Open, meta.Options{SnapshotEvery: 10})
			for i := range 25 {
				_, err := r.Do(background, put(fmt.Sprint(i), "v"))
				require.NoError(t, err)
			}
			r.stop()
			storage.Corrupt(c.snapshot, c.index, c.change)
			b, err := storage.Open()
			require.NoError(t, err)
			defer b.Close()
			_, err = meta.Open(background, b, meta.Options{})
			var corrupt *meta.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, c.index, corrupt.Index)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestML1_AnEntryThatCannotBeReadStopsTheLog(t *testing.T) {
	storage := metatest.NewMemory("c")
	var rec recorder
	l := open(t, storage.Join(), meta.Options{Events: rec.events()})
	_, err := l.Do(background, put("k", "v"))
	require.NoError(t, err)
	newer := storage.Join()
	defer newer.Close()
	require.NoError(t, newer.Append(background, 2, []byte("something that is no entry")))
	<-l.Done()

	var corrupt *meta.CorruptError
	require.ErrorAs(t, l.Err(), &corrupt)
	require.Equal(t, uint64(2), corrupt.Index)
	_, err = l.Propose(background, put("k", "w"))
	require.ErrorAs(t, err, &corrupt)
	require.ErrorAs(t, l.Close(), &corrupt)
	require.Len(t, rec.stopped, 1)
	v, _ := l.View().Get("k")
	require.Equal(t, "v", string(v.Value), "the last good state stays readable")
}

func TestF38_NonIdempotentCommandsTakeEffectExactlyOnceThroughCrashes(t *testing.T) {
	storage := metatest.NewMemory("c")
	id := meta.TopicID{1}
	r := start(t, storage.Open, meta.Options{SnapshotEvery: 6})
	defer func() { r.stop() }()
	_, err := r.Propose(background, meta.RegisterNode{ExpectedEpoch: -1, Incarnation: [16]byte{1}},
		meta.CreateTopic{ID: id, Name: "t", Partitions: 1}, put("counter", "0"))
	require.NoError(t, err)
	partitions, counter, ids := int32(1), 0, map[uint64]bool{}
	for round := range 200 {
		crashed := storage.CrashAtWrite(1+round%5, round%2 == 0)
		for !closed(crashed) {
			kv, _ := r.View().Get("counter")
			commands := []meta.Command{
				meta.CreatePartitions{ID: id, Expected: partitions, Total: partitions + 1},
				meta.CasKv{Key: "counter", Expected: kv.Version, Value: strconv.AppendInt(nil, int64(counter+1), 10)},
				meta.AllocateProducerIDs{NodeEpoch: 1, Count: 3},
			}
			before := r.View().Index()
			results, err := r.Propose(background, commands...)
			if err != nil {
				r.restart(t)
			}
			if err == nil || r.View().Index() > before { // all three are in one entry: all or none
				partitions, counter = partitions+1, counter+1
			}
			if err == nil {
				require.Equal(t, []meta.Code{meta.OK, meta.OK, meta.OK}, []meta.Code{results[0].Code, results[1].Code, results[2].Code})
				for n := range uint64(3) {
					require.False(t, ids[results[2].ID+n], "producer id %d was given twice", results[2].ID+n)
					ids[results[2].ID+n] = true
				}
			}
			topic, _ := r.View().TopicByID(id)
			kv, _ = r.View().Get("counter")
			require.Equal(t, partitions, topic.Partitions(), "round %d", round)
			require.Equal(t, strconv.Itoa(counter), string(kv.Value), "round %d", round)
		}
	}
	require.Greater(t, counter, 200)
}

func TestF79_WhatWasAcknowledgedIsThereAfterACrashInTheSameMoment(t *testing.T) {
	storage := metatest.NewMemory("c")
	r := start(t, storage.Open, meta.Options{SnapshotEvery: 4})
	defer func() { r.stop() }()
	m := newModel()
	id := meta.TopicID{1}
	for _, c := range []meta.Command{
		meta.RegisterNode{Node: 1, ExpectedEpoch: -1, Incarnation: [16]byte{1}},
		meta.CreateTopic{ID: id, Name: "t", Partitions: 2, Configs: map[string]string{"retention.ms": "1"}},
		meta.SetTopicConfigs{ID: id, ExpectedVersion: 1, Configs: map[string]string{}},
		meta.CreatePartitions{ID: id, Expected: 2, Total: 7},
		put("k", "v"),
		meta.AllocateProducerIDs{Node: 1, NodeEpoch: 1, Count: 5},
		meta.DeleteTopic{ID: id},
		meta.DeleteKv{Key: "k"},
	} {
		want := m.apply(c)
		result, err := r.Do(background, c)
		require.NoError(t, err)
		require.Equal(t, want, outcomeOf(result))
		storage.Crash()
		r.restart(t)
		require.Equal(t, m.visible(), modelOf(r.View()), "%+v was undone", c)
	}
}

func TestALargeSnapshotWaitsForEnoughToSave(t *testing.T) {
	b := metatest.NewMemory("c").Join()
	var rec recorder
	l := open(t, b, meta.Options{SnapshotEvery: 2, Events: rec.events()})
	value := string(make([]byte, meta.MaxValueBytes))
	for i := range 6 { // 3 MiB, of which every snapshot but the first saves writing again
		_, err := l.Do(background, put(fmt.Sprint("large-", i), value))
		require.NoError(t, err)
	}
	for range 200 {
		_, err := l.Do(background, put("small", "v"))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	var at []uint64
	for _, e := range rec.snaps {
		at = append(at, e.Index)
	}
	require.Equal(t, []uint64{2, 4, 6, 134}, at, "then every 64 intervals at the latest")
}
