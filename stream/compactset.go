package stream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// maxPlanEntries bounds the index entries that a round holds in memory: it takes fewer objects when they have many
// entries.
const maxPlanEntries = 1 << 20

// minCommitBytes is the lowest limit for the length of a commit that a round goes down to.
const minCommitBytes = 4 << 10

// setRound runs one round of stream-set compaction: one plan, then the old objects that it did not take (CP-1 to CP-12).
// more reports that objects are left for which another round is due soon.
//
// Everything is decided from one view. The commit detects concurrent changes: it is refused, or leaves out what is dead
// by then; nothing is deleted before it (F-32).
func (c *compactor) setRound(ctx context.Context) (more bool, err error) {
	if err := c.setTurn.take(ctx); err != nil {
		return false, err
	}
	defer c.setTurn.give()
	v := c.catalog.View()
	sets := c.ownSets(v)
	taken, left, err := c.compactSets(ctx, v, sets)
	if err == nil {
		err = c.splitOldSets(ctx, v, sets, taken)
	}
	if errors.Is(err, catalog.ErrTooLarge) && c.config.maxCommitBytes > minCommitBytes {
		c.config.maxCommitBytes /= 2 // metadata knows the length of a command better (CP-10)
		return true, nil
	}
	return left, err
}

// ownSets returns the stream-set objects that this node compacts, those with the newest data first.
func (c *compactor) ownSets(v catalog.View) []catalog.StreamSetState {
	var sets []catalog.StreamSetState
	for s := range v.StreamSets() {
		mine := s.Node == c.node.ID || c.adopts != nil && c.adopts(s.Node)
		if mine && !c.damaged.has(s.Object) {
			sets = append(sets, s)
		}
	}
	slices.SortFunc(sets, func(a, b catalog.StreamSetState) int {
		return cmp.Or(cmp.Compare(b.DataMs, a.DataMs), cmp.Compare(b.Object, a.Object))
	})
	return sets
}

// liveIn returns where the streams of a view start.
func liveIn(v catalog.View) liveFrom {
	return func(s catalog.StreamID) (int64, bool) {
		row, exists := v.Stream(s)
		return row.Start, exists
	}
}

// compactSets makes a plan for stream-set objects and executes it. It returns the objects that it replaced, and whether
// others were left out.
func (c *compactor) compactSets(
	ctx context.Context, v catalog.View, sets []catalog.StreamSetState,
) (taken []catalog.ObjectID, left bool, err error) {
	chosen, left := chooseSets(sets, liveIn(v), c.config.plans.maxObjects)
	objects, cut, err := c.loadSets(ctx, v, chosen)
	if err != nil {
		return nil, false, err
	}
	plan, err := c.fit(func(l planLimits) (compactionPlan, error) { return c.plan(objects, liveIn(v), l) })
	if err != nil || plan.isEmpty() {
		return nil, false, err
	}
	err = c.carryOut(ctx, v, "set", plan)
	if errors.Is(err, errLeftOut) {
		return nil, true, nil
	}
	return plan.sources, left || cut || len(plan.excluded) > 0, err
}

// fit makes a plan whose commit fits into an entry of the metadata log, lowering the limits if necessary (CP-10).
func (c *compactor) fit(plan func(planLimits) (compactionPlan, error)) (compactionPlan, error) {
	for l := c.config.plans; ; {
		p, err := plan(l)
		if err != nil || p.commitBytes() <= c.config.maxCommitBytes || l.maxStreams+l.maxStreamObjects == 0 {
			return p, err
		}
		l.maxStreams, l.maxStreamObjects = l.maxStreams/2, l.maxStreamObjects/2
	}
}

// chooseSets picks the objects whose indexes are worth reading, judging by their ranges in metadata: those without live
// ranges, and of the others the newest that have a stream in common (CP-1, CP-2). left reports that there were more.
func chooseSets(sets []catalog.StreamSetState, live liveFrom, limit int) (chosen []catalog.StreamSetState, left bool) {
	var alive []catalog.StreamSetState
	var blocks []planBlock
	for _, s := range sets {
		ranges := filterRanges(s.Ranges, live)
		switch {
		case len(ranges) == 0:
			chosen = append(chosen, s)
			continue
		case len(alive) == limit:
			left = true
			continue
		}
		alive = append(alive, s)
		for _, r := range ranges {
			blocks = append(blocks, planBlock{object: s.Object, IndexEntry: IndexEntry{Stream: r.Stream}})
		}
	}
	shared := objectsOf(sharedObjects(blocks))
	alive = slices.DeleteFunc(alive, func(s catalog.StreamSetState) bool { return !slices.Contains(shared, s.Object) })
	return append(chosen, alive...), left
}

