package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/observe"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// lookForDead is how often the holder of the metadata lease looks for dead nodes. The member learns as often who lives.
const lookForDead = 2500 * time.Millisecond

// maxTakeOverPause bounds the pause after a take-over that failed, which doubles with each try.
const maxTakeOverPause = time.Minute

// errLeaseLost is why a take-over is cut short: another node looks after the dead ones now.
var errLeaseLost = errors.New("node: the metadata lease is lost")

// takeOvers takes over the logs of dead nodes, while this one holds the metadata lease (MP-9): one after the other, and each
// until it has succeeded. A node without a stream engine has none.
//
// That a node is dead is a guess by its liveness key. When it is wrong nothing breaks: the take-over fences the node, which
// comes back under another epoch.
type takeOvers struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil: it has not begun, or has ended
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

// tries counts the take-overs of a node that failed one after the other.
type tries struct {
	failed int
	next   time.Time // not before
}

// watchDead looks for dead nodes until life ends.
func (s *streams) watchDead(life context.Context) {
	look := s.look
	if look <= 0 {
		look = lookForDead
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	waiting := map[streamcatalog.NodeID]tries{}
	for {
		select {
		case <-tick.C:
		case <-life.Done():
			return
		}
		dead := s.deadLogs()
		for id := range waiting {
			if !slices.Contains(dead, id) {
				delete(waiting, id) // it lives, or somebody has done it
			}
		}
		for _, id := range dead {
			t := waiting[id]
			if life.Err() != nil || time.Now().Before(t.next) || !s.isDead(id) { // the one before it may have taken long
				continue
			}
			if err := s.takeOver(life, id, t.failed+1); err != nil {
				t.failed++
				t.next = time.Now().Add(min(look<<min(t.failed, 16), maxTakeOverPause))
				waiting[id] = t
			}
		}
	}
}

// deadLogs are the dead nodes whose logs nobody has taken over, in the order of their ids; none unless this node holds the
// lease.
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

// takeOver takes over the log of a dead node. It is cut short when the lease is lost. Should this node's own engine have
// failed, another one is started first; a node that has come back by then is left alone.
func (s *streams) takeOver(life context.Context, id streamcatalog.NodeID, try int) error {
	lost := s.log.LeadLost()
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
	back := err == nil && !s.isDead(id) // to start an engine takes long; its epoch now would be of a node that lives
	if err == nil && !back {
		err = engine.Failover(ctx, id)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-watched
	if tell := s.events.TakeOver; tell != nil && life.Err() == nil && !back {
		tell(observe.TakeOverEvent{Node: int32(id), Took: time.Since(began), Try: try, Err: err})
	}
	return err
}
