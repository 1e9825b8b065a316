package kafkalog

import (
	"errors"
	"math"
	"sort"
	"sync/atomic"
)

// indexLimits is what a segment allows its indexes to say. An entry outside of it would send readers to where no batch
// is, and they would ask forever.
type indexLimits struct {
	end  int64 // offsets lie below it: the next segment's base, the log end, or math.MaxInt64 while unknown
	size int64 // positions lie below it: the length of the segment's `.log` in bytes
}

// unlimited is for an index that is written before its segment is known.
func unlimited() indexLimits { return indexLimits{end: math.MaxInt64, size: math.MaxInt64} }

// entryCodec is the difference between the offset index and the time index.
type entryCodec[E comparable] interface {
	// size is the length of an entry on disk in bytes.
	size() int
	get(b []byte) E
	put(b []byte, e E)
	// inspect says what is wrong with next when it stands behind prev in an index of a segment with this base, or is
	// empty. first is set for the first entry; prev means nothing then.
	inspect(base int64, limits indexLimits, prev, next E, first bool) string
}

// entryList is the entries of one index in order: in memory what was appended last, in the file the rest. A sealed
// index is in the file alone, so a process may have any number of them.
//
// The methods that change it belong to the log's writer. All others may run at any time and never wait for it.
//
// Entries are written to the file by write, seal and sync, and when many are in memory; they are durable after sync.
// What a crash loses is rebuilt from the log.
type entryList[E comparable, C entryCodec[E]] struct {
	file   *handle
	codec  C
	base   int64 // of the segment
	limits indexLimits
	max    int // entries

	// view is nil until something was read from the file.
	view atomic.Pointer[entryView[E]]
	// unsynced says that the file was written to since the last sync began.
	unsynced atomic.Bool
	// damage is what verify found, so that not every reader looks for it again. It means nothing beside a verified view.
	damage atomic.Pointer[CorruptionError]

	// What follows belongs to the writer.

	// active says that the list takes appends.
	active bool
	// written is how many entries the file of an active list holds. filed of the view is never more.
	written int
	// untrimmed says that the file may be longer than its entries.
	untrimmed bool
}

// entryView is the list as readers see it. It never changes but for count, which only rises.
type entryView[E comparable] struct {
	filed    int          // the first entries, which are in the file alone
	tail     E            // the last of these
	verified bool         // every entry in the file was inspected
	slots    int          // if just inspected: how many entries have room in the file
	recent   []E          // the entries after these; those past count are being written
	count    atomic.Int64 // all entries
}

const (
	// spillEntries is how many entries are kept in memory before they are written to the file. An index of 2,048 entries
	// covers 8 MiB of records at the default interval.
	spillEntries = 2048
	// warmEntries is how many of these stay in memory for the readers near the log end.
	warmEntries = 128
	firstRecent = 16

	// entryBlockBytes is how much of an index file is read at a time: a multiple of both entry sizes.
	entryBlockBytes = 12 << 10
)

// create makes this the empty, active list of an empty file. It reads and writes nothing.
func (l *entryList[E, C]) create(file *handle, base int64, max int) {
	l.file, l.base, l.max, l.limits = file, base, max, unlimited()
	l.active = true
	l.view.Store(&entryView[E]{verified: true})
}

// open makes this the list of an existing file. Nothing is read before it is needed.
func (l *entryList[E, C]) open(file *handle, base int64, max int, limits indexLimits) {
	l.file, l.base, l.max, l.limits = file, base, max, limits
	l.untrimmed = true
}

// loaded returns a view, of which only the count and the last entry can be trusted. It reads the end of a file not seen
// before.
func (l *entryList[E, C]) loaded() (*entryView[E], error) {
	if view := l.view.Load(); view != nil {
		return view, nil
	}
	view, err := l.peek()
	if err == nil && l.view.CompareAndSwap(nil, view) {
		return view, nil
	}
	if newer := l.view.Load(); newer != nil {
		return newer, nil
	}
	return nil, err
}

// verify inspects every entry in the file, once. It fails with a [*CorruptionError] at the first one that cannot be
// right. Zeros that a preallocated file ends in are no entries.
func (l *entryList[E, C]) verify() (*entryView[E], error) {
	for {
		view := l.view.Load()
		if view != nil && view.verified {
			return view, nil
		}
		if damage := l.damage.Load(); damage != nil {
			return nil, damage
		}
		verified, err := l.scan()
		if err == nil && l.view.CompareAndSwap(view, verified) {
			return verified, nil
		}
		if err != nil && l.view.Load() == view {
			if damage, ok := errors.AsType[*CorruptionError](err); ok {
				l.damage.Store(damage)
			}
			return nil, err
		}
		// Somebody else inspected the file, or the writer changed it meanwhile.
	}
}

// activate lets a list of an existing file take appends. It inspects every entry and fails as verify does.
func (l *entryList[E, C]) activate() error {
	view, err := l.verify()
	if err != nil || l.active {
		return err
	}
	l.active = true
	l.written = view.filed
	l.untrimmed = view.slots > view.filed
	return nil
}

// entries returns the number of entries.
func (l *entryList[E, C]) entries() (int, error) {
	view, err := l.loaded()
	if err != nil {
		return 0, err
	}
	return int(view.count.Load()), nil
}

// mark returns the number of entries of an active list, for rewind.
func (l *entryList[E, C]) mark() int { return int(l.view.Load().count.Load()) }

// rewind takes back what was appended since mark. It touches the file only if these entries were written meanwhile.
func (l *entryList[E, C]) rewind(mark int) error { return l.truncate(mark) }

// final returns the last entry, and false when there is none.
func (l *entryList[E, C]) final() (entry E, found bool, err error) {
	view, err := l.loaded()
	if err != nil {
		return entry, false, err
	}
	entry, found = view.last()
	return entry, found, nil
}

