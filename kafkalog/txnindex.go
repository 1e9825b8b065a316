package kafkalog

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"sort"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/vfs"
)

// The transaction index of a segment is an array of entries, big-endian, without header or checksum: one for each
// transaction that wrote records and whose abort marker lies in the segment, in the order of the markers.
//
//	+-------------------+---------------------+----------------------+---------------------+----------------------+
//	| int16 version: 0  | int64 producer id   | int64 first offset   | int64 last offset   | int64 last stable    |
//	|                   |                     | of the transaction   | that of the marker  | offset at the abort  |
//	+-------------------+---------------------+----------------------+---------------------+----------------------+
//	0                   2                     10                     18                    26                     34
//
// The file is made for its first entry. Example, producer 1000, first 44, last 45, last stable 46:
//
//	00 00  00 00 00 00 00 00 03 e8  00 00 00 00 00 00 00 2c  00 00 00 00 00 00 00 2d  00 00 00 00 00 00 00 2e
const (
	txnEntrySize    = 34
	txnEntryVersion = 0
)

// AbortedTxn is an aborted transaction: readers of committed records skip those of its producer from the first offset
// up to the last, which is that of the marker. LastStableOffset is its value when the marker was written: no
// transaction aborted later began below it.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64
	LastStableOffset int64
}

func putAbortedTxn(b []byte, t AbortedTxn) {
	_ = b[txnEntrySize-1]
	binary.BigEndian.PutUint16(b, txnEntryVersion)
	binary.BigEndian.PutUint64(b[2:], uint64(t.ProducerID))
	binary.BigEndian.PutUint64(b[10:], uint64(t.FirstOffset))
	binary.BigEndian.PutUint64(b[18:], uint64(t.LastOffset))
	binary.BigEndian.PutUint64(b[26:], uint64(t.LastStableOffset))
}

func getAbortedTxn(b []byte) (t AbortedTxn, version int16) {
	_ = b[txnEntrySize-1]
	return AbortedTxn{
		ProducerID:       int64(binary.BigEndian.Uint64(b[2:])),
		FirstOffset:      int64(binary.BigEndian.Uint64(b[10:])),
		LastOffset:       int64(binary.BigEndian.Uint64(b[18:])),
		LastStableOffset: int64(binary.BigEndian.Uint64(b[26:])),
	}, int16(binary.BigEndian.Uint16(b))
}

// txnIndex is the transaction index of a segment. Readers call collect at any time; everything else belongs to the
// log's writer. Entries are in the file as soon as they are appended, and durable after sync.
type txnIndex struct {
	file *handle
	base int64

	// view is what readers see, nil until the file was looked at.
	view atomic.Pointer[txnView]

	// torn says that a failed write may have left bytes behind the last entry. It belongs to the writer.
	torn bool
}

// txnView never changes.
type txnView struct {
	exists bool // there is a file
	count  int
	last   int64 // last offset of the last entry, -1 without one
}

// newTxnIndex returns the index of a new segment. There is no file of the handle's name; append makes it.
func newTxnIndex(file *handle, base int64) *txnIndex {
	x := &txnIndex{file: file, base: base}
	x.view.Store(&txnView{last: -1})
	return x
}

// openTxnIndex returns the index of a segment on disk, with or without a file. It reads nothing before it is needed.
// What needs it fails with a [*CorruptionError] or an [*UnsupportedVersionError] when the file cannot be right; the
// caller rebuilds it then.
func openTxnIndex(file *handle, base int64) *txnIndex {
	return &txnIndex{file: file, base: base}
}

// append adds an aborted transaction, whose marker lies behind those of all before it.
func (x *txnIndex) append(t AbortedTxn) error {
	view, err := x.loaded()
	if err != nil {
		return err
	}
	if t.LastOffset <= view.last {
		return &ArgumentError{
			Argument: "last offset", Value: t.LastOffset, Reason: "is not above the last one in the transaction index",
		}
	}
	if !view.exists {
		if err := x.file.createFile(); err != nil {
			return err
		}
		view = &txnView{exists: true, last: -1}
		x.view.Store(view)
	}
	var entry [txnEntrySize]byte
	putAbortedTxn(entry[:], t)
	if err := x.write(entry[:], int64(view.count)*txnEntrySize); err != nil {
		return err
	}
	x.view.Store(&txnView{exists: true, count: view.count + 1, last: t.LastOffset})
	return nil
}

