package kafkalog

import (
	"errors"
	"io/fs"
	"time"
)

// A failed fsync is final for the log that made it, but not for the next one. Linux counts the bytes as written, keeps them
// readable, and lets the next fsync succeed without them: a process that starts again on the same machine reads records
// that are not on disk, and no fsync of its own would tell. So what recovery keeps above what is known to be flushed it
// writes again, the same bytes in the same place, before the fsync that it relies on. What it writes is what it checked,
// from memory: read once more, the bytes might be those of the disk.
//
// That costs a write of the tail above the recovery point, which was read and must be synced in any case.

// noteUnproven remembers that the batch at the position, which stays, must be written again.
func (rec *recovery) noteUnproven(last int64) {
	if last >= rec.proven && rec.unproven < 0 {
		rec.unproven = rec.at
	}
}

// writeAgain writes the batches that were checked and noted since the last time. They are in the buffer.
func (rec *recovery) writeAgain() error {
	if rec.unproven < 0 || rec.unproven >= rec.at {
		return nil
	}
	s := rec.segment
	if rec.modified < 0 {
		modified, err := s.modified()
		if err != nil {
			return err
		}
		rec.modified = modified
	}
	checked := rec.buf[rec.unproven-rec.bufAt : rec.at-rec.bufAt]
	if _, err := rec.reader.file.WriteAt(checked, rec.unproven); err != nil {
		return &IOError{Op: "write again", Path: s.file.path(), Err: err}
	}
	rec.unproven = rec.at
	return nil
}

// keepTime gives the file the time that it had before it was written again, which is its age where records have none. A
// file that belongs to somebody else keeps the new one.
func (rec *recovery) keepTime() error {
	if rec.modified < 0 {
		return nil
	}
	name := rec.segment.file.path()
	err := rec.loader.env.fs.Chtimes(name, time.UnixMilli(rec.modified))
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return &IOError{Op: "set the time of", Path: name, Err: err}
	}
	return nil
}
