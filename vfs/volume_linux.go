package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// volume is a descriptor of a directory, which remembers the failures of its file system that it has not yet reported.
type volume struct {
	f      *osFile
	device uint64
}

// OpenVolume supports the file systems of which syncfs makes everything durable, on a kernel that reports what could not
// be written.
func (osFS) OpenVolume(dir string) (Volume, error) {
	fail := func(err error) error { return &fs.PathError{Op: "open volume", Path: dir, Err: err} }
	if err := syncfsReports(); err != nil {
		return nil, fail(err)
	}
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	raw, err := d.SyscallConn()
	v := &volume{f: &osFile{f: d, raw: raw}}
	if err == nil {
		err = v.f.control("statfs", v.look)
	}
	if err != nil {
		return nil, errors.Join(fail(err), d.Close())
	}
	return v, nil
}

// look learns which file system it is.
func (v *volume) look(fd int) error {
	var of unix.Statfs_t
	if err := unix.Fstatfs(fd, &of); err != nil {
		return err
	}
	switch uint32(of.Type) { // it has a sign on some processors
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default: // one that is not written to a disk of this machine, or that hands the call to another one
		return fmt.Errorf("file system of type %#x: %w", of.Type, errors.ErrUnsupported)
	}
	var at unix.Stat_t
	err := unix.Fstat(fd, &at)
	v.device = uint64(at.Dev)
	return err
}

func (v *volume) Holds(name string) (bool, error) {
	info, err := os.Stat(name)
	if err != nil {
		return false, err
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	return ok && uint64(at.Dev) == v.device, nil
}

// Sync syncs the directory too, for the flush of the device's cache: with nothing in its journal to write, a file system
// may leave that out of a syncfs.
func (v *volume) Sync() error {
	if err := v.f.control("syncfs", unix.Syncfs); err != nil {
		return err
	}
	return v.f.control("fsync", unix.Fsync)
}

func (v *volume) Close() error { return v.f.Close() }

// syncfsReports fails on kernels before 5.8, whose syncfs forgets what could not be written.
func syncfsReports() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	release := unix.ByteSliceToString(u.Release[:])
	if !reportsSyncfs(release) {
		return fmt.Errorf("syncfs of kernel %s: %w", release, errors.ErrUnsupported)
	}
	return nil
}

func reportsSyncfs(release string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 8
}
