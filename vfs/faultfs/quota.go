package faultfs

import (
	"sync"
	"syscall"
)

// Quota is a disk that fills up: it accepts a number of bytes and then fails every write with ENOSPC, for which
// vfs.IsNoSpace is true. The write that exceeds it is done in part. Rewriting costs as much as appending, a reservation
// costs nothing, and removing or truncating frees nothing; [Quota.Free] does.
type Quota struct {
	mu   sync.Mutex
	left int64
}

// NewQuota returns a quota of that many bytes. Its Inject method is the [Injector].
func NewQuota(bytes int64) *Quota { return &Quota{left: bytes} }

// Free adds bytes to what may still be written.
func (q *Quota) Free(bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left += bytes
}

// Left returns how many bytes may still be written.
func (q *Quota) Left() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}

// Inject is the quota's [Injector].
func (q *Quota) Inject(op Op) Fault {
	if op.Kind != OpWriteAt && op.Kind != OpWriteVectorAt {
		return Fault{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if op.Len <= q.left {
		q.left -= op.Len
		return Fault{}
	}
	short := q.left
	q.left = 0
	return Fault{Err: syscall.ENOSPC, Short: short}
}
