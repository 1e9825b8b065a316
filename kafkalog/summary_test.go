package kafkalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// goldenSummaries are the summaries of the files in testdata/format.
func goldenSummaries() map[string]*Summary {
	producer := producerEntry{coordinatorEpoch: 7, lastTimestamp: 1700000000020, txnFirst: 2, retained: 2}
	producer.batches[0] = retainedBatch{lastSequence: 0, lastOffset: 1, timestamp: 1700000000010}
	producer.batches[1] = retainedBatch{lastSequence: 1, lastOffset: 2, timestamp: 1700000000020}
	return map[string]*Summary{
		"summary": {
			base: 4711, size: 70_000, modified: 1700000000123456789, indexEntries: 16, timeEntries: 9,
			maxTimestamp: 1700000000020, maxOffset: 4800, firstStamp: 1700000000001, end: 4812, segments: 3, bytes: 2_170_000,
		},
		"summary-young": {
			young: true, size: 210, modified: 1700000000123456789, maxTimestamp: 1700000000020, maxOffset: 2,
			firstStamp: unknownStamp, end: 3, segments: 1, bytes: 210,
			epochs:    []EpochEntry{{Epoch: 0, Start: 0}, {Epoch: 5, Start: 2}},
			producers: []summarisedProducer{{1000, producer}},
		},
	}
}

func TestASummaryHasItsBytes(t *testing.T) {
	for name, s := range goldenSummaries() {
		golden := formatBytes(t, name)
		require.Equal(t, golden, summaryBytes(t, s), name)
		decoded := new(Summary)
		require.NoError(t, decoded.UnmarshalBinary(golden))
		require.Equal(t, s, decoded, name)
	}
}

func summaryBytes(t require.TestingT, s *Summary) []byte {
	data, err := s.MarshalBinary()
	require.NoError(t, err)
	return data
}

func TestEveryFlippedBitOfASummaryIsFound(t *testing.T) {
	golden := formatBytes(t, "summary-young")
	for bit := range len(golden) * 8 {
		data := bytes.Clone(golden)
		data[bit/8] ^= 1 << (bit % 8)
		require.True(t, damaged(new(Summary).UnmarshalBinary(data)), "bit %d", bit)
	}
	for n := range golden {
		require.True(t, damaged(new(Summary).UnmarshalBinary(golden[:n])), "%d bytes", n)
	}
}

// resealedSummary returns the bytes with a change and a checksum that fits again.
func resealedSummary(data []byte, change func(data []byte) []byte) []byte {
	data = change(bytes.Clone(data))
	binary.BigEndian.PutUint32(data[6:], summaryCRC(data))
	return data
}

