package kafkalog

import (
	"errors"
	"io/fs"
	"sync"
	"syscall"

	"github.com/tidemark-io/tidemark/internal/poison"
	"github.com/tidemark-io/tidemark/vfs"
)

// handleCache bounds how many files are open over all logs of a process. A [handle] stands for a file; its descriptor
// is opened when it is needed and, while nobody uses it, closed again when another file needs the room: the one that
// was used longest ago goes first.
//
// max bounds the descriptors that are open and not pinned. Files that readers hold count, and are never taken from
// them, so more than max are open while more than max are held; the surplus is closed as it is released.
//
// All methods of the cache and of its handles are safe for concurrent use. The cache's lock is only ever held for a few
// instructions, never over a file operation.
type handleCache struct {
	fs  vfs.FS
	max int

	// blocks are buffers for reading and writing index entries.
	blocks sync.Pool

	mu struct {
		sync.Mutex
		closed bool
		open   int    // slots taken by descriptors that are open, being opened or being closed, and not pinned
		pinned int    // descriptors of pinned handles
		idle   handle // ring of open handles that nobody holds; idle.older was used last, idle.newer longest ago
	}
}

// handle is one file of the cache. It is made by [handleCache.open], [handleCache.createLater] or
// [handleCache.openOrCreateLater] and ends with close or remove; readers that hold the file then still read it.
type handle struct {
	cache *handleCache
	mode  vfs.Mode // for opening it again

	// naming is held over every operation on the file's name, so that no one opens a name that is about to change. It
	// is taken before the cache's lock.
	naming sync.Mutex

	// What follows is guarded by the cache's lock. A new path needs naming as well.
	name    string
	file    vfs.File // nil while not open
	refs    int      // acquires, pins included, that were not released
	pins    int
	retired bool  // closed or removed: nobody may acquire it any more
	owed    bool  // a sync, see oweSync
	failed  error // a descriptor could not be closed, so what was written through it may be lost

	older, newer *handle // neighbours in the ring of idle handles; nil while not in it

	syncing    sync.Mutex // held while the file is synced; taken by whoever has acquired it
	syncFailed error      // guarded by syncing
}

// exhaustedEvictions is how many idle files are closed when the process has no descriptor left. More than one, because
// whoever used them up will use up the next as well.
const exhaustedEvictions = 8

// newHandleCache returns a cache that keeps at most max descriptors open, which is at least one.
func newHandleCache(fsys vfs.FS, max int) *handleCache {
	c := &handleCache{fs: fsys, max: max}
	c.mu.idle.older, c.mu.idle.newer = &c.mu.idle, &c.mu.idle
	return c
}

// open returns a handle of a file that exists by the time it is first acquired. Nothing is opened yet. The mode is
// [vfs.ReadOnly] or [vfs.ReadWrite].
func (c *handleCache) open(name string, mode vfs.Mode) *handle {
	return &handle{cache: c, name: name, mode: mode}
}

// createLater returns a handle of a file that is made, empty, when it is first acquired.
func (c *handleCache) createLater(name string) *handle {
	return &handle{cache: c, name: name, mode: vfs.CreateTruncate}
}

// openOrCreateLater is createLater that leaves what is in the file, if there is one by then.
func (c *handleCache) openOrCreateLater(name string) *handle {
	return &handle{cache: c, name: name, mode: vfs.Create}
}

// close closes every idle file and lets no other be opened. Files that are held stay open until they are released.
func (c *handleCache) close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	for c.evictOldest() {
	}
}

// block returns a buffer for index entries. It goes back with putBlock.
func (c *handleCache) block() *[entryBlockBytes]byte {
	if block, ok := c.blocks.Get().(*[entryBlockBytes]byte); ok {
		return block
	}
	return new([entryBlockBytes]byte)
}

func (c *handleCache) putBlock(block *[entryBlockBytes]byte) {
	poison.Fill(block[:])
	c.blocks.Put(block)
}

// acquire returns the open file, which stays open and readable until the matching release, whatever happens to its name
// in between. It does not allocate while the file is open. Otherwise it opens the file, which blocks on the device. It
// fails with [ErrClosed] after close or remove.
func (h *handle) acquire() (vfs.File, error) {
	file, err := h.tryAcquire()
	if file != nil || err != nil {
		return file, err
	}
	h.naming.Lock()
	defer h.naming.Unlock()
	if file, err := h.tryAcquire(); file != nil || err != nil {
		return file, err
	}
	return h.openAcquired()
}

// sync makes what was written to the file durable. It blocks on the device, and on another sync of the file. After one that
// failed all others fail with the same error: Linux reports lost bytes to one fsync of a descriptor, then counts them as
// written, so one that runs at the same time or later succeeds without them.
func (h *handle) sync() error {
	file, err := h.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	h.syncing.Lock()
	defer h.syncing.Unlock()
	return h.syncLocked(file)
}

