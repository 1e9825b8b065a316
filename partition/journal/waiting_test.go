package journal_test

import (
	"fmt"
	"io/fs"
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

const waitingFile = file + ".waiting-1"

// withoutRoomFor replays with no space for some partitions.
func withoutRoomFor(t *testing.T, m vfs.FS, partitions ...int32) journal.Replayed {
	t.Helper()
	done, err := journal.Replay(options(faultfs.New(m, faultfs.When(func(op faultfs.Op) bool {
		for _, p := range partitions {
			if op.Kind == faultfs.OpWriteAt && op.Name == recordFile(p) {
				return true
			}
		}
		return false
	}, faultfs.Always(faultfs.Fault{Err: syscall.ENOSPC})))))
	require.NoError(t, err)
	require.Len(t, done.Lacking, len(partitions))
	return done
}

// durable makes the files of partitions durable, empty.
func durable(t *testing.T, m vfs.FS, partitions ...int32) {
	t.Helper()
	for _, p := range partitions {
		write(t, m, recordFile(p), "")
	}
	require.NoError(t, m.SyncDir("data"))
}

func TestAJournalThatWaitsIsPutBackOnlyIntoThePartitionsThatWait(t *testing.T) {
	m := newFS(t)
	durable(t, m, 0, 1, 2)
	addRound(t, newWriter(t, m), piece(0, 0, "lacks"), piece(1, 0, "served"), piece(2, 0, "lacks once"))
	withoutRoomFor(t, m, 0, 2)
	m = m.Crash(memfs.CrashOptions{})
	require.Equal(t, "served", read(t, m, recordFile(1)))

	write(t, m, recordFile(1), "rewritten")
	withoutRoomFor(t, m, 0)
	require.Equal(t, "rewritten", read(t, m, recordFile(1)), "it was served since, and a tool may have made it shorter")
	require.Equal(t, "lacks once", read(t, m, recordFile(2)))

	write(t, m, recordFile(2), "rewritten, too")
	done, err := journal.Replay(options(m))
	require.NoError(t, err)
	require.Equal(t, journal.Replayed{Rounds: true, Files: 1, Written: 1, Bytes: 5}, done)
	require.Equal(t, "lacks", read(t, m, recordFile(0)))
	require.Equal(t, "rewritten", read(t, m, recordFile(1)))
	require.Equal(t, "rewritten, too", read(t, m, recordFile(2)))
	_, err = m.Stat(waitingFile)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestWhatWaitsIsDurableBeforeTheJournalHasAnotherName(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.OpWriteAt, faultfs.OpSync, faultfs.OpRename} {
		m := newFS(t)
		durable(t, m, 0, 1)
		addRound(t, newWriter(t, m), piece(0, 0, "lacks"), piece(1, 0, "served"))
		_, err := journal.Replay(options(faultfs.New(m, faultfs.First(
			faultfs.FailMatching(faultfs.OpWriteAt, recordFile(0), syscall.ENOSPC), faultfs.FailMatching(kind, file, syscall.EIO)))))
		require.ErrorIs(t, err, syscall.EIO)
		require.NotEmpty(t, read(t, m, file))
		withoutRoomFor(t, m, 0)
	}
}

func TestAFileThatWasLeftAloneIsNotForgottenWhileAJournalWaits(t *testing.T) {
	m := newFS(t)
	durable(t, m, 0, 1)
	addRound(t, newWriter(t, m), piece(0, 0, "lacks"), piece(1, 5, "behind what is there"))
	withoutRoomFor(t, m, 0)
	done, err := journal.Replay(options(m))
	require.NoError(t, err)
	require.Equal(t, file+".left-1", done.Kept)
	require.Contains(t, read(t, m, done.Kept), "behind what is there")
}

// TestAJournalThatDoesNotSayWhatWaitsIsPutBackOnlyWhereALogEnds damages what it says of that.
func TestAJournalThatDoesNotSayWhatWaitsIsPutBackOnlyWhereALogEnds(t *testing.T) {
	build := func(offset int64, value string) string {
		b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: offset})
		b.Add(1, nil, []byte(value))
		built, err := b.Build()
		require.NoError(t, err)
		return string(built)
	}
	first, second, other := build(7, "first"), build(8, "second"), build(7, strings.Repeat("rewritten", 20))
	for name, row := range map[string]struct{ before, after string }{
		"nothing was there":           {first, first + second},
		"a beginning was":             {first + second[:20], first + second},
		"a beginning and zeros were":  {first + second[:20] + strings.Repeat("\x00", 90), first + second + strings.Repeat("\x00", 90-len(second)+20)},
		"all of it was":               {first + second, first + second},
		"it is shorter now":           {first[:30], first[:30]},
		"something else is there":     {other, other},
		"it ends there with others":   {strings.Repeat("x", len(first)), strings.Repeat("x", len(first))},
		"later offsets are before it": {build(9, "first"), build(9, "first")},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFS(t)
			durable(t, m, 0, 1)
			addRound(t, newWriter(t, m), piece(0, 0, "lacks"), piece(1, int64(len(first)), second))
			write(t, m, recordFile(1), first)
			withoutRoomFor(t, m, 0)
			journaled := []byte(read(t, m, waitingFile))
			journaled[100] ^= 1
			write(t, m, waitingFile, string(journaled))
			write(t, m, recordFile(1), row.before)
			done, err := journal.Replay(options(m))
			require.NoError(t, err)
			require.Equal(t, row.after, read(t, m, recordFile(1)))
			require.Equal(t, string(journaled), read(t, m, done.Kept), "partition 0 holds no batches, so it is kept")
		})
	}
}

