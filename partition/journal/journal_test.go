package journal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

var update = flag.Bool("update", false, "write the golden file")

const (
	file     = "data/" + journal.FileName
	smallest = 64 << 10
	sideSize = smallest / 2
)

func newFS(t testing.TB) *memfs.FS {
	m := memfs.New()
	require.NoError(t, vfs.EnsureDir(m, "data"))
	return m
}

func newWriter(t testing.TB, m vfs.FS) *journal.Writer { return newWriterFrom(t, m, 0) }

// newWriterFrom returns a writer whose first rounds are of a generation.
func newWriterFrom(t testing.TB, m vfs.FS, generation uint64) *journal.Writer {
	w := journal.NewWriter(journal.Options{FS: m, Dir: "data", Bytes: smallest, Generation: generation})
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// piece is an entry of partition p of one topic.
func piece(p int32, position int64, records string) journal.Entry {
	return journal.Entry{Key: journal.Key{Topic: [16]byte{1, 2, 3}, Partition: p}, Base: 7, Position: position, Records: []byte(records)}
}

// addRound makes one round of the entries durable and returns its side.
func addRound(t testing.TB, w *journal.Writer, entries ...journal.Entry) int {
	t.Helper()
	size := 0
	for _, e := range entries {
		size += int(journal.EntrySize(int64(len(e.Records))))
	}
	side, err := w.Begin(size)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, w.Add(e, len(e.Records), func(dst []byte) ([]byte, error) { return append(dst, e.Records...), nil }))
	}
	require.Equal(t, size, w.Size())
	require.NoError(t, w.Commit())
	return side
}

// recordFile is where a partition's records are.
func recordFile(p int32) string { return fmt.Sprintf("data/p%d", p) }

func write(t testing.TB, m vfs.FS, name, text string) {
	t.Helper()
	f, err := m.Open(name, vfs.CreateTruncate)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(text), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func read(t testing.TB, m vfs.FS, name string) string {
	t.Helper()
	text, err := vfs.ReadFile(m, name)
	require.NoError(t, err)
	return string(text)
}

// options put back into files called after the partition, of the segment 7.
func options(m vfs.FS) journal.ReplayOptions {
	return journal.ReplayOptions{FS: m, Dir: "data", Workers: 2, Find: func(k journal.Key, base int64) (string, bool) {
		return recordFile(k.Partition), base == 7
	}}
}

func TestWhatAFileLostIsPutBackAndTheJournalIsGone(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	write(t, m, recordFile(0), "0123")
	write(t, m, recordFile(1), "")
	write(t, m, recordFile(2), "all of it is here")
	addRound(t, w, piece(0, 4, "4567"), piece(1, 0, "ab"), piece(2, 4, "of it"))
	addRound(t, w, piece(0, 8, "89"), piece(3, 0, "its file was deleted"))
	other := piece(0, 10, "other segment")
	other.Base = 8
	addRound(t, w, other)

	done, err := journal.Replay(options(m))
	require.NoError(t, err)
	require.Equal(t, journal.Replayed{Rounds: true, Files: 3, Written: 2, Bytes: 8}, done)
	require.Equal(t, "0123456789", read(t, m, recordFile(0)))
	require.Equal(t, "ab", read(t, m, recordFile(1)))
	require.Equal(t, "all of it is here", read(t, m, recordFile(2)))
	_, err = m.Stat(recordFile(3))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = m.Stat(file)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "0123456789", read(t, m.CrashClean(), recordFile(0)), "it is durable")

	done, err = journal.Replay(options(m))
	require.NoError(t, err)
	require.Zero(t, done)
}

