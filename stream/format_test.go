package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // a bucket's client keeps its connections for a while, closed or not
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// change returns a copy of b with the bytes at a position replaced.
func change(b []byte, at int, with ...byte) []byte {
	c := bytes.Clone(b)
	copy(c[at:], with)
	return c
}

func TestEveryShorterRecordAndObjectIsRefused(t *testing.T) {
	decode := map[string]func([]byte) error{
		"record":     func(b []byte) error { _, _, err := DecodeRecord("k", 0, b); return err },
		"frame":      func(b []byte) error { _, _, err := DecodeFrame("k", 134217728, b); return err },
		"fence":      func(b []byte) error { _, _, err := DecodeWALObject("k", b); return err },
		"object":     func(b []byte) error { _, _, err := DecodeObject("k", b); return err },
		"composite":  func(b []byte) error { _, err := DecodeComposite("k", b); return err },
		"rangeindex": func(b []byte) error { _, err := DecodeRangeIndex("k", b); return err },
	}
	for name, refuse := range decode {
		whole := golden(t, name)
		require.NoError(t, refuse(whole), name)
		for n := range whole {
			require.ErrorIs(t, refuse(whole[:n]), ErrCorrupt, "%s of %d bytes", name, n)
		}
	}
}

func TestUnknownVersionsAreRefusedWithBothVersions(t *testing.T) {
	object := golden(t, "object")
	for name, c := range map[string]struct {
		err          error
		format       string
		position     int64
		found, known string
	}{
		"record": {
			second3(DecodeRecord("k", 7, change(golden(t, "record"), 0, 0x23))), "record", 7, "0x23", "0x22",
		},
		"WAL object": {
			third(DecodeWALObject("k", change(golden(t, "fence"), 0, 1, 2, 3, 4))), "WAL object", 0, "0x1020304",
			"0 (0x12345678) and 1 (0xedcba987)",
		},
		"a WAL object of version 0": {
			third(DecodeWALObject("k", WALHeader{Version: 0}.AppendTo(nil))), "WAL object", 0, "0", "1",
		},
		"block": {
			third(DecodeBlock("k", 5, change(object, 1, 3))), "block", 5, "0x5a03", "0x5a02",
		},
		"data object": {
			third(DecodeObject("k", change(object, 249, 0xf9))), "data object", 242, "0x88e241b785f4cff9",
			"0x88e241b785f4cff7 and 0x88e241b785f4cff8",
		},
		"objects block": {
			second(DecodeComposite("k", change(golden(t, "composite"), 0, 0x53))), "objects block", 0, "0x53", "0x52",
		},
		"range index": {
			second(DecodeRangeIndex("k", change(golden(t, "rangeindex"), 1, 1))), "range index", 0, "1", "0",
		},
	} {
		var version *VersionError
		require.ErrorAs(t, c.err, &version, name)
		require.Equal(t, VersionError{"k", c.position, c.format, c.found, c.known}, *version, name)
		require.NotErrorIs(t, c.err, ErrCorrupt, name)
	}
}

func second[A any](_ A, err error) error          { return err }
func third[A, B any](_ A, _ B, err error) error   { return err }
func second3[A, B any](_ A, _ B, err error) error { return err }

// TestF18_EveryBitOfAFrameIsCovered flips each bit of a WAL object's frames: the error names the object and the position.
func TestF18_EveryBitOfAFrameIsCovered(t *testing.T) {
	whole := append(golden(t, "walheader"), golden(t, "frame")...)
	for bit := walHeaderSizeV1 * 8; bit < len(whole)*8; bit++ {
		flipped := bytes.Clone(whole)
		flipped[bit/8] ^= 1 << (bit % 8)
		_, _, err := DecodeWALObject("the key", flipped)
		if bit/8 == walHeaderSizeV1+16 && bit%8 == 7 || bit/8 == walHeaderSizeV1+20 && bit%8 == 7 {
			require.ErrorIs(t, err, ErrCorrupt, "the unused top bit of a checksum")
			continue
		}
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, "bit %d", bit)
		require.Equal(t, "the key", corrupt.Object)
		require.GreaterOrEqual(t, corrupt.Position, int64(134217728))
	}
}

