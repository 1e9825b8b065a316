package kafkalog

import (
	"errors"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// segment is the files that share one base offset. Readers use what is marked so; the rest belongs to the log's writer.
type segment struct {
	env  *Env
	base int64

	file  *handle // the records; readers may acquire it at any time
	index *offsetIndex
	times *timeIndex
	txns  *txnIndex

	size atomic.Int64 // bytes of whole batches; for readers
	// cutAt is where the file was cut in place after this segment was replaced in the view by a shorter one. Bytes from
	// there on may be foreign. For readers.
	cutAt                atomic.Int64
	synced               atomic.Int64 // bytes that a sync covered since this process opened or created the segment, see syncedSize
	indexTold, timesTold atomic.Bool  // that the index cannot be used

	gone    atomic.Bool // its files are retired, so nothing in it has to become durable
	unmade  atomic.Bool // there is no file of records yet, see beginSegment
	max     maxStamp    // for readers
	finding sync.Mutex  // held while max is found

	openedAt   int64 // size when this process opened or created the segment
	unindexed  int64 // bytes since the last index entry
	firstStamp int64 // max timestamp of the first batch, unknownStamp until it was looked up
	created    int64 // ms: when this process opened or created the segment
	jitter     int64 // ms by which it rolls earlier
	dirty      bool  // something was written that no fsync covered
	needsIndex bool  // the index file was missing when the log was opened
	noIndexes  bool  // the index files may not have been made yet, so their names are not durable either

	older *segment // what stood for these files before the last cut in place
}

// unknownStamp is the first timestamp of a segment that nobody looked up.
const unknownStamp = math.MinInt64

// maxStamp is the largest timestamp of a segment with the last offset of the earliest batch that has it, (-1, -1) if
// there is none. One writer, any number of readers, none of which waits: a reader that meets a change reads again.
type maxStamp struct {
	version   atomic.Uint64 // odd during a change
	timestamp atomic.Int64
	offset    atomic.Int64
	known     atomic.Bool // false until it was read from the time index
}

func (m *maxStamp) set(timestamp, offset int64) {
	m.version.Add(1)
	m.timestamp.Store(timestamp)
	m.offset.Store(offset)
	m.known.Store(true)
	m.version.Add(1)
}

func (m *maxStamp) get() (timestamp, offset int64, known bool) {
	for {
		before := m.version.Load()
		timestamp, offset, known = m.timestamp.Load(), m.offset.Load(), m.known.Load()
		if before%2 == 0 && m.version.Load() == before {
			return timestamp, offset, known
		}
	}
}

// segmentFiles are the suffixes of a segment's own files, the records first.
var segmentFiles = [...]string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix}

// createSegment makes an empty segment: the file for the records now, those of the indexes when there is something to write
// or the segment is sealed. A leftover of one of the names is emptied or removed. Names are not synced. If it fails the
// file is removed again; a [*leftoverError] says that it could not be.
func (e *Env) createSegment(dir string, base int64, c *Config) (*segment, error) {
	name := filePath(dir, base, logSuffix)
	file := e.files.open(name, vfs.ReadWrite)
	if err := file.createFile(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, file.close()) // there was no directory to make it in
		}
		return nil, errors.Join(err, e.unmake(dir, []*handle{file})) // it may be there all the same
	}
	for _, suffix := range segmentFiles[1:] {
		leftover := filePath(dir, base, suffix)
		if err := e.fs.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(&IOError{Op: "remove", Path: leftover, Err: err}, e.unmake(dir, []*handle{file}))
		}
	}
	s := e.emptySegment(dir, base, file, c)
	s.dirty = true
	return s, nil
}

// beginSegment is the first segment of a log that never had one. It has no files: that of the records is made with the first
// append, or before anything else of the log is written. Thousands of partitions are made that nobody writes to for a while, and
// to make a file is what takes the time.
func (e *Env) beginSegment(dir string, c *Config) *segment {
	s := e.emptySegment(dir, 0, e.files.openOrCreateLater(filePath(dir, 0, logSuffix)), c)
	s.unmade.Store(true)
	return s
}

// emptySegment is a segment of a file for records with nothing in it, whose index files are not there.
func (e *Env) emptySegment(dir string, base int64, file *handle, c *Config) *segment {
	s := e.newSegment(base, c)
	s.file = file
	s.index = newOffsetIndex(e.files.createLater(filePath(dir, base, indexSuffix)), base, math.MaxInt)
	s.times = newTimeIndex(e.files.createLater(filePath(dir, base, timeIndexSuffix)), base, math.MaxInt)
	s.txns = newTxnIndex(e.files.open(filePath(dir, base, txnIndexSuffix), vfs.ReadWrite), base)
	s.noIndexes = true
	s.max.set(-1, -1)
	return s
}

