package journal_test

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// records returns a batch of n records from an offset on.
func records(t *testing.T, base int64, n int) string {
	t.Helper()
	b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: base})
	for range n {
		b.Add(1, nil, []byte("value"))
	}
	built, err := b.Build()
	require.NoError(t, err)
	return string(built)
}

func TestAnInspectionTellsWhatTheJournalHoldsAndChangesNothing(t *testing.T) {
	m := newFS(t)
	found, err := journal.Inspect(m, "data")
	require.NoError(t, err)
	require.Empty(t, found, "there is none")

	w := newWriter(t, m)
	first, second := records(t, 40, 3), records(t, 43, 2)
	addRound(t, w, piece(0, 0, first), piece(1, 0, "no batch"))
	addRound(t, w, piece(0, int64(len(first)), second))
	before := bytesOf(t, m)
	found, err = journal.Inspect(m, "data")
	require.NoError(t, err)
	key := piece(0, 0, "").Key
	want := journal.Inspection{Name: journal.FileName, Held: []journal.Held{
		{Key: key, Base: 7, Bytes: int64(len(first) + len(second)), First: 40, Next: 45},
		{Key: piece(1, 0, "").Key, Base: 7, Bytes: 8},
	}}
	require.Equal(t, []journal.Inspection{want}, found)
	require.Equal(t, before, bytesOf(t, m))

	damaged := bytesOf(t, m)
	damaged[512+30] ^= 1 // in the first round
	write(t, m, file, string(damaged))
	found, err = journal.Inspect(m, "data")
	require.NoError(t, err)
	require.Empty(t, found[0].Held)
	var corrupt *journal.CorruptError
	require.ErrorAs(t, found[0].Problem, &corrupt)
	require.Equal(t, int64(512), corrupt.Position)

	binary.BigEndian.PutUint32(damaged[8:], 9)
	write(t, m, file, string(damaged))
	found, err = journal.Inspect(m, "data")
	require.NoError(t, err)
	var newer *journal.VersionError
	require.ErrorAs(t, found[0].Problem, &newer)
	require.Equal(t, uint32(9), newer.Found)
}

func TestAnInspectionTellsWhatAJournalWaitsFor(t *testing.T) {
	m := newFS(t)
	w := newWriter(t, m)
	addRound(t, w, piece(0, 0, "here"), piece(1, 0, "lost"))
	write(t, m, recordFile(0), "here")
	write(t, m, recordFile(1), "")
	full := faultfs.New(m, faultfs.FailMatching(faultfs.OpWriteAt, recordFile(1), syscall.ENOSPC))
	_, err := journal.Replay(options(full))
	require.NoError(t, err)
	found, err := journal.Inspect(m, "data")
	require.NoError(t, err)
	require.Equal(t, []journal.Inspection{{
		Name: journal.FileName + ".waiting-1", Waits: true, Held: []journal.Held{{Key: piece(1, 0, "").Key, Base: 7, Bytes: 4}},
	}}, found)

	left, err := journal.Left(m, "data")
	require.NoError(t, err)
	require.Empty(t, left)
	write(t, m, "data/"+journal.FileName+".left-2", "")
	write(t, m, "data/"+journal.FileName+".left-10", "")
	left, err = journal.Left(m, "data")
	require.NoError(t, err)
	require.Equal(t, []string{journal.FileName + ".left-2", journal.FileName + ".left-10"}, left)
}