func TestWALHeadersThatDoNotFitTheirKey(t *testing.T) {
	good := WALHeader{Version: 1, Start: 134217728, BodyLen: 61, Node: 5, Epoch: 12, Trim: 134217788}
	key := WALKey{Epoch: 12, Start: 134217728}
	require.NoError(t, good.Check("k", 5, key, 109))
	for position, wrong := range map[int64]func(*WALHeader){
		4:  func(h *WALHeader) { h.Start += Window },
		12: func(h *WALHeader) { h.BodyLen++ },
		20: func(h *WALHeader) { h.Sticky = 1 },
		28: func(h *WALHeader) { h.Node = 6 },
		32: func(h *WALHeader) { h.Epoch = 11 },
		40: func(h *WALHeader) { h.Trim = h.Start + h.BodyLen },
	} {
		h := good
		wrong(&h)
		var corrupt *CorruptError
		require.ErrorAs(t, h.Check("k", 5, key, 109), &corrupt)
		require.Equal(t, position, corrupt.Position)
	}
	h := good
	h.Trim = -2
	require.ErrorIs(t, h.Check("k", 5, key, 109), ErrCorrupt)
	h = good
	h.Start, key.Start = 5, 5
	require.ErrorIs(t, h.Check("k", 5, key, 109), ErrCorrupt, "a window begins at a multiple of its length")
	h = good
	h.BodyLen = Window + 1
	require.ErrorIs(t, h.Check("k", 5, WALKey{Epoch: 12, Start: good.Start}, Window+1+48), ErrCorrupt)
	h.Version = 0
	var version *VersionError
	require.ErrorAs(t, h.Check("k", 5, key, 109), &version)
}

