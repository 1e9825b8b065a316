package logdir

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A checkpoint file is text in UTF-8. Every line ends with LF.
//
//	0                 version
//	2                 number of entries
//	orders 3 4711     topic SP partition SP offset
//	payments 0 12     any order; written sorted, so that equal contents are equal bytes
//
// An empty file, and one with the version only, has no entries.

// checkpointVersion is the only version there is.
const checkpointVersion = 0

// encodeOffsets returns a checkpoint file.
func encodeOffsets(offsets map[Partition]int64) []byte {
	b := strconv.AppendInt(nil, checkpointVersion, 10)
	b = append(b, '\n')
	b = strconv.AppendInt(b, int64(len(offsets)), 10)
	b = append(b, '\n')
	for _, p := range slices.SortedFunc(maps.Keys(offsets), comparePartitions) {
		b = append(b, p.Topic...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(p.Index), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, offsets[p], 10)
		b = append(b, '\n')
	}
	return b
}

func comparePartitions(a, b Partition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Index) - int(b.Index)
}

// decodeOffsets reads a checkpoint file. Like Kafka it splits fields at any run of white space, takes CR LF for LF, does
// without the last LF, and of two entries for one partition takes the later.
func decodeOffsets(data []byte) (map[Partition]int64, error) {
	offsets := map[Partition]int64{}
	if len(data) == 0 {
		return offsets, nil
	}
	if !utf8.Valid(data) {
		return nil, formatError(0, "not UTF-8 text")
	}
	lines := splitLines(data)
	version, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil {
		return nil, formatError(1, "want a version, found %q", lines[0])
	}
	if version != checkpointVersion {
		return nil, &VersionError{Found: version, Newest: checkpointVersion}
	}
	if len(lines) == 1 {
		return offsets, nil
	}
	count, err := strconv.ParseInt(lines[1], 10, 32)
	if err != nil || count < 0 {
		return nil, formatError(2, "want a number of entries, found %q", lines[1])
	}
	entries := lines[2:]
	if int64(len(entries)) != count {
		return nil, formatError(2, "%d entries are announced and %d there", count, len(entries))
	}
	for i, line := range entries {
		p, offset, err := decodeEntry(line)
		if err != nil {
			return nil, formatError(i+3, "%v", err)
		}
		offsets[p] = offset
	}
	return offsets, nil
}

// splitLines returns the lines without their ends.
func splitLines(data []byte) []string {
	text := string(bytes.TrimSuffix(data, []byte("\n")))
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines
}

func decodeEntry(line string) (Partition, int64, error) {
	fields := strings.FieldsFunc(line, isSpace)
	if len(fields) != 3 {
		return Partition{}, 0, fmt.Errorf("want topic, partition and offset, found %q", line)
	}
	index, indexErr := strconv.ParseInt(fields[1], 10, 32)
	offset, offsetErr := strconv.ParseInt(fields[2], 10, 64)
	if indexErr != nil || offsetErr != nil {
		return Partition{}, 0, fmt.Errorf("want topic, partition and offset, found %q", line)
	}
	p := Partition{Topic: fields[0], Index: int32(index)}
	return p, offset, checkEntry(p, offset)
}

// checkEntry holds that an entry is a line of its own that can be read again.
func checkEntry(p Partition, offset int64) error {
	if err := p.Check(); err != nil {
		return err
	}
	if offset < 0 {
		return fmt.Errorf("offset %d of %s is negative", offset, p)
	}
	return nil
}
