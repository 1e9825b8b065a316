package embedded_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

// TestACopyIsTheFileAsOfOneMoment copies a log while it grows: every copy is whole, and none ends before what was appended.
func TestACopyIsTheFileAsOfOneMoment(t *testing.T) {
	b, err := embedded.Open(filepath.Join(t.TempDir(), "meta.db"), embedded.Options{ClusterID: "c"})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	appended := make(chan uint64)
	go func() {
		defer close(appended)
		for index := uint64(1); index <= 200; index++ {
			e := meta.Entry{Node: 1, Nonce: index, Commands: []meta.Command{meta.PutKv{Key: "k", Value: make([]byte, 4000)}}}
			entry, err := e.Encode()
			if err != nil || b.Append(context.Background(), index, entry) != nil {
				return
			}
			if index%40 == 0 {
				appended <- index
			}
		}
	}()
	for index := range appended {
		var file bytes.Buffer
		n, err := b.CopyTo(t.Context(), &file)
		require.NoError(t, err)
		require.EqualValues(t, file.Len(), n)
		name := filepath.Join(t.TempDir(), "copy.db")
		require.NoError(t, os.WriteFile(name, file.Bytes(), 0o600))
		copied, err := embedded.Open(name, embedded.Options{ClusterID: "c", MustExist: true, Reserve: -1})
		require.NoError(t, err)
		head, err := copied.Head(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, head, index)
		require.NoError(t, copied.Close())
	}
}

func TestACopyEndsWithItsContext(t *testing.T) {
	b, err := embedded.Open(filepath.Join(t.TempDir(), "meta.db"), embedded.Options{ClusterID: "c"})
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.CopyTo(ended, &bytes.Buffer{})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, b.Close())
}
