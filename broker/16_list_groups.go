package broker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # ListGroups (16): versions 0-5
//
// Lists the groups that this node coordinates. Groups that only hold offsets have no protocol type. Filters ignore case; an
// unknown state or type matches nothing.
//
//	v1  throttle time
//	v3  flexible
//	v4  state; filter of states
//	v5  type, which is "classic"; filter of types
//
// Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
func listGroupsAPI() api {
	return api{
		key: 16, name: "ListGroups", min: 0, max: 5, served: 0, flexible: 3,
		shape:  shape{listOf(64, text()).since(4), listOf(64, text()).since(5)}, // states, types
		handle: decoding(kmsg.NewPtrListGroupsRequest, (*call).listGroups),
	}
}

// classicGroup is the type of all groups here.
const classicGroup = "classic"

func (c *call) listGroups(req *kmsg.ListGroupsRequest) (answer, error) {
	return &listAnswer{
		correlation: c.correlation, tagged: c.api.taggedResponseHeader(c.version), version: c.version,
		server: c.server, states: req.StatesFilter, types: req.TypesFilter, deadline: c.arrived.Add(groupTimeout),
		details: c.details,
	}, nil
}

// listAnswer is the answer to a ListGroups request. It asks the coordinator when its turn to be written comes.
type listAnswer struct {
	correlation   int32
	tagged        bool
	version       int16
	server        *Server
	states, types []string
	deadline      time.Time
	details       *details
}

func (a *listAnswer) weight() int { return 256 }

func (a *listAnswer) write(w *answerWriter) error {
	ctx, cancel := context.WithDeadline(w.ctx, a.deadline)
	defer cancel()
	l := a.server.groups.List(ctx)
	resp := kmsg.NewPtrListGroupsResponse()
	resp.ErrorCode = codeOf(l.Err)
	for _, g := range l.Groups {
		if a.shows(g) {
			resp.Groups = append(resp.Groups, kmsg.ListGroupsResponseGroup{
				Group: g.Group, ProtocolType: g.ProtocolType, GroupState: string(g.State), GroupType: classicGroup,
			})
		}
	}
	a.details.answers(resp)
	return w.sendResponse(resp, a.version, a.correlation, a.tagged)
}

func (a *listAnswer) shows(g coordinator.ListedGroup) bool {
	return passes(a.states, string(g.State)) && passes(a.types, classicGroup)
}

// passes reports whether a filter lets a value through. An empty filter lets everything through.
func passes(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}
