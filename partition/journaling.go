package partition

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs"
)

// JournalFile is the name of the shared journal in a data directory.
const JournalFile = journal.FileName

// JournalOptions say where the shared journal of a data directory is. See package journal for what it does.
type JournalOptions struct {
	FS    vfs.FS
	Dir   string // the data directory
	Bytes int64  // reserved on the disk while it is in use; 0 is 128 MiB
	From  int    // number of dirty logs from which the journal is used; 0 is 2

	// Failed is called once when the journal is abandoned, on the goroutine that did the work: from then on every log
	// is synced individually. Nothing that was acknowledged depends on this call. May be nil.
	Failed func(error)

	// SetAside is called when records of logs that cannot be synced any more were moved to a file of their own, on the
	// goroutine that did the work. May be nil.
	SetAside func(JournalSetAside)
}

// JournalSetAside describes records that a side of the journal held of logs that failed. They are in a file of their own,
// which the next start restores; the journal goes on without them.
type JournalSetAside struct {
	File  string // its name, in the data directory
	Bytes int64  // of the file
	Logs  int    // that failed and had something in the side
	Err   error  // of one of them
}

const (
	// defaultJournalFrom is the number of dirty logs from which one sync of the journal takes less time than as many
	// syncs side by side (see docs/performance.md).
	defaultJournalFrom = 2

	// journalRoundBytes bounds one round, and its memory.
	journalRoundBytes = 4 << 20

	// journalLogBytes bounds what one log puts into a round. More than that costs about as much to write twice as a sync.
	journalLogBytes = 128 << 10

	// writeBackBytes is how much of a log accumulates before the device is asked to write it, so that the log's next
	// sync, and all others at that time, have little left to do.
	writeBackBytes = 256 << 10

	// setAsideFiles is how many files there may be with records of logs that failed. Together they are no larger than the
	// journal. A log fails once, so what needs more is the failure of a whole device, which a journal does not help.
	setAsideFiles = 64

	// settleWorkers is how many logs are synced at the same time for a side to be freed. More would hold up the journal's
	// own syncs.
	settleWorkers = 2
)

// sharedJournal is the flusher's use of the journal. What is not atomic belongs to the worker that has the turn.
type sharedJournal struct {
	options JournalOptions
	writer  *journal.Writer
	side    int          // that the last round went to
	holds   [2][]*syncer // the logs of which a side holds records

	full   atomic.Bool // both sides are; until one is settled
	gaveUp atomic.Bool // for good

	rounds atomic.Int64 // so far
	bytes  atomic.Int64 // of records in these
	aside  atomic.Int64 // bytes of the files with records of logs that failed
	files  int          // of these; the settling's, of which there is one at a time
}

// rider is a log whose round is in the journal's round.
type rider struct {
	syncer *syncer
	round  *round
	tail   kafkalog.Tail
}

func (j *sharedJournal) open(o JournalOptions) {
	if o.FS == nil {
		return
	}
	if o.Bytes == 0 {
		o.Bytes = journal.DefaultBytes
	}
	if o.From == 0 {
		o.From = defaultJournalFrom
	}
	j.options = o
	j.writer = journal.NewWriter(journal.Options{FS: o.FS, Dir: o.Dir, Bytes: o.Bytes})
}

// close closes the file, and leaves it.
func (j *sharedJournal) close() {
	if j.writer != nil {
		_ = j.writer.Close() // every round in it was synced
	}
}

// worthwhile reports whether so many dirty logs should go into the journal instead of being synced one by one.
func (j *sharedJournal) worthwhile(dirty int) bool {
	return dirty >= j.options.From && j.writer != nil && !j.full.Load() && !j.gaveUp.Load()
}

// inUse reports whether there is a journal that takes rounds, or will again.
func (j *sharedJournal) inUse() bool { return j.writer != nil && !j.gaveUp.Load() }

// roundBytes is what one round may have.
func (j *sharedJournal) roundBytes() int { return int(min(journalRoundBytes, j.options.Bytes/8)) }

// giveUp ends the use of the journal. What it holds stays, for the next start.
func (j *sharedJournal) giveUp(err error) {
	if !j.gaveUp.Swap(true) && j.options.Failed != nil {
		j.options.Failed(err)
	}
}

