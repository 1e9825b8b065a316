package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// # FindCoordinator (10): versions 0-6
//
// Tells where the coordinator of a group or a transactional id is. There are no coordinators yet, so the answer is the one
// that Kafka gives while it has none: COORDINATOR_NOT_AVAILABLE, node -1, which clients retry until they give up. It is
// listed all the same because librdkafka up to 2.11.0 takes a broker without version 0 of it to be too old for lz4.
//
//	v1  key type: 0 group, 1 transactional id (before, groups); error message; throttle time
//	v3  flexible
//	v4  several keys
//	v6  key type 2, share groups
//
// Errors: COORDINATOR_NOT_AVAILABLE; INVALID_REQUEST for a key type that the version does not have.
func findCoordinatorAPI() api {
	return api{
		key: 10, name: "FindCoordinator", min: 0, max: 6, served: 0, flexible: 3,
		shape: shape{
			text().until(3), fixed(1).since(1), // key, type
			listOf(350, text()).since(4),
		},
		handle: decoding(kmsg.NewPtrFindCoordinatorRequest, (*call).findCoordinator),
	}
}

// The types of coordinator keys.
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

func (c *call) findCoordinator(req *kmsg.FindCoordinatorRequest) (answer, error) {
	err := &codedError{codeCoordinatorNotAvailable, "this server has no coordinators"}
	switch req.CoordinatorType {
	case groupCoordinator, transactionCoordinator:
	case shareCoordinator:
		if c.version < 6 {
			err = &codedError{codeInvalidRequest, "share coordinators need version 6 of the request"}
		}
	default:
		err = &codedError{codeInvalidRequest, "unknown coordinator type"}
	}

	resp := kmsg.NewPtrFindCoordinatorResponse()
	if c.version < 4 {
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Port = err.code, &err.text, -1, -1
		return c.reply(resp), nil
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, len(req.CoordinatorKeys))
	for i, key := range req.CoordinatorKeys {
		resp.Coordinators[i] = kmsg.FindCoordinatorResponseCoordinator{
			Key: key, NodeID: -1, Port: -1, ErrorCode: err.code, ErrorMessage: &err.text,
		}
	}
	return c.reply(resp), nil
}
