package stream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// run compacts until ctx ends or the node is fenced. It returns when both jobs have stopped, which is within one object.
func (c *compactor) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var jobs sync.WaitGroup
	jobs.Go(func() { c.runSets(ctx, cancel) })
	jobs.Go(func() { c.runObjects(ctx, cancel) })
	jobs.Wait()
}

func (c *compactor) runSets(ctx context.Context, stop func()) {
	if c.config.interval <= 0 {
		return
	}
	failures := 0
	for next := c.config.interval; pause(ctx, next) == nil; {
		more, err := c.setRound(ctx)
		if c.ends(ctx, err, stop) {
			return
		}
		switch {
		case retriable(err): // for example an upload in parts that has to start again
			next = min(c.config.repeat<<min(failures, 16), c.config.interval)
			failures++
			continue
		case more:
			next = c.config.repeat
		default:
			next = c.config.interval
		}
		failures = 0
	}
}

// ends reports a failed round, and returns whether it was the last one: the node is fenced, or the engine stops.
func (c *compactor) ends(ctx context.Context, err error, stop func()) bool {
	switch {
	case ctx.Err() != nil:
		return true
	case errors.Is(err, catalog.ErrNodeEpochMismatch), errors.Is(err, ErrEngineFailed):
		stop()
		if c.fenced != nil {
			c.fenced(err)
		}
		return true
	case err != nil:
		c.events.compactionFailed(err)
	}
	return false
}

// runObjects passes over the node's streams repeatedly.
func (c *compactor) runObjects(ctx context.Context, stop func()) {
	if c.config.minorInterval <= 0 {
		return
	}
	opened := openedStreams{}
	major := time.Now()
	tick := min(c.config.minorInterval, max(c.config.warmUp, time.Second))
	opened.look(c.catalog.View(), c.node.ID, time.Now())
	for last := time.Now(); pause(ctx, tick) == nil; {
		opened.look(c.catalog.View(), c.node.ID, time.Now())
		if time.Since(last) < c.config.minorInterval {
			continue
		}
		last = time.Now()
		isMajor := c.config.majorInterval > 0 && time.Since(major) >= c.config.majorInterval
		if isMajor {
			major = time.Now()
		}
		for _, s := range opened.since(time.Now().Add(-c.config.warmUp)) { // CP-16
			if c.ends(ctx, c.objectRound(ctx, s, isMajor), stop) {
				return
			}
		}
	}
}

// openedStreams records since when a node has been seen to lead its streams.
type openedStreams map[catalog.StreamID]opening

type opening struct {
	epoch int64
	seen  time.Time
}

// look records the streams of a view.
func (o openedStreams) look(v catalog.View, node catalog.NodeID, now time.Time) {
	for id := range o {
		if s, exists := v.Stream(id); !exists || !s.Opened || s.Node != node {
			delete(o, id)
		}
	}
	for s := range v.Streams() {
		if s.Opened && s.Node == node && o[s.ID].epoch != s.Epoch {
			o[s.ID] = opening{s.Epoch, now}
		}
	}
}

// since returns the streams that were open by then, in the order of their ids.
func (o openedStreams) since(by time.Time) []catalog.StreamID {
	var ids []catalog.StreamID
	for id, opening := range o {
		if !opening.seen.After(by) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// roundNow compacts everything now: stream-set rounds until nothing remains, and a major pass over every stream that the
// node leads.
func (c *compactor) roundNow(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = c.setRound(ctx); err != nil {
			return err
		}
	}
	for s := range c.catalog.View().Streams() {
		if err := c.objectRound(ctx, s.ID, true); err != nil {
			return err
		}
	}
	return nil
}
