package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
)

// walTakeover ends the WAL of an older epoch of a node, so that nothing in it is acknowledged any more, and finds what
// must be recovered from it (3.6 steps 3 to 5):
//
//	epoch      ... | trim | own | own | own | FENCE | own, dead
//	windows          w0 ------------> x-W     x
//
// It reads and places objects, and never deletes one. Any number may run at once, for the same epoch and for different
// ones that follow it; they meet at the fence.
//
// # What a missing object means
//
// Uploads overlap, so a crash may leave a window without an object while later ones have theirs: nothing in those was
// acknowledged (WAL-6), the fence goes into the hole, and the objects above it are dead. An acknowledged object that
// somebody has deleted leaves the same picture. Windows that a later object's trim offset covers are committed, and need
// no object. Above that, two things show that the object must have existed: a later one so far ahead that the writer
// would have waited (WAL-5), 64 windows; and a later one whose mark says that the log was acknowledged beyond the hole
// when it was sealed. Either is refused as a [*WALGapError]. What is left are holes whose later objects were all sealed
// before the missing one was acknowledged: they prove nothing either way. Such a hole is fenced; the objects above it are
// named in [RecoveredEvent.Dead], and are kept as long as the fence.
type walTakeover struct {
	store  objstore.Store
	prefix WALPrefix
	ended  int64 // the epoch to end
	start  int64 // where its log begins
	by     int64 // the epoch that ends it
	again  int   // how often it has started again because an object vanished
}

// walRun is the result of a takeover: the objects of the windows from From to To, without a gap. A fence is at To.
type walRun struct {
	objects  []walObject
	from, to int64
	trim     int64    // records at or below it need no recovery
	dead     []string // keys of objects of the writer above the fence
}

// walObject is an object of the WAL whose header was read.
type walObject struct {
	key    string
	size   int64
	header WALHeader
}

// walSurvey is what one look at an epoch's objects found.
type walSurvey struct {
	own    map[int64]walObject // by window
	fences map[int64]walObject
	trim   int64
}

// Limits of a takeover.
const (
	headerReaders = 16          // headers that are read at once
	freeLooks     = 3           // how often it begins again at once
	gapLooks      = 5           // how often a gap is looked at again (WAL-16)
	gapPause      = time.Second // before each time
)

// errVanished says that a listed object is gone: the writer that is being ended still deletes committed ones.
var errVanished = errors.New("a WAL object vanished")

// end fences the epoch and returns what is to be recovered. It may be called again, and then finds the same fence, or
// less to recover.
func (t *walTakeover) end(ctx context.Context) (walRun, error) {
	for gaps := 0; ; {
		run, err := t.tryEnd(ctx)
		var gap *WALGapError
		switch {
		case errors.Is(err, errVanished):
			if err := t.lookAgain(ctx); err != nil {
				return walRun{}, err
			}
		case errors.As(err, &gap) && gaps < gapLooks:
			gaps++
			if err := pause(ctx, gapPause); err != nil {
				return walRun{}, err
			}
		default:
			return run, err
		}
	}
}

// lookAgain runs before a takeover starts again. Objects vanish because a writer deletes them that cannot commit any
// more, so that ends soon; it pauses in case a store keeps listing objects that it does not have.
func (t *walTakeover) lookAgain(ctx context.Context) error {
	if t.again++; t.again <= freeLooks {
		return nil
	}
	return pause(ctx, gapPause)
}

// tryEnd is steps 3 to 5 once: errVanished makes them start again, a [*WALGapError] a few times.
func (t *walTakeover) tryEnd(ctx context.Context) (walRun, error) {
	before, err := t.look(ctx)
	if err != nil {
		return walRun{}, err
	}
	fence, err := t.fence(ctx, before)
	if err != nil {
		return walRun{}, err
	}
	after, err := t.look(ctx)
	if err != nil {
		return walRun{}, err
	}
	if after.trim >= fence { // the window was written, trimmed and deleted before: a listing is not a snapshot
		return walRun{}, errVanished
	}
	if err := t.checkGap(ctx, after, fence); err != nil { // an earlier takeover may have put the fence without this check
		return walRun{}, err
	}
	return t.run(after, fence)
}

// look lists the epoch's objects and reads their headers (step 3).
func (t *walTakeover) look(ctx context.Context) (walSurvey, error) {
	listed, err := listAll(ctx, t.store, t.prefix.Epoch(t.ended))
	if err != nil {
		return walSurvey{}, err
	}
	objects := make([]walObject, len(listed))
	errs := make([]error, len(listed))
	if err := parallel.Each(ctx, len(listed), headerReaders, func(i int) {
		objects[i], errs[i] = t.readHeader(ctx, listed[i].Key, listed[i].Size)
	}); err != nil {
		return walSurvey{}, err
	}
	s := walSurvey{own: map[int64]walObject{}, fences: map[int64]walObject{}, trim: -1}
	for i, o := range objects {
		if errs[i] != nil {
			return s, errs[i]
		}
		s.add(o, t.ended)
	}
	return s, nil
}

func (s *walSurvey) add(o walObject, epoch int64) {
	s.trim = max(s.trim, o.header.Trim)
	if o.header.Epoch > epoch {
		s.fences[o.header.Start] = o
	} else {
		s.own[o.header.Start] = o
	}
}

