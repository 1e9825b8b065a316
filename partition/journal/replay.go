package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/vfs"
)

// ReplayOptions say what to restore, and where.
type ReplayOptions struct {
	FS  vfs.FS
	Dir string // the data directory

	// Find returns the path of the record file of a segment, and false if the partition no longer exists. It is called
	// by one goroutine.
	Find func(k Key, base int64) (file string, ok bool)

	// LeftAlone is called for each file that has changed since the journal was written, with the reason: nothing is
	// restored to it. May be nil. Calls do not overlap.
	LeftAlone func(file, reason string)

	// Workers is how many files are written and synced concurrently, at least 1.
	Workers int

	// Salvage restores the part of a damaged journal before the damage, and keeps the journal. Without it a damaged
	// journal is an error, and nothing is changed.
	Salvage bool

	// Waiting restores only the journals that wait because a file could not be written, and not the one in use.
	Waiting bool

	// KeepUnknown leaves a journal unchanged, whatever was restored from it, if Find does not know the partition of
	// some of its entries.
	KeepUnknown bool
}

// Replayed reports what [Replay] did.
type Replayed struct {
	Rounds  bool  // there was a journal with rounds
	Files   int   // that the journal has records of
	Written int   // those among them that had lost some
	Bytes   int64 // restored

	// Kept is where the journal is now if it was not restored completely, since nothing else may hold the rest.
	// Otherwise it is empty.
	Kept string

	// Damaged is the damage in a journal that was salvaged: what followed it may be lost. Otherwise it is nil.
	Damaged *CorruptError

	// Lacking are the files that could not be restored, for lack of space or because the device fails them. The journals
	// that hold records of them are kept, and the next Replay tries again. Nobody may write to the files until then.
	Lacking []Lacking

	// Unknown is how many partitions Find did not know, in journals that are kept for them. It is 0 without
	// KeepUnknown.
	Unknown int
}

// Lacking is a file that is not known to be complete.
type Lacking struct {
	File string
	Err  error // matches vfs.IsNoSpace if there was no space
}

// sourceError is a failure to read the journal, as opposed to a log's file.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

// add adds the outcome of a later journal.
func (d *Replayed) add(other Replayed) {
	d.Rounds = d.Rounds || other.Rounds
	d.Files, d.Written, d.Bytes = d.Files+other.Files, d.Written+other.Written, d.Bytes+other.Bytes
	d.Kept, d.Damaged = cmp.Or(other.Kept, d.Kept), cmp.Or(other.Damaged, d.Damaged)
	d.Lacking = append(d.Lacking, other.Lacking...)
	d.Unknown += other.Unknown
}

// Replay restores what the logs of a data directory lost in a power cut and the journal kept, makes it durable, and
// removes the journal, or renames it if a file was left alone. No log of which it holds anything may be open. Without a
// journal it does nothing. It blocks on the device; after a failure or an interruption it may be called again.
//
// A full disk affects only the files that would have to grow, and a device that fails one file affects only that one,
// see [Replayed].Lacking. The journal is then renamed, and waits beside the next one. It records which partitions wait, and nothing of it is restored to others again: they are
// served, and their segments may be rewritten. If that note is missing or damaged, only what a log has lost behind its
// last batch is restored.
//
// A file that no longer exists is skipped, since only a deletion removes it. So is one that holds, in the place of the
// journal's bytes, a whole batch of a later leader epoch, and one whose next segment has offsets of the journal's: then
// a server without a journal has written to the log since.
//
// Errors: [*CorruptError] and [*VersionError] of the journal, and those of the file system.
func Replay(o ReplayOptions) (Replayed, error) {
	names, next, err := waiting(o.FS, o.Dir)
	if err != nil {
		return Replayed{}, err
	}
	if !o.Waiting {
		failed, _, err := setAside(o.FS, o.Dir)
		if err != nil {
			return Replayed{}, err
		}
		if err := removeTemporary(o.FS, o.Dir); err != nil {
			return Replayed{}, err
		}
		names = append(append(names, failed...), FileName) // the newest last
	}
	var all Replayed
	lacking := map[string]error{} // the files that an older journal has something of that could not be restored
	for _, name := range names {
		if !waits(name) {
			next++ // its number if it has to wait
		}
		done, err := replayFile(o, name, next, lacking)
		if err != nil {
			return Replayed{}, err
		}
		for _, l := range done.Lacking {
			lacking[l.File] = l.Err
		}
		all.add(done)
	}
	return all, nil
}

