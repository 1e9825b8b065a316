package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # JoinGroup (11): versions 0-9
//
// Makes the client a member of the group's next generation. The answer is sent when that begins: when all members have
// joined, or after the longest of their rebalance timeouts, or, in a group that had no members, shortly after the last one
// joined. Only later requests of the same connection wait meanwhile. A member's session begins with the answer.
//
// The members' metadata for their protocols is not interpreted: cooperative rebalancing is between the clients.
//
//	v1  rebalance timeout (before, the session timeout)
//	v2  throttle time
//	v4  a new member is given an id first: MEMBER_ID_REQUIRED
//	v5  instance ids: static members, who may come back without a rebalance
//	v6  flexible
//	v7  protocol type; null protocol with an error
//	v8  reason, which is not kept
//	v9  skip assignment: a static leader that came back has nothing to assign
//
// Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, GROUP_MAX_SIZE_REACHED,
// INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS for a parked request that the
// client has sent again; COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE (also to a parked request when the server
// stops), NOT_COORDINATOR; UNKNOWN_SERVER_ERROR when the group is too large to be recorded.
func joinGroupAPI() api {
	return api{
		key: 11, name: "JoinGroup", min: 0, max: 9, served: 0, flexible: 6,
		shape: shape{
			text(), fixed(4), fixed(4).since(1), text(), text().since(5), text(), // group, timeouts, member, instance, type
			list(200, text(), blob()), text().since(8), // protocols, reason
		},
		handle: decoding(kmsg.NewPtrJoinGroupRequest, (*call).joinGroup),
	}
}

func (c *call) joinGroup(req *kmsg.JoinGroupRequest) (answer, error) {
	join := &coordinator.Join{
		Group: req.Group, MemberID: req.MemberID, InstanceID: known(req.InstanceID),
		ClientID: c.clientID, ClientHost: c.clientHost(),
		SessionMs: req.SessionTimeoutMillis, RebalanceMs: req.RebalanceTimeoutMillis, ProtocolType: req.ProtocolType,
		RequireKnownID: c.version >= 4, CanSkipAssignment: c.version >= 9,
	}
	if c.version < 1 {
		join.RebalanceMs = req.SessionTimeoutMillis
	}
	for _, p := range req.Protocols {
		join.Protocols = append(join.Protocols, coordinator.Protocol{Name: p.Name, Metadata: kept(p.Metadata)})
	}
	a := laterAs(c, join, c.joinResponse)
	a.parked, a.deadline = true, noDeadline
	return a, nil
}

func (c *call) joinResponse(a *coordinator.JoinAnswer) kmsg.Response {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.Generation, resp.MemberID = codeOf(a.Err), a.Generation, a.MemberID
	if a.Err != nil {
		if c.version < 7 {
			resp.Protocol = kmsg.StringPtr("")
		}
		return resp
	}
	resp.ProtocolType, resp.Protocol = &a.ProtocolType, &a.Protocol
	resp.LeaderID, resp.SkipAssignment = a.Leader, a.SkipAssignment
	resp.Members = slices.Grow(resp.Members, len(a.Members))
	for i := range a.Members {
		m := &a.Members[i]
		resp.Members = append(resp.Members, kmsg.JoinGroupResponseMember{
			MemberID: m.ID, InstanceID: optional(m.InstanceID), ProtocolMetadata: m.Metadata,
		})
	}
	return resp
}
