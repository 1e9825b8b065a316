package batch

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// encoder compresses the records of one batch as they come, so that a builder holds little more than the compressed
// bytes.
type encoder interface {
	// write appends some of p, compressed, to dst and returns what is left of p for the next call.
	write(dst, p []byte) (out, left []byte, err error)

	// finish compresses the last of p, ends the payload, and releases the encoder.
	finish(dst, p []byte) ([]byte, error)

	// enough is the number of pending bytes from which write should be called.
	enough() int
}

// LevelError says that a codec has no such compression level.
type LevelError struct {
	Codec Codec
	Level int
}

func (e *LevelError) Error() string {
	return fmt.Sprintf("batch: %v has no compression level %d", e.Codec, e.Level)
}

// newEncoder returns an encoder, nil for no compression.
func newEncoder(codec Codec, level int) (encoder, error) {
	if err := CheckLevel(codec, level); err != nil {
		return nil, err
	}
	switch codec {
	case Gzip:
		return newGzipEncoder(level)
	case Snappy:
		return new(snappyEncoder), nil
	case LZ4:
		return newLZ4Encoder(level), nil
	case Zstd:
		return newZstdEncoder(level)
	}
	return nil, nil
}

// CheckLevel reports whether a codec has a compression level: 0, the default, always; gzip -1 and 1 to 9, lz4 1 to 17,
// zstd -131072 to 22, which are Kafka's ranges of the settings compression.*.level. Errors are [*LevelError] and
// [*UnknownCodecError].
func CheckLevel(codec Codec, level int) error {
	ok := level == 0
	switch codec {
	case None, Snappy:
	case Gzip:
		ok = ok || level == gzip.DefaultCompression || level >= gzip.BestSpeed && level <= gzip.BestCompression
	case LZ4:
		ok = ok || level >= 1 && level <= 17
	case Zstd:
		ok = ok || level >= -131072 && level <= 22
	default:
		return &UnknownCodecError{ID: codec}
	}
	if !ok {
		return &LevelError{Codec: codec, Level: level}
	}
	return nil
}

