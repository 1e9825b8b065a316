package kafkalog

import (
	"errors"
	"io"
	"path"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// The functions of this file read one file of a log each, without a [Log]: for tools, which must work on a log that
// cannot be opened. They never write, and they show what is in the file, right or wrong; they refuse only what is no
// entry at all.

// OffsetIndexEntry is an entry of a `.index` file: the batch at Position, in bytes, ends with Offset.
type OffsetIndexEntry struct {
	Offset   int64
	Position int64
}

// TimeIndexEntry is an entry of a `.timeindex` file: up to Offset the largest timestamp is Timestamp, in ms.
type TimeIndexEntry struct {
	Timestamp int64
	Offset    int64
}

// ReadSegmentFile walks the batches of a `.log` file from its beginning and passes each to visit, with its position
// in bytes. Checksums are not verified; visit may call [batch.Batch.VerifyCRC]. The batch is valid until visit returns.
//
// It ends without an error at the end of the file or where only zeros follow, which is preallocated space. Anything
// else that is not a batch is a [*CorruptionError] with its position. An error of visit ends the walk and is returned.
func ReadSegmentFile(fsys vfs.FS, name string, visit func(position int64, b batch.Batch) error) error {
	f, size, err := openForReading(fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	var buf []byte
	for position := int64(0); position < size; {
		head := make([]byte, min(batch.HeaderSize, size-position))
		if err := readFull(f, name, head, position); err != nil {
			return err
		}
		if isZero(head) {
			return nil
		}
		h, err := decodeHeader(head, size-position)
		if err != nil {
			return &CorruptionError{Path: name, Position: position, Reason: err.Error()}
		}
		if cap(buf) < h.Size() {
			buf = make([]byte, h.Size())
		}
		buf = buf[:h.Size()]
		if err := readFull(f, name, buf, position); err != nil {
			return err
		}
		if err := visit(position, batch.Batch(buf)); err != nil {
			return err
		}
		position += int64(h.Size())
	}
	return nil
}

// ReadOffsetIndexFile returns the entries of a `.index` file up to the first that is all zeros, which is preallocated
// space. The segment's base offset is the file's name.
func ReadOffsetIndexFile(fsys vfs.FS, name string) ([]OffsetIndexEntry, error) {
	return readEntryFile(fsys, name, indexCodec{}, func(base int64, e packedIndexEntry) OffsetIndexEntry {
		return OffsetIndexEntry{Offset: base + int64(e.relative), Position: int64(e.position)}
	})
}

// ReadTimeIndexFile is [ReadOffsetIndexFile] for a `.timeindex` file.
func ReadTimeIndexFile(fsys vfs.FS, name string) ([]TimeIndexEntry, error) {
	return readEntryFile(fsys, name, timeCodec{}, func(base int64, e packedTimeEntry) TimeIndexEntry {
		return TimeIndexEntry{Timestamp: e.timestamp, Offset: base + int64(e.relative)}
	})
}

// ReadTxnIndexFile returns the entries of a `.txnindex` file.
func ReadTxnIndexFile(fsys vfs.FS, name string) ([]AbortedTxn, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	var entries []AbortedTxn
	for at := 0; at+txnEntrySize <= len(data); at += txnEntrySize {
		e, version := getAbortedTxn(data[at:])
		if version != txnEntryVersion {
			return entries, &UnsupportedVersionError{
				Artifact: "transaction index", Path: name, Found: int64(version), Supported: txnEntryVersion,
			}
		}
		entries = append(entries, e)
	}
	if rest := len(data) % txnEntrySize; rest != 0 {
		return entries, &CorruptionError{Path: name, Position: int64(len(data) - rest), Reason: "the file ends in an entry"}
	}
	return entries, nil
}

// ReadSnapshotFile returns the producers of a `.snapshot` file. Errors are [*CorruptionError] and, for a version that is
// not known, [*UnsupportedVersionError].
func ReadSnapshotFile(fsys vfs.FS, name string) ([]ProducerSnapshotEntry, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	return decodeSnapshot(name, data)
}

// ReadEpochFile returns the entries of a `leader-epoch-checkpoint` file.
func ReadEpochFile(fsys vfs.FS, name string) ([]EpochEntry, error) {
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	return parseEpochs(name, data)
}

// readEntryFile decodes an index file whose entries are relative to the base offset that the file is named after.
func readEntryFile[P comparable, E any](
	fsys vfs.FS, name string, codec entryCodec[P], entry func(base int64, packed P) E,
) ([]E, error) {
	base, ok := parseOffset(path.Base(name))
	if !ok {
		return nil, &CorruptionError{Path: name, Reason: "the name does not begin with the segment's base offset"}
	}
	data, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	var entries []E
	width := codec.size()
	for at := 0; at+width <= len(data); at += width {
		if isZero(data[at : at+width]) {
			return entries, nil
		}
		entries = append(entries, entry(base, codec.get(data[at:])))
	}
	if rest := len(data) % width; rest != 0 {
		return entries, &CorruptionError{Path: name, Position: int64(len(data) - rest), Reason: "the file ends in an entry"}
	}
	return entries, nil
}

func openForReading(fsys vfs.FS, name string) (vfs.File, int64, error) {
	f, err := fsys.Open(name, vfs.ReadOnly)
	if err != nil {
		return nil, 0, &IOError{Op: "open", Path: name, Err: err}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(&IOError{Op: "stat", Path: name, Err: err}, f.Close())
	}
	return f, info.Size(), nil
}

func readFull(f vfs.File, name string, p []byte, position int64) error {
	if n, err := f.ReadAt(p, position); n < len(p) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return &IOError{Op: "read", Path: name, Err: err}
	}
	return nil
}

func isZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
