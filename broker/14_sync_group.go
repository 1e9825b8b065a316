package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # SyncGroup (14): versions 0-5
//
// Gives a member its assignment. The answer is sent when the leader has delivered everybody's assignments and they are
// durable; only later requests of the same connection wait meanwhile. A member that the leader left out is assigned empty
// bytes.
//
//	v1  throttle time
//	v3  instance ids
//	v4  flexible
//	v5  protocol type and protocol, which must be the group's
//
// Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
// REBALANCE_IN_PROGRESS; COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE (also to a parked request when the server
// stops), NOT_COORDINATOR; UNKNOWN_SERVER_ERROR when the assignments are too large to be recorded.
func syncGroupAPI() api {
	return api{
		key: 14, name: "SyncGroup", min: 0, max: 5, served: 0, flexible: 4,
		shape: shape{
			text(), fixed(4), text(), text().since(3), // group, generation, member, instance
			text().since(5), text().since(5), // protocol type, protocol
			list(300, text(), blob()), // member, assignment
		},
		handle: decoding(kmsg.NewPtrSyncGroupRequest, (*call).syncGroup),
	}
}

// noDeadline is the deadline of answers that wait for other members.
var noDeadline time.Time

func (c *call) syncGroup(req *kmsg.SyncGroupRequest) (answer, error) {
	if c.version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		return c.reply(syncResponse(&coordinator.SyncAnswer{Err: coordinator.ErrInconsistentProtocol})), nil
	}
	sync := &coordinator.Sync{
		Group: req.Group, MemberID: req.MemberID, InstanceID: known(req.InstanceID), Generation: req.Generation,
		ProtocolType: req.ProtocolType, Protocol: req.Protocol,
	}
	if len(req.GroupAssignment) > 0 {
		sync.Assignments = make(map[string][]byte, len(req.GroupAssignment))
	}
	for _, a := range req.GroupAssignment {
		sync.Assignments[a.MemberID] = kept(a.MemberAssignment)
	}
	a := laterAs(c, sync, func(a *coordinator.SyncAnswer) kmsg.Response { return syncResponse(a) })
	a.parked, a.deadline = true, noDeadline
	return a, nil
}

func syncResponse(a *coordinator.SyncAnswer) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode, resp.MemberAssignment = codeOf(a.Err), kept(a.Assignment)
	if a.Err == nil {
		resp.ProtocolType, resp.Protocol = &a.ProtocolType, &a.Protocol
	}
	return resp
}