func TestAWALHeaderOfVersion0IsDecoded(t *testing.T) {
	h := WALHeader{Version: 0, Start: 7, BodyLen: 100, Node: 3, Epoch: 2, Trim: -1}
	b := h.AppendTo(nil)
	require.Equal(t, []byte("\x12\x34\x56\x78\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x64"+
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x02"), b)
	got, err := DecodeWALHeader("k", 140, b)
	require.NoError(t, err)
	require.Equal(t, h, got)
}

func TestWALKeysThatAreUnknown(t *testing.T) {
	p := WALPrefix{Cluster: "tm-1", Node: 5}
	for _, rest := range []string{
		"", "12", "12/wal", "12/wal/", "12/wal/x", "12/wal/0-1", "12/wal/0-67108865", "012/wal/0-67108864", "12/wal/00-67108864",
		"-1/wal/0-67108864", "12/log/0-67108864", "12/wal/0-67108864/x", "12/wal/0-67108864-1", "12/wal/9223372036854775807-1",
		"12/wal/+0-67108864",
	} {
		_, err := p.Parse(p.String() + rest)
		var unknown *UnknownKeyError
		require.ErrorAs(t, err, &unknown, rest)
		require.Equal(t, p.String()+rest, unknown.Key)
	}
	_, err := p.Parse(WALPrefix{Cluster: "tm-1", Node: 6}.Key(WALKey{}))
	require.Error(t, err, "another node's")
}

func TestWALKeysSortByNumber(t *testing.T) {
	keys := []WALKey{{Epoch: 9, Start: 10 * Window}, {Epoch: 10, Start: 2 * Window}, {Epoch: 9, Start: 9 * Window}}
	slices.SortFunc(keys, WALKey.Compare)
	require.Equal(t, []WALKey{
		{Epoch: 9, Start: 9 * Window}, {Epoch: 9, Start: 10 * Window}, {Epoch: 10, Start: 2 * Window},
	}, keys)
}

func TestRecordsThatMayNotBeAppended(t *testing.T) {
	require.NoError(t, tide.CheckAppend())
	for _, c := range []struct {
		r    Record
		want error
	}{
		{Record{Count: -1}, ErrLinkRecord},
		{Record{Count: 0}, ErrBadCount},
		{Sentinel(), ErrBadCount},
		{Record{Base: -1, Count: 1}, ErrBadCount},
		{Record{Base: math.MaxInt64, Count: 1}, ErrBadCount},
		{Record{Count: 1, Payload: make([]byte, MaxPayload+1)}, ErrRecordTooLarge},
	} {
		require.ErrorIs(t, c.r.CheckAppend(), c.want)
	}
	require.NoError(t, Record{Base: math.MaxInt64 - 1, Count: 1}.CheckAppend())
	require.NoError(t, Record{Count: math.MaxInt32, Payload: make([]byte, MaxPayload)}.CheckAppend())
}

func TestALinkRecordIsPreserved(t *testing.T) {
	link := Record{Stream: 1, Base: 100, Count: -20, Payload: []byte("x")}
	got, _, err := DecodeRecord("k", 0, link.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, link, got)
	require.True(t, got.IsLink())
	require.EqualValues(t, 120, got.End())
}

func writeObject(t testing.TB, blockSize int, records ...Record) ([]byte, Index) {
	t.Helper()
	var b bytes.Buffer
	w := NewObjectWriter(&b, blockSize)
	for _, r := range records {
		require.NoError(t, w.Add(r))
	}
	require.NoError(t, w.Close())
	return b.Bytes(), w.Index()
}

func TestABlockEndsWithItsSizeItsStreamOrTheObject(t *testing.T) {
	sized := func(stream catalog.StreamID, base int64, size int) Record {
		return Record{Stream: stream, Base: base, Count: 1, Payload: make([]byte, size)}
	}
	_, index := writeObject(t, 100,
		sized(1, 0, 60), sized(1, 1, 40), // exactly the size
		sized(1, 2, 60), sized(1, 3, 90), // above it
		sized(1, 4, 500), // one large record
		sized(1, 5, 1),   // counting starts again
		sized(2, 0, 1),   // another stream
	)
	var counts []int32
	for _, e := range index {
		counts = append(counts, e.Records)
	}
	require.Equal(t, []int32{2, 2, 1, 1, 1}, counts)
}

func TestRecordsOutOfOrderAreRefused(t *testing.T) {
	for _, blockSize := range []int{1, 1 << 20} { // the record before is in the index, or in the open block
		for _, wrong := range []Record{
			{Stream: 8, Base: 5000, Count: 1}, {Stream: 9, Base: 1002, Count: 1}, {Stream: 9, Base: 0, Count: 1},
		} {
			w := NewObjectWriter(io.Discard, blockSize)
			require.NoError(t, w.Add(tide))
			require.ErrorIs(t, w.Add(wrong), ErrOrdering)
			require.ErrorIs(t, w.Add(mark), ErrOrdering, "the first error sticks")
			require.ErrorIs(t, w.Close(), ErrOrdering)
		}
		w := NewObjectWriter(io.Discard, blockSize)
		require.NoError(t, w.Add(tide))
		require.NoError(t, w.Add(Record{Stream: 9, Base: 2000, Count: 1}), "gaps are allowed")
		require.NoError(t, w.Add(Record{Stream: 10, Base: 0, Count: 1}))
	}
}

func TestF06_OffsetsFarApartBecomeBlocksOfTheirOwn(t *testing.T) {
	var records []Record
	for _, base := range []int64{0, 1<<31 - 2, 1<<31 - 1, 1 << 31, 1 << 32, 1<<32 + 5, 1 << 40} {
		records = append(records, Record{Stream: 1, Base: base, Count: 1, Payload: []byte{byte(len(records))}})
	}
	records = append(records, Record{Stream: 1, Base: 1 << 41, Count: math.MaxInt32, Payload: []byte("wide")})
	b, index := writeObject(t, 1<<20, records...)
	_, got, err := DecodeObject("k", b)
	require.NoError(t, err)
	require.Equal(t, records, got)
	for _, r := range records {
		found := index.Find(1, r.Base, r.End(), 1)
		require.Len(t, found, 1)
		require.GreaterOrEqual(t, found[0].End(), r.End())
	}
	require.EqualValues(t, 1<<31-1, index[0].Delta, "the largest there is")
}

func TestWriteErrorsOfAnObjectStick(t *testing.T) {
	for n := range 4 {
		w := NewObjectWriter(&failing{after: n}, 1)
		err := errors.Join(w.Add(tide), w.Add(mark), w.Add(ebb), w.Close())
		require.ErrorIs(t, err, errFull)
		require.ErrorIs(t, w.Close(), errFull)
	}
}

var errFull = errors.New("full")

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after == 0 {
		return 0, errFull
	}
	f.after--
	return len(p), nil
}

func TestFind(t *testing.T) {
	index := Index{
		{Stream: 1, Start: 0, Delta: 10, Records: 1, Size: 143},
		{Stream: 3, Start: 100, Delta: 10, Records: 1, Size: 143},
		{Stream: 3, Start: 110, Delta: 10, Records: 1, Size: 143},
		{Stream: 3, Start: 130, Delta: 10, Records: 1, Size: 143}, // behind a gap
		{Stream: 5, Start: 0, Delta: 10, Records: 1, Size: 143},
	}
	for _, c := range []struct {
		stream     catalog.StreamID
		start, end int64
		maxBytes   int
		want       Index
	}{
		{3, 100, 140, 1000, index[1:4]},
		{3, 100, 110, 1000, index[1:2]},
		{3, 100, 111, 1000, index[1:3]},
		{3, 109, 111, 1000, index[1:3]},
		{3, 100, 140, 0, index[1:2]},   // at least one
		{3, 100, 140, 100, index[1:2]}, // the first costs 100
		{3, 100, 140, 101, index[1:3]},
		{3, 105, 140, 100, index[1:3]}, // the first costs nothing
		{3, 120, 140, 1000, nil},       // in the gap
		{3, 99, 140, 1000, nil},
		{3, 140, 150, 1000, nil},
		{2, 0, 10, 1000, nil},
		{6, 0, 10, 1000, nil},
		{5, 9, 10, 1000, index[4:]},
	} {
		require.Equal(t, c.want, index.Find(c.stream, c.start, c.end, c.maxBytes), "%+v", c)
	}
}

func TestOneIndexEntryMayHoldSeveralBlocks(t *testing.T) {
	b := AppendBlock(AppendBlock(nil, []Record{tide}), []Record{mark})
	e := IndexEntry{Stream: 9, Start: 1000, Delta: 4, Records: 2, Position: 500, Size: int32(len(b))}
	records, err := DecodeBlocks("k", e, b)
	require.NoError(t, err)
	require.Equal(t, []Record{tide, mark}, records)
	for name, wrong := range map[string]func(*IndexEntry){
		"count":  func(e *IndexEntry) { e.Records = 3 },
		"start":  func(e *IndexEntry) { e.Start = 999 },
		"end":    func(e *IndexEntry) { e.Delta = 5 },
		"stream": func(e *IndexEntry) { e.Stream = 8 },
		"size":   func(e *IndexEntry) { e.Size-- },
	} {
		bad := e
		wrong(&bad)
		_, err := DecodeBlocks("k", bad, b)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
}

func TestIndexesThatAreOutOfOrderOrOutsideTheObject(t *testing.T) {
	whole := golden(t, "object")
	for name, b := range map[string][]byte{
		"streams descend":       change(whole, 130+7, 12),
		"a block past the end":  change(whole, 130+32, 0, 0, 0, 131),
		"a negative size":       change(whole, 130+32, 0xff),
		"a negative delta":      change(whole, 130+16, 0xff),
		"a negative position":   change(whole, 130+24, 0xff),
		"an index somewhere":    change(whole, 202+7, 0x81),
		"half an entry":         change(whole, 202+11, 0x47),
		"a magic of its own":    change(whole, 242, 0),
		"another record count":  change(whole, 5, 3),
		"negative record count": change(whole, 2, 0xff),
	} {
		_, _, err := DecodeObject("k", b)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
}

func TestCompositesThatAreOutOfOrder(t *testing.T) {
	good, err := DecodeComposite("k", golden(t, "composite"))
	require.NoError(t, err)
	for name, wrong := range map[string]func(*CompositeObject){
		"no component":              func(c *CompositeObject) { c.Components = nil },
		"no entry":                  func(c *CompositeObject) { c.Entries = nil },
		"first not at the front":    func(c *CompositeObject) { c.Components[0].FirstBlock = 1 },
		"components descend":        func(c *CompositeObject) { c.Components[1].FirstBlock = 0 },
		"a component without entry": func(c *CompositeObject) { c.Components[1].FirstBlock = 3 },
		"a gap":                     func(c *CompositeObject) { c.Entries[1].Start++ },
		"another stream":            func(c *CompositeObject) { c.Entries[2].Stream = 10 },
	} {
		c := CompositeObject{Components: slices.Clone(good.Components), Entries: slices.Clone(good.Entries)}
		wrong(&c)
		_, err := c.Encode()
		require.ErrorIs(t, err, ErrOrdering, name)
	}
	_, err = DecodeComposite("k", change(golden(t, "composite"), 33+36+15, 0xff))
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, err, ErrOrdering)
	_, err = DecodeComposite("k", golden(t, "object"))
	require.ErrorIs(t, err, ErrCorrupt)
	_, _, err = DecodeObject("k", golden(t, "composite"))
	require.ErrorIs(t, err, ErrCorrupt)
}

// drawRecords draws records in the order of an object.
func drawRecords(t *rapid.T) []Record {
	var records []Record
	stream, next := catalog.StreamID(rapid.Int64Range(0, 5).Draw(t, "first stream")), int64(0)
	for range rapid.IntRange(0, 30).Draw(t, "records") {
		if rapid.IntRange(0, 4).Draw(t, "new stream") == 0 {
			stream += catalog.StreamID(rapid.Int64Range(1, 1<<40).Draw(t, "step"))
			next = rapid.Int64Range(0, 1<<61).Draw(t, "base")
		}
		r := Record{
			Stream: stream, Epoch: rapid.Int64().Draw(t, "epoch"), Base: next, Count: rapid.Int32Range(1, math.MaxInt32).Draw(t, "count"),
			Payload: rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "payload"),
		}
		records = append(records, r)
		next = r.End() + rapid.SampledFrom([]int64{0, 0, 0, 1, 1 << 33}).Draw(t, "gap")
	}
	return records
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		var b bytes.Buffer
		w := NewObjectWriter(&b, rapid.IntRange(1, 200).Draw(t, "block size"))
		for _, r := range records {
			require.NoError(t, w.Add(r))
		}
		require.NoError(t, w.Close())
		index, got, err := DecodeObject("k", b.Bytes())
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(records), fmt.Sprint(got))
		require.Equal(t, fmt.Sprint(w.Index()), fmt.Sprint(index))

		h := WALHeader{
			Version: 1, Start: Window * rapid.Int64Range(0, 1<<30).Draw(t, "window"), Node: 3, Epoch: rapid.Int64().Draw(t, "e"), Trim: -1,
		}
		object := EncodeWALObject(h, records)
		header, frames, err := DecodeWALObject("k", object)
		require.NoError(t, err)
		h.BodyLen = int64(len(object) - WALHeaderSize)
		require.Equal(t, h, header)
		require.Len(t, frames, len(records))
		for i, f := range frames {
			require.Equal(t, fmt.Sprint(records[i]), fmt.Sprint(f.Record))
			require.Equal(t, FrameLen(records[i]), f.Size)
		}
	})
}

