//go:build race

package batch

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestF19_ReleasedBytesAreOverwritten(t *testing.T) {
	for codec := Gzip; codec <= Zstd; codec++ {
		r := build(t, BuilderOptions{Codec: codec}, sample()).Records(Limits{})
		require.True(t, r.Next())
		kept := r.Record().Value
		require.Equal(t, []byte("v"), kept)
		r.Close()
		require.Equal(t, bytes.Repeat([]byte{0xdb}, len(kept)), kept, codec)
	}
}