func (x *txnIndex) write(entry []byte, position int64) error {
	file, err := x.file.acquire()
	if err != nil {
		return err
	}
	defer x.file.release()
	x.file.oweSync()
	if _, err := file.WriteAt(entry, position); err != nil {
		x.torn = true
		return &IOError{Op: "write", Path: x.file.path(), Err: err}
	}
	return nil
}

// collect appends to dst the aborted transactions of this segment that overlap [start, end), in the order of their
// markers. It is done when no later segment can hold another one.
func (x *txnIndex) collect(dst []AbortedTxn, start, end int64) (_ []AbortedTxn, done bool, err error) {
	for {
		view, err := x.loaded()
		if err != nil || view.count == 0 || view.last < start {
			return dst, false, err
		}
		collected, done, err := x.collectFirst(view.count, dst, start, end)
		if err == nil {
			return collected, done, nil
		}
		if x.view.Load() == view {
			return dst, false, err
		}
		// The writer cut the file meanwhile. Look again at what there is now.
	}
}

// collectFirst is collect in the first count entries.
func (x *txnIndex) collectFirst(count int, dst []AbortedTxn, start, end int64) (_ []AbortedTxn, done bool, err error) {
	file, err := x.file.acquire()
	if err != nil {
		return dst, false, err
	}
	defer x.file.release()
	first := sort.Search(count, func(i int) bool {
		if err != nil {
			return true
		}
		var t AbortedTxn
		t, err = x.readOne(file, i)
		return t.LastOffset >= start
	})
	if err != nil {
		return dst, false, err
	}
	err = x.read(file, first, count, func(_ int, t AbortedTxn) error {
		if t.LastOffset >= start && t.FirstOffset < end {
			dst = append(dst, t)
		}
		if t.LastStableOffset >= end {
			done = true
			return errStop
		}
		return nil
	})
	if err == errStop {
		err = nil
	}
	return dst, done, err
}

// errStop ends a walk over entries early.
var errStop = errors.New("stop")

// verify reads the whole file and fails with a [*CorruptionError] at the first entry that cannot be right.
func (x *txnIndex) verify() error {
	last := x.base - 1
	return x.each(func(i int, t AbortedTxn) error {
		switch {
		case t.LastOffset < x.base:
			return x.corrupt(i, "a marker below the segment's base")
		case t.LastOffset <= last && i > 0:
			return x.corrupt(i, "a last offset that does not rise")
		case t.ProducerID < 0 || t.FirstOffset < 0 || t.FirstOffset > t.LastOffset:
			return x.corrupt(i, "no transaction")
		}
		last = t.LastOffset
		return nil
	})
}

// each calls f with every entry.
func (x *txnIndex) each(f func(i int, t AbortedTxn) error) error {
	view, err := x.loaded()
	if err != nil || view.count == 0 {
		return err
	}
	file, err := x.file.acquire()
	if err != nil {
		return err
	}
	defer x.file.release()
	return x.read(file, 0, view.count, f)
}

// mark returns the number of entries, for rewind.
func (x *txnIndex) mark() (int, error) {
	view, err := x.loaded()
	if err != nil {
		return 0, err
	}
	return view.count, nil
}

// rewind takes back what was appended since mark.
func (x *txnIndex) rewind(mark int) error {
	view, err := x.loaded()
	if err != nil || view.count <= mark && !x.torn {
		return err
	}
	return x.cut(min(mark, view.count))
}

// truncateTo drops the entries whose marker lies at or above the offset.
func (x *txnIndex) truncateTo(offset int64) error {
	kept := 0
	err := x.each(func(i int, t AbortedTxn) error {
		if t.LastOffset >= offset {
			return errStop
		}
		kept = i + 1
		return nil
	})
	if err != nil && err != errStop {
		return err
	}
	return x.rewind(kept)
}

// reset drops all entries, readable or not. A file that is there stays, empty.
func (x *txnIndex) reset() error {
	if view := x.view.Load(); view != nil && !view.exists {
		return nil
	}
	err := x.cut(0)
	if errors.Is(err, fs.ErrNotExist) {
		x.view.Store(&txnView{last: -1})
		return nil
	}
	return err
}

