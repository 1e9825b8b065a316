package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # LeaveGroup (13): versions 0-5
//
// Removes members from a group, which rebalances without them. An instance id without a member id removes whichever member
// has it, which is how administrators remove static members. Parked requests of a removed member are answered
// UNKNOWN_MEMBER_ID.
//
//	v1  throttle time
//	v3  several members, each with its own error, and instance ids
//	v4  flexible
//	v5  reason, which is not kept
//
// Errors of a member (until v2, of the response): UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. Errors of the response:
// INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
func leaveGroupAPI() api {
	return api{
		key: 13, name: "LeaveGroup", min: 0, max: 5, served: 0, flexible: 4,
		shape: shape{
			text(), text().until(2), // group, member
			list(350, text(), text(), text().since(5)).since(3), // member, instance, reason
		},
		handle: decoding(kmsg.NewPtrLeaveGroupRequest, (*call).leaveGroup),
	}
}

func (c *call) leaveGroup(req *kmsg.LeaveGroupRequest) (answer, error) {
	leave := &coordinator.Leave{Group: req.Group}
	if c.version < 3 {
		leave.Members = []coordinator.LeavingMember{{ID: req.MemberID}}
	}
	for _, m := range req.Members {
		leave.Members = append(leave.Members, coordinator.LeavingMember{ID: m.MemberID, InstanceID: known(m.InstanceID)})
	}
	return laterAs(c, leave, func(a *coordinator.LeaveAnswer) kmsg.Response {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = codeOf(a.Err)
		if a.Err != nil {
			return resp
		}
		if c.version < 3 {
			resp.ErrorCode = codeOf(a.Members[0])
			return resp
		}
		for i, m := range req.Members {
			resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{
				MemberID: m.MemberID, InstanceID: m.InstanceID, ErrorCode: codeOf(a.Members[i]),
			})
		}
		return resp
	}), nil
}
