package journal_test

import (
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

const failedFile = file + ".failed-1"

// only selects partitions.
func only(partitions ...int32) func(journal.Key) bool {
	return func(k journal.Key) bool {
		for _, p := range partitions {
			if k.Partition == p {
				return true
			}
		}
		return false
	}
}

// exhaust fills the side that rounds go to with rounds of partition 0, and returns the next one, whose first round it has added.
func exhaust(t testing.TB, w *journal.Writer, side int) int {
	t.Helper()
	for {
		if next := addRound(t, w, piece(0, 0, strings.Repeat("x", 4000))); next != side {
			return next
		}
	}
}

func TestWhatASideHoldsOfAFailedLogOutlivesTheSide(t *testing.T) {
	m := newFS(t)
	durable(t, m, 0, 1, 2)
	w := newWriter(t, m)
	side := addRound(t, w, piece(0, 0, "fine"), piece(1, 0, "failed "), piece(2, 0, "failed, too "))
	addRound(t, w, piece(0, 4, "fine"))
	addRound(t, w, piece(2, 12, "and again"), piece(1, 7, "later"))
	next := exhaust(t, w, side)

	done, err := w.SetAside(side, only(1, 2), 1<<20)
	require.NoError(t, err)
	require.Equal(t, journal.Aside{Name: journal.FileName + ".failed-1", Bytes: 512 + 2*512}, done)
	w.Free(side)
	for used := next; used == next; { // the side is begun again
		used = addRound(t, w, piece(0, 0, strings.Repeat("y", 4000)))
	}

	m = m.CrashClean()
	there, err := journal.Exists(m, "data")
	require.NoError(t, err)
	require.True(t, there)
	found, err := journal.Inspect(m, "data")
	require.NoError(t, err)
	require.Equal(t, []string{journal.FileName + ".failed-1", journal.FileName}, []string{found[0].Name, found[1].Name})
	require.Equal(t, []bool{true, false}, []bool{found[0].Failed, found[1].Failed})
	require.NoError(t, found[0].Problem)
	require.Len(t, found[0].Held, 2)
	require.NoError(t, m.Remove(file)) // what is in it is of partition 0
	_, err = journal.Replay(options(m))
	require.NoError(t, err)
	require.Equal(t, "failed later", read(t, m, recordFile(1)))
	require.Equal(t, "failed, too and again", read(t, m, recordFile(2)))
	require.Empty(t, read(t, m, recordFile(0)))
	_, err = m.Stat(failedFile)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestWhatWasSetAsideIsRestoredInOrderAndBeforeTheJournal(t *testing.T) {
	m := newFS(t)
	durable(t, m, 1, 2)
	w := newWriter(t, m)
	side := addRound(t, w, piece(1, 0, "a"), piece(2, 0, "A"))
	for i := range 3 {
		next := exhaust(t, w, side)
		addRound(t, w, piece(1, int64(i+1), "bcd"[i:i+1]), piece(2, int64(i+1), "BCD"[i:i+1]))
		_, err := w.SetAside(side, only(1, 2), 1<<20)
		require.NoError(t, err)
		w.Free(side)
		side = next
	}
	m = m.CrashClean()

	// There is no room for one of them at first: both kinds of files wait for it.
	done := withoutRoomForSome(t, m, 2)
	require.Equal(t, "abcd", read(t, m, recordFile(1)))
	require.Len(t, done.Lacking, 4)
	for _, name := range []string{"1", "2", "3", "4"} {
		require.NotEmpty(t, read(t, m, file+".waiting-"+name))
	}
	_, err := m.Stat(failedFile)
	require.ErrorIs(t, err, fs.ErrNotExist)
	o := options(m)
	o.Waiting = true
	_, err = journal.Replay(o)
	require.NoError(t, err)
	require.Equal(t, "ABCD", read(t, m, recordFile(2)))
	there, err := journal.Exists(m, "data")
	require.NoError(t, err)
	require.False(t, there)
}

// withoutRoomForSome replays with no space for a partition.
func withoutRoomForSome(t *testing.T, m vfs.FS, partition int32) journal.Replayed {
	t.Helper()
	done, err := journal.Replay(options(faultfs.New(m, faultfs.FailMatching(faultfs.OpWriteAt, recordFile(partition), syscall.ENOSPC))))
	require.NoError(t, err)
	return done
}

func TestOnlySoMuchIsSetAside(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	side := addRound(t, w, piece(1, 0, "failed"))
	exhaust(t, w, side)
	_, err := w.SetAside(side, only(1), 1023)
	require.ErrorIs(t, err, journal.ErrTooMuch)
	done, err := w.SetAside(side, only(9), 0)
	require.NoError(t, err)
	require.Zero(t, done, "nothing is there of it")
	require.Equal(t, []string{journal.FileName}, names(t, m))
	done, err = w.SetAside(side, only(1), 1024)
	require.NoError(t, err)
	require.Equal(t, int64(1024), done.Bytes)
	require.NoError(t, journal.Remove(m, "data"))
	require.Empty(t, names(t, m), "a clean stop removes all of it")
}

func names(t *testing.T, m vfs.FS) (all []string) {
	entries, err := m.List("data")
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestASideThatCannotBeReadIsNotSetAside(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	side := addRound(t, w, piece(1, 0, "failed"))
	addRound(t, w, piece(1, 6, "failed"))
	exhaust(t, w, side)
	damaged := []byte(read(t, m, file))
	damaged[512+sectorsOfSide(side)+512+30] ^= 1 // in its second round
	write(t, m, file, string(damaged))
	_, err := w.SetAside(side, only(1), 1<<20)
	var corrupt *journal.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, []string{journal.FileName}, names(t, m))
}

func sectorsOfSide(side int) int { return side * sideSize }

// TestAFaultOrAPowerCutWhileASideIsSetAsideLosesNothing fails each call, and cuts the power before each.
func TestAFaultOrAPowerCutWhileASideIsSetAsideLosesNothing(t *testing.T) {
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC, memfs.ErrKilled} {
		for n := 0; ; n++ {
			m := newFS(t)
			durable(t, m, 0, 1)
			disk := faultfs.New(m, nil)
			w := journal.NewWriter(journal.Options{FS: disk, Dir: "data", Bytes: smallest})
			side := addRound(t, w, piece(1, 0, "one"), piece(0, 0, "fine"))
			addRound(t, w, piece(1, 3, "two"))
			next := exhaust(t, w, side)
			calls := 0
			disk.SetInjector(func(faultfs.Op) faultfs.Fault {
				calls++
				if calls <= n || fault != memfs.ErrKilled && calls > n+1 {
					return faultfs.Fault{}
				}
				return faultfs.Fault{Err: fault}
			})
			_, failed := w.SetAside(side, only(1), 1<<20)
			last := calls <= n
			disk.SetInjector(nil)
			if failed == nil {
				w.Free(side)
				for used := next; used == next; {
					used = addRound(t, w, piece(0, 0, strings.Repeat("y", 4000)))
				}
			}
			rng := rand.New(rand.NewPCG(uint64(n), 7))
			m.Kill()
			_ = w.Close() // the disk is gone
			m = m.Crash(memfs.CrashOptions{Seed: rng.Uint64(), KeepUnsynced: rng.Float64(), Torn: true})
			_, err := journal.Replay(options(m))
			require.NoError(t, err)
			require.Equal(t, "onetwo", read(t, m, recordFile(1)), "call %d fails with %v", n, fault)
			require.NotContains(t, strings.Join(names(t, m), " "), journal.FileName)
			if last {
				require.NoError(t, failed)
				require.Greater(t, n, 5)
				break
			}
		}
	}
}

func TestFilesThatCannotBeMadeDurableDoNotPileUp(t *testing.T) {
	m := newFS(t)
	disk := faultfs.New(m, nil)
	w := journal.NewWriter(journal.Options{FS: disk, Dir: "data", Bytes: smallest})
	side := addRound(t, w, piece(1, 0, "failed"))
	exhaust(t, w, side)
	disk.SetInjector(faultfs.FailMatching(faultfs.OpSyncDir, "data", syscall.ENOSPC))
	for range 3 {
		_, err := w.SetAside(side, only(1), 1<<20)
		require.ErrorIs(t, err, syscall.ENOSPC, "so it is tried again")
		require.Equal(t, []string{journal.FileName}, names(t, m))
	}
}
