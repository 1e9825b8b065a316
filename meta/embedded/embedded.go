package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/tidemark-io/tidemark/meta"
)

// Options say how [Open] treats the file.
type Options struct {
	// ClusterID is stored in a new file. An existing file must have this id, unless ClusterID is empty. It is required
	// to create one.
	ClusterID string
	// MustExist refuses to create a file. Set it whenever the data directory holds anything that the metadata
	// describes: then a missing file is a loss and not a first start.
	MustExist bool
	// LockTimeout is how long to wait for another process to release the file. The default is 1 s.
	LockTimeout time.Duration
	// Reserve is how many bytes of the disk the file reserves for future entries, so that topics can be deleted even
	// on a full disk. 0 is [DefaultReserve]; below 0 is none.
	Reserve int64
}

// Backend is a metadata log in one bbolt file. It implements [meta.Backend].
type Backend struct {
	path      string
	clusterID string
	db        *bbolt.DB
	file      *os.File // the one that db has open, and closes
	reserve   int64
	solid     int64      // how much of the file is known to have blocks of the disk
	writing   sync.Mutex // held by update
	notify    chan struct{}
	failure   failure
	claims    claims
}

var _ meta.Backend = (*Backend)(nil)

// Open opens the log in the file at path, or creates it. A new file is durable when Open returns. Nothing else may
// create the same file at the same time; the caller holds the data directory's lock.
//
// Errors to match: [*meta.LockedError] when another process has the file, [*meta.MissingError] under MustExist,
// [*meta.CorruptError] and [*meta.GapError] for a file that is damaged, [*meta.ClusterIDError]. The file is left as it was.
func Open(path string, o Options) (*Backend, error) {
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	if err := find(path, o); err != nil {
		return nil, err
	}
	if err := verifyLocked(path, o.LockTimeout); err != nil {
		return nil, advise(err)
	}
	b := &Backend{path: path, reserve: o.reserve(), notify: make(chan struct{}, 1)}
	var err error
	if b.db, b.file, err = openBolt(path, o.LockTimeout, false); err != nil {
		return nil, err
	}
	if err := b.readClusterID(o.ClusterID); err != nil {
		_ = b.db.Close()
		return nil, err
	}
	b.fillReserve()
	return b, nil
}

// OpenToRead opens an existing log for reading only. No process may have it open for writing; several may read it at
// the same time. The file is not changed, and every call that would change it fails.
//
// Errors to match: those of [Open] under MustExist.
func OpenToRead(path string) (*Backend, error) {
	o := Options{MustExist: true, LockTimeout: time.Second}
	if err := find(path, o); err != nil {
		return nil, err
	}
	if err := verifyLocked(path, o.LockTimeout); err != nil {
		return nil, advise(err)
	}
	b := &Backend{path: path, notify: make(chan struct{}, 1)}
	var err error
	if b.db, b.file, err = openBolt(path, o.LockTimeout, true); err != nil {
		return nil, err
	}
	if err := b.readClusterID(""); err != nil {
		return nil, errors.Join(err, b.db.Close())
	}
	return b, nil
}

// Restore creates a file that begins with the state of a snapshot: its head is the snapshot's index, and it has no
// entries. When it returns nil the file is complete and on disk; before, it does not exist. An existing file is left
// unchanged, and the error matches [fs.ErrExist].
func Restore(path, clusterID string, index uint64, snapshot []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "restore", Path: path, Err: fs.ErrExist}
	} else if !os.IsNotExist(err) {
		return err
	}
	err := create(path, clusterID, func(tx *bbolt.Tx) error {
		return errors.Join(
			putMeta(tx, keyHead, encodeIndexes(index)),
			putMeta(tx, keySnapshots, encodeIndexes(index)),
			tx.Bucket(bucketSnap).Put(indexKey(index), snapshot),
		)
	})
	if err != nil {
		return fmt.Errorf("meta: making %s: %w", path, err)
	}
	return nil
}

// find makes sure that the file exists, and creates it if that is allowed.
func find(path string, o Options) error {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err) && o.MustExist:
		return &meta.MissingError{Path: path}
	case os.IsNotExist(err):
		if err := create(path, o.ClusterID, func(*bbolt.Tx) error { return nil }); err != nil {
			return fmt.Errorf("meta: making %s: %w", path, err)
		}
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return advise(damaged(path, "bbolt file", 0, errors.New("it is not a file")))
	case info.Size() == 0:
		return &meta.MissingError{Path: path, Empty: true}
	}
	return nil
}

// advise adds to an error of a file what can be done about it.
func advise(err error) error {
	var corrupt *meta.CorruptError
	var gap *meta.GapError
	if !errors.As(err, &corrupt) && !errors.As(err, &gap) {
		return err
	}
	var newer *meta.VersionError
	if errors.As(err, &newer) {
		return err // its text says what to do
	}
	return fmt.Errorf("%w: the file is damaged; restore it from a copy, or start with an empty data directory", err)
}

