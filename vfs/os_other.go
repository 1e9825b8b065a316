//go:build !linux

package vfs

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

func (f *osFile) sync() error { return f.f.Sync() }

// syncDir does nothing on Windows, where a directory cannot be flushed, and accepts a file system that knows no fsync
// of a directory (EINVAL).
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if runtime.GOOS == "windows" {
		return nil
	}
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