func TestASummaryThatNobodyWroteIsRefused(t *testing.T) {
	for name, change := range map[string]func(s *Summary){
		"a negative base":              func(s *Summary) { s.base, s.end = -1, 3 },
		"an end below the base":        func(s *Summary) { s.young, s.epochs, s.producers, s.base = false, nil, nil, 4 },
		"no end":                       func(s *Summary) { s.end = math.MaxInt64 },
		"a negative size":              func(s *Summary) { s.size, s.bytes = -1, -1 },
		"more in one than in all":      func(s *Summary) { s.bytes-- },
		"no segment":                   func(s *Summary) { s.segments = 0 },
		"two segments":                 func(s *Summary) { s.segments = 2 },
		"too much for a young log":     func(s *Summary) { s.size, s.bytes = youngBytes+1, youngBytes+1 },
		"index entries of a young log": func(s *Summary) { s.indexEntries = 1 },
		"an old log with epochs":       func(s *Summary) { s.young = false },
		"a timestamp behind the end":   func(s *Summary) { s.maxOffset = 3 },
		"a negative timestamp":         func(s *Summary) { s.maxTimestamp = -2 },
		"an epoch twice":               func(s *Summary) { s.epochs[1].Epoch = 0 },
		"an epoch behind the end":      func(s *Summary) { s.epochs[1].Start = 4 },
		"a producer twice":             func(s *Summary) { s.producers = append(s.producers, s.producers[0]) },
		"a negative producer":          func(s *Summary) { s.producers[0].id = -1 },
		"a transaction behind the end": func(s *Summary) { s.producers[0].entry.txnFirst = 3 },
		"a batch behind the end":       func(s *Summary) { s.producers[0].entry.batches[1].lastOffset = 3 },
		"batches that run backwards":   func(s *Summary) { s.producers[0].entry.batches[0].lastOffset = 2 },
		"a batch below 0":              func(s *Summary) { s.producers[0].entry.batches[0].offsetDelta = 2 },
	} {
		s := goldenSummaries()["summary-young"]
		change(s)
		require.True(t, damaged(new(Summary).UnmarshalBinary(summaryBytes(t, s))), name)
	}
	golden := formatBytes(t, "summary-young")
	for name, change := range map[string]func(b []byte) []byte{
		"a byte too many":      func(b []byte) []byte { return append(b, 0) },
		"an unknown flag":      func(b []byte) []byte { b[11] |= 2; return b },
		"a huge count":         func(b []byte) []byte { copy(b[100:], "\xff\xff\xff\xff"); return b },
		"too many epochs":      func(b []byte) []byte { b[103] = 9; return b },
		"too many producers":   func(b []byte) []byte { b[131] = 2; return b },
		"too many batches":     func(b []byte) []byte { b[162] = 6; return b },
		"fewer batches":        func(b []byte) []byte { b[162] = 1; return b },
		"half a last producer": func(b []byte) []byte { return b[:len(b)-30] },
	} {
		require.True(t, damaged(new(Summary).UnmarshalBinary(resealedSummary(golden, change))), name)
	}
	newer := resealedSummary(golden, func(b []byte) []byte { b[5] = 1; return b })
	require.Equal(t, &UnsupportedVersionError{Artifact: "summary", Path: "of a log", Position: 4, Found: 1},
		new(Summary).UnmarshalBinary(newer))
}

func FuzzSummary(f *testing.F) {
	for name := range goldenSummaries() {
		f.Add(formatBytes(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 10 {
			data = resealedSummary(data, func(b []byte) []byte { return b })
		}
		s := new(Summary)
		if s.UnmarshalBinary(data) == nil {
			require.Equal(t, data, summaryBytes(t, s))
		}
	})
}

// summarised closes the log and returns its summary as it comes out of a file.
func summarised(t require.TestingT, l *Log) *Summary {
	require.NoError(t, l.Sync())
	_, open := l.Summary()
	require.False(t, open, "not before it is closed")
	require.NoError(t, l.Close())
	s, ok := l.Summary()
	require.True(t, ok, "%s", l)
	read := new(Summary)
	require.NoError(t, read.UnmarshalBinary(summaryBytes(t, s)))
	return read
}

// countReads counts the bytes that are read of record files.
func countReads(fsys vfs.FS) (*faultfs.FS, *atomic.Int64) {
	read := new(atomic.Int64)
	return faultfs.New(fsys, func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.OpReadAt && isLogName(op.Name) {
			read.Add(op.Len)
		}
		return faultfs.Fault{}
	}), read
}

// lives are logs of all kinds, by what was done to them.
var lives = map[string]func(t require.TestingT, l *Log){
	"one batch":                  func(t require.TestingT, l *Log) { mustAppend(t, l, data{}) },
	"young":                      func(t require.TestingT, l *Log) { young(t, l, 0) },
	"transactions":               func(t require.TestingT, l *Log) { l.SetConfig(largeSegments()); transactions(t, l) },
	"transactions over segments": func(t require.TestingT, l *Log) { transactions(t, l) },
	"no longer young": func(t require.TestingT, l *Log) {
		l.SetConfig(largeSegments())
		mustAppend(t, l, data{size: 2 * youngBytes, producer: 7, ts: epochMs + 5})
		mustAppend(t, l, data{size: 100, producer: 7, sequence: 1})
	},
	"segments":       func(t require.TestingT, l *Log) { fill(t, l, 14) },
	"without a time": func(t require.TestingT, l *Log) { mustAppend(t, l, data{ts: -1}) },
	"an empty active segment": func(t require.TestingT, l *Log) {
		fill(t, l, 14)
		_, err := l.Roll()
		require.NoError(t, err)
	},
	"trimmed": func(t require.TestingT, l *Log) {
		fill(t, l, 14)
		_, err := l.TrimTo(17)
		require.NoError(t, err)
	},
	"truncated": func(t require.TestingT, l *Log) {
		fill(t, l, 14)
		require.NoError(t, l.TruncateTo(24))
		mustAppend(t, l, data{})
	},
	"reset": func(t require.TestingT, l *Log) {
		fill(t, l, 14)
		require.NoError(t, l.ResetTo(100))
	},
	"reset and written to": func(t require.TestingT, l *Log) {
		require.NoError(t, l.ResetTo(100))
		young(t, l, 100)
	},
}

