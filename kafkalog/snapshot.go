package kafkalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strconv"
	"sync"

	"github.com/tidemark-io/tidemark/vfs"
)

// A producer state snapshot holds what the log knew of its producers at the offset in the file's name. Big-endian:
//
//	+------------------+----------------------------+-----------------+---------------------+
//	| int16 version: 1 | uint32 CRC-32C of the rest | int32 entries n | n entries           |
//	+------------------+----------------------------+-----------------+---------------------+
//	0                  2                            6                 10                    10+46n
//
// An entry, of which there is one for each producer:
//
//	+-------------+-------------+---------------+---------------+--------------+--------------+-------------+--------------+
//	| int64       | int16       | int32 last    | int64 last    | int32 offset | int64        | int32       | int64 first  |
//	| producer id | epoch       | sequence, -1  | offset of its | delta of     | timestamp    | coordinator | offset of    |
//	|             |             | if none       | last batch,   | that batch   | of last      | epoch, -1   | open txn,    |
//	|             |             |               | -1 if none    |              | change, ms   | if none     | -1 if none   |
//	+-------------+-------------+---------------+---------------+--------------+--------------+-------------+--------------+
//	0             8             10              14              22             26             34            38             46
//
// The entries may be in any order; we write them by rising producer id. Only the last batch of a producer is kept.
//
// Example, no producers: 00 01 48 67 4b c7 00 00 00 00.
const (
	snapshotVersion    = 1
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
	snapshotCRCStart   = 6 // the checksum covers everything from here on
)

func snapshotCRC(data []byte) uint32 {
	return crc32.Checksum(data[snapshotCRCStart:], crc32.MakeTable(crc32.Castagnoli))
}

// encodeSnapshot returns the bytes of a snapshot with the given entries.
func encodeSnapshot(entries []ProducerSnapshotEntry) []byte {
	data := make([]byte, snapshotHeaderSize, snapshotHeaderSize+len(entries)*snapshotEntrySize)
	binary.BigEndian.PutUint16(data, snapshotVersion)
	binary.BigEndian.PutUint32(data[6:], uint32(len(entries)))
	for _, e := range entries {
		data = binary.BigEndian.AppendUint64(data, uint64(e.ProducerID))
		data = binary.BigEndian.AppendUint16(data, uint16(e.ProducerEpoch))
		data = binary.BigEndian.AppendUint32(data, uint32(e.LastSequence))
		data = binary.BigEndian.AppendUint64(data, uint64(e.LastOffset))
		data = binary.BigEndian.AppendUint32(data, uint32(e.OffsetDelta))
		data = binary.BigEndian.AppendUint64(data, uint64(e.Timestamp))
		data = binary.BigEndian.AppendUint32(data, uint32(e.CoordinatorEpoch))
		data = binary.BigEndian.AppendUint64(data, uint64(e.TxnFirstOffset))
	}
	binary.BigEndian.PutUint32(data[2:], snapshotCRC(data))
	return data
}

// decodeSnapshot returns the entries of a snapshot. Errors are [*CorruptionError] and, for another version,
// [*UnsupportedVersionError]; the name is for these.
func decodeSnapshot(name string, data []byte) ([]ProducerSnapshotEntry, error) {
	corrupt := func(position int, reason, want, got string) error {
		return &CorruptionError{Path: name, Position: int64(position), Reason: reason, Want: want, Got: got}
	}
	if len(data) < snapshotHeaderSize {
		return nil, corrupt(len(data), "the file ends in its header", "", "")
	}
	if version := int16(binary.BigEndian.Uint16(data)); version != snapshotVersion {
		return nil, &UnsupportedVersionError{
			Artifact: "producer snapshot", Path: name, Found: int64(version), Supported: snapshotVersion,
		}
	}
	if want, got := binary.BigEndian.Uint32(data[2:]), snapshotCRC(data); want != got {
		return nil, corrupt(2, "checksum", fmt.Sprintf("%08x", want), fmt.Sprintf("%08x", got))
	}
	count := int64(int32(binary.BigEndian.Uint32(data[6:])))
	if want := snapshotHeaderSize + count*snapshotEntrySize; count < 0 || int64(len(data)) != want {
		return nil, corrupt(6, "length for the number of entries", strconv.FormatInt(want, 10), strconv.Itoa(len(data)))
	}
	entries := make([]ProducerSnapshotEntry, 0, count)
	seen := make(map[int64]struct{}, count)
	for at := snapshotHeaderSize; at < len(data); at += snapshotEntrySize {
		e := getSnapshotEntry(data[at:])
		if e.ProducerID < 0 || e.ProducerEpoch < 0 || e.OffsetDelta < 0 {
			return nil, corrupt(at, "a negative producer id, epoch or offset delta", "", "")
		}
		if _, found := seen[e.ProducerID]; found {
			return nil, corrupt(at, "a second entry for producer "+strconv.FormatInt(e.ProducerID, 10), "", "")
		}
		seen[e.ProducerID] = struct{}{}
		entries = append(entries, e)
	}
	return entries, nil
}

