package batch

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func anyHeader() *rapid.Generator[Header] {
	return rapid.Custom(func(t *rapid.T) Header {
		return Header{
			BaseOffset:      rapid.Int64().Draw(t, "base offset"),
			Length:          rapid.Int32Min(minLength).Draw(t, "length"),
			LeaderEpoch:     rapid.Int32().Draw(t, "leader epoch"),
			Magic:           Magic,
			CRC:             rapid.Uint32().Draw(t, "crc"),
			Attributes:      Attributes(rapid.Int16().Draw(t, "attributes")),
			LastOffsetDelta: rapid.Int32().Draw(t, "last offset delta"),
			BaseTimestamp:   rapid.Int64().Draw(t, "base timestamp"),
			MaxTimestamp:    rapid.Int64().Draw(t, "max timestamp"),
			ProducerID:      rapid.Int64().Draw(t, "producer id"),
			ProducerEpoch:   rapid.Int16().Draw(t, "producer epoch"),
			BaseSequence:    rapid.Int32().Draw(t, "base sequence"),
			Count:           rapid.Int32().Draw(t, "count"),
		}
	})
}

func TestHeaderRoundTripAndViewAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := anyHeader().Draw(t, "header")
		b := make(Batch, HeaderSize)
		h.Put(b)
		parsed, err := ParseHeader(b)
		require.NoError(t, err)
		require.Equal(t, h, parsed)
		require.Equal(t, h, Header{
			BaseOffset: b.BaseOffset(), Length: b.Length(), LeaderEpoch: b.LeaderEpoch(), Magic: b.Magic(), CRC: b.CRC(),
			Attributes: b.Attributes(), LastOffsetDelta: b.LastOffsetDelta(), BaseTimestamp: b.BaseTimestamp(),
			MaxTimestamp: b.MaxTimestamp(), ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(),
			BaseSequence: b.BaseSequence(), Count: b.Count(),
		})
		require.Equal(t, h.LastOffset(), b.LastOffset())
		require.Equal(t, h.NextOffset(), b.NextOffset())
		require.Equal(t, h.LastSequence(), b.LastSequence())
		require.Equal(t, b.Size()-HeaderSize, len(b.Payload()))
	})
}

func TestF06_OffsetsBeyond32Bits(t *testing.T) {
	b := golden(t, "two-records")
	for _, base := range []int64{0, 1<<31 - 2, 1<<31 - 1, 1 << 31, 1 << 32, 1<<32 + 5, 1 << 40, math.MaxInt64 - 2} {
		b.SetBaseOffset(base)
		b.SetLeaderEpoch(math.MaxInt32)
		require.NoError(t, b.VerifyCRC(), "offset and epoch are outside the checksum")
		require.NoError(t, b.Header().Check())
		require.Equal(t, base, b.BaseOffset())
		require.Equal(t, base+1, b.LastOffset())
		require.Equal(t, base+2, b.NextOffset())
		require.Equal(t, int32(math.MaxInt32), b.LeaderEpoch())
		records := all(t, b, Limits{})
		require.Equal(t, []int64{base, base + 1}, []int64{records[0].Offset, records[1].Offset})
	}

	sparse := NewBuilder(BuilderOptions{BaseOffset: 1 << 40})
	sparse.AddAt(1<<40, 1, nil, []byte("first"))
	sparse.AddAt(1<<40+math.MaxInt32, 1, nil, []byte("last"))
	built, err := sparse.Build()
	require.NoError(t, err)
	require.Equal(t, int32(math.MaxInt32), built.LastOffsetDelta())
	require.Equal(t, int64(1<<40+1<<31), built.NextOffset())

	sparse.Reset(BuilderOptions{BaseOffset: 1 << 40})
	sparse.AddAt(1<<40+1<<31, 1, nil, []byte("one too far"))
	_, err = sparse.Build()
	require.EqualError(t, err, "batch: offset 1101659111424 is too far from base offset 1099511627776")
}

