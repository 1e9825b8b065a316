package kafkalog

import (
	"errors"
	"io/fs"
	"math"
	"slices"

	"github.com/tidemark-io/tidemark/vfs"
)

// Options describe a log to [Open]. The zero value opens or creates a log with [DefaultConfig] after what may have been
// a crash.
type Options struct {
	// Config is the configuration; the zero Config is [DefaultConfig].
	Config Config
	// Clean says that the log was closed with everything flushed, and that nothing has written to it since. Then only a
	// few headers are read, or with Summary nothing, unless the files contradict it.
	Clean bool
	// Summary is what [Log.Summary] gave after the log was closed last, or nil. With Clean, and if the files agree with it,
	// no record file is read at all. Otherwise it is not looked at.
	Summary *Summary
	// RecoveryPoint is an offset below which every record was flushed, such as [Log.RecoveryPoint] gave. 0 or less is
	// unknown. Damage below it is never cut off. What recovery must read does not depend on it: the directory itself
	// proves that, since the snapshot at a segment's base is written only once everything below is on disk.
	RecoveryPoint int64
	// HighWatermark is an offset below which readers may have seen records; 0 or less is unknown. It protects nothing:
	// if a log follows the page cache, a power cut may take such records. A log that ends below it is reported to
	// Events.LogEndBehind.
	HighWatermark int64
	// Foreign says that the last writer may have been a Kafka broker, whose snapshots prove nothing. Then everything from
	// the segment that holds RecoveryPoint on is read.
	Foreign bool
	// Contiguous says that the offsets of the log have no holes: it assigned all of them itself, was never truncated inside
	// a batch and was not compacted. Then offsets missing above what is known to be flushed are records that a crash
	// lost, and recovery keeps nothing behind them, neither in the same file nor in later segments. Otherwise a hole is
	// legal, as in the log of a follower, and is kept.
	Contiguous bool
	// LogStart is a log start that was published elsewhere, such as in Kafka's file for a whole data directory. The log
	// start is raised to it. 0 or less is unknown.
	LogStart int64
}

// Open opens the log in a directory, or makes an empty one. It removes what interrupted operations left behind and
// recovers: after an unclean stop every segment that may hold unflushed records is read and checked, a torn or corrupt
// tail is cut off and reported to Events.PartialBatch, and what remains is made durable before Open returns. Damage in
// what was flushed is never cut off: a batch with a wrong checksum stays and reads report it; where not even the next
// batch can be found, Open fails with a [*CorruptionError].
//
// A directory belongs to one Log at a time; the caller sees to that. Errors are of class [ErrStorage], and [ErrClosed]
// of a closed Env.
func Open(env *Env, dir string, o Options) (*Log, error) {
	c := o.Config.normalised()
	o.Config = c
	l := &Log{env: env, dir: dir}
	l.config.Store(&c)
	l.mu.startOwed = -1
	l.mu.hole = never
	l.mu.lastFlush = env.nowMs()
	l.producers.state = newProducerState()
	ld := &loader{log: l, env: env, dir: dir, options: o, config: &c}
	err := ld.load()
	if err == nil {
		err = env.register(l)
	}
	if err != nil {
		ld.abandon()
		return nil, err
	}
	return l, nil
}

// loader is the state of one Open.
type loader struct {
	log     *Log
	env     *Env
	dir     string
	options Options
	config  *Config

	segments    []*segment
	start       int64 // checkpointed log start
	startFound  bool
	end         int64
	flushed     int64 // everything below is on disk
	epochs      *epochCache
	noEpochs    bool     // the epoch file is missing or unreadable
	young       bool     // see youngBytes
	modified    int64    // when the last segment's records were modified last, ns
	retiredTxns []int64  // bases of segments whose records survived a power cut and whose transaction index did not
	stopped     bool     // the files agree with a clean stop
	summary     *Summary // what was taken of the records from a summary, nil if they were read
	fresh       bool     // there was no log
}

