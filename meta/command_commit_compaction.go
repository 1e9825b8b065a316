package meta

import (
	"cmp"
	"math"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// replaceSets is step 5 of MD-9.
func (c CommitObjects) replaceSets(t *transition) Result {
	dataMs := int64(math.MaxInt64)
	var sources []catalog.Range
	seen := make(map[catalog.ObjectID]struct{}, len(c.Compacted))
	for _, id := range c.Compacted {
		set, known := t.next.sets.get(id)
		if _, twice := seen[id]; twice || !known {
			return reject(InvalidArgument, "object %d is not a stream-set object", id)
		}
		seen[id] = struct{}{}
		dataMs = min(dataMs, set.DataMs)
		sources = append(sources, set.Ranges...)
	}
	outputs := c.outputs()
	for _, out := range outputs {
		if out.End <= out.Start {
			return reject(InvalidArgument, "stream %d from %d to %d", out.Stream, out.Start, out.End)
		}
		if row, known := t.next.streams.get(out.Stream); known && out.End > row.End {
			return reject(OffsetOutOfRange, "stream %d ends at %d, not at %d", out.Stream, row.End, out.End)
		}
	}
	if r := t.checkSameOffsets(sources, outputs); r.Code != OK {
		return r
	}
	for _, id := range c.Compacted {
		t.destroy(id, catalog.Delete)
	}
	c.addLive(t, dataMs)
	return Result{}
}

// addLive is add without dead ranges; an object of which nothing is left is destroyed instead.
func (c CommitObjects) addLive(t *transition, dataMs int64) {
	var ranges []catalog.Range
	for _, r := range c.Ranges {
		if t.isAlive(r.Stream, r.End) {
			ranges = append(ranges, r)
		}
	}
	if c.Object != catalog.NoObject && len(ranges) == 0 {
		t.destroy(c.Object, catalog.Delete)
	}
	var objects []catalog.StreamObject
	for _, o := range c.StreamObjects {
		if t.isAlive(o.Stream, o.End) {
			objects = append(objects, o)
		} else {
			t.destroy(o.Object, catalog.Delete)
		}
	}
	c.add(t, ranges, objects, dataMs)
}

// isAlive reports whether records that end at an offset of a stream are above its start.
func (t *transition) isAlive(id catalog.StreamID, end int64) bool {
	row, known := t.next.streams.get(id)
	return known && end > row.Start
}

// checkSameOffsets rejects outputs that do not hold each live offset of the sources once, and no other.
func (t *transition) checkSameOffsets(sources, outputs []catalog.Range) Result {
	want, r := t.liveRuns(sources)
	if r.Code != OK {
		return r
	}
	got, r := t.liveRuns(outputs)
	if r.Code != OK {
		return r
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return reject(CompactionLoses, "stream %d from %d to %d became stream %d from %d to %d", want[i].stream,
				want[i].start, want[i].end, got[i].stream, got[i].start, got[i].end)
		}
	}
	if len(want) != len(got) {
		return reject(CompactionLoses, "%d runs of records became %d", len(want), len(got))
	}
	return Result{}
}

// run is consecutive offsets of one stream.
type run struct {
	stream     catalog.StreamID
	start, end int64
}

// liveRuns joins ranges, without what lies below their streams' starts, into runs without a gap.
func (t *transition) liveRuns(ranges []catalog.Range) ([]run, Result) {
	var cut []run
	for _, r := range ranges {
		if row, known := t.next.streams.get(r.Stream); known && r.End > row.Start {
			cut = append(cut, run{r.Stream, max(r.Start, row.Start), r.End})
		}
	}
	slices.SortFunc(cut, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.start, b.start))
	})
	joined := cut[:0]
	for _, r := range cut {
		last := len(joined) - 1
		switch {
		case last < 0 || joined[last].stream != r.stream || joined[last].end < r.start:
			joined = append(joined, r)
		case joined[last].end == r.start:
			joined[last].end = r.end
		default:
			return nil, reject(InvalidArgument, "stream %d appears twice at %d", r.stream, r.start)
		}
	}
	return joined, Result{}
}
