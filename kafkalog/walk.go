package kafkalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/internal/poison"
	"github.com/tidemark-io/tidemark/vfs"
)

// windowSize is how much of a file a walk reads at once to find headers.
const windowSize = 4096

type window [windowSize]byte

// segmentReader is a segment's file, held open unless there is nothing to read, and the bytes of it that were part of the
// log at one moment. What lies beyond size is not looked at: it may be a batch being written, blocks reserved for later, or
// the remains of a crash.
type segmentReader struct {
	segment *segment
	file    vfs.File
	size    int64
}

// reader opens the segment for reading. The caller closes it.
func (s *segment) reader() (segmentReader, error) {
	size := s.size.Load()
	if size == 0 {
		return segmentReader{segment: s}, nil
	}
	file, err := s.file.acquire()
	if err != nil {
		return segmentReader{}, err
	}
	return segmentReader{segment: s, file: file, size: size}, nil
}

// close releases the file.
func (r *segmentReader) close() {
	if r.file != nil {
		r.segment.file.release()
	}
}

// cut reports whether the log gave up a part of [0, to) of this segment, in place, since the reader was made.
func (r *segmentReader) cut(to int64) bool { return r.segment.cutAt.Load() < to }

// readAt fills p from the position. It fails with ErrTruncated if the bytes may have been replaced since.
func (r *segmentReader) readAt(p []byte, position int64) error {
	n, err := r.file.ReadAt(p, position)
	if r.cut(position + int64(len(p))) {
		return ErrTruncated
	}
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return r.corrupt(position+int64(n), "the file is shorter than the log", "", "")
	}
	return r.failed(position+int64(n), err)
}

func (r *segmentReader) failed(position int64, err error) error {
	return &ReadError{Path: r.segment.file.path(), Position: position, Err: err}
}

func (r *segmentReader) corrupt(position int64, reason, want, got string) error {
	return &CorruptionError{Path: r.segment.file.path(), Position: position, Reason: reason, Want: want, Got: got}
}

// walker goes over the headers of a segment. It reads nothing else.
type walker struct {
	reader   *segmentReader
	position int64 // of the next batch
	least    int64 // the next batch's base offset may not be lower

	buf    *window
	bufAt  int64 // position of buf[0] in the file
	bufLen int
}

// walk starts at a position where a batch begins, or at the end. The caller closes the walker.
func (r *segmentReader) walk(from int64) walker {
	return walker{reader: r, position: from, least: r.segment.base}
}

func (w *walker) close() {
	if w.buf != nil {
		poison.Fill(w.buf[:])
		w.reader.segment.env.windows.Put(w.buf)
		w.buf = nil
	}
}

// next returns the header of the next batch and moves behind it. It is false at the end of the segment. Bytes that are
// no batch, and offsets that run backwards, are a [*CorruptionError].
func (w *walker) next() (batch.Header, bool, error) {
	if w.position >= w.reader.size {
		return batch.Header{}, false, nil
	}
	head, err := w.peek()
	if err != nil {
		return batch.Header{}, false, err
	}
	h, err := decodeHeader(head, w.reader.size-w.position)
	if err == nil && h.BaseOffset < w.least {
		err = fmt.Errorf("base offset is %d, want %d or more", h.BaseOffset, w.least)
	}
	if err != nil {
		if w.reader.cut(w.reader.size) {
			return batch.Header{}, false, ErrTruncated
		}
		return batch.Header{}, false, w.reader.corrupt(w.position, err.Error(), "", "")
	}
	w.position += int64(h.Size())
	w.least = h.NextOffset()
	return h, true, nil
}

// seek moves to the first batch whose last offset is at or above the offset, and behind it.
func (w *walker) seek(offset int64) (h batch.Header, at int64, found bool, err error) {
	for {
		at = w.position
		h, found, err = w.next()
		if err != nil || !found || h.LastOffset() >= offset {
			return h, at, found, err
		}
	}
}

// walkFrom starts a walk at a batch at or before the one that holds or follows the offset, with the help of the index. An
// index is a file like any other and may lie: where it leads must be a batch that begins at or below the offset, or the
// walk starts with the segment. The caller closes the walker.
func (r *segmentReader) walkFrom(offset int64) (walker, error) {
	if offset <= r.segment.base {
		return r.walk(0), nil
	}
	floor, err := r.segment.floor(offset)
	if err != nil {
		return walker{}, err
	}
	walk := r.walk(floor)
	if floor == 0 {
		return walk, nil
	}
	if !walk.beginsAtOrBelow(offset) {
		walk.position = 0
	}
	return walk, nil
}

// beginsAtOrBelow reports whether there is a batch at the position and begins at or below the offset.
func (w *walker) beginsAtOrBelow(offset int64) bool {
	if w.position >= w.reader.size {
		return false
	}
	head, err := w.peek()
	if err != nil {
		return false
	}
	h, err := decodeHeader(head, w.reader.size-w.position)
	return err == nil && h.BaseOffset >= w.least && h.BaseOffset <= offset
}

// peek returns the header's bytes at the position, fewer if the segment ends.
func (w *walker) peek() ([]byte, error) {
	need := int(min(batch.HeaderSize, w.reader.size-w.position))
	if from := w.position - w.bufAt; w.buf != nil && from >= 0 && from+int64(need) <= int64(w.bufLen) {
		return w.buf[from : from+int64(need)], nil
	}
	if w.buf == nil {
		w.buf = w.reader.segment.env.windows.Get().(*window)
	}
	w.bufAt = w.position
	w.bufLen = int(min(windowSize, w.reader.size-w.position))
	if err := w.reader.readAt(w.buf[:w.bufLen], w.bufAt); err != nil {
		w.bufLen = 0
		return nil, err
	}
	return w.buf[:need], nil
}

// errPartial says that a batch is longer than what is left of its file.
var errPartial = errors.New("the batch is longer than the rest of the file")

// decodeHeader reads the header at the start of b, which is all there is of it, and holds it against the bytes that are
// left of the file. Batches of the old formats 0 and 1 are known by their length and offset only: their one offset is
// that of their last record, and nothing else in the header means anything.
func decodeHeader(b []byte, left int64) (batch.Header, error) {
	h, err := batch.ParseHeader(b)
	var magic *batch.MagicError
	switch {
	case errors.As(err, &magic) && (magic.Magic == 0 || magic.Magic == 1):
		h = legacyHeader(b)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return h, errPartial
	case err != nil:
		return h, err
	}
	if int64(h.Size()) > left {
		return h, errPartial
	}
	if h.BaseOffset < 0 || h.LastOffsetDelta < 0 || h.BaseOffset >= math.MaxInt64-int64(h.LastOffsetDelta) {
		return h, fmt.Errorf("offsets from %d by %d do not exist", h.BaseOffset, h.LastOffsetDelta)
	}
	return h, nil
}

func legacyHeader(b []byte) batch.Header {
	return batch.Header{
		BaseOffset: int64(binary.BigEndian.Uint64(b)), Length: int32(binary.BigEndian.Uint32(b[8:])),
		LeaderEpoch: -1, Magic: int8(b[16]),
		BaseTimestamp: -1, MaxTimestamp: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	}
}
