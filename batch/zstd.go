package batch

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Zstd payloads are one or more frames of RFC 8878, without a dictionary. Integers are little-endian.
//
//	frame                                                                block
//	+----------+---------+------------+------+--------+---...-+-----+   +-----------------------+---------...--+
//	| magic    | descrip-| window     | dict | content| blocks| sum |   | size 21 | type 2 |last| data         |
//	| fd2fb528 | tor     | descriptor | id   | size   |       |     |   |    3 bytes            |              |
//	| u32      | u8      | u8, opt.   | opt. | opt.   |       | opt.|   +-----------------------+---------...--+
//	+----------+---------+------------+------+--------+---...-+-----+
//
//	descriptor  7-6 bytes of content size: 0, 2, 4, 8, and 0 means 1 with bit 5 | 5 single segment: no window descriptor
//	            | 2 a checksum of 4 bytes follows | 1-0 bytes of dictionary id: 0, 1, 2, 4
//	type        0 size bytes as they are, 1 one byte that is repeated size times, 2 size bytes compressed
//
// A frame declares the window that its reader must keep, and high compression levels declare 128 MiB for a batch of a
// few KiB. The declaration costs the writer nothing, so it is believed only as far as the blocks can fill it: no block
// yields more than 128 KiB. A smaller window is passed on to the library in its place. That is safe because no match can
// reach further back than the content goes.
const (
	zstdMagic         = 0xfd2fb528
	zstdSkippable     = 0x184d2a50 // and the next fifteen
	zstdMaxHeader     = 18
	zstdMaxBlock      = 128 << 10
	zstdMinWindow     = 1 << 10
	zstdMaxWindow     = 128 << 20 // what a reader of Kafka's accepts
	zstdPooledWindow  = 8 << 20
	zstdSingleSegment = 1 << 5
	zstdReservedBit   = 1 << 3
	zstdChecksum      = 1 << 2
)

var (
	errZstdFrame  = errors.New("a zstd frame is broken")
	errZstdWindow = errors.New("a zstd frame needs a window of more than 128 MiB")
)

type zstdDecoder struct {
	z  *zstd.Decoder
	in zstdFrames
}

func newZstdDecoder() (*zstdDecoder, error) {
	// Concurrency 1 decodes in the caller's goroutine. Buffers "below 0" turns off decoding a payload whole.
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		return nil, err
	}
	return &zstdDecoder{z: z}, nil
}

func (d *zstdDecoder) reset(payload []byte) error {
	d.in = zstdFrames{in: payload}
	return d.z.Reset(&d.in)
}

func (d *zstdDecoder) decode(dst []byte, _ int64) ([]byte, error) {
	dst, err := readMore(d.z, dst)
	if err != nil && d.in.err != nil {
		return nil, d.in.err
	}
	return dst, err
}

func (d *zstdDecoder) release() bool {
	keep := d.in.window <= zstdPooledWindow
	d.in = zstdFrames{}
	return d.z.Reset(nil) == nil && keep
}

// zstdFrames is a payload as the library gets to see it: frame by frame, each checked to be whole, with its window
// descriptor lowered to what the frame can fill.
type zstdFrames struct {
	in     []byte              // not given out yet
	head   [zstdMaxHeader]byte // the current frame's header, with its window lowered
	headN  int                 // bytes of head not given out yet
	headAt int
	left   int    // bytes of in that belong to the current frame
	window uint64 // the largest so far
	err    error
}

func (f *zstdFrames) Read(p []byte) (int, error) {
	if f.headN == 0 && f.left == 0 {
		if len(f.in) == 0 {
			return 0, io.EOF
		}
		if f.err = f.next(); f.err != nil {
			return 0, f.err
		}
	}
	if f.headN > 0 {
		n := copy(p, f.head[f.headAt:f.headAt+f.headN])
		f.headAt, f.headN = f.headAt+n, f.headN-n
		return n, nil
	}
	n := copy(p, f.in[:f.left])
	f.in, f.left = f.in[n:], f.left-n
	return n, nil
}

