package kafkalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/vfs"
)

// checkpointVersion is the version of every checkpoint file of Kafka that this package reads or writes.
const checkpointVersion = 0

// A checkpoint file is text with LF line ends:
//
//	+---------------------+----+
//	| version, decimal: 0 | LF |
//	+---------------------+----+
//	| entry count n       | LF |
//	+---------------------+----+
//	| fields of entry 1, separated by a space   | LF |
//	+-------------------------------------------+----+
//	| ...                                       |
//	+-------------------------------------------+----+
//	| fields of entry n                         | LF |
//	+-------------------------------------------+----+
//
// Example, the leader epochs 0 from offset 0, 1 from 50 and 2 from 100: "0\n3\n0 0\n1 50\n2 100\n".
//
// An empty file and one with only the version line hold no entries.

// formatCheckpoint returns the bytes of a checkpoint file with count entries; entry appends the fields of entry i.
func formatCheckpoint(count int, entry func(dst []byte, i int) []byte) []byte {
	dst := strconv.AppendInt(nil, checkpointVersion, 10)
	dst = append(dst, '\n')
	dst = strconv.AppendInt(dst, int64(count), 10)
	dst = append(dst, '\n')
	for i := range count {
		dst = append(entry(dst, i), '\n')
	}
	return dst
}

// parseCheckpoint calls entry with the fields of each entry line; an error it returns is reported with the line. The
// path is for errors, which are a [*CorruptionError] or, for another version, an [*UnsupportedVersionError].
func parseCheckpoint(path string, data []byte, fields int, entry func(fields []string) error) error {
	lines := textLines{path: path, rest: data}
	version, found := lines.next()
	if !found {
		return nil
	}
	if err := lines.checkVersion(version); err != nil {
		return err
	}
	countLine, found := lines.next()
	if !found {
		return nil
	}
	want, err := strconv.ParseInt(countLine, 10, 32)
	if err != nil || want < 0 {
		return lines.corrupt("entry count is not a number", "", countLine)
	}
	got := int64(0)
	for line, found := lines.next(); found; line, found = lines.next() {
		parts := strings.Fields(line)
		if len(parts) != fields {
			return lines.corrupt("number of fields", strconv.Itoa(fields), strconv.Quote(line))
		}
		if err := entry(parts); err != nil {
			return lines.corrupt(err.Error(), "", strconv.Quote(line))
		}
		got++
	}
	if got != want {
		return lines.corrupt("number of entries", strconv.FormatInt(want, 10), strconv.FormatInt(got, 10))
	}
	return nil
}

// textLines walks the lines of a small text file and knows where it is.
type textLines struct {
	path     string
	rest     []byte
	position int64 // of the line that next returned last
	consumed int64
}

// next returns the next line without its line end. A last line without one counts.
func (l *textLines) next() (string, bool) {
	if len(l.rest) == 0 {
		return "", false
	}
	l.position = l.consumed
	line, rest, found := bytes.Cut(l.rest, []byte{'\n'})
	l.consumed += int64(len(line))
	if found {
		l.consumed++
	}
	l.rest = rest
	return string(line), true
}

func (l *textLines) checkVersion(line string) error {
	version, err := strconv.ParseInt(line, 10, 32)
	if err != nil {
		return l.corrupt("version is not a number", strconv.Itoa(checkpointVersion), strconv.Quote(line))
	}
	if version != checkpointVersion {
		return &UnsupportedVersionError{
			Artifact: "checkpoint", Path: l.path, Position: l.position, Found: version, Supported: checkpointVersion,
		}
	}
	return nil
}

func (l *textLines) corrupt(reason, want, got string) error {
	return &CorruptionError{Path: l.path, Position: l.position, Want: want, Got: got, Reason: reason}
}

// parseOffsetField reads an offset, which is never negative.
func parseOffsetField(field string) (int64, error) {
	offset, err := strconv.ParseInt(field, 10, 64)
	if err != nil || offset < 0 {
		return 0, fmt.Errorf("offset %q is not a number from 0 to 2^63-1", field)
	}
	return offset, nil
}

// The log start file of a partition directory, which is ours; Kafka keeps one file for a whole data directory under the
// same name:
//
//	+---------------------+----+-----------------+----+
//	| version, decimal: 0 | LF | offset, decimal | LF |
//	+---------------------+----+-----------------+----+
//
// Example, start 42: "0\n42\n". Unlike Kafka's checkpoints it has no empty form: a start that was lost would let
// deleted records be read again. Lines after the second are ignored.

