package batch

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// golden reads the bytes of testdata/name.hex: hex digits, spaces, and comments from # to the end of a line.
func golden(t testing.TB, name string) Batch {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	require.NoError(t, err)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	raw, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	b, rest, err := Next(raw)
	require.NoError(t, err)
	require.Empty(t, rest)
	return b
}

// all reads every record of b into values of their own.
func all(t testing.TB, b Batch, l Limits) []Record {
	t.Helper()
	records, err := collect(b, l)
	require.NoError(t, err)
	return records
}

func collect(b Batch, l Limits) ([]Record, error) {
	r := b.Records(l)
	defer r.Close()
	var out []Record
	for r.Next() {
		out = append(out, clone(r.Record()))
	}
	return out, r.Err()
}

func clone(r *Record) Record {
	c := Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, RecordHeader{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	return c
}

const goldenTime = 1700000000000

func TestGoldenTwoRecords(t *testing.T) {
	b := golden(t, "two-records")
	require.NoError(t, b.VerifyCRC())
	require.Equal(t, Header{
		BaseOffset: 42, Length: 70, LeaderEpoch: 5, Magic: 2, CRC: 0x19d112bb, LastOffsetDelta: 1,
		BaseTimestamp: goldenTime, MaxTimestamp: goldenTime + 5,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 2,
	}, b.Header())
	require.Equal(t, []Record{
		{Offset: 42, Timestamp: goldenTime, Key: []byte("k"), Value: []byte("v")},
		{Offset: 43, Timestamp: goldenTime + 5, Value: []byte("vv"), Headers: []RecordHeader{{Key: "h"}}},
	}, all(t, b, Limits{}))

	builder := NewBuilder(BuilderOptions{BaseOffset: 42, LeaderEpoch: 5})
	builder.Add(goldenTime, []byte("k"), []byte("v"))
	builder.Add(goldenTime+5, nil, []byte("vv"), RecordHeader{Key: "h"})
	built, err := builder.Build()
	require.NoError(t, err)
	require.Equal(t, b, built)
}

func TestGoldenAbortAndCommitMarker(t *testing.T) {
	options := EndMarkerOptions{
		BaseOffset: 45, LeaderEpoch: 5, ProducerID: 1000, CoordinatorEpoch: 7, Timestamp: goldenTime + 20,
	}
	abort := golden(t, "abort-marker")
	require.NoError(t, abort.VerifyCRC())
	require.Equal(t, abort, EndMarker(options))
	c, ok, err := abort.Control()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, ControlRecord{Type: Abort, CoordinatorEpoch: 7}, c)

	options.Commit = true
	commit := EndMarker(options)
	require.Len(t, commit, 78)
	require.Equal(t, uint32(0xbbdfdd22), commit.CRC())
	c, ok, err = commit.Control()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, ControlRecord{Type: Commit, CoordinatorEpoch: 7}, c)
}

func TestGoldenEmptyRetained(t *testing.T) {
	b := golden(t, "empty-retained")
	require.NoError(t, b.VerifyCRC())
	require.NoError(t, b.Header().Check())
	require.Empty(t, all(t, b, Limits{}))
	require.Equal(t, b, RetainEmpty(Header{
		BaseOffset: 44, Length: 333, LeaderEpoch: 5, Magic: 2, CRC: 1, Attributes: attrTransactional | attrDeleteHorizon | 3,
		BaseTimestamp: goldenTime, MaxTimestamp: goldenTime + 10, ProducerID: 1000, Count: 1,
	}))
}

func TestGoldenTombstoneWithDeleteHorizon(t *testing.T) {
	b := golden(t, "tombstone-horizon")
	require.NoError(t, b.VerifyCRC())
	require.True(t, b.Attributes().HasDeleteHorizon())
	require.Equal(t, int64(1700086401000), b.BaseTimestamp())
	require.Equal(t, []Record{{Offset: 50, Timestamp: goldenTime, Key: []byte("k")}}, all(t, b, Limits{}))

	builder := NewBuilder(BuilderOptions{BaseOffset: 50, LeaderEpoch: 5, HasDeleteHorizon: true, DeleteHorizon: 1700086401000})
	builder.Add(goldenTime, []byte("k"), nil)
	built, err := builder.Build()
	require.NoError(t, err)
	require.Equal(t, b, built)
}

// goldenRecords are the records of the batches in testdata that other clients wrote.
func goldenRecords(base int64) []Record {
	return []Record{
		{Offset: base, Timestamp: goldenTime, Key: []byte("k"), Value: []byte("v")},
		{Offset: base + 1, Timestamp: goldenTime + 5, Value: []byte("vv"), Headers: []RecordHeader{{Key: "h"}}},
		{Offset: base + 2, Timestamp: goldenTime - 1, Key: []byte("k"), Headers: []RecordHeader{
			{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte{}},
		}},
		{Offset: base + 3, Timestamp: goldenTime + 2, Key: []byte{},
			Value: bytes.Repeat([]byte("the tide comes in, the tide goes out, "), 8)},
	}
}

func TestGoldenBatchesOfOtherClients(t *testing.T) {
	for name, codec := range map[string]Codec{
		"java-gzip": Gzip, "java-snappy": Snappy, "bare-snappy": Snappy, "java-lz4": LZ4, "java-zstd": Zstd,
	} {
		b := golden(t, name)
		require.NoError(t, b.VerifyCRC(), name)
		h := b.Header()
		require.Equal(t, Header{
			BaseOffset: 42, Length: h.Length, LeaderEpoch: 5, Magic: 2, CRC: h.CRC,
			Attributes: Attributes(codec) | attrTransactional, LastOffsetDelta: 3,
			BaseTimestamp: goldenTime, MaxTimestamp: goldenTime + 5,
			ProducerID: 1000, ProducerEpoch: 3, BaseSequence: 7, Count: 4,
		}, h, name)
		require.Equal(t, int32(10), h.LastSequence())
		require.Equal(t, goldenRecords(42), all(t, b, Limits{}), name)

		rebuilt := NewBuilder(h.BuilderOptions())
		for _, r := range goldenRecords(42) {
			rebuilt.AddAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers...)
		}
		again, err := rebuilt.Build()
		require.NoError(t, err)
		h.Length, h.CRC = again.Length(), again.CRC()
		require.Equal(t, h, again.Header(), "%s, rewritten", name)
		require.Equal(t, goldenRecords(42), all(t, again, Limits{}), name)
	}
}
