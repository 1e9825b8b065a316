package etcd

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Restore creates a log that begins with the state of a snapshot: its head is the snapshot's index, and it has no
// entries. When it returns nil the log exists for every node; before, it does not. An existing log is left unchanged,
// and the error matches [fs.ErrExist].
func Restore(ctx context.Context, c Config, index uint64, data []byte) error {
	b, err := dial(c)
	if err != nil {
		return err
	}
	defer func() { _ = b.client.Close() }()
	defer b.end()
	s := newSnapshot(index, rand.Uint64(), data)
	if err := b.putChunks(ctx, s, data); err != nil {
		return err
	}
	under, cancel := b.limit(ctx)
	defer cancel()
	done, err := b.client.Txn(under).
		If(clientv3.Compare(clientv3.CreateRevision(b.keys.format()), "=", 0)).
		Then(
			clientv3.OpPut(b.keys.format(), fmt.Sprint(formatVersion)),
			clientv3.OpPut(b.keys.cluster(), c.ClusterID),
			clientv3.OpPut(b.keys.head(), encodeIndex(index)),
			clientv3.OpPut(b.keys.latest(), encodeSnapshots([]snapshot{s})),
		).
		Else(clientv3.OpDelete(b.keys.attempt(s), clientv3.WithPrefix())).Commit()
	if err != nil {
		return b.writeFailed(ctx, err)
	}
	if !done.Succeeded {
		return &fs.PathError{Op: "restore", Path: b.String(), Err: fs.ErrExist}
	}
	return nil
}
