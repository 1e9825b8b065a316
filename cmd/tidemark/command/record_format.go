package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// formatHelp lists the directives of a format string. They are kcat's.
const formatHelp = `  %s value     %S its length      %R its length as 4 bytes, big-endian
  %k key       %K its length      %h headers as NAME=VALUE, comma-separated
  %t topic     %p partition       %o offset      %T timestamp in milliseconds
  %% a percent sign; \n \r \t \0 \\ and \xHH are the bytes that they stand for
The length of null is -1. Nothing is added after a record: end the format with \n to get lines.`

// recordFormat writes records by a format string.
type recordFormat []formatPart

// formatPart appends its piece of a record.
type formatPart func(dst []byte, r *kgo.Record) []byte

// append writes one record.
func (f recordFormat) append(dst []byte, r *kgo.Record) []byte {
	for _, part := range f {
		dst = part(dst, r)
	}
	return dst
}

// parseFormat parses a format string. null is written for a null key or value.
func parseFormat(text, null string) (recordFormat, error) {
	var format recordFormat
	var literal []byte
	flush := func() {
		if len(literal) > 0 {
			bytes := literal
			format = append(format, func(dst []byte, _ *kgo.Record) []byte { return append(dst, bytes...) })
			literal = nil
		}
	}
	for len(text) > 0 {
		switch text[0] {
		case '\\':
			b, rest, err := unescape(text)
			if err != nil {
				return nil, err
			}
			literal, text = append(literal, b), rest
		case '%':
			if len(text) < 2 {
				return nil, errors.New("it ends in a single %")
			}
			if text[1] == '%' {
				literal = append(literal, '%')
			} else {
				part := directive(text[1], null)
				if part == nil {
					return nil, fmt.Errorf("%%%c is not known", text[1])
				}
				flush()
				format = append(format, part)
			}
			text = text[2:]
		default:
			literal, text = append(literal, text[0]), text[1:]
		}
	}
	flush()
	return format, nil
}

// unescape parses a backslash sequence.
func unescape(text string) (b byte, rest string, err error) {
	if len(text) < 2 {
		return 0, "", errors.New(`it ends in a single \`)
	}
	if at := strings.IndexByte("nrt0\\", text[1]); at >= 0 {
		return "\n\r\t\x00\\"[at], text[2:], nil
	}
	if text[1] == 'x' && len(text) >= 4 {
		if n, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
			return byte(n), text[4:], nil
		}
	}
	return 0, "", fmt.Errorf(`\%c is not known; \n \r \t \0 \\ and \xHH are`, text[1])
}

// unescapeAll replaces every escape of a text.
func unescapeAll(text string) (string, error) {
	var b strings.Builder
	for len(text) > 0 {
		if text[0] != '\\' {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		c, rest, err := unescape(text)
		if err != nil {
			return "", err
		}
		b.WriteByte(c)
		text = rest
	}
	return b.String(), nil
}

// directive returns what a letter after a percent sign writes, nil for an unknown one.
func directive(letter byte, null string) formatPart {
	switch letter {
	case 's':
		return func(dst []byte, r *kgo.Record) []byte { return appendOr(dst, r.Value, null) }
	case 'S':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, lengthOf(r.Value), 10) }
	case 'R':
		return func(dst []byte, r *kgo.Record) []byte {
			return binary.BigEndian.AppendUint32(dst, uint32(lengthOf(r.Value)))
		}
	case 'k':
		return func(dst []byte, r *kgo.Record) []byte { return appendOr(dst, r.Key, null) }
	case 'K':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, lengthOf(r.Key), 10) }
	case 'h':
		return func(dst []byte, r *kgo.Record) []byte { return appendHeaders(dst, r.Headers, ",", null) }
	case 't':
		return func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Topic...) }
	case 'p':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, int64(r.Partition), 10) }
	case 'o':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Offset, 10) }
	case 'T':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10) }
	}
	return nil
}

func appendOr(dst, b []byte, null string) []byte {
	if b == nil {
		return append(dst, null...)
	}
	return append(dst, b...)
}

func appendHeaders(dst []byte, headers []kgo.RecordHeader, between, null string) []byte {
	for i, h := range headers {
		if i > 0 {
			dst = append(dst, between...)
		}
		dst = append(append(dst, h.Key...), '=')
		dst = appendOr(dst, h.Value, null)
	}
	return dst
}

// lengthOf returns the length of a key or value, -1 for null.
func lengthOf(b []byte) int64 {
	if b == nil {
		return -1
	}
	return int64(len(b))
}
