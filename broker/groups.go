package broker

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// Groups is what the broker asks of the group coordinator. All methods are safe for concurrent use.
type Groups interface {
	// Find returns the id of the node that coordinates a group. It creates the offsets topic if there is none, which may
	// block until ctx ends. Errors match coordinator.ErrNotAvailable.
	Find(ctx context.Context, group string) (node int32, err error)

	// Submit hands over a request and does not wait. Requests of one group are processed in the order of the calls. The
	// request belongs to the coordinator from then on.
	Submit(req coordinator.Request) GroupCall

	// List returns the groups that this node coordinates, sorted. It waits for every shard, at most until ctx ends.
	List(ctx context.Context) *coordinator.Listing
}

// GroupCall is a submitted request.
type GroupCall interface {
	// Done is closed when there is an answer.
	Done() <-chan struct{}

	// Answer has the type that the request documents. It may be called once Done is closed, and reveals nothing that a
	// crash could undo.
	Answer() coordinator.Answer
}

// noGroups stands in for a missing coordinator.
type noGroups struct{}

// Find finds none.
func (noGroups) Find(context.Context, string) (int32, error) { return -1, coordinator.ErrNotAvailable }

// Submit refuses.
func (noGroups) Submit(req coordinator.Request) GroupCall {
	return refusedCall{coordinator.Refuse(req, coordinator.ErrNotAvailable)}
}

// List lists none.
func (noGroups) List(context.Context) *coordinator.Listing { return &coordinator.Listing{} }

// refusedCall is a request that was refused.
type refusedCall struct{ answer coordinator.Answer }

// Done is closed.
func (refusedCall) Done() <-chan struct{} { return closedChannel() }

// Answer is the refusal.
func (r refusedCall) Answer() coordinator.Answer { return r.answer }

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// groupTimeout is how long an answer of a coordinator may wait until what it depends on is durable (Kafka's
// offsets.commit.timeout.ms). JoinGroup and SyncGroup also wait for other members and have no such limit.
const groupTimeout = 5 * time.Second

// asked is a request to the coordinator and its call.
type asked struct {
	request coordinator.Request
	call    GroupCall
}

func (c *call) ask(req coordinator.Request) asked { return asked{req, c.server.groups.Submit(req)} }

// await waits for the answer. At the deadline, unless that is zero, and, if the answer may take as long as a rebalance,
// when the connection hurries, it reports that the coordinator is not available, so that the client retries.
func (a asked) await(w *answerWriter, deadline time.Time, parked bool) (coordinator.Answer, error) {
	select {
	case <-a.call.Done():
		return a.call.Answer(), nil
	default:
	}
	var expired <-chan time.Time
	if !deadline.IsZero() {
		expired = w.startTimer(deadline)
		defer w.stopTimer()
	}
	var hurry <-chan struct{}
	if parked {
		hurry = w.hurry
	}
	select {
	case <-a.call.Done():
		return a.call.Answer(), nil
	case <-expired:
	case <-hurry:
	case <-w.ctx.Done():
		return nil, w.ctx.Err()
	}
	return coordinator.Refuse(a.request, coordinator.ErrNotAvailable), nil
}

// groupAnswer is the answer to a request that the coordinator decides. It is completed when all its calls are answered.
type groupAnswer struct {
	correlation int32
	tagged      bool
	version     int16
	size        int // about what is kept for it
	deadline    time.Time
	parked      bool
	asked       []asked
	respond     func(answers []coordinator.Answer) kmsg.Response
	details     *details
}

// later answers with respond once the coordinator has answered every call.
func (c *call) later(asked []asked, respond func(answers []coordinator.Answer) kmsg.Response) *groupAnswer {
	return &groupAnswer{
		correlation: c.correlation, tagged: c.api.taggedResponseHeader(c.version), version: c.version,
		size: c.held(), deadline: c.arrived.Add(groupTimeout), asked: asked, respond: respond, details: c.details,
	}
}

// held estimates how many bytes an answer keeps of its decoded request. A small one is not worth walking through.
func (c *call) held() int {
	if len(c.body) < 1<<10 {
		return 8 * len(c.body)
	}
	cost, err := c.api.shape.cost(c.body, c.version, c.api.isFlexible(c.version), math.MaxInt32)
	if err != nil {
		return len(c.body) // unreachable: it was decoded
	}
	return int(cost)
}

// laterAs is [call.later] for one call with an answer of type A.
func laterAs[A coordinator.Answer](c *call, req coordinator.Request, respond func(A) kmsg.Response) *groupAnswer {
	return c.later([]asked{c.ask(req)}, func(answers []coordinator.Answer) kmsg.Response {
		a, _ := answers[0].(A) // the type that the request names
		return respond(a)
	})
}

func (a *groupAnswer) weight() int { return a.size }

func (a *groupAnswer) write(w *answerWriter) error {
	answers := make([]coordinator.Answer, len(a.asked))
	for i, one := range a.asked {
		var err error
		if answers[i], err = one.await(w, a.deadline, a.parked); err != nil {
			return err
		}
	}
	resp := a.respond(answers)
	a.details.answers(resp)
	return w.sendResponse(resp, a.version, a.correlation, a.tagged)
}

// smallResponse is enough for most answers of a coordinator.
const smallResponse = 512

// sendResponse encodes and sends a response.
func (w *answerWriter) sendResponse(resp kmsg.Response, version int16, correlation int32, tagged bool) error {
	resp.SetVersion(version)
	buf := frameEnd(resp.AppendTo(frameStart(w.encoder(smallResponse), correlation, tagged)), 0)
	err := w.send(buf)
	w.keep(buf)
	return err
}

// clientHost is the client's address as Kafka writes it.
func (c *call) clientHost() string { return "/" + hostOf(c.conn.nc.RemoteAddr()) }

// known returns the text of a nullable string; null is empty.
func known(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// kept copies bytes that alias a request; it is never nil.
func kept(b []byte) []byte { return append(make([]byte, 0, len(b)), slices.Clip(b)...) }
