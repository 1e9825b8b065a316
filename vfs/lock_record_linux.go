package vfs

// setRecordLock is F_OFD_SETLK: the lock is the open file's, and closing another handle of the file does not drop it.
const setRecordLock = 37
