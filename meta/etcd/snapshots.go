package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tidemark-io/tidemark/meta"
)

// listing is the value of snap/latest and the revision that guards it.
type listing struct {
	kept     []snapshot // newest first
	revision int64      // of the last change, 0 for none
}

func (b *Backend) listSnapshots(ctx context.Context) (listing, error) {
	under, cancel := b.limit(ctx)
	defer cancel()
	got, err := b.client.Get(under, b.keys.latest())
	if err != nil || len(got.Kvs) == 0 {
		return listing{}, b.readFailed(ctx, err)
	}
	kept, err := decodeSnapshots(string(got.Kvs[0].Value))
	if err != nil {
		return listing{}, &meta.CorruptError{Where: b.String(), Item: b.keys.latest(), Err: err}
	}
	return listing{kept: kept, revision: got.Kvs[0].ModRevision}, nil
}

// unchanged holds while nobody has stored a snapshot since the listing was read.
func (b *Backend) unchanged(l listing) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(b.keys.latest()), "=", l.revision)
}

// PutSnapshot stores the parts of a snapshot, then publishes them in one transaction, unless a newer snapshot was
// stored meanwhile. One at the newest's index replaces it, unless that is intact.
func (b *Backend) PutSnapshot(ctx context.Context, index uint64, data []byte) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	head, err := b.Head(ctx)
	if err != nil {
		return err
	}
	if index > head {
		return fmt.Errorf("meta: %s: a snapshot at %d is ahead of the head, %d", b, index, head)
	}
	s := newSnapshot(index, rand.Uint64(), data)
	for stored := false; ; {
		l, err := b.listSnapshots(ctx)
		if err != nil || len(l.kept) > 0 && index < l.kept[0].index {
			return err
		}
		if len(l.kept) > 0 && index == l.kept[0].index {
			there, err := b.getChunks(ctx, l.kept[0])
			if err != nil || l.kept[0].check(there) == nil && bytes.Equal(there, data) {
				return err
			}
		}
		if !stored {
			if err := b.putChunks(ctx, s, data); err != nil {
				return err
			}
			stored = true
		}
		done, err := b.publishSnapshot(ctx, l, s)
		if err != nil || done {
			return err
		}
	}
}

func (b *Backend) putChunks(ctx context.Context, s snapshot, data []byte) error {
	for i := range s.chunks {
		if err := b.put(ctx, b.keys.chunk(s, i), data[i*chunkBytes:min(len(data), (i+1)*chunkBytes)]); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) put(ctx context.Context, key string, value []byte) error {
	under, cancel := b.limit(ctx)
	defer cancel()
	_, err := b.client.Put(under, key, string(value))
	return b.writeFailed(ctx, err)
}

// publishSnapshot makes a stored snapshot the newest, and drops those that need not be kept any longer. It reports false
// if somebody else stored one since the listing was read.
func (b *Backend) publishSnapshot(ctx context.Context, l listing, s snapshot) (done bool, err error) {
	before, replaced := l.kept, []clientv3.Op(nil)
	if len(before) > 0 && before[0].index == s.index {
		replaced = append(replaced, clientv3.OpDelete(b.keys.attempt(before[0]), clientv3.WithPrefix()))
		before = before[1:]
	}
	kept := append([]snapshot{s}, before[:min(len(before), keptSnapshots-1)]...)
	under, cancel := b.limit(ctx)
	defer cancel()
	oldest := b.keys.snapshotsFrom(kept[len(kept)-1].index)
	got, err := b.client.Txn(under).If(b.unchanged(l)).Then(append(replaced,
		clientv3.OpPut(b.keys.latest(), encodeSnapshots(kept)),
		clientv3.OpDelete(b.keys.snapshots(), clientv3.WithRange(oldest)),
	)...).Commit()
	if err != nil {
		return false, b.writeFailed(ctx, err)
	}
	return got.Succeeded, nil
}

// Snapshot returns the newest snapshot. One that is replaced while it is read is read anew.
func (b *Backend) Snapshot(ctx context.Context) (index uint64, data []byte, err error) {
	return b.snapshot(ctx, 0)
}

// OlderSnapshot returns the snapshot before the newest.
func (b *Backend) OlderSnapshot(ctx context.Context) (index uint64, data []byte, err error) {
	return b.snapshot(ctx, 1)
}

// snapshot returns one of the kept snapshots, counted from the newest, which is 0.
func (b *Backend) snapshot(ctx context.Context, age int) (index uint64, data []byte, err error) {
	if err := b.usable(ctx); err != nil {
		return 0, nil, err
	}
	l, err := b.listSnapshots(ctx)
	for err == nil && len(l.kept) > age {
		s := l.kept[age]
		data, err = b.getChunks(ctx, s)
		if err != nil {
			return 0, nil, err
		}
		damage := s.check(data)
		if damage == nil {
			return s.index, data, nil
		}
		before := l
		if l, err = b.listSnapshots(ctx); err == nil && l.revision == before.revision {
			return 0, nil, &meta.CorruptError{Where: b.String(), Item: "snapshot", Index: s.index, Err: damage}
		}
	}
	return 0, nil, err
}

func (b *Backend) getChunks(ctx context.Context, s snapshot) ([]byte, error) {
	data := make([]byte, 0, min(s.bytes, 1<<30))
	for i := range s.chunks {
		under, cancel := b.limit(ctx)
		got, err := b.client.Get(under, b.keys.chunk(s, i))
		cancel()
		if err != nil {
			return nil, b.readFailed(ctx, err)
		}
		if len(got.Kvs) > 0 {
			data = append(data, got.Kvs[0].Value...)
		}
	}
	return data, nil
}

// Truncate removes the entries that the older of two snapshots covers, unless a snapshot is stored meanwhile: a holder of the
// lease that was held up for long removes nothing.
func (b *Backend) Truncate(ctx context.Context) (through uint64, err error) {
	if err := b.usable(ctx); err != nil {
		return 0, err
	}
	for {
		l, err := b.listSnapshots(ctx)
		if err != nil || len(l.kept) < keptSnapshots {
			return 0, err
		}
		through := l.kept[keptSnapshots-1].index
		revision, done, err := b.truncate(ctx, l, through)
		if err != nil {
			return 0, err
		}
		if done {
			return through, b.compactHistory(ctx, revision)
		}
	}
}

func (b *Backend) truncate(ctx context.Context, l listing, through uint64) (revision int64, done bool, err error) {
	under, cancel := b.limit(ctx)
	defer cancel()
	got, err := b.client.Txn(under).If(b.unchanged(l)).
		Then(clientv3.OpDelete(b.keys.entry(0), clientv3.WithRange(b.keys.entry(through+1)))).Commit()
	if err != nil {
		return 0, false, b.writeFailed(ctx, err)
	}
	return got.Header.Revision, got.Succeeded, nil
}

// compactHistory lets etcd forget what keys were before a revision.
func (b *Backend) compactHistory(ctx context.Context, revision int64) error {
	if b.config.KeepHistory {
		return nil
	}
	under, cancel := b.limit(ctx)
	defer cancel()
	_, err := b.client.Compact(under, revision)
	if errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil // somebody was faster, or it is left to the operator of etcd
	}
	return b.writeFailed(ctx, err)
}
