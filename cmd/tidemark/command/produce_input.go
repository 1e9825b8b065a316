package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// records returns the records to write, from the source that the flags name. An error ends the sequence.
func (f *produceFlags) records(c *cobra.Command, files []string) (iter.Seq2[*kgo.Record, error], error) {
	headers, err := parseHeaders(c, f.headers)
	if err != nil {
		return nil, err
	}
	delimiter, err := unescapeAll(f.delimiter)
	if err != nil || delimiter == "" {
		return nil, usagef(c, "--delimiter cannot be %q: it is one byte or more, with escapes such as \\n, \\0 and \\x1e", f.delimiter)
	}
	m := recordMaker{f: f, headers: headers, hasKey: c.Flags().Changed("key"), hasNull: c.Flags().Changed("null")}
	switch {
	case f.tombstone:
		if !m.hasKey || len(files) > 0 || f.input != "lines" {
			return nil, usagef(c, "--tombstone goes with --key, and with neither files nor --input")
		}
		return func(yield func(*kgo.Record, error) bool) { yield(m.new(nil), nil) }, nil
	case len(files) > 0:
		if f.input != "lines" || f.keyDelimiter != "" {
			return nil, usagef(c, "a file is one record's value: leave out --input and --key-delimiter")
		}
		return m.fromFiles(files), nil
	case f.input == "lines":
		return m.fromPieces(c.InOrStdin(), delimiter, m.fromLine), nil
	case f.input == "json":
		if f.keyDelimiter != "" || m.hasNull {
			return nil, usagef(c, "--input json says what is key and what is null: leave out --key-delimiter and --null")
		}
		return m.fromPieces(c.InOrStdin(), delimiter, m.fromJSON), nil
	}
	return nil, usagef(c, "--input is lines or json, not %q", f.input)
}

// recordMaker makes records from input.
type recordMaker struct {
	f               *produceFlags
	headers         []kgo.RecordHeader
	hasKey, hasNull bool
}

// new returns a record with the attributes that the flags set for all.
func (m recordMaker) new(value []byte) *kgo.Record {
	r := &kgo.Record{Headers: m.headers, Partition: m.f.partition, Value: value}
	if m.hasKey {
		r.Key = []byte(m.f.key)
	}
	return r
}

func (m recordMaker) fromLine(line []byte) (*kgo.Record, error) {
	var key []byte
	if m.f.keyDelimiter != "" {
		before, after, ok := bytes.Cut(line, []byte(m.f.keyDelimiter))
		if !ok {
			return nil, fmt.Errorf("no key delimiter %q in %q", m.f.keyDelimiter, line)
		}
		key, line = before, after
	}
	if m.hasNull && string(line) == m.f.nullValue {
		line = nil
	}
	r := m.new(line)
	if key != nil {
		r.Key = key
	}
	return r, nil
}

func (m recordMaker) fromJSON(line []byte) (*kgo.Record, error) {
	r, err := parseJSONRecord(line)
	if err != nil {
		return nil, err
	}
	r.Headers = append(r.Headers, m.headers...)
	if m.hasKey {
		r.Key = []byte(m.f.key)
	}
	switch {
	case !m.f.keepPartitions:
		r.Partition = m.f.partition
	case r.Partition < 0:
		return nil, errors.New("--keep-partitions: a record names no partition")
	}
	return r, nil
}

// fromFiles makes one record of each file.
func (m recordMaker) fromFiles(files []string) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		for _, name := range files {
			value, err := os.ReadFile(name)
			if !yield(m.new(value), err) || err != nil {
				return
			}
		}
	}
}

// fromPieces makes one record of each piece of the input; the last may lack its delimiter. A line may end in CR LF, and
// in JSON input a blank line is skipped.
func (m recordMaker) fromPieces(
	in io.Reader, delimiter string, record func([]byte) (*kgo.Record, error),
) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		reader := bufio.NewReaderSize(in, 1<<20)
		for {
			piece, err := readPiece(reader, delimiter)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, fmt.Errorf("reading standard input: %w", err))
				return
			}
			if err != nil && len(piece) == 0 {
				return
			}
			if delimiter == "\n" {
				piece = bytes.TrimSuffix(piece, []byte("\r"))
			}
			if m.f.input == "json" && len(bytes.TrimSpace(piece)) == 0 {
				continue
			}
			r, failed := record(piece)
			if !yield(r, failed) || failed != nil || err != nil {
				return
			}
		}
	}
}

// readPiece reads up to a delimiter and returns what was before it, in memory of its own. The error is io.EOF when the
// input ended instead.
func readPiece(reader *bufio.Reader, delimiter string) ([]byte, error) {
	piece := []byte{}
	last := delimiter[len(delimiter)-1]
	for {
		part, err := reader.ReadBytes(last)
		piece = append(piece, part...)
		if err != nil {
			return piece, err
		}
		if before, ok := bytes.CutSuffix(piece, []byte(delimiter)); ok {
			return before, nil
		}
	}
}
