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

// RepairOptions say what is known of a log that is to be repaired. The zero value knows nothing.
type RepairOptions struct {
	// Flushed is an offset below which every record is known to have been on disk, and Visible one below which readers may
	// have seen records; such as the checkpoint files of a data directory say. A repaired log does not end below: offsets
	// that records had are not given to others. 0 and less say nothing.
	Flushed, Visible int64
	// LogStart is a log start that was published elsewhere. It is taken when the log's own file is damaged. 0 and less say
	// nothing.
	LogStart int64
	// Foreign says that the last writer may have been a Kafka broker, whose snapshots prove nothing above Flushed, see [Options].
	Foreign bool
	// Abort says of which producers open transactions are ended with abort markers behind the end of the log. Nil: of none.
	// Nothing shows whether a transaction whose marker is lost was committed, and one that is open may be under way in a
	// cluster that goes on with it.
	Abort func(producerID int64) bool
	// Progress is told how many bytes of records were read since it was told last: all of them while a repair is planned, and
	// once more when what was repaired is checked. Nil: nobody is.
	Progress func(bytes int64)
	// Now is the clock, nil is the system clock.
	Now func() time.Time
}

// RepairAction is what a repair does about one thing.
type RepairAction string

const (
	// CutTail cuts off what stands behind the last whole batch of a file. Nothing readable is behind it.
	CutTail RepairAction = "cut tail"
	// LeaveOut takes bytes out of the middle of a log. What follows them stays, at its own offsets.
	LeaveOut RepairAction = "leave out"
	// PutRight gives a batch the base offset that it must have had. Nothing is lost.
	PutRight RepairAction = "put right"
	// FillEnd has the log end where it is known to have ended, though the records are gone.
	FillEnd RepairAction = "fill end"
	// MakeAgain has a file made again from the records.
	MakeAgain RepairAction = "make again"
	// SetAside takes a file out of the log that cannot be made again.
	SetAside RepairAction = "set aside"
)

// RepairStep is one thing that is wrong with a log, and what a repair does about it. The bytes are kept in the directory
// `quarantine` of the log's own in every case.
type RepairStep struct {
	Action   RepairAction
	File     string // its name in the log's directory
	Reason   string // what is wrong
	Position int64  // of the first byte that goes, in bytes
	Bytes    int64  // that go
	// First and Next are the offsets that the log does not have afterwards: from First up to Next, which is not one of them.
	// They are equal where none are lost. Consumers that come to them go on at Next.
	First, Next int64
	// Records is how many the headers of what goes speak of. Headers may be damaged as well.
	Records int64
}

// Repair is what is wrong with a log, and would be done about it. Make one with [PlanRepair].
type Repair struct {
	Dir   string
	Steps []RepairStep
	// Start and End are the log start and the log end afterwards.
	Start, End int64
	// Transactions are those whose end is lost and put back, in the order of their ends, and those that are open then, in the
	// order of their beginnings.
	Transactions []RepairTransaction
	// Notes are about the records and say what a repair does nothing about.
	Notes []string
	// Unrepairable says what keeps the log from being repaired.
	Unrepairable []error

	fs         vfs.FS
	env        *Env
	options    RepairOptions
	segments   []*repairSegment
	recordsEnd int64    // End without the markers that are written behind it
	remake     []string // index files to take away, so that they are made again
}

// PlanRepair reads all of a log and says what is wrong with it and what [Repair.Apply] would do. The log must not be open.
//
// What an interrupted operation left behind is brought to its end first, as [Open] does. Nothing else is written; who wants
// nothing to be written at all gives a file system that keeps changes to itself. Errors are of class [ErrStorage].
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

// ErrUnrepairable is the class of what [Repair.Apply] answers when there is something that a repair cannot mend. Nothing was
// changed then.
var ErrUnrepairable = errors.New("kafkalog: cannot be repaired")

// Changes reports whether there is anything for [Repair.Apply] to do.
func (r *Repair) Changes() bool { return len(r.Steps) > 0 || r.aborts() }

// Apply does what was planned, and opens and checks the log. It returns where the bytes are that the log no longer has,
// which are on disk before anything of the log is changed. A crash at any moment leaves a log that can be opened, or that
// another repair can finish. Errors are of class [ErrStorage] and [ErrUnrepairable].
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
	return step.File == logStartFileName && step.Action == MakeAgain || isTxnIndexName(step.File) || isRemade(step)
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
	findings := l.check(r.options.Progress)
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
