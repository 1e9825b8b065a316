package poison

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesAreOverwrittenWithTheRaceDetectorAlone(t *testing.T) {
	for n := range 70 {
		b := make([]byte, n)
		Fill(b)
		want := make([]byte, n)
		if On {
			want = bytes.Repeat([]byte{Byte}, n)
		}
		require.Equal(t, want, b)
	}
}
