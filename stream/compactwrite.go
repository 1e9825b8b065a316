package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// errUncovered says that the outputs of a compaction lack live records of its sources, which is a bug. Nothing is
// committed (CP-9).
var errUncovered = errors.New("compaction would lose data")

// errLeftOut says that a source turned out to be damaged. It was reported, and is left out of the next plan.
var errLeftOut = errors.New("a source of the compaction is damaged")

// carryOut executes a plan and commits it: all of it, or nothing (CP-7 to CP-10). It is not an error when somebody else
// replaced a source meanwhile: the next round sees what is left. The error is errLeftOut if a source is damaged.
func (c *compactor) carryOut(ctx context.Context, v catalog.View, kind string, plan compactionPlan) error {
	begun := time.Now()
	w := setWriter{compactor: c, commit: catalog.Commit{Object: catalog.NoObject, Compacted: plan.sources}}
	defer w.abort()
	err := w.write(ctx, plan)
	if err == nil {
		err = checkCovered(liveRanges(v, plan.sources), w.commit)
	}
	if err != nil {
		c.discardUnless(ctx, err, w.ids...)
	} else {
		err = c.settle(ctx, w.ids, func() error { return c.catalog.Commit(ctx, c.node, w.commit) })
	}
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, catalog.ErrInvalidArgument) {
		if c.isReplaced(plan.sources) {
			return nil
		}
	}
	if c.noteDamagedSource(plan.sources, err) {
		return errLeftOut
	}
	if err != nil {
		return err
	}
	c.damaged.sound(plan.sources)
	c.events.compacted(CompactedEvent{
		Kind: kind, Stream: -1, Sources: len(plan.sources), Outputs: len(w.ids), Excluded: len(plan.excluded),
		BytesRead: w.read, BytesWritten: w.written, Took: time.Since(begun),
	})
	return nil
}

// isReplaced reports whether one of some stream-set objects is no longer in use.
func (c *compactor) isReplaced(sets []catalog.ObjectID) bool {
	v := c.catalog.View()
	return slices.ContainsFunc(sets, func(id catalog.ObjectID) bool { return !isSet(v, id) })
}

// setWriter writes the outputs of a plan and gathers the commit.
type setWriter struct {
	*compactor
	commit        catalog.Commit
	ids           []catalog.ObjectID // reserved
	used          int                // of ids
	merged        *objectCopier      // the stream-set object, once begun
	read, written int64
}

func (w *setWriter) write(ctx context.Context, plan compactionPlan) error {
	outputs, merged := 0, 0
	for _, stage := range plan.stages {
		for _, o := range stage {
			if o.split {
				outputs++
			} else {
				merged = 1
			}
		}
	}
	if err := w.reserve(ctx, outputs+merged); err != nil {
		return err
	}
	for _, stage := range plan.stages {
		if err := w.writeStage(ctx, stage); err != nil {
			return err
		}
	}
	return w.finishMerged(ctx)
}

func (w *setWriter) reserve(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	first, err := w.prepare(ctx, n)
	if err != nil {
		return err
	}
	for i := range n {
		w.ids = append(w.ids, first+catalog.ObjectID(i))
	}
	return nil
}

func (w *setWriter) begin() *objectCopier {
	w.used++
	return w.newCopier(w.ids[w.used-1])
}

// writeStage holds all blocks of a stage in memory, so that each source is read from front to back.
func (w *setWriter) writeStage(ctx context.Context, stage []planOutput) error {
	var blocks []planBlock
	for _, o := range stage {
		blocks = append(blocks, o.blocks...)
	}
	bytes, err := w.blocks().readBlocks(ctx, blocks)
	if err != nil {
		return err
	}
	for _, o := range stage {
		w.read += o.bytes()
		write := w.writeMerged
		if o.split {
			write = w.writeSplit
		}
		if err := write(ctx, o.blocks, bytes[:len(o.blocks)]); err != nil {
			return err
		}
		bytes = bytes[len(o.blocks):]
	}
	return nil
}

func (w *setWriter) writeSplit(ctx context.Context, blocks []planBlock, bytes [][]byte) error {
	o := w.begin()
	defer o.abort()
	for i, b := range blocks {
		if err := o.add(ctx, b.IndexEntry, bytes[i]); err != nil {
			return err
		}
	}
	size, err := o.finish(ctx)
	if err != nil {
		return err
	}
	w.written += size
	w.commit.StreamObjects = append(w.commit.StreamObjects, catalog.StreamObject{
		Object: o.id, Size: size, Stream: blocks[0].Stream, Epoch: -1,
		Start: blocks[0].Start, End: blocks[len(blocks)-1].End(),
	})
	return nil
}

func (w *setWriter) writeMerged(ctx context.Context, blocks []planBlock, bytes [][]byte) error {
	if w.merged == nil {
		w.merged = w.begin()
	}
	for i, b := range blocks {
		if err := w.merged.add(ctx, b.IndexEntry, bytes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *setWriter) finishMerged(ctx context.Context) error {
	if w.merged == nil {
		return nil
	}
	size, err := w.merged.finish(ctx)
	if err != nil {
		return err
	}
	w.written += size
	w.commit.Object, w.commit.Size, w.commit.Ranges = w.merged.id, size, w.merged.index.runs()
	return nil
}

// abort abandons objects that were begun and not finished.
func (w *setWriter) abort() {
	if w.merged != nil {
		w.merged.abort()
	}
}

// liveRanges returns the ranges of objects, according to metadata, that must be kept.
func liveRanges(v catalog.View, objects []catalog.ObjectID) []catalog.Range {
	var ranges []catalog.Range
	for s := range v.StreamSets() {
		if slices.Contains(objects, s.Object) {
			ranges = append(ranges, filterRanges(s.Ranges, liveIn(v))...)
		}
	}
	for i, r := range ranges {
		row, _ := v.Stream(r.Stream)
		ranges[i].Start = max(r.Start, row.Start)
	}
	return ranges
}

// checkCovered checks that a commit covers the ranges that it must hold: each lies inside the union of its outputs, or
// the error is errUncovered (CP-9).
func checkCovered(needed []catalog.Range, commit catalog.Commit) error {
	have := map[catalog.StreamID][]catalog.Range{}
	for _, r := range commit.Ranges {
		have[r.Stream] = append(have[r.Stream], r)
	}
	for _, o := range commit.StreamObjects {
		have[o.Stream] = append(have[o.Stream], catalog.Range{Stream: o.Stream, Start: o.Start, End: o.End})
	}
	for _, ranges := range have {
		slices.SortFunc(ranges, func(a, b catalog.Range) int { return cmp.Compare(a.Start, b.Start) })
	}
	for _, need := range needed {
		at := need.Start
		for _, r := range have[need.Stream] {
			if r.Start <= at {
				at = max(at, r.End)
			}
		}
		if at < need.End {
			return fmt.Errorf("%w: stream %d from %d on, of %d to %d", errUncovered, need.Stream, at, need.Start, need.End)
		}
	}
	return nil
}