// A process that starts again on the same machine reads what a failed fsync dropped, as if it were on the disk.
func TestWhatAFailedFsyncDroppedIsWrittenAgain(t *testing.T) {
	m := newFS(t)
	addRound(t, newWriter(t, m), piece(0, 0, "records"))
	write(t, m, recordFile(0), "records")
	require.NoError(t, m.SyncDir("data"))
	f, err := m.Open(recordFile(0), vfs.ReadWrite)
	require.NoError(t, err)
	f.(interface{ DropUnsynced() }).DropUnsynced()
	require.NoError(t, f.Close())
	done, err := journal.Replay(options(m))
	require.NoError(t, err)
	require.Zero(t, done.Written, "nothing was missing")
	require.Equal(t, "records", read(t, m.CrashClean(), recordFile(0)))
}

func TestASideIsBegunAgainOnlyOnceItIsFree(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	big := strings.Repeat("x", sideSize/2)
	require.Equal(t, 0, addRound(t, w, piece(0, 0, big)))
	require.Equal(t, 1, addRound(t, w, piece(1, 0, big)))
	_, err := w.Begin(len(big))
	require.ErrorIs(t, err, journal.ErrFull)
	require.True(t, w.Full())
	w.Free(0)
	require.False(t, w.Full())
	require.Equal(t, 0, addRound(t, w, piece(2, 0, big)))
	for p := range int32(3) {
		write(t, m, recordFile(p), "")
	}
	done, err := journal.Replay(options(m))
	require.NoError(t, err)
	require.Equal(t, journal.Replayed{Rounds: true, Files: 2, Written: 2, Bytes: 2 * int64(len(big))}, done)
	require.Empty(t, read(t, m, recordFile(0)), "what the side held before counts no more")
}

// A power cut keeps any sectors of the first round that is written over older ones.
func TestAPowerCutWhileASideIsBegunAgainIsNotTakenForDamage(t *testing.T) {
	for seed := range uint64(60) {
		m := newFS(t)
		durable(t, m, 0)
		disk := faultfs.New(m, nil)
		w := journal.NewWriter(journal.Options{FS: disk, Dir: "data", Bytes: smallest})
		side := addRound(t, w, piece(0, 0, "a"))
		for range 20 {
			addRound(t, w, piece(0, 0, "a"))
		}
		next := exhaust(t, w, side)
		w.Free(side)
		for { // until the other one is full, too
			begun, err := w.Begin(4000)
			require.NoError(t, err)
			if begun != next {
				break
			}
			addRound(t, w, piece(0, 0, strings.Repeat("x", 4000)))
		}
		e := piece(0, 0, strings.Repeat("y", 3900))
		require.NoError(t, w.Add(e, len(e.Records), func(dst []byte) ([]byte, error) { return append(dst, e.Records...), nil }))
		disk.SetInjector(faultfs.When(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSync }, faultfs.Always(faultfs.Fault{Err: memfs.ErrKilled})))
		require.ErrorIs(t, w.Commit(), memfs.ErrKilled)
		m.Kill()
		m = m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true})
		_, err := journal.Replay(options(m))
		require.NoError(t, err, "seed %d", seed)
	}
}

func TestLaterRoundsWinWhicheverSideTheyAreIn(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	fill := strings.Repeat("x", sideSize*2/3)
	write(t, m, recordFile(0), "")
	write(t, m, recordFile(1), "")
	for i := range 5 {
		side := addRound(t, w, piece(0, 0, fmt.Sprint("round ", i)), piece(1, 0, fill))
		require.Equal(t, i%2, side)
		w.Free(1 - side)
	}
	_, err := journal.Replay(options(m))
	require.NoError(t, err)
	require.Equal(t, "round 4", read(t, m, recordFile(0)))
}

func TestAnAddThatFailsLeavesTheRoundAsItWas(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	write(t, m, recordFile(0), "")
	_, err := w.Begin(1000)
	require.NoError(t, err)
	unreadable := errors.New("unreadable")
	err = w.Add(piece(1, 0, ""), 3, func(dst []byte) ([]byte, error) { return append(dst, 'x'), unreadable })
	require.ErrorIs(t, err, unreadable)
	err = w.Add(piece(1, 0, ""), 3, func(dst []byte) ([]byte, error) { return append(dst, 'x'), nil })
	require.ErrorContains(t, err, "1 bytes of records, not 3")
	require.Zero(t, w.Size())
	require.NoError(t, w.Add(piece(0, 0, ""), 1, func(dst []byte) ([]byte, error) { return append(dst, 'x'), nil }))
	require.NoError(t, w.Commit())
	_, err = journal.Replay(options(m))
	require.NoError(t, err)
	require.Equal(t, "x", read(t, m, recordFile(0)))
}

