package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// journaledDisk is a machine whose appends go through a journal of so many bytes.
func journaledDisk(t *testing.T, bytes int64) *disk {
	d := newDisk(t)
	require.NoError(t, d.stop())
	d.journal = bytes
	d.boot()
	return d
}

// openAll opens logs that have their first record, whose sync makes their names durable.
func (d *disk) openAll(n int32) []*Log {
	var logs []*Log
	for i := range n {
		l := d.open(i)
		if l.Offsets().LogEnd == 0 {
			put(d.t, l, "first")
		}
		logs = append(logs, l)
	}
	return logs
}

// acknowledged is what producers were told, for each log, as offset:value.
type acknowledged map[int32][]string

// produce appends a record to each of the logs and waits for the answers, n times. A log that refuses one gets no more.
func (a acknowledged) produce(t *testing.T, logs []*Log, n int, tag string) {
	refused := map[*Log]bool{}
	for i := range n {
		value := fmt.Sprintf("%s-%d-%s", tag, i, strings.Repeat("v", i*7%500))
		waiting := map[*Log]*Append{}
		for _, l := range logs {
			if refused[l] {
				continue
			}
			done, err := l.Append(t.Context(), one(value), AppendOptions{Acks: -1})
			if refused[l] = err != nil; err == nil {
				waiting[l] = done
			}
		}
		for l, done := range waiting {
			if refused[l] = done.Wait(t.Context()) != nil; !refused[l] {
				a[l.Index()] = append(a[l.Index()], fmt.Sprintf("%d:%s", done.BaseOffset, value))
			}
		}
	}
}

// kept makes sure that the logs have what was acknowledged, each record once and in its place.
func (a acknowledged) kept(t *testing.T, logs []*Log) {
	t.Helper()
	for _, l := range logs {
		there := values(t, l, ReadUncommitted)
		for i, record := range there {
			require.True(t, strings.HasPrefix(record, fmt.Sprintf("%d:", i)), "%s: %s is at %d", l, record, i)
		}
		require.Subset(t, there, a[l.Index()], "%s", l)
	}
}

func syncsOf(calls *faultfs.Trace) (logs, journal int) {
	for line := range strings.Lines(calls.String()) {
		switch {
		case !strings.HasPrefix(line, "sync "):
		case strings.Contains(line, journalFile):
			journal++
		case strings.Contains(line, ".log"):
			logs++
		}
	}
	return logs, journal
}

const journalFile = "tidemark.journal"

func TestTheJournalSyncsManyLogsAtOnce(t *testing.T) {
	d := journaledDisk(t, 1<<20)
	logs := d.openAll(8)
	require.NoError(t, vfsAbsent(d.mem, journalFile), "the first append to a log makes its file durable")
	calls := d.faults.Trace(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSync })
	a := acknowledged{}
	a.produce(t, logs, 20, "a")
	inLogs, inJournal := syncsOf(calls)
	require.Zero(t, inLogs)
	require.Positive(t, inJournal)
	stats := d.flusher.Stats()
	require.Equal(t, int64(inJournal-1), stats.JournalRounds, "and one sync of its header")
	require.Positive(t, stats.JournalBytes)
	require.False(t, stats.JournalGivenUp)
	for _, l := range logs {
		require.Equal(t, Checkpoint{RecoveryPoint: 1, HighWatermark: 21}, l.Checkpoint())
	}
	a.kept(t, logs)
	require.NoError(t, d.stop())
	require.NoError(t, vfsAbsent(d.mem, journalFile), "a directory that was closed in order is as Kafka leaves it")
}

// vfsAbsent returns an error if the file of the data directory is there.
func vfsAbsent(m *memfs.FS, name string) error {
	if _, err := m.Stat("data/" + name); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, errors.Join(err, fs.ErrExist))
	}
	return nil
}

func TestF01_WhatTheJournalAcknowledgedSurvivesPowerCuts(t *testing.T) {
	for seed := range uint64(25) {
		// A journal this small goes from side to side all the time.
		d := journaledDisk(t, 64<<10)
		d.settings = map[string]string{"segment.bytes": "1048576"}
		a := acknowledged{}
		for life := range 3 {
			logs := d.openAll(6)
			a.kept(t, logs)
			a.produce(t, logs, 30, fmt.Sprintf("life%d", life))
			for _, l := range logs {
				_, err := l.Append(t.Context(), one("unacknowledged"), AppendOptions{Acks: -1})
				require.NoError(t, err)
			}
			d.cutPower(seed*10 + uint64(life))
		}
		a.kept(t, d.openAll(6))
		require.NoError(t, d.stop())
	}
}

