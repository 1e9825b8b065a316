package kafkalog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/vfs"
)

// EpochEntry says that a leader epoch began at an offset: the records from Start up to the next entry's Start were
// written in Epoch.
type EpochEntry struct {
	Epoch int32
	Start int64 // offset
}

// epochCache knows which leader epoch wrote which offsets, and keeps its file equal to that. Epochs and start offsets
// both rise strictly from entry to entry.
//
// The methods that change it belong to the log's writer. All others may run at any time and never wait: they see the
// list as it was or as it is, never one in between. A change that cannot be written is not made.
type epochCache struct {
	fs   vfs.FS
	path string

	list atomic.Pointer[[]EpochEntry] // never nil; the slice is never written to again

	// cutAt is the established log start at which the cache was last cut from its start, -1 if another change came
	// since that says nothing about a log start.
	cutAt int64
	// unwritten says that the file lags behind the list, which only replay and assignLater allow, or that there is no file yet.
	unwritten bool
	// deferred says that what is unwritten may wait for the next roll, sync or close: it is an epoch that was assigned, which
	// the records of the active segment will tell, or which has none.
	deferred bool
	// optional says that there is no file yet and need not be: all records are in the first segment, and an Open without
	// the file looks there.
	optional bool
	// names learns of a new file whose name is not durable yet. Nil while the log is being opened.
	names *dirNames
}

// newEpochCache returns an empty cache for a partition directory. It writes nothing.
func newEpochCache(fsys vfs.FS, dir string) *epochCache {
	c := &epochCache{fs: fsys, path: path.Join(dir, epochFileName), cutAt: -1}
	c.list.Store(new([]EpochEntry))
	return c
}