func TestARoundThatIsTooLargeIsRefusedAndChangesNothing(t *testing.T) {
	w := newWriter(t, newFS(t))
	_, err := w.Begin(sideSize)
	require.ErrorContains(t, err, "does not fit")
	require.Equal(t, 0, addRound(t, w, piece(0, 0, "x")))
}

func TestAFileThatWasWrittenToByALaterLeaderIsLeftAlone(t *testing.T) {
	build := func(epoch int32, value string) string {
		b := batch.NewBuilder(batch.BuilderOptions{LeaderEpoch: epoch})
		b.Add(1, nil, []byte(value))
		built, err := b.Build()
		require.NoError(t, err)
		return string(built)
	}
	ours, later, failed := build(3, "ours"), build(4, "later"), build(3, "of an append that failed")
	torn := later[:len(later)-1]
	for name, row := range map[string]struct{ before, after, reason string }{
		"later":       {before: ours + later, after: ours + later, reason: fmt.Sprintf("at %d it holds a batch of a later leader than the journal's", len(ours))},
		"torn":        {before: ours + torn, after: ours + ours + torn[min(len(ours), len(torn)):]},
		"same leader": {before: ours + failed, after: ours + ours + failed[len(ours):]},
		"nothing":     {before: ours, after: ours + ours},
		"what it was": {before: ours + ours + later, after: ours + ours + later},
		"shorter than that": {before: ours[:5], after: ours[:5],
			reason: fmt.Sprintf("it has 5 bytes, and what the journal has of it begins at %d", len(ours))},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFS(t)
			addRound(t, newWriter(t, m), piece(0, int64(len(ours)), ours))
			write(t, m, recordFile(0), row.before)
			o := options(m)
			var reason string
			o.LeftAlone = func(file, why string) { reason = why }
			write(t, m, file+".left-1", "of an earlier start")
			done, err := journal.Replay(o)
			require.NoError(t, err)
			require.Equal(t, row.reason, reason)
			_, gone := m.Stat(file)
			require.ErrorIs(t, gone, fs.ErrNotExist)
			if reason != "" {
				require.Equal(t, file+".left-2", done.Kept)
				require.Contains(t, read(t, m, done.Kept), ours, "it may be nowhere else")
			} else {
				require.Empty(t, done.Kept)
			}
			require.Equal(t, row.after, read(t, m, recordFile(0)))
		})
	}
}

// TestALogThatGoesOnInANextSegmentGetsNothingThatBelongsThere has a server that knows no journal begin a segment where the
// records end that it found.
func TestALogThatGoesOnInANextSegmentGetsNothingThatBelongsThere(t *testing.T) {
	build := func(epoch int32, base int64, value string) string {
		b := batch.NewBuilder(batch.BuilderOptions{LeaderEpoch: epoch})
		b.Add(1, nil, []byte(value))
		built, err := b.Build()
		require.NoError(t, err)
		built.SetBaseOffset(base)
		return string(built)
	}
	const segment, next = "data/orders-0/00000000000000000007.log", "data/orders-0/00000000000000000008.log"
	first, second := build(3, 7, "first"), build(3, 8, "second")
	for name, row := range map[string]struct{ next, after string }{
		"later records":                  {next: build(4, 8, "later"), after: first},
		"what a roll that failed leaves": {after: first + second},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFS(t)
			require.NoError(t, vfs.EnsureDir(m, "data/orders-0"))
			addRound(t, newWriter(t, m), piece(0, int64(len(first)), second))
			write(t, m, segment, first)
			write(t, m, next, row.next)
			o := options(m)
			o.Find = func(journal.Key, int64) (string, bool) { return segment, true }
			_, err := journal.Replay(o)
			require.NoError(t, err)
			require.Equal(t, row.after, read(t, m, segment))
		})
	}
}

