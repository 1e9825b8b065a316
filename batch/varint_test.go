package batch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestVarintVectors(t *testing.T) {
	for value, encoded := range map[int32][]byte{
		0: {0x00}, -1: {0x01}, 1: {0x02}, -2: {0x03}, 63: {0x7e}, -64: {0x7f},
		64: {0x80, 0x01}, -65: {0x81, 0x01}, 300: {0xd8, 0x04},
		math.MaxInt32: {0xfe, 0xff, 0xff, 0xff, 0x0f},
		math.MinInt32: {0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		require.Equal(t, encoded, appendVarint32(nil, value))
		require.Equal(t, len(encoded), sizeVarint32(value))
		got, n := varint32(encoded)
		require.Equal(t, value, got)
		require.Equal(t, len(encoded), n)
	}
}

func TestVarintThatDoesNotEnd(t *testing.T) {
	long := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
	for n := range maxVarint32 {
		_, used := varint32(long[:n])
		require.Zero(t, used, "a varint cut off after %d bytes", n)
	}
	_, used := varint32(long)
	require.Equal(t, -1, used, "a fifth byte that continues")
	for n := range maxVarint64 {
		_, used := varint64(long[:n])
		require.Zero(t, used, "a varint64 cut off after %d bytes", n)
	}
	_, used = varint64(long)
	require.Equal(t, -1, used, "a tenth byte that continues")
}

func TestVarintRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64().Draw(t, "value")
		tail := rapid.SliceOf(rapid.Byte()).Draw(t, "tail")

		encoded := appendVarint64(nil, v)
		require.Len(t, encoded, sizeVarint64(v))
		got, n := varint64(append(encoded, tail...))
		require.Equal(t, v, got)
		require.Equal(t, len(encoded), n)

		encoded = appendVarint32(nil, int32(v))
		require.Len(t, encoded, sizeVarint32(int32(v)))
		short, n := varint32(append(encoded, tail...))
		require.Equal(t, int32(v), short)
		require.Equal(t, len(encoded), n)
	})
}