func filterRanges(ranges []catalog.Range, live liveFrom) []catalog.Range {
	var kept []catalog.Range
	for _, r := range ranges {
		if live.isLive(r.Stream, r.End) {
			kept = append(kept, r)
		}
	}
	return kept
}

// loadSets reads the indexes of objects, as many as may be held. Objects without live ranges are not read. Damaged ones
// are excluded for a while, and reported.
func (c *compactor) loadSets(
	ctx context.Context, v catalog.View, sets []catalog.StreamSetState,
) (objects []planObject, left bool, err error) {
	entries := 0
	for batch := range slices.Chunk(sets, readers) {
		if entries > maxPlanEntries {
			return objects, true, nil
		}
		loaded, errs := make([]planObject, len(batch)), make([]error, len(batch))
		err := parallel.Each(ctx, len(batch), readers, func(i int) { loaded[i], errs[i] = c.loadSet(ctx, v, batch[i]) })
		if err != nil {
			return nil, false, err
		}
		for i, s := range batch {
			switch err := errs[i]; {
			case err == nil:
				objects = append(objects, loaded[i])
				entries += len(loaded[i].entries)
			case errors.Is(err, objstore.ErrNotFound) && !isSet(c.catalog.View(), s.Object):
				left = true // it was replaced after the view was taken
			case c.noteDamaged(s.Object, err):
			default:
				return nil, false, err
			}
		}
	}
	return objects, left, nil
}

func (c *compactor) loadSet(ctx context.Context, v catalog.View, s catalog.StreamSetState) (planObject, error) {
	o := planObject{id: s.Object, dataMs: s.DataMs}
	ranges := filterRanges(s.Ranges, liveIn(v))
	if len(ranges) == 0 {
		return o, nil
	}
	layout, err := loadLayout(ctx, c.data, c.namespace, s.Object, s.Size, s.Attributes)
	if err != nil {
		return o, err
	}
	o.entries = layout.entries
	return o, layout.checkRuns(DataKey(c.namespace, s.Object), ranges, liveIn(v))
}

func isSet(v catalog.View, id catalog.ObjectID) bool {
	for s := range v.StreamSets() {
		if s.Object == id {
			return true
		}
	}
	return false
}

// splitOldSets rewrites objects with old data that no plan took, each into one object for each run (CP-11).
func (c *compactor) splitOldSets(
	ctx context.Context, v catalog.View, sets []catalog.StreamSetState, taken []catalog.ObjectID,
) error {
	if c.config.forceSplitAge <= 0 {
		return nil
	}
	for _, s := range sets {
		age := time.Duration(v.ClockMs()-s.DataMs) * time.Millisecond
		if age < c.config.forceSplitAge || slices.Contains(taken, s.Object) {
			continue
		}
		objects, _, err := c.loadSets(ctx, v, []catalog.StreamSetState{s})
		if err != nil {
			return err
		}
		for _, o := range objects {
			plan, err := c.fit(func(l planLimits) (compactionPlan, error) { return splitPlan(o, liveIn(v), l), nil })
			if err == nil {
				err = c.carryOut(ctx, v, "split", plan)
			}
			if err != nil && !errors.Is(err, errLeftOut) {
				return err
			}
		}
	}
	return nil
}

// splitPlan makes each run of an object an output of its own; if a commit cannot hold that many, the smallest stay
// together for the next round.
func splitPlan(o planObject, live liveFrom, limits planLimits) compactionPlan {
	runs := splitRuns(liveBlocks(o, live))
	slices.SortStableFunc(runs, func(a, b planOutput) int { return cmp.Compare(b.bytes(), a.bytes()) })
	most := max(1, limits.maxStreamObjects)
	var rest planOutput
	for _, small := range runs[min(most, len(runs)):] {
		rest.blocks = append(rest.blocks, small.blocks...)
	}
	slices.SortFunc(rest.blocks, func(a, b planBlock) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Start, b.Start))
	})
	outputs := append(runs[:min(most, len(runs))], rest)
	return compactionPlan{sources: []catalog.ObjectID{o.id}, stages: cutStages(outputs, limits.cacheBytes)}
}

// splitRuns makes one output of each run of ordered blocks.
func splitRuns(blocks []planBlock) []planOutput {
	var runs []planOutput
	for i, b := range blocks {
		if i > 0 && blocks[i-1].Stream == b.Stream && blocks[i-1].End() == b.Start {
			last := &runs[len(runs)-1]
			last.blocks = append(last.blocks, b)
			continue
		}
		runs = append(runs, planOutput{split: true, blocks: []planBlock{b}})
	}
	return runs
}
