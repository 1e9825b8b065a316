package node

import (
	"errors"
	"syscall"
	"time"

	"github.com/tidemark-io/tidemark/vfs"
)

// reopenInterval is how often opening is retried for partitions that lack space or descriptors. They are not damaged, so
// they are served as soon as there is room, without a restart.
const reopenInterval = time.Second

// lacksRoom reports whether a partition could not be opened for lack of a resource that may become available.
func lacksRoom(err error) bool {
	return vfs.IsNoSpace(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// reopenLater retries opening logs until each one is open or has failed for good.
func (n *Node) reopenLater(plans []logPlan) {
	if len(plans) == 0 {
		return
	}
	again := n.maintainer.NewTask(func(time.Time) time.Time {
		n.background.Go(func() { n.reopenLater(n.reopen(plans)) })
		return time.Time{}
	})
	again.Due(n.config.Now().Add(reopenInterval))
}

// reopen opens logs and returns those that still lack room.
func (n *Node) reopen(plans []logPlan) (left []logPlan) {
	n.putBackWaiting()
	for i, p := range plans {
		if n.life.Err() != nil {
			return nil
		}
		if n.reopenLog(p) {
			left = append(left, plans[i])
		}
	}
	return left
}

// reopenLog opens one log, with its topic's current settings, and reports whether it still lacks room.
func (n *Node) reopenLog(p logPlan) (again bool) {
	defer n.keepDefaults()()
	defer n.names.lock(p.topic)()
	t, ok := n.meta.View().TopicByID(p.id)
	if !ok {
		return false // deleted meanwhile
	}
	if p.host, ok = n.partitions.get(p.id); !ok {
		return false
	}
	config := n.catalog.topic(n.meta.View(), t).Config
	if leavePageCache(p.config, config) {
		p.watermark = -1 // it does not say what is flushed
	}
	p.config = config
	l, err := n.tryLog(p)
	if lacksRoom(err) {
		return true
	}
	n.partitions.opened(p.host, p.index, l, n.unserved(p, err))
	if err == nil {
		n.log.Info("a partition is served again", "topic", p.topic, "partition", p.index)
	}
	return false
}