// makeRecords makes the file of the segment's records, if there is none. The lock is held.
func (l *Log) makeRecords(s *segment) error {
	if !s.unmade.Load() {
		return nil
	}
	if _, err := s.file.acquire(); err != nil {
		return err
	}
	s.file.release()
	l.noteMade(s)
	return nil
}

// noteMade says that the file of the segment's records is there. The lock is held.
func (l *Log) noteMade(s *segment) {
	if s.unmade.Load() {
		s.unmade.Store(false)
		l.names.changed.Add(1)
	}
}

// leftoverError says that a file of a segment that did not come to be may still be there.
type leftoverError struct{ err error }

func (e *leftoverError) Error() string {
	return "a file of a segment that was not made may be left: " + e.err.Error()
}

func (e *leftoverError) Unwrap() error { return e.err }

// unmake removes the files of a segment that was not completed. That there are none says nothing in a directory that
// was moved away, and may come back with them.
func (e *Env) unmake(dir string, files []*handle) error {
	var failed error
	for _, h := range files {
		failed = errors.Join(failed, h.remove())
	}
	if _, err := e.fs.Stat(dir); err != nil {
		failed = errors.Join(failed, &IOError{Op: "stat", Path: dir, Err: err})
	}
	if failed != nil {
		return &leftoverError{failed}
	}
	return nil
}

func (e *Env) newSegment(base int64, c *Config) *segment {
	s := &segment{env: e, base: base, firstStamp: unknownStamp, created: e.nowMs()}
	s.cutAt.Store(math.MaxInt64)
	if spread := min(c.SegmentJitterMs, c.SegmentMs); spread > 0 {
		s.jitter = e.jitter(spread)
	}
	return s
}

// largest returns the largest record timestamp, or -1, and the last offset of the earliest batch that has it. What this
// process did not write is found once, by findMax.
func (s *segment) largest() (timestamp, offset int64, err error) {
	if timestamp, offset, known := s.max.get(); known {
		return timestamp, offset, nil
	}
	s.finding.Lock()
	defer s.finding.Unlock()
	if _, _, known := s.max.get(); !known {
		if err := s.findMax(); err != nil {
			return -1, -1, err
		}
	}
	timestamp, offset, _ = s.max.get()
	return timestamp, offset, nil
}

// findMax finds the largest timestamp: the last one of the time index, if the batch that it names has it, and what lies
// behind the offset index. The batches behind the last indexed one are looked at, all of them if the time index lies.
func (s *segment) findMax() error {
	r, err := s.reader()
	if err != nil {
		return err
	}
	defer r.close()
	last, found, err := r.claimedMax()
	if err != nil {
		return err
	}
	timestamp, offset, from := int64(-1), int64(-1), int64(0)
	if found {
		timestamp, offset = last.timestamp, last.offset
		if from, err = s.floor(math.MaxInt64); err != nil {
			return err
		}
	}
	walk := r.walk(from)
	if from > 0 && !walk.beginsAtOrBelow(math.MaxInt64) {
		walk.position = 0
	}
	defer walk.close()
	for {
		h, found, err := walk.next()
		if err != nil {
			return err
		}
		if !found {
			break
		}
		if h.MaxTimestamp > timestamp {
			timestamp, offset = h.MaxTimestamp, h.LastOffset()
		}
	}
	s.max.set(timestamp, offset)
	return nil
}

// claimedMax returns the last entry of the time index, and false if there is none or it does not describe a batch.
func (r *segmentReader) claimedMax() (timeEntry, bool, error) {
	last, err := r.segment.times.lookup(math.MaxInt64)
	if err != nil {
		return last, false, r.segment.withoutIndex(err)
	}
	if last.timestamp < 0 {
		return last, false, nil
	}
	walk, err := r.walkFrom(last.offset)
	if err != nil {
		return last, false, err
	}
	defer walk.close()
	h, _, found, err := walk.seek(last.offset)
	if err != nil {
		return last, false, err
	}
	return last, found && h.LastOffset() == last.offset && h.MaxTimestamp == last.timestamp, nil
}

// age returns what time retention and look-ups compare: the largest record timestamp, or the file's modification time
// if no record has one.
func (s *segment) age() (int64, error) {
	timestamp, _, err := s.largest()
	if err != nil || timestamp >= 0 {
		return timestamp, err
	}
	return s.modified()
}

// modified returns the modification time of the record file in ms.
func (s *segment) modified() (int64, error) {
	if s.unmade.Load() {
		return s.created, nil
	}
	info, err := s.stat()
	if err != nil {
		return 0, err
	}
	return info.ModTime().UnixMilli(), nil
}

