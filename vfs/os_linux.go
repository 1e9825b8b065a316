package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxVectors is the kernel's IOV_MAX: the most buffers that one pwritev takes.
	maxVectors = 1024
	// maxSend bounds one sendfile call, so that one fast reader does not hold a thread in the kernel for long.
	maxSend = 4 << 20
)

// Preallocate reserves blocks without changing the length. A file system that cannot do it answers with an error that
// matches [errors.ErrUnsupported].
func (f *osFile) Preallocate(off, n int64) error {
	if n == 0 {
		return nil
	}
	return f.control("fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}

// WriteBack starts the writing of dirty pages and waits only if the device's queue is full.
func (f *osFile) WriteBack(off, n int64) error {
	if n == 0 {
		return nil // to the kernel it would mean all the rest
	}
	return f.control("sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}

// sync flushes the bytes and the length, and spares the journal a write when only times have changed.
func (f *osFile) sync() error { return f.control("fdatasync", unix.Fdatasync) }

// WriteVectorAt writes the buffers with as few pwritev calls as the kernel allows.
func (f *osFile) WriteVectorAt(bufs [][]byte, off int64) (int64, error) {
	if off < 0 {
		return 0, &fs.PathError{Op: "pwritev", Path: f.f.Name(), Err: fs.ErrInvalid}
	}
	c := vectorCalls.Get().(*vectorCall)
	c.bufs, c.off = bufs, off
	controlErr := f.raw.Control(c.onFile)
	written, err := c.written, f.controlError("pwritev", controlErr, c.err)
	c.bufs, c.written, c.err = nil, 0, nil
	vectorCalls.Put(c)
	return written, err
}

// vectorCall is a vectored write while it runs. It is kept for the next one, so that the append path does not allocate.
type vectorCall struct {
	bufs    [][]byte
	off     int64
	written int64
	err     error
	window  [][]byte
	onFile  func(fd uintptr)
}

var vectorCalls = sync.Pool{New: func() any {
	c := &vectorCall{}
	c.onFile = func(fd uintptr) {
		c.written, c.err = c.writeAll(func(iovs [][]byte, off int64) (int, error) {
			return unix.Pwritev(int(fd), iovs, off)
		})
	}
	return c
}}

// writeAll drives write, which may take only a part of what it is given, until all of the buffers are written. The
// window of buffers handed to write is its own, so that the caller's slice stays as it is.
func (c *vectorCall) writeAll(write func(iovs [][]byte, off int64) (int, error)) (written int64, err error) {
	defer func() { clear(c.window) }()
	bufs, done := c.bufs, 0 // done is how much of bufs[0] and what follows it is written
	for {
		for len(bufs) > 0 && done >= len(bufs[0]) {
			done -= len(bufs[0])
			bufs = bufs[1:]
		}
		if len(bufs) == 0 {
			return written, nil
		}
		c.window = append(c.window[:0], bufs[:min(len(bufs), maxVectors)]...)
		c.window[0] = c.window[0][done:]
		n, err := write(c.window, c.off+written)
		if n > 0 {
			written += int64(n)
			done += n
		}
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return written, err
		case n <= 0:
			return written, io.ErrShortWrite
		}
	}
}

// SendTo sends with sendfile and an offset of its own. It waits for the socket in the runtime's poller, so it honours
// the connection's write deadline.
//
// A fault of the file, a short one included, is an [*fs.PathError]; every other error is the connection's. A socket or
// file system that cannot do it answers with an error that matches [errors.ErrUnsupported], before any byte is sent.
func (f *osFile) SendTo(conn syscall.RawConn, off, n int64) (int64, error) {
	if off < 0 || n < 0 {
		return 0, &fs.PathError{Op: "sendfile", Path: f.f.Name(), Err: fs.ErrInvalid}
	}
	c := sendCalls.Get().(*sendCall)
	c.conn, c.off, c.n = conn, off, n
	controlErr := f.raw.Control(c.onFile)
	sent, waitErr, sendErr := c.sent, c.waitErr, c.sendErr
	c.conn, c.sent, c.waitErr, c.sendErr = nil, 0, nil, nil
	sendCalls.Put(c)
	switch {
	case controlErr != nil:
		return sent, f.controlError("sendfile", controlErr, nil)
	case waitErr != nil: // the deadline has passed or the connection is closed
		return sent, waitErr
	case sendErr == nil:
		return sent, nil
	case isFileFault(sendErr):
		return sent, f.controlError("sendfile", nil, sendErr)
	case sendErr == syscall.EINVAL && sent == 0:
		return 0, fmt.Errorf("sendfile: %w (%w)", errors.ErrUnsupported, sendErr)
	}
	return sent, os.NewSyscallError("sendfile", sendErr)
}

// sendCall is a sending while it runs. It is kept for the next one, as a vectorCall is.
type sendCall struct {
	conn     syscall.RawConn
	off, n   int64
	sent     int64
	waitErr  error // of the connection: closed, or too late
	sendErr  error // of sendfile
	file     int
	onFile   func(fd uintptr)
	onSocket func(sock uintptr) (done bool)
}

var sendCalls = sync.Pool{New: func() any {
	c := &sendCall{}
	c.onFile = func(fd uintptr) {
		c.file = int(fd)
		c.waitErr = c.conn.Write(c.onSocket)
	}
	c.onSocket = func(sock uintptr) bool {
		m, done, err := sendUntilBlocked(int(sock), c.file, c.off+c.sent, c.n-c.sent)
		c.sent += m
		c.sendErr = err
		return done
	}
	return c
}}

// sendUntilBlocked sends until n bytes have gone, the socket takes no more (done is false), or an error.
func sendUntilBlocked(sock, fd int, off, n int64) (sent int64, done bool, err error) {
	for sent < n {
		at := off + sent
		m, err := unix.Sendfile(sock, fd, &at, int(min(n-sent, maxSend)))
		if m > 0 {
			sent += int64(m)
		}
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return sent, false, nil
		case err != nil:
			return sent, true, err
		case m == 0:
			return sent, true, io.ErrUnexpectedEOF
		}
	}
	return sent, true, nil
}

// isFileFault distinguishes an error of the file that sendfile reads from those of the socket that it writes to.
func isFileFault(err error) bool {
	switch err {
	case io.ErrUnexpectedEOF, syscall.EIO, syscall.EBADMSG, syscall.EUCLEAN, syscall.ESTALE, syscall.EOVERFLOW:
		return true
	}
	return false
}

// Space counts what an unprivileged process may use as free.
func (osFS) Space(name string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(name, &st) }); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return int64(st.Bavail) * st.Frsize, int64(st.Blocks) * st.Frsize, nil
}

// syncDir accepts a file system that knows no fsync of a directory (EINVAL): there its names are as durable as it makes
// them.
func syncDir(name string) error {
	d, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
