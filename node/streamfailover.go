package node

import (
	"cmp"
	"context"
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

// tries counts consecutive failed take-overs of a node's log. A look at who is alive that comes late changes nothing: nobody
// is dead by it, and nobody is back.
type tries struct {
	failed int
	next   time.Time // not before
	log    int64     // the epoch of the log
}

// watchDead takes over the logs of dead nodes, while this one holds the metadata lease (MP-9): one after the other, and each until it
// has succeeded. The first of them starts this node's own engine, if that has not been started because it is needed. It also
// removes what is left of the logs of nodes that do not come back. It waits until there can be streams, and then runs until life
// ends.
//
// That a node is dead is a guess by its liveness key. When it is wrong nothing breaks: the take-over fences the node, which
// comes back under another epoch.
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
		if s.isNeeded(life) {
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

// isDue reports whether a node's log is to be taken over here: a dead node's, or this one's, which an engine does that starts.
func (s *streams) isDue(ctx context.Context, id streamcatalog.NodeID) bool {
	if int32(id) == s.member.Node() {
		return s.isNeeded(ctx)
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

// takeOver takes over the log of a dead node. It is cut short with [meta.ErrNotLeading] when this node no longer leads, and does not
// begin if the log says so: this process may have been paused. Should this node have no engine, or should it have failed, one is
// started first; a node that has come back by then is left alone. For a log of this node itself that is all there is to do, and
// the lease does not matter.
func (s *streams) takeOver(life context.Context, id streamcatalog.NodeID, try int) error {
	own := int32(id) == s.member.Node()
	ctx, end := life, func() {}
	if !own {
		ctx, end = s.log.WhileLeading(life)
	}
	defer end()
	began := time.Now()
	engine, err := s.get(ctx)
	if err == nil && !own {
		err = s.log.ConfirmLead(ctx)
	}
	back := err == nil && !own && !s.isDead(id) // to start an engine takes long; its epoch now would be of a node that lives
	if err == nil && !own && !back {
		err = engine.Failover(ctx, id)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if tell := s.tell().TakeOver; tell != nil && life.Err() == nil && !back && (err != nil || !own) {
		tell(observe.TakeOverEvent{Node: int32(id), Own: own, Took: time.Since(began), Try: try, Err: err})
	}
	return err
}
