package kafkalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/internal/quarantine"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

func repairClock() time.Time { return time.UnixMilli(epochMs) }

// planned returns the plan of a repair.
func planned(t require.TestingT, fsys vfs.FS, o RepairOptions) *Repair {
	o.Now = repairClock
	plan, err := PlanRepair(fsys, testDir, o)
	require.NoError(t, err)
	return plan
}

// files returns every file below the test's directory.
func files(t require.TestingT, fsys vfs.FS, dir string) map[string]string {
	found := map[string]string{}
	entries, err := fsys.List(dir)
	require.NoError(t, err)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			for inner, data := range files(t, fsys, name) {
				found[inner] = data
			}
			continue
		}
		data, err := vfs.ReadFile(fsys, name)
		require.NoError(t, err)
		found[name] = string(data)
	}
	return found
}

// keptPieces returns what the quarantine has, one piece for each file.
func keptPieces(t require.TestingT, fsys vfs.FS) (pieces []string) {
	place := quarantine.In(fsys, testDir)
	sets, err := place.Sets()
	require.NoError(t, err)
	for _, m := range sets {
		require.Equal(t, quarantine.Format, m.Format)
		for _, f := range m.Files {
			if data, err := vfs.ReadFile(fsys, place.Path(f.Name)); err == nil {
				pieces = append(pieces, string(data))
			}
		}
	}
	return pieces
}

// requireRepaired opens the log as a leader does after a crash, which would cut at any gap, and returns the batches that hold
// records, and the offsets that empty ones cover.
func requireRepaired(t require.TestingT, fsys vfs.FS, end int64) (whole []string, empty [][2]int64) {
	b := makeBench(t, fsys)
	l, err := Open(b.env, testDir, Options{Config: smallSegments(), Contiguous: true})
	require.NoError(t, err)
	require.Empty(t, l.Check())
	require.Equal(t, end, l.LogEnd())
	require.Empty(t, eventsOf[PartialBatchEvent](b))
	require.Empty(t, eventsOf[DamagedBatchEvent](b))
	decoded, err := l.Read(l.LogStart(), 1<<30)
	require.NoError(t, err)
	require.NotNil(t, decoded)
	next := l.LogStart()
	for rest := allBytes(t, l); len(rest) > 0; {
		one, after, err := batch.Next(rest)
		require.NoError(t, err)
		require.Equal(t, next, one.BaseOffset(), "no gap")
		next = one.NextOffset()
		if one.Count() == 0 {
			empty = append(empty, [2]int64{one.BaseOffset(), one.NextOffset()})
		} else {
			whole = append(whole, string(one))
		}
		rest = after
	}
	require.Equal(t, end, mustAppend(t, l, data{}))
	require.NoError(t, b.env.Close())
	return whole, empty
}

func TestU08_ARepairOfASoundLogHasNothingToDo(t *testing.T) {
	src := newDamageSource(t)
	before := files(t, src.fs, testDir)
	plan := planned(t, src.fs, RepairOptions{Flushed: src.end, Visible: src.end})
	require.Empty(t, plan.Steps)
	require.Empty(t, plan.Unrepairable)
	require.Empty(t, plan.Notes)
	require.Equal(t, src.end, plan.End)
	kept, err := plan.Apply()
	require.NoError(t, err)
	require.Empty(t, kept)
	require.Equal(t, before, files(t, src.fs, testDir))
}

func TestU08_LogsOfAStoppedKafkaAreSound(t *testing.T) {
	logs, err := filepath.Glob("testdata/apache-kafka-4.4.0/stopped/*-[0-9]")
	require.NoError(t, err)
	require.Len(t, logs, 4)
	for _, dir := range logs {
		plan, err := PlanRepair(overlay.New(vfs.OS()), dir, RepairOptions{})
		require.NoError(t, err)
		require.Empty(t, plan.Steps, dir)
		require.Empty(t, plan.Unrepairable, dir)
	}
}

// damage is one way to spoil the source, and what a repair makes of it.
type damage struct {
	name  string
	spoil func(t *testing.T, fsys vfs.FS)
	o     RepairOptions
	steps []RepairStep
	lost  []int // batches of the source
	end   int64 // less than that of the source
}