// bytesOf returns the journal's bytes and lets a test put changed ones in their place.
func bytesOf(t testing.TB, m *memfs.FS) []byte { return []byte(read(t, m, file)) }

func TestAnUnfinishedRoundIsTheEndOfTheJournalAndDamageBeforeTheEndIsNot(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	for i := range int32(3) {
		addRound(t, w, piece(i, 0, "records"))
	}
	whole := bytesOf(t, m)
	for at := 512; at < 512*3+24+40+7; at++ {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x10
		n := newFS(t)
		for i := range int32(3) {
			write(t, n, recordFile(i), "")
		}
		write(t, n, file, string(changed))
		done, err := journal.Replay(options(n))
		round, inRound := (at-512)/512, (at-512)%512
		switch {
		case inRound >= 24+40+7: // between rounds
			require.NoError(t, err)
			require.Equal(t, 3, done.Files)
		case round == 2:
			require.NoError(t, err, "byte %d", at)
			require.Equal(t, 2, done.Files, "byte %d", at)
		default:
			var corrupt *journal.CorruptError
			require.ErrorAs(t, err, &corrupt, "byte %d", at)
			require.Equal(t, int64(512+512*round), corrupt.Position)
			require.Equal(t, string(changed), read(t, n, file), "it is left as it is")
			require.Empty(t, read(t, n, recordFile(2)), "nothing is put back before all of it is read")
		}
	}
}

func TestAHeaderThatIsNotWholeIsThatOfAJournalWithoutRoundsOrDamage(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	addRound(t, w, piece(0, 0, "records"))
	whole := bytesOf(t, m)
	for n := range 24 {
		torn := newFS(t)
		write(t, torn, file, string(whole[:n]))
		done, err := journal.Replay(options(torn))
		require.NoError(t, err)
		require.Zero(t, done)

		damaged := newFS(t)
		write(t, damaged, file, string(whole[:n])+strings.Repeat("\x00", 512-n)+string(whole[512:]))
		_, err = journal.Replay(options(damaged))
		if n < 24 && !bytes.Equal(whole[n:24], make([]byte, 24-n)) {
			var corrupt *journal.CorruptError
			require.ErrorAs(t, err, &corrupt)
		}
	}
}

// TestRecordsThatLookLikeRoundsAreNotTakenForSuch has a client that may write to one partition try to write to another, or to
// keep the server from starting: its records stand where the remains of older rounds are.
func TestRecordsThatLookLikeRoundsAreNotTakenForSuch(t *testing.T) {
	for _, generation := range []uint64{1, 2, 3, 4, math.MaxUint64} {
		forger := newFS(t)
		w := newWriterFrom(t, forger, generation)
		addRound(t, w, piece(9, 0, "made up"))
		addRound(t, w, piece(9, 0, "made up")) // as the second of a side would look
		madeUp := string(bytesOf(t, forger)[2*512 : 3*512])

		m := newFS(t)
		write(t, m, recordFile(9), "")
		write(t, m, recordFile(1), "")
		w = newWriter(t, m)
		addRound(t, w, piece(1, 0, strings.Repeat("x", 512-64)+strings.Repeat(madeUp, 20)))
		for side := 0; side == 0; {
			side = addRound(t, w, piece(1, 0, strings.Repeat("filler", 1000)))
		}
		w.Free(0)
		for side := 1; side == 1; {
			side = addRound(t, w, piece(1, 0, "a short one"))
		}
		_, err := journal.Replay(options(m))
		require.NoError(t, err, "generation %d", generation)
		require.Empty(t, read(t, m, recordFile(9)), "generation %d", generation)
	}
}

