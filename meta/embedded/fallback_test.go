package embedded_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

// damageSnapshot changes a bit of a stored snapshot, wherever the file has it.
func damageSnapshot(t *testing.T, path string, index uint64) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	found := 0
	for at := 0; ; found++ {
		next := bytes.Index(b[at:], []byte("TMMS"))
		if next < 0 {
			break
		}
		if at += next; binary.LittleEndian.Uint64(b[at+5:]) == index {
			b[at+100] ^= 0x10
		}
		at += 4
	}
	require.NotZero(t, found)
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// loseEntries takes entries out of the file.
func loseEntries(t *testing.T, path string, from, to uint64) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for i := from; i <= to; i++ {
			if err := tx.Bucket([]byte("log")).Delete(binary.BigEndian.AppendUint64(nil, i)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
}

func TestF41_TheOlderSnapshotOfAFileStandsInForADamagedOne(t *testing.T) {
	path, want := writtenLog(t) // 131 entries, snapshots at 80 and 120
	damageSnapshot(t, path, 120)
	b, err := embedded.Open(path, embedded.Options{MustExist: true, Reserve: -1})
	require.NoError(t, err)
	var fell []meta.FallbackEvent
	events := meta.Events{FellBack: func(e meta.FallbackEvent) { fell = append(fell, e) }}
	l, err := meta.Open(t.Context(), b, meta.Options{SnapshotEvery: 40, Events: events})
	require.NoError(t, err)
	require.True(t, string(want) == string(l.View().EncodeSnapshot()), "another state was made")
	require.Len(t, fell, 1)
	require.ErrorContains(t, fell[0].Err, path+": snapshot 120: at byte ")
	fell[0].Err = nil
	require.Equal(t, []meta.FallbackEvent{{Damaged: 120, From: 80, Entries: 40}}, fell)
	_, err = l.Do(t.Context(), meta.PutKv{Key: "more", Value: []byte("v")})
	require.NoError(t, err)
	want = l.View().EncodeSnapshot()
	require.NoError(t, l.Close())
	found, err := meta.Inspect(t.Context(), b)
	require.NoError(t, err)
	require.Empty(t, found.Findings, "it was stored again in its place")
	require.NoError(t, b.Close())
	got, err := openState(path, embedded.Options{MustExist: true})
	require.NoError(t, err)
	require.True(t, string(want) == string(got))
}

func TestF41_AFileWithADamagedSnapshotAndWithoutAnEntrySinceIsRefused(t *testing.T) {
	path, _ := writtenLog(t)
	damageSnapshot(t, path, 120)
	loseEntries(t, path, 81, 81)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = embedded.Open(path, embedded.Options{MustExist: true, Reserve: -1})
	var refused *meta.FallbackError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, uint64(80), refused.Older)
	require.ErrorContains(t, err, path+": snapshot 120: at byte ")
	require.ErrorContains(t, err, "and the older snapshot, 80, cannot replace it: log entry 81 is missing")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, string(before) == string(after), "a file that was refused was written to")

	path, _ = writtenLog(t)
	damageSnapshot(t, path, 120)
	damageSnapshot(t, path, 80)
	_, err = embedded.Open(path, embedded.Options{MustExist: true, Reserve: -1})
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "log entry 1 is missing")

	path, want := writtenLog(t)
	damageSnapshot(t, path, 80) // the newest is whole: nothing is needed from the older one
	got, err := openState(path, embedded.Options{MustExist: true})
	require.NoError(t, err)
	require.True(t, string(want) == string(got))
}
