package journal

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// Inspection is what one journal of a data directory holds.
type Inspection struct {
	Name string // of the file, in the data directory
	// Waits says that it is not the one in use: a full disk, or a file that the disk failed, kept it from being restored completely.
	Waits bool
	// Failed says that it is what [Writer.SetAside] wrote: records of logs that failed while a server was using them.
	Failed bool
	// Held is what it holds, for each segment of a partition, in the order in which rounds first name them. For a
	// waiting journal it is what may still need to be restored.
	Held []Held
	// Problem is a [*CorruptError] or [*VersionError], or nil. What is in front of the damage is in Held.
	Problem error
}

// Held is what a journal holds of one segment of a partition.
type Held struct {
	Key
	Base  int64 // base offset of the segment
	Bytes int64 // of records
	// First and Next are offsets: the records are in between, Next not included. They are equal if the bytes are no batches.
	First, Next int64
}

// Inspect reads the journals of a data directory in the order in which [Replay] restores them, the one in use last, and
// changes nothing.
// For a directory without any it returns nothing. Errors are those of the file system.
func Inspect(fsys vfs.FS, dir string) ([]Inspection, error) {
	names, err := others(fsys, dir)
	if err != nil {
		return nil, err
	}
	var all []Inspection
	for _, name := range append(names, FileName) {
		found, err := inspectFile(fsys, dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

func inspectFile(fsys vfs.FS, dir, name string) (Inspection, error) {
	found := Inspection{Name: name, Waits: waits(name), Failed: strings.HasPrefix(name, failedPrefix)}
	file, err := fsys.Open(path.Join(dir, name), vfs.ReadOnly)
	if err != nil {
		return found, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return found, err
	}
	r := reader{name: path.Join(dir, name), file: file, size: info.Size(), salvage: true}
	s := inspection{reader: &r, segments: map[segment]int{}, numbers: map[Key]int{}}
	err = r.entries(s.note)
	var corrupt *CorruptError
	var version *VersionError
	if errors.As(err, &corrupt) || errors.As(err, &version) {
		found.Problem, err = err, nil
	}
	if err != nil {
		return found, err
	}
	found.Held, err = s.lacking()
	return found, err
}

// segment is what entries are put together by.
type segment struct {
	Key
	base int64
}

// inspection is one reading of a journal.
type inspection struct {
	reader   *reader
	held     []Held
	segments map[segment]int
	numbers  map[Key]int // of the partitions, as a replay numbers them
	keys     []Key
}

func (s *inspection) note(e located) error {
	if _, seen := s.numbers[e.Key]; !seen {
		s.numbers[e.Key] = len(s.keys)
		s.keys = append(s.keys, e.Key)
	}
	at, seen := s.segments[segment{e.Key, e.Base}]
	if !seen {
		at = len(s.held)
		s.segments[segment{e.Key, e.Base}] = at
		s.held = append(s.held, Held{Key: e.Key, Base: e.Base})
	}
	h := &s.held[at]
	h.Bytes += e.length
	records, err := s.reader.bytes(e.at, int(e.length))
	if err != nil {
		return err
	}
	for len(records) > 0 {
		b, rest, err := batch.Next(records)
		if err != nil {
			return nil
		}
		if h.First == h.Next {
			h.First, h.Next = b.BaseOffset(), b.NextOffset()
		}
		h.First, h.Next, records = min(h.First, b.BaseOffset()), max(h.Next, b.NextOffset()), rest
	}
	return nil
}

// lacking leaves out what a waiting journal says it does not wait for.
func (s *inspection) lacking() ([]Held, error) {
	sector, err := s.reader.bytes(0, sectorSize)
	if err != nil {
		return nil, err
	}
	marks, ok := waitingMarksOf(sector)
	if !ok || marks.keys != keysSum(s.keys) {
		return s.held, nil
	}
	var lacking []Held
	for _, h := range s.held {
		if marks.has(s.numbers[h.Key]) {
			lacking = append(lacking, h)
		}
	}
	return lacking, nil
}
