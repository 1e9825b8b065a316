package kafkalog

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// The indexes of a segment hold offsets relative to its base in 31 bits. Nobody writes a segment that does not fit them,
// but compaction by brokers before Kafka 1.1 could join segments that lay further apart. Such a segment is split where it
// is found, as Kafka does, into several that hold the same bytes; see swap.go for what makes that safe.

// overflowError says that a segment holds an offset that does not fit its indexes. It never leaves Open.
type overflowError struct{ segment *segment }

func (e *overflowError) Error() string {
	return fmt.Sprintf("segment %d holds an offset that is not within 2^31-1 of its base", e.segment.base)
}

// overflows reports whether the offset does not fit the segment.
func (s *segment) overflows(offset int64) bool { return offset-s.base > math.MaxInt32 }

// findOverflow looks at the segments before the last one, of which recovery may not read the records: those that have room
// for an offset that does not fit. It fails with an [*overflowError] if one holds such an offset.
func (ld *loader) findOverflow() error {
	for i, s := range ld.segments[:len(ld.segments)-1] {
		if !s.overflows(ld.segments[i+1].base - 1) {
			continue
		}
		end, whole, err := s.endByIndex()
		if err == nil && !whole {
			end, err = s.walkEnd(0, s.base)
			err = ignoreUnusable(err)
		}
		if err != nil {
			return err
		}
		if s.overflows(end - 1) {
			return &overflowError{s}
		}
	}
	return nil
}

// overflow judges a batch whose last offset does not fit the segment. A base offset is not under the checksum, so that one
// that was damaged looks the same: what follows tells them apart, the next batch or, if there is none, the next segment.
// Behind the last batch of all nothing does, and it is bad, unless a Kafka broker wrote it.
func (rec *recovery) overflow(h *batch.Header) (bad, err error) {
	next, found, err := rec.behind(h)
	why := "nothing follows"
	switch {
	case err != nil:
		return nil, err
	case found && next > h.LastOffset():
		return nil, nil
	case found:
		why = fmt.Sprintf("the next batch begins at %d", next)
	case rec.limit < math.MaxInt64 || rec.loader.options.Foreign:
		return nil, nil
	}
	return fmt.Errorf("last offset is %d, which is not within 2^31-1 of the segment's base %d, and %s",
		h.LastOffset(), rec.segment.base, why), nil
}

// behind returns the base offset of the batch behind the one at the position, and false if there is none that could stand
// there.
func (rec *recovery) behind(h *batch.Header) (base int64, found bool, err error) {
	at := rec.at + int64(h.Size())
	if at+batch.HeaderSize > rec.reader.size {
		return 0, false, nil
	}
	var head [batch.HeaderSize]byte
	if err := rec.reader.readAt(head[:], at); err != nil {
		return 0, false, err
	}
	next, unframed := decodeHeader(head[:], rec.reader.size-at)
	return next.BaseOffset, unframed == nil && next.BaseOffset >= rec.expect, nil
}

// splitPart is a stretch of a segment that becomes a segment of its own.
type splitPart struct {
	base     int64 // offset
	from, to int64 // positions in the file
	txns     []byte
}

// split writes the parts of a segment beside it and makes them ready to replace it, which clean does when the loading
// begins again. On return they are durable and the swap will be finished, whatever happens next; if it fails, the segment
// stands as before when the log is reopened.
func (ld *loader) split(s *segment) error {
	parts, err := s.splitParts()
	if err != nil {
		return err
	}
	if err := s.splitTransactions(parts); err != nil {
		return err
	}
	modified, err := s.modified()
	if err != nil {
		return err
	}
	var made []string
	for _, p := range parts {
		names, err := ld.writePart(s, p, time.UnixMilli(modified))
		made = append(made, names...)
		if err != nil {
			for _, name := range made {
				err = errors.Join(err, ld.remove(name))
			}
			return err
		}
	}
	if err := ld.log.syncDir(); err != nil {
		return err
	}
	// The part with the lowest base last: its `.swap` says that all are ready.
	for _, p := range slices.Backward(parts) {
		if err := ld.readyPart(p.base, made); err != nil {
			return err
		}
	}
	e := SplitEvent{Dir: ld.dir, Base: s.base, Bytes: s.size.Load()}
	for _, p := range parts[1:] {
		e.Bases = append(e.Bases, p.base)
	}
	ld.env.events.Split(e)
	return nil
}

