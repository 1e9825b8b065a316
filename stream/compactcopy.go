package stream

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

const (
	// maxRead is the longest range that is read at once (CP-7).
	maxRead = 16 << 20
	// readers is how many ranges are read at the same time.
	readers = 4
	// groupBytes is the size at which blocks get an index entry of their own (CP-8).
	groupBytes = 1 << 20
)

// blockSource reads the blocks of objects, and counts and throttles what it reads.
type blockSource struct {
	store     objstore.Store
	namespace string
	throttle  *throttle
}

// readBlocks returns the bytes of blocks, in their order. Neighbours in one object are read together. The bytes have the
// shape that the index describes, or the error is a [*CorruptError].
func (s blockSource) readBlocks(ctx context.Context, blocks []planBlock) ([][]byte, error) {
	bytes := make([][]byte, len(blocks))
	spans := mergeReads(blocks)
	errs := make([]error, len(spans))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := parallel.Each(ctx, len(spans), readers, func(i int) {
		if errs[i] = s.readSpan(ctx, blocks, spans[i], bytes); errs[i] != nil {
			cancel()
		}
	})
	for _, failed := range errs {
		if failed != nil && !errors.Is(failed, context.Canceled) { // the error that cancelled the others
			return nil, failed
		}
	}
	return bytes, cmp.Or(err, ctx.Err())
}

// readSpan reads one span and distributes its bytes to the blocks in it.
func (s blockSource) readSpan(ctx context.Context, blocks []planBlock, span readSpan, bytes [][]byte) error {
	key := DataKey(s.namespace, span.object)
	b := make([]byte, span.size)
	for from := int64(0); from < span.size; from += maxRead {
		part := b[from:min(from+maxRead, span.size)]
		if err := s.throttle.wait(ctx, int64(len(part))); err != nil {
			return err
		}
		if err := s.store.ReadRange(ctx, key, part, span.position+from); err != nil {
			return err
		}
	}
	for _, i := range span.blocks {
		at := blocks[i].Position - span.position
		bytes[i] = b[at : at+int64(blocks[i].Size)]
		if err := checkBlocks(key, blocks[i].IndexEntry, bytes[i]); err != nil {
			return err
		}
	}
	return nil
}

// readSpan is bytes of one object that are read together, and the blocks in them, by their number.
type readSpan struct {
	object         catalog.ObjectID
	position, size int64
	blocks         []int
}

// mergeReads joins blocks that lie next to each other in their object, up to maxRead; a larger block is read alone.
func mergeReads(blocks []planBlock) []readSpan {
	order := make([]int, len(blocks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(blocks[i].object, blocks[j].object), cmp.Compare(blocks[i].Position, blocks[j].Position))
	})
	var spans []readSpan
	for _, i := range order {
		b := blocks[i]
		if n := len(spans) - 1; n >= 0 && spans[n].object == b.object && spans[n].position+spans[n].size == b.Position &&
			spans[n].size+int64(b.Size) <= maxRead {
			spans[n].size += int64(b.Size)
			spans[n].blocks = append(spans[n].blocks, i)
			continue
		}
		spans = append(spans, readSpan{b.object, b.Position, int64(b.Size), []int{i}})
	}
	return spans
}

// checkBlocks walks the headers of an index entry's blocks: they must fill its bytes and count its records (OBJ-4). So a
// compaction never replaces good objects by the copy of a damaged one.
func checkBlocks(key string, e IndexEntry, b []byte) error {
	s := source{key, e.Position}
	records := int64(0)
	for len(b) > 0 {
		if len(b) < blockHeaderSize {
			return s.short("block", blockHeaderSize, len(b))
		}
		if b[0] != blockMagic || b[1] != blockFlag {
			return s.differs("magic of a block", hexNumber(blockMagic<<8|blockFlag), hexNumber(binary.BigEndian.Uint16(b)))
		}
		size := blockHeaderSize + int64(binary.BigEndian.Uint32(b[6:]))
		if size > int64(len(b)) {
			return s.short("block's records", int(size)-blockHeaderSize, len(b)-blockHeaderSize)
		}
		records += int64(binary.BigEndian.Uint32(b[2:]))
		s, b = s.at(int(size)), b[size:]
	}
	if records != int64(e.Records) {
		return source{key, e.Position}.differs("records of an index entry", e.Records, records)
	}
	return nil
}

// objectCopier writes a data object from blocks that are copied byte for byte (CP-7). It is for one goroutine; after an
// error only abort may be called.
type objectCopier struct {
	*compactor
	id       catalog.ObjectID
	index    Index // one entry for each group of blocks
	position int64
	buf      []byte      // not sent yet
	upload   *dataUpload // once the object is longer than a part (OBJ-6)
}

// newCopier begins an object. abort or finish must be called.
func (c *compactor) newCopier(id catalog.ObjectID) *objectCopier {
	return &objectCopier{compactor: c, id: id}
}

// add appends the bytes of an index entry of another object, after everything added before.
func (o *objectCopier) add(ctx context.Context, e IndexEntry, b []byte) error {
	e.Position = o.position
	if n := len(o.index) - 1; n >= 0 && groups(o.index[n], e) {
		group := &o.index[n]
		group.Delta, group.Records, group.Size = int32(e.End()-group.Start), group.Records+e.Records, group.Size+e.Size
	} else {
		o.index = append(o.index, e)
	}
	return o.write(ctx, b)
}

// groups reports whether blocks may share an index entry with those before them (CP-8).
func groups(before, e IndexEntry) bool {
	return e.Stream == before.Stream && e.Start == before.End() && spans(before.Start, e.End()) &&
		int64(before.Size)+int64(e.Size) < groupBytes && int64(before.Records)+int64(e.Records) <= math.MaxInt32
}

func (o *objectCopier) write(ctx context.Context, b []byte) (err error) {
	if err := o.throttle.wait(ctx, int64(len(b))); err != nil {
		return err
	}
	o.position += int64(len(b))
	o.buf = append(o.buf, b...)
	if len(o.buf) < o.config.partBytes {
		return nil
	}
	if o.upload == nil {
		if o.upload, err = createData(ctx, o.data, DataKey(o.namespace, o.id)); err != nil {
			return err
		}
	}
	return o.send()
}

func (o *objectCopier) send() error {
	_, err := o.upload.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}

// finish writes index and footer and makes the object visible. It returns the object's size in bytes.
func (o *objectCopier) finish(ctx context.Context) (int64, error) {
	var b []byte
	f := Footer{IndexPosition: o.position, IndexLen: int32(len(o.index) * indexEntrySize)}
	for _, e := range o.index {
		b = e.appendTo(b)
	}
	if err := o.write(ctx, f.appendTo(b)); err != nil {
		return 0, err
	}
	if o.upload == nil {
		return o.position, putData(ctx, o.data, DataKey(o.namespace, o.id), o.buf)
	}
	if err := o.send(); err != nil {
		return 0, err
	}
	upload := o.upload
	o.upload = nil // Finish ends it, whether it succeeds or not
	return o.position, upload.Finish()
}

// abort abandons the object; after finish it does nothing. What may be left only takes up space, and the store reports
// it.
func (o *objectCopier) abort() {
	if o.upload != nil {
		_ = o.upload.Abort()
	}
}