// stat describes the record file, whatever its name is.
func (s *segment) stat() (fs.FileInfo, error) {
	file, err := s.file.acquire()
	if err != nil {
		return nil, err
	}
	defer s.file.release()
	info, err := file.Stat()
	if err != nil {
		return nil, &IOError{Op: "stat", Path: s.file.path(), Err: err}
	}
	return info, nil
}

// floor returns the position of a batch at or before the one that holds the offset. If the index cannot be read as one
// it is the start of the segment: an index only saves time.
func (s *segment) floor(offset int64) (int64, error) {
	entry, err := s.index.lookup(offset)
	if err != nil {
		return 0, s.withoutIndex(err)
	}
	return entry.position, nil
}

// floorWithin returns the position of an indexed batch behind from which certainly ends within budget bytes from there,
// and which begins below limit; or from, or less, if the index knows none.
func (s *segment) floorWithin(from, budget, limit int64) (int64, error) {
	below := limit - 1
	if bound, found, err := s.index.upperBound(from + budget); err != nil {
		return from, s.withoutIndex(err)
	} else if found {
		below = min(below, bound.offset-1)
	}
	// The batch of the last entry that fits may end too late; the one of the entry before it ends where that one begins
	// or earlier.
	last, err := s.index.lookup(below)
	if err != nil {
		return from, s.withoutIndex(err)
	}
	before, err := s.index.lookup(last.offset - 1)
	if err != nil {
		return from, s.withoutIndex(err)
	}
	return before.position, nil
}

func unusableIndex(err error) bool {
	var corrupt *CorruptionError
	return errors.As(err, &corrupt) || errors.Is(err, fs.ErrNotExist)
}

// ignoreUnusable drops the error of an index that cannot be read as one, or that was unlinked with its segment while a
// reader still holds the records.
func ignoreUnusable(err error) error {
	if unusableIndex(err) || errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// indexBatch accounts for a batch that was written at the position: the largest timestamp, and now and then an entry in
// both indexes.
func (s *segment) indexBatch(h *batch.Header, position, interval int64) error {
	timestamp, offset, err := s.largest()
	if err != nil {
		return err
	}
	if h.MaxTimestamp > timestamp {
		timestamp, offset = h.MaxTimestamp, h.LastOffset()
		s.max.set(timestamp, offset)
	}
	if s.unindexed > interval {
		if err := s.index.append(h.LastOffset(), position); err != nil {
			return err
		}
		if timestamp >= 0 {
			if err := s.times.maybeAppend(timestamp, offset, false); err != nil {
				return err
			}
		}
		s.unindexed = 0
	}
	s.unindexed += int64(h.Size())
	return nil
}

// firstTimestamp returns the max timestamp of the first batch, -1 if it has none or there is no batch.
func (s *segment) firstTimestamp() (int64, error) {
	if s.firstStamp != unknownStamp {
		return s.firstStamp, nil
	}
	r, err := s.reader()
	if err != nil {
		return -1, err
	}
	defer r.close()
	walk := r.walk(0)
	defer walk.close()
	h, found, err := walk.next()
	if err != nil || !found {
		return -1, err
	}
	s.firstStamp = h.MaxTimestamp
	return s.firstStamp, nil
}

// seal gives the indexes their final entry and their exact length. Nothing is durable before sync.
func (s *segment) seal() error {
	timestamp, offset, err := s.largest()
	if err != nil {
		return err
	}
	if timestamp >= 0 {
		if err := s.times.activate(); err != nil {
			return err
		}
		if err := s.times.maybeAppend(timestamp, offset, true); err != nil {
			return err
		}
	}
	if err := s.index.seal(); err != nil {
		return err
	}
	if err := s.times.seal(); err != nil {
		return err
	}
	return s.txns.seal()
}

// syncRecords makes the records durable. It may run concurrently with the writer.
func (s *segment) syncRecords() error { return s.unlessGone(s.file.sync()) }

// syncDirty is syncRecords if there are any that no fsync covered.
func (s *segment) syncDirty() error {
	if !s.dirty {
		return nil
	}
	return s.syncRecords()
}

// syncIndexes makes what was written to the indexes durable.
func (s *segment) syncIndexes() error {
	if err := s.index.sync(); err != nil {
		return s.unlessGone(err)
	}
	if err := s.times.sync(); err != nil {
		return s.unlessGone(err)
	}
	return s.unlessGone(s.txns.sync())
}

// unlessGone drops the error of a segment whose files were retired and unlinked meanwhile.
func (s *segment) unlessGone(err error) error {
	if s.gone.Load() {
		return nil
	}
	return err
}

// handles returns the handles of the segment's files, the records first.
func (s *segment) handles() []*handle {
	return []*handle{s.file, s.index.file, s.times.file, s.txns.file}
}

// close closes the handles of the segment. Readers that hold its file continue.
func (s *segment) close() error {
	var first error
	for _, h := range s.handles() {
		if err := h.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
