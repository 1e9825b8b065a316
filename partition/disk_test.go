package partition

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// disk is a machine with one disk in memory: what a process opens on it, and what a power cut leaves.
type disk struct {
	t        *testing.T
	mem      *memfs.FS
	faults   *faultfs.FS
	settings map[string]string

	env        *kafkalog.Env
	flusher    *Flusher
	maintainer *Maintainer
	logs       []*Log
	clean      bool
	epoch      int32
	watermark  int64    // that the checkpoint has, or -1
	journal    int64    // bytes of the journal, which takes every append; 0: there is none
	future     []string // logs that were said to hold records from the future
}

func newDisk(t *testing.T) *disk {
	d := &disk{t: t, mem: memfs.New(), clean: true, watermark: -1}
	require.NoError(t, vfs.EnsureDir(d.mem, "data"))
	d.boot()
	return d
}

func (d *disk) boot() {
	d.faults = faultfs.New(d.mem, nil)
	d.env = kafkalog.NewEnv(kafkalog.EnvOptions{FS: d.faults, Volume: "data", Events: kafkalog.Events{
		FutureTimestamp: func(e kafkalog.FutureTimestampEvent) { d.future = append(d.future, e.Dir) },
	}})
	d.flusher = NewFlusher(d.flusherOptions())
	d.maintainer = NewMaintainer(MaintainerOptions{})
	d.logs = nil
}

func (d *disk) open(index int32) *Log {
	d.t.Helper()
	l, err := Open(Options{
		Env: d.env, Flusher: d.flusher, Maintainer: d.maintainer,
		Dir: fmt.Sprintf("data/orders-%d", index), Topic: "orders", Index: index,
		Config: newSettingsOf(d.t, d.settings), LeaderEpoch: d.epoch, Clean: d.clean,
		RecoveryPoint: -1, HighWatermark: d.watermark, LogStart: -1,
	})
	require.NoError(d.t, err)
	d.logs = append(d.logs, l)
	return l
}

// flusherOptions are those of a machine whose journal, if there is one, was put back or removed.
func (d *disk) flusherOptions() FlusherOptions {
	if d.journal == 0 {
		return FlusherOptions{}
	}
	if d.clean {
		require.NoError(d.t, RemoveJournal(d.mem, "data"))
	} else {
		_, err := ReplayJournal(d.mem, "data", d.find, nil)
		require.NoError(d.t, err)
	}
	return FlusherOptions{Journal: JournalOptions{FS: d.faults, Dir: "data", Bytes: d.journal, From: 1}}
}

// find returns the directory of a partition of orders.
func (d *disk) find(_ [16]byte, index int32) (string, bool) {
	return fmt.Sprintf("data/orders-%d", index), true
}

// stop closes everything in order, after a check of what is in the logs.
func (d *disk) stop() error {
	var err error
	for _, l := range d.logs {
		for _, f := range l.store.(*kafkalog.Log).Check() {
			err = errors.Join(err, errors.New(f.String()))
		}
		err = errors.Join(err, l.Close())
	}
	if err == nil {
		err = d.flusher.RemoveJournal()
	}
	d.maintainer.Close()
	d.flusher.Close()
	return errors.Join(err, d.env.Close())
}

// restart closes everything in order and opens the machine again.
func (d *disk) restart() {
	require.NoError(d.t, d.stop())
	d.clean = true
	d.boot()
}

// cutPower stops the machine at once and boots it with what the disk kept, which is a random part of what was not synced.
func (d *disk) cutPower(seed uint64) {
	d.mem.Kill()
	_ = d.stop() // fails: the disk is gone
	d.mem = d.mem.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true})
	d.clean = false
	d.epoch++
	d.boot()
}

// values returns the records of a log as a reader of the given isolation sees them, as offset:value.
func values(t *testing.T, l *Log, iso Isolation) []string {
	t.Helper()
	var out []string
	at := l.Offsets().LogStart
	for {
		read, err := l.Read(at, iso, 1<<20, true)
		require.NoError(t, err)
		raw, err := read.Records.AppendTo(nil)
		require.NoError(t, err)
		var written bytes.Buffer
		n, err := read.Records.WriteTo(&written)
		require.NoError(t, err)
		require.Equal(t, read.Records.Len(), n)
		require.Equal(t, len(raw), written.Len())
		read.Records.Release()
		read.Records.Release()
		if len(raw) == 0 {
			return out
		}
		for len(raw) > 0 {
			b, rest, err := batch.Next(raw)
			require.NoError(t, err)
			require.NoError(t, b.VerifyCRC())
			raw, at = rest, b.NextOffset()
			if b.Attributes().Control() {
				continue
			}
			r := b.Records(batch.Limits{})
			for r.Next() {
				out = append(out, fmt.Sprintf("%d:%s", r.Record().Offset, r.Record().Value))
			}
			require.NoError(t, r.Err())
			r.Close()
		}
	}
}