// loadEpochCache reads the cache of a partition directory. The cache is usable, and empty, also when there is no file,
// which is false, and when the file is damaged, which is a [*CorruptionError] or an [*UnsupportedVersionError]: the
// batches know their epochs, so the caller can walk them through replay and write.
//
// A file without a count of entries counts as none. To Kafka it says that there are no epochs, but it is also what is
// left of a file that was not synced before a power cut.
func loadEpochCache(fsys vfs.FS, dir string) (c *epochCache, found bool, err error) {
	c = newEpochCache(fsys, dir)
	data, err := readFile(fsys, c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	entries, err := parseEpochs(c.path, data)
	if err != nil {
		return c, true, err
	}
	if bytes.Count(bytes.TrimSpace(data), []byte{'\n'}) == 0 {
		return c, false, nil
	}
	c.list.Store(&entries)
	return c, true, nil
}

// The leader epoch file is a checkpoint file (see checkpointfile.go) whose entries are in rising order:
//
//	+----------------+-------+----------------------+----+
//	| epoch, decimal | space | start offset, decimal| LF |
//	+----------------+-------+----------------------+----+

func formatEpochs(entries []EpochEntry) []byte {
	return formatCheckpoint(len(entries), func(dst []byte, i int) []byte {
		dst = strconv.AppendInt(dst, int64(entries[i].Epoch), 10)
		dst = append(dst, ' ')
		return strconv.AppendInt(dst, entries[i].Start, 10)
	})
}

func parseEpochs(path string, data []byte) ([]EpochEntry, error) {
	var entries []EpochEntry
	err := parseCheckpoint(path, data, 2, func(fields []string) error {
		epoch, err := strconv.ParseInt(fields[0], 10, 32)
		if err != nil || epoch < 0 {
			return fmt.Errorf("epoch %q is not a number from 0 to 2^31-1", fields[0])
		}
		start, err := parseOffsetField(fields[1])
		if err != nil {
			return err
		}
		if n := len(entries); n > 0 && (int32(epoch) <= entries[n-1].Epoch || start <= entries[n-1].Start) {
			return errors.New("epochs and start offsets do not rise")
		}
		entries = append(entries, EpochEntry{Epoch: int32(epoch), Start: start})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// entries returns all entries, lowest first. The slice is shared: nobody may write to it.
func (c *epochCache) entries() []EpochEntry { return *c.list.Load() }

// latest returns the last entry.
func (c *epochCache) latest() (EpochEntry, bool) {
	entries := c.entries()
	if len(entries) == 0 {
		return EpochEntry{}, false
	}
	return entries[len(entries)-1], true
}

// earliest returns the first entry.
func (c *epochCache) earliest() (EpochEntry, bool) {
	entries := c.entries()
	if len(entries) == 0 {
		return EpochEntry{}, false
	}
	return entries[0], true
}

// epochFor returns the epoch that wrote the offset, and false when it lies before the first entry.
func (c *epochCache) epochFor(offset int64) (int32, bool) {
	entries := c.entries()
	after := sort.Search(len(entries), func(i int) bool { return entries[i].Start > offset })
	if after == 0 {
		return 0, false
	}
	return entries[after-1].Epoch, true
}

// endOffsetFor answers OffsetsForLeaderEpoch: the largest epoch at or below the requested one that is known, and the
// offset at which it ended. The latest epoch ends at logEnd. Both are -1 when the question has no answer.
func (c *epochCache) endOffsetFor(requested int32, logEnd int64) (epoch int32, end int64) {
	entries := c.entries()
	if requested < 0 || len(entries) == 0 {
		return -1, -1
	}
	if entries[len(entries)-1].Epoch == requested {
		return requested, logEnd
	}
	higher := sort.Search(len(entries), func(i int) bool { return entries[i].Epoch > requested })
	switch higher {
	case len(entries):
		return -1, -1
	case 0:
		return requested, entries[0].Start
	}
	return entries[higher-1].Epoch, entries[higher].Start
}

// inRange returns the entries that say something about [from, to), as after cutting a copy at both ends. A negative
// bound does not cut.
func (c *epochCache) inRange(from, to int64) []EpochEntry {
	entries := slices.Clone(c.entries())
	if from >= 0 {
		entries, _ = cutEpochsBelow(entries, from)
	}
	if to >= 0 {
		entries = cutEpochsFrom(entries, to)
	}
	return entries
}

// assign records that an epoch starts at an offset. It does nothing when that epoch is the latest and started at or
// below the offset; otherwise entries that contradict the new one go. It is durable once the names in the directory are.
func (c *epochCache) assign(epoch int32, start int64) error {
	if err := checkEpoch(epoch, start); err != nil {
		return err
	}
	entries, changed := assignEpoch(c.entries(), epoch, start)
	if !changed {
		return nil
	}
	return c.renew(entries)
}

// assignLater is assign that leaves the writing to write, before which no segment may be sealed.
func (c *epochCache) assignLater(epoch int32, start int64) error {
	if err := checkEpoch(epoch, start); err != nil {
		return err
	}
	if entries, changed := assignEpoch(c.entries(), epoch, start); changed {
		c.list.Store(&entries)
		c.deferred = c.deferred || !c.unwritten
		c.unwritten = true
	}
	return nil
}

// replay is assign for a batch that recovery walks: an epoch at or below the latest is ignored, a negative one too, and
// nothing is written before write.
func (c *epochCache) replay(epoch int32, base int64) {
	if latest, found := c.latest(); epoch < 0 || base < 0 || found && epoch <= latest.Epoch {
		return
	}
	if entries, changed := assignEpoch(c.entries(), epoch, base); changed {
		c.list.Store(&entries)
		c.unwritten = true
	}
}

// write writes what replay and assignLater collected, if they did. That is durable once the names in the directory are.
func (c *epochCache) write() error {
	if !c.unwritten {
		return nil
	}
	return c.renew(c.entries())
}

// truncateFromEnd drops the entries that start at or above the offset, because no record from there on is left. A
// negative offset drops nothing. It is durable on return.
func (c *epochCache) truncateFromEnd(end int64) error {
	entries := c.entries()
	kept := cutEpochsFrom(entries, end)
	if end < 0 || len(kept) == len(entries) {
		return nil
	}
	return c.replace(slices.Clone(kept))
}

// truncateFromStart drops the entries that end at or below the offset and lets the one that holds it start there. It is
// durable on return.
//
// established says that somebody moved the log start to this offset, in this process or before it, and that it was not
// only derived from the files; logStartEpoch answers for such a start alone.
func (c *epochCache) truncateFromStart(start int64, established bool) error {
	entries, found := cutEpochsBelow(slices.Clone(c.entries()), start)
	if !slices.Equal(entries, c.entries()) {
		if err := c.replace(entries); err != nil {
			return err
		}
	}
	c.cutAt = -1
	if established && found {
		c.cutAt = start
	}
	return nil
}

// forgetCut says that the log start went down, so that the cache no longer proves which epoch owns it.
func (c *epochCache) forgetCut() { c.cutAt = -1 }

// logStartEpoch returns the epoch that owns the log start, and false unless the cache was cut at exactly that start
// because somebody established it.
func (c *epochCache) logStartEpoch(logStart int64) (int32, bool) {
	earliest, found := c.earliest()
	if !found || c.cutAt != logStart || earliest.Start > logStart {
		return 0, false
	}
	return earliest.Epoch, true
}

// clear drops all entries. It is durable on return.
func (c *epochCache) clear() error {
	if err := c.replace(nil); err != nil {
		return err
	}
	c.cutAt = -1
	return nil
}

// restore reinstates the entries that the cache had before a change that must be undone. It is durable on return. When
// it fails the file may say what is no longer so, and the cache keeps what it has.
func (c *epochCache) restore(entries []EpochEntry) error {
	if slices.Equal(entries, c.entries()) {
		return nil
	}
	return c.replace(entries)
}

// renew is replace that leaves it to the log to make the name of the new file durable. Until then a crash may bring the
// old one back.
func (c *epochCache) renew(entries []EpochEntry) error {
	if c.names == nil {
		return c.replace(entries)
	}
	if err := renameOver(c.fs, c.path, formatEpochs(entries)); err != nil {
		return err
	}
	c.names.changed.Add(1)
	c.list.Store(&entries)
	c.noteWritten()
	return nil
}

// noteWritten says that the file is equal to the list.
func (c *epochCache) noteWritten() { c.unwritten, c.deferred, c.optional = false, false, false }

// replace writes the entries and shows them to readers once they are durable.
func (c *epochCache) replace(entries []EpochEntry) error {
	if err := replaceFile(c.fs, c.path, formatEpochs(entries)); err != nil {
		return err
	}
	c.list.Store(&entries)
	c.noteWritten()
	return nil
}

func checkEpoch(epoch int32, start int64) error {
	if epoch < 0 {
		return &ArgumentError{Argument: "leader epoch", Value: int64(epoch), Reason: "is negative"}
	}
	if start < 0 {
		return &ArgumentError{Argument: "start offset", Value: start, Reason: "is negative"}
	}
	return nil
}

// assignEpoch returns entries with the new one at the end, in memory of its own, or false if it adds nothing.
func assignEpoch(entries []EpochEntry, epoch int32, start int64) ([]EpochEntry, bool) {
	n := len(entries)
	if n > 0 && entries[n-1].Epoch == epoch && start >= entries[n-1].Start {
		return nil, false
	}
	for n > 0 && (entries[n-1].Epoch >= epoch || entries[n-1].Start >= start) {
		n--
	}
	assigned := make([]EpochEntry, n, n+1)
	copy(assigned, entries)
	return append(assigned, EpochEntry{Epoch: epoch, Start: start}), true
}

// cutEpochsFrom returns the entries that start below end.
func cutEpochsFrom(entries []EpochEntry, end int64) []EpochEntry {
	return entries[:sort.Search(len(entries), func(i int) bool { return entries[i].Start >= end })]
}

// cutEpochsBelow drops the entries that end at or below start and moves the one that holds it, in place. It is false
// when no entry starts at or below start, and nothing changes then.
func cutEpochsBelow(entries []EpochEntry, start int64) ([]EpochEntry, bool) {
	after := sort.Search(len(entries), func(i int) bool { return entries[i].Start > start })
	if after == 0 {
		return entries, false
	}
	entries = entries[after-1:]
	entries[0].Start = start
	return entries, true
}
