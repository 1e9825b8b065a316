package kafkalog

import (
	"errors"
	"fmt"
	"math"
	"path"
	"time"

	"github.com/tidemark-io/tidemark/internal/quarantine"
	"github.com/tidemark-io/tidemark/vfs"
)

// RepairOptions say what is known about a log that is to be repaired. With the zero value nothing is known.
type RepairOptions struct {
	// Flushed is an offset below which every record is known to have been on disk, and Visible one below which readers may
	// have seen records; such as the checkpoint files of a data directory say. A repaired log does not end below them:
	// offsets that records had are not reused. 0 or less is unknown.
	Flushed, Visible int64
	// Proven is the offset below which every record is known to have been on disk, if the last stop was unclean and nothing
	// above it was acknowledged that was not on disk: behind the first batch from there on that is damaged or missing nothing
	// stays, as [Open] would cut the log there. Producers will send it again. 0 or less is unknown: whatever is whole stays.
	Proven int64
	// LogStart is a log start that was published elsewhere. It is used if the log's own file is damaged. 0 or less is
	// unknown.
	LogStart int64
	// Foreign says that the last writer may have been a Kafka broker, whose snapshots prove nothing above Flushed, see [Options].
	Foreign bool
	// Abort selects the producers whose open transactions are ended with abort markers at the end of the log. Nil
	// selects none. Nothing shows whether a transaction whose marker is lost was committed, and an open one may be in
	// progress in a cluster that will continue it.
	Abort func(producerID int64) bool
	// Progress is called with the number of bytes of records read since its last call: all of them while a repair is
	// planned, and once more when the repaired log is checked. May be nil.
	Progress func(bytes int64)
	// Now is the clock, nil is the system clock.
	Now func() time.Time
}

// RepairAction is what a repair does about one problem.
type RepairAction string

const (
	// CutTail cuts off what follows the last whole batch of a file. Nothing readable follows it.
	CutTail RepairAction = "cut tail"
	// LeaveOut removes bytes from the middle of a log. What follows them stays, at its own offsets.
	LeaveOut RepairAction = "leave out"
	// PutRight restores the base offset that a batch must have had. Nothing is lost.
	PutRight RepairAction = "put right"
	// FillEnd makes the log end where it is known to have ended, although the records are lost.
	FillEnd RepairAction = "fill end"
	// MakeAgain rebuilds a file from the records.
	MakeAgain RepairAction = "make again"
	// SetAside moves a file out of the log that cannot be rebuilt.
	SetAside RepairAction = "set aside"
)

// RepairStep is one problem of a log, and what a repair does about it. The bytes are kept in the directory `quarantine`
// of the log's own in every case.
type RepairStep struct {
	Action   RepairAction
	File     string // its name in the log's directory
	Reason   string // what is wrong
	Position int64  // of the first byte that goes, in bytes
	Bytes    int64  // that go
	// First and Next are the offsets that the log does not have afterwards: from First up to Next, which is not one of them.
	// They are equal if none are lost. Consumers that reach them continue at Next.
	First, Next int64
	// Records is the number of records according to the headers of the removed bytes. Headers may
	// be damaged as well.
	Records int64
}

// Repair describes what is wrong with a log, and what would be done about it. [PlanRepair] returns one.
type Repair struct {
	Dir   string
	Steps []RepairStep
	// Start and End are the log start and the log end afterwards.
	Start, End int64
	// Transactions are those whose lost end is restored, in the order of their ends, and those that are open
	// afterwards, in the order of their beginnings.
	Transactions []RepairTransaction
	// Notes are about the records and describe what a repair does not change.
	Notes []string
	// Unrepairable says what keeps the log from being repaired.
	Unrepairable []error

	fs         vfs.FS
	env        *Env
	options    RepairOptions
	segments   []*repairSegment
	recordsEnd int64    // End without the markers that are written behind it
	remake     []string // index files to remove, so that they are rebuilt
}

// PlanRepair reads all of a log and says what is wrong with it and what [Repair.Apply] would do. The log must not be open.
//
// Interrupted operations are completed first, as by [Open]. Nothing else is written; to write nothing at all, pass a
// file system that keeps changes in memory. Errors are of class [ErrStorage].
func PlanRepair(fsys vfs.FS, dir string, o RepairOptions) (*Repair, error) {
	r := &Repair{Dir: dir, Steps: []RepairStep{}, fs: fsys, options: o}
	r.env = NewEnv(EnvOptions{FS: fsys, Now: o.Now})
	defer r.env.Close() // nothing stays open in it
	names, err := r.loader().clean()
	if err != nil {
		return nil, err
	}
	if err := r.findSegments(names); err != nil {
		return nil, err
	}
	if err := r.findStart(names); err != nil {
		return nil, err
	}
	for _, s := range r.segments {
		if err := s.scan(); err != nil {
			r.Unrepairable = append(r.Unrepairable, err)
		}
	}
	if len(r.Unrepairable) == 0 {
		names = r.cutUnproven(names)
	}
	r.settleRecords()
	r.recordsEnd = r.End
	if len(r.Unrepairable) == 0 {
		r.settleTransactions(names)
	}
	return r, r.findSidecars(names)
}

// loader is one that only tidies up.
func (r *Repair) loader() *loader {
	return &loader{log: &Log{env: r.env, dir: r.Dir}, env: r.env, dir: r.Dir, config: &Config{}}
}

