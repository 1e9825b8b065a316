package corpus

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Record is one record as a client sees it. A nil Key, Value or header value is null; an empty one is empty.
type Record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // milliseconds since 1970
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
}

// Header is one record header.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Abilities says which records a peer can express at all. The zero value expresses everything.
type Abilities struct {
	TextOnly      bool // no bytes but printable ASCII without quotes, tabs, colons and commas
	NoHeaderNulls bool // a header's value is never null
	NoEmptyKeys   bool // a key is null or has a byte
	NoEmptyValues bool // a value is null or has a byte
	NoBareNulls   bool // key and value are never both null
	EmptyIsNull   bool // a reader: it shows empty bytes as null
	NoTimestamps  bool // the peer stamps records with the time of writing
	SameHeaders   bool // every record carries the same headers
	UniqueHeaders bool // no two headers of a record have the same key
}

// BaseTimestamp is the approximate time of all records, in milliseconds: in the past, so that no server's limit for the
// future matters.
const BaseTimestamp = 1_700_000_000_000

// Mixed returns n records determined by the seed, of every kind that a peer with these abilities can express. Their
// timestamps are neither equal nor in order. Offsets count from 0.
func Mixed(seed uint64, n int, can Abilities) []Record {
	rng := rand.New(rand.NewPCG(seed, 1))
	records := make([]Record, n)
	for i := range records {
		records[i] = Record{
			Offset:    int64(i),
			Timestamp: BaseTimestamp + int64(i)*10 - int64(rng.IntN(500)),
			Key:       mixedKey(rng, i, can),
			Value:     mixedValue(rng, i, can),
			Headers:   mixedHeaders(rng, i, can),
		}
		if can.NoBareNulls && records[i].Key == nil && records[i].Value == nil {
			records[i].Key = []byte("not null")
		}
	}
	return records
}

func mixedKey(rng *rand.Rand, i int, can Abilities) []byte {
	switch {
	case i%5 == 1:
		return nil
	case i%5 == 2 && !can.NoEmptyKeys:
		return []byte{}
	case i%5 == 3 && !can.TextOnly:
		return noise(rng, 1+rng.IntN(40))
	default:
		return fmt.Appendf(nil, "key-%d", i%17)
	}
}

func mixedValue(rng *rand.Rand, i int, can Abilities) []byte {
	switch {
	case i%7 == 1:
		return nil
	case i%7 == 2 && !can.NoEmptyValues:
		return []byte{}
	case i%7 == 3 && !can.TextOnly:
		return noise(rng, 1+rng.IntN(2000))
	case i%7 == 4:
		return bytes.Repeat(fmt.Appendf(nil, "words that a codec likes %d ", i), 1+rng.IntN(400))
	default:
		return fmt.Appendf(nil, "value-%d", i)
	}
}

func mixedHeaders(rng *rand.Rand, i int, can Abilities) []Header {
	if can.SameHeaders {
		return []Header{{Key: "source", Value: []byte("interop")}, {Key: "part", Value: []byte("7")}}
	}
	switch {
	case i%4 == 1:
		return []Header{{Key: "single", Value: fmt.Appendf(nil, "%d", i)}}
	case i%4 == 2 && can.UniqueHeaders:
		return []Header{{Key: "noise", Value: noise(rng, 20)}, {Key: "text", Value: []byte("again")}, {Key: "empty", Value: []byte{}}}
	case i%4 == 2 && !can.TextOnly:
		return []Header{{Key: "same", Value: noise(rng, 20)}, {Key: "same", Value: []byte("again")}, {Key: "empty", Value: []byte{}}}
	case i%4 == 2:
		return []Header{{Key: "same", Value: []byte("once")}, {Key: "same", Value: []byte("again")}}
	case i%4 == 3 && !can.NoHeaderNulls:
		return []Header{{Key: "null", Value: nil}, {Key: "ключ", Value: []byte("значение")}}
	default:
		return nil
	}
}

// Large returns records whose values are size bytes of noise that no codec can shrink, as text if the peer needs it.
func Large(seed uint64, n, size int, can Abilities) []Record {
	rng := rand.New(rand.NewPCG(seed, 2))
	records := make([]Record, n)
	for i := range records {
		value := noise(rng, size)
		if can.TextOnly {
			value = []byte(base64.RawURLEncoding.EncodeToString(value)[:size])
		}
		records[i] = Record{
			Offset:    int64(i),
			Timestamp: BaseTimestamp + int64(i),
			Key:       fmt.Appendf(nil, "large-%d", i),
			Value:     value,
		}
		if can.SameHeaders {
			records[i].Headers = mixedHeaders(rng, i, can)
		}
	}
	return records
}

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Diff returns the first differences between what was written and what was read, one a line, or "" if there is none.
// Timestamps count unless the peer that wrote stamps records itself.
func Diff(want, got []Record, can Abilities) string {
	const shown = 5
	var b strings.Builder
	if len(want) != len(got) {
		fmt.Fprintf(&b, "%d records were written and %d read\n", len(want), len(got))
	}
	differences := 0
	for i := range min(len(want), len(got)) {
		w, g := want[i], got[i]
		if can.NoTimestamps {
			g.Timestamp = w.Timestamp
		}
		if can.EmptyIsNull {
			w = emptyIsNull(w)
		}
		if equal(w, g) {
			continue
		}
		if differences++; differences > shown {
			fmt.Fprintln(&b, "and more")
			break
		}
		fmt.Fprintf(&b, "record %d was written as %s and read as %s\n", i, w, g)
	}
	return b.String()
}

func emptyIsNull(r Record) Record {
	null := func(b []byte) []byte {
		if len(b) == 0 {
			return nil
		}
		return b
	}
	r.Key, r.Value = null(r.Key), null(r.Value)
	headers := r.Headers
	r.Headers = nil
	for _, h := range headers {
		r.Headers = append(r.Headers, Header{Key: h.Key, Value: null(h.Value)})
	}
	return r
}

func equal(a, b Record) bool {
	if a.Offset != b.Offset || a.Timestamp != b.Timestamp || !same(a.Key, b.Key) || !same(a.Value, b.Value) ||
		len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !same(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// String shows the record in a line, long bytes shortened.
func (r Record) String() string {
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, h.Key+"="+short(h.Value))
	}
	return fmt.Sprintf("{offset %d timestamp %d key %s value %s headers [%s]}",
		r.Offset, r.Timestamp, short(r.Key), short(r.Value), strings.Join(headers, " "))
}

func short(b []byte) string {
	const shown = 24
	switch {
	case b == nil:
		return "null"
	case len(b) > shown:
		return fmt.Sprintf("%q… (%d bytes)", b[:shown], len(b))
	default:
		return fmt.Sprintf("%q", b)
	}
}
