package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// planEntry is one block of size bytes.
func planEntry(s catalog.StreamID, start, end int64, size int32) IndexEntry {
	return IndexEntry{Stream: s, Start: start, Delta: int32(end - start), Records: 1, Size: size}
}

// planned is a stream-set object whose data is as old as its id says.
func planned(id catalog.ObjectID, entries ...IndexEntry) planObject {
	return planObject{id: id, dataMs: int64(id), entries: entries}
}

// startsAt has streams exist from given offsets, all others from 0; those that start below 0 do not exist.
func startsAt(starts map[catalog.StreamID]int64) liveFrom {
	return func(s catalog.StreamID) (int64, bool) { return starts[s], starts[s] >= 0 }
}

// describe prints a plan: a line for each stage, outputs with their runs.
func (p compactionPlan) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d ->", p.sources)
	for i, stage := range p.stages {
		if i > 0 {
			b.WriteString(" |")
		}
		for _, o := range stage {
			b.WriteString(map[bool]string{true: " SPLIT", false: " MERGE"}[o.split])
			for _, r := range o.index().runs() {
				fmt.Fprintf(&b, " s%d %d-%d", r.Stream, r.Start, r.End)
			}
		}
	}
	if len(p.excluded) > 0 {
		fmt.Fprintf(&b, " without %d", p.excluded)
	}
	return b.String()
}

func (o planOutput) index() (x Index) {
	for _, b := range o.blocks {
		x = append(x, b.IndexEntry)
	}
	return x
}

// wideLimits keep nothing out.
var wideLimits = planLimits{cacheBytes: 1 << 30, splitBytes: 100, maxObjects: 500, maxStreams: 1000, maxStreamObjects: 1000}

func limited(change func(*planLimits)) planLimits {
	l := wideLimits
	change(&l)
	return l
}

// theExample is that of CP-6.
var theExample = []planObject{
	planned(1, planEntry(0, 0, 20, 20), planEntry(1, 30, 60, 30), planEntry(2, 30, 60, 30)),
	planned(2, planEntry(0, 20, 25, 5), planEntry(1, 60, 120, 60)),
	planned(3, planEntry(1, 400, 500, 100), planEntry(2, 230, 270, 40)),
}