// RemoveJournal removes the journal. It is called once every log has been closed cleanly: the data directory is then
// what Apache Kafka would have left.
func (f *Flusher) RemoveJournal() error {
	if f.journal.writer == nil {
		return nil
	}
	return RemoveJournal(f.journal.options.FS, f.journal.options.Dir)
}

// RemoveJournal removes the journal that a process left behind. It is called before opening logs that were closed
// cleanly.
func RemoveJournal(fs vfs.FS, dir string) error { return journal.Remove(fs, dir) }

// HasJournal reports whether a data directory has a journal that a start would replay after an unclean stop.
func HasJournal(fs vfs.FS, dir string) (bool, error) { return journal.Exists(fs, dir) }

// JournalInspection is what one journal holds.
type JournalInspection = journal.Inspection

// InspectJournals reads the journals of a data directory and changes nothing. No server may be using it.
func InspectJournals(fs vfs.FS, dir string) ([]JournalInspection, error) {
	return journal.Inspect(fs, dir)
}

// LeftJournals returns the names of the journals of a data directory that were kept because they could not be restored
// completely. No start reads them.
func LeftJournals(fs vfs.FS, dir string) ([]string, error) { return journal.Left(fs, dir) }

// JournalReplay says what [ReplayJournal] did.
type JournalReplay = journal.Replayed

// ReplayJournal restores to the files of logs what a power cut took and the journal of the data directory kept, and
// removes the journal, or renames it if it could not be restored completely. It is called after an unclean stop, before
// any log is opened. find returns the directory of a partition, and false if it no longer exists; leftAlone is called
// for files that have changed since the journal was written. It blocks on the device, and may be called again after a
// failure. Errors to match: [*journal.CorruptError], [*journal.VersionError].
func ReplayJournal(fs vfs.FS, dir string, find func(topic [16]byte, index int32) (dir string, ok bool),
	leftAlone func(file, reason string)) (JournalReplay, error) {
	return replayJournal(fs, dir, find, leftAlone, journal.ReplayOptions{})
}

// SalvageJournal is [ReplayJournal] for a journal that may be damaged: the part before the damage is restored, and the
// journal is kept under another name.
func SalvageJournal(fs vfs.FS, dir string, find func(topic [16]byte, index int32) (dir string, ok bool),
	leftAlone func(file, reason string)) (JournalReplay, error) {
	return replayJournal(fs, dir, find, leftAlone, journal.ReplayOptions{Salvage: true})
}

// SalvageKnownJournal is SalvageJournal for a caller that may not be able to identify every directory: if find does not
// know a partition of which the journal holds records, the journal is left unchanged.
func SalvageKnownJournal(fs vfs.FS, dir string, find func(topic [16]byte, index int32) (dir string, ok bool),
	leftAlone func(file, reason string)) (JournalReplay, error) {
	return replayJournal(fs, dir, find, leftAlone, journal.ReplayOptions{Salvage: true, KeepUnknown: true})
}

// ReplayWaiting restores what ReplayJournal could not because the disk was full, from the journals that were kept for
// it. No log whose directory find returns may be open.
func ReplayWaiting(fs vfs.FS, dir string, find func(topic [16]byte, index int32) (dir string, ok bool),
	leftAlone func(file, reason string)) (JournalReplay, error) {
	return replayJournal(fs, dir, find, leftAlone, journal.ReplayOptions{Salvage: true, Waiting: true})
}

func replayJournal(fs vfs.FS, dir string, find func(topic [16]byte, index int32) (dir string, ok bool),
	leftAlone func(file, reason string), o journal.ReplayOptions) (JournalReplay, error) {
	o.FS, o.Dir, o.LeftAlone, o.Workers = fs, dir, leftAlone, DefaultSyncWorkers
	o.Find = func(k journal.Key, base int64) (string, bool) {
		dir, ok := find(k.Topic, k.Partition)
		return kafkalog.RecordFile(dir, base), ok
	}
	return journal.Replay(o)
}