func TestU08_F04_DamageIsTakenOutAndWhatFollowsStaysAtItsOffsets(t *testing.T) {
	src := newDamageSourceOf(t, 24)
	inSegment := func(i int) int { // first batch of a segment
		for n, b := range src.batches {
			if b.BaseOffset() == src.bases[i] {
				return n
			}
		}
		return -1
	}
	second, last := inSegment(1), inSegment(len(src.bases)-1)
	n := len(src.batches)
	size, wide := int64(len(src.batches[second])), int64(len(src.batches[last])) // of all in their segments
	require.GreaterOrEqual(t, n-last, 3, "batches in the active segment")
	offset := func(i int) int64 { return src.batches[i].BaseOffset() }
	name := func(i int) string { return fileName(src.bases[i], logSuffix) }
	active := len(src.bases) - 1
	changed := func(segment int, change func([]byte) []byte) func(t *testing.T, fsys vfs.FS) {
		return func(t *testing.T, fsys vfs.FS) { edit(t, fsys, logPath(src.bases[segment]), change) }
	}
	length := func(at int64, value uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[at+8:], value)
			return b
		}
	}
	for _, c := range []damage{{
		name: "a bit in a sealed segment", spoil: changed(1, flip(int(size)+100)), lost: []int{second + 1}, end: src.end,
		steps: []RepairStep{{Action: LeaveOut, File: name(1), Position: size, Bytes: size, First: offset(second + 1), Next: offset(second + 2), Records: 2}},
	}, {
		name: "a bit in the active segment", spoil: changed(active, flip(100)), lost: []int{last}, end: src.end,
		steps: []RepairStep{{Action: LeaveOut, File: name(active), Bytes: wide, First: offset(last), Next: offset(last + 1), Records: 2}},
	}, {
		name: "a length that leads nowhere", spoil: changed(1, length(size, 77)), lost: []int{second + 1}, end: src.end,
		steps: []RepairStep{{Action: LeaveOut, File: name(1), Position: size, Bytes: size, First: offset(second + 1), Next: offset(second + 2)}},
	}, {
		name: "a length behind the end", spoil: changed(active, length(0, 1<<30)), lost: []int{last}, end: src.end,
		steps: []RepairStep{{Action: LeaveOut, File: name(active), Bytes: wide, First: offset(last), Next: offset(last + 1)}},
	}, {
		name: "a base offset", spoil: changed(1, flip(int(size)+6)), end: src.end,
		steps: []RepairStep{{Action: PutRight, File: name(1), Position: size, Bytes: size, First: offset(second + 1), Next: offset(second + 1), Records: 2}},
	}, {
		name: "a base offset in front of the next segment", spoil: changed(1, flip(int(2*size)+7)), end: src.end,
		steps: []RepairStep{{Action: PutRight, File: name(1), Position: 2 * size, Bytes: size, First: offset(second + 2), Next: offset(second + 2), Records: 2}},
	}, {
		name: "a torn batch at the end", spoil: changed(active, func(b []byte) []byte { return b[:len(b)-5] }), lost: []int{n - 1},
		end:   offset(n - 1),
		steps: []RepairStep{{Action: CutTail, File: name(active), Position: wide * int64(n-1-last), Bytes: wide - 5, First: offset(n - 1), Next: offset(n - 1)}},
	}, {
		name: "garbage at the end", spoil: changed(active, func(b []byte) []byte { return append(b, "garbage"...) }), end: src.end,
		steps: []RepairStep{{Action: CutTail, File: name(active), Position: wide * int64(n-last), Bytes: 7, First: src.end, Next: src.end}},
	}, {
		name: "a torn batch that was known to be flushed", o: RepairOptions{Flushed: src.end}, lost: []int{n - 1}, end: src.end,
		spoil: changed(active, func(b []byte) []byte { return b[:len(b)-5] }),
		steps: []RepairStep{{Action: LeaveOut, File: name(active), Position: wide * int64(n-1-last), Bytes: wide - 5, First: offset(n - 1), Next: src.end}},
	}, {
		name: "a torn batch that readers may have seen", o: RepairOptions{Visible: src.end - 1}, lost: []int{n - 1}, end: src.end - 1,
		spoil: changed(active, func(b []byte) []byte { return b[:len(b)-5] }),
		steps: []RepairStep{{Action: LeaveOut, File: name(active), Position: wide * int64(n-1-last), Bytes: wide - 5, First: offset(n - 1), Next: src.end - 1}},
	}, {
		name: "a whole batch at the end with a wrong checksum", spoil: changed(active, func(b []byte) []byte { return flip(len(b) - 1)(b) }),
		lost: []int{n - 1}, end: src.end,
		steps: []RepairStep{{Action: LeaveOut, File: name(active), Position: wide * int64(n-1-last), Bytes: wide, First: offset(n - 1), Next: src.end, Records: 2}},
	}, {
		name: "a file that ends before what was flushed", o: RepairOptions{Flushed: src.end}, lost: []int{n - 1}, end: src.end,
		spoil: changed(active, func(b []byte) []byte { return b[:int64(len(b))-wide] }),
		steps: []RepairStep{{Action: FillEnd, File: name(active), Position: wide * int64(n-1-last), First: offset(n - 1), Next: src.end}},
	}, {
		name: "a sealed segment that ends in a batch", spoil: changed(1, func(b []byte) []byte { return b[:len(b)-5] }),
		lost: []int{inSegment(2) - 1}, end: src.end,
		steps: []RepairStep{{
			Action: LeaveOut, File: name(1), Position: size * int64(inSegment(2)-1-second), Bytes: size - 5,
			First: offset(inSegment(2) - 1), Next: src.bases[2],
		}},
	}, {
		name: "garbage behind a sealed segment", spoil: changed(1, func(b []byte) []byte { return append(b, "garbage"...) }), end: src.end,
		steps: []RepairStep{{
			Action: CutTail, File: name(1), Position: size * int64(inSegment(2)-second), Bytes: 7, First: src.bases[2], Next: src.bases[2],
		}},
	}, {
		name: "a checkpoint that cannot be right", o: RepairOptions{Flushed: 1 << 50, Visible: 1 << 50}, end: src.end,
		spoil: changed(active, func(b []byte) []byte { return append(b, "garbage"...) }),
		steps: []RepairStep{{Action: CutTail, File: name(active), Position: wide * int64(n-last), Bytes: 7, First: src.end, Next: src.end}},
	}} {
		t.Run(c.name, func(t *testing.T) {
			fsys := copyDir(t, src.fs)
			c.spoil(t, fsys)
			before := files(t, fsys, testDir)
			plan := planned(t, overlay.New(fsys), c.o)
			require.Empty(t, plan.Unrepairable)
			require.Equal(t, c.end, plan.End)
			for i := range plan.Steps {
				require.NotEmpty(t, plan.Steps[i].Reason)
				plan.Steps[i].Reason = ""
			}
			require.Equal(t, c.steps, plan.Steps)
			require.Equal(t, before, files(t, fsys, testDir), "a plan writes nothing")

			plan = planned(t, fsys, c.o)
			kept, err := plan.Apply()
			require.NoError(t, err)
			var want []string
			for _, step := range plan.Steps {
				if step.Bytes > 0 {
					want = append(want, before[path.Join(testDir, step.File)][step.Position:step.Position+step.Bytes])
				}
			}
			require.Equal(t, want, keptPieces(t, fsys), "what goes is kept")
			require.Len(t, kept, len(want))
			after := files(t, fsys, testDir)
			require.Empty(t, planned(t, fsys, RepairOptions{}).Steps, "nothing is left to do")
			require.Equal(t, after, files(t, fsys, testDir))

			var whole []string
			var holes [][2]int64
			for i, b := range src.batches {
				if len(c.lost) == 0 || i < c.lost[0] || i > c.lost[len(c.lost)-1] {
					whole = append(whole, string(b))
				}
			}
			if step := c.steps[0]; step.Next > step.First {
				holes = [][2]int64{{step.First, step.Next}}
			}
			got, empty := requireRepaired(t, fsys.CrashClean(), c.end)
			require.Equal(t, whole, got)
			require.Equal(t, holes, empty)
		})
	}
}

