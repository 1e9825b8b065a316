package meta

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// checkTree fails if the tree is not an AVL tree in key order.
func checkTree(t require.TestingT, n *treeNode[int, int]) (height int) {
	if n == nil {
		return 0
	}
	left, right := checkTree(t, n.left), checkTree(t, n.right)
	require.LessOrEqual(t, max(left, right)-min(left, right), 1, "out of balance")
	require.Equal(t, 1+max(left, right), n.height)
	require.True(t, n.left == nil || n.left.key < n.key)
	require.True(t, n.right == nil || n.right.key > n.key)
	return n.height
}

func contents(tr tree[int, int]) map[int]int { return maps.Collect(tr.all()) }

func TestTreeIsAMapAndItsOldVersionsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr tree[int, int]
		model := map[int]int{}
		var versions []tree[int, int]
		var models []map[int]int
		for range rapid.IntRange(0, 200).Draw(t, "ops") {
			key := rapid.IntRange(0, 60).Draw(t, "key")
			if rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				tr = tr.remove(key)
				delete(model, key)
			} else {
				value := rapid.Int().Draw(t, "value")
				tr = tr.set(key, value)
				model[key] = value
			}
			checkTree(t, tr.root)
			require.Equal(t, len(model), tr.len())
			versions, models = append(versions, tr), append(models, maps.Clone(model))
		}
		for i := range versions {
			require.Equal(t, models[i], contents(versions[i]))
		}
		keys := slices.Sorted(maps.Keys(model))
		start := rapid.IntRange(-1, 61).Draw(t, "start")
		var from []int
		for key := range tr.from(start) {
			from = append(from, key)
		}
		at, _ := slices.BinarySearch(keys, start)
		require.True(t, slices.Equal(keys[at:], from), "%v, not %v", from, keys[at:])
	})
}

func TestTreeStopsYieldingWhenAsked(t *testing.T) {
	var tr tree[int, int]
	for i := range 100 {
		tr = tr.set(i, i)
	}
	var seen []int
	for key := range tr.from(40) {
		if seen = append(seen, key); len(seen) == 3 {
			break
		}
	}
	require.Equal(t, []int{40, 41, 42}, seen)
}

func BenchmarkCreateTopicAmong5000(b *testing.B) {
	s := Empty()
	for i := range 5000 {
		s, _ = s.Apply(s.index+1, Entry{Commands: []Command{testTopic(i)}})
	}
	create := Entry{Commands: []Command{testTopic(6000)}}
	b.ReportAllocs()
	for b.Loop() {
		s.Apply(s.index+1, create)
	}
}