// one is a batch of one record with the given value.
func one(value string) []byte {
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(time.Now().UnixMilli(), []byte("k"), []byte(value))
	built, _ := b.Build() // one small record always fits
	return bytes.Clone(built)
}

// large is a batch of one record, the given one of its producer, of which four fill a segment of a megabyte. Its value
// begins with its sequence.
func large(producer int64, sequence int32) []byte {
	b := batch.NewBuilder(batch.BuilderOptions{HasProducer: true, ProducerID: producer, BaseSequence: sequence})
	b.Add(time.Now().UnixMilli(), bytes.Repeat([]byte("k"), 250_000), []byte(fmt.Sprint(sequence)))
	built, _ := b.Build() // one record always fits
	return bytes.Clone(built)
}

// put appends one record and waits until it is durable.
func put(t *testing.T, l *Log, value string) *Append {
	t.Helper()
	a, err := l.Append(t.Context(), one(value), AppendOptions{Acks: -1})
	require.NoError(t, err)
	require.NoError(t, a.Wait(t.Context()))
	return a
}

func TestF01_WhatWasAcknowledgedSurvivesAPowerCut(t *testing.T) {
	for _, mode := range []string{"group", "every"} {
		t.Run(mode, func(t *testing.T) {
			for seed := range uint64(20) {
				d := newDisk(t)
				d.settings = flushOf(mode)
				l := d.open(0)
				var acked sync.Map
				var writers sync.WaitGroup
				for w := range 4 {
					writers.Go(func() {
						for i := range 25 {
							value := fmt.Sprintf("w%d-%d", w, i)
							a, err := l.Append(t.Context(), one(value), AppendOptions{Acks: 1})
							if err != nil || a.Wait(t.Context()) != nil {
								return
							}
							acked.Store(fmt.Sprintf("%d:%s", a.BaseOffset, value), true)
						}
					})
				}
				writers.Wait()
				seen := l.Offsets().HighWatermark
				_, err := l.Append(t.Context(), one("unacknowledged"), AppendOptions{Acks: 1})
				require.NoError(t, err)
				d.cutPower(seed)

				l = d.open(0)
				kept := values(t, l, ReadUncommitted)
				acked.Range(func(record, _ any) bool {
					require.Contains(t, kept, record)
					return true
				})
				require.GreaterOrEqual(t, l.Offsets().HighWatermark, seen)
				require.Equal(t, l.Offsets().LogEnd, l.Offsets().HighWatermark)
				require.NoError(t, d.stop())
			}
		})
	}
}

func TestWhatIsVisibleAfterARestartSurvivesAPowerCutRightAfterIt(t *testing.T) {
	for seed := range uint64(20) {
		d := newDisk(t)
		d.settings = flushOf("os")
		l := d.open(0)
		for i := range 30 {
			put(t, l, fmt.Sprint(i)) // only in the page cache
		}
		d.cutPower(seed)
		l = d.open(0)
		seen := values(t, l, ReadUncommitted)
		d.cutPower(seed + 100)
		l = d.open(0)
		require.Equal(t, seen, values(t, l, ReadUncommitted))
		require.NoError(t, d.stop())
	}
}

func TestF16_ARetryAfterARestartOrAPowerCutIsRecognised(t *testing.T) {
	rows := map[string]func(d *disk){
		"restart":   func(d *disk) { d.restart() },
		"power cut": func(d *disk) { d.cutPower(7) },
	}
	for name, stop := range rows {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			l := d.open(0)
			for sequence := range int32(10) {
				a, err := l.Append(t.Context(), produced(t, 1, 7, sequence), AppendOptions{})
				require.NoError(t, err)
				require.NoError(t, a.Wait(t.Context()))
				stop(d)
				l = d.open(0)

				a, err = l.Append(t.Context(), produced(t, 1, 7, sequence), AppendOptions{})
				require.NoError(t, err)
				require.NoError(t, a.Wait(t.Context()))
				require.True(t, a.Duplicate)
				require.Equal(t, int64(sequence), a.BaseOffset)
			}
			_, err := l.Append(t.Context(), produced(t, 1, 7, 12), AppendOptions{})
			require.ErrorIs(t, err, ErrOutOfOrderSequence)
			require.Equal(t, int64(10), l.Offsets().LogEnd)
			require.NoError(t, d.stop())
		})
	}
}

