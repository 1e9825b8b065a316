package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeClusterTellsTheClusterAndItsNodesInEveryVersion(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for version := int16(0); version <= 2; version++ {
		for asked, operations := range map[bool]int32{false: operationsNotAsked, true: allClusterOperations} {
			req := at(version, kmsg.NewPtrDescribeClusterRequest())
			req.EndpointType, req.IncludeClusterAuthorizedOperations = endpointBrokers, asked
			want := kmsg.NewPtrDescribeClusterResponse()
			want.Version, want.EndpointType = version, endpointBrokers
			want.ClusterID, want.ControllerID, want.ClusterAuthorizedOperations = testCluster, testNode, operations
			want.Brokers = []kmsg.DescribeClusterResponseBroker{
				{NodeID: testNode, Host: "pipe.example", Port: 9092, Rack: kmsg.StringPtr("r1")},
			}
			require.Equal(t, want, do[*kmsg.DescribeClusterResponse](c, req))
		}
	}
}

func TestDescribeClusterKnowsNoOtherEndpoints(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for endpoint, code := range map[int8]int16{
		endpointControllers: codeMismatchedEndpointType, 0: codeUnsupportedEndpointType, 3: codeUnsupportedEndpointType,
	} {
		req := at(2, kmsg.NewPtrDescribeClusterRequest())
		req.EndpointType = endpoint
		resp := do[*kmsg.DescribeClusterResponse](c, req)
		require.Equal(t, code, resp.ErrorCode)
		require.NotEmpty(t, *resp.ErrorMessage)
		require.Equal(t, int32(-1), resp.ControllerID)
		require.Empty(t, resp.Brokers)
	}
}
