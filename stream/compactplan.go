package stream

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// errOverlap says that two blocks hold the same offsets of a stream. Metadata does not allow that, so an object differs
// from its metadata (CP-3).
var errOverlap = errors.New("blocks of a stream overlap")

// planLimits bound what a plan does.
type planLimits struct {
	// cacheBytes is how many bytes of blocks a stage holds (CP-5).
	cacheBytes int64
	// splitBytes is the size above which a run becomes an output of its own (CP-3).
	splitBytes int64
	// maxObjects is how many objects with live blocks are considered; maxStreams bounds the streams in merged outputs,
	// summed per output, and maxStreamObjects the split outputs, both before they are cut into stages (CP-1, CP-4).
	maxObjects, maxStreams, maxStreamObjects int
}

// planObject is a stream-set object as the planner sees it.
type planObject struct {
	id catalog.ObjectID
	// dataMs is when its oldest records were committed.
	dataMs  int64
	entries Index
}

// planBlock is an index entry of one object: what is copied in one piece.
type planBlock struct {
	object catalog.ObjectID
	IndexEntry
}

// planOutput is blocks that go into one new object. A split output holds one run of one stream and becomes a stream
// object. The others, merged, hold each stream as one run, in the order of the streams; those of all stages together
// become one stream-set object.
type planOutput struct {
	split  bool
	blocks []planBlock
}

// bytes is the size of an output's blocks.
func (o planOutput) bytes() int64 {
	var sum int64
	for _, b := range o.blocks {
		sum += int64(b.Size)
	}
	return sum
}

// compactionPlan is the work of a round. Each live block of its sources is in exactly one output.
type compactionPlan struct {
	// sources are the objects to replace, in the order of their ids. Those without live blocks are not read.
	sources []catalog.ObjectID
	// stages are processed one after the other. In each the split outputs come first, and at most one merged output last.
	stages [][]planOutput
	// excluded are objects that were left out to keep the limits.
	excluded []catalog.ObjectID
}

// commitBytes estimates the length of the command that commits the plan (CP-10).
func (p compactionPlan) commitBytes() int {
	n := 64 + 8*len(p.sources)
	for _, stage := range p.stages {
		for _, o := range stage {
			if o.split {
				n += 44
			} else {
				n += 40 * streamsOf(o.blocks)
			}
		}
	}
	return n
}

// isEmpty reports whether there is nothing to do.
func (p compactionPlan) isEmpty() bool { return len(p.sources) == 0 }

// liveFrom returns where a stream starts, or that it does not exist, according to a view.
type liveFrom func(catalog.StreamID) (start int64, exists bool)

// isLive reports whether records of a stream that end there are kept.
func (f liveFrom) isLive(s catalog.StreamID, end int64) bool {
	start, exists := f(s)
	return exists && end > start
}

// planCompaction decides which stream-set objects are compacted, and into what (CP-1 to CP-5). It is a pure function of its
// arguments, which must be of one view. The error is [errOverlap].
func planCompaction(objects []planObject, live liveFrom, limits planLimits) (compactionPlan, error) {
	var plan compactionPlan
	var blocks []planBlock
	read := 0
	for _, o := range newestFirst(objects) {
		switch kept := liveBlocks(o, live); {
		case len(kept) == 0:
			plan.sources = append(plan.sources, o.id)
		case read < limits.maxObjects:
			blocks = append(blocks, kept...)
			read++
		}
	}
	slices.SortFunc(blocks, func(a, b planBlock) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Start, b.Start), cmp.Compare(a.object, b.object))
	})
	for {
		blocks = sharedObjects(blocks)
		outputs, err := walkBlocks(blocks, limits.splitBytes)
		if err != nil {
			return compactionPlan{}, err
		}
		surplus := exclude(outputs, limits)
		if len(surplus) == 0 {
			plan.sources = slices.Sorted(slices.Values(append(plan.sources, objectsOf(blocks)...)))
			plan.stages = cutStages(outputs, limits.cacheBytes)
			slices.Sort(plan.excluded)
			return plan, nil
		}
		plan.excluded = append(plan.excluded, surplus...)
		blocks = slices.DeleteFunc(blocks, func(b planBlock) bool { return slices.Contains(surplus, b.object) })
	}
}

// newestFirst orders objects by their data.
func newestFirst(objects []planObject) []planObject {
	return slices.SortedFunc(slices.Values(objects), func(a, b planObject) int {
		return cmp.Or(cmp.Compare(b.dataMs, a.dataMs), cmp.Compare(b.id, a.id))
	})
}