func largeSegments() Config {
	c := smallSegments()
	c.SegmentBytes = 1 << 20
	return c
}

// young appends a few batches of several producers and leader epochs from an offset on.
func young(t require.TestingT, l *Log, from int64) {
	l.SetConfig(largeSegments())
	for i := range int32(7) {
		require.NoError(t, l.AssignEpoch(i/3, l.LogEnd()))
		_, err := l.Append(data{producer: 5, sequence: i, ts: epochMs + int64(10-i), seed: int(i)}.build(t), AppendOptions{LeaderEpoch: i / 3})
		require.NoError(t, err)
	}
	mustAppend(t, l, data{producer: 9, epoch: 2, txn: true})
	mustAppend(t, l, data{})
	require.Equal(t, from+9, l.LogEnd())
}

func TestF77_AnOpenWithASummaryReadsNoRecord(t *testing.T) {
	for name, live := range lives {
		t.Run(name, func(t *testing.T) {
			disk, read := countReads(memfs.New())
			b := newBenchOn(t, disk)
			l := b.open(Options{Config: smallSegments()})
			live(t, l)
			l.LastStable(l.LogEnd()) // as a start does, which shows everything
			was, producers := logState(t, l), l.RecoveredProducers()
			stamp, found, err := l.MaxTimestampOffset()
			require.NoError(t, err)
			for range 2 { // the second summary is made of the first
				s := summarised(t, l)
				read.Store(0)
				l = b.open(Options{Config: smallSegments(), Clean: true, Summary: s})
				require.Zero(t, read.Load())
				require.Equal(t, l.LogEnd(), l.RecoveryPoint())
				require.Equal(t, was, logState(t, l))
				if s.young {
					require.Equal(t, producers, l.RecoveredProducers(), "each batch by which a retry is known")
				}
				again, foundAgain, err := l.MaxTimestampOffset()
				require.NoError(t, err)
				require.Equal(t, [2]any{stamp, found}, [2]any{again, foundAgain})
				require.Empty(t, l.Check())
			}
			end := mustAppend(t, l, data{ts: epochMs + 1000})
			require.Equal(t, was.end, end)
			s := summarised(t, l)
			read.Store(0)
			l = b.open(Options{Config: smallSegments(), Clean: true, Summary: s})
			require.Zero(t, read.Load())
			require.Equal(t, was.end+1, l.LogEnd())
			require.Empty(t, l.Check())
		})
	}
}

func TestASummaryOpensALogAsItsRecordsDo(t *testing.T) {
	all := maps.Clone(lives)
	all["trimmed to its end"] = func(t require.TestingT, l *Log) { // of which every reopen forgets the producers
		young(t, l, 0)
		_, err := l.TrimTo(l.LogEnd())
		require.NoError(t, err)
	}
	for name, live := range all {
		fsys := memfs.New()
		b := newBenchOn(t, fsys)
		l := b.open(Options{Config: smallSegments()})
		live(t, l)
		s := summarised(t, l)
		want := b.open(Options{Config: smallSegments(), Clean: true})
		want.LastStable(want.LogEnd())
		state, producers := logState(t, want), want.RecoveredProducers()
		start, established := want.EstablishedLogStart()
		require.NoError(t, want.Close())
		_, ok := want.Summary()
		require.True(t, ok)

		got := b.open(Options{Config: smallSegments(), Clean: true, Summary: s})
		got.LastStable(got.LogEnd())
		require.Equal(t, state, logState(t, got), name)
		if s.young {
			require.Equal(t, producers, got.RecoveredProducers(), name)
		}
		gotStart, gotEstablished := got.EstablishedLogStart()
		require.Equal(t, [2]any{start, established}, [2]any{gotStart, gotEstablished}, name)
		require.NoError(t, got.Close())
	}
}

