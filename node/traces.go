package node

import (
	"context"
	"time"

	"github.com/tidemark-io/tidemark/observe"
)

// traceTime is how long a closing node waits for the receiver of spans.
const traceTime = 2 * time.Second

// openTraces opens the exporter of spans, if a receiver is configured. It is closed last, so that it can send every span.
func (n *Node) openTraces() error {
	c := n.config
	traces, err := observe.NewTraces(n.reg, n.log, observe.TraceOptions{
		Endpoint: c.TraceEndpoint, Ratio: max(c.TraceSampleRatio, 0), Version: c.Version, Node: c.NodeID, Now: c.Now,
	})
	if err != nil || traces == nil {
		return err
	}
	n.traces = traces
	n.undo("traces", func(ctx context.Context) error {
		bounded, cancel := context.WithTimeout(ctx, traceTime)
		defer cancel()
		if err := traces.Close(bounded); err != nil {
			n.log.Warn("the last spans were not sent", "error", err)
		}
		return nil
	})
	return nil
}

// recovering begins the span of opening a log after an unclean stop. Other opens are too quick to be worth tracing.
func (n *Node) recovering(ctx context.Context, p logPlan) func(err error) {
	if p.clean {
		return func(error) {}
	}
	_, done := n.traces.Work(ctx, "recover log", "topic", p.topic, "partition", p.index)
	return done
}
