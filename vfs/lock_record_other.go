//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import "syscall"

// setRecordLock takes the POSIX lock, which belongs to the process.
const setRecordLock = syscall.F_SETLK