func (v *entryView[E]) last() (E, bool) {
	count := int(v.count.Load())
	if count > v.filed {
		return v.recent[count-v.filed-1], true
	}
	return v.tail, count > 0
}

// search returns the first entry for which after is true and the one before it. after is false for all entries up to
// some point and true for all others. Entries that do not exist are reported by index: before exists if index > 0, at
// exists if found.
func (l *entryList[E, C]) search(after func(E) bool) (before, at E, index int, found bool, err error) {
	for {
		view, err := l.verify()
		if err != nil {
			return before, at, 0, false, err
		}
		recent := view.recent[:int(view.count.Load())-view.filed]
		i := sort.Search(len(recent), func(i int) bool { return after(recent[i]) })
		if i < len(recent) {
			at, found = recent[i], true
		}
		if i > 0 {
			return recent[i-1], at, view.filed + i, found, nil
		}
		if view.filed == 0 || !after(view.tail) {
			return view.tail, at, view.filed, found, nil
		}
		before, at, index, err = l.searchFile(view.filed, after)
		if l.view.Load() == view {
			return before, at, index, err == nil, err
		}
		// The writer cut the file meanwhile, or wrote more of it. Look again at what there is now.
		at, found = *new(E), false
	}
}

// fullBut reports whether an active list takes no more entries but spare ones.
func (l *entryList[E, C]) fullBut(spare int) bool {
	return int(l.view.Load().count.Load()) >= l.max-spare
}

// push adds an entry that was inspected to an active list. When many are in memory it writes them to the file first,
// and adds nothing if that fails.
func (l *entryList[E, C]) push(entry E) error {
	view := l.view.Load()
	count := int(view.count.Load())
	if count-view.filed == len(view.recent) {
		if len(view.recent) >= spillEntries {
			if err := l.write(); err != nil {
				return err
			}
		}
		view = l.grow()
	}
	view.recent[count-view.filed] = entry
	view.count.Store(int64(count + 1))
	return nil
}

// grow makes room for one more entry in memory and returns the new view.
func (l *entryList[E, C]) grow() *entryView[E] {
	view := l.view.Load()
	used := int(view.count.Load()) - view.filed
	if used < len(view.recent) {
		return view
	}
	grown := &entryView[E]{filed: view.filed, tail: view.tail, verified: true}
	grown.recent = make([]E, max(firstRecent, 2*used))
	copy(grown.recent, view.recent)
	grown.count.Store(view.count.Load())
	l.view.Store(grown)
	return grown
}

// write writes the entries that are in memory alone to the file. They are not durable. Most of them leave the memory.
// On a list that is not active it does nothing.
func (l *entryList[E, C]) write() error {
	if !l.active {
		return nil
	}
	view := l.view.Load()
	count := int(view.count.Load())
	if l.written < count {
		if err := l.writeEntries(view.recent[l.written-view.filed : count-view.filed]); err != nil {
			return err
		}
		l.written = count
	}
	if count-view.filed > 2*warmEntries {
		l.keep(view, count-warmEntries)
	}
	return nil
}

// keep leaves the entries from the filed-th on in memory.
func (l *entryList[E, C]) keep(view *entryView[E], filed int) {
	count := int(view.count.Load())
	kept := &entryView[E]{filed: filed, tail: view.recent[filed-view.filed-1], verified: true}
	kept.recent = make([]E, max(firstRecent, 2*(count-filed)))
	copy(kept.recent, view.recent[filed-view.filed:count-view.filed])
	kept.count.Store(int64(count))
	l.view.Store(kept)
}

// seal writes what is in memory, gives the file its exact length and frees the memory. It is not durable before sync.
// On a list that is not active it does nothing.
func (l *entryList[E, C]) seal() error {
	if !l.active {
		return nil
	}
	if err := l.write(); err != nil {
		return err
	}
	view := l.view.Load()
	count := int(view.count.Load())
	if count == 0 {
		// The file of a sealed index is there.
		if _, err := l.file.acquire(); err != nil {
			return err
		}
		l.file.release()
	}
	if l.untrimmed {
		if err := l.truncateFile(count); err != nil {
			return err
		}
	}
	sealed := &entryView[E]{filed: count, verified: view.verified}
	sealed.tail, _ = view.last()
	sealed.count.Store(int64(count))
	l.view.Store(sealed)
	l.active = false
	return nil
}

// sync makes the entries that were written durable. It blocks on the device, if any were since the last one, and may run
// while the writer continues.
func (l *entryList[E, C]) sync() error {
	if !l.unsynced.Swap(false) {
		return nil
	}
	err := l.file.sync()
	if err != nil {
		l.unsynced.Store(true)
	}
	return err
}

// truncate drops all entries of an active list but the first count.
func (l *entryList[E, C]) truncate(count int) error {
	view := l.view.Load()
	if count >= int(view.count.Load()) {
		return nil
	}
	cut := &entryView[E]{filed: min(count, view.filed), tail: view.tail, verified: true}
	if count > view.filed {
		cut.recent = append(cut.recent, view.recent[:count-view.filed]...)
	}
	if count < view.filed {
		tail, err := l.readFiled(count - 1)
		if err != nil {
			return err
		}
		cut.tail = tail
	}
	cut.count.Store(int64(count))
	if count < l.written {
		if err := l.truncateFile(count); err != nil {
			return err
		}
		l.written = count
	}
	l.view.Store(cut)
	return nil
}

// reset drops all entries, readable or not, and makes the list active.
func (l *entryList[E, C]) reset() error {
	if err := l.truncateFile(0); err != nil {
		return err
	}
	l.active = true
	l.written = 0
	l.limits = unlimited()
	l.view.Store(&entryView[E]{verified: true})
	return nil
}