// getSnapshotEntry decodes an entry. Every way to say "none" becomes the one that we write.
func getSnapshotEntry(b []byte) ProducerSnapshotEntry {
	_ = b[snapshotEntrySize-1]
	e := ProducerSnapshotEntry{
		ProducerID:       int64(binary.BigEndian.Uint64(b)),
		ProducerEpoch:    int16(binary.BigEndian.Uint16(b[8:])),
		LastSequence:     int32(binary.BigEndian.Uint32(b[10:])),
		LastOffset:       int64(binary.BigEndian.Uint64(b[14:])),
		OffsetDelta:      int32(binary.BigEndian.Uint32(b[22:])),
		Timestamp:        int64(binary.BigEndian.Uint64(b[26:])),
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
		TxnFirstOffset:   max(int64(binary.BigEndian.Uint64(b[38:])), -1),
	}
	if e.LastOffset < 0 {
		e.LastSequence, e.LastOffset = -1, -1
	}
	return e
}

// snapshotFiles are the snapshots in a partition directory. Its methods are safe for concurrent use: the background
// flush publishes while the log continues.
type snapshotFiles struct {
	fs    vfs.FS
	dir   string
	aside func(name string, reason error) error // keeps a damaged one before it is removed; nil: it is not kept

	mu      sync.Mutex
	offsets []int64 // rising
}

// loadSnapshotFiles finds the snapshots in a directory. It does not read them.
func loadSnapshotFiles(fsys vfs.FS, dir string) (*snapshotFiles, error) {
	listed, err := fsys.List(dir)
	if err != nil {
		return nil, &IOError{Op: "list", Path: dir, Err: err}
	}
	s := &snapshotFiles{fs: fsys, dir: dir}
	for _, entry := range listed {
		if offset, ok := parseSnapshotName(entry.Name()); ok {
			s.offsets = append(s.offsets, offset)
		}
	}
	slices.Sort(s.offsets)
	return s, nil
}

func (s *snapshotFiles) path(offset int64) string { return filePath(s.dir, offset, snapshotSuffix) }

// all returns the offsets of the snapshots, rising. The slice is the caller's.
func (s *snapshotFiles) all() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.offsets)
}

// newest returns the highest offset of a snapshot.
func (s *snapshotFiles) newest() (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.offsets) == 0 {
		return 0, false
	}
	return s.offsets[len(s.offsets)-1], true
}

// has reports whether there is a snapshot at the offset.
func (s *snapshotFiles) has(offset int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := slices.BinarySearch(s.offsets, offset)
	return found
}

// read returns the entries of a snapshot. It fails as [decodeSnapshot] does, or with an [*IOError].
func (s *snapshotFiles) read(offset int64) ([]ProducerSnapshotEntry, error) {
	name := s.path(offset)
	data, err := readFile(s.fs, name)
	if err != nil {
		return nil, err
	}
	return decodeSnapshot(name, data)
}

// publish writes a snapshot. It is durable on return. One that is there at that offset is kept.
func (s *snapshotFiles) publish(offset int64, data []byte) error {
	return s.publishWith(replaceFile, offset, data)
}

// publishLater is publish that leaves it to the log to make the name durable.
func (s *snapshotFiles) publishLater(offset int64, data []byte) error {
	return s.publishWith(renameOver, offset, data)
}

func (s *snapshotFiles) publishWith(write func(vfs.FS, string, []byte) error, offset int64, data []byte) error {
	if s.has(offset) {
		return nil
	}
	if err := write(s.fs, s.path(offset), data); err != nil {
		return err
	}
	s.note(offset)
	return nil
}

// note says that there is a snapshot at the offset.
func (s *snapshotFiles) note(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := slices.BinarySearch(s.offsets, offset); !found {
		s.offsets = slices.Insert(s.offsets, at, offset)
	}
}

// forget says that the file of a snapshot is no longer there.
func (s *snapshotFiles) forget(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := slices.BinarySearch(s.offsets, offset); found {
		s.offsets = slices.Delete(s.offsets, at, at+1)
	}
}

// remove deletes a snapshot, which may be gone. That is durable once the directory is synced.
func (s *snapshotFiles) remove(offset int64) error {
	if err := s.fs.Remove(s.path(offset)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &IOError{Op: "remove", Path: s.path(offset), Err: err}
	}
	s.forget(offset)
	return nil
}

// removeDamaged deletes a snapshot that cannot be read as one, once it was kept aside.
func (s *snapshotFiles) removeDamaged(offset int64, reason error) error {
	if s.aside != nil {
		if err := s.aside(fileName(offset, snapshotSuffix), reason); err != nil {
			return err
		}
	}
	return s.remove(offset)
}

// removeIf deletes the snapshots at the offsets for which drop is true.
func (s *snapshotFiles) removeIf(drop func(offset int64) bool) error {
	for _, offset := range s.all() {
		if !drop(offset) {
			continue
		}
		if err := s.remove(offset); err != nil {
			return err
		}
	}
	return nil
}

// removeAll deletes every snapshot.
func (s *snapshotFiles) removeAll() error {
	return s.removeIf(func(int64) bool { return true })
}

// removeStray deletes the snapshots that stand at no segment's base, except the highest of these if it is at or above
// the highest base: that one was taken when the log was closed. bases rise.
func (s *snapshotFiles) removeStray(bases []int64) error {
	stray := slices.DeleteFunc(s.all(), func(offset int64) bool {
		_, found := slices.BinarySearch(bases, offset)
		return found
	})
	if n := len(stray); n > 0 && len(bases) > 0 && stray[n-1] >= bases[len(bases)-1] {
		stray = stray[:n-1]
	}
	for _, offset := range stray {
		if err := s.remove(offset); err != nil {
			return err
		}
	}
	return nil
}

// damaged reports whether the error says what is in a file, and not that it could not be read.
func damaged(err error) bool {
	var corruption *CorruptionError
	var version *UnsupportedVersionError
	return errors.As(err, &corruption) || errors.As(err, &version)
}
