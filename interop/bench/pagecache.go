package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pageCache fills the machine's page cache with something that nobody needs, as it is on any broker that has run for a
// while. With much memory free, a virtual machine measures its host: one that takes back what the guest frees (virtio's
// free page reporting) makes a first touch of a page cost 2 to 9 µs here, ten times the copy of a record into it.
//
// The filling is a sparse file. Each of its pages is read once, so that it is the first to be evicted.
type pageCache struct {
	file  *os.File
	next  int64 // where to read next
	leave int64 // bytes of memory to leave free
}

const (
	pageCacheFile = 8 << 40 // bytes of its length; enough for any run
	pageCacheStep = 1 << 20
	leaveFree     = 512 << 20 // bytes of memory
)

// newPageCache creates the file in dir. On a file system that does not allow such a length nothing is filled.
func newPageCache(dir string) (*pageCache, error) {
	file, err := os.OpenFile(filepath.Join(dir, "nothing"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if err := file.Truncate(pageCacheFile); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: %w", err), file.Close())
	}
	return &pageCache{file: file, leave: leaveFree}, nil
}

// fill reads as much as memory is free, except for what is left free. It reads no more than that, since a system may take
// back unused pages as fast as they are filled.
func (p *pageCache) fill(ctx context.Context) error {
	free, err := freeMemory()
	if err != nil {
		return err
	}
	buffer := make([]byte, pageCacheStep)
	for end := p.next + free - p.leave; p.next < end && ctx.Err() == nil; p.next += pageCacheStep {
		if _, err := p.file.ReadAt(buffer, p.next%pageCacheFile); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return ctx.Err()
}

// close removes the file, and with it its part of the page cache.
func (p *pageCache) close() error {
	err := errors.Join(p.file.Close(), os.Remove(p.file.Name()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// freeMemory returns how many bytes of memory are unused.
func freeMemory() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemFree:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("bench: MemFree: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("bench: /proc/meminfo has no MemFree")
}