// create makes the file under another name, lets fill put something into it, and gives it its own name when it is whole and on
// disk.
func create(path, clusterID string, fill func(*bbolt.Tx) error) error {
	if clusterID == "" {
		return errors.New("a cluster id is needed")
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !os.IsNotExist(err) {
		return err
	}
	db, _, err := openBolt(fresh, time.Second, false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error { return errors.Join(initialise(tx, clusterID), fill(tx)) })
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func initialise(tx *bbolt.Tx, clusterID string) error {
	for _, name := range [][]byte{bucketMeta, bucketLog, bucketSnap} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return errors.Join(
		putMeta(tx, keyFormat, []byte(formatVersion)),
		putMeta(tx, keyCluster, []byte(clusterID)),
		putMeta(tx, keyHead, encodeIndexes(0)),
		putMeta(tx, keySnapshots, nil),
	)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// verifyLocked checks the file while no writer can have it. bbolt opens it for reading first, which reads nothing but the
// meta pages.
func verifyLocked(path string, timeout time.Duration) error {
	db, _, err := openBolt(path, timeout, true)
	if err != nil {
		return err
	}
	return errors.Join(Verify(path), db.Close())
}

// openBolt opens the file, which the database closes.
func openBolt(path string, timeout time.Duration, readOnly bool) (*bbolt.DB, *os.File, error) {
	var file *os.File
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			f, err = os.OpenFile(name, flag, mode)
			file = f
			return f, err
		},
		Timeout:        timeout,
		ReadOnly:       readOnly,
		NoFreelistSync: true, // rebuilt at open from pages that were just checked, and one page less to write
		FreelistType:   bbolt.FreelistMapType,
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, nil, &meta.LockedError{Path: path}
	case isSystem(err):
		return nil, nil, fmt.Errorf("meta: %s: %w", path, err)
	case err != nil:
		return nil, nil, &meta.CorruptError{Where: path, Item: "bbolt file", Err: err}
	}
	return db, file, nil
}

// isSystem reports whether the operating system refused, which says nothing about the file.
func isSystem(err error) bool {
	var onPath *os.PathError
	var code syscall.Errno
	return errors.As(err, &onPath) || errors.As(err, &code)
}

func (b *Backend) readClusterID(want string) error {
	return b.db.View(func(tx *bbolt.Tx) error {
		id, err := getMeta(tx, keyCluster)
		if err != nil {
			return err
		}
		b.clusterID = string(id)
		if want != "" && want != b.clusterID {
			return &meta.ClusterIDError{Path: b.path, Stored: b.clusterID, Want: want}
		}
		return nil
	})
}

// String returns the file's path.
func (b *Backend) String() string { return b.path }

// ClusterID returns the id that was stored when the file was made.
func (b *Backend) ClusterID() string { return b.clusterID }

// Notify returns the channel that receives after appends of this process, the only one that can append.
func (b *Backend) Notify() <-chan struct{} { return b.notify }

// Head returns the index of the newest entry.
func (b *Backend) Head(ctx context.Context) (head uint64, err error) {
	err = b.view(ctx, func(tx *bbolt.Tx) error {
		head, err = getHead(tx)
		return err
	})
	return head, err
}

// Append stores an entry at index. When it returns nil the entry is on disk. [meta.ErrNoSpace] says that there was no
// space for it and that nothing was stored. Any other failed write or sync is final: what is on disk is unknown until
// the file is reopened.
func (b *Backend) Append(ctx context.Context, index uint64, entry []byte) error {
	err := b.update(ctx, func(tx *bbolt.Tx) error {
		head, err := getHead(tx)
		if err != nil {
			return err
		}
		if head+1 != index {
			return fmt.Errorf("%w: head is %d, append is at %d", meta.ErrConflict, head, index)
		}
		log := tx.Bucket(bucketLog)
		log.FillPercent = 1 // keys only grow
		if err := log.Put(indexKey(index), entry); err != nil {
			return err
		}
		return putMeta(tx, keyHead, encodeIndexes(index))
	})
	if err == nil {
		select {
		case b.notify <- struct{}{}:
		default:
		}
	}
	return err
}

// Read returns entries from the index on.
func (b *Backend) Read(ctx context.Context, from uint64, limit int) (entries [][]byte, err error) {
	err = b.view(ctx, func(tx *bbolt.Tx) error {
		head, err := getHead(tx)
		if err != nil || from > head {
			return err
		}
		c := tx.Bucket(bucketLog).Cursor()
		for k, v := c.Seek(indexKey(from)); k != nil && len(entries) < limit; k, v = c.Next() {
			if !isIndex(k, from+uint64(len(entries))) {
				break
			}
			entries = append(entries, append([]byte{}, v...)) // bbolt's memory ends with the transaction
		}
		if len(entries) == 0 && limit > 0 {
			return fmt.Errorf("%w: entry %d of %d", meta.ErrTruncated, from, head)
		}
		return nil
	})
	return entries, err
}

// PutSnapshot stores a snapshot and forgets all but the two newest, in one transaction. One at the newest's index
// replaces it.
func (b *Backend) PutSnapshot(ctx context.Context, index uint64, data []byte) error {
	return b.update(ctx, func(tx *bbolt.Tx) error {
		kept, err := getSnapshots(tx)
		if err != nil {
			return err
		}
		head, err := getHead(tx)
		if err != nil {
			return err
		}
		if index > head {
			return fmt.Errorf("meta: %s: a snapshot at %d is ahead of the head, %d", b.path, index, head)
		}
		snap := tx.Bucket(bucketSnap)
		if n := len(kept); n > 0 && index <= kept[n-1] {
			if index < kept[n-1] || bytes.Equal(data, snap.Get(indexKey(index))) {
				return nil
			}
			return snap.Put(indexKey(index), data)
		}
		for kept = append(kept, index); len(kept) > keptSnapshots; kept = kept[1:] {
			if err := snap.Delete(indexKey(kept[0])); err != nil {
				return err
			}
		}
		if err := snap.Put(indexKey(index), data); err != nil {
			return err
		}
		return putMeta(tx, keySnapshots, encodeIndexes(kept...))
	})
}

// Snapshot returns the newest snapshot.
func (b *Backend) Snapshot(ctx context.Context) (index uint64, data []byte, err error) {
	return b.snapshot(ctx, 1)
}

// OlderSnapshot returns the snapshot before the newest.
func (b *Backend) OlderSnapshot(ctx context.Context) (index uint64, data []byte, err error) {
	return b.snapshot(ctx, 2)
}

// snapshot returns one of the kept snapshots, counted from the newest, which is 1.
func (b *Backend) snapshot(ctx context.Context, fromNewest int) (index uint64, data []byte, err error) {
	err = b.view(ctx, func(tx *bbolt.Tx) error {
		kept, err := getSnapshots(tx)
		if err != nil || len(kept) < fromNewest {
			return err
		}
		index = kept[len(kept)-fromNewest]
		data = append([]byte{}, tx.Bucket(bucketSnap).Get(indexKey(index))...)
		return nil
	})
	return index, data, err
}

// Truncate removes the entries that the older of two snapshots covers.
func (b *Backend) Truncate(ctx context.Context) (through uint64, err error) {
	err = b.update(ctx, func(tx *bbolt.Tx) error {
		kept, err := getSnapshots(tx)
		if err != nil || len(kept) < keptSnapshots {
			return err
		}
		through = kept[0]
		c := tx.Bucket(bucketLog).Cursor()
		last := indexKey(through)
		for k, _ := c.First(); k != nil && string(k) <= string(last); k, _ = c.First() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	return through, err
}

// Close waits for the transaction in progress, releases all claims and closes the file.
func (b *Backend) Close() error {
	b.claims.releaseAll()
	return b.db.Close()
}

// view runs f in a read transaction.
func (b *Backend) view(ctx context.Context, f func(*bbolt.Tx) error) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	return b.closedOr(b.db.View(f))
}

// update runs f in a transaction that is on disk when update returns nil. An error of f leaves the file as it was, and so
// does a commit that found no room. Any other error of the commit is final for the backend.
func (b *Backend) update(ctx context.Context, f func(*bbolt.Tx) error) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.usable(ctx); err != nil {
		return err
	}
	var refused error
	var id uint64
	err := b.db.Update(func(tx *bbolt.Tx) error {
		id = uint64(tx.ID())
		refused = f(tx)
		return refused
	})
	switch {
	case err == nil:
		b.fillReserve()
		return nil
	case refused != nil:
		return refused
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return meta.ErrClosed
	case isFull(err) && b.isBefore(id):
		return fmt.Errorf("%w: %s: %w", meta.ErrNoSpace, b.path, err)
	}
	return b.failure.set(fmt.Errorf("meta: %s: %w", b.path, err))
}

func (b *Backend) usable(ctx context.Context) error {
	if err := b.failure.get(); err != nil {
		return err
	}
	return ctx.Err()
}

func (b *Backend) closedOr(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return meta.ErrClosed
	}
	return err
}

func putMeta(tx *bbolt.Tx, key, value []byte) error {
	return tx.Bucket(bucketMeta).Put(key, seal(key, value))
}

func getMeta(tx *bbolt.Tx, key []byte) ([]byte, error) {
	value, err := unseal(key, tx.Bucket(bucketMeta).Get(key))
	if err != nil {
		return nil, &meta.CorruptError{Where: tx.DB().Path(), Item: "bucket meta", Err: err}
	}
	return value, nil
}

func getHead(tx *bbolt.Tx) (uint64, error) {
	b, err := getMeta(tx, keyHead)
	if err != nil {
		return 0, err
	}
	indexes, err := decodeIndexes(keyHead, b)
	if err != nil || len(indexes) != 1 {
		return 0, &meta.CorruptError{Where: tx.DB().Path(), Item: "bucket meta", Err: fmt.Errorf("the head has %d bytes", len(b))}
	}
	return indexes[0], nil
}

func getSnapshots(tx *bbolt.Tx) ([]uint64, error) {
	b, err := getMeta(tx, keySnapshots)
	if err != nil {
		return nil, err
	}
	return decodeIndexes(keySnapshots, b)
}