// Several appends of any size ride on one round, and some are sent twice: the journal has what the file has, whether it was handed
// the bytes or read them.
func TestF01_RoundsOfSeveralAppendsSurvivePowerCuts(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 2))
		d := journaledDisk(t, 256<<10)
		logs := d.openAll(5)
		want := map[*Log][]string{}
		for range 15 {
			var waiting []*Append
			for _, l := range logs {
				for range rng.IntN(4) {
					value := strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(1500))
					done, err := l.Append(t.Context(), one(value), AppendOptions{Acks: -1})
					require.NoError(t, err)
					want[l] = append(want[l], fmt.Sprintf("%d:%s", done.BaseOffset, value))
					waiting = append(waiting, done)
				}
			}
			for _, done := range waiting {
				require.NoError(t, done.Wait(t.Context()))
			}
		}
		require.Positive(t, d.flusher.Stats().JournalBytes)
		d.cutPower(seed)
		for _, l := range logs {
			require.Equal(t, want[l], values(t, d.open(l.Index()), ReadUncommitted)[1:], "seed %d, %s", seed, l)
		}
		require.NoError(t, d.stop())
	}
}

// copiesOf returns what a round of a log hands to the journal for a tail, and what is in the file.
func copiesOf(t *testing.T, r *round, l *Log) (handed, stored []byte) {
	tail, ok := l.unsyncedTail()
	require.True(t, ok)
	handed, err := r.appendTail(tail)(nil)
	require.NoError(t, err)
	stored, err = tail.AppendTo(nil)
	require.NoError(t, err)
	return handed, stored
}

func TestACopyIsTheEndOfTheFileOrIsNotUsed(t *testing.T) {
	d := newDisk(t)
	d.settings = map[string]string{"tidemark.flush": "os"} // so that nothing is synced here
	l := d.open(0)
	put(t, l, "first")
	_, err := l.syncStore()
	require.NoError(t, err)
	write := func(r *round, value string) batch.Batch {
		b := batch.Batch(one(value))
		_, err := l.Append(t.Context(), b, AppendOptions{})
		require.NoError(t, err)
		if r != nil {
			r.copyBatch(b)
		}
		return b
	}
	same := func(r *round, copied bool) {
		t.Helper()
		require.Equal(t, copied, r.copied != nil)
		handed, stored := copiesOf(t, r, l)
		require.Equal(t, stored, handed)
		r.dropCopy()
	}
	r := &round{}
	write(r, "a")
	write(r, "bb")
	r.copyBatch(nil) // a duplicate
	same(r, true)

	write(nil, "of no round") // the tail begins before what the round has
	r = &round{}
	write(r, "c")
	same(r, true)

	_, err = l.syncStore()
	require.NoError(t, err)
	r = &round{}
	write(r, "d")
	write(nil, "of no round, and as long")
	write(r, "e")
	same(r, false)

	r = &round{}
	write(r, strings.Repeat("f", copiedBytes-100))
	write(r, "g")
	write(r, strings.Repeat("h", 200))
	same(r, false)
	require.NoError(t, d.stop())
}

// TestF01_APowerCutAtAnyCallLosesNothingThatTheJournalAcknowledged cuts the power before the n-th call that changes the
// disk, for every n, and once more at a random call of the start that follows.
func TestF01_APowerCutAtAnyCallLosesNothingThatTheJournalAcknowledged(t *testing.T) {
	for n := 0; ; n++ {
		d := journaledDisk(t, 64<<10)
		logs := d.openAll(3)
		var calls atomic.Int64
		mem := d.mem
		d.faults.SetInjector(faultfs.When(faultfs.Writes, func(faultfs.Op) faultfs.Fault {
			if calls.Add(1) > int64(n) {
				return faultfs.Fault{Err: memfs.ErrKilled}
			}
			return faultfs.Fault{}
		}))
		a := acknowledged{}
		a.produce(t, logs, 4, "a")
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		crash := func() {
			d.mem = mem.Crash(memfs.CrashOptions{Seed: rng.Uint64(), KeepUnsynced: rng.Float64(), Torn: true})
		}
		mem.Kill()
		_ = d.stop() // fails: the disk is gone
		crash()

		// A replay that is cut short is done again.
		mem = d.mem
		again := rng.IntN(10)
		faulty := faultfs.New(mem, faultfs.When(faultfs.Writes, faultfs.FailFrom(again, memfs.ErrKilled)))
		_, _ = ReplayJournal(faulty, "data", d.find, nil) // fails, mostly
		mem.Kill()
		crash()

		d.clean = false
		d.epoch++
		d.boot()
		a.kept(t, d.openAll(3))
		require.NoError(t, d.stop())
		if calls.Load() <= int64(n) {
			require.Greater(t, n, 10)
			return
		}
	}
}

