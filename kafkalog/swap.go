package kafkalog

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/vfs"
)

// Segments are replaced by files that are written as `.cleaned`, renamed to `.swap` once all are complete, and to their
// final names once the files that they replace are `.deleted`. Whatever a crash leaves is brought to one side here.

// clean removes the remains of deletions and atomic replaces, and finishes or undoes an interrupted swap. It returns the
// names that are left.
func (ld *loader) clean() ([]string, error) {
	names, err := ld.list()
	if err != nil {
		return nil, err
	}
	leastCleaned := int64(math.MaxInt64)
	var swaps []string
	changed := false
	for _, name := range names {
		switch {
		case ld.noteRetiredTxns(names, name):
		case strings.HasSuffix(name, deletedSuffix), strings.HasSuffix(name, tempSuffix):
			err = ld.remove(name)
			changed = true
		case strings.HasSuffix(name, cleanedSuffix):
			if offset, ok := parseOffset(name); ok {
				leastCleaned = min(leastCleaned, offset)
			}
		case strings.HasSuffix(name, swapSuffix):
			swaps = append(swaps, name)
		}
		if err != nil {
			return nil, err
		}
	}
	undone, err := ld.undoSwap(names, swaps, leastCleaned)
	if err != nil {
		return nil, err
	}
	swaps = slices.DeleteFunc(swaps, func(name string) bool { return slices.Contains(undone, name) })
	if err := ld.finishSwap(names, swaps); err != nil {
		return nil, err
	}
	if !changed && len(undone) == 0 && len(swaps) == 0 {
		return names, nil
	}
	if err := ld.log.syncDir(); err != nil {
		return nil, err
	}
	return ld.list()
}

func (ld *loader) list() ([]string, error) {
	entries, err := ld.env.fs.List(ld.dir)
	if err != nil {
		return nil, &IOError{Op: "list", Path: ld.dir, Err: err}
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (ld *loader) remove(name string) error {
	full := path.Join(ld.dir, name)
	if err := ld.env.fs.Remove(full); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &IOError{Op: "remove", Path: full, Err: err}
	}
	return nil
}

// undoSwap removes the replacements of a swap that had not got all its outputs ready: the `.cleaned` files, and the
// `.swap` files from the least of these on. It returns what it removed. The `.cleaned` files go last: while there is one,
// nobody takes what is left of the others for a swap that is ready.
func (ld *loader) undoSwap(names, swaps []string, leastCleaned int64) ([]string, error) {
	var ready, unfinished []string
	for _, name := range swaps {
		if offset, ok := parseOffset(name); ok && offset >= leastCleaned {
			ready = append(ready, name)
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, cleanedSuffix) {
			unfinished = append(unfinished, name)
		}
	}
	if err := ld.removeForGood(ready); err != nil {
		return nil, err
	}
	for _, name := range unfinished {
		if err := ld.remove(name); err != nil {
			return nil, err
		}
	}
	return append(ready, unfinished...), nil
}

// removeForGood removes files that no power cut may bring back.
func (ld *loader) removeForGood(names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if err := ld.remove(name); err != nil {
			return err
		}
	}
	return ld.log.syncDir()
}

// finishSwap brings a swap whose outputs are all ready to its end: the files they replace go, and they get their names.
// Each step is durable before the next one begins, so that it is taken up where a crash left it. Outputs get their names
// only once what they replace is gone, and in rising order: those that have theirs then lie below all that still wait, and
// are not taken for replaced. So would index files be beside records that wait, which is why they come last.
//
// The producer snapshot at the base of an output stays: what it says of the records below is as true as before.
func (ld *loader) finishSwap(names, swaps []string) error {
	from, to := int64(math.MaxInt64), int64(-1)
	var records, sidecars []string
	for _, name := range swaps {
		base, ok := parseOffset(name)
		if !ok || !strings.HasSuffix(name, logSuffix+swapSuffix) {
			sidecars = append(sidecars, name)
			continue
		}
		records = append(records, name)
		end, err := ld.endOfSwap(name, base)
		if err != nil {
			return err
		}
		from, to = min(from, base), max(to, end)
	}
	var replaced []string
	for _, name := range names {
		offset, ok := parseOffset(name)
		if !ok || offset < from || offset >= to {
			continue
		}
		keptSnapshot := strings.HasSuffix(name, snapshotSuffix) && slices.Contains(records, fileName(offset, logSuffix+swapSuffix))
		if isLogName(name) || isIndexName(name) || strings.HasSuffix(name, snapshotSuffix) && !keptSnapshot {
			replaced = append(replaced, name)
		}
	}
	if err := ld.removeForGood(replaced); err != nil {
		return err
	}
	for i := range records {
		if err := ld.giveSwapNames(records[i : i+1]); err != nil {
			return err
		}
	}
	return ld.giveSwapNames(sidecars)
}

// giveSwapNames gives replacements their final names. It is durable on return.
func (ld *loader) giveSwapNames(swaps []string) error {
	if len(swaps) == 0 {
		return nil
	}
	for _, name := range swaps {
		full := path.Join(ld.dir, name)
		if err := ld.env.fs.Rename(full, strings.TrimSuffix(full, swapSuffix)); err != nil {
			return &IOError{Op: "rename", Path: full, Err: err}
		}
	}
	return ld.log.syncDir()
}

// endOfSwap returns the offset after the last batch of a replacement. What does not frame ends it: such a thing may follow
// the batches of a segment that was split.
func (ld *loader) endOfSwap(name string, base int64) (int64, error) {
	full := path.Join(ld.dir, name)
	info, err := ld.env.fs.Stat(full)
	if err != nil {
		return 0, &IOError{Op: "stat", Path: full, Err: err}
	}
	s := ld.env.newSegment(base, ld.config)
	s.file = ld.env.files.open(full, vfs.ReadOnly)
	s.size.Store(info.Size())
	defer s.file.close()
	end, err := s.walkEnd(0, base)
	return end, ignoreUnusable(err)
}
