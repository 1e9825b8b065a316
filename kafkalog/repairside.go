package kafkalog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"sort"

	"github.com/tidemark-io/tidemark/vfs"
)

// findStart reads the log's own file of its start. Without it, deleted records of the first segment are readable again.
func (r *Repair) findStart(names []string) error {
	start, found, err := readLogStart(r.fs, r.Dir)
	switch {
	case err == nil && found:
		r.Start = start
	case err == nil:
	case !damaged(err):
		r.Unrepairable = append(r.Unrepairable, err)
	case r.options.LogStart > 0 && r.options.LogStart <= r.headerEnd():
		r.Start = r.options.LogStart
		r.add(RepairStep{Action: MakeAgain, File: logStartFileName, Reason: err.Error()})
		r.note("the log start is taken from the data directory's checkpoint, %d", r.Start)
	default:
		r.add(RepairStep{Action: SetAside, File: logStartFileName, Reason: err.Error()})
		r.note("the log start is not known any more: the log begins with its first segment, so records that were deleted may be " +
			"read again")
	}
	return nil
}

// headerEnd is an offset that the log start cannot be above for sure: the greatest there could be in the last segment.
func (r *Repair) headerEnd() int64 {
	if last := r.last(); last != nil {
		return last.base + math.MaxInt32
	}
	return 0
}

// findSidecars holds everything beside the records against them.
func (r *Repair) findSidecars(names []string) error {
	for i, s := range r.segments {
		last := i+1 == len(r.segments)
		r.findIndex(s, fileName(s.base, indexSuffix), names, last, s.checkOffsets)
		r.findIndex(s, fileName(s.base, timeIndexSuffix), names, last, s.checkTimes)
	}
	for _, name := range names {
		var err error
		base, numbered := parseOffset(name)
		full := path.Join(r.Dir, name)
		switch {
		case isTxnIndexName(name) && slices.Contains(names, fileName(base, logSuffix)):
			err = openTxnIndex(r.env.files.open(full, vfs.ReadOnly), base).verify()
		case numbered && name == fileName(base, snapshotSuffix):
			_, err = r.readSnapshot(name, base)
		case name == epochFileName:
			_, err = ReadEpochFile(r.fs, full)
		default:
			continue
		}
		switch {
		case err == nil:
		case errUnreadable(err):
			r.Unrepairable = append(r.Unrepairable, err)
		default:
			r.add(RepairStep{Action: MakeAgain, File: name, Reason: err.Error()})
		}
	}
	return nil
}

// findIndex checks an index of records. One of a segment that is cut or rewritten is rebuilt with it.
func (r *Repair) findIndex(s *repairSegment, name string, names []string, last bool, check func(name string) error) {
	if len(s.regions) > 0 || s.fillTo > 0 {
		return
	}
	if !slices.Contains(names, name) {
		if !last && s.size > 0 {
			r.add(RepairStep{Action: MakeAgain, File: name, Reason: "it is missing"})
		}
		return
	}
	err := check(path.Join(r.Dir, name))
	if err == nil {
		return
	}
	if errUnreadable(err) && !errors.Is(err, fs.ErrNotExist) {
		r.Unrepairable = append(r.Unrepairable, err)
		return
	}
	r.add(RepairStep{Action: MakeAgain, File: name, Reason: err.Error()})
	r.remake = append(r.remake, name)
}

// checkOffsets holds an offset index against the whole batches.
func (s *repairSegment) checkOffsets(name string) error {
	entries, err := ReadOffsetIndexFile(s.repair.fs, name)
	if err != nil {
		return err
	}
	last := OffsetIndexEntry{Offset: -1, Position: -1}
	for _, e := range entries {
		at := sort.Search(len(s.batches), func(i int) bool { return s.batches[i].position >= e.Position })
		switch {
		case e.Offset <= last.Offset || e.Position <= last.Position:
			return fmt.Errorf("the entry for offset %d does not rise above the one before it", e.Offset)
		case at == len(s.batches) || s.batches[at].position != e.Position:
			return fmt.Errorf("offset %d is said to be at position %d, where no batch begins", e.Offset, e.Position)
		case s.batches[at].base > e.Offset:
			return fmt.Errorf("offset %d is said to be at position %d, where offset %d is", e.Offset, e.Position, s.batches[at].base)
		}
		last = e
	}
	return nil
}

// checkTimes holds a time index against the whole batches: a search by time must miss none.
func (s *repairSegment) checkTimes(name string) error {
	entries, err := ReadTimeIndexFile(s.repair.fs, name)
	if err != nil {
		return err
	}
	last := TimeIndexEntry{Timestamp: -1, Offset: -1}
	for _, e := range entries {
		after := sort.Search(len(s.batches), func(i int) bool { return s.batches[i].base > e.Offset })
		switch {
		case e.Timestamp < 0 || e.Offset < s.base:
			return fmt.Errorf("timestamp %d is said to be at offset %d, which is none of the segment", e.Timestamp, e.Offset)
		case e.Timestamp < last.Timestamp || e.Offset < last.Offset:
			return fmt.Errorf("the entry for timestamp %d does not rise above the one before it", e.Timestamp)
		case e.Offset >= s.limit || e.Offset >= max(s.end, s.base+1):
			return fmt.Errorf("timestamp %d is said to be at offset %d, which is behind the segment", e.Timestamp, e.Offset)
		case after > 0 && s.batches[after-1].max > e.Timestamp:
			return fmt.Errorf("up to offset %d the newest timestamp is said to be %d, and is %d", e.Offset, e.Timestamp,
				s.batches[after-1].max)
		}
		last = e
	}
	if n := len(s.batches); s.limit < never && n > 0 && s.batches[n-1].max > last.Timestamp {
		return fmt.Errorf("it ends with timestamp %d, and the segment's newest is %d", last.Timestamp, s.batches[n-1].max)
	}
	return nil
}
