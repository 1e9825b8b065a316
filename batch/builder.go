package batch

import (
	"errors"
	"fmt"
	"math"
)

// BuilderOptions are the header fields of a batch to build. The zero value is an uncompressed CreateTime batch at offset
// 0 of leader epoch 0, without a producer.
type BuilderOptions struct {
	Codec Codec
	Level int // of the codec; 0 is its default: gzip -1 (1 to 9), lz4 9 (1 to 17), zstd 3 (-131072 to 22)

	BaseOffset  int64
	LeaderEpoch int32 // -1 unknown

	// HasProducer says that ProducerID, ProducerEpoch and BaseSequence are set. Without it all three are written as -1.
	HasProducer   bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32 // of the record at BaseOffset; -1 in batches that a coordinator writes

	Transactional bool
	Control       bool

	// TimestampType LogAppendTime writes AppendTime (ms) as the max timestamp, which then is every record's timestamp.
	TimestampType TimestampType
	AppendTime    int64

	// HasDeleteHorizon writes DeleteHorizon (ms) as the base timestamp. Record timestamps stay what they are.
	HasDeleteHorizon bool
	DeleteHorizon    int64

	// LastOffsetDelta is the minimum last offset delta to write. Compaction keeps it when it removes the last records, so
	// that the batch still covers its offsets and sequences.
	LastOffsetDelta int32
}

// BuilderOptions returns the options that build a batch with h's fields: the same codec at its default level, offsets,
// producer, flags, append time and delete horizon. Records added must have h's offsets.
func (h Header) BuilderOptions() BuilderOptions {
	o := BuilderOptions{
		Codec:           h.Attributes.Codec(),
		BaseOffset:      h.BaseOffset,
		LeaderEpoch:     h.LeaderEpoch,
		HasProducer:     h.HasProducer(),
		ProducerID:      h.ProducerID,
		ProducerEpoch:   h.ProducerEpoch,
		BaseSequence:    h.BaseSequence,
		Transactional:   h.IsTransactional(),
		Control:         h.IsControl(),
		TimestampType:   h.Attributes.TimestampType(),
		LastOffsetDelta: h.LastOffsetDelta,
	}
	if h.Attributes.LogAppendTime() {
		o.AppendTime = h.MaxTimestamp
	}
	if h.Attributes.HasDeleteHorizon() {
		o.HasDeleteHorizon, o.DeleteHorizon = true, h.BaseTimestamp
	}
	return o
}

// ErrEmpty is the error of [Builder.Build] when no record was added. [RetainEmpty] makes the empty batches of compaction.
var ErrEmpty = errors.New("batch: no record was added")

// Builder encodes records into a batch, and compresses them as they come. The first error sticks and is returned by
// Build; further adds do nothing. A Builder is for one goroutine.
type Builder struct {
	options BuilderOptions
	buf     []byte  // room for the header, then the payload as far as it is encoded
	pending []byte  // records that are not compressed yet
	enc     encoder // nil without compression
	count   int32
	last    int64 // offset of the last record added
	baseTS  int64
	maxTS   int64
	err     error
}

// ErrBuilt is the error of a builder that is used again after Build without Reset.
var ErrBuilt = errors.New("batch: the batch was built; reset the builder for another")

// NewBuilder returns a builder of one batch with the given header fields.
func NewBuilder(o BuilderOptions) *Builder {
	b := new(Builder)
	b.Reset(o)
	return b
}

// Reset makes b a builder of a new batch and keeps its memory. Batches already built are not affected.
func (b *Builder) Reset(o BuilderOptions) {
	*b = Builder{
		options: o,
		buf:     append(b.buf[:0], make([]byte, HeaderSize)...),
		pending: b.pending[:0],
		last:    o.BaseOffset - 1,
		maxTS:   noTimestamp,
	}
	if o.HasDeleteHorizon {
		b.baseTS = o.DeleteHorizon
	}
	b.enc, b.err = newEncoder(o.Codec, o.Level)
}

// Count returns the number of records added.
func (b *Builder) Count() int { return int(b.count) }

// Size returns the bytes of the batch so far, header included. The last records are counted before compression.
func (b *Builder) Size() int { return len(b.buf) + len(b.pending) }

// Add adds a record at the offset after the last one, the first at the base offset. The timestamp is in ms. A nil key,
// value or header value is null. The bytes are copied before Add returns.
func (b *Builder) Add(timestamp int64, key, value []byte, headers ...RecordHeader) {
	b.AddAt(b.last+1, timestamp, key, value, headers...)
}

