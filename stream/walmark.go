package stream

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// A mark is the last frame of a WAL object and records up to where the log had been acknowledged when the object's group
// was sealed. It distinguishes a window that lost its object from one that was never acknowledged (F-15):
//
//	windows   | own, acknowledged | GONE | own, sealed when all before it was acknowledged: its mark says so |
//
// The format has no field for that: the header's sticky length is 0 in version 1 and makes other readers skip as many
// bytes, the trim offset has its own meaning, and a sentinel is all zeros. But any record fits into a frame, and a
// recovery ignores records of a stream that does not exist (WAL-29). So a mark is a record, of one row and no payload, of
// the highest stream id, which is never assigned; it sorts behind all others (WAL-4), and its base offset is the logical
// offset below which every window was acknowledged.
//
//	stream id   epoch   base offset     count   payload
//	2^63 - 1    -1      acknowledged    1       none
//
// An object has none when nothing of its epoch had been acknowledged, or when the mark does not fit into the window.
const markStream = catalog.StreamID(math.MaxInt64)

// markSize is the length of a mark's frame.
const markSize = frameHeaderSize + RecordHeaderSize

// walMark returns the mark of a log that was acknowledged up to a window.
func walMark(acked int64) Record { return Record{Stream: markStream, Epoch: -1, Base: acked, Count: 1} }

// IsMark reports whether the record is a mark: it belongs to no stream, and its base offset says up to where the log was
// acknowledged.
func (r Record) IsMark() bool {
	return r.Stream == markStream && r.Epoch == -1 && r.Count == 1 && len(r.Payload) == 0 && r.Base >= 0 && r.Base%Window == 0
}

// readMark returns up to where the log had been acknowledged when an object was sealed, according to its mark; false if
// it has none. A missing object is errVanished. It reads the end of the object, and the whole of it if that looks like a
// mark: the end of a payload may look like one, too.
func readMark(ctx context.Context, store objstore.Store, o walObject) (acked int64, says bool, err error) {
	if o.header.Version != 1 || o.header.BodyLen < markSize {
		return 0, false, nil
	}
	at := o.header.Start + o.header.BodyLen - markSize
	b := make([]byte, markSize)
	err = retry(ctx, func() error { return store.ReadRange(ctx, o.key, b, o.size-markSize) })
	if err != nil {
		return 0, false, vanished(o.key, err)
	}
	mark, rest, err := DecodeFrame(o.key, at, b)
	if err != nil || len(rest) > 0 || mark.Padding || !mark.Record.IsMark() {
		return 0, false, nil // it ends with another frame
	}
	var whole []byte
	err = retry(ctx, func() (err error) { whole, err = store.Get(ctx, o.key); return err })
	if err != nil {
		return 0, false, vanished(o.key, err)
	}
	_, frames, err := DecodeWALObject(o.key, whole) // if it is damaged, the end that was read stands
	return mark.Record.Base, err != nil || frames[len(frames)-1].Offset == at, nil
}

// checkGap refuses a window without an object if a later object shows that there must have been one: because that is so
// far ahead that the writer would have waited (WAL-16), or because its mark says that the window was acknowledged. The
// newest mark says the most.
func (t *walTakeover) checkGap(ctx context.Context, s walSurvey, window int64) error {
	later := s.from(window)
	for _, o := range later {
		if o.header.Start >= window+maxInflight*Window {
			return t.gap(window, o.header.Start)
		}
	}
	acked, says, by, err := t.newestMark(ctx, later)
	if err == nil && says && acked > window {
		return t.gap(window, by)
	}
	return err
}

// newestMark returns the newest mark among some objects, and the window of its object; false if none has one. Marks never
// decrease from object to object.
func (t *walTakeover) newestMark(ctx context.Context, objects []walObject) (acked int64, says bool, by int64, err error) {
	for _, o := range slices.Backward(objects) {
		acked, says, err = readMark(ctx, t.store, o)
		if says || err != nil {
			return acked, says, o.header.Start, err
		}
	}
	return 0, false, 0, nil
}

// from returns the writer's objects of the windows from one on, in their order.
func (s *walSurvey) from(window int64) (objects []walObject) {
	for _, other := range slices.Sorted(maps.Keys(s.own)) {
		if other >= window {
			objects = append(objects, s.own[other])
		}
	}
	return objects
}