// Fuzz targets: no input makes a decoder panic, and what it accepts is written back to the same bytes.

func FuzzDecodeRecord(f *testing.F) {
	f.Add(golden(f, "record"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := DecodeRecord("k", 0, b)
		if err == nil {
			require.Equal(t, b, append(r.AppendTo(nil), rest...))
		}
	})
}

func FuzzDecodeWALObject(f *testing.F) {
	f.Add(golden(f, "fence"))
	f.Add(append(golden(f, "walheader"), golden(f, "frame")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, frames, err := DecodeWALObject("k", b)
		if err != nil {
			return
		}
		size := h.Size()
		for _, frame := range frames {
			size += frame.Size
		}
		require.Equal(t, len(b), size)
	})
}

func FuzzDecodeObject(f *testing.F) {
	f.Add(golden(f, "object"))
	f.Fuzz(func(t *testing.T, b []byte) {
		index, records, err := DecodeObject("k", b)
		if err != nil {
			return
		}
		sum := 0
		for _, e := range index {
			sum += int(e.Records)
		}
		require.Len(t, records, sum)
	})
}

func FuzzDecodeComposite(f *testing.F) {
	f.Add(golden(f, "composite"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeComposite("k", b)
		if err != nil {
			return
		}
		again, err := c.Encode()
		require.NoError(t, err)
		copy(again[len(again)-36:], b[len(b)-36:len(b)-8]) // the footer's zeros are not looked at
		require.Equal(t, b, again)
	})
}

