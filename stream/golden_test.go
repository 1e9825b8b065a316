package stream

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// golden returns the bytes of a worked example. The files are copies of the specification's and are never rewritten.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".hex")
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	return b
}

var (
	tide = Record{Stream: 9, Epoch: 4, Base: 1000, Count: 3, Payload: []byte("tide")}
	mark = Record{Stream: 9, Epoch: 4, Base: 1003, Count: 1, Payload: []byte("mark")}
	ebb  = Record{Stream: 11, Epoch: 2, Base: 50, Count: 2, Payload: []byte("ebb")}
)

func TestGoldenRecord(t *testing.T) {
	want := golden(t, "record")
	require.Equal(t, want, tide.AppendTo(nil))
	got, rest, err := DecodeRecord("k", 0, append(want, 1, 2))
	require.NoError(t, err)
	require.Equal(t, tide, got)
	require.Equal(t, []byte{1, 2}, rest)
	require.EqualValues(t, 1003, got.End())
}

func TestGoldenFrame(t *testing.T) {
	want := golden(t, "frame")
	require.Equal(t, want, AppendFrame(nil, 134217728, tide))
	got, rest, err := DecodeFrame("k", 134217728, want)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, Frame{
		Offset: 134217728, Size: 61, Record: tide, HeaderChecksum: 0x2963f7bd, BodyChecksum: 0x3efe99b6,
	}, got)
}

func TestGoldenPadding(t *testing.T) {
	got, rest, err := DecodeFrame("k", 134217789, golden(t, "padding"))
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, Frame{Offset: 134217789, Size: 32, Padding: true, HeaderChecksum: 0x6b631915}, got)
}

func TestGoldenWALObject(t *testing.T) {
	want := append(golden(t, "walheader"), golden(t, "frame")...)
	require.Len(t, want, 109)
	header := WALHeader{Start: 134217728, Node: 5, Epoch: 12, Trim: -1}
	require.Equal(t, want, EncodeWALObject(header, []Record{tide}))
	got, frames, err := DecodeWALObject("k", want)
	require.NoError(t, err)
	header.Version, header.BodyLen = 1, 61
	require.Equal(t, header, got)
	require.Equal(t, []Frame{{
		Offset: 134217728, Size: 61, Record: tide, HeaderChecksum: 0x2963f7bd, BodyChecksum: 0x3efe99b6,
	}}, frames)
	require.NoError(t, got.Check("k", 5, WALKey{Epoch: 12, Start: 134217728}, 109))
}

func TestGoldenFence(t *testing.T) {
	want := golden(t, "fence")
	require.Len(t, want, 105)
	header := WALHeader{Start: 201326592, Node: 5, Epoch: 13, Trim: 134217728}
	require.Equal(t, want, EncodeWALObject(header, []Record{Sentinel()}))
	got, frames, err := DecodeWALObject("k", want)
	require.NoError(t, err)
	require.NoError(t, got.Check("k", 5, WALKey{Epoch: 12, Start: 201326592}, 105), "a fence's epoch is above its key's")
	require.Len(t, frames, 1)
	require.True(t, frames[0].Record.IsSentinel())
}

func TestGoldenMark(t *testing.T) {
	want := golden(t, "mark")
	require.Len(t, want, markSize)
	require.Equal(t, want, AppendFrame(nil, 201326592, walMark(134217728)))
	got, rest, err := DecodeFrame("k", 201326592, want)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, walMark(134217728), Record{
		Stream: got.Record.Stream, Epoch: got.Record.Epoch, Base: got.Record.Base, Count: got.Record.Count,
	})
	require.True(t, got.Record.IsMark())
}