// appendWriter is an io.Writer that appends.
type appendWriter struct{ b []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

type gzipEncoder struct {
	level int
	out   appendWriter
	z     *gzip.Writer
}

// idleGzip holds idle gzip encoders by level, from the default, -1, to 9. Like all pools here it is invisible: an
// encoder in it has no input and no output.
var idleGzip [gzip.BestCompression + 2]sync.Pool

func newGzipEncoder(level int) (encoder, error) {
	if level == 0 {
		level = gzip.DefaultCompression
	}
	e, ok := idleGzip[level+1].Get().(*gzipEncoder)
	if !ok {
		e = &gzipEncoder{level: level}
		var err error
		if e.z, err = gzip.NewWriterLevel(&e.out, level); err != nil {
			return nil, err
		}
	}
	e.z.Reset(&e.out)
	return e, nil
}

func (e *gzipEncoder) enough() int { return readChunk }

func (e *gzipEncoder) write(dst, p []byte) (out, left []byte, err error) {
	e.out.b = dst
	_, err = e.z.Write(p)
	out, e.out.b = e.out.b, nil
	return out, nil, err
}

func (e *gzipEncoder) finish(dst, p []byte) ([]byte, error) {
	dst, _, err := e.write(dst, p)
	if err != nil {
		return nil, err
	}
	e.out.b = dst
	err = e.z.Close()
	dst, e.out.b = e.out.b, nil
	idleGzip[e.level+1].Put(e)
	return dst, err
}

type zstdEncoder struct {
	speed     zstd.EncoderLevel
	streaming bool
	out       appendWriter
	z         *zstd.Encoder
}

// zstdWhole is the largest number of bytes that are compressed at once, as a frame with a content size. Longer records
// become one frame without it. It is also the window of the latter.
const zstdWhole = 1 << 20

// idleZstd holds idle zstd encoders by the library's speed.
var idleZstd [zstd.SpeedBestCompression + 1]sync.Pool

func newZstdEncoder(level int) (encoder, error) {
	if level == 0 {
		level = 3
	}
	speed := zstd.EncoderLevelFromZstd(level)
	if e, ok := idleZstd[speed].Get().(*zstdEncoder); ok {
		return e, nil
	}
	// Concurrency 1 encodes in the caller's goroutine. The batch has a checksum of its own.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(speed),
		zstd.WithWindowSize(zstdWhole), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	return &zstdEncoder{speed: speed, z: z}, nil
}

func (e *zstdEncoder) enough() int { return zstdWhole }

func (e *zstdEncoder) write(dst, p []byte) (out, left []byte, err error) {
	if !e.streaming {
		e.streaming = true
		e.z.Reset(&e.out)
	}
	e.out.b = dst
	_, err = e.z.Write(p)
	out, e.out.b = e.out.b, nil
	return out, nil, err
}

func (e *zstdEncoder) finish(dst, p []byte) ([]byte, error) {
	if !e.streaming {
		dst = e.z.EncodeAll(p, dst)
		idleZstd[e.speed].Put(e)
		return dst, nil
	}
	dst, _, err := e.write(dst, p)
	if err != nil {
		return nil, err
	}
	e.out.b = dst
	err = e.z.Close()
	dst, e.out.b = e.out.b, nil
	e.streaming = false
	e.z.Reset(nil)
	idleZstd[e.speed].Put(e)
	return dst, err
}

// snappyEncoder writes the xerial stream of snappy.go.
type snappyEncoder struct{ begun bool }

func (e *snappyEncoder) enough() int { return snappyBlockSize }

func (e *snappyEncoder) write(dst, p []byte) (out, left []byte, err error) {
	dst = e.begin(dst)
	for len(p) >= snappyBlockSize {
		dst = appendSnappyBlock(dst, p[:snappyBlockSize])
		p = p[snappyBlockSize:]
	}
	return dst, p, nil
}

func (e *snappyEncoder) finish(dst, p []byte) ([]byte, error) {
	dst, p, err := e.write(dst, p)
	if len(p) > 0 {
		dst = appendSnappyBlock(dst, p)
	}
	return dst, err
}

func (e *snappyEncoder) begin(dst []byte) []byte {
	if e.begun {
		return dst
	}
	e.begun = true
	dst = append(dst, snappyMagic...)
	dst = binary.BigEndian.AppendUint32(dst, snappyVersion)
	return binary.BigEndian.AppendUint32(dst, snappyVersion)
}

// lz4Encoder writes the frame of lz4.go.
type lz4Encoder struct {
	begun    bool
	hc       bool
	compress interface {
		CompressBlock(src, dst []byte) (int, error)
	}
}

// idleLZ4 and idleLZ4HC hold idle LZ4 compressors; the level of the latter is set when it is taken.
var (
	idleLZ4   = sync.Pool{New: func() any { return new(lz4.Compressor) }}
	idleLZ4HC = sync.Pool{New: func() any { return new(lz4.CompressorHC) }}
)

// lz4FastLevel is the level that Kafka's library uses for its fast compressor; every other is high compression, which
// doubles its searches from level to level.
const lz4FastLevel = 9

func newLZ4Encoder(level int) encoder {
	if level == 0 || level == lz4FastLevel {
		return &lz4Encoder{compress: idleLZ4.Get().(*lz4.Compressor)}
	}
	c := idleLZ4HC.Get().(*lz4.CompressorHC)
	c.Level = lz4.CompressionLevel(1) << (level - 1)
	return &lz4Encoder{compress: c, hc: true}
}

func (e *lz4Encoder) enough() int { return lz4BlockSize }

func (e *lz4Encoder) write(dst, p []byte) (out, left []byte, err error) {
	if !e.begun {
		e.begun = true
		dst = appendLZ4Header(dst)
	}
	for len(p) >= lz4BlockSize && err == nil {
		dst, err = appendLZ4Block(dst, p[:lz4BlockSize], e.compress.CompressBlock)
		p = p[lz4BlockSize:]
	}
	return dst, p, err
}

func (e *lz4Encoder) finish(dst, p []byte) ([]byte, error) {
	dst, p, err := e.write(dst, p)
	if err == nil && len(p) > 0 {
		dst, err = appendLZ4Block(dst, p, e.compress.CompressBlock)
	}
	if e.hc {
		idleLZ4HC.Put(e.compress)
	} else {
		idleLZ4.Put(e.compress)
	}
	return append(dst, 0, 0, 0, 0), err
}