// exists reports whether the segment has a transaction index file.
func (x *txnIndex) exists() (bool, error) {
	view, err := x.loaded()
	return err == nil && view.exists, err
}

// sync makes the entries durable. It blocks on the device, and does nothing without a file.
func (x *txnIndex) sync() error {
	if exists, err := x.exists(); err != nil || !exists {
		return err
	}
	return x.file.sync()
}

// seal gives the file its exact length. It is durable after sync.
func (x *txnIndex) seal() error {
	if !x.torn {
		return nil
	}
	return x.cut(x.view.Load().count)
}

// cut shortens the file to count entries.
func (x *txnIndex) cut(count int) error {
	file, err := x.file.acquire()
	if err != nil {
		return err
	}
	defer x.file.release()
	view := &txnView{exists: true, count: count, last: -1}
	if count > 0 {
		t, err := x.readOne(file, count-1)
		if err != nil {
			return err
		}
		view.last = t.LastOffset
	}
	if err := file.Truncate(int64(count) * txnEntrySize); err != nil {
		return &IOError{Op: "truncate", Path: x.file.path(), Err: err}
	}
	x.torn = false
	x.view.Store(view)
	return nil
}

// loaded returns the view and looks at the file if nobody did.
func (x *txnIndex) loaded() (*txnView, error) {
	if view := x.view.Load(); view != nil {
		return view, nil
	}
	view, err := x.load()
	if err != nil {
		return nil, err
	}
	if !x.view.CompareAndSwap(nil, view) {
		view = x.view.Load()
	}
	return view, nil
}

func (x *txnIndex) load() (*txnView, error) {
	file, err := x.file.acquire()
	if errors.Is(err, fs.ErrNotExist) {
		return &txnView{last: -1}, nil
	}
	if err != nil {
		return nil, err
	}
	defer x.file.release()
	info, err := file.Stat()
	if err != nil {
		return nil, &IOError{Op: "stat", Path: x.file.path(), Err: err}
	}
	count := int(info.Size() / txnEntrySize)
	if info.Size()%txnEntrySize != 0 {
		return nil, x.corrupt(count, "length is no multiple of 34")
	}
	view := &txnView{exists: true, count: count, last: -1}
	if count > 0 {
		t, err := x.readOne(file, count-1)
		if err != nil {
			return nil, err
		}
		view.last = t.LastOffset
	}
	return view, nil
}

func (x *txnIndex) readOne(file vfs.File, i int) (t AbortedTxn, err error) {
	err = x.read(file, i, i+1, func(_ int, read AbortedTxn) error {
		t = read
		return nil
	})
	return t, err
}

// read calls f with the entries from..to-1 and stops at an error of f.
func (x *txnIndex) read(file vfs.File, from, to int, f func(i int, t AbortedTxn) error) error {
	block := x.file.cache.block()
	defer x.file.cache.putBlock(block)
	for from < to {
		bytes := block[:min(to-from, len(block)/txnEntrySize)*txnEntrySize]
		n, err := file.ReadAt(bytes, int64(from)*txnEntrySize)
		if n < len(bytes) && !errors.Is(err, io.EOF) {
			return &ReadError{Path: x.file.path(), Position: int64(from)*txnEntrySize + int64(n), Err: err}
		}
		if n < len(bytes) {
			return x.corrupt(from+n/txnEntrySize, "the file ends before its last entry")
		}
		for ; len(bytes) > 0; bytes = bytes[txnEntrySize:] {
			t, version := getAbortedTxn(bytes)
			if version != txnEntryVersion {
				return &UnsupportedVersionError{
					Artifact: "transaction index", Path: x.file.path(), Position: int64(from) * txnEntrySize,
					Found: int64(version), Supported: txnEntryVersion,
				}
			}
			if err := f(from, t); err != nil {
				return err
			}
			from++
		}
	}
	return nil
}

func (x *txnIndex) corrupt(i int, reason string) error {
	return &CorruptionError{Path: x.file.path(), Position: int64(i) * txnEntrySize, Reason: reason}
}