func TestGoldenWALKey(t *testing.T) {
	prefix := WALPrefix{Cluster: "tm-1", Node: 5}
	key := "E4DA3B7FBBCE2345D7772B0674A318D5/_kafka_tm-1/5/12/wal/134217728-201326592"
	require.Equal(t, key, prefix.Key(WALKey{Epoch: 12, Start: 134217728}))
	got, err := prefix.Parse(key)
	require.NoError(t, err)
	require.Equal(t, WALKey{Epoch: 12, Start: 134217728}, got)
	got, err = prefix.Parse(strings.TrimSuffix(key, "-201326592"))
	require.NoError(t, err)
	require.Equal(t, WALKey{Epoch: 12, Start: 134217728, Old: true}, got)
	require.Equal(t, strings.TrimSuffix(key, "-201326592"), prefix.Key(got))
}

func TestGoldenDataObject(t *testing.T) {
	want := golden(t, "object")
	require.Len(t, want, 250)
	var b bytes.Buffer
	w := NewObjectWriter(&b, 1<<20)
	for _, r := range []Record{tide, mark, ebb} {
		require.NoError(t, w.Add(r))
	}
	require.NoError(t, w.Close())
	require.Equal(t, want, b.Bytes())
	require.EqualValues(t, 250, w.Size())

	index, records, err := DecodeObject("k", want)
	require.NoError(t, err)
	require.Equal(t, []Record{tide, mark, ebb}, records)
	require.Equal(t, Index{
		{Stream: 9, Start: 1000, Delta: 4, Records: 2, Position: 0, Size: 84},
		{Stream: 11, Start: 50, Delta: 2, Records: 1, Position: 84, Size: 46},
	}, index)
	require.Equal(t, index, w.Index())
}

func TestGoldenComposite(t *testing.T) {
	want := golden(t, "composite")
	require.Len(t, want, 189)
	c := CompositeObject{
		Components: []Component{{Object: 77}, {Object: 81, FirstBlock: 2, Bucket: 1}},
		Entries: Index{
			{Stream: 9, Start: 1000, Delta: 4, Records: 2, Position: 0, Size: 92},
			{Stream: 9, Start: 1004, Delta: 6, Records: 3, Position: 92, Size: 150},
			{Stream: 9, Start: 1010, Delta: 10, Records: 5, Position: 0, Size: 300},
		},
	}
	got, err := c.Encode()
	require.NoError(t, err)
	require.Equal(t, want, got)
	decoded, err := DecodeComposite("k", want)
	require.NoError(t, err)
	require.Equal(t, c, decoded)
	require.EqualValues(t, 542, decoded.LinkedBytes())
	require.Equal(t, c.Entries[:2], decoded.EntriesOf(0))
	require.Equal(t, c.Entries[2:], decoded.EntriesOf(1))
}

func TestGoldenRangeIndex(t *testing.T) {
	want := golden(t, "rangeindex")
	streams := []StreamRanges{{Stream: 9, Ranges: []IndexedRange{{0, 1000, 40}, {1000, 1004, 77}}}}
	require.Equal(t, want, EncodeRangeIndex(streams))
	got, err := DecodeRangeIndex("k", want)
	require.NoError(t, err)
	require.Equal(t, streams, got)
}

func TestGoldenDataKeys(t *testing.T) {
	for id, key := range map[catalog.ObjectID]string{
		77:        "d4000000/DEFAULT/77",
		4096:      "00010000/DEFAULT/4096",
		1<<40 + 2: "20000000001/DEFAULT/1099511627778",
	} {
		require.Equal(t, key, DataKey(DefaultNamespace, id))
		got, err := ParseDataKey(DefaultNamespace, key)
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
	for _, key := range []string{"", "77", "d4000000/OTHER/77", "d4000001/DEFAULT/77", "d4000000/DEFAULT/077", "x/DEFAULT/-1"} {
		_, err := ParseDataKey(DefaultNamespace, key)
		var unknown *UnknownKeyError
		require.ErrorAs(t, err, &unknown, key)
	}
}

func TestGoldenChecksums(t *testing.T) {
	require.EqualValues(t, 0x4BF43926, crc31([]byte("123456789")))
	require.Zero(t, crc31(nil))
}

func TestGoldenRangeIndexKey(t *testing.T) {
	require.Equal(t, "52674df0/DEFAULT/node-5", RangeIndexKey(DefaultNamespace, 5))
}
