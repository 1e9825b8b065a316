package embedded_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

func TestARestoredLogGoesOnFromItsSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	s, _ := meta.Empty().Apply(41, meta.Entry{Commands: []meta.Command{meta.PutKv{Key: "k", Value: []byte("v")}}})
	require.NoError(t, embedded.Restore(path, "c", 41, s.EncodeSnapshot()))
	require.NoError(t, embedded.Verify(path))
	require.ErrorIs(t, embedded.Restore(path, "c", 41, s.EncodeSnapshot()), fs.ErrExist)

	for range 2 {
		b, err := embedded.Open(path, embedded.Options{MustExist: true})
		require.NoError(t, err)
		l, err := meta.Open(t.Context(), b, meta.Options{SnapshotEvery: 3})
		require.NoError(t, err)
		for range 7 {
			_, err = l.Do(t.Context(), meta.PutKv{Key: "l", Value: []byte("w")})
			require.NoError(t, err)
		}
		v, _ := l.View().Get("k")
		require.Equal(t, "v", string(v.Value))
		require.NoError(t, l.Close())
		require.NoError(t, b.Close())
	}
	require.NoError(t, embedded.Verify(path))
}

func TestOpenToReadChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	_, err := embedded.OpenToRead(path)
	var missing *meta.MissingError
	require.ErrorAs(t, err, &missing)
	require.NoFileExists(t, path)

	require.NoError(t, embedded.Restore(path, "c", 0, meta.Empty().EncodeSnapshot()))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	one, err := embedded.OpenToRead(path)
	require.NoError(t, err)
	two, err := embedded.OpenToRead(path)
	require.NoError(t, err)
	require.Equal(t, "c", one.ClusterID())
	require.Error(t, one.Append(t.Context(), 1, []byte("x")))
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)

	writer, err := embedded.Open(path, embedded.Options{})
	require.NoError(t, err)
	defer writer.Close()
	_, err = embedded.OpenToRead(path)
	var locked *meta.LockedError
	require.ErrorAs(t, err, &locked)
}

func TestARestoreThatWasCutShortLeavesNoLogAndIsNoHindrance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	whole := filepath.Join(t.TempDir(), "meta.db")
	require.NoError(t, embedded.Restore(whole, "c", 3, meta.Empty().EncodeSnapshot()))
	made, err := os.ReadFile(whole)
	require.NoError(t, err)
	for _, kept := range []int{0, 1, len(made) / 2, len(made)} { // of the file that was being made
		require.NoError(t, os.WriteFile(path+".new", made[:kept], 0o600))
		_, err := embedded.Open(path, embedded.Options{MustExist: true})
		var missing *meta.MissingError
		require.ErrorAs(t, err, &missing)
		s, _ := meta.Empty().Apply(5, meta.Entry{Commands: []meta.Command{meta.PutKv{Key: "k"}}})
		require.NoError(t, embedded.Restore(path, "c", 5, s.EncodeSnapshot()))
		require.NoError(t, embedded.Verify(path))
		require.NoError(t, os.Remove(path))
	}
}
