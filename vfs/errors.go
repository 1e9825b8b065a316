package vfs

import (
	"errors"
	"runtime"
	"syscall"
)

// ErrLocked is what [FS.Lock] fails with when the file is locked already, by this process or another one.
var ErrLocked = errors.New("file is locked by another owner")

// IsNoSpace reports whether err says that the device or the owner's quota is full. Such a call may be tried again once
// space has been freed, unlike a failed [File.Sync].
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isWindowsNoSpace(err)
}

// isWindowsNoSpace knows Windows' own numbers, which mean other things elsewhere: ERROR_HANDLE_DISK_FULL and
// ERROR_DISK_FULL.
func isWindowsNoSpace(err error) bool {
	return runtime.GOOS == "windows" && (errors.Is(err, syscall.Errno(39)) || errors.Is(err, syscall.Errno(112)))
}