func TestALogWithNothingToSayHasNoSummary(t *testing.T) {
	none := func(l *Log, why string) {
		_, ok := l.Summary()
		require.False(t, ok, why)
	}
	b := newBench(t)
	l := b.open(Options{})
	require.NoError(t, l.AssignEpoch(3, 0))
	none(l, "open")
	require.NoError(t, l.Close())
	none(l, "never held a record")

	l = b.open(Options{Clean: true})
	mustAppend(t, l, data{records: 3})
	mustAppend(t, l, data{records: 3})
	require.NoError(t, l.TruncateTo(4))
	require.NoError(t, l.Close())
	none(l, "the records end in front of the log end")

	l = b.open(Options{Clean: true})
	l.Fence()
	require.NoError(t, l.Close())
	none(l, "fenced")

	disk := faultfs.New(memfs.New(), nil)
	b = newBenchOn(t, disk)
	l = b.open(Options{})
	mustAppend(t, l, data{})
	disk.SetInjector(faultfs.FailMatching(faultfs.OpSync, "*.log", syscall.EIO))
	require.NoError(t, l.Close())
	require.Len(t, eventsOf[FailedEvent](b), 1)
	none(l, "not known to be on disk")
}

// A summary is not believed of other files than its own, whatever was done to them.
func TestASummaryOfOtherFilesIsNotBelieved(t *testing.T) {
	appendMore := func(t require.TestingT, fsys *memfs.FS) {
		b := makeBench(t, fsys)
		l := b.open(Options{Config: smallSegments(), Clean: true})
		mustAppend(t, l, data{})
		require.NoError(t, b.env.Close())
	}
	sameLength := func(t require.TestingT, fsys *memfs.FS) {
		b := makeBench(t, fsys)
		l := b.open(Options{Config: smallSegments(), Clean: true})
		last := l.LogEnd() - 1
		require.NoError(t, l.TruncateTo(last))
		_, err := l.Append(data{seed: 99}.build(t), AppendOptions{LeaderEpoch: 77})
		require.NoError(t, err)
		require.NoError(t, b.env.Close())
	}
	changes := map[string]func(t require.TestingT, fsys *memfs.FS){
		"more was appended":              appendMore,
		"the last record is another one": sameLength,
		"it was copied": func(t require.TestingT, fsys *memfs.FS) {
			bases := segmentBases(t, fsys)
			require.NoError(t, fsys.Chtimes(logPath(bases[len(bases)-1]), time.UnixMilli(epochMs)))
		},
		"a segment is gone": func(t require.TestingT, fsys *memfs.FS) {
			if bases := segmentBases(t, fsys); len(bases) > 1 {
				require.NoError(t, fsys.Remove(logPath(bases[0])))
			}
		},
		"the index files are gone": func(t require.TestingT, fsys *memfs.FS) {
			for _, name := range fileNames(t, fsys) {
				if isIndexName(name) && path.Ext(name) != txnIndexSuffix {
					require.NoError(t, fsys.Remove(path.Join(testDir, name)))
				}
			}
		},
		"an index has an entry less": func(t require.TestingT, fsys *memfs.FS) {
			bases := segmentBases(t, fsys)
			name := filePath(testDir, bases[len(bases)-1], indexSuffix)
			if info, err := fsys.Stat(name); err == nil && info.Size() > 0 {
				edit(t, fsys, name, func(b []byte) []byte { return b[:len(b)-indexEntrySize] })
			}
		},
		"an index is damaged": func(t require.TestingT, fsys *memfs.FS) {
			bases := segmentBases(t, fsys)
			name := filePath(testDir, bases[len(bases)-1], timeIndexSuffix)
			if info, err := fsys.Stat(name); err == nil && info.Size() > 0 {
				edit(t, fsys, name, func(b []byte) []byte { return b[:len(b)-1] })
			}
		},
		"the records are gone": func(t require.TestingT, fsys *memfs.FS) {
			for _, name := range fileNames(t, fsys) {
				require.NoError(t, fsys.Remove(path.Join(testDir, name)))
			}
		},
	}
	for name, live := range lives {
		for what, change := range changes {
			fsys := memfs.New()
			b := makeBench(t, fsys)
			l := b.open(Options{Config: smallSegments()})
			live(t, l)
			s := summarised(t, l)
			require.NoError(t, b.env.Close())
			change(t, fsys)

			// What an Open makes of it that has no summary.
			plain := makeBench(t, copyDir(t, fsys))
			l = plain.open(Options{Config: smallSegments(), Clean: true})
			l.LastStable(l.LogEnd())
			want := logState(t, l)
			require.NoError(t, plain.env.Close())

			b = makeBench(t, fsys)
			l = b.open(Options{Config: smallSegments(), Clean: true, Summary: s})
			l.LastStable(l.LogEnd())
			require.Equal(t, want, logState(t, l), "%s: %s", name, what)
			require.NoError(t, b.env.Close())
		}
	}
}

