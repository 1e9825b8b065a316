// Package dir implements an object store in a directory. It is as durable as the disk below it: a put is on the disk,
// file and directory, before it returns, and put-if-absent holds across processes that share the directory.
//
// An object is a plain file whose path below the directory is its key, so that the tools of the machine can look at the
// store. What is not an object begins with a dot, which no key does:
//
//	<dir>/wal/12/0                 object "wal/12/0"
//	<dir>/wal/12/.durable          the directory's own name is known to be on the disk
//	<dir>/wal/12/.pin-0-NONCE-7    somebody is about to make .durable
//	<dir>/.puts/0/                 objects that the process in slot 0 is writing
//	<dir>/.puts/0.lock             held by that process
//
// # How a put works
//
// The bytes are written and synced in the process's own slot, then given their name by one rename (put) or link
// (put-if-absent: it fails when the name is taken), then the directory is synced. Until the rename or link nothing is
// visible; a process that dies before that leaves a file in its slot, which is removed by the next process to take the
// slot, or to open the store while the slot is free.
//
// The directory of a new object may itself be new, or be removed by another process whose delete emptied it. So after
// the name was given, the put looks for the file .durable beside it. It is made only after all directories on the way
// have been synced, and taken away before an empty directory is removed; and a directory that holds an object or a pin
// cannot be removed. If it is there, the way to the object is on the disk. If not, the put syncs the way and makes it.
//
// A failed directory sync is final: the kernel may have dropped what could not be written and will not report it
// again. From then on the store changes nothing, and its errors are of no class. A failed write or file sync
// affects one put only: the file is discarded, and a later attempt writes another one.
//
// Objects carry no checksum: a bit that flips on the disk is found by the checksums inside the objects, if it is found.
package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/vfs"
)

const (
	putsDir    = ".puts"
	lockSuffix = ".lock"
	markerName = ".durable"
)

// Store is a directory: an [objstore.Store]. Any number of Stores, in any number of processes of one machine, may share
// the directory.
type Store struct {
	fs   vfs.FS
	root string
	slot string // the directory of unfinished objects
	lock io.Closer
	next atomic.Uint64 // names the next unfinished object or pin

	incarnation string // distinguishes this holder of the slot from earlier ones
	pinPrefix   string // begins the names of this store's pins: slot and incarnation

	mu struct {
		sync.Mutex
		closed bool
		failed error // the first directory sync that failed
	}
}

var _ objstore.Store = (*Store)(nil)

// Open opens the store in a directory of fsys, which it creates if needed, and removes what interrupted puts have
// left there. fsys must outlive the Store.
func Open(fsys vfs.FS, root string) (*Store, error) {
	s := &Store{fs: fsys, root: path.Clean(root)}
	if err := vfs.EnsureDir(fsys, path.Join(s.root, putsDir)); err != nil {
		return nil, fmt.Errorf("open object store %s: %w", s, err)
	}
	if err := s.takeSlot(); err != nil {
		return nil, fmt.Errorf("open object store %s: %w", s, err)
	}
	if err := s.sweepSlots(); err != nil {
		return nil, errors.Join(fmt.Errorf("open object store %s: %w", s, err), s.lock.Close())
	}
	return s, nil
}

// takeSlot locks the first slot that is free and empties it. Lock files are never removed, so that two processes cannot
// hold locks on two files of one name.
func (s *Store) takeSlot() error {
	for n := 0; ; n++ {
		slot := path.Join(s.root, putsDir, strconv.Itoa(n))
		lock, err := s.fs.Lock(slot + lockSuffix)
		if errors.Is(err, vfs.ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		err = vfs.RemoveAll(s.fs, slot)
		if err == nil {
			err = s.fs.MkdirAll(slot)
		}
		if err != nil {
			return errors.Join(err, lock.Close())
		}
		s.slot, s.lock = slot, lock
		s.incarnation = rand.Text()
		s.pinPrefix = fmt.Sprintf(".pin-%d-%s-", n, s.incarnation)
		return nil
	}
}

// sweepSlots empties the slots whose process is gone. A process that opens the store meanwhile takes another slot.
func (s *Store) sweepSlots() error {
	entries, err := s.fs.List(path.Join(s.root, putsDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		slot := path.Join(s.root, putsDir, e.Name())
		lock, err := s.fs.Lock(slot + lockSuffix)
		if errors.Is(err, vfs.ErrLocked) {
			continue // alive, or this one
		}
		if err != nil {
			return err
		}
		if err := errors.Join(vfs.RemoveAll(s.fs, slot), lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

// String returns the directory's path.
func (s *Store) String() string { return s.root }

// Close implements [objstore.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	return errors.Join(vfs.RemoveAll(s.fs, s.slot), s.lock.Close())
}

// begin checks what every call with a key checks.
func (s *Store) begin(ctx context.Context, op objstore.Op, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return s.fail(op, key, err)
	}
	return s.usable(ctx, op, key)
}

func (s *Store) usable(ctx context.Context, op objstore.Op, key string) error {
	if err := ctx.Err(); err != nil {
		return s.fail(op, key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return s.fail(op, key, objstore.ErrClosed)
	}
	return nil
}

// writable is begin for calls that change the store.
func (s *Store) writable(ctx context.Context, op objstore.Op, key string) error {
	if err := s.begin(ctx, op, key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.failed != nil {
		return s.fail(op, key, s.mu.failed)
	}
	return nil
}

// syncError is a directory sync that failed. It is of no class, and final.
type syncError struct{ err error }

func (e *syncError) Error() string {
	return fmt.Sprintf("directory sync failed, nothing more is stored: %v", e.err)
}

// Unwrap returns the cause.
func (e *syncError) Unwrap() error { return e.err }

// syncDir makes the names in a directory durable. A failure sticks, unless there is no such directory (fs.ErrNotExist),
// or it could not even be opened because the process has too many files open.
func (s *Store) syncDir(dir string) error {
	err := s.fs.SyncDir(dir)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return err
	case errors.Is(err, syscall.ENOTDIR):
		return &fs.PathError{Op: "syncdir", Path: dir, Err: fs.ErrNotExist}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.failed == nil {
		s.mu.failed = &syncError{err}
	}
	return s.mu.failed
}

// fail wraps an error with the call and finds its class.
func (s *Store) fail(op objstore.Op, key string, err error) *objstore.Error {
	return &objstore.Error{Op: op, Store: s.String(), Key: key, Class: classOf(err), Err: err}
}

// classOf determines the class of a file system's error. An unknown one counts as a passing fault of the device: a caller
// that retries finds out if it is not.
func classOf(err error) error {
	var final *syncError
	switch {
	case errors.As(err, &final),
		errors.Is(err, objstore.ErrClosed), errors.Is(err, objstore.ErrEnded),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, objstore.ErrInvalid):
		return objstore.ErrInvalid
	case errors.Is(err, fs.ErrExist):
		return objstore.ErrExists
	case errors.Is(err, fs.ErrNotExist):
		return objstore.ErrNotFound
	case errors.Is(err, fs.ErrPermission):
		return objstore.ErrDenied
	}
	return objstore.ErrTransient
}

// file is the path of an object's file.
func (s *Store) file(key string) string { return path.Join(s.root, key) }

// isHidden reports whether a file or directory is ours and not part of a key.
func isHidden(name string) bool { return strings.HasPrefix(name, ".") }
