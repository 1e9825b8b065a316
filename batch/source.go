package batch

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// decoder decompresses one payload, piece by piece.
type decoder interface {
	// reset starts on a payload, which must stay unchanged until release.
	reset(payload []byte) error

	// decode appends at least one byte to dst, or returns io.EOF at the end of the payload. budget is how many bytes the
	// caller will still accept: a decoder that knows before allocating that there are more may return errBudget;
	// otherwise it may exceed the budget by one block.
	decode(dst []byte, budget int64) ([]byte, error)

	// release forgets the payload and reports whether the decoder is small enough to keep for another.
	release() bool
}

// errBudget becomes a [DecompressedTooLargeError].
var errBudget = errors.New("more bytes than the limit allows")

// errTruncated says that a payload ends inside something.
var errTruncated = errors.New("the payload is cut off")

// PayloadError says that a codec cannot decompress a payload.
type PayloadError struct {
	Codec Codec
	Err   error
}

func (e *PayloadError) Error() string { return fmt.Sprintf("%v payload: %v", e.Codec, e.Err) }

// Unwrap returns the cause.
func (e *PayloadError) Unwrap() error { return e.Err }

// source is the stream of the decompressed bytes of a payload: a decoder and the buffer it decodes into. Sources are
// pooled per codec, because a decoder and a buffer cost far more to make than a batch costs to read.
type source struct {
	codec  Codec
	dec    decoder
	buf    []byte
	budget int64 // bytes that may still come
	limit  int64 // bytes that may come in all, for the error
}

// sources holds idle sources by codec. Nothing in it can be seen from outside: a source is reset before it is used and
// its buffer is reachable only from the scanner that holds the source.
var sources [Zstd + 1]sync.Pool

// maxPooledBuffer is the largest buffer that an idle source keeps. Clients' lz4 frames announce blocks of 4 MiB, however
// small their batches are: allocating such a buffer for every batch would cost more than everything else in reading.
const maxPooledBuffer = 8 << 20

func newSource(codec Codec, payload []byte, limit int64) (*source, error) {
	s, err := idleSource(codec)
	if err != nil {
		return nil, err
	}
	s.limit, s.budget, s.buf = limit, limit, s.buf[:0]
	if limit <= 0 {
		s.budget = 1<<63 - 1
	}
	if err := s.dec.reset(payload); err != nil {
		s.release()
		return nil, &PayloadError{Codec: codec, Err: err}
	}
	return s, nil
}

func idleSource(codec Codec) (*source, error) {
	if !codec.Valid() {
		return nil, &UnknownCodecError{ID: codec}
	}
	if s, ok := sources[codec].Get().(*source); ok {
		return s, nil
	}
	dec, err := newDecoder(codec)
	if err != nil {
		return nil, err
	}
	return &source{codec: codec, dec: dec}, nil
}

func newDecoder(codec Codec) (decoder, error) {
	switch codec {
	case Gzip:
		return new(gzipDecoder), nil
	case Snappy:
		return new(snappyDecoder), nil
	case LZ4:
		return new(lz4Decoder), nil
	case Zstd:
		return newZstdDecoder()
	}
	return nil, &UnknownCodecError{ID: codec}
}

// fill decodes further bytes behind keep, which is the unread end of what the last fill returned, and returns both. What
// the last fill returned is invalid afterwards. At the end of the payload the error is io.EOF.
func (s *source) fill(keep []byte) ([]byte, error) {
	n := len(keep)
	if n < len(s.buf) { // otherwise it is where it must be, and copying it at every fill would cost its square
		copy(s.buf, keep)
		poison(s.buf[n:])
	}
	out, err := s.dec.decode(s.buf[:n], s.budget)
	if err != nil {
		return nil, s.fault(err)
	}
	s.buf = out
	if s.budget -= int64(len(out) - n); s.budget < 0 {
		return nil, s.fault(errBudget)
	}
	return out, nil
}

// fault names the codec in an error of its decoder.
func (s *source) fault(err error) error {
	switch {
	case err == io.EOF:
		return io.EOF
	case err == errBudget:
		return &DecompressedTooLargeError{Limit: s.limit}
	}
	return &PayloadError{Codec: s.codec, Err: err}
}

// release returns the source to its pool. Nothing that fill returned may be used afterwards.
func (s *source) release() {
	poison(s.buf[:cap(s.buf)])
	if !s.dec.release() {
		return
	}
	if cap(s.buf) > maxPooledBuffer {
		s.buf = nil
	}
	sources[s.codec].Put(s)
}

// room returns dst with space for n more bytes.
func room(dst []byte, n int) []byte { return slices.Grow(dst, n) }