// replayFile is Replay of one journal. If it has to wait and does not yet, it gets the number next. What it has of files that lack
// something older waits with that.
func replayFile(o ReplayOptions, name string, next int, lacking map[string]error) (Replayed, error) {
	whole := path.Join(o.Dir, name)
	file, err := o.FS.Open(whole, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return Replayed{}, nil
	}
	if err != nil {
		return Replayed{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Replayed{}, err
	}
	r := &replay{
		ReplayOptions: o, reader: reader{name: whole, file: file, size: info.Size(), salvage: o.Salvage}, byFile: map[string]*target{},
		numbers: map[Key]int{},
	}
	if err := r.reader.entries(r.note); err != nil {
		if !o.Salvage || !errors.As(err, &r.done.Damaged) {
			return Replayed{}, err
		}
		r.left = true
	}
	if err := r.restrict(waits(name)); err != nil {
		return Replayed{}, err
	}
	if err := r.putBack(lacking); err != nil {
		return Replayed{}, err
	}
	if len(r.done.Lacking) > 0 && r.done.Unknown == 0 {
		if err := r.markLacking(); err != nil {
			return Replayed{}, err
		}
	}
	switch {
	case r.done.Unknown > 0:
	case len(r.done.Lacking) > 0 && waits(name): // it waits already
	case len(r.done.Lacking) > 0:
		err = errors.Join(o.FS.Rename(whole, path.Join(o.Dir, waitingPrefix+strconv.Itoa(next))), o.FS.SyncDir(o.Dir))
	case r.left:
		r.done.Kept, err = putAside(o.FS, o.Dir, name)
	default:
		err = remove(o.FS, o.Dir, name)
	}
	return r.done, err
}

// waitingPrefix and a number are the name of a journal that waits for space, failedPrefix and a number of the records of logs that
// failed, and leftPrefix and a number of a journal that is kept, at which no start looks.
const (
	waitingPrefix = FileName + ".waiting-"
	failedPrefix  = FileName + ".failed-"
	leftPrefix    = FileName + ".left-"
)

// waits reports whether a journal waits for space, by its name.
func waits(name string) bool { return strings.HasPrefix(name, waitingPrefix) }

// waiting returns the names of the journals that wait, in the order in which they were written, and the number of the last.
func waiting(fsys vfs.FS, dir string) (names []string, last int, err error) {
	return numbered(fsys, dir, waitingPrefix)
}

// setAside returns the names of the files with records of logs that failed, in the order in which they were written, and the
// number of the last.
func setAside(fsys vfs.FS, dir string) (names []string, last int, err error) {
	return numbered(fsys, dir, failedPrefix)
}

// others returns the names of the journals beside the one in use that Replay restores, in its order.
func others(fsys vfs.FS, dir string) ([]string, error) {
	names, _, err := waiting(fsys, dir)
	if err != nil {
		return nil, err
	}
	failed, _, err := setAside(fsys, dir)
	return append(names, failed...), err
}

// Left returns the names of the journals of a data directory that are kept because they were not restored completely,
// oldest first.
func Left(fsys vfs.FS, dir string) ([]string, error) {
	names, _, err := numbered(fsys, dir, leftPrefix)
	return names, err
}

// numbered returns the names that are a prefix and a number, by rising numbers, and the last number.
func numbered(fsys vfs.FS, dir, prefix string) (names []string, last int, err error) {
	entries, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	var numbers []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.Atoi(digits); ok && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		names, last = append(names, prefix+strconv.Itoa(n)), n
	}
	return names, last, err
}

// putAside renames the journal so that no start looks for it, and returns the new name.
func putAside(fsys vfs.FS, dir, journal string) (string, error) {
	for n := 1; ; n++ {
		name := path.Join(dir, leftPrefix+strconv.Itoa(n))
		_, err := fsys.Stat(name)
		if err == nil {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(fsys.Rename(path.Join(dir, journal), name), fsys.SyncDir(dir))
		}
		return name, err
	}
}

