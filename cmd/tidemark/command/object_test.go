package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream"
)

var (
	tide = stream.Record{Stream: 9, Epoch: 4, Base: 1000, Count: 3, Payload: []byte("tide")}
	mark = stream.Record{Stream: 9, Epoch: 4, Base: 1003, Count: 1, Payload: []byte("mark")}
	ebb  = stream.Record{Stream: 11, Epoch: 2, Base: 50, Count: 2, Payload: []byte("ebb")}
)

// fileOf writes an object into a file of its own.
func fileOf(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "object")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func dataObject(t *testing.T, records ...stream.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := stream.NewObjectWriter(&b, 1<<20)
	for _, r := range records {
		require.NoError(t, w.Add(r))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestADataObjectIsDumpedBlockByBlock(t *testing.T) {
	path := fileOf(t, dataObject(t, tide, mark, ebb))
	require.Equal(t, `object  data object, 250 B
  index entry  stream 9  offsets 1000 to 1004  2 records  at 0  84 B
    block at 0  84 B  2 records
      stream 9  epoch 4  offsets 1000 to 1003  payload 4 B
      stream 9  epoch 4  offsets 1003 to 1004  payload 4 B
  index entry  stream 11  offsets 50 to 52  1 record  at 84  46 B
    block at 84  46 B  1 record
      stream 11  epoch 2  offsets 50 to 52  payload 3 B
  footer at 202  index at 130  72 B  2 entries
`, done(t, "", "object", "dump", path))
	require.Equal(t, `{"type":"object","key":"object","kind":"data object","size":250}
{"type":"entry","stream":9,"start":1000,"end":1004,"records":2,"position":0,"size":84}
{"type":"block","position":0,"size":84,"records":2}
{"type":"record","stream":9,"epoch":4,"start":1000,"end":1003,"payload":4}
{"type":"record","stream":9,"epoch":4,"start":1003,"end":1004,"payload":4}
{"type":"entry","stream":11,"start":50,"end":52,"records":1,"position":84,"size":46}
{"type":"block","position":84,"size":46,"records":1}
{"type":"record","stream":11,"epoch":2,"start":50,"end":52,"payload":3}
{"type":"footer","position":202,"index_position":130,"index_len":72,"entries":2}
`, done(t, "", "object", "dump", "file://"+path, "-o", "json"))
}

func TestAnObjectWithADamagedBlockIsDumpedAroundIt(t *testing.T) {
	b := dataObject(t, tide, mark, ebb)
	b[10] = 0x23 // the magic of the first record
	got := tidemark(t, "", "object", "dump", fileOf(t, b))
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, "  PROBLEM: object \"object\" at 10: record of version 0x23, this program knows 0x22\n  index entry  stream 11")
	require.Contains(t, got.Err, "1 problem in 1 object, see above")
}

func TestACompositeIsDumpedWithItsComponents(t *testing.T) {
	b, err := stream.CompositeObject{
		Components: []stream.Component{{Object: 77}, {Object: 81, FirstBlock: 1, Bucket: 1}},
		Entries: stream.Index{
			{Stream: 9, Start: 1000, Delta: 4, Records: 2, Position: 0, Size: 92},
			{Stream: 9, Start: 1004, Delta: 6, Records: 3, Position: 300, Size: 150},
		},
	}.Encode()
	require.NoError(t, err)
	require.Equal(t, `object  composite object, 153 B
  component  object 77  from entry 0 on  bucket 0
  index entry  stream 9  offsets 1000 to 1004  2 records  at 0  92 B
  component  object 81  from entry 1 on  bucket 1
  index entry  stream 9  offsets 1004 to 1010  3 records  at 300  150 B
  footer at 105  index at 33  72 B  2 entries
`, done(t, "", "object", "dump", fileOf(t, b)))
}

// walGroup is the write-ahead log object of node 5 with two records, in epoch 12 unless by says otherwise.
func walGroup(start, epoch, trim int64, records ...stream.Record) []byte {
	return stream.EncodeWALObject(stream.WALHeader{Start: start, Node: 5, Epoch: epoch, Trim: trim}, records)
}

func TestAGroupOfTheWriteAheadLogIsDumped(t *testing.T) {
	path := fileOf(t, walGroup(2*stream.Window, 12, -1, tide))
	require.Equal(t, `object  write-ahead log object, version 1, 109 B
  header  start 134217728  frames 61 B  node 5  epoch 12  trim none
  frame 134217728  61 B  checksums 2963f7bd 3efe99b6  stream 9  epoch 4  offsets 1000 to 1003  payload 4 B
`, done(t, "", "object", "dump", path))
}

func TestAGroupOfAnotherImplementationIsDumpedThoughItsLastFrameIsCut(t *testing.T) {
	whole := stream.WALHeader{Start: 100, Node: 5, Epoch: 12}.AppendTo(nil)
	whole = stream.AppendFrame(whole, 100, tide)
	whole = append(whole, stream.AppendFrame(nil, 161, tide)[:30]...)
	require.Equal(t, `object  write-ahead log object, version 0, 131 B
  header  start 100  frames 91 B  node 5  epoch 12  trim none
  frame 100  61 B  checksums 16343d85 3efe99b6  stream 9  epoch 4  offsets 1000 to 1003  payload 4 B
  frame 161  its first 30 B, 31 B are in the next object
`, done(t, "", "object", "dump", fileOf(t, whole)))
}

func TestSmallObjectsOfOtherImplementationsAreDumped(t *testing.T) {
	reservation := []byte("\x12\x34\x56\x78\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x0c\x00")
	require.Equal(t, "object  reservation, 21 B\n  held by node 5 in epoch 12, failover false\n",
		done(t, "", "object", "dump", fileOf(t, reservation)))
	ranges := stream.EncodeRangeIndex([]stream.StreamRanges{{Stream: 9, Ranges: []stream.IndexedRange{{End: 1000, Object: 40}}}})
	require.Equal(t, "object  range index, 42 B\n  stream 9  offsets 0 to 1000  in object 40\n",
		done(t, "", "object", "dump", fileOf(t, ranges)))
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	for _, test := range []struct{ argument, want string }{
		{fileOf(t, []byte("hello, this is text")), "is not an object of a known kind"},
		{fileOf(t, nil), "is not an object of a known kind"},
		{fileOf(t, []byte("\x00\x00neither version nor length")), "read as a range index"},
		{filepath.Join(t.TempDir(), "gone"), "object not found"},
		{"s3://bucket", "names a bucket and no object in it"},
		{"ftp://bucket/key", `scheme "ftp", want one of s3, gs, azblob`},
		{"file://relative", "three slashes"},
	} {
		got := tidemark(t, "", "object", "dump", test.argument)
		require.Equal(t, ExitFailed, got.Code, test.argument)
		require.Contains(t, got.Err, test.want)
	}
}

// walBucket is a directory with two epochs of node 5's log, a fence between them, and things that are no log.
func walBucket(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(key string, b []byte) {
		path := filepath.Join(dir, filepath.FromSlash(key))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	p := stream.WALPrefix{Cluster: "tm-1", Node: 5}
	put(p.Key(stream.WALKey{Epoch: 12, Start: 9 * stream.Window}), walGroup(9*stream.Window, 12, -1, tide))
	put(p.Key(stream.WALKey{Epoch: 12, Start: 10 * stream.Window}), walGroup(10*stream.Window, 13, -1, stream.Sentinel()))
	put(p.Key(stream.WALKey{Epoch: 13, Start: 11 * stream.Window}), walGroup(11*stream.Window, 13, 9*stream.Window, mark))
	put(stream.DataKey("DEFAULT", 77), dataObject(t, tide))
	return dir
}

func TestAWriteAheadLogIsDumpedInOrderWithItsFences(t *testing.T) {
	dir := walBucket(t)
	got := done(t, "", "wal", "dump", dir)
	require.Equal(t, strings.Join([]string{
		`E4DA3B7FBBCE2345D7772B0674A318D5/_kafka_tm-1/5/12/wal/603979776-671088640  write-ahead log object, version 1, 109 B`,
		`  header  start 603979776  frames 61 B  node 5  epoch 12  trim none`,
		`E4DA3B7FBBCE2345D7772B0674A318D5/_kafka_tm-1/5/12/wal/671088640-738197504  write-ahead log object, version 1, 105 B`,
		`  header  start 671088640  frames 57 B  node 5  epoch 13  trim none`,
		`  FENCE: epoch 12 ends here, put by epoch 13`,
		`E4DA3B7FBBCE2345D7772B0674A318D5/_kafka_tm-1/5/13/wal/738197504-805306368  write-ahead log object, version 1, 109 B`,
		`  header  start 738197504  frames 61 B  node 5  epoch 13  trim 603979776`,
	}, "\n"), withoutFrames(got))
	require.Equal(t, 1, strings.Count(done(t, "", "wal", "dump", dir, "--epoch", "13", "--node", "5", "--cluster", "tm-1", "-o", "json"),
		`"type":"object"`))
	require.Contains(t, tidemark(t, "", "wal", "dump", dir, "--node", "6").Err, "holds no such object of a write-ahead log")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing is written")
}

// withoutFrames drops the lines of frames, which other tests look at.
func withoutFrames(text string) string {
	var kept []string
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		if !strings.HasPrefix(l, "  frame ") {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}

func TestAWriteAheadLogThatIsNotWhatItsKeysSayIsToldSo(t *testing.T) {
	dir := walBucket(t)
	p := stream.WALPrefix{Cluster: "tm-1", Node: 5}
	misplaced := filepath.Join(dir, filepath.FromSlash(p.Key(stream.WALKey{Epoch: 13, Start: 12 * stream.Window})))
	require.NoError(t, os.WriteFile(misplaced, walGroup(11*stream.Window, 13, -1, tide), 0o600))
	got := tidemark(t, "", "wal", "dump", dir)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Out, "PROBLEM: corrupt object \"E4DA3B7FBBCE2345D7772B0674A318D5/_kafka_tm-1/5/13/wal/805306368-872415232\""+
		" at 4: start offset: want 805306368, got 738197504")
}