// findSegments finds the files of records. One whose name says nothing is set aside: its records have no offsets.
func (r *Repair) findSegments(names []string) error {
	for _, name := range names {
		if !isLogName(name) {
			continue
		}
		base, err := parseLogName(name)
		if err != nil {
			r.add(RepairStep{Action: SetAside, File: name, Reason: "the name is not that of a segment"})
			continue
		}
		s := &repairSegment{repair: r, name: name, base: base, limit: never}
		if n := len(r.segments); n > 0 {
			r.segments[n-1].limit = base
			s.before = r.segments[n-1]
		}
		r.segments = append(r.segments, s)
	}
	return nil
}

func (r *Repair) add(step RepairStep) {
	if step.Action == SetAside || step.Action == MakeAgain {
		if info, err := r.fs.Stat(path.Join(r.Dir, step.File)); err == nil {
			step.Bytes = info.Size()
		}
	}
	r.Steps = append(r.Steps, step)
}

func (r *Repair) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// last is the segment with the highest base, nil without any.
func (r *Repair) last() *repairSegment {
	if len(r.segments) == 0 {
		return nil
	}
	return r.segments[len(r.segments)-1]
}

// ErrUnrepairable is the class of errors that [Repair.Apply] returns for damage that cannot be repaired. Nothing was
// changed then.
var ErrUnrepairable = errors.New("kafkalog: cannot be repaired")

// Changes reports whether there is anything for [Repair.Apply] to do.
func (r *Repair) Changes() bool { return len(r.Steps) > 0 || r.aborts() }

// Apply does what was planned, and opens and checks the log. It returns the files with the bytes that were removed from
// the log, which are durable before anything in the log is changed. A crash at any moment leaves a log that can be
// opened, or that another repair can finish. Errors are of class [ErrStorage] and [ErrUnrepairable].
func (r *Repair) Apply() (kept []string, err error) {
	if len(r.Unrepairable) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrUnrepairable, errors.Join(r.Unrepairable...))
	}
	if !r.Changes() {
		return nil, nil
	}
	r.env = NewEnv(EnvOptions{FS: r.fs, Now: r.options.Now})
	defer func() { err = errors.Join(err, r.env.Close()) }()
	if kept, err = r.keep(); err != nil {
		return nil, &IOError{Op: "keep aside what is in", Path: r.Dir, Err: err}
	}
	if r.startIsDamaged() && r.Start > 0 {
		if err := writeLogStart(r.fs, r.Dir, r.Start); err != nil {
			return kept, err
		}
	}
	for _, name := range r.remake {
		if err := r.loader().remove(name); err != nil {
			return kept, err
		}
	}
	for _, s := range r.segments {
		if err := s.mend(); err != nil {
			return kept, err
		}
	}
	return kept, r.finish()
}

// startIsDamaged reports whether the log's own file of its start is among what is wrong.
func (r *Repair) startIsDamaged() bool {
	for _, step := range r.Steps {
		if step.File == logStartFileName {
			return true
		}
	}
	return false
}

// keep puts everything into the quarantine that the log is about to lose.
func (r *Repair) keep() ([]string, error) {
	if len(r.Steps) == 0 {
		return nil, nil
	}
	set, err := quarantine.In(r.fs, r.Dir).Begin(r.env.now(), quarantine.ByRepair)
	if err != nil {
		return nil, err
	}
	for _, step := range r.Steps {
		if err := r.keepOne(set, step); err != nil {
			return nil, errors.Join(err, set.Discard())
		}
	}
	return set.Paths(), set.Commit()
}

// keepOne adds what one step takes out of the log.
func (r *Repair) keepOne(set *quarantine.Set, step RepairStep) error {
	var lost *quarantine.Offsets
	if step.Next > step.First {
		lost = &quarantine.Offsets{First: step.First, Next: step.Next, Records: step.Records}
	}
	switch {
	case step.Action == FillEnd:
		return nil
	case step.Action == CutTail, step.Action == LeaveOut, step.Action == PutRight:
		return set.Part(step.File, step.Position, step.Bytes, lost, step.Reason)
	case step.stays():
		return r.copyIfThere(set, step)
	}
	return set.Move(step.File, lost, step.Reason)
}

// stays reports whether a file must be in its place until the new one takes it: without the one a log would start where it
// started at first, without the others transactions would not be known to be aborted.
func (step RepairStep) stays() bool {
	return step.Action == MakeAgain && (step.File == logStartFileName || isTxnIndexName(step.File)) || isRemade(step)
}

// isRemade reports whether a step is about an index that is taken away once it is kept.
func isRemade(step RepairStep) bool { return step.Action == MakeAgain && isIndexName(step.File) }

func (r *Repair) copyIfThere(set *quarantine.Set, step RepairStep) error {
	if _, err := r.fs.Stat(path.Join(r.Dir, step.File)); err != nil {
		return nil // it is missing, which is what is wrong with it
	}
	return set.Copy(step.File, step.Reason)
}

// finish opens the log, which makes the files again that are missing, holds it against what must be true of one, and ends the
// transactions that are to be aborted.
func (r *Repair) finish() error {
	config := DefaultConfig()
	config.SegmentMs = math.MaxInt64 // a marker begins no segment
	l, err := Open(r.env, r.Dir, Options{RecoveryPoint: r.recordsEnd, Config: config})
	if err != nil {
		return err
	}
	findings, _ := l.check(r.options.Progress)
	if len(findings) == 0 && l.LogEnd() != r.recordsEnd {
		findings = append(findings, Finding{File: r.Dir, Problem: fmt.Sprintf("the log ends at %d, not %d", l.LogEnd(), r.recordsEnd)})
	}
	if len(findings) == 0 {
		err = r.abort(l)
	}
	if err := errors.Join(err, l.Sync(), l.Close()); err != nil {
		return err
	}
	if len(findings) > 0 {
		return &CorruptionError{Path: r.Dir, Reason: "after the repair: " + findings[0].String()}
	}
	return nil
}