// Exists reports whether a data directory has a journal: the one in use, one that waits, or records that were set aside.
func Exists(fsys vfs.FS, dir string) (bool, error) {
	names, err := others(fsys, dir)
	if err != nil || len(names) > 0 {
		return len(names) > 0, err
	}
	_, err = fsys.Stat(path.Join(dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Remove removes the journal of a data directory, those that wait and what was set aside, durably. Without any it does
// nothing. The caller knows that all logs are synced.
func Remove(fsys vfs.FS, dir string) error {
	names, err := others(fsys, dir)
	for _, name := range append(names, FileName) {
		err = errors.Join(err, remove(fsys, dir, name))
	}
	return errors.Join(err, removeTemporary(fsys, dir))
}

// removeTemporary removes what a crash left of setting records aside: the journal has them.
func removeTemporary(fsys vfs.FS, dir string) error {
	entries, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), failedPrefix) && strings.HasSuffix(e.Name(), vfs.TempSuffix) {
			err = errors.Join(err, remove(fsys, dir, e.Name()))
		}
	}
	return err
}

func remove(fsys vfs.FS, dir, name string) error {
	err := fsys.Remove(path.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// replay is one call of [Replay].
type replay struct {
	ReplayOptions
	reader reader

	targets []*target // in the order in which the journal first names them
	byFile  map[string]*target
	numbers map[Key]int // of the partitions, in the order in which the journal first names them
	keys    []Key       // by number
	unknown []Key
	doubt   bool // it waits, and does not say for which partitions

	mu   sync.Mutex // guards what follows, and the calls of LeftAlone
	done Replayed
	left bool // a file was left alone, now or before the journal had to wait

	lacking []*target // of done.Lacking
}

// target is a file and what the journal has of it, mostly ordered by position in the file.
type target struct {
	file   string
	number int // of its partition
	pieces []located
}

// note files an entry under its file.
func (r *replay) note(e located) error {
	r.done.Rounds = true
	number, seen := r.numbers[e.Key]
	if !seen {
		number = len(r.keys)
		r.numbers[e.Key], r.keys = number, append(r.keys, e.Key)
	}
	name, ok := r.Find(e.Key, e.Base)
	if !ok {
		r.unknown = append(r.unknown, e.Key)
		return nil
	}
	t := r.byFile[name]
	if t == nil {
		t = &target{file: name, number: number}
		r.byFile[name] = t
		r.targets = append(r.targets, t)
	}
	t.pieces = append(t.pieces, e)
	return nil
}

// putBack restores all files but those that lack something already, several at a time.
func (r *replay) putBack(lacking map[string]error) error {
	errs := make([]error, len(r.targets))
	_ = parallel.Each(context.Background(), len(r.targets), max(r.Workers, 1), func(i int) {
		err, lacks := lacking[r.targets[i].file]
		if !lacks {
			err = r.restore(r.targets[i])
		}
		var source *sourceError
		if err != nil && !errors.As(err, &source) {
			r.lack(r.targets[i], err)
			err = nil
		}
		errs[i] = err
	})
	return errors.Join(errs...)
}

// restore brings one file to what the journal says and syncs it.
func (r *replay) restore(t *target) (err error) {
	file, err := r.FS.Open(t.file, vfs.ReadWrite)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	next, err := r.nextSegment(t.file, t.pieces[0].Base)
	if err != nil {
		return err
	}
	written := int64(0)
	var front walk
	for _, piece := range t.pieces {
		n, reason, err := r.restorePiece(file, piece, next, &front)
		if err != nil {
			return err
		}
		if reason != "" {
			r.leave(t.file, reason)
			break
		}
		written += n
	}
	if err := file.Sync(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Files++
	r.done.Bytes += written
	if written > 0 {
		r.done.Written++
	}
	return nil
}

func (r *replay) lack(t *target, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lacking = append(r.lacking, t)
	r.done.Lacking = append(r.done.Lacking, Lacking{t.file, err})
}

func (r *replay) leave(file, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
	if r.LeftAlone != nil {
		r.LeftAlone(file, reason)
	}
}

// nextSegment returns the base offset of the segment after the one of a file, or math.MaxInt64. A segment without records
// may be left over from a roll that was undone.
func (r *replay) nextSegment(file string, base int64) (int64, error) {
	entries, err := r.FS.List(path.Dir(file))
	if err != nil {
		return 0, err
	}
	next := int64(math.MaxInt64)
	for _, e := range entries {
		digits, isLog := strings.CutSuffix(e.Name(), path.Ext(file))
		other, err := strconv.ParseInt(digits, 10, 64)
		if !isLog || err != nil || other <= base || other >= next {
			continue
		}
		info, err := r.FS.Stat(path.Join(path.Dir(file), e.Name()))
		if err != nil {
			return 0, err
		}
		if info.Size() > 0 {
			next = other
		}
	}
	return next, nil
}

// restorePiece writes the records of one entry, even if they are already there, and returns how many bytes were missing.
// reason says why the file is not theirs. Records from the offset next on are of another segment. front is what is known
// of the batches before them, which is read only in doubt.
func (r *replay) restorePiece(file vfs.File, e located, next int64, front *walk) (written int64, reason string, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, "", err
	}
	if info.Size() < e.Position {
		return 0, fmt.Sprintf("it has %d bytes, and what the journal has of it begins at %d", info.Size(), e.Position), nil
	}
	want, err := r.reader.bytes(e.at, int(e.length))
	if err != nil {
		return 0, "", &sourceError{err}
	}
	have := make([]byte, min(e.length, info.Size()-e.Position))
	if _, err := file.ReadAt(have, e.Position); err != nil && err != io.EOF {
		return 0, "", err
	}
	if bytes.Equal(want, have) {
		// They may have been read from memory alone: after a failed fsync the next one succeeds without them. Overwriting
		// them with themselves takes no space on most file systems; where it does and there is none, the start must not
		// fail because of it.
		if _, err = file.WriteAt(want, e.Position); vfs.IsNoSpace(err) {
			err = nil
		}
		return 0, "", err
	}
	at, later, err := laterBatch(want, file, e.Position, info.Size())
	if err != nil {
		return 0, "", err
	}
	if end := endOf(want); end > next {
		return 0, fmt.Sprintf("what the journal has of it ends at offset %d, and the next segment begins at %d", end, next), nil
	}
	if later {
		return 0, fmt.Sprintf("at %d it holds a batch of a later leader than the journal's", e.Position+at), nil
	}
	if r.doubt {
		if reason, err := front.wouldContinue(file, e.Position, info.Size(), want, have); err != nil || reason != "" {
			return 0, reason, err
		}
	}
	_, err = file.WriteAt(want, e.Position)
	return e.length, "", err
}

// endOf returns the offset after the last of the batches, 0 if there is none.
func endOf(batches []byte) (end int64) {
	for {
		b, rest, err := batch.Next(batches)
		if err != nil {
			return end
		}
		end, batches = b.LastOffset()+1, rest
	}
}

// laterBatch reports whether, from a position of a file on, a complete batch of a later leader epoch is in the place of
// one of the wanted batches, and how far after the position. A torn batch is not complete, and one of the same leader was
// left by a failed append.
func laterBatch(want []byte, file vfs.File, position, size int64) (at int64, later bool, err error) {
	for {
		wanted, rest, err := batch.Next(want)
		if err != nil {
			return 0, false, nil
		}
		found, err := wholeBatch(file, position+at, size)
		if err != nil || found == nil {
			return 0, false, err
		}
		if !bytes.Equal(wanted, found) {
			return at, found.LeaderEpoch() > wanted.LeaderEpoch(), nil
		}
		at += int64(len(wanted))
		want = rest
	}
}

// wholeBatch reads the batch at a position of a file of the given size. It returns nil if there is none, or not all of it.
func wholeBatch(file vfs.File, position, size int64) (batch.Batch, error) {
	const largest = 128 << 20 // nothing larger is a batch
	if size-position < batch.HeaderSize {
		return nil, nil
	}
	b := make([]byte, batch.HeaderSize)
	if _, err := file.ReadAt(b, position); err != nil && err != io.EOF {
		return nil, err
	}
	h, err := batch.ParseHeader(b)
	if err != nil || h.Size() > largest || int64(h.Size()) > size-position {
		return nil, nil
	}
	b = make([]byte, h.Size())
	if _, err := file.ReadAt(b, position); err != nil && err != io.EOF {
		return nil, err
	}
	found, _, err := batch.Next(b)
	if err != nil || found.VerifyCRC() != nil {
		return nil, nil
	}
	return found, nil
}
