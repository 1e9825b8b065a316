package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # FindCoordinator (10): versions 0-6
//
// Returns the node that coordinates a group: the one that leads the group's partition of __consumer_offsets, a topic that
// is created if necessary. The address is that of the listener that the request came in on. Transactions and share groups
// have no coordinators yet: COORDINATOR_NOT_AVAILABLE, node -1, which clients retry until they give up.
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
	ctx, cancel := context.WithTimeout(c.conn.ctx, autoCreateTimeout)
	defer cancel()
	find := c.coordinators(ctx, req.CoordinatorType)
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if c.version < 4 {
		f := find(req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = f.ErrorCode, f.ErrorMessage, f.NodeID, f.Host, f.Port
		return c.reply(resp), nil
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, len(req.CoordinatorKeys))
	for i, key := range req.CoordinatorKeys {
		resp.Coordinators[i] = find(key)
	}
	return c.reply(resp), nil
}

// coordinators returns a function that finds the coordinators of keys of a type.
func (c *call) coordinators(ctx context.Context, kind int8) func(key string) kmsg.FindCoordinatorResponseCoordinator {
	none := func(err error) func(string) kmsg.FindCoordinatorResponseCoordinator {
		text, code := message(err), codeOf(err) // once, since there may be many keys
		return func(key string) kmsg.FindCoordinatorResponseCoordinator {
			return kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: -1, Port: -1, ErrorCode: code, ErrorMessage: text}
		}
	}
	switch {
	case kind == shareCoordinator && c.version < 6:
		return none(&codedError{codeInvalidRequest, "share coordinators need version 6 of the request"})
	case kind == transactionCoordinator || kind == shareCoordinator:
		return none(&codedError{codeCoordinatorNotAvailable, "this server coordinates groups only"})
	case kind != groupCoordinator:
		return none(&codedError{codeInvalidRequest, "unknown coordinator type"})
	}
	nodes := map[int32]Node{}
	for _, n := range c.server.backend.Nodes(c.conn.info.Via) {
		nodes[n.ID] = n
	}
	unavailable := none(coordinator.ErrNotAvailable)
	return func(key string) kmsg.FindCoordinatorResponseCoordinator {
		id, err := c.server.groups.Find(ctx, key)
		n, there := nodes[id]
		if err != nil || !there {
			return unavailable(key)
		}
		return kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: n.ID, Host: n.Host, Port: n.Port, ErrorMessage: noMessage()}
	}
}

// noMessage is the error message of a success, as Kafka sends it.
func noMessage() *string { return kmsg.StringPtr("") }
