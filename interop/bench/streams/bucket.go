package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/interop/server"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/vfs"
)

// bucket is a running store, and creates empty places in it.
type bucket struct {
	kind  string
	dir   string // for its files
	open  func(ctx context.Context, place string) (objstore.Store, error)
	stop  func()
	count int
}

// startBucket starts a store with its data below dir.
func startBucket(ctx context.Context, kind, path string) (*bucket, error) {
	b := &bucket{kind: kind, dir: path, stop: func() {}}
	switch kind {
	case "dir":
		b.open = func(_ context.Context, place string) (objstore.Store, error) {
			return dir.Open(vfs.OS(), filepath.Join(path, "buckets", place))
		}
		return b, nil
	case "seaweedfs":
		return b, b.startSeaweed(ctx)
	}
	return nil, fmt.Errorf("unknown store, want dir or seaweedfs")
}

func (b *bucket) startSeaweed(ctx context.Context) error {
	in, err := server.Installed()
	if err != nil {
		return err
	}
	s, err := server.NewSeaweed(in, b.dir)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	b.stop = func() { _ = s.Kill() }
	user := server.SeaweedClient()
	os.Setenv("AWS_ACCESS_KEY_ID", user.AccessKey)
	os.Setenv("AWS_SECRET_ACCESS_KEY", user.SecretKey)
	b.open = func(ctx context.Context, place string) (objstore.Store, error) {
		bucket, err := server.MakeSeaweedBucket(ctx, s.Addr(), place)
		if err != nil {
			return nil, err
		}
		return cloud.Open(ctx, bucket, cloud.Options{})
	}
	return nil
}

// place opens an empty place and counts its requests.
func (b *bucket) place(ctx context.Context) (*counted, error) {
	b.count++
	s, err := b.open(ctx, fmt.Sprintf("place-%d", b.count))
	return &counted{Store: s}, err
}

// counted counts what a store would bill. Parts of a multipart upload are counted by their size.
type counted struct {
	objstore.Store
	writes, reads     atomic.Int64 // requests of the more expensive kind (PUT, POST, LIST), and of the cheaper (GET, HEAD)
	written, received atomic.Int64 // bytes
}

// Delete is counted where it is a POST: many keys in a request.
func (c *counted) Delete(ctx context.Context, keys ...string) error {
	if len(keys) >= cloud.MinDeleteBatch {
		c.writes.Add(int64(len(keys)+999) / 1000)
	}
	return c.Store.Delete(ctx, keys...)
}

// List prices of S3 Standard in us-east-1, dollars for one request; DELETE is free.
const (
	writePrice = 0.005 / 1000
	readPrice  = 0.0004 / 1000
)

func (c *counted) Put(ctx context.Context, key string, data []byte) error {
	c.writes.Add(1)
	c.written.Add(int64(len(data)))
	return c.Store.Put(ctx, key, data)
}

func (c *counted) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	c.writes.Add(1)
	c.written.Add(int64(len(data)))
	return c.Store.PutIfAbsent(ctx, key, data)
}

func (c *counted) Create(ctx context.Context, key string) (objstore.Upload, error) {
	up, err := c.Store.Create(ctx, key)
	return &countedUpload{Upload: up, c: c}, err
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, error) {
	c.reads.Add(1)
	b, err := c.Store.Get(ctx, key)
	c.received.Add(int64(len(b)))
	return b, err
}

func (c *counted) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	c.reads.Add(1)
	c.received.Add(int64(len(p)))
	return c.Store.ReadRange(ctx, key, p, off)
}

func (c *counted) Head(ctx context.Context, key string) (objstore.Info, error) {
	c.reads.Add(1)
	return c.Store.Head(ctx, key)
}

func (c *counted) List(ctx context.Context, r objstore.ListRequest) (objstore.Page, error) {
	c.writes.Add(1)
	return c.Store.List(ctx, r)
}

// countedUpload is one PUT if it fits into a part; else a request to begin, one for each part and one to end.
type countedUpload struct {
	objstore.Upload
	c     *counted
	bytes int64
}

func (u *countedUpload) Write(p []byte) (int, error) {
	n, err := u.Upload.Write(p)
	u.bytes += int64(n)
	return n, err
}

func (u *countedUpload) Finish() error {
	u.c.written.Add(u.bytes)
	if parts := (u.bytes + cloud.DefaultPartBytes - 1) / cloud.DefaultPartBytes; parts > 1 {
		u.c.writes.Add(parts + 2)
	} else {
		u.c.writes.Add(1)
	}
	return u.Upload.Finish()
}

// bill is what a store was asked for between two moments.
type bill struct {
	writes, reads, written, received int64
}

func (c *counted) bill() bill {
	return bill{c.writes.Load(), c.reads.Load(), c.written.Load(), c.received.Load()}
}

func (b bill) since(earlier bill) bill {
	return bill{b.writes - earlier.writes, b.reads - earlier.reads, b.written - earlier.written, b.received - earlier.received}
}

// price is in dollars.
func (b bill) price() float64 { return float64(b.writes)*writePrice + float64(b.reads)*readPrice }
