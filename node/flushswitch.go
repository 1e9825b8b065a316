package node

import (
	"errors"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// leavers are the logs that stop following the page cache under settings that are about to become durable. From then on a
// start takes the checkpointed high watermarks as flushed, so that has to be true first.
type leavers struct {
	logs     []*partition.Log
	config   []topicconfig.Config // of each
	unopened []logdir.Partition   // logs that cannot be synced
}

// leavePageCache reports whether a log stops following the page cache with a change of its settings.
func leavePageCache(from, to topicconfig.Config) bool {
	return from.Flush == topicconfig.FlushOS && to.Flush != topicconfig.FlushOS
}

// add records the logs of a topic whose settings are about to change.
func (v *leavers) add(h *hosted, from, to topicconfig.Config) {
	if !leavePageCache(from, to) {
		return
	}
	for i, l := range h.logs {
		if l == nil {
			v.unopened = append(v.unopened, logdir.Partition{Topic: h.name, Index: int32(i)})
			continue
		}
		v.logs, v.config = append(v.logs, l), append(v.config, to)
	}
}

// prepare syncs the visible records of open logs, and removes the high watermarks of the others from the checkpoint. After a
// failure the open ones are as they were.
func (v *leavers) prepare(n *Node) error {
	if err := n.data.forgetWatermarks(v.unopened); err != nil {
		return err
	}
	errs := make([]error, len(v.logs))
	err := parallel.Each(n.life, len(v.logs), n.flushWorkers(), func(i int) {
		errs[i] = v.logs[i].PrepareConfig(n.life, v.config[i])
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		v.stay()
	}
	return err
}

// refused lets the logs follow the page cache as before if the settings were refused. After any other failure it is not
// known which settings the next start will read, so they stay prepared.
func (v *leavers) refused(err error) {
	var rejection *meta.Rejection
	if errors.As(err, &rejection) {
		v.stay()
	}
}

func (v *leavers) stay() {
	for _, l := range v.logs {
		l.SetConfig(l.Config())
	}
}