func TestCompactionPlans(t *testing.T) {
	for name, c := range map[string]struct {
		objects []planObject
		starts  map[catalog.StreamID]int64
		limits  planLimits
		want    string
	}{
		"CP-6, the example": {theExample, nil, wideLimits,
			"[1 2 3] -> SPLIT s1 30-120 SPLIT s2 30-60 MERGE s0 0-25 s1 400-500 s2 230-270"},
		"CP-6, older objects come later in the input": {[]planObject{theExample[2], theExample[0], theExample[1]}, nil, wideLimits,
			"[1 2 3] -> SPLIT s1 30-120 SPLIT s2 30-60 MERGE s0 0-25 s1 400-500 s2 230-270"},
		"nothing": {nil, nil, wideLimits, "[] ->"},
		"CP-1, of the newest objects only": {theExample, nil, limited(func(l *planLimits) { l.maxObjects = 2 }),
			"[2 3] -> SPLIT s1 60-120 MERGE s0 20-25 s1 400-500 s2 230-270"},
		"CP-1, what is trimmed or deleted is dropped": {theExample, map[catalog.StreamID]int64{0: 20, 1: 60, 2: -1}, wideLimits,
			"[1 2 3] -> SPLIT s1 60-120 MERGE s0 20-25 s1 400-500"},
		"CP-1, an object without live blocks is a source alone": {theExample, map[catalog.StreamID]int64{0: -1, 1: 400, 2: 60}, wideLimits,
			"[1 2] ->"},
		"CP-1, a block that reaches one offset above the start is live": {
			[]planObject{planned(1, planEntry(0, 0, 10, 5)), planned(2, planEntry(0, 10, 20, 5))},
			map[catalog.StreamID]int64{0: 9}, wideLimits, "[1 2] -> MERGE s0 0-20"},
		"CP-2, no stream in common": {
			[]planObject{planned(1, planEntry(0, 0, 10, 5)), planned(2, planEntry(1, 0, 10, 5))}, nil, wideLimits, "[] ->"},
		"CP-2, one of three has nothing in common": {
			[]planObject{planned(1, planEntry(0, 0, 10, 5)), planned(2, planEntry(1, 0, 10, 5)),
				planned(3, planEntry(0, 10, 20, 5), planEntry(2, 0, 1, 1))},
			nil, wideLimits, "[1 3] -> MERGE s0 0-20 s2 0-1"},
		"CP-2, two blocks of one object are not in common": {
			[]planObject{planned(1, planEntry(0, 0, 10, 5), planEntry(0, 10, 20, 5))}, nil, wideLimits, "[] ->"},
		"CP-3, a run of just the limit is merged, one above it is split": {
			[]planObject{planned(1, planEntry(0, 0, 10, 50), planEntry(1, 0, 10, 50)),
				planned(2, planEntry(0, 10, 20, 50), planEntry(1, 10, 20, 51))},
			nil, wideLimits, "[1 2] -> SPLIT s1 0-20 MERGE s0 0-20"},
		"CP-3, a large run between small ones": {
			[]planObject{planned(1, planEntry(0, 0, 10, 1), planEntry(1, 0, 10, 101), planEntry(2, 0, 10, 1)),
				planned(2, planEntry(0, 10, 20, 1), planEntry(2, 10, 20, 1))},
			nil, wideLimits, "[1 2] -> SPLIT s1 0-10 MERGE s0 0-20 s2 0-20"},
		"CP-4, too many splits: the one of the fewest blocks goes": {theExample, nil,
			limited(func(l *planLimits) { l.maxStreamObjects = 1 }),
			// s2 30-60 is of object 1 alone, so object 1 goes.
			"[2 3] -> SPLIT s1 60-120 MERGE s0 20-25 s1 400-500 s2 230-270 without [1]"},
		"CP-4, too many streams: the least dispersed one goes": {
			[]planObject{planned(1, planEntry(0, 0, 1, 1), planEntry(1, 0, 1, 1), planEntry(2, 0, 1, 1)),
				planned(2, planEntry(0, 1, 2, 1), planEntry(1, 1, 2, 1), planEntry(2, 1, 2, 1)),
				planned(3, planEntry(3, 0, 1, 1)), planned(4, planEntry(3, 1, 2, 1))},
			nil, limited(func(l *planLimits) { l.maxStreams = 3 }), "[1 2] -> MERGE s0 0-2 s1 0-2 s2 0-2 without [3 4]"},
		"CP-4, ties go to the lower stream": {
			[]planObject{planned(1, planEntry(0, 0, 1, 1)), planned(2, planEntry(0, 1, 2, 1)),
				planned(3, planEntry(3, 0, 1, 1)), planned(4, planEntry(3, 1, 2, 1))},
			nil, limited(func(l *planLimits) { l.maxStreams = 1 }), "[3 4] -> MERGE s3 0-2 without [1 2]"},
		"CP-4, nothing is left": {theExample, nil, limited(func(l *planLimits) { l.maxStreams = 0; l.maxStreamObjects = 0 }),
			"[] -> without [1 2]"},
		"CP-5, stages": {theExample, nil, limited(func(l *planLimits) { l.cacheBytes = 60 }),
			// 25, 30 of the split | its other 60 | 30 of s2 | 100, too large alone | 40
			"[1 2 3] -> SPLIT s1 30-60 MERGE s0 0-25 | SPLIT s1 60-120 | MERGE s1 400-500 | SPLIT s2 30-60 | MERGE s2 230-270"},
		"CP-5, a stage takes one block at least": {
			[]planObject{planned(1, planEntry(0, 0, 10, 30)), planned(2, planEntry(0, 10, 20, 40))},
			nil, limited(func(l *planLimits) { l.cacheBytes = 1 }), "[1 2] -> MERGE s0 0-10 | MERGE s0 10-20"},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := planCompaction(c.objects, startsAt(c.starts), c.limits)
			require.NoError(t, err)
			require.Equal(t, c.want, plan.describe())
		})
	}
}