// journalTurn puts the dirty logs into the journal as one round. The worker that has the turn calls it; it passes the
// turn on as soon as the round is durable, and answers the appends after that.
func (f *Flusher) journalTurn() {
	j := &f.journal
	var gathered []kafkalog.Tail
	riders, err := f.gather()
	if err == nil && len(riders) > 0 {
		if err = j.writer.Commit(); err == nil {
			gathered = f.keep(riders)
		}
	}
	switch {
	case errors.Is(err, journal.ErrFull):
		j.full.Store(true)
		if !j.writer.Full() { // a side has just become free
			j.full.Store(false)
		}
	case err != nil:
		j.giveUp(err)
	}
	f.mu.Lock()
	f.mu.turn = false
	f.wakeAllLocked()
	f.mu.Unlock()
	for _, r := range riders {
		if err != nil {
			f.syncAlone(r.syncer, r.round)
			continue
		}
		r.round.journaled = true
		r.syncer.complete(r.round, r.tail.End, nil)
	}
	for _, tail := range gathered {
		_ = tail.WriteBack() // a hint; the next sync of the file will report errors
	}
}

// wakeAllLocked wakes as many workers as there is work for.
func (f *Flusher) wakeAllLocked() {
	if f.mu.idle == 0 {
		f.wakeLocked()
	}
	for range min(f.mu.idle, f.mu.dirty.length+f.mu.alone.length) {
		f.mu.work.Signal()
	}
	if f.mu.closed {
		f.mu.work.Broadcast()
	}
}

// gather begins a round of the journal and adds as much of what is dirty as fits. Logs that cannot take part are handed
// to other workers. If it fails, the riders' rounds have still been taken.
func (f *Flusher) gather() (riders []rider, err error) {
	j := &f.journal
	room := int64(j.roundBytes())
	for room > 0 {
		s := f.nextDirty()
		if s == nil {
			break
		}
		r := rider{syncer: s, round: s.take()}
		size, ok := r.prepare()
		if !ok || size > int64(j.roundBytes()) {
			f.syncAlone(s, r.round)
			continue
		}
		if size > room {
			f.putBack(s, r.round)
			break
		}
		if len(riders) == 0 {
			if err := f.beginRound(); err != nil {
				return []rider{r}, err
			}
		}
		if err := r.addTo(j.writer); err != nil { // of reading the log, which its own sync will report
			f.syncAlone(s, r.round)
			continue
		}
		room -= size
		riders = append(riders, r)
	}
	return riders, nil
}

// prepare determines what the log has for the journal, and how much of a round that takes. It reports false if the
// journal is not for it: too much, nothing that anybody waits for, or bytes of more than one file.
func (r *rider) prepare() (size int64, ok bool) {
	s := r.syncer
	tail, ok := s.tail()
	if tail.Base == s.kept.Base {
		tail = tail.From(s.kept.Position + s.kept.Size)
	}
	r.tail = tail
	return journal.EntrySize(tail.Size), ok && r.round.appends > 0 && tail.Size <= journalLogBytes
}

func (r *rider) addTo(w *journal.Writer) error {
	if r.tail.Size == 0 {
		return nil // all of it was in the round before, or has been synced since
	}
	entry := journal.Entry{Key: r.syncer.key, Base: r.tail.Base, Position: r.tail.Position}
	return w.Add(entry, int(r.tail.Size), r.round.appendTail(r.tail))
}

// beginRound begins a round of the journal. When it is the first of a side, the other one is settled.
func (f *Flusher) beginRound() error {
	j := &f.journal
	side, err := j.writer.Begin(j.roundBytes())
	if err != nil || side == j.side {
		return err
	}
	settled := j.holds[j.side]
	f.ended.Go(func() { f.settleSide(1-side, settled) })
	j.side, j.holds[side] = side, nil
	return nil
}

// putBack makes a log dirty again whose round was taken but did not get into the journal.
func (f *Flusher) putBack(s *syncer, taken *round) {
	s.taken = taken
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.dirty.push(s)
}

func (f *Flusher) nextDirty() *syncer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.dirty.pop()
}