func FuzzDecodeRangeIndex(f *testing.F) {
	f.Add(golden(f, "rangeindex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		streams, err := DecodeRangeIndex("k", b)
		if err == nil {
			require.Equal(t, b, EncodeRangeIndex(streams))
		}
	})
}

func FuzzParseWALKey(f *testing.F) {
	p := WALPrefix{Cluster: "tm-1", Node: 5}
	f.Add(p.Key(WALKey{Epoch: 12, Start: 134217728}))
	f.Add(p.Key(WALKey{Epoch: 12, Old: true}))
	f.Fuzz(func(t *testing.T, key string) {
		if k, err := p.Parse(key); err == nil {
			require.Equal(t, key, p.Key(k))
		}
	})
}

func TestAnUnknownFrameIsRefusedBehindItsChecksum(t *testing.T) {
	frame := change(golden(t, "frame"), 0, 0x11, 0x22, 0x33, 0x44)
	binary.BigEndian.PutUint32(frame[20:], crc31(frame[:20]))
	_, _, err := DecodeFrame("k", 134217728, frame)
	require.Equal(t, &VersionError{"k", 134217728, "frame", "0x11223344", "0x87654321"}, err)
	_, _, err = DecodeFrame("k", 0, golden(t, "frame"))
	require.ErrorIs(t, err, ErrCorrupt, "a frame of another place")
}
