package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # DescribeCluster (60): versions 0-2
//
// Returns the cluster's id and its nodes, with the addresses of the listener that the request came in on. The controller
// is this node: any node accepts admin requests.
//
//	v1  endpoint type: 1 brokers, 2 controllers; here are brokers
//	v2  fenced brokers, if asked; none is
//
// Errors: MISMATCHED_ENDPOINT_TYPE for controllers, UNSUPPORTED_ENDPOINT_TYPE for any other type.
func describeClusterAPI() api {
	return api{
		key: 60, name: "DescribeCluster", min: 0, max: 2, served: 0, flexible: 0,
		shape:  shape{fixed(1), fixed(1).since(1), fixed(1).since(2)}, // operations, endpoint type, fenced ones
		handle: decoding(kmsg.NewPtrDescribeClusterRequest, (*call).describeCluster),
	}
}

// Types of endpoints.
const (
	endpointBrokers     int8 = 1
	endpointControllers int8 = 2
)

func (c *call) describeCluster(req *kmsg.DescribeClusterRequest) (answer, error) {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType = endpointBrokers
	resp.ControllerID = -1
	resp.ClusterAuthorizedOperations = operationsNotAsked
	if err := c.checkEndpoint(req); err != nil {
		resp.ErrorCode, resp.ErrorMessage = err.code, &err.text
		return c.reply(resp), nil
	}
	b := c.server.backend
	resp.ClusterID, resp.ControllerID = b.ClusterID(), b.NodeID()
	for _, n := range b.Nodes(c.conn.info.Via) {
		node := kmsg.DescribeClusterResponseBroker{NodeID: n.ID, Host: n.Host, Port: n.Port}
		if n.Rack != "" {
			node.Rack = &n.Rack
		}
		resp.Brokers = append(resp.Brokers, node)
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOperations
	}
	return c.reply(resp), nil
}

func (c *call) checkEndpoint(req *kmsg.DescribeClusterRequest) *codedError {
	switch {
	case c.version < 1 || req.EndpointType == endpointBrokers:
		return nil
	case req.EndpointType == endpointControllers:
		return &codedError{codeMismatchedEndpointType,
			"The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"}
	}
	return &codedError{codeUnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", req.EndpointType)}
}
