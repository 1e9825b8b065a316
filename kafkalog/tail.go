package kafkalog

import "slices"

// Tail describes the records of a log that no sync has covered yet, all of them in the file of its active segment. A
// caller that keeps a durable copy of these bytes elsewhere, and restores them to that file after a power cut, before
// [Open], has made the records as durable as [Log.SyncTo] would have.
type Tail struct {
	Base     int64 // base offset of the active segment, which names its file: see [RecordFile]
	Position int64 // of the first byte in that file
	Size     int64 // bytes: whole batches
	End      int64 // the log end behind them

	segment *segment
}

// UnsyncedTail returns the records that a [Log.SyncTo] would make durable. It is false if SyncTo would have to do more
// than sync one file that is known to exist after a power cut: a segment was just begun, an older one is still being
// flushed, a truncation is unfinished, or the log accepts no more appends. It does not wait for the device.
func (l *Log) UnsyncedTail() (Tail, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writable() != nil || l.mu.trimOwed || l.mu.hole != never || l.sealed.stalled.Load() ||
		l.names.synced.Load() < l.names.changed.Load() || !l.env.roll.settled(&l.rollJobs) {
		return Tail{}, false
	}
	active := l.view.Load().active()
	from, size := active.syncedSize(), active.size.Load()
	return Tail{Base: active.base, Position: from, Size: size - from, End: l.end.Load(), segment: active}, true
}

// RecordFile returns the path of the file with the records of the segment with that base offset, in a log's directory.
func RecordFile(dir string, base int64) string { return filePath(dir, base, logSuffix) }

// From returns the part of the tail at or after a position of the file, which must be the end of a batch.
func (t Tail) From(position int64) Tail {
	if skip := position - t.Position; skip > 0 {
		t.Position, t.Size = position, t.Size-skip
	}
	return t
}

// AppendTo appends the bytes to dst. They come from the page cache, mostly. The error is of class [ErrStorage].
func (t Tail) AppendTo(dst []byte) ([]byte, error) {
	if t.Size <= 0 {
		return dst, nil
	}
	reader, err := t.segment.reader()
	if err != nil {
		return dst, err
	}
	defer reader.close()
	n := len(dst)
	dst = slices.Grow(dst, int(t.Size))[:n+int(t.Size)]
	if err := reader.readAt(dst[n:], t.Position); err != nil {
		return dst[:n], err
	}
	return dst, nil
}

// WriteBack asks the system to begin writing the bytes to the device, so that a later sync has less to do. It
// guarantees nothing, and does nothing if the file system does not support it. If the device fails it, every later sync of
// the file fails too: the system may have reported to this call what no sync reports again.
func (t Tail) WriteBack() error {
	return t.segment.unlessGone(t.segment.file.writeBack(t.Position, t.Size))
}

// syncedSize is how many bytes of the file survive a power cut.
func (s *segment) syncedSize() int64 { return max(s.openedAt, s.synced.Load()) }

// noteSynced says that an fsync has covered the first size bytes of the file.
func (s *segment) noteSynced(size int64) {
	for {
		old := s.synced.Load()
		if size <= old || s.synced.CompareAndSwap(old, size) {
			return
		}
	}
}

// settled reports whether no job of the queue is left and none has failed.
func (f *rollFlusher) settled(q *rollQueue) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return q.err == nil && q.done == q.taken
}
