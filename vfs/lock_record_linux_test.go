package vfs_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

// A JVM locks with fcntl, which a flock does not see.
func TestLockAndTheLockOfAJVMKeepEachOtherOut(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	record := func(kind int16) error {
		const openFileLock = 37 // of the handle, so that it meets those of this process too
		return syscall.FcntlFlock(f.Fd(), openFileLock, &syscall.Flock_t{Type: kind, Whence: io.SeekStart})
	}
	require.NoError(t, record(syscall.F_WRLCK))
	_, err = vfs.OS().Lock(name)
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, record(syscall.F_UNLCK))

	held, err := vfs.OS().Lock(name)
	require.NoError(t, err)
	require.ErrorIs(t, record(syscall.F_WRLCK), syscall.EAGAIN)
	require.NoError(t, held.Close())
	require.NoError(t, record(syscall.F_WRLCK))
}
