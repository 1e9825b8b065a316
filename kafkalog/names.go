package kafkalog

import (
	"path"
	"strconv"
	"strings"
)

// The files of one partition directory. The number in front of a segment file's suffix is the segment's base offset,
// that of a snapshot the offset up to which it is complete: 20 decimal digits, zero padded.
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"
)

// Endings that follow the full name of a file that is not, or not yet, part of the log.
const (
	// deletedSuffix marks a file that left the log and waits to be unlinked.
	deletedSuffix = ".deleted"
	// cleanedSuffix marks a replacement that is being written and is worth nothing.
	cleanedSuffix = ".cleaned"
	// swapSuffix marks a complete replacement that waits for its final name.
	swapSuffix = ".swap"
	// tempSuffix marks the new side of an atomic replace.
	tempSuffix = ".tmp"
)

const (
	epochFileName    = "leader-epoch-checkpoint"
	logStartFileName = "log-start-offset-checkpoint"
)

// offsetDigits is the length of every number in a file name; the largest int64 has 19.
const offsetDigits = 20

// fileName returns the name of the file with the given suffix at the given offset, which is not negative.
func fileName(offset int64, suffix string) string {
	var buf [offsetDigits + 16]byte
	for i := offsetDigits - 1; i >= 0; i-- {
		buf[i] = byte('0' + offset%10)
		offset /= 10
	}
	return string(append(buf[:offsetDigits], suffix...))
}

// filePath is fileName below dir.
func filePath(dir string, offset int64, suffix string) string {
	return path.Join(dir, fileName(offset, suffix))
}

// parseOffset reads the number in front of the first dot of a file name. Only the form that fileName writes counts:
// a name that two programs would map to different files must not be taken for either.
func parseOffset(name string) (int64, bool) {
	stem, _, found := strings.Cut(name, ".")
	if !found || len(stem) != offsetDigits {
		return 0, false
	}
	if stem[0] == '+' || stem[0] == '-' {
		return 0, false
	}
	offset, err := strconv.ParseInt(stem, 10, 64)
	return offset, err == nil
}

// parseLogName returns the base offset in the name of a `.log` file. It fails with a [*SegmentNameError] when there is
// none: the bytes in such a file may be records, so it is never ignored.
func parseLogName(name string) (int64, error) {
	offset, ok := parseOffset(name)
	if !ok || name != fileName(offset, logSuffix) {
		return 0, &SegmentNameError{Name: name}
	}
	return offset, nil
}

// parseSnapshotName returns the offset in the name of a snapshot file; any other name is false.
func parseSnapshotName(name string) (int64, bool) {
	offset, ok := parseOffset(name)
	return offset, ok && name == fileName(offset, snapshotSuffix)
}

// isLogName reports whether the name is that of a segment's record file.
func isLogName(name string) bool { return strings.HasSuffix(name, logSuffix) }

// isIndexName reports whether the name is that of one of a segment's indexes.
func isIndexName(name string) bool {
	return strings.HasSuffix(name, indexSuffix) || strings.HasSuffix(name, timeIndexSuffix) ||
		strings.HasSuffix(name, txnIndexSuffix)
}