// splitParts divides the segment where a batch does not fit any more. The first part has the segment's base, even if no
// batch fits it, so that it replaces the segment. What does not frame belongs to the last part: it is the recovery of
// that one that judges it.
func (s *segment) splitParts() ([]splitPart, error) {
	r, err := s.reader()
	if err != nil {
		return nil, err
	}
	defer r.close()
	walk := r.walk(0)
	defer walk.close()
	parts := []splitPart{{base: s.base, to: r.size}}
	for {
		at := walk.position
		h, found, err := walk.next()
		if err != nil || !found {
			return parts, ignoreUnusable(err)
		}
		last := &parts[len(parts)-1]
		if h.LastOffset()-last.base > math.MaxInt32 {
			last.to = at
			parts = append(parts, splitPart{base: h.BaseOffset, from: at, to: r.size})
		}
	}
}

// splitTransactions gives each part the aborted transactions whose markers it holds. If the index is damaged each part
// gets one that is damaged as well, of one byte, so that repairTransactions makes it from the records.
func (s *segment) splitTransactions(parts []splitPart) error {
	err := s.txns.verify()
	if damaged(err) {
		for i := range parts {
			parts[i].txns = []byte{txnEntryVersion}
		}
		return nil
	}
	if err != nil {
		return err
	}
	return s.txns.each(func(_ int, t AbortedTxn) error {
		after := slices.IndexFunc(parts, func(p splitPart) bool { return p.base > t.LastOffset })
		if after < 0 {
			after = len(parts)
		}
		p := &parts[max(after-1, 0)]
		var entry [txnEntrySize]byte
		putAbortedTxn(entry[:], t)
		p.txns = append(p.txns, entry[:]...)
		return nil
	})
}

// writePart makes the `.cleaned` files of a part, with the modification time of the segment, and returns their names, also
// of one that it could not write. The files are synced, their names are not. The indexes are made anew once the swap is
// finished, as any that are missing.
func (ld *loader) writePart(s *segment, p splitPart, modified time.Time) (made []string, err error) {
	if len(p.txns) > 0 {
		name := fileName(p.base, txnIndexSuffix+cleanedSuffix)
		made = append(made, name)
		if err := writeSynced(ld.env.fs, path.Join(ld.dir, name), p.txns); err != nil {
			return made, err
		}
	}
	name := fileName(p.base, logSuffix+cleanedSuffix)
	made = append(made, name)
	full := path.Join(ld.dir, name)
	file, err := ld.env.fs.Open(full, vfs.CreateTruncate)
	if err != nil {
		return made, &IOError{Op: "create", Path: full, Err: err}
	}
	err = s.copyTo(file, full, p)
	if err == nil {
		if timeErr := ld.env.fs.Chtimes(full, modified); timeErr != nil {
			err = &IOError{Op: "set the time of", Path: full, Err: timeErr}
		}
	}
	if err == nil {
		if syncErr := file.Sync(); syncErr != nil {
			err = &IOError{Op: opSync, Path: full, Err: syncErr}
		}
	}
	if closeErr := file.Close(); closeErr != nil && err == nil {
		err = &IOError{Op: opClose, Path: full, Err: closeErr}
	}
	return made, err
}

// copyTo copies the bytes of a part to the start of a file.
func (s *segment) copyTo(file vfs.File, name string, p splitPart) error {
	r, err := s.reader()
	if err != nil {
		return err
	}
	defer r.close()
	buf := make([]byte, min(scanSize, p.to-p.from))
	for at := p.from; at < p.to; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), p.to-at)]
		if err := r.readAt(buf, at); err != nil {
			return err
		}
		if _, err := file.WriteAt(buf, at-p.from); err != nil {
			return &IOError{Op: "write", Path: name, Err: err}
		}
	}
	return nil
}

// readyPart renames the files of a part from `.cleaned` to `.swap`. That is durable on return.
func (ld *loader) readyPart(base int64, made []string) error {
	for _, name := range made {
		if offset, _ := parseOffset(name); offset != base {
			continue
		}
		full := path.Join(ld.dir, name)
		if err := ld.env.fs.Rename(full, strings.TrimSuffix(full, cleanedSuffix)+swapSuffix); err != nil {
			return &IOError{Op: "rename", Path: full, Err: err}
		}
	}
	return ld.log.syncDir()
}
