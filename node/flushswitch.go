package node

import (
	"errors"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// leavers are the logs that stop following the page cache with settings that are about to be made durable. From then on a
// start takes the high watermarks of the checkpoint for what is flushed, so that has to be true before.
type leavers struct {
	logs   []*partition.Log
	config []topicconfig.Config // of each
}

// add takes in the logs of a topic to which that happens with a configuration.
func (v *leavers) add(h *hosted, config topicconfig.Config) {
	for _, l := range h.logs {
		if l != nil && l.Config().Flush == topicconfig.FlushOS && config.Flush != topicconfig.FlushOS {
			v.logs, v.config = append(v.logs, l), append(v.config, config)
		}
	}
}

// prepare makes the logs ready. A failure leaves them as they were.
func (v *leavers) prepare(n *Node) error {
	errs := make([]error, len(v.logs))
	err := parallel.Each(n.life, len(v.logs), n.flushWorkers(), func(i int) {
		errs[i] = v.logs[i].PrepareConfig(n.life, v.config[i])
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		v.stay()
	}
	return err
}

// refused lets the logs follow the page cache as before if the settings were refused. After another failure nobody knows
// what the next start will read, and they stay ready.
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
