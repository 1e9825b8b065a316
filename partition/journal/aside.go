package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/tidemark-io/tidemark/vfs"
)

// A log that failed cannot be synced until it is opened again, so what a side holds of it may be the only durable copy of what was
// acknowledged. Those records alone go to a file of their own; the side is then free for the other logs.

// Aside is what [Writer.SetAside] wrote.
type Aside struct {
	Name  string // of the file in the data directory, empty if the side had nothing of the partitions
	Bytes int64  // of the file
}

// SetAside copies what a side holds of the selected partitions to a file of its own, which [Replay] restores before the
// journal in use. When it returns nil the file is durable, and the side may be freed as far as these partitions are
// concerned. A file of more than most bytes is not written: the error is [ErrTooMuch].
//
// Nothing may be added to the side meanwhile; rounds of the other one may be. It blocks on the device. After an error the
// side is as it was, and a power cut leaves no file unless it is complete; one that matches vfs.IsNoSpace may be tried again.
func (w *Writer) SetAside(side int, selected func(Key) bool, most int64) (Aside, error) {
	from, err := w.fs.Open(w.name, vfs.ReadOnly)
	if err != nil {
		return Aside{}, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return Aside{}, err
	}
	dir := path.Dir(w.name)
	_, last, err := setAside(w.fs, dir)
	if err != nil {
		return Aside{}, err
	}
	c := asideCopy{
		fs: w.fs, source: reader{name: w.name, file: from, size: info.Size()}, selected: selected, most: most,
		name: path.Join(dir, failedPrefix+strconv.Itoa(last+1)), holds: w.holds[side], begin: sectorSize + int64(side)*w.sideSize,
	}
	bytes, err := c.run()
	if err != nil || bytes == 0 {
		return Aside{}, err
	}
	return Aside{Name: path.Base(c.name), Bytes: bytes}, nil
}

// asideCopy is one call of SetAside.
type asideCopy struct {
	fs       vfs.FS
	source   reader
	holds    sideRounds
	begin    int64 // of the side in the source
	selected func(Key) bool
	most     int64
	name     string

	temp vfs.File // nil until there is something to write
	side int64    // bytes of the new file's only side
	next uint32   // sequence of its next round
}

// run returns the size of the file, 0 if there is none.
func (c *asideCopy) run() (bytes int64, err error) {
	temp := c.name + vfs.TempSuffix
	defer func() {
		if c.temp != nil {
			err = errors.Join(err, c.temp.Close())
		}
		if err != nil {
			bytes = 0
			if gone := c.fs.Remove(temp); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	at := c.begin
	for sequence := range c.holds.rounds {
		round, whole, err := c.source.round(at, c.holds.generation, sequence)
		if err != nil {
			return 0, err
		}
		if !whole {
			return 0, &CorruptError{File: c.source.name, Position: at, Reason: fmt.Sprintf("round %d is not there", sequence)}
		}
		if err := c.round(round, temp); err != nil {
			return 0, err
		}
		at += sectors(roundHeaderSize + int64(len(round)))
	}
	if c.temp == nil {
		return 0, nil
	}
	if _, err := c.temp.WriteAt(encodeHeader(c.side), 0); err != nil {
		return 0, err
	}
	if err := c.temp.Sync(); err != nil {
		return 0, err
	}
	if err := c.fs.Rename(temp, c.name); err != nil {
		return 0, err
	}
	if err := c.fs.SyncDir(path.Dir(c.name)); err != nil {
		return 0, errors.Join(err, c.fs.Remove(c.name)) // or each further try would leave another one
	}
	return sectorSize + c.side, nil
}

// round copies what is selected of one round, as a round.
func (c *asideCopy) round(entries []byte, temp string) error {
	round := make([]byte, roundHeaderSize)
	for e, err := range decodeEntries(entries) {
		if err != nil {
			return &CorruptError{File: c.source.name, Position: c.begin, Reason: err.Error()}
		}
		if c.selected(e.Key) {
			round = append(appendEntryHeader(round, e, len(e.Records)), e.Records...)
		}
	}
	if len(round) == roundHeaderSize {
		return nil
	}
	round = sealRound(round, c.holds.generation, c.next)
	if sectorSize+c.side+int64(len(round)) > c.most {
		return ErrTooMuch
	}
	if c.temp == nil {
		file, err := c.fs.Open(temp, vfs.CreateTruncate)
		if err != nil {
			return err
		}
		c.temp = file
	}
	if _, err := c.temp.WriteAt(round, sectorSize+c.side); err != nil {
		return err
	}
	c.side += int64(len(round))
	c.next++
	return nil
}
