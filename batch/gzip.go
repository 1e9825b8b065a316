package batch

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// gzip payloads are one RFC 1952 member, or several one after another.

// readChunk is how many bytes are decompressed at a time with codecs that decode a stream.
const readChunk = 32 << 10

type gzipDecoder struct {
	in bytes.Reader
	z  gzip.Reader
}

func (d *gzipDecoder) reset(payload []byte) error {
	d.in.Reset(payload)
	if err := d.z.Reset(&d.in); err != nil {
		return endIsTruncation(err)
	}
	return nil
}

func (d *gzipDecoder) decode(dst []byte, _ int64) ([]byte, error) {
	return readMore(&d.z, dst)
}

func (d *gzipDecoder) release() bool {
	d.in.Reset(nil)
	return true
}

// readMore appends some bytes to dst. Only a stream that ends where it may returns io.EOF.
func readMore(r io.Reader, dst []byte) ([]byte, error) {
	dst = room(dst, readChunk)
	for {
		n, err := r.Read(dst[len(dst) : len(dst)+readChunk])
		if n > 0 {
			return dst[:len(dst)+n], nil
		}
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, errTruncated
			}
			return nil, err
		}
	}
}

// endIsTruncation converts the end of a payload where it must not end to an error.
func endIsTruncation(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTruncated
	}
	return err
}
