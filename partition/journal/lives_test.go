package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// livesOf are several lives of a server whose disk fails files and whose power goes, and what was acknowledged in them.
type livesOf struct {
	t       *testing.T
	rand    *rand.Rand
	mem     *memfs.FS
	acked   [6]string
	offline map[int32]bool // they wait for what a journal has of them
	counts  *livesCounts
}

type livesCounts struct{ aside, waited, killed int }

// TestNoLifeLosesWhatAnEarlierOneAcknowledged has logs fail in any life and at any start.
func TestNoLifeLosesWhatAnEarlierOneAcknowledged(t *testing.T) {
	var counts livesCounts
	for seed := range uint64(40) {
		l := &livesOf{t: t, rand: rand.New(rand.NewPCG(seed, 3)), mem: newFS(t), counts: &counts}
		durable(t, l.mem, 0, 1, 2, 3, 4, 5)
		for range 5 {
			l.live()
			l.mem = l.mem.Crash(memfs.CrashOptions{Seed: l.rand.Uint64(), KeepUnsynced: l.rand.Float64(), Torn: true})
			l.start(l.rand.IntN(2) == 0)
			require.False(t, t.Failed(), "seed %d", seed)
		}
		l.start(false)
		require.Empty(t, l.offline)
		require.NotContains(t, strings.Join(names(t, l.mem), " "), journal.FileName)
	}
	require.Positive(t, counts.aside)
	require.Positive(t, counts.waited)
	require.Positive(t, counts.killed)
}

// live appends to the logs that are served, some of which fail, until the power goes.
func (l *livesOf) live() {
	broken := map[string]bool{}
	calls, killAt := 0, 5+l.rand.IntN(250)
	disk := faultfs.New(l.mem, func(op faultfs.Op) faultfs.Fault {
		if calls++; calls > killAt {
			return faultfs.Fault{Err: memfs.ErrKilled}
		}
		if op.Kind == faultfs.OpSync && broken[op.Name] {
			return faultfs.Fault{Err: syscall.EIO, Drop: true}
		}
		return faultfs.Fault{}
	})
	defer func() { l.mem.Kill() }()
	w := journal.NewWriter(journal.Options{FS: disk, Dir: "data", Bytes: smallest})
	failed, at, holds := map[int32]bool{}, -1, [2][]int32{}
	for calls <= killAt {
		var round []journal.Entry
		for p := range int32(len(l.acked)) {
			if l.offline[p] || failed[p] || l.rand.IntN(3) == 0 {
				continue
			}
			e := piece(p, int64(len(l.acked[p])), strings.Repeat(string(rune('a'+l.rand.IntN(26))), 1+l.rand.IntN(2000)))
			if l.write(disk, e) == nil {
				round = append(round, e)
			}
		}
		if len(round) == 0 {
			return
		}
		side, err := l.commit(w, round)
		if err != nil {
			return
		}
		for _, e := range round {
			l.acked[e.Partition] += string(e.Records)
			if !slices.Contains(holds[side], e.Partition) {
				holds[side] = append(holds[side], e.Partition)
			}
		}
		if other := 1 - side; side != at && at >= 0 {
			if l.settle(disk, w, other, holds[other], failed) != nil {
				return
			}
			holds[other] = nil
		}
		at = side
		if l.rand.IntN(15) == 0 {
			broken[recordFile(l.rand.Int32N(int32(len(l.acked))))] = true
		}
	}
}

func (l *livesOf) write(disk vfs.FS, e journal.Entry) error {
	f, err := disk.Open(recordFile(e.Partition), vfs.ReadWrite)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(e.Records, e.Position)
	return errors.Join(err, f.Close())
}

func (l *livesOf) commit(w *journal.Writer, round []journal.Entry) (side int, err error) {
	size := 0
	for _, e := range round {
		size += int(journal.EntrySize(int64(len(e.Records))))
	}
	if side, err = w.Begin(size); err != nil {
		return 0, err
	}
	for _, e := range round {
		err := w.Add(e, len(e.Records), func(dst []byte) ([]byte, error) { return append(dst, e.Records...), nil })
		require.NoError(l.t, err)
	}
	return side, w.Commit()
}

// settle syncs what a side holds, sets aside what cannot be synced, and frees the side.
func (l *livesOf) settle(disk vfs.FS, w *journal.Writer, side int, holds []int32, failed map[int32]bool) error {
	var lost []int32
	for _, p := range holds {
		f, err := disk.Open(recordFile(p), vfs.ReadWrite)
		if err != nil {
			return err
		}
		if !failed[p] {
			err = f.Sync()
		}
		if err != nil || failed[p] {
			failed[p] = true
			lost = append(lost, p)
		}
		_ = f.Close()
	}
	if len(lost) > 0 {
		done, err := w.SetAside(side, only(lost...), 1<<20)
		if err != nil {
			return err
		}
		require.NotEmpty(l.t, done.Name)
		l.counts.aside++
	}
	w.Free(side)
	return nil
}

// start replays the journals until that succeeds. Meanwhile the disk may fail some files, and the power may go.
func (l *livesOf) start(fails bool) {
	bad := map[string]bool{}
	for p := range int32(len(l.acked)) {
		bad[recordFile(p)] = fails && l.rand.IntN(3) == 0
	}
	fault := []error{syscall.EIO, syscall.ENOSPC}[l.rand.IntN(2)]
	for try := 0; ; try++ {
		calls, killAt := 0, 100_000
		if fails && try < 2 {
			killAt = l.rand.IntN(120)
		}
		kinds := []faultfs.Kind{faultfs.OpWriteAt, faultfs.OpSync, faultfs.OpReadAt, faultfs.OpOpen}
		kind := kinds[l.rand.IntN(len(kinds))]
		o := options(faultfs.New(l.mem, func(op faultfs.Op) faultfs.Fault {
			if calls++; calls > killAt {
				return faultfs.Fault{Err: memfs.ErrKilled}
			}
			if op.Kind == kind && bad[op.Name] {
				return faultfs.Fault{Err: fault}
			}
			return faultfs.Fault{}
		}))
		o.Workers = 1
		done, err := journal.Replay(o)
		if calls > killAt {
			l.counts.killed++
			l.mem.Kill()
			l.mem = l.mem.Crash(memfs.CrashOptions{Seed: l.rand.Uint64(), KeepUnsynced: l.rand.Float64(), Torn: true})
			continue
		}
		require.NoError(l.t, err)
		l.offline = map[int32]bool{}
		for _, lacks := range done.Lacking {
			var p int32
			_, err := fmt.Sscanf(lacks.File, "data/p%d", &p)
			require.NoError(l.t, err)
			l.offline[p] = true
			l.counts.waited++
		}
		break
	}
	l.recover()
}

// recover is what a start does with the logs then: it cuts off what was not acknowledged.
func (l *livesOf) recover() {
	for p := range int32(len(l.acked)) {
		if l.offline[p] {
			continue
		}
		f, err := l.mem.Open(recordFile(p), vfs.ReadWrite)
		require.NoError(l.t, err)
		have := []byte(read(l.t, l.mem, recordFile(p)))
		require.True(l.t, bytes.HasPrefix(have, []byte(l.acked[p])), "partition %d has lost some of %d bytes, it has %d", p, len(l.acked[p]), len(have))
		require.NoError(l.t, f.Truncate(int64(len(l.acked[p]))))
		require.NoError(l.t, f.Sync())
		require.NoError(l.t, f.Close())
	}
}