func TestF10_WhenTheJournalFailsEveryLogIsSyncedByItself(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.OpCreate, faultfs.OpWriteAt, faultfs.OpSync} {
		d := journaledDisk(t, 64<<10)
		logs := d.openAll(4)
		var failures []error
		d.flusher.journal.options.Failed = func(err error) { failures = append(failures, err) }
		d.faults.SetInjector(faultfs.FailMatching(kind, "data/"+journalFile, errDevice))
		a := acknowledged{}
		a.produce(t, logs, 10, "a")
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], errDevice)
		require.True(t, d.flusher.Stats().JournalGivenUp)
		for i, l := range logs {
			require.Len(t, a[int32(i)], 10)
			require.NoError(t, l.Failed())
		}
		d.cutPower(1)
		a.kept(t, d.openAll(4))
		require.NoError(t, d.stop())
	}
}

func TestF10_ALogThatCannotBeSyncedKeepsWhatTheJournalHasOfItAndNotTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := journaledDisk(t, 64<<10)
		logs := d.openAll(6)
		var aside []JournalSetAside
		d.flusher.journal.options.SetAside = func(s JournalSetAside) { aside = append(aside, s) }
		broken := map[int32]bool{}
		d.faults.SetInjector(faultfs.When(func(op faultfs.Op) bool {
			var index int32
			_, err := fmt.Sscanf(op.Name, "data/orders-%d/", &index)
			return op.Kind == faultfs.OpSync && err == nil && broken[index]
		}, faultfs.Always(faultfs.Fault{Err: errDevice, Drop: true})))
		a := acknowledged{}
		for _, index := range []int32{2, 4} {
			a.produce(t, logs, 5, fmt.Sprint("before ", index))
			synctest.Wait() // nothing is being settled
			broken[index] = true
			a.produce(t, logs, 200, fmt.Sprint("after ", index)) // more than a side has room for, so the logs are synced
			require.ErrorIs(t, logs[index].Failed(), ErrStorage)
			synctest.Wait()
		}
		stats := d.flusher.Stats()
		require.False(t, stats.JournalGivenUp)
		require.Positive(t, stats.JournalAside)
		a.produce(t, logs, 20, "at last")
		synctest.Wait()
		require.Greater(t, d.flusher.Stats().JournalRounds, stats.JournalRounds, "the others have the journal")
		require.Len(t, a[1], 430)
		require.NotEmpty(t, a[2])
		require.NotEmpty(t, a[4])
		require.GreaterOrEqual(t, len(aside), 2)
		for _, s := range aside {
			require.ErrorIs(t, s.Err, ErrStorage)
			require.NoError(t, vfsPresent(d.mem, s.File))
			require.Equal(t, 1, s.Logs)
		}
		d.cutPower(3)
		a.kept(t, d.openAll(6))
		require.NoError(t, d.stop())
		require.NoError(t, vfsAbsent(d.mem, journalFile+".failed-1"))
	})
}

// vfsPresent returns an error if the file of the data directory is not there.
func vfsPresent(m *memfs.FS, name string) error {
	_, err := m.Stat("data/" + name)
	return err
}

// TestF10_FailuresOfManyLogsOverTimeLoseNothing has the syncs of random logs fail, and now and then what is written when that
// happens, and cuts the power at any moment.
func TestF10_FailuresOfManyLogsOverTimeLoseNothing(t *testing.T) {
	aside, gaveUp := int64(0), 0
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 9))
			d := journaledDisk(t, 64<<10)
			logs := d.openAll(8)
			var mu sync.Mutex
			broken := map[string]bool{}
			calls, killAt := 0, 50+rng.IntN(400)
			if seed < 5 { // or at the end
				killAt = math.MaxInt
			}
			d.faults.SetInjector(func(op faultfs.Op) faultfs.Fault {
				if !op.Kind.IsWrite() {
					return faultfs.Fault{}
				}
				mu.Lock()
				defer mu.Unlock()
				if calls++; calls > killAt {
					return faultfs.Fault{Err: memfs.ErrKilled}
				}
				if op.Kind == faultfs.OpSync && broken[op.Name] || seed%4 == 0 && strings.Contains(op.Name, "journal.failed") {
					return faultfs.Fault{Err: errDevice, Drop: true}
				}
				return faultfs.Fault{}
			})
			a := acknowledged{}
			for i := range 6 {
				a.produce(t, logs, 30, fmt.Sprint(i))
				mu.Lock()
				broken[fmt.Sprintf("data/orders-%d/%020d.log", rng.IntN(8), 0)] = true
				mu.Unlock()
			}
			synctest.Wait() // nothing is being settled
			stats := d.flusher.Stats()
			aside += stats.JournalAside
			if stats.JournalGivenUp {
				gaveUp++
			}
			d.cutPower(seed)
			a.kept(t, d.openAll(8))
			require.NoError(t, d.stop())
		})
	}
	require.Positive(t, aside)
	require.Positive(t, gaveUp, "where the device takes nothing at all")
}

