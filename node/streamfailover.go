package node

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/observe"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// lookForDead is how often the holder of the metadata lease looks for dead nodes; members learn at the same interval
// which nodes are alive.
const lookForDead = 2500 * time.Millisecond

// maxTakeOverPause bounds the pause after a take-over that failed, which doubles with each try.
const maxTakeOverPause = time.Minute

// errLeaseLost is the cause of a take-over being cut short: another node is responsible for dead ones now.
var errLeaseLost = errors.New("node: the metadata lease is lost")

// takeOvers takes over the logs of dead nodes, while this one holds the metadata lease (MP-9): one after the other, each
// until it has succeeded. The first of them starts this node's own engine. It also recovers what an earlier process of
// this node has left, and removes what is left of the logs of nodes that do not come back. In a cluster without streams
// it waits for the first one.
//
// Whether a node is dead is a guess by its liveness key. A wrong guess breaks nothing: the take-over fences the node,
// which comes back under another epoch.
type takeOvers struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil before it begins and after it ends
	ended  chan struct{}
	closed bool
}

// begin starts looking, unless it has begun.
func (t *takeOvers) begin(s *streams) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil || t.closed {
		return
	}
	var life context.Context
	life, t.cancel = context.WithCancel(context.Background())
	t.ended = make(chan struct{})
	go func() {
		defer close(t.ended)
		s.watchDead(life)
	}()
}

// end stops looking, for good, and waits until it has stopped.
func (t *takeOvers) end() {
	t.mu.Lock()
	cancel, ended := t.cancel, t.ended
	t.closed = true
	t.mu.Unlock()
	if cancel != nil {
		cancel()
		<-ended
	}
}

// tries counts consecutive failed take-overs of a node's log. A look at who is alive that comes late changes nothing: nobody
// is dead by it, and nobody is back.
type tries struct {
	failed int
	next   time.Time // not before
	log    int64     // the epoch of the log
}

// watchDead takes over dead nodes until life ends, once there can be streams.
func (s *streams) watchDead(life context.Context) {
	if !s.awaitStreams(life) {
		return
	}
	look := cmp.Or(max(s.look, 0), lookForDead)
	tick := time.NewTicker(look)
	defer tick.Stop()
	waiting := map[streamcatalog.NodeID]tries{}
	left := leftLogs{every: cmp.Or(max(s.clean, 0), cleanLogs), done: map[streamcatalog.NodeID]int64{}}
	for {
		due := s.deadLogs()
		if s.isUnfinished(life) {
			due = append(due, streamcatalog.NodeID(s.member.Node()))
		}
		for id, t := range waiting {
			if s.logOf(id) != t.log {
				delete(waiting, id) // back under another epoch, or taken over
			}
		}
		for _, id := range due {
			t := waiting[id]
			t.log = s.logOf(id)
			if life.Err() != nil || time.Now().Before(t.next) || !s.isDue(life, id) { // the one before it may have taken long
				continue
			}
			if err := s.takeOver(life, id, t.failed+1); err != nil {
				t.failed++
				t.next = time.Now().Add(min(look<<min(t.failed, 16), maxTakeOverPause))
				waiting[id] = t
			}
		}
		s.cleanLeft(life, &left)
		select {
		case <-tick.C:
		case <-life.Done():
			return
		}
	}
}

// awaitStreams waits until the metadata can have streams, and returns false if life ends first.
func (s *streams) awaitStreams(life context.Context) bool {
	for {
		changed := s.log.Changes()
		if s.log.View().Level() >= meta.LevelStreams {
			return true
		}
		select {
		case <-changed:
		case <-life.Done():
			return false
		}
	}
}

// isDue reports whether a node's log is to be recovered here: a dead node's, or that of an earlier process of this node.
func (s *streams) isDue(ctx context.Context, id streamcatalog.NodeID) bool {
	if int32(id) == s.member.Node() {
		return s.isUnfinished(ctx)
	}
	return s.isDead(id)
}

// deadLogs lists the dead nodes whose logs have not been taken over, in the order of their ids; none unless this node
// holds the lease.
func (s *streams) deadLogs() (dead []streamcatalog.NodeID) {
	for node := range s.log.View().Nodes() {
		if id := streamcatalog.NodeID(node.ID); s.isDead(id) {
			dead = append(dead, id)
		}
	}
	return dead
}

// isDead reports whether a node is dead and has a log that was not closed.
func (s *streams) isDead(id streamcatalog.NodeID) bool {
	node, known := s.log.View().Node(int32(id))
	return known && node.WALEpoch >= 0 && s.member.Buried(int32(id))
}

// logOf is the epoch of the log that a node has not closed; below 0 if there is none.
func (s *streams) logOf(id streamcatalog.NodeID) int64 {
	node, known := s.log.View().Node(int32(id))
	if !known {
		return -1
	}
	return node.WALEpoch
}

// takeOver takes over the log of a dead node. It is cut short when the lease is lost. If this node has no working engine,
// one is started first; a node that has come back by then is left alone. For a log of this node itself that is all there
// is to do, and the lease does not matter.
func (s *streams) takeOver(life context.Context, id streamcatalog.NodeID, try int) error {
	own := int32(id) == s.member.Node()
	lost := s.log.LeadLost()
	if own {
		lost = nil
	}
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-lost:
			cancel(errLeaseLost)
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	engine, err := s.get(ctx)
	back := err == nil && !own && !s.isDead(id) // starting an engine takes long; the epoch may now be of a node that is alive
	if err == nil && !own && !back {
		err = engine.Failover(ctx, id)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-watched
	if tell := s.tell().TakeOver; tell != nil && life.Err() == nil && !back && (err != nil || !own) {
		tell(observe.TakeOverEvent{Node: int32(id), Took: time.Since(began), Try: try, Err: err})
	}
	return err
}
