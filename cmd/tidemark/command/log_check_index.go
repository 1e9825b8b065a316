package command

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/vfs"
)

// placedBatch is what an index may say of a batch, which takes the bytes from position to end. newest is the largest timestamp of it and of all before it.
type placedBatch struct {
	position, end, base, last, newest int64
}

// maxMismatches is how many entries of one index file are told; a file that lies does so often.
const maxMismatches = 3

// indexMismatches holds the index files of a partition against its segments. A file that is not there is not wrong: it is
// made when the log is opened.
func indexMismatches(fsys vfs.FS, dir string) ([]string, error) {
	entries, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), ".log")
		if !ok {
			continue
		}
		batches, err := placedBatches(fsys, filepath.Join(dir, e.Name()))
		if err != nil {
			continue // the check of the log itself tells of it
		}
		found = append(found, offsetMismatches(fsys, filepath.Join(dir, stem+".index"), batches)...)
		found = append(found, timeMismatches(fsys, filepath.Join(dir, stem+".timeindex"), batches)...)
	}
	return found, nil
}

func placedBatches(fsys vfs.FS, name string) ([]placedBatch, error) {
	var batches []placedBatch
	newest := int64(-1)
	err := kafkalog.ReadSegmentFile(fsys, name, func(position int64, b batch.Batch) error {
		newest = max(newest, b.MaxTimestamp())
		batches = append(batches, placedBatch{position, position + int64(len(b)), b.BaseOffset(), b.LastOffset(), newest})
		return nil
	})
	return batches, err
}

// offsetMismatches are the entries of an offset index from which a reader would not find its way.
func offsetMismatches(fsys vfs.FS, name string, batches []placedBatch) []string {
	entries, err := kafkalog.ReadOffsetIndexFile(fsys, name)
	m := mismatches{name: name}
	m.unreadable(err)
	for _, e := range entries {
		at := sort.Search(len(batches), func(i int) bool { return batches[i].position >= e.Position })
		switch {
		case len(batches) == 0 || e.Position >= batches[len(batches)-1].end:
			m.add("offset %d is said to be at position %d, where the log has ended", e.Offset, e.Position)
		case at == len(batches) || batches[at].position != e.Position:
			m.add("offset %d is said to be at position %d, where no batch begins", e.Offset, e.Position)
		case batches[at].base > e.Offset:
			m.add("offset %d is said to be at position %d, where offset %d is", e.Offset, e.Position, batches[at].base)
		}
	}
	return m.told()
}

// timeMismatches are the entries of a time index that would lead a search by time astray.
func timeMismatches(fsys vfs.FS, name string, batches []placedBatch) []string {
	entries, err := kafkalog.ReadTimeIndexFile(fsys, name)
	m := mismatches{name: name}
	m.unreadable(err)
	for _, e := range entries {
		after := sort.Search(len(batches), func(i int) bool { return batches[i].base > e.Offset })
		switch {
		case after == 0:
			m.add("timestamp %d is said to be at offset %d, which is before the log", e.Timestamp, e.Offset)
		case e.Offset > batches[len(batches)-1].last:
			m.add("timestamp %d is said to be at offset %d, which is behind the log", e.Timestamp, e.Offset)
		case batches[after-1].newest != e.Timestamp:
			m.add("up to offset %d the newest timestamp is said to be %d, and is %d", e.Offset, e.Timestamp, batches[after-1].newest)
		}
	}
	return m.told()
}

// mismatches collects what is wrong with one file.
type mismatches struct {
	name string
	text []string
	more int
}

func (m *mismatches) unreadable(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.add("%v", err)
	}
}

func (m *mismatches) add(format string, args ...any) {
	if len(m.text) == maxMismatches {
		m.more++
		return
	}
	m.text = append(m.text, "rebuild "+m.name+": "+fmt.Sprintf(format, args...))
}

func (m *mismatches) told() []string {
	if m.more > 0 {
		m.text = append(m.text, fmt.Sprintf("rebuild %s: %s wrong entries more", m.name, count(m.more)))
	}
	return m.text
}