func TestU08_FilesBesideTheRecordsAreMadeAgainAndKept(t *testing.T) {
	src := newDamageSource(t)
	base := src.bases[1]
	full := allNames(t, src.fs)
	for _, c := range []struct {
		name   string
		data   []byte
		action RepairAction
	}{
		{fileName(base, indexSuffix), indexBytes([2]int32{3, 10}, [2]int32{1, 5}), MakeAgain},
		{fileName(base, indexSuffix), indexBytes([2]int32{1, 7}), MakeAgain},
		{fileName(base, timeIndexSuffix), bytes.Repeat([]byte{0xff}, 24), MakeAgain},
		{fileName(base, timeIndexSuffix), []byte("half"), MakeAgain},
		{fileName(base, txnIndexSuffix), []byte("no index"), MakeAgain},
		{fileName(base, snapshotSuffix), []byte("no snapshot"), MakeAgain},
		{fileName(base, snapshotSuffix), []byte{0, 9, 0, 0, 0, 0, 0, 0, 0, 0}, MakeAgain}, // of a newer version
		{epochFileName, []byte("0\nmany\n"), MakeAgain},
		{epochFileName, []byte("7\n0\n"), MakeAgain}, // of a newer version
		{logStartFileName, []byte("\x00\x00\x00\x00"), SetAside},
		{"notes.log", []byte("somebody's"), SetAside},
	} {
		t.Run(c.name+fmt.Sprintf("%.4x", c.data), func(t *testing.T) {
			fsys := copyDir(t, src.fs)
			edit(t, writable{fsys}, path.Join(testDir, c.name), func([]byte) []byte { return c.data })
			require.NoError(t, fsys.SyncDir(testDir))
			plan := planned(t, fsys, RepairOptions{})
			require.Len(t, plan.Steps, 1)
			step := plan.Steps[0]
			require.NotEmpty(t, step.Reason)
			step.Reason = ""
			require.Equal(t, RepairStep{Action: c.action, File: c.name, Bytes: int64(len(c.data))}, step)
			_, err := plan.Apply()
			require.NoError(t, err)
			require.Contains(t, keptPieces(t, fsys), string(c.data))
			require.Empty(t, planned(t, fsys, RepairOptions{}).Steps)
			disk := fsys.CrashClean()
			for _, name := range full {
				if name != c.name || c.action == MakeAgain && !strings.HasSuffix(name, snapshotSuffix) {
					require.Contains(t, allNames(t, disk), name)
				}
			}
			whole, empty := requireRepaired(t, disk, src.end)
			require.Len(t, whole, len(src.batches))
			require.Empty(t, empty)
		})
	}
}