// syncLocked is sync of the open file. Syncing is held.
func (h *handle) syncLocked(file vfs.File) error {
	if h.syncFailed != nil {
		return h.syncFailed
	}
	h.cache.mu.Lock()
	h.owed = false // before the sync, which does not cover what is written while it runs
	h.cache.mu.Unlock()
	if err := file.Sync(); err != nil {
		h.syncFailed = &IOError{Op: opSync, Path: h.path(), Err: err}
	}
	return h.syncFailed
}

// oweSync says that bytes were written that no sync has covered, and that the file is not pinned for their sake. It is then
// synced before its descriptor is closed to make room, and the result is remembered: what could not be written is reported to
// a descriptor that was open then, and the system may forget it with the last one.
func (h *handle) oweSync() {
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	h.owed = true
}

// closeDetached closes the file that was taken from a handle.
func (h *handle) closeDetached(file vfs.File) {
	h.cache.mu.Lock()
	owed := h.owed
	h.cache.mu.Unlock()
	if owed {
		h.syncing.Lock()
		_ = h.syncLocked(file) // whoever relies on it learns of it
		h.syncing.Unlock()
	}
	h.noteClosed(file.Close())
}

// writeBack begins to write a part of the file to the device, if the file system knows how to. A failure is one of sync, too:
// the pages that it was for may count as written from then on.
func (h *handle) writeBack(at, n int64) error {
	file, err := h.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	w, ok := file.(vfs.WriteBacker)
	if !ok {
		return nil
	}
	h.syncing.Lock()
	defer h.syncing.Unlock()
	if h.syncFailed != nil {
		return h.syncFailed
	}
	err = w.WriteBack(at, n)
	if err == nil || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	h.syncFailed = &IOError{Op: opSync, Path: h.path(), Err: err}
	return h.syncFailed
}

// release ends one acquire. The file must not be used afterwards.
func (h *handle) release() {
	c := h.cache
	c.mu.Lock()
	if h.refs--; h.refs > 0 {
		c.mu.Unlock()
		return
	}
	if h.refs < 0 {
		c.mu.Unlock()
		panic("kafkalog: file released more often than acquired")
	}
	if !h.retired && !c.mu.closed && c.mu.open <= c.max {
		h.enterIdleLocked()
		c.mu.Unlock()
		return
	}
	file := h.detachLocked()
	c.mu.Unlock()
	h.closeDetached(file)
	c.freeSlot()
}

// pin is acquire for a file that is in use for long, such as one with bytes that no sync covered. A pinned file does
// not count against the cache's bound. Each pin ends with unpin.
func (h *handle) pin() (vfs.File, error) {
	file, err := h.acquire()
	if err != nil {
		return nil, err
	}
	c := h.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.pins++; h.pins == 1 {
		c.mu.open--
		c.mu.pinned++
	}
	return file, nil
}

// unpin ends one pin.
func (h *handle) unpin() {
	c := h.cache
	c.mu.Lock()
	if h.pins--; h.pins == 0 {
		c.mu.open++
		c.mu.pinned--
	}
	c.mu.Unlock()
	h.release()
}

// path returns the file's name as it is now.
func (h *handle) path() string {
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	return h.name
}

// isMade reports whether the file exists, as far as this process knows: acquiring it would not create it.
func (h *handle) isMade() bool {
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	return h.mode != vfs.CreateTruncate
}

// rename renames the file, replacing any file of the new name. The directory is not synced. If there is no file the error
// matches [fs.ErrNotExist], and the handle has the new name all the same, for a file to come. An error after which the
// file has its new name counts as success: a caller that believed it would continue to write to a file that the next Open
// removes.
func (h *handle) rename(name string) error {
	h.naming.Lock()
	defer h.naming.Unlock()
	old := h.path()
	err := h.cache.fs.Rename(old, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && h.cache.hasMoved(old, name) {
		err = nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		h.cache.mu.Lock()
		h.name = name
		h.cache.mu.Unlock()
	}
	if err != nil {
		return &IOError{Op: "rename to " + name, Path: old, Err: err}
	}
	return nil
}

// hasMoved reports whether a file has the second of two names and not the first.
func (c *handleCache) hasMoved(from, to string) bool {
	_, gone := c.fs.Stat(from)
	_, there := c.fs.Stat(to)
	return errors.Is(gone, fs.ErrNotExist) && there == nil
}

// createFile creates the file, empty, or empties it, and does not keep it open. The directory is not synced.
func (h *handle) createFile() error {
	h.naming.Lock()
	defer h.naming.Unlock()
	name := h.path()
	file, err := h.cache.openFile(name, vfs.CreateTruncate)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return &IOError{Op: "create", Path: name, Err: err}
	}
	return nil
}

// remove unlinks the file, which may be gone already, and ends the handle. A failure leaves the handle as it was.
func (h *handle) remove() error {
	h.naming.Lock()
	defer h.naming.Unlock()
	name := h.path()
	if err := h.cache.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &IOError{Op: "remove", Path: name, Err: err}
	}
	return h.retire()
}

// close ends the handle and keeps the file. It returns the error of closing a descriptor that is not held, or an earlier
// one.
func (h *handle) close() error {
	h.naming.Lock()
	defer h.naming.Unlock()
	return h.retire()
}

