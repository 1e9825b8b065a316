package kafkalog

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/tidemark-io/tidemark/vfs"
)

// This file is what an entryList does with its file.

// peek reads the number of entries and the last two. When the last one is zeros it needs the whole file.
func (l *entryList[E, C]) peek() (*entryView[E], error) {
	file, err := l.file.acquire()
	if err != nil {
		return nil, err
	}
	defer l.file.release()
	slots, err := l.slots(file)
	if err != nil {
		return nil, err
	}
	view := &entryView[E]{filed: slots}
	view.count.Store(int64(slots))
	if slots == 0 {
		view.verified = true
		return view, nil
	}
	block := l.file.cache.block()
	defer l.file.cache.putBlock(block)
	first := max(slots-2, 0)
	bytes, err := l.readEntries(file, block[:], first, slots-first)
	if err != nil {
		return nil, err
	}
	var zero, before E
	view.tail = l.codec.get(bytes[len(bytes)-l.codec.size():])
	if view.tail == zero {
		return l.scan()
	}
	if first < slots-1 {
		before = l.codec.get(bytes)
	}
	if wrong := l.codec.inspect(l.base, l.limits, before, view.tail, slots == 1); wrong != "" {
		return nil, l.corrupt(slots-1, wrong)
	}
	return view, nil
}

// scan reads the whole file.
func (l *entryList[E, C]) scan() (*entryView[E], error) {
	file, err := l.file.acquire()
	if err != nil {
		return nil, err
	}
	defer l.file.release()
	slots, err := l.slots(file)
	if err != nil {
		return nil, err
	}
	block := l.file.cache.block()
	defer l.file.cache.putBlock(block)

	view := &entryView[E]{verified: true, slots: slots}
	var zero E
	perBlock := entryBlockBytes / l.codec.size()
	zeros := false // the entries have ended
	for start := 0; start < slots; start += perBlock {
		bytes, err := l.readEntries(file, block[:], start, min(perBlock, slots-start))
		if err != nil {
			return nil, err
		}
		for i := start; len(bytes) > 0; i++ {
			entry := l.codec.get(bytes)
			bytes = bytes[l.codec.size():]
			zeros = zeros || entry == zero && i > 0
			if zeros && entry == zero {
				continue
			}
			if zeros {
				return nil, l.corrupt(i, "an entry after zeros")
			}
			if wrong := l.codec.inspect(l.base, l.limits, view.tail, entry, i == 0); wrong != "" && entry != zero {
				return nil, l.corrupt(i, wrong)
			} else if wrong != "" {
				zeros = true
				continue
			}
			view.filed, view.tail = i+1, entry
		}
	}
	if slots > 1 && view.filed == 1 && view.tail == zero {
		view.filed = 0 // a preallocated file in which nothing was written, not an entry whose fields are all 0
	}
	view.count.Store(int64(view.filed))
	return view, nil
}

// slots returns how many entries have room in the file.
func (l *entryList[E, C]) slots(file vfs.File) (int, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, &IOError{Op: "stat", Path: l.file.path(), Err: err}
	}
	size := int64(l.codec.size())
	if rest := info.Size() % size; rest != 0 {
		return 0, &CorruptionError{
			Path: l.file.path(), Position: info.Size() - rest, Reason: "length is no multiple of the entry size",
			Want: fmt.Sprintf("%d bytes", size), Got: fmt.Sprintf("%d bytes", rest),
		}
	}
	return int(info.Size() / size), nil
}

// lastOnDisk returns the last entry of the file, right or wrong, and false if there is none, or it cannot be read.
func (l *entryList[E, C]) lastOnDisk() (last E, found bool) {
	if !l.file.isMade() {
		return last, false
	}
	file, err := l.file.acquire()
	if err != nil {
		return last, false
	}
	defer l.file.release()
	slots, err := l.slots(file)
	if err == nil && slots > 0 {
		last, err = l.readEntry(file, slots-1)
	}
	return last, err == nil && last != *new(E)
}