func allNames(t require.TestingT, fsys vfs.FS) (names []string) {
	entries, err := fsys.List(testDir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestU08_ALogStartIsTakenFromTheCheckpointOfTheDataDirectory(t *testing.T) {
	src := newDamageSource(t)
	edit(t, writable{src.fs}, path.Join(testDir, logStartFileName), func([]byte) []byte { return []byte("0\n") })
	plan := planned(t, src.fs, RepairOptions{LogStart: 5})
	require.Len(t, plan.Steps, 1)
	require.Equal(t, MakeAgain, plan.Steps[0].Action)
	require.Equal(t, int64(5), plan.Start)
	_, err := plan.Apply()
	require.NoError(t, err)
	start, found, err := readLogStart(src.fs, testDir)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, int64(5), start)
	require.Equal(t, []string{"0\n"}, keptPieces(t, src.fs))
}

func TestU08_WhatCannotBeReadIsNotRepairedAndNothingIsChanged(t *testing.T) {
	src := newDamageSource(t)
	edit(t, src.fs, logPath(src.bases[1]), flip(100))
	before := files(t, src.fs, testDir)
	bad := errors.New("bad sector")
	failing := faultfs.New(src.fs, faultfs.FailMatching(faultfs.OpReadAt, logPath(src.bases[2]), bad))
	plan := planned(t, failing, RepairOptions{})
	require.Len(t, plan.Unrepairable, 1)
	_, err := plan.Apply()
	require.ErrorIs(t, err, ErrUnrepairable)
	require.ErrorIs(t, err, bad)
	require.Equal(t, before, files(t, src.fs, testDir))
}

// spoilt is a log with damage of every kind.
func spoilt(t *testing.T) (*damageSource, *memfs.FS) {
	src := newDamageSource(t)
	fsys := copyDir(t, src.fs)
	edit(t, fsys, logPath(src.bases[1]), flip(100))
	edit(t, fsys, logPath(src.bases[2]), func(b []byte) []byte { return b[:len(b)-5] })
	edit(t, fsys, logPath(src.bases[len(src.bases)-1]), func(b []byte) []byte { return append(b, "garbage"...) })
	edit(t, fsys, path.Join(testDir, epochFileName), func([]byte) []byte { return []byte("damaged") })
	edit(t, fsys, path.Join(testDir, fileName(src.bases[0], indexSuffix)), func([]byte) []byte { return indexBytes([2]int32{1, 7}) })
	return src, fsys
}

func TestU08_ACrashAtEveryCallOfARepairLeavesALogThatItCanFinish(t *testing.T) {
	src, disk := spoilt(t)
	whole := func(fsys *memfs.FS) ([]string, [][2]int64) { return requireRepaired(t, fsys, src.end) }
	reference := disk.CrashClean()
	_, err := planned(t, reference, RepairOptions{}).Apply()
	require.NoError(t, err)
	wantWhole, wantEmpty := whole(reference)
	require.Len(t, wantEmpty, 2)
	broken := errors.New("broken")
	for call := 0; ; call++ {
		fsys := disk.CrashClean()
		failing := faultfs.New(fsys, faultfs.When(faultfs.Writes, faultfs.FailFrom(call, broken)))
		plan, err := PlanRepair(failing, testDir, RepairOptions{Now: repairClock})
		if err == nil {
			_, err = plan.Apply()
		}
		for _, keep := range []float64{0, 0.5, 1} {
			after := fsys.Crash(memfs.CrashOptions{Seed: uint64(call), KeepUnsynced: keep, Torn: true})
			_, err := planned(t, after, RepairOptions{}).Apply()
			require.NoError(t, err, "call %d", call)
			gotWhole, gotEmpty := whole(after)
			require.Equal(t, wantWhole, gotWhole, "call %d", call)
			require.Equal(t, wantEmpty, gotEmpty, "call %d", call)
			pieces := keptPieces(t, after)
			for _, want := range keptPieces(t, reference) {
				require.Contains(t, pieces, want, "call %d", call)
			}
		}
		if err == nil {
			require.Greater(t, call, 20)
			return
		}
		require.ErrorIs(t, err, broken)
	}
}

func TestU08_RandomDamageNeverCostsABatchThatItDidNotTouch(t *testing.T) {
	src := newDamageSource(t)
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 8))
		fsys := copyDir(t, src.fs)
		touched := map[string]bool{}
		for range 1 + random.IntN(3) {
			segment := random.IntN(len(src.bases))
			edit(t, fsys, logPath(src.bases[segment]), func(b []byte) []byte {
				at, n := random.IntN(len(b)), 1+random.IntN(90)
				for i := at; i < min(at+n, len(b)); i++ {
					b[i] = byte(random.Uint32())
				}
				if segment == len(src.bases)-1 && at < 8 {
					b[0] = 0xff // what its only batch is numbered nothing else says, so let it be plain that this is wrong
				}
				position := 0
				for _, each := range src.batches {
					if each.BaseOffset() >= src.bases[segment] && each.BaseOffset() < src.upper(segment) {
						if at < position+len(each) && position < at+n {
							touched[string(each)] = true
						}
						position += len(each)
					}
				}
				return b
			})
		}
		plan := planned(t, fsys, RepairOptions{Flushed: src.end})
		_, err := plan.Apply()
		require.NoError(t, err, "seed %d: %+v", seed, plan.Steps)
		whole, _ := requireRepaired(t, fsys, src.end)
		for _, each := range src.batches {
			if !touched[string(each)] {
				require.Contains(t, whole, string(each), "seed %d", seed)
			}
		}
	}
}

