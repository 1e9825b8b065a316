package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # DescribeGroups (15): versions 0-6
//
// Describes groups and their members. The members' metadata and assignments are included when the group is Stable. A group
// that does not exist is Dead.
//
//	v1  throttle time
//	v3  authorized operations: without an authorizer, all that a group has
//	v4  instance ids
//	v5  flexible
//	v6  GROUP_ID_NOT_FOUND with a message (before, no error)
//
// Errors of a group: GROUP_ID_NOT_FOUND, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
func describeGroupsAPI() api {
	return api{
		key: 15, name: "DescribeGroups", min: 0, max: 6, served: 0, flexible: 5,
		shape:  shape{listOf(700, text()), fixed(1).since(3)}, // groups, include operations
		handle: decoding(kmsg.NewPtrDescribeGroupsRequest, (*call).describeGroups),
	}
}

// allGroupOperations is READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS.
const allGroupOperations int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

func (c *call) describeGroups(req *kmsg.DescribeGroupsRequest) (answer, error) {
	req.Groups = unique(req.Groups, func(g string) string { return g }) // an answer may be long
	calls := make([]asked, len(req.Groups))
	for i, g := range req.Groups {
		calls[i] = c.ask(&coordinator.Describe{Group: g})
	}
	return c.later(calls, func(answers []coordinator.Answer) kmsg.Response {
		resp := kmsg.NewPtrDescribeGroupsResponse()
		resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(answers))
		for i, a := range answers {
			d, _ := a.(*coordinator.Description)
			resp.Groups[i] = c.describedGroup(req.Groups[i], d)
			if req.IncludeAuthorizedOperations && resp.Groups[i].ErrorCode == codeNone {
				resp.Groups[i].AuthorizedOperations = allGroupOperations
			}
		}
		return resp
	}), nil
}

// groupMessage is the text that goes with an error of a group. For a group that does not exist it is Kafka's, which tools
// print.
func groupMessage(err error, group string) *string {
	if errors.Is(err, coordinator.ErrGroupNotFound) {
		text := "Group " + group + " not found."
		return &text
	}
	return message(err)
}

func (c *call) describedGroup(group string, d *coordinator.Description) kmsg.DescribeGroupsResponseGroup {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group, out.State, out.AuthorizedOperations = group, string(d.State), operationsNotAsked
	if d.Err != nil {
		out.ErrorCode = codeOf(d.Err)
		if out.ErrorCode == codeGroupIDNotFound && c.version < 6 {
			out.ErrorCode = codeNone
		}
		if c.version >= 6 {
			out.ErrorMessage = groupMessage(d.Err, group)
		}
		return out
	}
	out.ProtocolType, out.Protocol = d.ProtocolType, d.Protocol
	out.Members = make([]kmsg.DescribeGroupsResponseGroupMember, len(d.Members))
	for i := range d.Members {
		m := &d.Members[i]
		out.Members[i] = kmsg.DescribeGroupsResponseGroupMember{
			MemberID: m.ID, InstanceID: optional(m.InstanceID), ClientID: m.ClientID, ClientHost: m.ClientHost,
			ProtocolMetadata: kept(m.Metadata), MemberAssignment: kept(m.Assignment),
		}
	}
	return out
}