// load brings the directory to one state and reads it. Each segment whose offsets do not fit its indexes is split, and the
// loading begins again.
func (ld *loader) load() error {
	if err := ld.makeDir(); err != nil {
		return err
	}
	for {
		err := ld.loadSegments()
		var overflow *overflowError
		if !errors.As(err, &overflow) {
			return err
		}
		if err := ld.split(overflow.segment); err != nil {
			return err
		}
		if err := ld.startAgain(); err != nil {
			return err
		}
	}
}

// startAgain discards what was loaded.
func (ld *loader) startAgain() (err error) {
	for _, s := range ld.segments {
		err = errors.Join(err, s.close())
	}
	ld.log.producers.state = newProducerState()
	*ld = loader{log: ld.log, env: ld.env, dir: ld.dir, options: ld.options, config: ld.config}
	return err
}

func (ld *loader) loadSegments() error {
	names, err := ld.clean()
	if err != nil {
		return err
	}
	if err := ld.findSegments(names); err != nil {
		return err
	}
	if err := ld.readStart(); err != nil {
		return err
	}
	if err := ld.readEpochs(); err != nil {
		return err
	}
	if err := ld.findEnd(); err != nil {
		return err
	}
	if err := ld.repairTransactions(names); err != nil {
		return err
	}
	if err := ld.honourStart(); err != nil {
		return err
	}
	if err := ld.ensureSegment(); err != nil {
		return err
	}
	if err := ld.settleEpochs(); err != nil {
		return err
	}
	if err := ld.settleProducers(); err != nil {
		return err
	}
	return ld.install()
}

// abandon closes the files of an Open that failed.
func (ld *loader) abandon() {
	for _, s := range ld.segments {
		s.close() // the Open has failed already, with a better error
	}
}

func (ld *loader) makeDir() error {
	if _, err := ld.env.fs.Stat(ld.dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return &IOError{Op: "stat", Path: ld.dir, Err: err}
	}
	if err := vfs.EnsureDir(ld.env.fs, ld.dir); err != nil {
		return &IOError{Op: "create directory", Path: ld.dir, Err: err}
	}
	return nil
}

// walkEnd returns the offset after the last batch, found by the headers from a position on; least if there is none.
func (s *segment) walkEnd(from, least int64) (int64, error) {
	r, err := s.reader()
	if err != nil {
		return 0, err
	}
	defer r.close()
	walk := r.walk(from)
	defer walk.close()
	for {
		h, found, err := walk.next()
		if err != nil || !found {
			return least, err
		}
		least = h.NextOffset()
	}
}

