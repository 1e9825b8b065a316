package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAGroupWhoseOffsetsAreAllAskedForTwiceIsToldOnce(t *testing.T) {
	c := newRig(t).dial()
	req := at(8, kmsg.NewPtrOffsetFetchRequest())
	for _, name := range []string{"g", "g", "h", "g"} {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		req.Groups = append(req.Groups, g)
	}
	resp := do[*kmsg.OffsetFetchResponse](c, req)
	require.Len(t, resp.Groups, 2)
	require.Equal(t, "g", resp.Groups[0].Group)
	require.Equal(t, "h", resp.Groups[1].Group)
}

func TestUniqueKeepsTheFirstOfEach(t *testing.T) {
	same := func(n int) int { return n }
	require.Equal(t, []int{3, 1, 2}, unique([]int{3, 1, 3, 2, 1}, same))
	require.Nil(t, unique(nil, same))
}