// TestTheFormatIsAsItIsDrawn holds what a writer writes against a file of an earlier program.
func TestTheFormatIsAsItIsDrawn(t *testing.T) {
	m := newFS(t)
	w := newWriterFrom(t, m, 1)
	addRound(t, w, piece(1, 70, "the first records"), piece(2, 0, "others"))
	addRound(t, w, piece(1, 87, "and more"))
	w.Free(1)
	for side := 0; side == 0; {
		side = addRound(t, w, piece(3, 0, strings.Repeat("filler", 1000)))
	}
	var dump strings.Builder
	for at, b := 0, bytesOf(t, m); at < len(b); at += 32 {
		if line := b[at:min(at+32, len(b))]; !bytes.Equal(line, make([]byte, len(line))) && !bytes.Contains(line, []byte("fillerfillerfiller")) {
			fmt.Fprintf(&dump, "%06x %s\n", at, hex.EncodeToString(line))
		}
	}
	golden := filepath.Join("testdata", "journal-1.hex")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(dump.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), dump.String())
}

// TestWhateverAPowerCutLeavesEveryRoundThatWasCommittedIsThere commits rounds of random size, frees sides, and cuts the power in
// the middle of the next one.
func TestWhateverAPowerCutLeavesEveryRoundThatWasCommittedIsThere(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := newFS(t)
		w := newWriter(t, m)
		contents := map[int32]string{}
		for p := range int32(4) {
			write(t, m, recordFile(p), "")
			f, err := m.Open(recordFile(p), vfs.ReadWrite)
			require.NoError(t, err)
			require.NoError(t, f.Sync())
			require.NoError(t, f.Close())
		}
		require.NoError(t, m.SyncDir("data"))
		side := 0
		for range rng.IntN(40) {
			var entries []journal.Entry
			for p := range int32(4) {
				if rng.IntN(3) > 0 {
					text := strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(2000))
					entries = append(entries, piece(p, int64(len(contents[p])), text))
					contents[p] += text
				}
			}
			if len(entries) == 0 {
				continue
			}
			// A side is freed as soon as it is left, and what it held is synced first.
			if now := addRound(t, w, entries...); now != side {
				for p, text := range contents {
					f, err := m.Open(recordFile(p), vfs.ReadWrite)
					require.NoError(t, err)
					_, err = f.WriteAt([]byte(text), 0)
					require.NoError(t, err)
					require.NoError(t, f.Sync())
					require.NoError(t, f.Close())
				}
				w.Free(side)
				side = now
			}
		}
		left := m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: rng.Float64(), Torn: true})
		_, err := journal.Replay(options(left))
		require.NoError(t, err)
		for p, text := range contents {
			require.Equal(t, text, read(t, left, recordFile(p)), "seed %d", seed)
		}
	}
}

func FuzzReplayOfAnyBytesIsRefusedOrPutsBackWhatTheySay(f *testing.F) {
	m := newFS(f)
	w := journal.NewWriter(journal.Options{FS: m, Dir: "data", Bytes: smallest})
	addRound(f, w, piece(0, 0, "records"), piece(1, 3, "more"))
	addRound(f, w, piece(0, 7, "records"))
	require.NoError(f, w.Close())
	f.Add([]byte(read(f, m, file)))
	f.Add([]byte("TMJOURNL"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newFS(t)
		write(t, m, file, string(data))
		write(t, m, recordFile(0), "")
		write(t, m, recordFile(1), "abc")
		_, err := journal.Replay(options(m))
		_, gone := m.Stat(file)
		if err == nil {
			require.ErrorIs(t, gone, fs.ErrNotExist)
			return
		}
		var corrupt *journal.CorruptError
		var version *journal.VersionError
		require.True(t, errors.As(err, &corrupt) || errors.As(err, &version), "%v", err)
		require.NoError(t, gone)
		require.Empty(t, read(t, m, recordFile(0)))
	})
}

func TestAFullDiskKeepsNothingFromBeingReplayedThatIsThere(t *testing.T) {
	m := newFS(t)
	addRound(t, newWriter(t, m), piece(0, 0, "records"))
	write(t, m, recordFile(0), "records")
	o := options(faultfs.New(m, faultfs.FailMatching(faultfs.OpWriteAt, "*", syscall.ENOSPC)))
	_, err := journal.Replay(o)
	require.NoError(t, err)

}