// readHeader reads and checks the header of an object. One that is gone is errVanished.
func (t *walTakeover) readHeader(ctx context.Context, key string, size int64) (walObject, error) {
	parsed, err := t.prefix.Parse(key)
	if err != nil {
		return walObject{}, err
	}
	h, err := readWALHeader(ctx, t.store, key, size)
	if err == nil {
		err = h.Check(key, t.prefix.Node, parsed, size)
	}
	if err == nil && h.Epoch > parsed.Epoch && size != fenceSize {
		err = source{object: key}.at(32).differs("node epoch of an object that is no fence", parsed.Epoch, h.Epoch)
	}
	return walObject{key: key, size: size, header: h}, err
}

// fenceSize is the length of a fence: a header and a sentinel.
const fenceSize = walHeaderSizeV1 + frameHeaderSize + RecordHeaderSize

// fence makes sure that a fence is at the first window that the epoch has not written, and returns that window (step 4).
func (t *walTakeover) fence(ctx context.Context, s walSurvey) (int64, error) {
	for window := s.first(t.start); ; window += Window {
		if _, own := s.own[window]; own {
			continue
		}
		if _, fenced := s.fences[window]; fenced {
			return window, nil
		}
		if err := t.checkGap(ctx, s, window); err != nil {
			return 0, err
		}
		found, err := t.placeFence(ctx, window, s.trim)
		if err != nil {
			return 0, err
		}
		if found.header.Epoch > t.ended {
			return window, nil
		}
		s.own[window] = found // the writer was faster
	}
}

// first returns the first window that may need to be recovered: that of the trim offset, or the next one if its object is
// gone. Fences up to there are stale (WAL-13).
func (s *walSurvey) first(start int64) int64 {
	if s.trim < start {
		return start
	}
	window := s.trim - s.trim%Window
	if _, own := s.own[window]; !own {
		window += Window
	}
	return window
}

func (t *walTakeover) gap(want, next int64) error {
	key := func(window int64) string { return t.prefix.Key(WALKey{Epoch: t.ended, Start: window}) }
	return &WALGapError{Want: key(want), Next: key(next)}
}

// placeFence puts a fence at a window (WAL-13) and returns the object that is there: that fence, another one, or an
// object of the writer.
func (t *walTakeover) placeFence(ctx context.Context, window, trim int64) (walObject, error) {
	key := t.prefix.Key(WALKey{Epoch: t.ended, Start: window})
	header := WALHeader{Start: window, Node: t.prefix.Node, Epoch: t.by, Trim: trim}
	object := EncodeWALObject(header, []Record{Sentinel()})
	err := retry(ctx, func() error { return t.store.PutIfAbsent(ctx, key, object) })
	switch {
	case err == nil:
		return walObject{key: key, size: int64(len(object)), header: header}, nil
	case !errors.Is(err, objstore.ErrExists):
		return walObject{}, err
	}
	var info objstore.Info
	err = retry(ctx, func() (err error) { info, err = t.store.Head(ctx, key); return err })
	if err != nil {
		return walObject{}, vanished(key, err)
	}
	return t.readHeader(ctx, key, info.Size)
}

// run determines, from the look after the fence, what is to be recovered. A window that is missing now and was there
// before was trimmed meanwhile, or the listing is older than that.
func (t *walTakeover) run(s walSurvey, fence int64) (walRun, error) {
	r := walRun{from: s.first(t.start), to: fence, trim: s.trim}
	for window := r.from; window < fence; window += Window {
		o, ok := s.own[window]
		if !ok {
			return r, t.gap(window, fence)
		}
		r.objects = append(r.objects, o)
	}
	for _, window := range slices.Sorted(maps.Keys(s.own)) {
		if window > fence {
			r.dead = append(r.dead, s.own[window].key)
		}
	}
	return r, nil
}

// readWALHeader reads the header of an object of the WAL. One that is gone is errVanished.
func readWALHeader(ctx context.Context, store objstore.Store, key string, size int64) (WALHeader, error) {
	if size < walHeaderSizeV0 {
		return WALHeader{}, source{object: key}.short("WAL header", walHeaderSizeV0, int(size))
	}
	b := make([]byte, min(size, WALHeaderSize))
	if err := retry(ctx, func() error { return store.ReadRange(ctx, key, b, 0) }); err != nil {
		return WALHeader{}, vanished(key, err)
	}
	return DecodeWALHeader(key, size, b)
}

// vanished converts the error of a missing object to errVanished.
func vanished(key string, err error) error {
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%w: %q", errVanished, key)
	}
	return err
}

// listAll returns the objects below a prefix, over all pages.
func listAll(ctx context.Context, store objstore.Store, prefix string) ([]objstore.Info, error) {
	var all []objstore.Info
	request := objstore.ListRequest{Prefix: prefix}
	for {
		var page objstore.Page
		err := retry(ctx, func() (err error) { page, err = store.List(ctx, request); return err })
		if err != nil {
			return nil, err
		}
		all = append(all, page.Objects...)
		if page.Next == "" {
			return all, nil
		}
		request.Token = page.Next
	}
}
