package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// ReadObjects opens the object store at a URL for tools that only read: a directory, as a path or file:// URL, or a
// bucket as package objstore/cloud describes. Writes to a directory's store stay in this process's memory; opening a
// bucket does not touch it. The caller closes the store.
func ReadObjects(ctx context.Context, storeURL string) (objstore.Store, error) {
	path, local, err := localPath(storeURL)
	if err != nil {
		return nil, err
	}
	if !local {
		return cloud.Open(ctx, storeURL, cloud.Options{})
	}
	info, err := vfs.OS().Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open object store: %s is not a directory", path)
	}
	return dir.Open(overlay.New(vfs.OS()), path)
}

// WriteObjects opens the object store at a URL for reading and writing, for repair tools. A missing directory is created.
// The caller closes the store.
func WriteObjects(ctx context.Context, storeURL string) (objstore.Store, error) {
	name, local, err := localPath(storeURL)
	if err != nil {
		return nil, err
	}
	if local {
		return dir.Open(vfs.OS(), name)
	}
	return cloud.Open(ctx, storeURL, cloud.Options{})
}

// ReadObject finds the object at a URL, and opens its store as [ReadObjects] does: a file, as a path or file:// URL, or
// s3://bucket/key. The caller closes the store.
func ReadObject(ctx context.Context, objectURL string) (store objstore.Store, key string, err error) {
	path, local, err := localPath(objectURL)
	if err != nil {
		return nil, "", err
	}
	if local {
		path = filepath.Clean(path)
		store, err = ReadObjects(ctx, filepath.Dir(path))
		return store, filepath.Base(path), err
	}
	u, err := url.Parse(objectURL)
	if err != nil {
		return nil, "", errors.New("open object: malformed URL") // the error would repeat the URL, which may hold secrets
	}
	key, u.Path, u.RawPath = strings.TrimPrefix(u.Path, "/"), "", ""
	if key == "" {
		return nil, "", errors.New("open object: the URL names a bucket and no object in it")
	}
	store, err = ReadObjects(ctx, u.String())
	return store, key, err
}

// localPath reports whether a URL is on this machine, and its path.
func localPath(storeURL string) (path string, local bool, err error) {
	scheme, rest, hasScheme := strings.Cut(storeURL, "://")
	switch {
	case !hasScheme:
		return storeURL, true, nil
	case scheme != "file":
		return "", false, nil
	case !strings.HasPrefix(rest, "/"):
		return "", false, fmt.Errorf("open object store %s: a file URL has three slashes before its path", storeURL)
	}
	return rest, true, nil
}