func TestASummaryIsNotBelievedBesideAnOlderSegmentOfAnotherLength(t *testing.T) {
	disk, read := countReads(memfs.New())
	b := makeBench(t, disk)
	l := b.open(Options{Config: smallSegments()})
	fill(t, l, 14)
	s := summarised(t, l)
	edit(t, writable{disk}, logPath(0), func(b []byte) []byte { return b[:len(b)/2] })
	read.Store(0)
	b.open(Options{Config: smallSegments(), Clean: true, Summary: s})
	require.Positive(t, read.Load())
	require.NoError(t, b.env.Close())
}

func TestASummaryIsNotLookedAtAfterAnUncleanStop(t *testing.T) {
	disk, read := countReads(memfs.New())
	b := newBenchOn(t, disk)
	l := b.open(Options{})
	mustAppend(t, l, data{})
	s := summarised(t, l)
	read.Store(0)
	b.open(Options{Summary: s})
	require.Positive(t, read.Load())
}

// A start that was published elsewhere and lies above the log end empties the log, and what the summary says is of nothing then.
func TestASummaryOfALogThatEndsBelowItsStartIsForgotten(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	young(t, l, 0)
	s := summarised(t, l)
	l = b.open(Options{Clean: true, Summary: s, LogStart: 100})
	require.Equal(t, observed{start: 100, end: 100, records: logState(t, l).records, producers: []ProducerSnapshotEntry{}, unstable: 100},
		logState(t, l))
	require.Empty(t, allBytes(t, l))
}

// All summaries of a data directory are in one file, which has a limit: a summary is little, and of the worst log not much more
// than the records that it is of.
func TestASummaryIsLittle(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	mustAppend(t, l, data{producer: 1})
	require.LessOrEqual(t, len(summaryBytes(t, summarised(t, l))), 200)
	l = b.open(Options{Clean: true})
	for i := int64(2); l.Size() < youngBytes-200; i++ {
		require.NoError(t, l.AssignEpoch(int32(i), l.LogEnd()))
		smallest := batch.RetainEmpty(batch.Header{ProducerID: i, MaxTimestamp: epochMs})
		_, err := l.Append(smallest, AppendOptions{LeaderEpoch: int32(i)})
		require.NoError(t, err)
	}
	size := l.Size()
	s := summarised(t, l)
	require.True(t, s.young)
	require.Less(t, int64(len(summaryBytes(t, s))), size*5/4)
}

