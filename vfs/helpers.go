package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"syscall"
)

// TempSuffix is appended to a name while [WriteFileAtomic] writes what will replace it. A file that ends so is the
// remains of a crash and may be removed when its owner starts.
const TempSuffix = ".tmp"

// ReadFile returns all bytes of the named file, which are the caller's to keep.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, ReadOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if err == io.EOF {
		err = nil // empty, or cut since Stat
	}
	return data[:n], err
}

// WriteFileAtomic replaces the named file with data, or makes it: it writes and syncs name+[TempSuffix], renames it,
// and syncs the directory. A crash at any moment leaves the old bytes or the new ones, and when it returns nil the new
// ones are durable. One writer a name at a time; it blocks on the device twice.
//
// On an error before the rename the old file is as it was and the temporary one is removed. An error of the directory
// sync leaves the new bytes in place without a promise that they stay.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	tmp := name + TempSuffix
	err := writeSynced(fsys, tmp, data)
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(fsys, tmp))
	}
	return fsys.SyncDir(path.Dir(name))
}

// writeSynced makes or empties the named file and syncs data into it.
func writeSynced(fsys FS, name string, data []byte) (err error) {
	f, err := fsys.Open(name, CreateTruncate)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Sync()
}

// removeIfThere removes the named file or empty directory; it is no error if there is none.
func removeIfThere(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// EnsureDir makes the named directory and any parents that are missing, and syncs the parent of each, so that a file
// made durable in it cannot lose its directory. The directory that was there already, if any, is synced into its parent
// too: a process that was killed may have made it and not come to the sync.
func EnsureDir(fsys FS, dir string) error {
	dir = path.Clean(dir)
	info, err := fsys.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return syncExisting(fsys, dir)
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := path.Dir(dir)
	if parent != dir {
		if err := EnsureDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	return fsys.SyncDir(parent)
}

// syncExisting makes the name of a directory durable. A parent that cannot be opened for lack of permission belongs to
// somebody else, who created the directory.
func syncExisting(fsys FS, dir string) error {
	parent := path.Dir(dir)
	if parent == dir {
		return nil
	}
	if err := fsys.SyncDir(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("make directory %s durable: %w", dir, err)
	}
	return nil
}

// RemoveAll removes the named file or directory with all that is in it; a symbolic link is removed and not followed. It
// is no error if there is none, or if someone else removes parts of it at the same time. The removal is durable once
// the parent directory has been synced.
func RemoveAll(fsys FS, name string) error {
	err := removeIfThere(fsys, name)
	if !errors.Is(err, fs.ErrExist) {
		return err // removed, or failed for another reason than being a directory that is not empty
	}
	entries, err := fsys.List(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := RemoveAll(fsys, path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return removeIfThere(fsys, name)
}