// next makes the frame at the start of the input the current one.
func (f *zstdFrames) next() error {
	if len(f.in) < 5 {
		return errTruncated
	}
	magic := binary.LittleEndian.Uint32(f.in)
	if magic&^15 == zstdSkippable {
		return f.skippable()
	}
	if magic != zstdMagic {
		return errZstdFrame
	}
	h, err := parseZstdHeader(f.in)
	if err != nil {
		return err
	}
	size, content, err := measureZstdBlocks(f.in[h.size:], h.checksum)
	if err != nil {
		return err
	}
	f.headN, f.headAt = copy(f.head[:], f.in[:h.size]), 0
	window := h.window
	switch {
	case window <= max(content, zstdMinWindow):
	case h.singleSegment: // the window is the content size
		return errZstdFrame
	default:
		f.head[5], window = zstdWindowDescriptor(max(content, zstdMinWindow))
	}
	if window > zstdMaxWindow {
		return errZstdWindow
	}
	f.window = max(f.window, window)
	f.in, f.left = f.in[h.size:], size
	return nil
}

func (f *zstdFrames) skippable() error {
	if len(f.in) < 8 {
		return errTruncated
	}
	size := 8 + int64(binary.LittleEndian.Uint32(f.in[4:]))
	if size > int64(len(f.in)) {
		return errTruncated
	}
	f.left = int(size)
	return nil
}

type zstdHeader struct {
	size          int
	window        uint64
	singleSegment bool
	checksum      bool
}

func parseZstdHeader(p []byte) (zstdHeader, error) {
	descriptor := p[4]
	h := zstdHeader{
		size:          5,
		singleSegment: descriptor&zstdSingleSegment != 0,
		checksum:      descriptor&zstdChecksum != 0,
	}
	if descriptor&zstdReservedBit != 0 {
		return h, errZstdFrame
	}
	windowAt := h.size
	if !h.singleSegment {
		h.size++
	}
	h.size += [4]int{0, 1, 2, 4}[descriptor&3]
	contentAt := h.size
	h.size += [4]int{0, 2, 4, 8}[descriptor>>6]
	if h.singleSegment && descriptor>>6 == 0 {
		h.size++
	}
	if len(p) < h.size {
		return h, errTruncated
	}
	if h.singleSegment {
		h.window = zstdContentSize(p[contentAt:h.size])
	} else {
		base := uint64(1) << (10 + p[windowAt]>>3)
		h.window = base + base/8*uint64(p[windowAt]&7)
	}
	return h, nil
}

func zstdContentSize(p []byte) uint64 {
	switch len(p) {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(p)) + 256
	case 4:
		return uint64(binary.LittleEndian.Uint32(p))
	}
	return binary.LittleEndian.Uint64(p)
}

// measureZstdBlocks returns how many bytes the blocks at the start of p take, with the checksum after them, and the most
// that they can yield.
func measureZstdBlocks(p []byte, checksum bool) (size int, content uint64, err error) {
	for last := false; !last; {
		if len(p)-size < 3 {
			return 0, 0, errTruncated
		}
		word := uint32(p[size]) | uint32(p[size+1])<<8 | uint32(p[size+2])<<16
		last = word&1 != 0
		taken, yields := int(word>>3), uint64(word>>3)
		switch word >> 1 & 3 {
		case 1:
			taken = 1
		case 2:
			yields = zstdMaxBlock
		case 3:
			return 0, 0, errZstdFrame
		}
		if word>>3 > zstdMaxBlock {
			return 0, 0, errZstdFrame
		}
		size += 3 + taken
		content += yields
		if size > len(p) {
			return 0, 0, errTruncated
		}
	}
	if checksum {
		size += 4
	}
	if size > len(p) {
		return 0, 0, errTruncated
	}
	return size, content, nil
}

// zstdWindowDescriptor returns the descriptor of the least window of a power of two that is no smaller, and that window.
func zstdWindowDescriptor(window uint64) (byte, uint64) {
	log := byte(10)
	for uint64(1)<<log < window {
		log++
	}
	return (log - 10) << 3, uint64(1) << log
}