func TestF79_DeletedRecordsStayDeletedAfterAPowerCut(t *testing.T) {
	for seed := range uint64(20) {
		d := newDisk(t)
		l := d.open(0)
		for i := range 10 {
			put(t, l, fmt.Sprint(i))
		}
		start, err := l.DeleteRecords(7)
		require.NoError(t, err)
		require.Equal(t, int64(7), start)
		d.cutPower(seed)

		l = d.open(0)
		require.Equal(t, Offsets{LogStart: 7, LastStable: 10, HighWatermark: 10, LogEnd: 10, LeaderEpoch: 1}, l.Offsets())
		require.Equal(t, []string{"7:7", "8:8", "9:9"}, values(t, l, ReadUncommitted))
		_, err = l.Read(6, ReadUncommitted, 100, true)
		require.ErrorIs(t, err, ErrOffsetOutOfRange)
		require.NoError(t, d.stop())
	}
}

func TestReadsStopAtTheWatermarkAndSayWhatIsOutOfRange(t *testing.T) {
	d := newDisk(t)
	l := d.open(0)
	for i := range 3 {
		put(t, l, fmt.Sprint(i))
	}
	size := int64(len(one("0")))

	read, err := l.Read(1, ReadUncommitted, int(2*size), true)
	require.NoError(t, err)
	require.Equal(t, 2*size, read.Records.Len())
	require.Nil(t, read.Aborted)
	read.Records.Release()

	read, err = l.Read(1, ReadUncommitted, 1, true)
	require.NoError(t, err)
	require.Equal(t, size, read.Records.Len(), "at least one batch")
	read.Records.Release()

	read, err = l.Read(1, ReadUncommitted, 1, false)
	require.NoError(t, err)
	require.Zero(t, read.Records.Len())
	read, err = l.Read(3, ReadUncommitted, 100, true)
	require.NoError(t, err)
	require.Zero(t, read.Records.Len())
	require.Equal(t, int64(3), read.Offsets.HighWatermark)

	for _, offset := range []int64{-1, 4} {
		_, err = l.Read(offset, ReadUncommitted, 100, true)
		require.ErrorIs(t, err, ErrOffsetOutOfRange)
	}
	require.NoError(t, d.stop())
}

// transact appends a transaction of one record by the given producer, and its marker.
func transact(t *testing.T, l *Log, producer int64, sequence int32, value string, end func() batch.Batch) {
	t.Helper()
	b := batch.NewBuilder(batch.BuilderOptions{
		HasProducer: true, ProducerID: producer, BaseSequence: sequence, Transactional: true,
	})
	b.Add(time.Now().UnixMilli(), []byte("k"), []byte(value))
	built, err := b.Build()
	require.NoError(t, err)
	store := l.store.(*kafkalog.Log)
	_, err = store.Append(built, kafkalog.AppendOptions{Origin: kafkalog.Client})
	require.NoError(t, err)
	if end != nil {
		_, err = store.Append(end(), kafkalog.AppendOptions{Origin: kafkalog.Coordinator})
		require.NoError(t, err)
	}
	l.syncer.kick()
}

func marker(producer int64, commit bool) func() batch.Batch {
	return func() batch.Batch {
		return batch.EndMarker(batch.EndMarkerOptions{
			ProducerID: producer, Commit: commit, Timestamp: time.Now().UnixMilli(),
		})
	}
}

// settle waits until everything in the log is durable.
func settle(t *testing.T, l *Log) {
	t.Helper()
	for l.Offsets().HighWatermark < l.store.LogEnd() {
		w := NewWaker()
		l.Watch(w)
		if l.Offsets().HighWatermark < l.store.LogEnd() {
			<-w.C()
		}
		l.Unwatch(w)
	}
}