func TestCompactionPlanRefusesOverlaps(t *testing.T) {
	_, err := planCompaction([]planObject{
		planned(1, planEntry(0, 0, 10, 5)), planned(2, planEntry(0, 9, 20, 5)),
	}, startsAt(nil), wideLimits)
	require.ErrorIs(t, err, errOverlap)
	require.ErrorContains(t, err, "object 2 has stream 0 from 9 to 20")
}

// drawObjects makes objects as uploads leave them: each stream is shared out to them without overlap, with gaps where a
// stream object holds the rest.
func drawObjects(t *rapid.T) []planObject {
	objects := make([]planObject, rapid.IntRange(0, 8).Draw(t, "objects"))
	next := map[catalog.StreamID]int64{}
	for i := range objects {
		objects[i] = planned(catalog.ObjectID(i*10), nil...)
		objects[i].dataMs = int64(rapid.IntRange(0, 3).Draw(t, "data time"))
		for s := range catalog.StreamID(5) {
			for range rapid.IntRange(0, 2).Draw(t, "blocks") {
				start := next[s] + int64(rapid.SampledFrom([]int{0, 0, 0, 7}).Draw(t, "gap"))
				end := start + int64(rapid.IntRange(1, 10).Draw(t, "rows"))
				next[s] = end
				objects[i].entries = append(objects[i].entries,
					planEntry(s, start, end, int32(rapid.IntRange(1, 60).Draw(t, "size"))))
			}
		}
	}
	return objects
}

func TestCompactionPlansLoseNothingAndKeepTheirLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := drawObjects(t)
		starts := map[catalog.StreamID]int64{}
		for s := range catalog.StreamID(5) {
			starts[s] = int64(rapid.SampledFrom([]int{0, 0, 0, 5, 20, -1}).Draw(t, "start"))
		}
		limits := planLimits{
			cacheBytes: int64(rapid.IntRange(1, 200).Draw(t, "cache")), splitBytes: int64(rapid.IntRange(1, 100).Draw(t, "split")),
			maxObjects: rapid.IntRange(0, 8).Draw(t, "max objects"), maxStreams: rapid.IntRange(0, 6).Draw(t, "max streams"),
			maxStreamObjects: rapid.IntRange(0, 4).Draw(t, "max stream objects"),
		}
		plan, err := planCompaction(objects, startsAt(starts), limits)
		require.NoError(t, err)

		var want, got []planBlock
		for _, o := range objects {
			if slices.Contains(plan.sources, o.id) {
				want = append(want, liveBlocks(o, startsAt(starts))...)
				require.NotContains(t, plan.excluded, o.id)
			}
		}
		var splits, merges []planOutput
		for _, stage := range plan.stages {
			bytes, blocks := int64(0), 0
			for i, o := range stage {
				require.True(t, o.split || i == len(stage)-1, "a merged output is the last of its stage")
				for _, b := range o.blocks {
					bytes += int64(b.Size)
					blocks++
				}
				if o.split {
					require.Len(t, o.index().runs(), 1)
					splits = append(splits, o)
				} else {
					merges = append(merges, o)
				}
				got = append(got, o.blocks...)
			}
			require.NotZero(t, blocks)
			require.True(t, bytes <= limits.cacheBytes || blocks == 1)
		}
		require.ElementsMatch(t, want, got, "each live block of the sources is in one output, and no other block")
		streams := checkMerged(t, merges)
		require.LessOrEqual(t, streams, limits.maxStreams)
		require.LessOrEqual(t, len(splits), limits.maxStreamObjects+len(plan.stages), "a stage cuts one at most")
		require.LessOrEqual(t, len(objectsOf(want)), limits.maxObjects)
	})
}

// checkMerged holds the merged outputs of all stages, one after the other, against what a stream-set object may hold, and
// counts their streams.
func checkMerged(t *rapid.T, merges []planOutput) int {
	var all Index
	for _, o := range merges {
		all = append(all, o.index()...)
	}
	for i := 1; i < len(all); i++ {
		last, e := all[i-1], all[i]
		require.True(t, e.Stream > last.Stream || e.Stream == last.Stream && e.Start == last.End(), "%s behind %s", e, last)
	}
	return len(all.runs())
}
