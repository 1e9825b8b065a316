package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tidemark-io/tidemark/vfs"
)

// chunkSize is how many bytes are copied at a time.
const chunkSize = 1 << 20

// bring fills to, an empty directory, with the files of a partition, durably.
func (im *Import) bring(ctx context.Context, p *Partition, to string) error {
	list, err := im.o.FS.List(p.Dir)
	if err != nil {
		return err
	}
	linked := map[string]bool{}
	if im.plan.How == Link {
		linked = sealedSegments(list, p)
	}
	for _, e := range list {
		if !wanted(e) {
			continue
		}
		from, name := path.Join(p.Dir, e.Name()), path.Join(to, e.Name())
		if linked[e.Name()] {
			err = im.link(from, name)
		} else {
			err = im.copyFile(ctx, from, name)
		}
		if err != nil {
			return err
		}
	}
	return im.o.FS.SyncDir(to)
}

// sealedSegments are the record files that neither Kafka nor this server ever changes again: all but the last, if they
// are flushed. Everything else is copied even when files are linked.
func sealedSegments(list []fs.DirEntry, p *Partition) map[string]bool {
	var names []string
	var bases []int64
	for _, e := range list {
		digits, ok := strings.CutSuffix(e.Name(), ".log")
		base, err := strconv.ParseInt(digits, 10, 64)
		if ok && err == nil && wanted(e) {
			names, bases = append(names, e.Name()), append(bases, base)
		}
	}
	sealed := map[string]bool{}
	for i, name := range names {
		if i+1 < len(names) && (p.Clean || bases[i+1] <= p.RecoveryPoint) {
			sealed[name] = true
		}
	}
	return sealed
}

// link gives a file a second name, and makes sure that its bytes are on the device.
func (im *Import) link(from, to string) error {
	if err := im.o.FS.Link(from, to); err != nil {
		return otherDevice(err, Link)
	}
	f, err := im.o.FS.Open(to, vfs.ReadWrite)
	if err != nil {
		return err
	}
	err = f.Sync()
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Close()); err == nil {
		im.step("import", info.Size(), im.total)
	}
	return err
}

// otherDevice explains why files cannot be linked or moved.
func otherDevice(err error, how How) error {
	if errors.Is(err, syscall.EXDEV) {
		return fmt.Errorf("the target is on another file system, where --how %s is impossible; use --how copy: %w", how, err)
	}
	return err
}

// copyFile copies a file durably. Where the source has nothing but zeros, as in indexes that Kafka reserved, the copy has
// a hole.
func (im *Import) copyFile(ctx context.Context, from, to string) (err error) {
	source, err := im.o.FS.Open(from, vfs.ReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := im.o.FS.Open(to, vfs.CreateNew)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	size, err := im.copyBytes(ctx, source, target)
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if err := target.Truncate(size); err != nil {
		return err
	}
	return target.Sync()
}

func (im *Import) copyBytes(ctx context.Context, source, target vfs.File) (size int64, err error) {
	info, err := source.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, min(info.Size(), chunkSize))
	for at := int64(0); at < info.Size(); {
		if ctx.Err() != nil {
			return at, context.Cause(ctx)
		}
		n, err := source.ReadAt(buf[:min(chunkSize, info.Size()-at)], at)
		if err != nil && !(err == io.EOF && n > 0) {
			return at, err
		}
		if slices.ContainsFunc(buf[:n], func(b byte) bool { return b != 0 }) {
			if _, err := target.WriteAt(buf[:n], at); err != nil {
				return at, err
			}
		}
		at += int64(n)
		im.step("import", int64(n), im.total)
	}
	return info.Size(), nil
}

// syncFiles makes every file of a directory durable, and the directory itself.
func syncFiles(fsys vfs.FS, dir string) error {
	list, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() { // such as a quarantine, which was on disk before anything else
			continue
		}
		f, err := fsys.Open(path.Join(dir, e.Name()), vfs.ReadWrite)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}