func TestHeaderCheck(t *testing.T) {
	good := golden(t, "two-records").Header()
	require.NoError(t, good.Check())
	for name, spoil := range map[string]func(*Header){
		"negative base offset":       func(h *Header) { h.BaseOffset = -1 },
		"negative last offset delta": func(h *Header) { h.LastOffsetDelta = -1 },
		"offsets overflow":           func(h *Header) { h.BaseOffset = math.MaxInt64 - 1 },
		"negative count":             func(h *Header) { h.Count = -1 },
		"more records than offsets":  func(h *Header) { h.Count = 3 },
		"payload without records":    func(h *Header) { h.Count = 0 },
	} {
		h := good
		spoil(&h)
		var format *FormatError
		require.ErrorAs(t, h.Check(), &format, name)
	}
	compacted := good
	compacted.LastOffsetDelta = 700
	require.NoError(t, compacted.Check(), "compaction leaves fewer records than offsets")
}

func TestNextWalksBatchesAndStopsAtEveryCut(t *testing.T) {
	first, second := golden(t, "two-records"), golden(t, "abort-marker")
	log := slices.Concat(first, second)

	b, rest, err := Next(log)
	require.NoError(t, err)
	require.Equal(t, first, b)
	b, rest, err = Next(rest)
	require.NoError(t, err)
	require.Equal(t, second, b)
	_, _, err = Next(rest)
	require.Equal(t, io.EOF, err)

	for cut := 1; cut < len(first); cut++ {
		b, rest, err := Next(log[:cut])
		require.Equal(t, io.ErrUnexpectedEOF, err, "cut after %d bytes", cut)
		require.Nil(t, b)
		require.Len(t, rest, cut)
	}
}

func TestNextDoesNotLetABatchGrowIntoTheNext(t *testing.T) {
	log := slices.Concat(golden(t, "two-records"), golden(t, "abort-marker"))
	b, rest, err := Next(log)
	require.NoError(t, err)
	_ = append(b, 0xff)
	require.Equal(t, golden(t, "abort-marker"), Batch(rest))
}

func TestNextRefusesWhatIsNoBatch(t *testing.T) {
	put := func(length int32, magic byte) []byte {
		buf := make([]byte, 200)
		binary.BigEndian.PutUint32(buf[posLength:], uint32(length))
		buf[posMagic] = magic
		return buf
	}
	for name, buf := range map[string][]byte{
		"zeros":                     make([]byte, 100),
		"negative length":           put(-1, 2),
		"length of no version":      put(13, 2),
		"length of an older header": put(48, 2),
		"unknown version":           put(100, 3),
		"negative version":          put(100, 0xff),
	} {
		_, rest, err := Next(buf)
		var format *FormatError
		require.ErrorAs(t, err, &format, name)
		require.Len(t, rest, len(buf), name)
		_, err = ParseHeader(buf)
		require.ErrorAs(t, err, &format, name)
	}
	for _, magic := range []byte{0, 1} {
		_, rest, err := Next(put(100, magic))
		require.Equal(t, &MagicError{Magic: int8(magic)}, err)
		require.Len(t, rest, 200-112, "an older batch can be stepped over")
		_, err = ParseHeader(put(100, magic))
		require.Equal(t, &MagicError{Magic: int8(magic)}, err)
		_, _, err = Next(put(300, magic))
		require.Equal(t, io.ErrUnexpectedEOF, err)
	}
	for _, magic := range []byte{3, 0xff} {
		_, err := ParseHeader(put(100, magic))
		var other *MagicError
		require.ErrorAs(t, err, &other)
		require.Equal(t, int8(magic), other.Magic)
	}
}

func TestParseHeaderNeedsTheWholeHeader(t *testing.T) {
	b := golden(t, "two-records")
	for cut := range HeaderSize {
		_, err := ParseHeader(b[:cut])
		require.Equal(t, io.ErrUnexpectedEOF, err, "cut after %d bytes", cut)
	}
	_, err := ParseHeader(b[:HeaderSize])
	require.NoError(t, err)
}
