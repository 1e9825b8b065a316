package catalog

import (
	"cmp"
	"fmt"
	"slices"
)

// Check returns every broken invariant of a view: for each stream the live ranges of its objects are disjoint and
// continuous and cover it from start to end exactly, though the first may begin below the start (M-INV); start is not
// above end; and no object is live and destroyed or prepared at the same time.
func Check(v View) []error {
	var found []error
	report := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	ranges := map[StreamID][]ObjectRange{}
	live := map[ObjectID]bool{}
	for set := range v.StreamSets() {
		live[set.Object] = true
		for _, r := range set.Ranges {
			ranges[r.Stream] = append(ranges[r.Stream], ObjectRange{Object: set.Object, Start: r.Start, End: r.End})
		}
	}
	for s := range v.Streams() {
		all := ranges[s.ID]
		for _, o := range v.StreamObjects(s.ID) {
			live[o.Object] = true
			all = append(all, ObjectRange{Object: o.Object, Start: o.Start, End: o.End})
		}
		found = append(found, checkStream(s, all)...)
	}
	for _, d := range v.Destroyed(int(v.NextObject())) {
		if live[d.Object] {
			report("object %d is destroyed and in use", d.Object)
		}
	}
	for id := range live {
		if v.IsPrepared(id) || id >= v.NextObject() {
			report("object %d is in use and not committed", id)
		}
	}
	return found
}

func checkStream(s Stream, objects []ObjectRange) []error {
	if s.Start > s.End || s.Start < 0 {
		return []error{fmt.Errorf("stream %d runs from %d to %d", s.ID, s.Start, s.End)}
	}
	objects = slices.DeleteFunc(objects, func(o ObjectRange) bool { return o.End <= s.Start })
	slices.SortFunc(objects, func(a, b ObjectRange) int { return cmp.Compare(a.Start, b.Start) })
	next := s.Start
	for i, o := range objects {
		if o.Start != next && !(i == 0 && o.Start < next) {
			return []error{fmt.Errorf("stream %d: object %d begins at %d, want %d", s.ID, o.Object, o.Start, next)}
		}
		next = o.End
	}
	if next != s.End {
		return []error{fmt.Errorf("stream %d: objects reach to %d, want %d", s.ID, next, s.End)}
	}
	return nil
}
