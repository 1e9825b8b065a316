package embedded

import (
	"context"
	"io"

	"go.etcd.io/bbolt"
)

// CopyTo writes the file as one read transaction sees it: with every entry whose [Backend.Append] had returned, and a file of
// its own that [OpenToRead] takes. It returns how many bytes it wrote. Appends continue meanwhile; only one that must
// enlarge the file's address space waits until CopyTo returns, so w should not be slow.
func (b *Backend) CopyTo(ctx context.Context, w io.Writer) (n int64, err error) {
	err = b.view(ctx, func(tx *bbolt.Tx) error {
		n, err = tx.WriteTo(untilDone{ctx, w})
		return err
	})
	return n, err
}

// untilDone is a writer that ends with a context.
type untilDone struct {
	ctx context.Context
	w   io.Writer
}

// Write writes, unless the context has ended.
func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}
