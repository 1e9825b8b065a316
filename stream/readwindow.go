package stream

import (
	"context"
	"fmt"
	"math"
	"sort"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

const (
	// windowObjects is how many objects a reader requests from metadata at once (BC-4).
	windowObjects = 4
	// windowUnits is how many units of an object a reader looks up at once, so that it remembers no more than it needs
	// soon.
	windowUnits = 128
)

// NotContinuousError is data with a gap: neither memory nor the objects named by the metadata hold the offset that
// comes next. It matches [ErrNotContinuous].
type NotContinuousError struct {
	Stream catalog.StreamID
	// Want is the offset that must come next.
	Want int64
	// What describes what was found in its place.
	What string
}

func (e *NotContinuousError) Error() string {
	return fmt.Sprintf("stream %d does not continue at offset %d: %s", e.Stream, e.Want, e.What)
}

// Is matches [ErrNotContinuous].
func (e *NotContinuousError) Is(target error) bool { return target == ErrNotContinuous }

// howToLook limits the cost of looking for units.
type howToLook uint8

const (
	lookAndWait  howToLook = iota // load indexes, and wait for them
	lookAhead                     // begin to load indexes, and do not wait
	lookInMemory                  // only what is in memory
)

// readWindow locates the records of a stream from an offset on: units in the order of their offsets, each beginning where
// the last one ends. It finds them as they are needed, from the current metadata view and the objects' indexes. It is for
// one goroutine.
//
//	      units, found                objects, not looked into
//	[ unit ][ unit ][ unit ] | end  [ object ][ object ][ object ]
type readWindow struct {
	stream  catalog.StreamID
	units   []unitSource
	end     int64 // where the last unit ends
	objects []catalog.ObjectRange
	view    uint64 // index of the newest view used
}

// more finds the next units, of one object. It reports false if there are none: no object holds the offset at the window's
// end, or its index is not in memory and how says not to wait. The error is a [*NotContinuousError], the context's or that
// of the load.
func (w *readWindow) more(ctx context.Context, o *objectReader, how howToLook) (bool, error) {
	if len(w.objects) == 0 {
		if err := w.ask(o.catalog.View()); err != nil || len(w.objects) == 0 {
			return false, err
		}
	}
	next := w.objects[0]
	layout, ok := o.indexes.peek(next.Object)
	switch {
	case ok:
	case how == lookInMemory:
		return false, nil
	case how == lookAhead:
		o.indexes.prefetch(next)
		return false, nil
	default:
		var err error
		if layout, err = o.indexes.get(ctx, next); err != nil {
			return false, err
		}
	}
	units, err := unitsOf(layout, w.stream, w.end, next)
	if err != nil {
		return false, err
	}
	w.units, w.end = append(w.units, units...), units[len(units)-1].entry.End()
	if w.end >= next.End {
		w.objects = w.objects[1:]
	}
	return true, nil
}

// ask takes the next objects from a view (BC-4), or none if the view has nothing at the window's end.
func (w *readWindow) ask(v catalog.View) error {
	w.view = v.Index()
	objects := v.Objects(w.stream, w.end, math.MaxInt64, windowObjects)
	next := w.end
	for i, o := range objects {
		if o.Start != next && !(i == 0 && o.Start < next) || o.End <= next {
			return &NotContinuousError{w.stream, next, fmt.Sprintf("object %d has [%d, %d)", o.Object, o.Start, o.End)}
		}
		next = o.End
	}
	w.objects = objects
	return nil
}

// unitsOf returns an object's units of a stream that cover [from, o.End), or the first windowUnits of them; according to
// metadata the object holds that range.
func unitsOf(l objectLayout, id catalog.StreamID, from int64, o catalog.ObjectRange) ([]unitSource, error) {
	entries := l.entries
	first := sort.Search(len(entries), func(i int) bool {
		return entries[i].Stream > id || entries[i].Stream == id && entries[i].End() > from
	})
	var units []unitSource
	next := from
	for i := first; next < o.End && len(units) < windowUnits; i++ {
		if i == len(entries) || entries[i].Stream != id || entries[i].Start > next || i > first && entries[i].Start != next {
			return nil, &NotContinuousError{id, next, fmt.Sprintf("the index of object %d does not have it", o.Object)}
		}
		units = append(units, unitSource{l.holder(i), entries[i]})
		next = entries[i].End()
	}
	return units, nil
}