// keep records what the journal now holds. It returns what has accumulated in the logs and is worth writing to the
// device.
func (f *Flusher) keep(riders []rider) (gathered []kafkalog.Tail) {
	j := &f.journal
	wrote := int64(0)
	for _, r := range riders {
		s := r.syncer
		if r.tail.Size == 0 {
			continue
		}
		wrote += r.tail.Size
		s.kept = r.tail
		if s.gather(r.tail); s.since.Size >= writeBackBytes {
			gathered = append(gathered, s.since)
			s.since = kafkalog.Tail{}
		}
		if !s.sides[j.side] {
			s.sides[j.side] = true
			j.holds[j.side] = append(j.holds[j.side], s)
		}
	}
	if wrote > 0 {
		j.rounds.Add(1)
		j.bytes.Add(wrote)
	}
	return gathered
}

// gather adds a tail to those before it, unless it does not follow them.
func (s *syncer) gather(tail kafkalog.Tail) {
	if s.since.Size > 0 && s.since.Base == tail.Base && s.since.Position+s.since.Size == tail.Position {
		s.since.Size += tail.Size
		return
	}
	s.since = tail
}

// settleSide syncs the logs of which a full side holds records, and frees the side. Its records of logs that failed are set
// aside first.
func (f *Flusher) settleSide(side int, logs []*syncer) {
	for {
		failed, again := settleLogs(logs)
		if !again {
			err := f.setAside(side, failed)
			if err == nil {
				break
			}
			if !vfs.IsNoSpace(err) {
				// The side may be the only place that has the acknowledged records of these logs.
				f.journal.giveUp(errors.Join(err, failed[0].err))
				return
			}
		}
		select {
		case <-time.After(syncRetryDelay):
		case <-f.stop:
			return
		}
	}
	for _, s := range logs {
		s.sides[side] = false
	}
	f.journal.writer.Free(side)
	f.journal.full.Store(false)
}

// unsettled is a log that failed, so the journal may be the only place that has its acknowledged records.
type unsettled struct {
	key journal.Key
	err error
}

// settleLogs syncs logs. It returns those that failed for good, and whether any is to be tried again.
func settleLogs(logs []*syncer) (failed []unsettled, again bool) {
	errs := make([]error, len(logs))
	_ = parallel.Each(context.Background(), len(logs), settleWorkers, func(i int) { errs[i] = logs[i].settle() })
	for i, err := range errs {
		switch {
		case err == nil:
		case final(err):
			failed = append(failed, unsettled{logs[i].key, err})
		default:
			again = true
		}
	}
	return failed, again
}

// setAside moves what a side holds of logs that failed to a file of its own.
func (f *Flusher) setAside(side int, failed []unsettled) error {
	if len(failed) == 0 {
		return nil
	}
	j := &f.journal
	keys := make(map[journal.Key]bool, len(failed))
	for _, u := range failed {
		keys[u.key] = true
	}
	if j.files == setAsideFiles {
		return journal.ErrTooMuch
	}
	done, err := j.writer.SetAside(side, func(k journal.Key) bool { return keys[k] }, j.options.Bytes-j.aside.Load())
	if err != nil || done.Name == "" {
		return err
	}
	j.files++
	j.aside.Add(done.Bytes)
	if j.options.SetAside != nil {
		j.options.SetAside(JournalSetAside{File: done.Name, Bytes: done.Bytes, Logs: len(failed), Err: failed[0].err})
	}
	return nil
}

// unsyncedTail is what a sync would make durable, unless the log's segments may be rewritten instead of being added to.
func (l *Log) unsyncedTail() (kafkalog.Tail, bool) {
	if l.settings.Load().config.CleanupPolicy.Compacts() {
		return kafkalog.Tail{}, false
	}
	return l.store.UnsyncedTail()
}

// settle makes the log durable in its own files. For a log that was closed cleanly that has been done, and of one that
// is deleted nothing is to be kept.
func (l *Log) settle() error {
	_, err := l.syncStore()
	if err == nil {
		return nil
	}
	switch ended := l.ended(); {
	case errors.Is(ended, ErrDeleted):
		return nil
	case errors.Is(ended, ErrClosed):
		<-l.mu.closed
		return l.mu.err
	}
	if final(err) {
		l.syncer.kick() // the round of its own then ends the log, as any failed sync does
	}
	return err
}
