package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # InitProducerId (22): versions 0-5
//
// Gives an idempotent producer an id that was never used before, with epoch 0, whatever id and epoch the producer had. A
// request with a transactional id is answered as if its coordinator could not be found.
//
//	v2  flexible
//	v3  the id and epoch that the producer has
//	v4  PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (transactional only)
//	v5  TRANSACTION_ABORTABLE (transactional only)
//
// Errors: INVALID_REQUEST for an empty transactional id, or an id without an epoch or the other way round;
// COORDINATOR_NOT_AVAILABLE for a transactional id, or when no id can be allocated.
func initProducerIDAPI() api {
	return api{
		key: 22, name: "InitProducerId", min: 0, max: 5, served: 0, flexible: 2,
		shape:  shape{text(), fixed(4), fixed(8 + 2).since(3)},
		handle: decoding(kmsg.NewPtrInitProducerIDRequest, (*call).initProducerID),
	}
}

// producerIDTimeout bounds how long a request waits for an id.
const producerIDTimeout = 30 * time.Second

func (c *call) initProducerID(req *kmsg.InitProducerIDRequest) (answer, error) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "",
		c.version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		resp.ErrorCode = codeInvalidRequest
	case req.TransactionalID != nil:
		resp.ErrorCode = codeCoordinatorNotAvailable
	default:
		ctx, cancel := context.WithTimeout(c.conn.ctx, producerIDTimeout)
		defer cancel()
		id, err := c.server.backend.NextProducerID(ctx)
		if err != nil {
			// Whatever the cause, retrying is the remedy, and this is the code that producers retry.
			resp.ErrorCode = codeCoordinatorNotAvailable
			break
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
	}
	return c.reply(resp), nil
}