func TestF18_ListOffsetHonoursTheIsolation(t *testing.T) {
	d := newDisk(t)
	l := d.open(0)
	for i := range 10 {
		put(t, l, fmt.Sprint(i))
	}
	transact(t, l, 7, 0, "open", nil) // offset 10
	future := time.Now().Add(time.Minute).UnixMilli()
	b := batch.NewBuilder(batch.BuilderOptions{})
	for range 9 {
		b.Add(future, []byte("k"), []byte("later"))
	}
	built, err := b.Build()
	require.NoError(t, err)
	a, err := l.Append(t.Context(), built, AppendOptions{})
	require.NoError(t, err)
	require.NoError(t, a.Wait(t.Context()))

	list := func(ts int64, iso Isolation) ListedOffset {
		listed, err := l.ListOffset(ts, iso)
		require.NoError(t, err)
		return listed
	}
	require.Equal(t, ListedOffset{Offset: 20, Timestamp: -1}, list(Latest, ReadUncommitted))
	require.Equal(t, ListedOffset{Offset: 10, Timestamp: -1}, list(Latest, ReadCommitted))
	require.Equal(t, ListedOffset{Offset: 11, Timestamp: future}, list(future, ReadUncommitted))
	require.Equal(t, noOffset, list(future, ReadCommitted))
	require.Equal(t, noOffset, list(MaxTimestamp, ReadCommitted))
	require.Equal(t, ListedOffset{Offset: 11, Timestamp: future}, list(MaxTimestamp, ReadUncommitted))

	_, err = l.store.(*kafkalog.Log).Append(marker(7, true)(), kafkalog.AppendOptions{Origin: kafkalog.Coordinator})
	require.NoError(t, err)
	l.syncer.kick()
	settle(t, l)
	require.Equal(t, ListedOffset{Offset: 21, Timestamp: -1}, list(Latest, ReadCommitted))
	require.Equal(t, ListedOffset{Offset: 11, Timestamp: future}, list(future, ReadCommitted))
	require.NoError(t, d.stop())
}

func TestListOffsetKnowsEveryNamedOffset(t *testing.T) {
	d := newDisk(t)
	l := d.open(0)
	list := func(ts int64) ListedOffset {
		listed, err := l.ListOffset(ts, ReadUncommitted)
		require.NoError(t, err)
		return listed
	}
	require.Equal(t, ListedOffset{Offset: 0, Timestamp: -1}, list(Latest))
	require.Equal(t, noOffset, list(MaxTimestamp), "there is no record")
	require.Equal(t, noOffset, list(0))
	for i := range 5 {
		put(t, l, fmt.Sprint(i))
	}
	d.cutPower(1)
	l = d.open(0)
	put(t, l, "5") // under leader epoch 1
	_, err := l.DeleteRecords(2)
	require.NoError(t, err)

	require.Equal(t, ListedOffset{Offset: 6, Timestamp: -1, LeaderEpoch: 1}, list(Latest))
	require.Equal(t, ListedOffset{Offset: 2, Timestamp: -1}, list(Earliest))
	require.Equal(t, ListedOffset{Offset: 2, Timestamp: -1}, list(EarliestLocal))
	require.Equal(t, noOffset, list(LatestTiered))
	require.Equal(t, noOffset, list(EarliestPendingUpload))
	first := list(0)
	require.Equal(t, int64(2), first.Offset)
	require.Positive(t, first.Timestamp)
	_, err = l.ListOffset(-7, ReadUncommitted)
	require.ErrorIs(t, err, ErrInvalidArgument)

	epoch, end := l.EndOffsetForEpoch(0)
	require.Equal(t, []int64{0, 5}, []int64{int64(epoch), end})
	require.NoError(t, l.CheckLeaderEpoch(-1))
	require.NoError(t, l.CheckLeaderEpoch(1))
	require.ErrorIs(t, l.CheckLeaderEpoch(0), ErrFenced)
	require.ErrorIs(t, l.CheckLeaderEpoch(2), ErrUnknownLeaderEpoch)
	require.NoError(t, d.stop())
}

func TestCommittedReadersAreToldWhatWasAborted(t *testing.T) {
	d := newDisk(t)
	l := d.open(0)
	put(t, l, "plain")
	transact(t, l, 7, 0, "aborted", marker(7, false))  // offsets 1, 2
	transact(t, l, 8, 0, "committed", marker(8, true)) // offsets 3, 4
	transact(t, l, 9, 0, "open", nil)                  // offset 5
	settle(t, l)

	read, err := l.Read(0, ReadCommitted, 1<<20, true)
	require.NoError(t, err)
	require.Equal(t, Offsets{LastStable: 5, HighWatermark: 6, LogEnd: 6}, read.Offsets)
	require.Equal(t, []AbortedTxn{{ProducerID: 7, FirstOffset: 1}}, read.Aborted)
	read.Records.Release()

	read, err = l.Read(3, ReadCommitted, 1<<20, true)
	require.NoError(t, err)
	require.Equal(t, []AbortedTxn{}, read.Aborted)
	read.Records.Release()
	require.Equal(t, []string{"0:plain", "1:aborted", "3:committed"}, values(t, l, ReadCommitted))
	require.NoError(t, d.stop())
}

