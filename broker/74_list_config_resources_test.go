package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestListConfigResources(t *testing.T) {
	r := newRig(t)
	r.topic("b", 1, nil)
	r.topic("a", 1, nil)
	c := r.dial()
	list := func(version int16, types ...int8) *kmsg.ListConfigResourcesResponse {
		req := at(version, kmsg.NewPtrListConfigResourcesRequest())
		req.ResourceTypes = types
		return do[*kmsg.ListConfigResourcesResponse](c, req)
	}
	topics := []kmsg.ListConfigResourcesResponseConfigResource{{Name: "a", Type: 2}, {Name: "b", Type: 2}}
	node := []kmsg.ListConfigResourcesResponseConfigResource{{Name: "7", Type: 4}}
	all := append(append([]kmsg.ListConfigResourcesResponseConfigResource{{Name: "7", Type: 8}}, node...), topics...)
	require.Equal(t, all, list(1).ConfigResources)
	require.Equal(t, topics, list(1, 2, 2).ConfigResources)
	require.Equal(t, node, list(1, 4).ConfigResources)
	require.Empty(t, list(1, 16, 32).ConfigResources)
	require.Empty(t, list(0).ConfigResources)
	require.Equal(t, codeUnsupportedVersion, list(1, 2, 77).ErrorCode)
	require.Empty(t, list(1, 2, 77).ConfigResources)
}
