package node

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// closedLogsFile is the name of the file that spares a start after a clean stop reading the logs.
const closedLogsFile = "tidemark.closed-logs"

// closedKey is whose log it is. A topic that is made again under the same name has another id.
type closedKey struct {
	topic meta.TopicID
	index int32
}

// readClosedLogs reads what the logs were when the last process closed them. That only makes starts quicker, so a damaged
// file is kept aside if there is room, and the logs are looked at. One that a newer version wrote is refused. It goes with the
// marker of the clean stop, without which nothing in it is believed.
func (d *dataDir) readClosedLogs() error {
	closed, err := d.closedLogs()
	if isSpoilt(err) || errors.Is(err, errSpoiltSummary) {
		if err := d.keep(d.path, closedLogsFile, err); err != nil {
			d.log.Warn("a damaged file is ignored", "error", err)
		}
		return nil
	}
	d.closed = closed
	return err
}

// errSpoiltSummary says that the file is whole and what it says of a log is not.
var errSpoiltSummary = errors.New("what it says of a log is damaged")

func (d *dataDir) closedLogs() (map[closedKey]*kafkalog.Summary, error) {
	logs, err := d.dir.ClosedLogs()
	if err != nil {
		return nil, err
	}
	closed := make(map[closedKey]*kafkalog.Summary, len(logs))
	for _, l := range logs {
		s := new(kafkalog.Summary)
		var newer *kafkalog.UnsupportedVersionError
		switch err := s.UnmarshalBinary(l.Summary); {
		case errors.As(err, &newer):
			return nil, fmt.Errorf("%s: %w", path.Join(d.path, closedLogsFile), err)
		case err != nil:
			return nil, fmt.Errorf("%w: partition %d of topic id %s: %w", errSpoiltSummary, l.Partition, l.Topic, err)
		}
		closed[closedKey{meta.TopicID(l.Topic), l.Partition}] = s
	}
	return closed, nil
}

// writeClosedLogs writes what the logs were when they were closed. Without it the next start looks at the logs.
func (n *Node) writeClosedLogs(logs []*partition.Log) {
	summaries := make([][]byte, len(logs))
	_ = parallel.Each(context.Background(), len(logs), n.flushWorkers(), func(i int) { // the context does not end
		if s, ok := logs[i].Summary(); ok {
			summaries[i], _ = s.MarshalBinary() // it does not fail
		}
	})
	var closed []logdir.ClosedLog
	for i, l := range logs {
		if summaries[i] != nil {
			closed = append(closed, logdir.ClosedLog{Topic: l.TopicID(), Partition: l.Index(), Summary: summaries[i]})
		}
	}
	left, err := n.data.dir.WriteClosedLogs(closed)
	if err != nil {
		n.log.Warn("what is known of the closed logs could not be written, so the next start looks at them", "error", err)
	}
	if left > 0 {
		n.log.Warn("what is known of some closed logs found no room in the file for it, so the next start looks at them", "logs", left)
	}
}