// findSegments makes a segment of each record file, and removes index files that belong to none.
func (ld *loader) findSegments(names []string) error {
	var bases []int64
	for _, name := range names {
		if !isLogName(name) {
			continue
		}
		base, err := parseLogName(name)
		if err != nil {
			return err
		}
		bases = append(bases, base)
	}
	ld.young = onlyRecords(names)
	for i, base := range bases {
		end := int64(math.MaxInt64)
		if i+1 < len(bases) {
			end = bases[i+1]
		}
		s := ld.env.newSegment(base, ld.config)
		if err := ld.attach(s, end, names); err != nil {
			return err
		}
		ld.segments = append(ld.segments, s)
	}
	for _, name := range names {
		base, ok := parseOffset(name)
		if !ok || !isIndexName(name) || slices.Contains(names, fileName(base, logSuffix)) {
			continue
		}
		if err := ld.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// attach gives the segment its files, of which only the length of the first is looked at. If an index file is missing both
// are made anew, which needsIndex remembers. Those of the last segment can wait until there is a reason to write them. The
// others are made beside their names, until nameIndexes, so that a crash leaves them missing and not half empty.
func (ld *loader) attach(s *segment, end int64, names []string) error {
	name := filePath(ld.dir, s.base, logSuffix)
	info, err := ld.env.fs.Stat(name)
	if err != nil {
		return &IOError{Op: "stat", Path: name, Err: err}
	}
	size := info.Size()
	s.size.Store(size)
	s.openedAt = size
	ld.modified = info.ModTime().UnixNano()
	limits := indexLimits{end: end, size: size}
	s.needsIndex = !slices.Contains(names, fileName(s.base, indexSuffix)) ||
		!slices.Contains(names, fileName(s.base, timeIndexSuffix))
	s.file = ld.env.files.open(name, vfs.ReadWrite)
	s.txns = openTxnIndex(ld.env.files.open(filePath(ld.dir, s.base, txnIndexSuffix), vfs.ReadWrite), s.base)
	ld.young = ld.young && size <= youngBytes
	index, times := filePath(ld.dir, s.base, indexSuffix), filePath(ld.dir, s.base, timeIndexSuffix)
	if s.needsIndex && (size == 0 || end == math.MaxInt64) {
		for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
			if err := ld.remove(fileName(s.base, suffix)); err != nil { // it may speak of records that are gone
				return err
			}
		}
		s.needsIndex, s.noIndexes = size > 0 && !ld.young, true
		s.index = newOffsetIndex(ld.env.files.createLater(index), s.base, math.MaxInt)
		s.times = newTimeIndex(ld.env.files.createLater(times), s.base, math.MaxInt)
		return nil
	}
	if s.needsIndex {
		s.index = newOffsetIndex(ld.env.files.createLater(index+tempSuffix), s.base, math.MaxInt)
		s.times = newTimeIndex(ld.env.files.createLater(times+tempSuffix), s.base, math.MaxInt)
		return nil
	}
	s.index = openOffsetIndex(ld.env.files.open(index, vfs.ReadWrite), s.base, math.MaxInt, limits)
	s.times = openTimeIndex(ld.env.files.open(times, vfs.ReadWrite), s.base, math.MaxInt, limits)
	return nil
}

// readStart finds the checkpointed log start: the larger of the directory's own and the one given.
func (ld *loader) readStart() error {
	start, found, err := readLogStart(ld.env.fs, ld.dir)
	if err != nil {
		return err
	}
	if ld.options.LogStart > start {
		first := int64(0)
		if len(ld.segments) > 0 {
			first = ld.segments[0].base
		}
		start = ld.options.LogStart
		if start > first {
			found = true
			if err := writeLogStart(ld.env.fs, ld.dir, start); err != nil {
				return err
			}
		}
	}
	ld.start, ld.startFound = start, found
	return nil
}

// readEpochs reads the epoch file. One that is damaged, or missing beside records, is made anew from the batches.
func (ld *loader) readEpochs() error {
	cache, found, err := loadEpochCache(ld.env.fs, ld.dir)
	var corrupt *CorruptionError
	if err != nil && !errors.As(err, &corrupt) {
		return err
	}
	if err != nil {
		if err := ld.env.setAside(ld.dir, epochFileName, err); err != nil {
			return err
		}
	}
	ld.epochs = cache
	ld.noEpochs = !found || err != nil
	if found && err == nil && len(cache.entries()) == 0 {
		// Nobody writes an empty file; it is what a crash may leave of one.
		info, err := ld.env.fs.Stat(cache.path)
		if err != nil {
			return &IOError{Op: "stat", Path: cache.path, Err: err}
		}
		ld.noEpochs = info.Size() == 0
	}
	return nil
}

// honourStart restarts a log that ends below its checkpointed start: no offset below a start that was published is ever
// assigned again.
func (ld *loader) honourStart() error {
	if ld.end >= ld.start || len(ld.segments) == 0 {
		return nil
	}
	for len(ld.segments) > 0 {
		last := len(ld.segments) - 1
		if err := ld.discard(ld.segments[last]); err != nil {
			return err
		}
		ld.segments = ld.segments[:last]
	}
	ld.end, ld.flushed = ld.start, ld.start
	ld.summary = nil // it is of what was just discarded
	ld.log.producers.state.reset(ld.start)
	if err := ld.log.snapshots.removeAll(); err != nil {
		return err
	}
	return ld.epochs.clear()
}

// discard removes the files of a segment, the records last, and its boundary snapshot.
func (ld *loader) discard(s *segment) error {
	if err := ld.remove(fileName(s.base, snapshotSuffix)); err != nil {
		return err
	}
	for _, h := range slices.Backward(s.handles()) {
		if err := h.remove(); err != nil {
			return err
		}
	}
	return nil
}

// ensureSegment makes the first segment of a log without any, and lets the last one take appends.
func (ld *loader) ensureSegment() error {
	if ld.fresh {
		ld.segments = append(ld.segments, ld.env.beginSegment(ld.dir, ld.config))
	}
	if len(ld.segments) == 0 {
		s, err := ld.env.createSegment(ld.dir, ld.start, ld.config)
		if err != nil {
			return err
		}
		ld.segments = append(ld.segments, s)
		ld.end, ld.flushed = ld.start, ld.start
		if err := ld.syncNames(); err != nil {
			return err
		}
	}
	active := ld.segments[len(ld.segments)-1]
	if err := active.reactivate(); err != nil {
		return err
	}
	if err := active.distrust(ld.end); err != nil {
		return err
	}
	_, _, err := active.largest()
	return err
}

// syncNames makes the names in the directory durable. Of a log that is new there is nothing to lose: its names become
// durable with its first records.
func (ld *loader) syncNames() error {
	if ld.fresh {
		ld.log.names.changed.Add(1)
		return nil
	}
	return ld.log.syncDir()
}

// distrust empties an index of the active segment that speaks of offsets at or above the log end, since nothing could be
// added to it.
func (s *segment) distrust(end int64) error {
	if last, found, err := s.index.last(); err != nil {
		return err
	} else if found && last.offset >= end {
		if err := s.index.reset(); err != nil {
			return err
		}
	}
	last, err := s.times.last()
	if err != nil || last.timestamp < 0 || last.offset < end {
		return err
	}
	return s.times.reset()
}

// settleEpochs brings the epoch cache in line with where the log begins and ends.
func (ld *loader) settleEpochs() error {
	if ld.noEpochs {
		if err := ld.rebuildEpochs(); err != nil {
			return err
		}
		// Also without an epoch there is a file, so that the next Open need not look. Beside few records it can wait for the
		// first roll, or a close when there are more.
		if ld.young || ld.holdsNothing() {
			ld.epochs.unwritten, ld.epochs.optional = true, true
			return nil
		}
		if err := ld.epochs.replace(ld.epochs.entries()); err != nil {
			return err
		}
	}
	if err := ld.epochs.write(); err != nil {
		return err
	}
	if err := ld.epochs.truncateFromEnd(ld.end); err != nil {
		return err
	}
	if !ld.startFound {
		return nil
	}
	return ld.epochs.truncateFromStart(ld.start, true)
}

// holdsNothing reports whether there is no record.
func (ld *loader) holdsNothing() bool {
	return len(ld.segments) == 1 && ld.segments[0].size.Load() == 0
}

// rebuildEpochs makes the epochs from the summary, or else walks the headers of the whole log. Damage that readers will meet ends
// the walk of its segment.
func (ld *loader) rebuildEpochs() error {
	ld.epochs = newEpochCache(ld.env.fs, ld.dir)
	if ld.young && ld.summary != nil {
		known := cutEpochsFrom(ld.summary.epochs, ld.end)
		ld.epochs.list.Store(&known)
		return nil
	}
	for _, s := range ld.segments {
		r, err := s.reader()
		if err != nil {
			return err
		}
		walk := r.walk(0)
		for {
			h, found, walkErr := walk.next()
			if walkErr != nil || !found {
				err = ignoreUnusable(walkErr)
				break
			}
			ld.epochs.replay(h.LeaderEpoch, h.BaseOffset)
		}
		walk.close()
		r.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// install makes what was loaded the log.
func (ld *loader) install() error {
	l := ld.log
	start, established := ld.start, ld.startFound
	if first := ld.segments[0].base; !ld.config.RemoteStorage && first > start {
		start = first
	}
	l.mu.fresh = ld.fresh || ld.epochs.optional && ld.holdsNothing()
	l.epochs = ld.epochs
	l.epochs.names = &l.names
	l.publish(ld.segments, start, established)
	l.end.Store(ld.end)
	l.flushed.Store(min(ld.flushed, ld.end))
	if o := ld.options; max(o.RecoveryPoint, o.HighWatermark) > ld.end {
		ld.env.events.LogEndBehind(LogEndBehindEvent{
			Dir: ld.dir, LogEnd: ld.end, RecoveryPoint: o.RecoveryPoint, HighWatermark: o.HighWatermark,
		})
	}
	return nil
}
