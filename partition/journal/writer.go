package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/vfs"
)

// FileName is the journal's file in a data directory.
const FileName = "tidemark.journal"

// DefaultBytes is the size of a journal, both sides together.
const DefaultBytes = 128 << 20

// leastFree is how many times its own size must be free on the disk for a journal to be made.
const leastFree = 16

// Options say where a journal is and how large.
type Options struct {
	FS    vfs.FS
	Dir   string // the data directory
	Bytes int64  // of both sides together, at least 64 KiB; 0 is [DefaultBytes]

	// Generation is that of the first rounds. 0 draws a random one, which nobody who writes records can guess: their
	// bytes remain in the space of older rounds, and must not be taken for rounds.
	Generation uint64
}

// Writer adds rounds to a journal. One goroutine at a time uses it, except that any may call [Writer.Free] and, for a side
// that takes no rounds, [Writer.SetAside].
//
// The file is created with the first round. It must not exist before: [Replay] and [Remove] ensure that.
type Writer struct {
	fs       vfs.FS
	name     string
	sideSize int64

	file       vfs.File // nil before the first round
	side       int      // that rounds are added to
	end        int64    // where in the side the next round begins
	generation uint64   // of that side; before the first round, one less than its
	begun      bool     // a side was
	sequence   uint32   // of the next round
	round      []byte   // room for the header, then entries
	used       [2]atomic.Bool
	holds      [2]sideRounds
	failed     error
}

// sideRounds are the rounds of one side that are durable.
type sideRounds struct {
	generation uint64
	rounds     uint32
	end        int64 // where in the side the next one would begin
}

// NewWriter returns a writer. It does no I/O.
func NewWriter(o Options) *Writer {
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.Generation == 0 {
		o.Generation = rand.Uint64()>>1 + 1
	}
	return &Writer{
		fs: o.FS, name: path.Join(o.Dir, FileName), sideSize: sectors(max(o.Bytes, 64<<10) / 2), side: 1,
		generation: o.Generation - 1,
	}
}

// Begin starts a round of no more than size bytes of entries, see [EntrySize], and returns the side that it goes to.
// When the side changes, the caller begins to sync what the other side holds. The error is [ErrFull] while that has not
// been done, and otherwise final: the journal accepts no more rounds, and its contents are left unchanged.
func (w *Writer) Begin(size int) (side int, err error) {
	if w.failed != nil {
		return 0, w.failed
	}
	need := sectors(roundHeaderSize + int64(size))
	if size > MaxRoundBytes || need > w.sideSize {
		return 0, fmt.Errorf("%s: a round of %d bytes does not fit", w.name, size)
	}
	if w.file == nil {
		if err := w.create(); err != nil {
			return 0, w.fail(err)
		}
	}
	if !w.begun || w.end+need > w.sideSize {
		if err := w.turn(); err != nil {
			return 0, err
		}
	}
	if w.round == nil {
		w.round = make([]byte, roundHeaderSize)
	}
	w.round = w.round[:roundHeaderSize]
	return w.side, nil
}

// create makes the file and reserves its blocks, if the disk has room for a journal.
func (w *Writer) create() error {
	if disk, ok := w.fs.(vfs.SpaceReporter); ok {
		if free, _, err := disk.Space(path.Dir(w.name)); err == nil && free < leastFree*2*w.sideSize {
			return fmt.Errorf("%s: a journal of %d bytes is not made with %d bytes free", w.name, 2*w.sideSize, free)
		}
	}
	file, err := w.fs.Open(w.name, vfs.CreateNew)
	if err != nil {
		return err
	}
	w.file = file
	if p, ok := file.(vfs.Preallocator); ok {
		if err := p.Preallocate(0, sectorSize+2*w.sideSize); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return errors.Join(err, w.fs.Remove(w.name))
		}
	}
	if _, err := file.WriteAt(encodeHeader(w.sideSize), 0); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return w.fs.SyncDir(path.Dir(w.name))
}

// turn begins the other side: what it held is no longer needed.
func (w *Writer) turn() error {
	if w.Full() {
		return ErrFull
	}
	if err := w.clear(1 - w.side); err != nil {
		return w.fail(err)
	}
	w.begun, w.side, w.end, w.sequence = true, 1-w.side, 0, 0
	w.generation++
	w.holds[w.side] = sideRounds{generation: w.generation}
	w.used[w.side].Store(true)
	return nil
}

// clear makes a side that holds rounds begin with none, durably, before the first new one is written over them. A power cut might
// otherwise keep the end of that write and not its beginning: what precedes it would be whole rounds, and what follows it too,
// which is what damage looks like.
func (w *Writer) clear(side int) error {
	if w.holds[side].rounds == 0 {
		return nil
	}
	if _, err := w.file.WriteAt(make([]byte, sectorSize), sectorSize+int64(side)*w.sideSize); err != nil {
		return err
	}
	return w.file.Sync()
}

// Size is how many bytes the entries of the round take so far.
func (w *Writer) Size() int { return max(len(w.round)-roundHeaderSize, 0) }

// Add adds an entry to the current round. Its records are what appendRecords appends to the slice that it is given, no
// more than length bytes. An error of appendRecords is returned, and the round is then unchanged.
func (w *Writer) Add(e Entry, length int, appendRecords func(dst []byte) ([]byte, error)) error {
	before := len(w.round)
	round := appendEntryHeader(w.round, e, length)
	at := len(round)
	round, err := appendRecords(round)
	if err == nil && len(round)-at != length {
		err = fmt.Errorf("%s: %d bytes of records, not %d", w.name, len(round)-at, length)
	}
	if err != nil {
		w.round = round[:before]
		return err
	}
	w.round = round
	return nil
}

// EntrySize returns how many bytes of a round an entry with the given number of bytes of records takes.
func EntrySize(records int64) int64 { return entryHeaderSize + records }

// keptRound is how large a round's memory may be to be kept for the next.
const keptRound = 2 << 20

// Commit writes the round and makes it durable. It blocks on the device. An error is final: it is unknown whether the
// round is in the journal, earlier rounds are, and no more rounds can be added.
func (w *Writer) Commit() error {
	if w.Size() == 0 {
		return nil
	}
	round := sealRound(w.round, w.generation, w.sequence)
	if _, err := w.file.WriteAt(round, sectorSize+int64(w.side)*w.sideSize+w.end); err != nil {
		return w.fail(err)
	}
	if err := w.file.Sync(); err != nil {
		return w.fail(err)
	}
	w.end += int64(len(round))
	w.sequence++
	w.holds[w.side] = sideRounds{generation: w.generation, rounds: w.sequence, end: w.end}
	w.round = round[:roundHeaderSize]
	if cap(round) > keptRound {
		w.round = nil
	}
	return nil
}

// Full reports whether the other side is not free yet.
func (w *Writer) Full() bool { return w.used[1-w.side].Load() }

// Free says that everything in a side is durable elsewhere, so that it may be overwritten. Any goroutine may call it.
func (w *Writer) Free(side int) { w.used[side].Store(false) }

// fail makes err the answer to every later round.
func (w *Writer) fail(err error) error {
	if w.failed == nil {
		w.failed = fmt.Errorf("journal: %w", err)
	}
	return w.failed
}

// Close closes the file, which stays.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file, w.failed = nil, fmt.Errorf("journal: %w", errClosed)
	return file.Close()
}

var errClosed = errors.New("it is closed")