func TestF10_AFailedFsyncEndsTheLogUntilItIsOpenedAgain(t *testing.T) {
	d := newDisk(t)
	l, other := d.open(0), d.open(1)
	put(t, l, "kept")
	d.faults.SetInjector(faultfs.FailMatching(faultfs.OpSync, "data/orders-0/*.log", errDevice))
	a, err := l.Append(t.Context(), one("lost"), AppendOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, a.Wait(t.Context()), ErrStorage)

	d.faults.SetInjector(nil) // the device works again
	_, err = l.Append(t.Context(), one("refused"), AppendOptions{})
	require.ErrorIs(t, err, ErrStorage)
	require.Equal(t, []string{"0:kept"}, values(t, l, ReadUncommitted))
	put(t, other, "elsewhere")

	require.ErrorIs(t, d.stop(), ErrStorage)
	d.clean = false
	d.boot()
	l = d.open(0)
	require.Equal(t, "0:kept", values(t, l, ReadUncommitted)[0])
	next := put(t, l, "after")
	require.Equal(t, l.Offsets().LogEnd-1, next.BaseOffset)
	require.NoError(t, d.stop())
}

func TestF44_RecordsFromTheFutureAreRefusedUnlessTheTopicTakesThem(t *testing.T) {
	tenYears := time.Now().AddDate(10, 0, 0)
	future := func(ts int64) []byte {
		b := batch.NewBuilder(batch.BuilderOptions{})
		b.Add(ts, []byte("k"), []byte("from the future"))
		built, err := b.Build()
		require.NoError(t, err)
		return bytes.Clone(built)
	}
	d := newDisk(t)
	l := d.open(0)
	for _, ts := range []int64{tenYears.UnixMilli(), time.Now().UnixMicro()} {
		_, err := l.Append(t.Context(), future(ts), AppendOptions{})
		var invalid *batch.ValidationError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, batch.InvalidTimestamp, invalid.Kind)
	}

	// A topic that takes them keeps them from retention by age, says so, and still bounds its size.
	l.SetConfig(newSettingsOf(t, map[string]string{
		"message.timestamp.after.max.ms": "9223372036854775807", "retention.ms": "60000",
	}))
	a, err := l.Append(t.Context(), future(tenYears.UnixMilli()), AppendOptions{})
	require.NoError(t, err)
	require.NoError(t, a.Wait(t.Context()))
	later := time.Now().Add(time.Hour)
	require.Empty(t, d.future)
	l.retain(later)
	require.Equal(t, []string{"data/orders-0"}, d.future)
	require.Zero(t, l.Offsets().LogStart)

	l.SetConfig(newSettingsOf(t, map[string]string{"retention.bytes": "0"}))
	l.retain(later)
	require.Equal(t, int64(1), l.Offsets().LogStart)
	require.NoError(t, d.stop())
}

func TestF57_DeletingALogUnderWriteDisturbsNobody(t *testing.T) {
	d := newDisk(t)
	other := d.open(1)
	for i := range 200 {
		l := d.open(0)
		put(t, l, "kept by nobody")
		var writer sync.WaitGroup
		writer.Go(func() {
			for {
				a, err := l.Append(t.Context(), one("more"), AppendOptions{})
				if err == nil {
					err = a.Wait(t.Context())
				}
				if err != nil {
					require.ErrorIs(t, err, ErrDeleted)
					return
				}
			}
		})
		held, err := l.Read(0, ReadUncommitted, 100, true)
		require.NoError(t, err)
		require.NoError(t, l.Remove(func() (string, error) {
			dir := fmt.Sprintf("data/orders-0.%032d-delete", i)
			return dir, d.faults.Rename("data/orders-0", dir)
		}))
		writer.Wait()
		_, err = l.Read(0, ReadUncommitted, 100, true)
		require.ErrorIs(t, err, ErrDeleted)
		raw, err := held.Records.AppendTo(nil)
		require.NoError(t, err, "who holds records may go on reading them")
		require.Equal(t, int64(len(raw)), held.Records.Len())
		held.Records.Release()
		put(t, other, "undisturbed")
	}
	require.NoError(t, other.Failed())
	d.logs = d.logs[:1]
	require.NoError(t, d.stop())
}