// AddAt is [Builder.Add] with a given offset, which must be above that of the record before and within 2147483647 of the
// base offset.
func (b *Builder) AddAt(offset, timestamp int64, key, value []byte, headers ...RecordHeader) {
	delta := offset - b.options.BaseOffset
	switch {
	case b.err != nil:
		return
	case offset <= b.last:
		b.err = fmt.Errorf("batch: record at offset %d added after offset %d", offset, b.last)
		return
	case delta < 0 || delta > math.MaxInt32:
		b.err = fmt.Errorf("batch: offset %d is too far from base offset %d", offset, b.options.BaseOffset)
		return
	}
	if b.count == 0 && !b.options.HasDeleteHorizon {
		b.baseTS = timestamp
	}
	size := bodySize(timestamp-b.baseTS, int32(delta), key, value, headers)
	if int64(b.Size())+size+maxVarint32-lengthOverhead > math.MaxInt32 {
		b.err = fmt.Errorf("batch: a record of %d bytes does not fit into a batch of %d", size, b.Size())
		return
	}
	b.count++
	b.last = offset
	b.maxTS = max(b.maxTS, timestamp)
	if b.enc == nil {
		b.buf = appendRecord(b.buf, int32(size), timestamp-b.baseTS, int32(delta), key, value, headers)
		return
	}
	b.pending = appendRecord(b.pending, int32(size), timestamp-b.baseTS, int32(delta), key, value, headers)
	if len(b.pending) >= b.enc.enough() {
		b.flush()
	}
}

// flush compresses what is pending, except for the beginning of a block.
func (b *Builder) flush() {
	buf, left, err := b.enc.write(b.buf, b.pending)
	if err != nil {
		b.err = err
		return
	}
	b.buf = buf
	b.pending = b.pending[:copy(b.pending, left)]
}

// Build returns the batch. It belongs to the caller: the builder keeps no reference to its bytes. The builder must be
// Reset before it is used again. Errors are [ErrEmpty], [ErrBuilt], [*LevelError], [*UnknownCodecError] and the first
// error of an Add.
func (b *Builder) Build() (Batch, error) { return b.AppendTo(nil) }

// AppendTo is [Builder.Build] into the memory of dst: it appends the encoded batch to dst and returns the batch alone,
// which shares dst's memory if that had room.
func (b *Builder) AppendTo(dst []byte) (Batch, error) {
	if b.err == nil && b.count == 0 {
		return nil, ErrEmpty
	}
	b.finish()
	if b.err != nil {
		return nil, b.err
	}
	b.err = ErrBuilt
	b.header(int32(len(b.buf) - lengthOverhead)).Put(b.buf)
	Batch(b.buf).sealCRC()
	start := len(dst)
	dst = append(dst, b.buf...)
	return Batch(dst[start:len(dst):len(dst)]), nil
}

// finish ends the payload.
func (b *Builder) finish() {
	if b.enc != nil && b.err == nil {
		b.buf, b.err = b.enc.finish(b.buf, b.pending)
		b.enc, b.pending = nil, b.pending[:0]
	}
	if b.err == nil && int64(len(b.buf))-lengthOverhead > math.MaxInt32 {
		b.err = fmt.Errorf("batch: the batch has %d bytes, more than the format can say", len(b.buf))
	}
}

func (b *Builder) header(length int32) Header {
	o := &b.options
	h := Header{
		BaseOffset:      o.BaseOffset,
		Length:          length,
		LeaderEpoch:     o.LeaderEpoch,
		Magic:           Magic,
		Attributes:      o.attributes(),
		LastOffsetDelta: max(int32(b.last-o.BaseOffset), o.LastOffsetDelta),
		BaseTimestamp:   b.baseTS,
		MaxTimestamp:    b.maxTS,
		ProducerID:      noProducerID,
		ProducerEpoch:   noProducerEpoch,
		BaseSequence:    noSequence,
		Count:           b.count,
	}
	if o.HasProducer {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = o.ProducerID, o.ProducerEpoch, o.BaseSequence
	}
	if o.TimestampType == LogAppendTime {
		h.MaxTimestamp = o.AppendTime
	}
	return h
}

func (o *BuilderOptions) attributes() Attributes {
	a := Attributes(o.Codec)
	if o.TimestampType == LogAppendTime {
		a |= attrLogAppendTime
	}
	if o.Transactional {
		a |= attrTransactional
	}
	if o.Control {
		a |= attrControl
	}
	if o.HasDeleteHorizon {
		a |= attrDeleteHorizon
	}
	return a
}

// RetainEmpty returns the batch that compaction keeps of a batch whose records are all gone, so that its producer's last
// sequence and the log's offsets survive: h without records, codec and delete horizon, with base timestamp -1.
func RetainEmpty(h Header) Batch {
	h.Length = minLength
	h.Magic = Magic
	h.Attributes &= attrKnown &^ (codecMask | attrDeleteHorizon)
	h.BaseTimestamp = noTimestamp
	h.Count = 0
	b := make(Batch, HeaderSize)
	h.Put(b)
	b.sealCRC()
	return b
}