// searchFile is search in the first count entries of the file, when after is true for the last of them.
func (l *entryList[E, C]) searchFile(count int, after func(E) bool) (before, at E, index int, err error) {
	file, err := l.file.acquire()
	if err != nil {
		return before, at, 0, err
	}
	defer l.file.release()
	block := l.file.cache.block()
	defer l.file.cache.putBlock(block)

	size := l.codec.size()
	perBlock := entryBlockBytes / size
	low, high := 0, (count-1)/perBlock // the block of the first entry for which after is true
	for low < high {
		middle := (low + high) / 2
		entry, err := l.readEntryInto(file, block[:], middle*perBlock+perBlock-1)
		if err != nil {
			return before, at, 0, err
		}
		if after(entry) {
			high = middle
		} else {
			low = middle + 1
			before = entry
		}
	}
	start := low * perBlock
	bytes, err := l.readEntries(file, block[:], start, min(perBlock, count-start))
	if err != nil {
		return before, at, 0, err
	}
	entries := len(bytes) / size
	i := sort.Search(entries-1, func(i int) bool { return after(l.codec.get(bytes[i*size:])) })
	if i > 0 {
		before = l.codec.get(bytes[(i-1)*size:])
	}
	return before, l.codec.get(bytes[i*size:]), start + i, nil
}

// writeEntries writes entries to the file, behind those it holds.
func (l *entryList[E, C]) writeEntries(entries []E) error {
	file, err := l.file.acquire()
	if err != nil {
		return err
	}
	defer l.file.release()
	defer l.unsynced.Store(true) // also after a failure, of which something may be in the file
	block := l.file.cache.block()
	defer l.file.cache.putBlock(block)

	size := l.codec.size()
	position := int64(l.written) * int64(size)
	for len(entries) > 0 {
		n := min(len(entries), entryBlockBytes/size)
		for i, entry := range entries[:n] {
			l.codec.put(block[i*size:], entry)
		}
		if _, err := file.WriteAt(block[:n*size], position); err != nil {
			return &IOError{Op: "write", Path: l.file.path(), Err: err}
		}
		position += int64(n * size)
		entries = entries[n:]
	}
	return nil
}

func (l *entryList[E, C]) truncateFile(count int) error {
	file, err := l.file.acquire()
	if err != nil {
		return err
	}
	defer l.file.release()
	defer l.unsynced.Store(true)
	if err := file.Truncate(int64(count) * int64(l.codec.size())); err != nil {
		return &IOError{Op: "truncate", Path: l.file.path(), Err: err}
	}
	l.untrimmed = false
	return nil
}

// readFiled returns one entry that is in the file, or none before the first.
func (l *entryList[E, C]) readFiled(i int) (E, error) {
	if i < 0 {
		return *new(E), nil
	}
	file, err := l.file.acquire()
	if err != nil {
		return *new(E), err
	}
	defer l.file.release()
	return l.readEntry(file, i)
}

func (l *entryList[E, C]) readEntry(file vfs.File, i int) (E, error) {
	block := l.file.cache.block()
	defer l.file.cache.putBlock(block)
	return l.readEntryInto(file, block[:], i)
}

func (l *entryList[E, C]) readEntryInto(file vfs.File, buf []byte, i int) (E, error) {
	bytes, err := l.readEntries(file, buf, i, 1)
	if err != nil {
		return *new(E), err
	}
	return l.codec.get(bytes), nil
}

// readEntries reads count entries from the first-th on into buf and returns their bytes.
func (l *entryList[E, C]) readEntries(file vfs.File, buf []byte, first, count int) ([]byte, error) {
	size := l.codec.size()
	buf = buf[:count*size]
	n, err := file.ReadAt(buf, int64(first)*int64(size))
	if n == len(buf) {
		return buf, nil
	}
	if errors.Is(err, io.EOF) {
		return nil, l.corrupt(first+n/size, "the file ends before its last entry")
	}
	return nil, &ReadError{Path: l.file.path(), Position: int64(first)*int64(size) + int64(n), Err: err}
}

func (l *entryList[E, C]) corrupt(i int, reason string) error {
	return &CorruptionError{Path: l.file.path(), Position: int64(i) * int64(l.codec.size()), Reason: reason}
}
