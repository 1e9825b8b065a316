package stream

import (
	"fmt"
	"io"
	"math"
)

// ObjectWriter writes a data object, block by block:
//
//	[block 0] ... [block n-1] [index entries] [footer, 48 bytes]
//
// It is for one goroutine. The first error sticks.
type ObjectWriter struct {
	w         io.Writer
	blockSize int
	position  int64
	index     Index
	block     blockBuilder
	buf       []byte
	err       error
}

// NewObjectWriter writes an object to w. A block ends once its payloads reach blockSize bytes (OBJ-2).
func NewObjectWriter(w io.Writer, blockSize int) *ObjectWriter {
	return &ObjectWriter{w: w, blockSize: blockSize}
}

// Add adds the next record: streams in the order of their ids, and of each stream the records in order, gaps allowed
// (OBJ-1, [ErrOrdering]). The payload is used until the block is written, which is by the end of Close.
func (o *ObjectWriter) Add(r Record) error {
	if o.err == nil {
		o.err = o.add(r)
	}
	return o.err
}

func (o *ObjectWriter) add(r Record) error {
	if err := r.CheckAppend(); err != nil {
		return err
	}
	if err := o.checkOrder(r); err != nil {
		return err
	}
	if len(o.block.records) > 0 && (o.block.stream() != r.Stream || !o.block.fits(r)) {
		if err := o.cut(); err != nil {
			return err
		}
	}
	o.block.add(r)
	if o.block.size >= o.blockSize {
		return o.cut()
	}
	return nil
}

// checkOrder compares a record with the one before it, which is in the open block or at the end of the last one.
func (o *ObjectWriter) checkOrder(r Record) error {
	var stream, end = r.Stream, int64(math.MinInt64)
	switch {
	case len(o.block.records) > 0:
		stream, end = o.block.stream(), o.block.end()
	case len(o.index) > 0:
		last := o.index[len(o.index)-1]
		stream, end = last.Stream, last.End()
	}
	if r.Stream < stream || r.Stream == stream && r.Base < end {
		return fmt.Errorf("%w: stream %d at %d behind stream %d to %d", ErrOrdering, r.Stream, r.Base, stream, end)
	}
	return nil
}

// cut writes the open block.
func (o *ObjectWriter) cut() error {
	records := o.block.records
	if len(records) == 0 {
		return nil
	}
	o.buf = AppendBlock(o.buf[:0], records)
	o.index = append(o.index, IndexEntry{
		Stream: o.block.stream(), Start: records[0].Base, Delta: int32(o.block.end() - records[0].Base),
		Records: int32(len(records)), Position: o.position, Size: int32(len(o.buf)),
	})
	clear(records)
	o.block = blockBuilder{records: records[:0]}
	return o.write(o.buf)
}

func (o *ObjectWriter) write(b []byte) error {
	n, err := o.w.Write(b)
	o.position += int64(n)
	return err
}

// Close writes the last block, the index and the footer. It does not close w.
func (o *ObjectWriter) Close() error {
	if o.err == nil {
		o.err = o.close()
	}
	err := o.err
	if err == nil {
		o.err = io.ErrClosedPipe // for later calls
	}
	return err
}

func (o *ObjectWriter) close() error {
	if err := o.cut(); err != nil {
		return err
	}
	if int64(len(o.index))*indexEntrySize > math.MaxInt32 {
		return fmt.Errorf("an index of %d entries does not fit into an object", len(o.index))
	}
	o.buf = o.buf[:0]
	for _, e := range o.index {
		o.buf = e.appendTo(o.buf)
	}
	f := Footer{IndexPosition: o.position, IndexLen: int32(len(o.buf))}
	return o.write(f.appendTo(o.buf))
}

// Index returns what was written so far, without the open block. The caller must not change it.
func (o *ObjectWriter) Index() Index { return o.index }

// Size returns the number of bytes that were written so far.
func (o *ObjectWriter) Size() int64 { return o.position }

// DecodeObject decodes a whole data object with all its records. Payloads alias b.
func DecodeObject(object string, b []byte) (Index, []Record, error) {
	f, err := DecodeFooter(object, int64(len(b)), b)
	if err != nil {
		return nil, nil, err
	}
	if f.Composite {
		return nil, nil, source{object: object}.corrupt("a composite, not an object with data")
	}
	index, err := DecodeIndex(object, f, b[f.IndexPosition:f.IndexPosition+int64(f.IndexLen)])
	if err != nil {
		return nil, nil, err
	}
	var all []Record
	for _, e := range index {
		records, err := DecodeBlocks(object, e, b[e.Position:e.Position+int64(e.Size)])
		if err != nil {
			return nil, nil, err
		}
		all = append(all, records...)
	}
	return index, all, nil
}