// TestAFileThatTheDiskHasNoRoomForIsPutBackLater has two starts on a full disk, and a third for which space was made.
func TestAFileThatTheDiskHasNoRoomForIsPutBackLater(t *testing.T) {
	m := newFS(t)
	for p := range int32(2) {
		write(t, m, recordFile(p), "")
	}
	addRound(t, newWriter(t, m), piece(0, 0, "first"), piece(1, 0, "whole"))
	full := options(faultfs.New(m, faultfs.FailMatching(faultfs.OpWriteAt, recordFile(0), syscall.ENOSPC)))
	done, err := journal.Replay(full)
	require.NoError(t, err)
	require.Len(t, done.Lacking, 1)
	require.Equal(t, recordFile(0), done.Lacking[0].File)
	require.ErrorIs(t, done.Lacking[0].Err, syscall.ENOSPC)
	require.Equal(t, "whole", read(t, m, recordFile(1)))
	_, err = m.Stat(file)
	require.ErrorIs(t, err, fs.ErrNotExist, "the next journal has its name")

	addRound(t, newWriter(t, m), piece(1, 5, "more"))
	done, err = journal.Replay(full)
	require.NoError(t, err)
	require.Len(t, done.Lacking, 1)
	require.Equal(t, "wholemore", read(t, m, recordFile(1)))

	waiting := options(m)
	waiting.Waiting = true
	addRound(t, newWriter(t, m), piece(1, 9, "."))
	done, err = journal.Replay(waiting)
	require.NoError(t, err)
	require.Empty(t, done.Lacking)
	require.Equal(t, "first", read(t, m, recordFile(0)))
	require.Equal(t, "wholemore", read(t, m, recordFile(1)), "the journal in use is not looked at")
	names, err := m.List("data")
	require.NoError(t, err)
	require.Len(t, names, 3, "two files and a journal")
	require.NoError(t, journal.Remove(m, "data"))
}

func TestJournalsThatWaitAreRemovedWithTheOneInUse(t *testing.T) {
	m := newFS(t)
	write(t, m, recordFile(0), "")
	full := options(faultfs.New(m, faultfs.FailMatching(faultfs.OpWriteAt, "data/p*", syscall.ENOSPC)))
	for range 3 {
		addRound(t, newWriter(t, m), piece(0, 0, "first"))
		done, err := journal.Replay(full)
		require.NoError(t, err)
		require.NotEmpty(t, done.Lacking)
	}
	there, err := journal.Exists(m, "data")
	require.NoError(t, err)
	require.True(t, there)
	require.NoError(t, journal.Remove(m, "data"))
	there, err = journal.Exists(m, "data")
	require.NoError(t, err)
	require.False(t, there)
	names, err := m.List("data")
	require.NoError(t, err)
	require.Len(t, names, 1)
}

func TestU24_OfADamagedJournalIsPutBackWhatIsInFrontOfTheDamage(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	for i := range int32(3) {
		addRound(t, w, piece(i, 0, "records"))
	}
	changed := bytesOf(t, m)
	changed[2*512+30] ^= 0x10 // in the second round
	write(t, m, file, string(changed))
	for i := range int32(3) {
		write(t, m, recordFile(i), "")
	}
	o := options(m)
	o.Salvage = true
	done, err := journal.Replay(o)
	require.NoError(t, err)
	require.Equal(t, int64(2*512), done.Damaged.Position)
	require.Equal(t, 1, done.Written)
	require.Equal(t, "records", read(t, m, recordFile(0)))
	require.Empty(t, read(t, m, recordFile(2)))
	require.Equal(t, string(changed), read(t, m, done.Kept), "all of it is kept")
	done, err = journal.Replay(o)
	require.NoError(t, err)
	require.Zero(t, done, "and no start looks at it again")
}
