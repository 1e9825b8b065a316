package stream

import (
	"cmp"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// exclude returns the objects to leave out because these outputs exceed a limit; none if all limits are kept (CP-4). The
// plan is repeated without them, until it fits or nothing is left.
func exclude(outputs []planOutput, limits planLimits) []catalog.ObjectID {
	var splits, merged []planOutput
	streams := 0
	for _, o := range outputs {
		if o.split {
			splits = append(splits, o)
			continue
		}
		merged = append(merged, o)
		streams += streamsOf(o.blocks)
	}
	switch {
	case len(splits) > limits.maxStreamObjects:
		return objectsOf(leastSplit(splits, outputs).blocks)
	case streams > limits.maxStreams:
		return leastDispersed(merged)
	}
	return nil
}

// leastSplit picks the split output that gathers the least: the one with the fewest blocks, then with objects that matter
// to the fewest outputs, then the earlier one.
func leastSplit(splits, outputs []planOutput) planOutput {
	uses := map[catalog.ObjectID]int{} // how many outputs an object contributes to
	for _, o := range outputs {
		for _, id := range objectsOf(o.blocks) {
			uses[id]++
		}
	}
	weight := func(o planOutput) int {
		sum := 0
		for _, id := range objectsOf(o.blocks) {
			sum += uses[id]
		}
		return sum
	}
	return slices.MinFunc(splits, func(a, b planOutput) int {
		return cmp.Or(cmp.Compare(len(a.blocks), len(b.blocks)), cmp.Compare(weight(a), weight(b)))
	})
}

// leastDispersed returns the objects of the merged stream whose objects hold the fewest merged streams in total; of
// several such streams, the one with the lowest id.
func leastDispersed(merged []planOutput) []catalog.ObjectID {
	streams := map[catalog.ObjectID]int{} // merged streams in each object
	objects := map[catalog.StreamID][]catalog.ObjectID{}
	for _, o := range merged {
		for _, b := range o.blocks {
			if !slices.Contains(objects[b.Stream], b.object) {
				objects[b.Stream] = append(objects[b.Stream], b.object)
				streams[b.object]++
			}
		}
	}
	var least catalog.StreamID
	fewest := -1
	for stream, ids := range objects {
		sum := 0
		for _, id := range ids {
			sum += streams[id]
		}
		if fewest < 0 || sum < fewest || sum == fewest && stream < least {
			least, fewest = stream, sum
		}
	}
	return objects[least]
}