// TestOfThousandsOfPartitionsThoseThatCannotBeToldApartWaitTogether has more partitions than a journal has marks for.
func TestOfThousandsOfPartitionsThoseThatCannotBeToldApartWaitTogether(t *testing.T) {
	const marks = 3808
	m := newFS(t)
	w := journal.NewWriter(journal.Options{FS: m, Dir: "data", Bytes: 4 << 20})
	var entries []journal.Entry
	for p := range int32(marks + 2) {
		entries = append(entries, piece(p, 0, "x"))
		write(t, m, recordFile(p), "")
	}
	addRound(t, w, entries...)
	require.NoError(t, w.Close())
	done, err := journal.Replay(options(faultfs.New(m, faultfs.FailMatching(faultfs.OpWriteAt, recordFile(1), syscall.ENOSPC))))
	require.NoError(t, err)
	require.Len(t, done.Lacking, 2)
	require.Equal(t, []string{recordFile(1), recordFile(marks + 1)}, []string{done.Lacking[0].File, done.Lacking[1].File})
	done, err = journal.Replay(options(m))
	require.NoError(t, err)
	require.Equal(t, 2, done.Files, fmt.Sprint(done))
}

func TestAJournalStaysAsItIsWhileSomeOfItsPartitionsAreUnknown(t *testing.T) {
	m := newFS(t)
	durable(t, m, 0, 1)
	addRound(t, newWriter(t, m), piece(0, 0, "known"), piece(1, 0, "unknown"))
	held := read(t, m, file)
	o := options(m)
	o.KeepUnknown = true
	o.Find = func(k journal.Key, base int64) (string, bool) { return recordFile(0), k.Partition == 0 }
	done, err := journal.Replay(o)
	require.NoError(t, err)
	require.Equal(t, 1, done.Unknown)
	require.Equal(t, held, read(t, m, file))
	o = options(m)
	o.KeepUnknown = true
	done, err = journal.Replay(o)
	require.NoError(t, err)
	require.Zero(t, done.Unknown)
	require.Equal(t, "unknown", read(t, m, recordFile(1)))
	_, err = m.Stat(file)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestAFileThatTheDeviceFailsWaitsAndNoOther fails each call that is made of one file.
func TestAFileThatTheDeviceFailsWaitsAndNoOther(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.OpOpen, faultfs.OpFileStat, faultfs.OpReadAt, faultfs.OpWriteAt, faultfs.OpSync, faultfs.OpClose} {
		m := newFS(t)
		durable(t, m, 0, 1)
		addRound(t, newWriter(t, m), piece(0, 0, "fails"), piece(1, 0, "fine"))
		write(t, m, recordFile(0), "fa")
		done, err := journal.Replay(options(faultfs.New(m, faultfs.FailMatching(kind, recordFile(0), syscall.EIO))))
		require.NoError(t, err)
		require.Len(t, done.Lacking, 1, kind)
		require.Equal(t, recordFile(0), done.Lacking[0].File)
		require.ErrorIs(t, done.Lacking[0].Err, syscall.EIO)
		require.Equal(t, "fine", read(t, m.CrashClean(), recordFile(1)))
		done, err = journal.Replay(options(m))
		require.NoError(t, err)
		require.Empty(t, done.Lacking)
		require.Equal(t, "fails", read(t, m.CrashClean(), recordFile(0)))
		require.NotContains(t, names(t, m), journal.FileName+".waiting-1")
	}
}