func TestU24_WhatAnOpenMakesAgainIsKeptAside(t *testing.T) {
	src := newDamageSource(t)
	last := src.bases[len(src.bases)-1]
	for name, data := range map[string]string{
		epochFileName: "damaged", fileName(src.bases[1], txnIndexSuffix): "no index", fileName(last, snapshotSuffix): "no snapshot",
	} {
		fsys := copyDir(t, src.fs)
		if strings.HasSuffix(name, snapshotSuffix) { // it is looked at if there is none of a stop in order
			require.NoError(t, fsys.Remove(path.Join(testDir, fileName(src.end, snapshotSuffix))))
		}
		edit(t, writable{fsys}, path.Join(testDir, name), func([]byte) []byte { return []byte(data) })
		b := makeBench(t, fsys)
		var told []SetAsideEvent
		b.env.events.SetAside = func(e SetAsideEvent) { told = append(told, e) }
		l := b.open(Options{Config: smallSegments(), Clean: true})
		require.Len(t, told, 1, name)
		require.Equal(t, path.Join(testDir, name), told[0].File)
		kept, err := vfs.ReadFile(fsys, told[0].Kept)
		require.NoError(t, err)
		require.Equal(t, data, string(kept))
		require.Equal(t, []string{data}, keptPieces(t, fsys))
		src.requireEverythingIsRead(t, l, name)
		require.NoError(t, b.env.Close())
	}
}

