package node

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// cleanLogs is how often the holder of the metadata lease checks what is left of the logs of nodes that do not come back.
const cleanLogs = time.Hour

// leftLogs tracks what is left of the logs of nodes that do not come back.
type leftLogs struct {
	every time.Duration
	next  time.Time                      // not before
	done  map[streamcatalog.NodeID]int64 // nodes with nothing left, up to an epoch
}

// cleanLeft removes, when it is time, what is left of the logs of dead nodes that were taken over or closed: fences that
// have grown old. The node that took over does so while it runs; afterwards the holder of the lease does.
func (s *streams) cleanLeft(life context.Context, left *leftLogs) {
	if !s.log.Leads() || time.Now().Before(left.next) || life.Err() != nil {
		return
	}
	view := s.log.View()
	if _, marked := view.Get(bucketKey); !marked {
		return // there has been no engine yet
	}
	if s.log.ConfirmLead(life) != nil {
		return
	}
	left.next = time.Now().Add(left.every)
	for node := range view.Nodes() {
		id := streamcatalog.NodeID(node.ID)
		if node.WALEpoch >= 0 || left.done[id] == node.Epoch || !s.member.Buried(node.ID) {
			continue
		}
		if again, err := s.cleanLog(life, id); err == nil && again.IsZero() {
			left.done[id] = node.Epoch
		}
	}
}

// cleanLog removes what is left of a dead node's log. It returns when more of it will be old enough, or the zero time for
// never.
func (s *streams) cleanLog(life context.Context, id streamcatalog.NodeID) (again time.Time, err error) {
	store, err := s.bucket(life)
	if err == nil {
		again, err = stream.CleanLog(life, stream.CleanLogOptions{
			Catalog: meta.NewCatalog(s.log), WAL: store, Cluster: s.log.ClusterID(), Node: id,
			FenceRetention: s.config.WALFenceRetention,
		})
	}
	if tell := s.tell().Engine.WALDeleteFailed; err != nil && tell != nil && life.Err() == nil {
		tell(stream.FailedEvent{Err: fmt.Errorf("what is left of the log of node %d: %w", id, err)})
	}
	return again, err
}
