package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # Heartbeat (12): versions 0-4
//
// Keeps a member alive, and reports whether its generation is still current. While the coordinator loads, the answer is
// success, because members would leave otherwise.
//
//	v1  throttle time
//	v3  instance ids
//	v4  flexible
//
// Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS (join again; the session goes on),
// INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
func heartbeatAPI() api {
	return api{
		key: 12, name: "Heartbeat", min: 0, max: 4, served: 0, flexible: 4,
		shape:  shape{text(), fixed(4), text(), text().since(3)}, // group, generation, member, instance
		handle: decoding(kmsg.NewPtrHeartbeatRequest, (*call).heartbeat),
	}
}

func (c *call) heartbeat(req *kmsg.HeartbeatRequest) (answer, error) {
	beat := &coordinator.Heartbeat{
		Group: req.Group, MemberID: req.MemberID, InstanceID: known(req.InstanceID), Generation: req.Generation,
	}
	return laterAs(c, beat, func(a *coordinator.Done) kmsg.Response {
		resp := kmsg.NewPtrHeartbeatResponse()
		if !errors.Is(a.Err, coordinator.ErrLoading) {
			resp.ErrorCode = codeOf(a.Err)
		}
		return resp
	}), nil
}