// formatLogStart returns the bytes of a log start file.
func formatLogStart(offset int64) []byte {
	return fmt.Appendf(nil, "%d\n%d\n", checkpointVersion, offset)
}

// parseLogStart reads a log start file. The path is for errors.
func parseLogStart(path string, data []byte) (int64, error) {
	lines := textLines{path: path, rest: data}
	version, found := lines.next()
	if !found {
		return 0, lines.corrupt("the file is empty", "", "")
	}
	if err := lines.checkVersion(version); err != nil {
		return 0, err
	}
	line, found := lines.next()
	if !found {
		lines.position = lines.consumed
		return 0, lines.corrupt("the offset is missing", "", "")
	}
	offset, err := parseOffsetField(line)
	if err != nil {
		return 0, lines.corrupt(err.Error(), "", "")
	}
	return offset, nil
}

// readLogStart returns the log start that the partition directory remembers, and false when it remembers none. A file
// that cannot be read as one fails with a [*CorruptionError] or an [*UnsupportedVersionError].
func readLogStart(fsys vfs.FS, dir string) (int64, bool, error) {
	name := path.Join(dir, logStartFileName)
	data, err := readFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	offset, err := parseLogStart(name, data)
	return offset, err == nil, err
}

// writeLogStart replaces the log start file. It is durable on return.
func writeLogStart(fsys vfs.FS, dir string, offset int64) error {
	return replaceFile(fsys, path.Join(dir, logStartFileName), formatLogStart(offset))
}

// removeLogStart deletes the log start file, if there is one. That is durable on return.
func removeLogStart(fsys vfs.FS, dir string) error {
	name := path.Join(dir, logStartFileName)
	if err := fsys.Remove(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return &IOError{Op: "remove", Path: name, Err: err}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return &IOError{Op: opSyncDir, Path: dir, Err: err}
	}
	return nil
}

// replaceFile gives the file new content in one step: after a crash it has the old bytes or the new ones. On return the
// new ones are durable. A failure leaves the old file, and perhaps the temporary one beside it.
func replaceFile(fsys vfs.FS, name string, data []byte) error {
	if err := renameOver(fsys, name, data); err != nil {
		return err
	}
	dir := path.Dir(name)
	if err := fsys.SyncDir(dir); err != nil {
		return &IOError{Op: opSyncDir, Path: dir, Err: err}
	}
	return nil
}

// renameOver is replaceFile after which a crash may still bring the old bytes back, until the directory is synced.
func renameOver(fsys vfs.FS, name string, data []byte) error {
	temp := name + tempSuffix
	if err := writeSynced(fsys, temp, data); err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return &IOError{Op: opReplace, Path: name, Err: err}
	}
	return nil
}

// opReplace is the [IOError].Op of the step from which on the new content may be there, although it failed.
const opReplace = "rename to"

// mayHaveReplaced reports whether a replaceFile that failed with the error may have taken effect all the same.
func mayHaveReplaced(err error) bool {
	var at *IOError
	return errors.As(err, &at) && (at.Op == opReplace || at.Op == opSyncDir)
}

// writeSynced makes a file with the given bytes and syncs them, not its name.
func writeSynced(fsys vfs.FS, name string, data []byte) (err error) {
	file, err := fsys.Open(name, vfs.CreateTruncate)
	if err != nil {
		return &IOError{Op: "create", Path: name, Err: err}
	}
	defer func() {
		if closeErr := file.Close(); closeErr != nil && err == nil {
			err = &IOError{Op: opClose, Path: name, Err: closeErr}
		}
	}()
	if _, err := file.WriteAt(data, 0); err != nil {
		return &IOError{Op: "write", Path: name, Err: err}
	}
	if err := file.Sync(); err != nil {
		return &IOError{Op: opSync, Path: name, Err: err}
	}
	return nil
}

// readFile returns the whole file. The error matches [fs.ErrNotExist] when there is none.
func readFile(fsys vfs.FS, name string) ([]byte, error) {
	file, err := fsys.Open(name, vfs.ReadOnly)
	if err != nil {
		return nil, &IOError{Op: "open", Path: name, Err: err}
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, &IOError{Op: "stat", Path: name, Err: err}
	}
	data := make([]byte, info.Size())
	n, err := file.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &IOError{Op: "read", Path: name, Err: err}
	}
	return data[:n], nil
}
