package logdir

import (
	"errors"
	"io/fs"

	"github.com/tidemark-io/tidemark/vfs"
)

// Checkpoints are the entries of the shared files by which logs are opened.
type Checkpoints struct {
	RecoveryPoints, LogStarts, HighWatermarks map[Partition]int64
	// PageCached are those whose high watermark does not say what is on the device, see [Dir.PageCached]. If that file
	// cannot be read it holds all partitions that have a high watermark.
	PageCached map[Partition]int64
}

// ReadCheckpoints reads the shared files of a directory without locking it, for tools. A missing file has no entries,
// and neither has one that cannot be read: the error, which joins several, says what is wrong with these. The rest can
// be used.
func ReadCheckpoints(fsys vfs.FS, dir string) (Checkpoints, error) {
	read := func(name string) (map[Partition]int64, error) {
		file := dir + "/" + name
		data, err := vfs.ReadFile(fsys, file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		offsets, err := decodeOffsets(data)
		return offsets, inFile(file, err)
	}
	var c Checkpoints
	var errs [4]error
	c.RecoveryPoints, errs[0] = read(recoveryPointFile)
	c.LogStarts, errs[1] = read(logStartFile)
	c.HighWatermarks, errs[2] = read(highWatermarkFile)
	if c.PageCached, errs[3] = read(pageCachedFile); errs[3] != nil {
		c.PageCached = c.HighWatermarks
	}
	return c, errors.Join(errs[:]...)
}
