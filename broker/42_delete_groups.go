package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # DeleteGroups (42): versions 0-3
//
// Removes groups without members, and their offsets. It is answered when they are durably gone.
//
//	v2  flexible
//	v3  error message, null where the code says it all
//
// Errors of a group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, COORDINATOR_LOAD_IN_PROGRESS,
// COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
func deleteGroupsAPI() api {
	return api{
		key: 42, name: "DeleteGroups", min: 0, max: 3, served: 0, flexible: 2,
		shape:  shape{listOf(500, text())},
		handle: decoding(kmsg.NewPtrDeleteGroupsRequest, (*call).deleteGroups),
	}
}

// deletionMessage is the text for an error that its code does not explain. For the others clients have their own.
func deletionMessage(err error) *string {
	if codeOf(err) != codeUnknownServerError {
		return nil
	}
	return message(err)
}

func (c *call) deleteGroups(req *kmsg.DeleteGroupsRequest) (answer, error) {
	req.Groups = unique(req.Groups, func(g string) string { return g }) // as Kafka does
	calls := make([]asked, len(req.Groups))
	for i, g := range req.Groups {
		calls[i] = c.ask(&coordinator.DeleteGroup{Group: g})
	}
	return c.later(calls, func(answers []coordinator.Answer) kmsg.Response {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(answers))
		for i, a := range answers {
			resp.Groups[i] = kmsg.DeleteGroupsResponseGroup{
				Group: req.Groups[i], ErrorCode: codeOf(a.Error()), ErrorMessage: deletionMessage(a.Error()),
			}
		}
		return resp
	}), nil
}
