package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
		return 0, &fs.PathError{Op: "pwritev", Path: f.f.Name(), Err: errors.New("negative offset")}
	}
	var written int64
	err := f.control("pwritev", func(fd int) error {
		var err error
		written, err = writeVectors(bufs, off, func(iovs [][]byte, off int64) (int, error) {
			return unix.Pwritev(fd, iovs, off)
		})
		return err
	})
	return written, err
}

// writeVectors drives write, which may take only a part of what it is given, until all of bufs is written. The window
// of buffers handed to write is its own, so that the caller's slice stays as it is.
func writeVectors(bufs [][]byte, off int64, write func(iovs [][]byte, off int64) (int, error)) (int64, error) {
	var (
		written int64
		done    int // bytes of bufs[0] and what follows it that are written
		window  = make([][]byte, 0, min(len(bufs), maxVectors))
	)
	for {
		for len(bufs) > 0 && done >= len(bufs[0]) {
			done -= len(bufs[0])
			bufs = bufs[1:]
		}
		if len(bufs) == 0 {
			return written, nil
		}
		window = append(window[:0], bufs[:min(len(bufs), maxVectors)]...)
		window[0] = window[0][done:]
		n, err := write(window, off+written)
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
	var sent int64
	var sendErr, waitErr error
	err := f.control("sendfile", func(fd int) error {
		waitErr = conn.Write(func(sock uintptr) (done bool) {
			var m int64
			m, done, sendErr = sendUntilBlocked(int(sock), fd, off+sent, n-sent)
			sent += m
			return done
		})
		return nil
	})
	switch {
	case err != nil:
		return sent, err
	case waitErr != nil: // the deadline has passed or the connection is closed
		return sent, waitErr
	case sendErr == nil:
		return sent, nil
	case isFileFault(sendErr):
		return sent, &fs.PathError{Op: "sendfile", Path: f.f.Name(), Err: sendErr}
	case sendErr == syscall.EINVAL && sent == 0:
		return 0, fmt.Errorf("sendfile: %w (%w)", errors.ErrUnsupported, sendErr)
	}
	return sent, os.NewSyscallError("sendfile", sendErr)
}

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

// isFileFault tells an error of the file that sendfile reads from those of the socket that it writes to.
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
