package batch

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"
)

// Snappy payloads come in two dialects. Java writes the stream of its snappy library, called xerial after its author:
//
//	 0                       8         12        16
//	+-----------------------+---------+---------+--------+-------+--------+-------+--
//	| 82 53 4e 41 50 50 59 0| version | least   | length | block | length | block | ...
//	|  "\x82SNAPPY\0"       | int32 1 | int32 1 | int32  |       | int32  |       |
//	+-----------------------+---------+---------+--------+-------+--------+-------+--
//
// big-endian; a block is a raw snappy block of at most 32 KiB of input; there is no end mark, and the header may come
// again in place of a length where streams were joined. The versions are ignored, as in Kafka. Other clients write
// one raw snappy block and nothing around it. We write the first and read both.
const (
	snappyMagic      = "\x82SNAPPY\x00"
	snappyHeaderSize = 16
	snappyVersion    = 1
	snappyBlockSize  = 32 << 10
)

// A raw block is the length of its input as an unsigned varint, then literals and copies. A copy of three bytes yields
// at most 64, which no other element betters.
const snappyMaxRatio = 22

var (
	errSnappyHeader = errors.New("the header of a snappy stream is broken")
	errSnappyBlock  = errors.New("a snappy block does not decompress")
	errSnappySize   = errors.New("a snappy block claims more bytes than it can hold")
)

type snappyDecoder struct {
	in     []byte
	framed bool
}

func (d *snappyDecoder) reset(payload []byte) error {
	d.in = payload
	d.framed = len(payload) >= len(snappyMagic) && string(payload[:len(snappyMagic)]) == snappyMagic
	if d.framed {
		return d.header()
	}
	return nil
}

// header takes a stream header off the input.
func (d *snappyDecoder) header() error {
	if len(d.in) < snappyHeaderSize {
		return errTruncated
	}
	if string(d.in[:len(snappyMagic)]) != snappyMagic {
		return errSnappyHeader
	}
	d.in = d.in[snappyHeaderSize:]
	return nil
}

func (d *snappyDecoder) decode(dst []byte, budget int64) ([]byte, error) {
	for len(d.in) > 0 {
		block, err := d.block()
		if err != nil {
			return nil, err
		}
		n := len(dst)
		if dst, err = decodeSnappyBlock(dst, block, budget); err != nil {
			return nil, err
		}
		if len(dst) > n {
			return dst, nil
		}
	}
	return nil, io.EOF
}

// block takes the next raw block off the input.
func (d *snappyDecoder) block() ([]byte, error) {
	if !d.framed {
		block := d.in
		d.in = nil
		return block, nil
	}
	if len(d.in) >= 4 && string(d.in[:4]) == snappyMagic[:4] {
		if err := d.header(); err != nil {
			return nil, err
		}
	}
	if len(d.in) < 4 {
		return nil, errTruncated
	}
	size := int32(binary.BigEndian.Uint32(d.in))
	if size < 0 {
		return nil, errSnappyHeader
	}
	if int64(size) > int64(len(d.in)-4) {
		return nil, errTruncated
	}
	block := d.in[4 : 4+size]
	d.in = d.in[4+size:]
	return block, nil
}

func (d *snappyDecoder) release() bool {
	d.in = nil
	return true
}

// decodeSnappyBlock appends a raw block's content to dst. The size it claims is believed only as far as its bytes and
// the budget allow.
func decodeSnappyBlock(dst, block []byte, budget int64) ([]byte, error) {
	size, n := binary.Uvarint(block)
	switch {
	case n <= 0 || size > 1<<32-1:
		return nil, errSnappyBlock
	case size > uint64(len(block))*snappyMaxRatio:
		return nil, errSnappySize
	case int64(size) > budget:
		return nil, errBudget
	}
	if err := checkSnappyElements(block[n:], int64(size)); err != nil {
		return nil, err
	}
	dst = room(dst, int(size))
	out, err := s2.Decode(dst[len(dst):len(dst)+int(size)], block)
	if err != nil {
		return nil, errSnappyBlock
	}
	return dst[:len(dst)+len(out)], nil
}

// checkSnappyElements walks the elements of a raw block. The library that decompresses it also knows S2, which gives
// copies with offset 0 a meaning that snappy does not: such a block no other client could read.
func checkSnappyElements(p []byte, size int64) error {
	var done int64
	for len(p) > 0 {
		tag := p[0]
		var length, offset, taken int64
		switch tag & 3 {
		case 0:
			length, taken = snappyLiteral(p)
		case 1:
			if len(p) < 2 {
				return errSnappyBlock
			}
			length, taken = int64(tag>>2&7)+4, 2
			offset = int64(tag>>5)<<8 | int64(p[1])
		case 2:
			if len(p) < 3 {
				return errSnappyBlock
			}
			length, taken = int64(tag>>2)+1, 3
			offset = int64(binary.LittleEndian.Uint16(p[1:]))
		default:
			if len(p) < 5 {
				return errSnappyBlock
			}
			length, taken = int64(tag>>2)+1, 5
			offset = int64(binary.LittleEndian.Uint32(p[1:]))
		}
		if taken == 0 || taken > int64(len(p)) || tag&3 != 0 && (offset == 0 || offset > done) {
			return errSnappyBlock
		}
		p = p[taken:]
		done += length
	}
	if done != size {
		return errSnappyBlock
	}
	return nil
}

// snappyLiteral returns how many bytes a literal yields and takes; it takes 0 when its length is cut off.
func snappyLiteral(p []byte) (length, taken int64) {
	extra := int64(p[0]>>2) - 59 // bytes of the length that follow the tag
	if extra <= 0 {
		length = int64(p[0]>>2) + 1
		return length, 1 + length
	}
	if int64(len(p)) < 1+extra {
		return 0, 0
	}
	for i := extra; i > 0; i-- {
		length = length<<8 | int64(p[i])
	}
	length++
	return length, 1 + extra + length
}

// appendSnappyBlock compresses p as one length and block of a stream.
func appendSnappyBlock(dst, p []byte) []byte {
	dst = room(dst, 4+s2.MaxEncodedLen(len(p)))
	at := len(dst)
	block := s2.EncodeSnappy(dst[at+4:cap(dst)], p)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
	return dst[:at+4+len(block)]
}
