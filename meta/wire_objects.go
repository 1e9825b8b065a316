package meta

import "github.com/tidemark-io/tidemark/stream/catalog"

// Sizes of what lists of objects hold.
const (
	objectIDSize     = 8
	rangeSize        = 40
	streamObjectSize = 52
)

// A range of a stream-set object, and a stream object. Little-endian.
//
//	  0         8        16        24       32       40
//	 +---------+---------+---------+--------+--------+
//	 | stream  | stream  | start   | end    | bytes  |
//	 | i64     | epoch   | i64     | i64    | i64    |
//	 +---------+---------+---------+--------+--------+
//
//	  0         8        16        24       32       40       48      52
//	 +---------+---------+---------+--------+--------+--------+------+
//	 | object  | bytes   | stream  | stream | start  | end    |attri-|
//	 | i64     | i64     | i64     | epoch  | i64    | i64    |butes |
//	 +---------+---------+---------+--------+--------+--------+------+

// node writes who proposes a command.
func (w *writer) node(node int32, epoch int64) {
	w.i32(node)
	w.i64(epoch)
}

func (w *writer) objects(ids []catalog.ObjectID) {
	w.count(len(ids))
	for _, id := range ids {
		w.i64(int64(id))
	}
}

func (w *writer) ranges(ranges []catalog.Range) {
	w.count(len(ranges))
	for _, r := range ranges {
		w.i64(int64(r.Stream))
		w.i64(r.Epoch)
		w.i64(r.Start)
		w.i64(r.End)
		w.i64(r.Size)
	}
}

func (w *writer) streamObject(o catalog.StreamObject) {
	w.i64(int64(o.Object))
	w.i64(o.Size)
	w.i64(int64(o.Stream))
	w.i64(o.Epoch)
	w.i64(o.Start)
	w.i64(o.End)
	w.u32(uint32(o.Attributes))
}

func (r *reader) stream() catalog.StreamID { return catalog.StreamID(r.i64()) }

func (r *reader) object() catalog.ObjectID { return catalog.ObjectID(r.i64()) }

func (r *reader) objects() (ids []catalog.ObjectID) {
	for range r.count(objectIDSize) {
		ids = append(ids, r.object())
	}
	return ids
}

func (r *reader) ranges() []catalog.Range {
	n := r.count(rangeSize)
	if n == 0 {
		return nil
	}
	ranges := make([]catalog.Range, n)
	for i := range ranges {
		ranges[i] = catalog.Range{Stream: r.stream(), Epoch: r.i64(), Start: r.i64(), End: r.i64(), Size: r.i64()}
	}
	return ranges
}

func (r *reader) streamObject() catalog.StreamObject {
	return catalog.StreamObject{
		Object: r.object(), Size: r.i64(), Stream: r.stream(), Epoch: r.i64(), Start: r.i64(), End: r.i64(),
		Attributes: catalog.Attributes(r.u32()),
	}
}
