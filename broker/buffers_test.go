package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABufferThatNobodyWouldAskForIsNotKept(t *testing.T) {
	var p buffers
	const largest = 1 << largestBufferBits
	large := p.take(largest + 1)
	require.Len(t, large, largest+1)
	p.give(large)
	for i := range p.pools {
		require.Nil(t, p.pools[i].Get(), "class %d", i)
	}
}

func TestTheClassOfABufferIsTheSmallestThatHoldsIt(t *testing.T) {
	for n, want := range map[int]int{
		1: 0, 1024: 0, 1025: 1, 4096: 2, 4097: 3, 1 << largestBufferBits: largestBufferBits - smallestBufferBits,
		1<<largestBufferBits + 1: -1,
	} {
		require.Equal(t, want, bufferClass(n), "%d bytes", n)
	}
}