func TestProducersThatExpiredAreNotLoadedFromASummary(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{})
	young(t, l, 0)
	s := summarised(t, l)
	b.advance(time.Duration(DefaultConfig().ProducerExpirationMs+10) * time.Millisecond)
	l = b.open(Options{Clean: true, Summary: s})
	ids := []int64{}
	for _, p := range l.ActiveProducers() {
		ids = append(ids, p.ProducerID)
	}
	require.Equal(t, []int64{9}, ids, "the one with an open transaction")
}

// What a summary is of is on disk: the power may go right behind it.
func TestF16_WhatASummaryIsOfSurvivesAPowerCut(t *testing.T) {
	for name, live := range lives {
		for seed := range uint64(4) {
			fsys := memfs.New()
			b := makeBench(t, fsys)
			l := b.open(Options{Config: smallSegments()})
			live(t, l)
			l.LastStable(l.LogEnd())
			was := logState(t, l)
			s := summarised(t, l)
			fsys.Kill()
			_ = b.env.Close()
			left := fsys.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true})
			b = makeBench(t, left)
			l = b.open(Options{Config: smallSegments(), Clean: true, Summary: s})
			require.Equal(t, was, logState(t, l), "%s, seed %d", name, seed)
			require.Empty(t, l.Check())
			require.NoError(t, b.env.Close())
		}
	}
}

// Many logs that are closed together have summaries as well.
func TestF77_LogsThatAreClosedTogetherAreOpenedWithoutReadingARecord(t *testing.T) {
	f := newFleet(t, 100)
	f.env.roll.wait()
	states := make([]observed, len(f.logs))
	for i, l := range f.logs {
		l.LastStable(l.LogEnd())
		states[i] = logState(t, l)
	}
	for _, closed := range f.env.CloseAll(f.logs, 4) {
		require.Equal(t, Closed{}, closed)
	}
	require.Equal(t, 1, f.disk.Count(faultfs.OpSyncVolume))
	summaries := make([]*Summary, len(f.logs))
	for i, l := range f.logs {
		if l.LogEnd() == 0 {
			continue
		}
		var ok bool
		summaries[i], ok = l.Summary()
		require.True(t, ok, "log %d", i)
	}
	require.NoError(t, f.env.Close())

	f.mem.Kill()
	disk, read := countReads(f.mem.CrashClean())
	for i := range f.logs {
		read.Store(0)
		env := NewEnv(EnvOptions{FS: disk, Now: fleetTime})
		l, err := Open(env, manyDir(i), Options{Config: smallSegments(), Clean: true, Summary: summaries[i]})
		require.NoError(t, err)
		require.Zero(t, read.Load(), "log %d", i)
		if l.LogEnd() > 0 {
			require.Equal(t, states[i], logState(t, l), "log %d", i)
		}
		require.NoError(t, env.Close())
	}
}

// An Open with a summary of which any call fails costs nothing: the next one finds the same.
func TestF10_AnOpenWithASummaryOfWhichAnyCallFailsCostsNothing(t *testing.T) {
	for name, live := range lives {
		base := memfs.New()
		b := makeBench(t, base)
		l := b.open(Options{Config: smallSegments()})
		live(t, l)
		l.LastStable(l.LogEnd())
		want := logState(t, l)
		s := summarised(t, l)
		require.NoError(t, b.env.Close())
		for n := 0; ; n++ {
			what := fmt.Sprintf("%s, call %d", name, n)
			fsys := base.Crash(memfs.CrashOptions{KeepUnsynced: 1})
			disk := faultfs.New(fsys, faultfs.FailNth(n, syscall.EIO))
			b := makeBench(t, disk)
			o := Options{Config: smallSegments(), Clean: true, Summary: s}
			l, err := Open(b.env, testDir, o)
			calls := disk.Calls()
			disk.SetInjector(nil)
			if err != nil {
				l, err = Open(b.env, testDir, o)
			}
			require.NoError(t, err, what)
			l.LastStable(l.LogEnd())
			require.Equal(t, want, logState(t, l), what)
			require.Empty(t, l.Check(), what)
			require.NoError(t, b.env.Close(), what)
			if calls <= n {
				break
			}
		}
	}
}
