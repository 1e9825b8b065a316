package embedded

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/tidemark-io/tidemark/vfs"
)

// DefaultReserve is how many bytes of the disk the file reserves beyond its last page. An entry takes a few pages, most
// of which are free again for the next; snapshots bound the number of entries. So this is room for thousands of entries
// that no other file can take, however full the disk is.
const DefaultReserve = 4 << 20

func (o Options) reserve() int64 {
	if o.Reserve == 0 {
		return DefaultReserve
	}
	return max(o.Reserve, 0)
}

// fillReserve makes the file longer if less than half of the reserve is left after its last page, with blocks that the
// disk allocates now: bbolt uses the pages that the file has before it makes it longer. It is not an error if the disk
// has no room; then what is left of the reserve must do.
//
// The caller holds writing, or is the only user of the backend so far.
func (b *Backend) fillReserve() {
	if b.reserve == 0 {
		return
	}
	var used int64
	if err := b.db.View(func(tx *bbolt.Tx) error {
		used = tx.Size()
		return nil
	}); err != nil {
		return
	}
	if b.solid-used >= b.reserve/2 {
		return
	}
	if to := used + b.reserve; extend(b.file, max(b.solid, used), to) == nil {
		b.solid = to
	}
}

// writeZeros gives blocks to a part of a file that holds nothing, for file systems that do not give them otherwise.
func writeZeros(f *os.File, from, to int64) error {
	zeros := make([]byte, 1<<16)
	for from < to {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// isFull reports whether a commit failed because there is no room: on the disk, in a quota, or under the limit of a
// file's size. bbolt keeps only the texts of some errors.
func isFull(err error) bool {
	if vfs.IsNoSpace(err) || errors.Is(err, syscall.EFBIG) {
		return true
	}
	for _, code := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if strings.HasSuffix(err.Error(), ": "+code.Error()) {
			return true
		}
	}
	return false
}

// isBefore reports whether the file surely is as it was before a transaction whose commit failed. bbolt writes pages that
// nothing refers to, syncs them, and then writes one of the two meta pages, which makes them count. As long as both meta
// pages are whole and neither is the transaction's, it failed before that, and bbolt has gone back to the older one: it
// scans the file for the free pages again.
func (b *Backend) isBefore(transaction uint64) bool {
	info, err := b.file.Stat()
	if err != nil {
		return false
	}
	m, err := readMetas(b.file, info.Size())
	return err == nil && m.txid < transaction
}

// CheckFile verifies that the file still exists under its name: what is written to one that was removed or replaced is
// lost when the backend is closed. It does not wait for writers.
func (b *Backend) CheckFile() error {
	named, err := os.Stat(b.path)
	if os.IsNotExist(err) {
		return fmt.Errorf("meta: %s was removed while it was in use", b.path)
	}
	if err != nil {
		return nil // it cannot be said
	}
	open, err := b.file.Stat()
	if err == nil && !os.SameFile(named, open) {
		return fmt.Errorf("meta: %s was replaced while it was in use", b.path)
	}
	return nil
}