func liveBlocks(o planObject, live liveFrom) []planBlock {
	var kept []planBlock
	for _, e := range o.entries {
		if live.isLive(e.Stream, e.End()) {
			kept = append(kept, planBlock{o.id, e})
		}
	}
	return kept
}

// sharedObjects keeps the blocks of objects that have a stream in common with another one (CP-2). It keeps their order.
func sharedObjects(blocks []planBlock) []planBlock {
	first := map[catalog.StreamID]catalog.ObjectID{}
	shared := map[catalog.ObjectID]bool{}
	for _, b := range blocks {
		other, seen := first[b.Stream]
		if !seen {
			first[b.Stream] = b.object
		} else if other != b.object {
			shared[other], shared[b.object] = true, true
		}
	}
	return slices.DeleteFunc(blocks, func(b planBlock) bool { return !shared[b.object] })
}

// walkBlocks distributes sorted blocks to outputs (CP-3).
func walkBlocks(blocks []planBlock, splitBytes int64) ([]planOutput, error) {
	w := outputWalk{}
	for _, b := range blocks {
		if n := len(w.builder); n > 0 {
			switch last := w.builder[n-1]; {
			case b.Stream != last.Stream:
				if w.runBytes > splitBytes {
					w.cut()
				}
				w.endRun()
			case b.Start < last.End():
				return nil, fmt.Errorf("%w: object %d has %s, object %d has %s", errOverlap,
					last.object, last.IndexEntry, b.object, b.IndexEntry)
			case b.Start > last.End():
				w.cut()
			}
		}
		w.builder = append(w.builder, b)
		w.runBytes += int64(b.Size)
	}
	if w.runBytes > splitBytes {
		w.cut()
	}
	w.emit(false, w.builder)
	return w.outputs, nil
}

// outputWalk is the state of walkBlocks: the builder's blocks, of which those from run on are the current run.
type outputWalk struct {
	outputs  []planOutput
	builder  []planBlock
	run      int
	runBytes int64
}

// cut emits the current run as a split output, after everything else in the builder, and begins a new builder.
func (w *outputWalk) cut() {
	w.emit(false, w.builder[:w.run])
	w.emit(true, w.builder[w.run:])
	w.builder = nil
	w.endRun()
}

func (w *outputWalk) endRun() { w.run, w.runBytes = len(w.builder), 0 }

func (w *outputWalk) emit(split bool, blocks []planBlock) {
	if len(blocks) > 0 {
		w.outputs = append(w.outputs, planOutput{split, blocks[:len(blocks):len(blocks)]})
	}
}

// objectsOf returns the objects of blocks, each once, in the order of their first block.
func objectsOf(blocks []planBlock) []catalog.ObjectID {
	var ids []catalog.ObjectID
	seen := map[catalog.ObjectID]bool{}
	for _, b := range blocks {
		if !seen[b.object] {
			seen[b.object] = true
			ids = append(ids, b.object)
		}
	}
	return ids
}

// streamsOf counts the streams of blocks that are in their order.
func streamsOf(blocks []planBlock) int {
	n := 0
	for i, b := range blocks {
		if i == 0 || b.Stream != blocks[i-1].Stream {
			n++
		}
	}
	return n
}

// cutStages cuts outputs into stages that hold no more than cacheBytes, or one block (CP-5).
func cutStages(outputs []planOutput, cacheBytes int64) [][]planOutput {
	var s stageCutter
	for _, o := range outputs {
		from := 0
		for i, b := range o.blocks {
			if s.bytes > 0 && s.bytes+int64(b.Size) > cacheBytes {
				s.add(planOutput{o.split, o.blocks[from:i:i]})
				s.close()
				from = i
			}
			s.bytes += int64(b.Size)
		}
		s.add(planOutput{o.split, o.blocks[from:]})
	}
	s.close()
	return s.stages
}

// stageCutter gathers the outputs of the current stage: split ones in order, merged ones as one.
type stageCutter struct {
	stages [][]planOutput
	splits []planOutput
	merged []planBlock
	bytes  int64
}

func (s *stageCutter) add(o planOutput) {
	switch {
	case len(o.blocks) == 0:
	case o.split:
		s.splits = append(s.splits, o)
	default:
		s.merged = append(s.merged, o.blocks...)
	}
}

func (s *stageCutter) close() {
	stage := s.splits
	if len(s.merged) > 0 {
		stage = append(stage, planOutput{blocks: s.merged})
	}
	if len(stage) > 0 {
		s.stages = append(s.stages, stage)
	}
	*s = stageCutter{stages: s.stages}
}
