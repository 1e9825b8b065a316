//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import "syscall"

// setRecordLock is the lock of POSIX, which is the process's.
const setRecordLock = syscall.F_SETLK
