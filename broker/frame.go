package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// A request on the wire (all integers big-endian). The size counts everything after itself.
//
//	┌──────┬─────┬─────────┬─────────────┬────────────────────────┬────────────────┬──────┐
//	│ size │ key │ version │ correlation │ client id              │ tagged fields  │ body │
//	│ 4    │ 2   │ 2       │ 4           │ int16 length (-1 null) │ flexible only  │      │
//	└──────┴─────┴─────────┴─────────────┴────────────────────────┴────────────────┴──────┘
//
// The client id never becomes a compact string, not even in the flexible header: only the tagged fields after it are new.
//
// A response:
//
//	┌──────┬─────────────┬──────────────────────────────────┬──────┐
//	│ size │ correlation │ tagged fields: one byte 0        │ body │
//	│ 4    │ 4           │ flexible only, never ApiVersions │      │
//	└──────┴─────────────┴──────────────────────────────────┴──────┘
const (
	sizeBytes      = 4
	fixedHeader    = 2 + 2 + 4 // key, version, correlation
	smallestHeader = fixedHeader + 2
	largestHeader  = smallestHeader + 1<<15 // without tagged fields
)

// requestHeader is what comes before the body.
type requestHeader struct {
	key         int16
	version     int16
	correlation int32
	clientID    string // "" when null; aliases the frame
}

var errShortHeader = errors.New("the request ends inside its header")

// parseHeader parses the header of a frame without its size, and returns the rest. flexible reports whether the header of
// this key and version has tagged fields; it is called only once these are known.
func parseHeader(frame []byte, flexible func(key, version int16) bool) (h requestHeader, body []byte, err error) {
	if len(frame) < smallestHeader {
		return requestHeader{}, nil, errShortHeader
	}
	h = parseFixedHeader(frame)
	n := int(int16(binary.BigEndian.Uint16(frame[fixedHeader:])))
	body = frame[smallestHeader:]
	if n > len(body) || n < -1 {
		return h, nil, errShortHeader
	}
	if n > 0 {
		if !utf8.Valid(body[:n]) {
			return h, nil, errors.New("the client id is not UTF-8")
		}
		h.clientID = aliasString(body[:n])
		body = body[n:]
	}
	if flexible(h.key, h.version) {
		if body, err = skipTags(body); err != nil {
			return h, nil, err
		}
	}
	return h, body, nil
}

// parseFixedHeader reads the first eight bytes; the client id stays empty.
func parseFixedHeader(frame []byte) requestHeader {
	return requestHeader{
		key:         int16(binary.BigEndian.Uint16(frame)),
		version:     int16(binary.BigEndian.Uint16(frame[2:])),
		correlation: int32(binary.BigEndian.Uint32(frame[4:])),
	}
}

// skipTags steps over a section of tagged fields: a count, and for each field a tag, a length and that many bytes.
func skipTags(b []byte) ([]byte, error) {
	count, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	for ; count > 0; count-- {
		var size uint32
		if _, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if size, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("a tagged field of %d bytes in a frame with %d left", size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads an unsigned variable-length integer of at most 32 bits.
func uvarint(b []byte) (uint32, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		return 0, nil, errors.New("not a 32-bit varint")
	}
	return uint32(v), b[n:], nil
}

// frameStart begins a response frame, up to its body.
func frameStart(dst []byte, correlation int32, tagged bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if tagged {
		dst = append(dst, 0)
	}
	return dst
}

// frameEnd fills in the size of a frame that starts at frame[0] and has extra more bytes to come after it.
func frameEnd(frame []byte, extra int64) []byte {
	binary.BigEndian.PutUint32(frame, uint32(int64(len(frame)-sizeBytes)+extra))
	return frame
}
