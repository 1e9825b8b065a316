package kafkalog

import (
	"errors"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"

	"github.com/tidemark-io/tidemark/internal/poison"
	"github.com/tidemark-io/tidemark/vfs"
)

// Regions is the result of a read without copying: ranges of segment files, in order. It keeps the files open until
// [Regions.Release], also after the log dropped them. The ranges put together are the bytes that [Log.ReadRaw] returns
// for the same arguments at the same moment. A nil Regions is an empty one.
//
// The methods may be called from one goroutine at a time, Release from any.
type Regions struct {
	// StartOffset is the base offset of the first batch, which may lie below or above the offset asked for, or that
	// offset if there is no batch.
	StartOffset int64
	// LastOffset is the last offset of the last batch, StartOffset-1 if there is none.
	LastOffset int64

	plan     *ReadPlan // holds the files
	parts    []region
	space    [2]region // for parts, mostly enough
	length   int64
	released atomic.Bool
}

// region is [from, from+length) of a segment file.
type region struct {
	reader segmentReader
	from   int64
	length int64
}

// copySize is the size of the buffer for writers that cannot take a file range.
const copySize = 64 << 10

type copyBuffer [copySize]byte

// add appends a range of a file that the plan holds.
func (r *Regions) add(from segmentReader, start, end int64) {
	r.parts = append(r.parts, region{reader: from, from: start, length: end - start})
	r.length += end - start
}

// Len returns the number of bytes.
func (r *Regions) Len() int64 {
	if r == nil {
		return 0
	}
	return r.length
}

// WriteTo writes all bytes to w. If w is a connection that offers its descriptor (syscall.Conn) and the file system can
// send from a file to a socket, nothing is copied; otherwise the bytes go through a buffer. It blocks on the device and
// on w, under w's own deadlines. The error is w's, [ErrTruncated], or of class [ErrStorage]; the number says how many
// bytes were written before it.
func (r *Regions) WriteTo(w io.Writer) (int64, error) {
	if r == nil {
		return 0, nil
	}
	if r.released.Load() {
		return 0, ErrClosed
	}
	var conn syscall.RawConn
	if c, ok := w.(syscall.Conn); ok {
		conn, _ = c.SyscallConn()
	}
	var written int64
	for i := range r.parts {
		n, err := r.parts[i].writeTo(w, conn)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// AppendTo appends all bytes to dst, which it grows if needed. It blocks on the device. On an error dst is returned as
// it was; the error is [ErrTruncated] or of class [ErrStorage].
func (r *Regions) AppendTo(dst []byte) ([]byte, error) {
	if r == nil {
		return dst, nil
	}
	if r.released.Load() {
		return dst, ErrClosed
	}
	start := len(dst)
	out := dst
	if need := start + int(r.length); need > cap(out) {
		out = append(make([]byte, 0, need), dst...)
	}
	for i := range r.parts {
		part := &r.parts[i]
		at := len(out)
		out = out[:at+int(part.length)]
		if err := part.reader.readAt(out[at:], part.from); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// Release releases the files. It may be called more than once.
func (r *Regions) Release() {
	if r == nil || r.released.Swap(true) {
		return
	}
	r.plan.drop()
}

func (p *region) writeTo(w io.Writer, conn syscall.RawConn) (int64, error) {
	var sent int64
	if sender, ok := p.reader.file.(vfs.SocketSender); ok && conn != nil {
		if p.reader.cut(p.from + p.length) {
			return 0, ErrTruncated
		}
		n, err := sender.SendTo(conn, p.from, p.length)
		sent = n
		if err == nil || !errors.Is(err, errors.ErrUnsupported) {
			return sent, p.sendError(sent, err)
		}
	}
	n, err := p.copyTo(w, sent)
	return sent + n, err
}

// sendError distinguishes a file that became shorter, or that the device cannot read, from an error of the connection.
func (p *region) sendError(sent int64, err error) error {
	var ofFile *fs.PathError
	if errors.Is(err, io.ErrUnexpectedEOF) {
		if p.reader.cut(p.from + p.length) {
			return ErrTruncated
		}
		return p.reader.corrupt(p.from, "the file is shorter than the log", "", "")
	}
	if errors.As(err, &ofFile) {
		return p.reader.failed(p.from+sent, err)
	}
	return err
}

// copyTo writes the range but for its first skip bytes through a buffer. Each piece is checked before it is written, so
// that bytes which replaced those of the range are never sent.
func (p *region) copyTo(w io.Writer, skip int64) (int64, error) {
	pool := &p.reader.segment.env.copies
	buf := pool.Get().(*copyBuffer)
	defer func() {
		poison.Fill(buf[:])
		pool.Put(buf)
	}()
	var written int64
	for skip+written < p.length {
		piece := buf[:min(copySize, p.length-skip-written)]
		if err := p.reader.readAt(piece, p.from+skip+written); err != nil {
			return written, err
		}
		n, err := w.Write(piece)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