// tryAcquire returns the file if it is open, else neither a file nor an error if it may be opened.
func (h *handle) tryAcquire() (vfs.File, error) {
	c := h.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case h.failed != nil:
		return nil, h.failed
	case h.retired || c.mu.closed:
		return nil, ErrClosed
	case h.file == nil:
		return nil, nil
	}
	if h.refs == 0 {
		h.leaveIdleLocked()
	}
	h.refs++
	return h.file, nil
}

// openAcquired opens the file for its first holder. Naming is held.
func (h *handle) openAcquired() (vfs.File, error) {
	c := h.cache
	c.takeSlot()
	name := h.path()
	file, err := c.openFile(name, h.mode)
	if err != nil {
		c.freeSlot()
		return nil, &IOError{Op: "open", Path: name, Err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.file = file
	h.refs = 1
	if h.mode != vfs.ReadOnly {
		h.mode = vfs.ReadWrite // what was created is not created again
	}
	return file, nil
}

// openFile opens a file that the cache does not keep. When the process has no descriptor left, idle files are closed and
// it is tried once more.
func (c *handleCache) openFile(name string, mode vfs.Mode) (vfs.File, error) {
	file, err := c.fs.Open(name, mode)
	if c.evictIfExhausted(err) {
		file, err = c.fs.Open(name, mode)
	}
	return file, err
}

// evictIfExhausted closes idle files and reports true if err says that the process has no descriptor left.
func (c *handleCache) evictIfExhausted(err error) bool {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return false
	}
	for range exhaustedEvictions {
		c.evictOldest()
	}
	return true
}

// fileSystem returns the file system of the cache, with an Open that makes room as the cache does. Small files that are
// opened for a moment, beside the cache, go through it: a snapshot must not fail for lack of descriptors while idle files
// hold some.
func (c *handleCache) fileSystem() vfs.FS { return evictingFS{FS: c.fs, cache: c} }

// evictingFS is the file system that fileSystem returns.
type evictingFS struct {
	vfs.FS
	cache *handleCache
}

// Open is that of the file system below, tried twice when descriptors have run out.
func (f evictingFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	return f.cache.openFile(name, mode)
}

// SyncDir is that of the file system below, which opens the directory, tried twice when descriptors have run out.
func (f evictingFS) SyncDir(name string) error {
	err := f.FS.SyncDir(name)
	if f.cache.evictIfExhausted(err) {
		err = f.FS.SyncDir(name)
	}
	return err
}

// retire ensures that the handle is never acquired again, and closes its file if it is not held. The caller holds naming.
func (h *handle) retire() error {
	c := h.cache
	c.mu.Lock()
	h.retired = true
	if h.file == nil || h.refs > 0 {
		defer c.mu.Unlock()
		return h.failed
	}
	h.leaveIdleLocked()
	file := h.detachLocked()
	c.mu.Unlock()
	h.noteClosed(file.Close())
	c.freeSlot()
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.failed
}

// takeSlot takes a slot for a descriptor about to be opened. When there is none it closes the idle file that was used
// longest ago and takes over its slot.
func (c *handleCache) takeSlot() {
	c.mu.Lock()
	oldest := c.mu.idle.newer
	if c.mu.open < c.max || oldest == &c.mu.idle {
		c.mu.open++
		c.mu.Unlock()
		return
	}
	oldest.leaveIdleLocked()
	file := oldest.detachLocked()
	c.mu.Unlock()
	oldest.closeDetached(file)
}

// freeSlot gives back the slot of a descriptor that is closed.
func (c *handleCache) freeSlot() {
	c.mu.Lock()
	c.mu.open--
	c.mu.Unlock()
}

// evictOldest closes the idle file that was used longest ago. It is false when no file is idle.
func (c *handleCache) evictOldest() bool {
	c.mu.Lock()
	oldest := c.mu.idle.newer
	if oldest == &c.mu.idle {
		c.mu.Unlock()
		return false
	}
	oldest.leaveIdleLocked()
	file := oldest.detachLocked()
	c.mu.Unlock()
	oldest.closeDetached(file)
	c.freeSlot()
	return true
}

// enterIdleLocked makes the handle the one that was used last.
func (h *handle) enterIdleLocked() {
	idle := &h.cache.mu.idle
	h.newer, h.older = idle, idle.older
	h.older.newer = h
	idle.older = h
}

func (h *handle) leaveIdleLocked() {
	h.older.newer, h.newer.older = h.newer, h.older
	h.older, h.newer = nil, nil
}

// detachLocked takes the file from the handle. The caller closes it, without the lock.
func (h *handle) detachLocked() vfs.File {
	file := h.file
	h.file = nil
	return file
}

// noteClosed remembers that closing a descriptor failed. For a file that is only read that means nothing; for another
// one the system may just have said that it lost a write.
func (h *handle) noteClosed(err error) {
	if err == nil {
		return
	}
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	if h.mode != vfs.ReadOnly && h.failed == nil {
		h.failed = &IOError{Op: opClose, Path: h.name, Err: err}
	}
}
