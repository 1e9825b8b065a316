package logdir

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"

	"github.com/tidemark-io/tidemark/vfs"
)

// The file tidemark.closed-logs, numbers in big-endian order, the checksum CRC-32C:
//
//	0        8         12      16      20
//	┌────────┬─────────┬───────┬───────┬─────────┬─────────┬───
//	│ magic  │ version │ crc   │ count │ entry   │ entry   │ …     crc: of what follows it, to the end of the file
//	└────────┴─────────┴───────┴───────┴─────────┴─────────┴───
//
//	entry    0          16          20       24
//	         ┌──────────┬───────────┬────────┬─────────┐
//	         │ topic id │ partition │ length │ summary │           in rising order of topic id and partition, none twice
//	         └──────────┴───────────┴────────┴─────────┘
//	                                 of the summary in bytes
//
// The format of a summary belongs to whoever wrote it. Example, without an entry:
//
//	54 4d 43 4c 4f 53 45 44  00 00 00 00  48 67 4b c7  00 00 00 00
const (
	closedMagic   = "TMCLOSED"
	closedVersion = 0

	closedVersioned       = 12 // so much is the same in every version
	closedHeaderSize      = 20
	closedEntryHeaderSize = 24
	closedSealed          = 16 // where what the checksum covers begins
)

// maxClosedLogs is how long the file may be. 5,000 logs take less than one MiB.
const maxClosedLogs = 64 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ClosedLog is what the last owner knew of a log when it had closed it, so that the log need not be read to be opened.
type ClosedLog struct {
	Topic     UUID
	Partition int32
	// Summary is in a format of the owner's. It aliases what it was read from.
	Summary []byte
}

func compareClosedLogs(a, b ClosedLog) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}

// ClosedLogs returns what the file tidemark.closed-logs says, by rising topic id and partition, or nothing if there is no
// such file. It is worth something only beside the marker of a clean shutdown: read it before [Dir.TakeCleanShutdown],
// which removes both. And it is worth something only for logs that nothing has written to since, which whoever uses a
// summary must be able to tell: a server that does not know the file may have had the directory in between.
//
// A damaged file is a [*FormatError] and one of an unknown version a [*VersionError].
func (d *Dir) ClosedLogs() (logs []ClosedLog, err error) {
	err = d.use(func() error {
		logs, err = readClosedLogs(d.fs, d.file(closedLogsFile))
		return err
	})
	return logs, err
}

func readClosedLogs(fsys vfs.FS, file string) ([]ClosedLog, error) {
	info, err := fsys.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxClosedLogs {
		return nil, inFile(file, formatError(0, "%d bytes are more than it ever has", info.Size()))
	}
	data, err := vfs.ReadFile(fsys, file)
	if err != nil {
		return nil, err
	}
	logs, err := decodeClosedLogs(data)
	return logs, inFile(file, err)
}

// WriteClosedLogs replaces the file tidemark.closed-logs, durably, and returns how many of the logs, which may be in any
// order, have no room in it. Call it right before [Dir.WriteCleanShutdown], when the logs are closed. No log may be listed
// twice.
func (d *Dir) WriteClosedLogs(logs []ClosedLog) (left int, err error) {
	logs = slices.SortedFunc(slices.Values(logs), compareClosedLogs)
	data, left := encodeClosedLogs(logs, maxClosedLogs)
	return left, d.use(func() error { return vfs.WriteFileAtomic(d.fs, d.file(closedLogsFile), data) })
}

// encodeClosedLogs returns the file, which is no longer than limit, and how many logs did not fit into it.
func encodeClosedLogs(logs []ClosedLog, limit int) (data []byte, left int) {
	size := closedHeaderSize
	for _, l := range logs {
		size += closedEntryHeaderSize + len(l.Summary)
	}
	data = make([]byte, closedHeaderSize, min(size, limit))
	copy(data, closedMagic)
	binary.BigEndian.PutUint32(data[8:], closedVersion)
	for _, l := range logs {
		if len(data)+closedEntryHeaderSize+len(l.Summary) > limit {
			left++
			continue
		}
		data = append(data, l.Topic[:]...)
		data = binary.BigEndian.AppendUint32(data, uint32(l.Partition))
		data = binary.BigEndian.AppendUint32(data, uint32(len(l.Summary)))
		data = append(data, l.Summary...)
	}
	binary.BigEndian.PutUint32(data[16:], uint32(len(logs)-left))
	binary.BigEndian.PutUint32(data[12:], crc32.Checksum(data[closedSealed:], castagnoli))
	return data, left
}

func decodeClosedLogs(data []byte) ([]ClosedLog, error) {
	if len(data) < closedVersioned || string(data[:len(closedMagic)]) != closedMagic {
		return nil, formatError(0, "it does not begin with %q and a version", closedMagic)
	}
	if version := binary.BigEndian.Uint32(data[8:]); version != closedVersion {
		return nil, &VersionError{Found: int64(version), Newest: closedVersion}
	}
	if len(data) < closedHeaderSize {
		return nil, formatError(0, "it ends in its header")
	}
	if want, got := binary.BigEndian.Uint32(data[12:]), crc32.Checksum(data[closedSealed:], castagnoli); want != got {
		return nil, formatError(0, "its checksum is %08x, that of its bytes %08x", want, got)
	}
	count, rest := int64(binary.BigEndian.Uint32(data[16:])), data[closedHeaderSize:]
	if count > int64(len(rest)/closedEntryHeaderSize) {
		return nil, formatError(0, "%d entries do not fit into %d bytes", count, len(rest))
	}
	logs := make([]ClosedLog, 0, count)
	for range count {
		l, after, err := decodeClosedLog(rest)
		if err == nil && len(logs) > 0 && compareClosedLogs(logs[len(logs)-1], l) >= 0 {
			err = errors.New("not behind the one before it")
		}
		if err != nil {
			return nil, formatError(0, "the entry at position %d: %v", len(data)-len(rest), err)
		}
		logs, rest = append(logs, l), after
	}
	if len(rest) > 0 {
		return nil, formatError(0, "%d bytes follow the last entry", len(rest))
	}
	return logs, nil
}

// decodeClosedLog reads the entry at the beginning of b, and returns what follows it.
func decodeClosedLog(b []byte) (l ClosedLog, rest []byte, err error) {
	if len(b) < closedEntryHeaderSize {
		return l, nil, errors.New("the file ends in it")
	}
	copy(l.Topic[:], b)
	l.Partition = int32(binary.BigEndian.Uint32(b[16:]))
	length := int64(binary.BigEndian.Uint32(b[20:]))
	b = b[closedEntryHeaderSize:]
	switch {
	case l.Partition < 0:
		return l, nil, fmt.Errorf("partition %d is negative", l.Partition)
	case length > int64(len(b)):
		return l, nil, fmt.Errorf("%d bytes are announced and %d there", length, len(b))
	}
	l.Summary = b[:length:length]
	return l, b[length:], nil
}