func TestU24_AnIndexThatCannotBeUsedIsToldOfOnce(t *testing.T) {
	src := newDamageSource(t)
	index := path.Join(testDir, fileName(src.bases[1], indexSuffix))
	edit(t, src.fs, index, func([]byte) []byte { return indexBytes([2]int32{3, 10}, [2]int32{1, 5}) })
	b := makeBench(t, src.fs)
	var told []DamagedIndexEvent
	b.env.events.DamagedIndex = func(e DamagedIndexEvent) { told = append(told, e) }
	l := b.open(Options{Config: smallSegments(), Clean: true})
	src.requireEverythingIsRead(t, l, "index")
	require.Len(t, told, 1)
	require.Equal(t, index, told[0].File)
	require.NoError(t, b.env.Close())
}

func TestU08_WhatASegmentSaysOfAbortedTransactionsOutlivesItsRepair(t *testing.T) {
	b := newBench(t)
	l := b.open(Options{Config: smallSegments()})
	mustAppend(t, l, data{records: 2, size: 40})
	mustAppend(t, l, data{records: 2, size: 40, producer: 7, txn: true})
	_, err := l.Append(marker(7, 0, false), AppendOptions{LeaderEpoch: -1, Origin: Coordinator})
	require.NoError(t, err)
	fill(t, l, 12)
	require.NoError(t, l.Sync())
	end := l.LogEnd()
	want, err := l.AbortedInRange(0, end)
	require.NoError(t, err)
	require.Len(t, want, 1)
	require.NoError(t, l.Close())
	fsys := b.fs.(*memfs.FS)
	require.Greater(t, len(segmentBases(t, fsys)), 3)
	edit(t, fsys, logPath(0), flip(100)) // in the first batch, whose segment is sealed
	plan := planned(t, fsys, RepairOptions{})
	require.Len(t, plan.Steps, 1)
	_, err = plan.Apply()
	require.NoError(t, err)

	after := makeBench(t, fsys.CrashClean())
	l = after.open(Options{Config: smallSegments()})
	got, err := l.AbortedInRange(0, end)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, after.env.Close())
}

func TestU08_ARepairThatHasNoRoomForWhatItKeepsLeavesNothingBehind(t *testing.T) {
	src, disk := spoilt(t)
	before := files(t, disk, testDir)
	kept := 0
	full := faultfs.New(disk, func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.OpWriteAt && strings.Contains(op.Name, quarantine.Dir) {
			if kept++; kept > 1 {
				return faultfs.Fault{Err: syscall.ENOSPC}
			}
		}
		return faultfs.Fault{}
	})
	plan, err := PlanRepair(full, testDir, RepairOptions{Now: repairClock})
	require.NoError(t, err)
	_, err = plan.Apply()
	require.True(t, vfs.IsNoSpace(err), err)
	require.Equal(t, before, files(t, disk, testDir))
	_, err = planned(t, disk, RepairOptions{}).Apply()
	require.NoError(t, err)
	requireRepaired(t, disk, src.end)
}
