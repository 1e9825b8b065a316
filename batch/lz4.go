package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pierrec/lz4/v4"
)

// LZ4 payloads are one frame. Unlike everything else in a batch it is little-endian.
//
//	 0             4     5    6              14
//	+-------------+-----+----+--------------+----+------+---------+-----+-------------+----------+
//	| magic       | FLG | BD | content size | HC | size | block   |     | end         | content  |
//	| 04 22 4d 18 |     |    | uint64, opt. |    | u32  |[u32 sum]| ... | 00 00 00 00 | sum, opt.|
//	+-------------+-----+----+--------------+----+------+---------+-----+-------------+----------+
//
//	FLG  7-6 version, 01 | 5 blocks are independent, must be 1 | 4 block checksums | 3 content size | 2 content checksum
//	     | 1-0 reserved, must be 0
//	BD   7 reserved, 0 | 6-4 the largest block: 4 is 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB | 3-0 reserved, 0
//	HC   the second byte of xxHash32 over FLG, BD and content size
//
// Bit 31 of a block's size says that the block is stored as it is, and means nothing in the end mark. Block checksums
// are verified; content size and content checksum are skipped, as Kafka does: the batch's own checksum covers them.
// Nothing may follow the frame. We write FLG 60, BD 40, HC 82 and store a block that compression does not shrink.
const (
	lz4Magic           = 0x184d2204
	lz4Version         = 0x40
	lz4Independent     = 0x20
	lz4BlockChecksum   = 0x10
	lz4ContentSize     = 0x08
	lz4ContentChecksum = 0x04
	lz4FlagsReserved   = 0x03
	lz4Stored          = 1 << 31
	lz4BlockSize       = 64 << 10

	// An LZ4 match takes a byte for every 255 bytes that it yields.
	lz4MaxRatio = 255
)

var (
	errLZ4Magic     = errors.New("the LZ4 frame has no magic number")
	errLZ4Flags     = errors.New("the LZ4 frame's descriptor is not one that Kafka allows")
	errLZ4Dependent = errors.New("the LZ4 frame's blocks depend on each other, which Kafka does not allow")
	errLZ4Header    = errors.New("the LZ4 frame's header checksum is wrong")
	errLZ4BlockSize = errors.New("an LZ4 block is larger than its frame allows")
	errLZ4BlockSum  = errors.New("an LZ4 block's checksum is wrong")
	errLZ4Block     = errors.New("an LZ4 block does not decompress")
	errLZ4Trailing  = errors.New("something follows the LZ4 frame")
)

type lz4Decoder struct {
	in       []byte
	flags    byte
	maxBlock int
}

func (d *lz4Decoder) reset(payload []byte) error {
	if len(payload) < 7 {
		return errTruncated
	}
	d.flags = payload[4]
	bd := payload[5]
	at := 6
	if d.flags&lz4ContentSize != 0 {
		at += 8
	}
	switch {
	case binary.LittleEndian.Uint32(payload) != lz4Magic:
		return errLZ4Magic
	case d.flags>>6 != lz4Version>>6 || d.flags&lz4FlagsReserved != 0 || bd&0x8f != 0 || bd>>4 < 4:
		return fmt.Errorf("%w: FLG %02x, BD %02x", errLZ4Flags, d.flags, bd)
	case d.flags&lz4Independent == 0:
		return errLZ4Dependent
	case len(payload) <= at:
		return errTruncated
	case payload[at] != byte(xxhash32(payload[4:at])>>8):
		return errLZ4Header
	}
	d.maxBlock = 1 << (8 + 2*(bd>>4))
	d.in = payload[at+1:]
	return nil
}

func (d *lz4Decoder) decode(dst []byte, _ int64) ([]byte, error) {
	for d.in != nil {
		block, stored, err := d.block()
		if err != nil {
			return nil, err
		}
		if block == nil {
			break
		}
		n := len(dst)
		if stored {
			dst = append(dst, block...)
		} else if dst, err = d.uncompress(dst, block); err != nil {
			return nil, err
		}
		if len(dst) > n {
			return dst, nil
		}
	}
	return nil, io.EOF
}

// uncompress appends a block's content to dst. It makes room for no more than the block can yield.
func (d *lz4Decoder) uncompress(dst, block []byte) ([]byte, error) {
	size := min(d.maxBlock, lz4MaxRatio*len(block))
	dst = room(dst, size)
	n, err := lz4.UncompressBlock(block, dst[len(dst):len(dst)+size])
	if err != nil {
		return nil, errLZ4Block
	}
	return dst[:len(dst)+n], nil
}

// block takes the next block off the input, nil at the end mark.
func (d *lz4Decoder) block() (block []byte, stored bool, err error) {
	if len(d.in) < 4 {
		return nil, false, errTruncated
	}
	word := binary.LittleEndian.Uint32(d.in)
	d.in = d.in[4:]
	size := int64(word &^ lz4Stored)
	if size == 0 {
		return nil, false, d.end()
	}
	if size > int64(d.maxBlock) {
		return nil, false, errLZ4BlockSize
	}
	block, err = d.take(size)
	if err == nil && d.flags&lz4BlockChecksum != 0 {
		var sum []byte
		if sum, err = d.take(4); err == nil && binary.LittleEndian.Uint32(sum) != xxhash32(block) {
			err = errLZ4BlockSum
		}
	}
	return block, word&lz4Stored != 0, err
}

// end skips what follows the end mark.
func (d *lz4Decoder) end() error {
	if d.flags&lz4ContentChecksum != 0 {
		if _, err := d.take(4); err != nil {
			return err
		}
	}
	if len(d.in) > 0 {
		return errLZ4Trailing
	}
	d.in = nil
	return nil
}

func (d *lz4Decoder) take(n int64) ([]byte, error) {
	if int64(len(d.in)) < n {
		return nil, errTruncated
	}
	p := d.in[:n]
	d.in = d.in[n:]
	return p, nil
}

func (d *lz4Decoder) release() bool {
	d.in = nil
	return true
}

// appendLZ4Header begins the frame that we write.
func appendLZ4Header(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	return append(dst, lz4Version|lz4Independent, 4<<4, 0x82)
}

// appendLZ4Block compresses p, or stores it when that does not make it shorter.
func appendLZ4Block(dst, p []byte, compress func(src, dst []byte) (int, error)) ([]byte, error) {
	dst = room(dst, 4+lz4.CompressBlockBound(len(p)))
	at := len(dst)
	n, err := compress(p, dst[at+4:cap(dst)])
	if err != nil {
		return dst, err
	}
	if n == 0 || n >= len(p) {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p))|lz4Stored)
		return append(dst, p...), nil
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	return dst[:at+4+n], nil
}