func TestF10_AFullDiskKeepsASideUntilThereIsRoomForWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := journaledDisk(t, 64<<10)
		logs := d.openAll(4)
		var full atomic.Bool
		full.Store(true)
		d.faults.SetInjector(faultfs.First(
			faultfs.FailMatching(faultfs.OpSync, "data/orders-2/*.log", errDevice),
			faultfs.When(func(op faultfs.Op) bool {
				return full.Load() && strings.Contains(op.Name, "journal.failed") && op.Kind.IsWrite()
			},
				faultfs.Always(faultfs.Fault{Err: syscall.ENOSPC})),
		))
		a := acknowledged{}
		a.produce(t, logs, 400, "a")
		synctest.Wait()
		require.True(t, d.flusher.journal.full.Load(), "no side is free")
		require.False(t, d.flusher.Stats().JournalGivenUp)
		require.Zero(t, d.flusher.Stats().JournalAside)
		full.Store(false)
		<-time.After(2 * syncRetryDelay) // of the bubble
		synctest.Wait()
		require.False(t, d.flusher.journal.full.Load())
		require.Positive(t, d.flusher.Stats().JournalAside)
		rounds := d.flusher.Stats().JournalRounds
		a.produce(t, logs, 5, "b")
		require.Greater(t, d.flusher.Stats().JournalRounds, rounds)
		require.Len(t, a[0], 405)
		d.mem.Kill()
		_ = d.stop() // fails: the disk is gone
		d.mem = d.mem.Crash(memfs.CrashOptions{Seed: 1, KeepUnsynced: 0.5, Torn: true})
		d.clean = false
		d.boot()
		a.kept(t, d.openAll(4))
		require.NoError(t, d.stop())
	})
}

func TestF10_TheJournalEndsWhenTooMuchOfItWouldBeSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := journaledDisk(t, 64<<10)
		logs := d.openAll(3)
		d.flusher.journal.files = setAsideFiles
		var failures []error
		d.flusher.journal.options.Failed = func(err error) { failures = append(failures, err) }
		d.faults.SetInjector(faultfs.FailMatching(faultfs.OpSync, "data/orders-2/*.log", errDevice))
		a := acknowledged{}
		a.produce(t, logs, 300, "a")
		synctest.Wait()
		require.True(t, d.flusher.Stats().JournalGivenUp)
		require.Len(t, a[0], 300)
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], journal.ErrTooMuch)
		require.ErrorIs(t, failures[0], errDevice)
		d.cutPower(4)
		a.kept(t, d.openAll(3))
		require.NoError(t, d.stop())
	})
}

func TestALogMayBeDeletedWhileTheJournalHoldsSomethingOfIt(t *testing.T) {
	d := journaledDisk(t, 64<<10)
	logs := d.openAll(3)
	a := acknowledged{}
	a.produce(t, logs, 5, "a")
	require.NoError(t, logs[2].Remove(func() (string, error) {
		return "data/orders-2.gone-delete", d.mem.Rename("data/orders-2", "data/orders-2.gone-delete")
	}))
	a.produce(t, logs[:2], 200, "b") // both sides are used again
	d.logs = d.logs[:2]
	d.cutPower(5)
	a.kept(t, d.openAll(2))
	require.NoError(t, vfsAbsent(d.mem, "orders-2"), "nothing of it comes back")
	require.NoError(t, d.stop())
}

