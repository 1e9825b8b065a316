package etcd

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysSortByIndex(t *testing.T) {
	k := keys{"/tidemark/prod/"}
	require.Equal(t, "/tidemark/prod/log/00000000000000000007", k.entry(7))
	require.Equal(t, "/tidemark/prod/snap/00000000000000000007/00000000000000ff/000003", k.chunk(snapshot{index: 7, attempt: 255}, 3))
	require.Equal(t, "/tidemark/prod/claim/lease/meta", k.claim("lease/meta"))
	sorted := []string{k.entry(0), k.entry(9), k.entry(10), k.entry(1<<64 - 1)}
	require.True(t, slices.IsSorted(sorted))
	require.Less(t, k.chunk(snapshot{index: 1<<64 - 1}, 999999), k.latest(), "snap/latest is never among the parts")
}

func TestTheListOfSnapshotsIsReadAsItWasWritten(t *testing.T) {
	kept := []snapshot{newSnapshot(20, 0xABC, make([]byte, chunkBytes+1)), newSnapshot(10, 1, nil)}
	text := "20 0000000000000abc 2 1048577 a30ccd45\n10 0000000000000001 0 0 00000000\n"
	require.Equal(t, text, encodeSnapshots(kept))
	got, err := decodeSnapshots(text)
	require.NoError(t, err)
	require.Equal(t, kept, got)
	for _, wrong := range []string{"20", text[:len(text)-1], text + "\n", "10 1 0 0 0\n", text + text, "x 1 1 1 1\n"} {
		_, err := decodeSnapshots(wrong)
		require.Error(t, err, "%q", wrong)
	}
}

func FuzzDecodeSnapshots(f *testing.F) {
	f.Add(encodeSnapshots([]snapshot{newSnapshot(20, 5, []byte("x")), newSnapshot(10, 1, nil)}))
	f.Fuzz(func(t *testing.T, text string) {
		if kept, err := decodeSnapshots(text); err == nil {
			require.Equal(t, text, encodeSnapshots(kept))
		}
	})
}
