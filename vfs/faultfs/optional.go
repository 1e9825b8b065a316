package faultfs

import (
	"syscall"

	"github.com/tidemark-io/tidemark/vfs"
)

// The optional interfaces of a file, each in a part of its own.
type (
	preallocator struct {
		file *file
		base vfs.Preallocator
	}
	vectorWriter struct {
		file *file
		base vfs.VectorWriter
	}
	socketSender struct {
		file *file
		base vfs.SocketSender
	}
	writeBacker struct {
		file *file
		base vfs.WriteBacker
	}
)

func (p preallocator) Preallocate(off, n int64) error {
	return p.file.fs.do(p.file.op(OpPreallocate, off, n), func() error { return p.base.Preallocate(off, n) })
}

func (w vectorWriter) WriteVectorAt(bufs [][]byte, off int64) (int64, error) {
	total := int64(0)
	for _, b := range bufs {
		total += int64(len(b))
	}
	return w.file.fs.transfer(w.file.op(OpWriteVectorAt, off, total), func(n int64) (int64, error) {
		return w.base.WriteVectorAt(front(bufs, n), off)
	})
}

// front returns the first n bytes of bufs, in a slice of its own.
func front(bufs [][]byte, n int64) [][]byte {
	var part [][]byte
	for _, b := range bufs {
		b = b[:min(int64(len(b)), n)]
		n -= int64(len(b))
		part = append(part, b)
	}
	return part
}

func (s socketSender) SendTo(conn syscall.RawConn, off, n int64) (int64, error) {
	return s.file.fs.transfer(s.file.op(OpSendTo, off, n), func(n int64) (int64, error) {
		return s.base.SendTo(conn, off, n)
	})
}

func (w writeBacker) WriteBack(off, n int64) error {
	return w.file.fs.do(w.file.op(OpWriteBack, off, n), func() error { return w.base.WriteBack(off, n) })
}

// withOptional gives a file those optional interfaces that its base has. A type has its methods or has them not, so
// there is one for each combination.
func withOptional(f *file) vfs.File {
	var have int
	pb, ok := f.base.(vfs.Preallocator)
	if ok {
		have |= 1
	}
	vb, ok := f.base.(vfs.VectorWriter)
	if ok {
		have |= 2
	}
	sb, ok := f.base.(vfs.SocketSender)
	if ok {
		have |= 4
	}
	wb, ok := f.base.(vfs.WriteBacker)
	if ok {
		have |= 8
	}
	p, v, s, w := preallocator{f, pb}, vectorWriter{f, vb}, socketSender{f, sb}, writeBacker{f, wb}
	switch have {
	case 1:
		return struct {
			*file
			preallocator
		}{f, p}
	case 2:
		return struct {
			*file
			vectorWriter
		}{f, v}
	case 1 | 2:
		return struct {
			*file
			preallocator
			vectorWriter
		}{f, p, v}
	case 4:
		return struct {
			*file
			socketSender
		}{f, s}
	case 1 | 4:
		return struct {
			*file
			preallocator
			socketSender
		}{f, p, s}
	case 2 | 4:
		return struct {
			*file
			vectorWriter
			socketSender
		}{f, v, s}
	case 1 | 2 | 4:
		return struct {
			*file
			preallocator
			vectorWriter
			socketSender
		}{f, p, v, s}
	case 8:
		return struct {
			*file
			writeBacker
		}{f, w}
	case 1 | 8:
		return struct {
			*file
			preallocator
			writeBacker
		}{f, p, w}
	case 2 | 8:
		return struct {
			*file
			vectorWriter
			writeBacker
		}{f, v, w}
	case 1 | 2 | 8:
		return struct {
			*file
			preallocator
			vectorWriter
			writeBacker
		}{f, p, v, w}
	case 4 | 8:
		return struct {
			*file
			socketSender
			writeBacker
		}{f, s, w}
	case 1 | 4 | 8:
		return struct {
			*file
			preallocator
			socketSender
			writeBacker
		}{f, p, s, w}
	case 2 | 4 | 8:
		return struct {
			*file
			vectorWriter
			socketSender
			writeBacker
		}{f, v, s, w}
	case 1 | 2 | 4 | 8:
		return struct {
			*file
			preallocator
			vectorWriter
			socketSender
			writeBacker
		}{f, p, v, s, w}
	}
	return f
}