// TestALogThatIsIdleIsNotLeftToTheJournal has one log go on, so slowly that no side of the journal is ever full.
func TestALogThatIsIdleIsNotLeftToTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := journaledDisk(t, 1<<20)
		logs := d.openAll(4)
		a := acknowledged{}
		a.produce(t, logs, 2, "a")
		calls := d.faults.Trace(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSync })
		for range 20 {
			<-time.After(10 * time.Second)
			a.produce(t, logs[:1], 1, "b")
		}
		inLogs, _ := syncsOf(calls)
		require.Equal(t, 3, inLogs, "once each")
		require.Less(t, logs[0].Checkpoint().RecoveryPoint, logs[0].Offsets().LogEnd, "the journal has it")
		for _, l := range logs[1:] {
			require.Equal(t, Checkpoint{RecoveryPoint: 3, HighWatermark: 3}, l.Checkpoint())
		}
		require.NoError(t, d.stop())
	})
}

func TestWhatDoesNotFitIntoARoundGoesIntoTheNext(t *testing.T) {
	d := journaledDisk(t, 512<<10) // rounds of 64 KiB
	logs := d.openAll(20)
	calls := d.faults.Trace(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSync })
	value := strings.Repeat("v", 5<<10)
	var waiting []*Append
	for _, l := range logs {
		a, err := l.Append(t.Context(), one(value), AppendOptions{Acks: -1})
		require.NoError(t, err)
		waiting = append(waiting, a)
	}
	for _, a := range waiting {
		require.NoError(t, a.Wait(t.Context()))
	}
	inLogs, inJournal := syncsOf(calls)
	require.Positive(t, inJournal)
	require.Zero(t, inLogs)
	require.NoError(t, d.stop())
}

func TestLargeAppendsAndCompactedTopicsGoPastTheJournal(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"large": nil, "compacted": {"cleanup.policy": "compact"},
	} {
		t.Run(name, func(t *testing.T) {
			d := journaledDisk(t, 1<<20)
			d.settings = settings
			l := d.openAll(1)[0]
			calls := d.faults.Trace(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSync })
			a, err := l.Append(t.Context(), large(7, 0), AppendOptions{Acks: -1})
			require.NoError(t, err)
			require.NoError(t, a.Wait(t.Context()))
			inLogs, _ := syncsOf(calls)
			require.Equal(t, 1, inLogs)
			require.NoError(t, d.stop())
		})
	}
}

func TestAJournalOfAnotherVersionIsLeftAsItIs(t *testing.T) {
	d := journaledDisk(t, 64<<10)
	a := acknowledged{}
	a.produce(t, d.openAll(2), 3, "a")
	d.mem.Kill()
	_ = d.stop() // fails: the disk is gone
	d.mem = d.mem.CrashClean()
	before, err := vfs.ReadFile(d.mem, "data/"+journalFile)
	require.NoError(t, err)
	changed := append([]byte(nil), before...)
	changed[11] = 2
	file, err := d.mem.Open("data/"+journalFile, vfs.ReadWrite)
	require.NoError(t, err)
	defer file.Close()
	_, err = file.WriteAt(changed, 0)
	require.NoError(t, err)
	_, err = ReplayJournal(d.mem, "data", d.find, nil)
	var version *journal.VersionError
	require.ErrorAs(t, err, &version)
	require.Equal(t, journal.VersionError{File: "data/" + journalFile, Found: 2, Known: 1}, *version)
	after, err := vfs.ReadFile(d.mem, "data/"+journalFile)
	require.NoError(t, err)
	require.Equal(t, changed, after)
}

func TestWhatGathersInALogIsWrittenBackInLargePieces(t *testing.T) {
	f := NewFlusher(FlusherOptions{})
	defer f.Close()
	s := &syncer{}
	keep := func(base, position, size int64) []kafkalog.Tail {
		return f.keep([]rider{{syncer: s, tail: kafkalog.Tail{Base: base, Position: position, Size: size}}})
	}
	const half = writeBackBytes / 2
	require.Empty(t, keep(0, 0, half))
	require.Equal(t, []kafkalog.Tail{{Position: 0, Size: 2 * half}}, keep(0, half, half))
	require.Empty(t, keep(0, 2*half, half))
	require.Empty(t, keep(0, 4*half, half), "what lies between was synced alone")
	require.Equal(t, []kafkalog.Tail{{Position: 4 * half, Size: 2 * half}}, keep(0, 5*half, half))
	require.Empty(t, keep(0, 6*half, half))
	require.Empty(t, keep(9, 7*half, half), "another segment")
	require.Equal(t, []kafkalog.Tail{{Base: 9, Position: 7 * half, Size: 2 * half}}, keep(9, 8*half, half))
}
