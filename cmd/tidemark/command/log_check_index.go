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

// placedBatch is a batch as the index files describe it.
type placedBatch struct {
	position, end int64 // its bytes in the segment
	base, last    int64 // its offsets
	newest        int64 // the largest timestamp up to and including it
}

// maxMismatches bounds how many entries of one index file are reported; a file with one wrong entry often has many.
const maxMismatches = 3

// indexMismatches compares the index files of a partition with its segments. A missing file is not wrong: it is rebuilt
// when the log is opened.
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
			continue // the check of the log itself reports it
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

// offsetMismatches returns the entries of an offset index that would mislead a reader.
func offsetMismatches(fsys vfs.FS, name string, batches []placedBatch) []string {
	entries, err := kafkalog.ReadOffsetIndexFile(fsys, name)
	m := mismatches{name: name}
	m.unreadable(err)
	for _, e := range entries {
		at := sort.Search(len(batches), func(i int) bool { return batches[i].position >= e.Position })
		switch {
		case len(batches) == 0 || e.Position >= batches[len(batches)-1].end:
			m.add("it puts offset %d at position %d, beyond the end of the segment", e.Offset, e.Position)
		case at == len(batches) || batches[at].position != e.Position:
			m.add("it puts offset %d at position %d, where no batch begins", e.Offset, e.Position)
		case batches[at].base > e.Offset:
			m.add("it puts offset %d at position %d, which holds offset %d", e.Offset, e.Position, batches[at].base)
		}
	}
	return m.report()
}

// timeMismatches returns the entries of a time index that would mislead a search by time.
func timeMismatches(fsys vfs.FS, name string, batches []placedBatch) []string {
	entries, err := kafkalog.ReadTimeIndexFile(fsys, name)
	m := mismatches{name: name}
	m.unreadable(err)
	for _, e := range entries {
		after := sort.Search(len(batches), func(i int) bool { return batches[i].base > e.Offset })
		switch {
		case after == 0:
			m.add("it puts timestamp %d at offset %d, before the segment", e.Timestamp, e.Offset)
		case e.Offset > batches[len(batches)-1].last:
			m.add("it puts timestamp %d at offset %d, after the segment", e.Timestamp, e.Offset)
		case batches[after-1].newest != e.Timestamp:
			m.add("it has %d as the newest timestamp up to offset %d, which is %d", e.Timestamp, e.Offset, batches[after-1].newest)
		}
	}
	return m.report()
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

func (m *mismatches) report() []string {
	if m.more > 0 {
		m.text = append(m.text, fmt.Sprintf("rebuild %s: %s more wrong entries", m.name, count(m.more)))
	}
	return m.text
}
