package objstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProcessHas25CallsForEachCoreWithin50And1000(t *testing.T) {
	for cores, want := range map[int]int{1: 50, 2: 50, 3: 75, 16: 400, 40: 1000, 128: 1000} {
		require.Equal(t, want, callsFor(cores), "%d cores", cores)
	}
}
