package kafkalog

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/batch"
)

// ReadResult is what [Log.Read] returns.
type ReadResult struct {
	// StartOffset is the base offset of the first batch, which may lie below or above the offset asked for. Without a
	// batch it is the log end.
	StartOffset int64
	// Batches are whole batches in order. They alias one allocation that is the caller's.
	Batches []batch.Batch
}

// RawRead is what [Log.ReadRaw] returns.
type RawRead struct {
	// StartOffset is the base offset of the first batch, which may lie below or above the offset asked for, or that
	// offset if there is no batch.
	StartOffset int64
	// LastOffset is the last offset of the last batch, StartOffset-1 if there is none.
	LastOffset int64
	// Bytes are whole batches as they are in the files. They are the caller's.
	Bytes []byte
}

// Read returns the batches from the one that holds or follows the offset, about maxBytes of them, and checks their
// checksums. It continues into later segments. At or above the log end it returns no batch and no error. It selects
// like [Log.ReadRaw] up to the log end. It does not wait for an append, and blocks on the device.
//
// Errors are [*OffsetTooLowError], [*OffsetBelowLocalStartError], [*ChecksumError] with the position of the damaged
// batch, and others of class [ErrStorage]. Batches before a damaged one are returned with its error. A batch of one of
// the old formats 0 and 1 is a [*BatchError].
func (l *Log) Read(offset int64, maxBytes int) (ReadResult, error) {
	end := l.end.Load()
	if offset >= end && offset >= l.LogStart() {
		if l.closed.Load() {
			return ReadResult{}, ErrClosed
		}
		return ReadResult{StartOffset: end}, nil
	}
	for {
		result, err := l.readOnce(offset, end, maxBytes)
		if !errors.Is(err, ErrTruncated) {
			return result, err
		}
		end = l.end.Load()
	}
}

func (l *Log) readOnce(offset, limit int64, maxBytes int) (ReadResult, error) {
	regions, err := l.ReadRegions(offset, limit, maxBytes)
	if err != nil {
		return ReadResult{}, err
	}
	defer regions.Release()
	if regions.Len() == 0 {
		return ReadResult{StartOffset: l.end.Load()}, nil
	}
	data, err := regions.AppendTo(nil)
	if err != nil {
		return ReadResult{}, err
	}
	result := ReadResult{StartOffset: regions.StartOffset}
	for i := range regions.parts {
		part := &regions.parts[i]
		if err := result.split(data[:part.length], part); err != nil {
			return result, err
		}
		data = data[part.length:]
	}
	return result, nil
}

// split cuts the bytes of one region into batches and checks them.
func (r *ReadResult) split(data []byte, part *region) error {
	for position := part.from; len(data) > 0; {
		b, rest, err := batch.Next(data)
		var magic *batch.MagicError
		if err != nil {
			if errors.As(err, &magic) && len(rest) < len(data) {
				return &BatchError{Offset: legacyHeader(data).BaseOffset, Err: err}
			}
			return part.reader.corrupt(position, err.Error(), "", "")
		}
		var crc *batch.CRCError
		if err := b.VerifyCRC(); errors.As(err, &crc) {
			return &ChecksumError{
				Path: part.reader.segment.file.path(), Position: position, Want: crc.Stored, Got: crc.Computed,
			}
		}
		r.Batches = append(r.Batches, b)
		position += int64(len(b))
		data = rest
	}
	return nil
}

// ReadRaw returns the bytes of whole batches from the one that holds or follows fetch: those whose base offset is below
// limit, as many as fit into maxBytes, but always the first one, however large it is. It continues into later segments.
// At or above the log end, and at or above limit, it returns no bytes and no error. The checksums are not verified: the
// reader of the bytes does that. It does not wait for an append, and blocks on the device.
//
// Errors are [*OffsetTooLowError] below the log start, [*OffsetBelowLocalStartError], [*ArgumentError] for an offset in
// a hole of more than 2^31-1 offsets, and of class [ErrStorage].
func (l *Log) ReadRaw(fetch, limit int64, maxBytes int) (RawRead, error) {
	for {
		plan, err := l.PlanRead(fetch, limit, maxBytes)
		if err != nil {
			return RawRead{}, err
		}
		out, err := plan.Bytes()
		plan.Release()
		if !errors.Is(err, ErrTruncated) {
			return out, err
		}
	}
}

// ReadRegions is [Log.ReadRaw] without the copy: it returns the location of the bytes. The caller releases the
// regions. It reads batch headers only.
func (l *Log) ReadRegions(fetch, limit int64, maxBytes int) (*Regions, error) {
	for {
		plan, err := l.PlanRead(fetch, limit, maxBytes)
		if err != nil {
			return nil, err
		}
		out, err := plan.Regions()
		plan.Release()
		if !errors.Is(err, ErrTruncated) {
			return out, err
		}
	}
}

// StoredBatchError gives the location of a batch that does not decode. It comes inside a [*BatchError].
type StoredBatchError struct {
	Path     string
	Position int64
	Err      error
}

func (e *StoredBatchError) Error() string {
	return fmt.Sprintf("%s, position %d: %v", e.Path, e.Position, e.Err)
}

// Unwrap returns the cause, an error of package batch.
func (e *StoredBatchError) Unwrap() error { return e.Err }

// ReadMayBlock reports whether a read from the offset may have to wait for the device. It is false at or above the log
// end, and when everything from the offset on was appended by this process to the active segment, which the page cache
// holds. It errs on the side of true, and an append that rolls may make a false result stale.
func (l *Log) ReadMayBlock(offset int64) bool {
	if offset >= l.end.Load() {
		return false
	}
	s := l.view.Load().active()
	if offset < s.base {
		return true
	}
	floor, err := s.floor(offset)
	return err != nil || floor < s.openedAt
}
