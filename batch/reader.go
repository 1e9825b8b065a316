package batch

import (
	"io"
)

// Limits bound what reading compressed records may cost. Zero or less means no limit. Uncompressed records are never
// limited: they take no memory that the batch does not.
type Limits struct {
	// MaxRecordBytes is the largest record, as declared by its length, that is decompressed: Kafka's
	// max.decompressed.message.bytes. A larger one is refused before memory is allocated for it.
	MaxRecordBytes int64

	// MaxDecompressedBytes is how many bytes the records of one batch may decompress to in all. Without it a batch can
	// never take much memory, but it can take much time.
	MaxDecompressedBytes int64
}

// RecordReader reads the records of a batch in order. It decompresses as it goes: reading the first record of a large
// batch costs one compression block, and memory holds one block and one record, never the batch. The zero value reads
// nothing; [Batch.Records] makes one and [RecordReader.Reset] aims one at another batch without an allocation.
//
// A reader is for one goroutine. It must be closed, or its codec is not reused.
type RecordReader struct {
	records recordScanner
	base    int64
	baseTS  int64
	maxTS   int64
	lat     bool
	record  Record
}

// Records returns a reader of the batch's records. The batch must not be modified while it is read. It does not verify
// the checksum.
func (b Batch) Records(l Limits) *RecordReader {
	r := new(RecordReader)
	r.Reset(b, l)
	return r
}

// Reset closes the reader and makes it one of b, as if by [Batch.Records].
func (r *RecordReader) Reset(b Batch, l Limits) {
	r.base, r.baseTS, r.maxTS = b.BaseOffset(), b.BaseTimestamp(), b.MaxTimestamp()
	r.lat = b.Attributes().LogAppendTime()
	r.record = Record{Headers: r.record.Headers[:0]}
	r.records.reset(b, l)
}

// Next moves to the next record and reports whether there is one. At the end, or at the first error, it returns false
// for good; [RecordReader.Err] tells which. The end is an error when the header counts more or fewer records than there
// are.
func (r *RecordReader) Next() bool {
	if !r.records.next() {
		return false
	}
	raw := &r.records.raw
	r.record.Offset = r.base + int64(raw.offsetDelta)
	r.record.Timestamp = r.baseTS + raw.timestampDelta
	if r.lat {
		r.record.Timestamp = r.maxTS
	}
	r.record.Key, r.record.Value = raw.key, raw.value
	r.record.Headers = raw.appendHeaders(r.record.Headers[:0], r.record.Headers)
	return true
}

// Record returns the record that Next moved to. The struct, its Headers and every byte slice in it are valid until the
// next call of Next, Reset or Close; header keys are strings and stay valid.
func (r *RecordReader) Record() *Record { return &r.record }

// Err returns what ended the records early, a [*DecodeError], or nil.
func (r *RecordReader) Err() error { return r.records.err }

// Close ends the reader and releases its codec. It may be called more than once. Records obtained before must no longer
// be used.
func (r *RecordReader) Close() { r.records.close() }

// recordScanner walks raw records: what [RecordReader] and [Validate] share. It builds no value, so that a walk over
// uncompressed records allocates nothing.
type recordScanner struct {
	raw    rawRecord
	win    []byte  // decoded bytes not read yet
	src    *source // where more come from; nil when the records are not compressed
	base   int64
	index  int32 // of the next record
	count  int32
	limits Limits
	done   bool
	err    error
}

func (s *recordScanner) reset(b Batch, l Limits) {
	s.close()
	*s = recordScanner{base: b.BaseOffset(), count: b.Count(), limits: l}
	codec := b.Attributes().Codec()
	if codec == None || len(b) == HeaderSize {
		s.win = b.Payload()
		return
	}
	src, err := newSource(codec, b.Payload(), l.MaxDecompressedBytes)
	if err != nil {
		s.fail(err)
		return
	}
	s.src = src
}

func (s *recordScanner) close() {
	if s.src != nil {
		s.src.release()
		s.src = nil
	}
	s.win = nil
	s.done = true
}

// next parses the next record into s.raw.
func (s *recordScanner) next() bool {
	if s.done {
		return false
	}
	if s.index >= s.count {
		s.finish()
		return false
	}
	body, err := s.cut()
	if err == nil {
		err = s.raw.parse(body)
	}
	if err != nil {
		s.fail(err)
		return false
	}
	s.index++
	return true
}

// cut takes the next record's bytes, without its length, from the window.
func (s *recordScanner) cut() ([]byte, error) {
	size, n := varint32(s.win)
	for n == 0 {
		if err := s.more(errRecordMissing); err != nil {
			return nil, err
		}
		size, n = varint32(s.win)
	}
	switch {
	case n < 0:
		return nil, errVarint
	case size < 0:
		return nil, errRecordLength
	case s.src != nil && s.limits.MaxRecordBytes > 0 && int64(size) > s.limits.MaxRecordBytes:
		return nil, &RecordTooLargeError{Size: int64(size), Limit: s.limits.MaxRecordBytes}
	}
	end := n + int(size)
	for len(s.win) < end {
		if err := s.more(errRecordLength); err != nil {
			return nil, err
		}
	}
	body := s.win[n:end:end]
	s.win = s.win[end:]
	return body, nil
}

// more decodes further bytes into the window. At the end of the input it returns atEnd.
func (s *recordScanner) more(atEnd error) error {
	if s.src == nil {
		return atEnd
	}
	win, err := s.src.fill(s.win)
	if err == io.EOF {
		return atEnd
	}
	s.win = win
	return err
}

// finish checks that nothing follows the last record.
func (s *recordScanner) finish() {
	s.done = true
	switch {
	case s.count < 0:
		s.fail(errRecordCount)
	case len(s.win) > 0:
		s.fail(errRecordsExtra)
	default:
		if err := s.more(io.EOF); err == nil {
			s.fail(errRecordsExtra)
		} else if err != io.EOF {
			s.fail(err)
		}
	}
}

func (s *recordScanner) fail(err error) {
	s.done = true
	s.err = &DecodeError{BaseOffset: s.base, Index: s.index, Err: err}
}
