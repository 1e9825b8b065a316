package batch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSequenceVectors(t *testing.T) {
	require.Equal(t, int32(0), IncrementSequence(math.MaxInt32, 1))
	require.Equal(t, int32(1), IncrementSequence(math.MaxInt32-1, 3))
	require.Equal(t, int32(math.MaxInt32), DecrementSequence(0, 1))
	require.Equal(t, int32(math.MaxInt32-1), DecrementSequence(1, 3))
	require.True(t, SequenceFollows(4, 5))
	require.True(t, SequenceFollows(-1, 0))
	require.True(t, SequenceFollows(math.MaxInt32, 0))
	require.False(t, SequenceFollows(4, 4))
	require.False(t, SequenceFollows(4, 6))
	require.False(t, SequenceFollows(4, 0))
	require.False(t, SequenceFollows(math.MaxInt32, math.MinInt32))
}

func TestSequenceArithmeticIsModulo2To31(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.Int32Min(0).Draw(t, "s")
		n := rapid.Int32Min(0).Draw(t, "n")
		require.Equal(t, int32((int64(s)+int64(n))%(1<<31)), IncrementSequence(s, n))
		require.Equal(t, s, DecrementSequence(IncrementSequence(s, n), n))
		require.True(t, SequenceFollows(s, IncrementSequence(s, 1)))
	})
}

func TestLastSequence(t *testing.T) {
	require.Equal(t, int32(-1), Header{BaseSequence: -1, LastOffsetDelta: 3}.LastSequence())
	require.Equal(t, int32(8), Header{BaseSequence: 5, LastOffsetDelta: 3}.LastSequence())
	require.Equal(t, int32(1), Header{BaseSequence: math.MaxInt32 - 1, LastOffsetDelta: 3}.LastSequence())
}
