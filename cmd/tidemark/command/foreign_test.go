package command

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// foreignBuckets are buckets that other implementations of the formats have written; see the README.md there.
const foreignBuckets = "../../../stream/testdata/foreign"

// written returns the lines of a kind that a bucket's written.tsv has, each as its fields without the kind.
func written(t *testing.T, bucket, kind string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(foreignBuckets, bucket, "written.tsv"))
	require.NoError(t, err)
	var found [][]string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(strings.TrimSpace(line), "\t"); fields[0] == kind {
			found = append(found, fields[1:])
		}
	}
	return found
}

// dumped is a line of a dump in JSON, of any type.
type dumped struct {
	Type, Key                          string
	Offset, Size, Left                 int64
	Stream, Epoch, Start, End, Payload int64
	Sentinel                           bool
	Record                             *dumped
}

func dumpedLines(t *testing.T, args ...string) []dumped {
	t.Helper()
	var lines []dumped
	d := json.NewDecoder(strings.NewReader(done(t, "", append(args, "-o", "json")...)))
	for d.More() {
		var l dumped
		require.NoError(t, d.Decode(&l))
		lines = append(lines, l)
	}
	return lines
}

// recordText is a record as the lines of written.tsv have it, with its end in place of its count.
func recordText(stream, epoch, start, end, payload int64) string {
	return fmt.Sprintf("stream %d epoch %d from %d to %d payload %d", stream, epoch, start, end, payload)
}

func writtenRecord(fields []string) string {
	var n [5]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(fields[i], 10, 64) // a field that is no number is none of a record
	}
	count := n[3]
	if count < 0 { // a link record
		count = -count
	}
	return recordText(n[0], n[1], n[2], n[2]+count, n[4])
}

func TestDumpsOfWhatOthersWroteTellAllOfIt(t *testing.T) {
	buckets, err := fs.Glob(os.DirFS(foreignBuckets), "*/written.tsv")
	require.NoError(t, err)
	require.NotEmpty(t, buckets)
	for _, b := range buckets {
		bucket := path.Dir(b)
		t.Run(bucket, func(t *testing.T) {
			compareDumpedLogs(t, bucket)
			compareDumpedObjects(t, bucket)
		})
	}
}

// compareDumpedLogs compares the frames of all logs, and where they lie. Of a frame that runs across two objects the dump
// shows where it lies, and not its record.
func compareDumpedLogs(t *testing.T, bucket string) {
	t.Helper()
	records := map[string]string{}
	var want []string
	for _, f := range written(t, bucket, "wal") {
		log, _, _ := strings.Cut(strings.Join(f[:2], "_"), "_-")
		at := fmt.Sprintf("log %s epoch %s offset %s size %s", log, f[2], f[3], f[4])
		want = append(want, at)
		records[at] = writtenRecord(f[5:])
	}
	var got []string
	var log, epoch string
	for _, l := range dumpedLines(t, "wal", "dump", filepath.Join(foreignBuckets, bucket)) {
		at := fmt.Sprintf("log %s epoch %s offset %d size %d", log, epoch, l.Offset, l.Size+l.Left)
		switch {
		case l.Type == "object":
			parts := strings.Split(l.Key, "/")
			log, epoch = parts[2], parts[3]
		case l.Type == "cut frame":
			got = append(got, at)
		case l.Type == "frame" && !l.Sentinel:
			got = append(got, at)
			r := l.Record
			require.Equal(t, records[at], recordText(r.Stream, r.Epoch, r.Start, r.End, r.Payload), at)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}

// compareDumpedObjects compares the records of each object that was committed.
func compareDumpedObjects(t *testing.T, bucket string) {
	t.Helper()
	appended := written(t, bucket, "append")
	want := map[string][]string{} // by object
	in := func(object string, f []string) {
		for _, a := range appended {
			base, _ := strconv.Atoi(a[2])
			start, _ := strconv.Atoi(f[1])
			end, _ := strconv.Atoi(f[2])
			if a[0] == f[0] && base >= start && base < end {
				want[object] = append(want[object], writtenRecord(a))
			}
		}
	}
	for _, f := range written(t, bucket, "range") {
		in(f[0], f[1:])
	}
	for _, f := range slices.Concat(written(t, bucket, "stream"), written(t, bucket, "merged")) {
		if len(f) < 6 || f[5] == "0" { // a composite has no records of its own
			in(f[0], f[2:])
		}
	}
	for object, records := range want {
		id, err := strconv.ParseInt(object, 10, 64)
		require.NoError(t, err)
		var got []string
		key := stream.DataKey(stream.DefaultNamespace, catalog.ObjectID(id))
		for _, l := range dumpedLines(t, "object", "dump", filepath.Join(foreignBuckets, bucket, filepath.FromSlash(key))) {
			if l.Type == "record" {
				got = append(got, recordText(l.Stream, l.Epoch, l.Start, l.End, l.Payload))
			}
		}
		require.Equal(t, records, got, object)
	}
}

// foreignFile is an object of a bucket of another writer.
func foreignFile(parts ...string) string {
	return filepath.Join(append([]string{foreignBuckets}, parts...)...)
}

func TestObjectsOfAnotherWriterAreDumped(t *testing.T) {
	require.Equal(t, `80  data object, 1.2 KiB
  index entry  stream 9  offsets 0 to 14  5 records  at 0  789 B
    block at 0  449 B  3 records
      stream 9  epoch 4  offsets 0 to 3  payload 40 B
      stream 9  epoch 4  offsets 3 to 4  payload 0 B
      stream 9  epoch 4  offsets 4 to 11  payload 300 B
    block at 449  340 B  2 records
      stream 9  epoch 4  offsets 11 to 13  payload 200 B
      stream 9  epoch 4  offsets 13 to 14  payload 64 B
  index entry  stream 11  offsets 0 to 3  2 records  at 789  217 B
    block at 789  217 B  2 records
      stream 11  epoch 2  offsets 0 to 2  payload 100 B
      stream 11  epoch 2  offsets 2 to 3  payload 41 B
  index entry  stream 30  offsets 0 to 1005  2 records  at 1006  117 B
    block at 1006  44 B  1 record
      stream 30  epoch 7  offsets 0 to 5  payload 1 B
    block at 1050  73 B  1 record
      stream 30  epoch 7  offsets 5 to 1005  payload 30 B
  footer at 1231  index at 1123  108 B  3 entries
`, done(t, "", "object", "dump", foreignFile("s3stream-1.7.3", "05000000", "DEFAULT", "80")))
	require.Equal(t, `79  composite object, 311 B
  component  object 76  from entry 0 on  bucket 0
  index entry  stream 32  offsets 0 to 1  1 record  at 0  303 B
  index entry  stream 32  offsets 1 to 2147484  1 record  at 303  76 B
  component  object 77  from entry 2 on  bucket 0
  index entry  stream 32  offsets 2147484 to 2147485  1 record  at 0  303 B
  index entry  stream 32  offsets 2147485 to 4294969  1 record  at 303  76 B
  component  object 78  from entry 4 on  bucket 0
  index entry  stream 32  offsets 4294969 to 4294970  1 record  at 0  303 B
  index entry  stream 32  offsets 4294970 to 6442455  1 record  at 303  76 B
  footer at 263  index at 47  216 B  6 entries
`, done(t, "", "object", "dump", foreignFile("s3stream-1.7.3", "f4000000", "DEFAULT", "79")))
	require.Equal(t, "node-5  range index, 114 B\n"+
		"  stream 9  offsets 0 to 14  in object 80\n"+
		"  stream 11  offsets 0 to 3  in object 80\n"+
		"  stream 30  offsets 0 to 1005  in object 80\n",
		done(t, "", "object", "dump", foreignFile("s3stream-1.7.3", "52674df0", "DEFAULT", "node-5")))
	require.Equal(t, "5  reservation, 21 B\n  held by node 5 in epoch 12, failover false\n",
		done(t, "", "object", "dump", foreignFile("s3stream-1.7.3", "reservation", "_kafka_s3stream-1.7.3", "5")))
}

func TestALogWhoseFramesRunAcrossObjectsIsDumped(t *testing.T) {
	const below = "1679091C5A880FAF6FB5E6087EB1B2DC/_kafka_s3stream-"
	got := done(t, "", "wal", "dump", foreignFile("s3stream-1.5.5"), "--node", "6")
	require.True(t, strings.HasPrefix(got, below+`1.5.5/6/3/wal/0-352  write-ahead log object, version 1, 400 B
  header  start 0  frames 352 B  node 6  epoch 3  trim none
  frame 0  67 B  checksums 7e43bb38 5c3cb4d9  stream 9  epoch 4  offsets 0 to 1  payload 10 B
  frame 67  157 B  checksums 1a921a81 0b267e55  stream 10  epoch 4  offsets 1 to 3  payload 100 B
  frame 224  its first 128 B, 19 B are in the next object
`+below+`1.5.5/6/3/wal/352-461  write-ahead log object, version 1, 157 B
  header  start 352  frames 109 B  node 6  epoch 3  trim none
  19 B of a frame that began in the object before
  frame 371  90 B  checksums 65514aec 5f70a54d  stream 10  epoch 4  offsets 6 to 10  payload 33 B
`), got)
	got = done(t, "", "wal", "dump", foreignFile("s3stream-1.2.0"), "--node", "6")
	require.True(t, strings.HasPrefix(got, below+`1.2.0/6/3/wal/0  write-ahead log object, version 0, 400 B
  header  start 0  frames 360 B  node 6  epoch 3  trim none
  frame 0  67 B  checksums 7e43bb38 5c3cb4d9  stream 9  epoch 4  offsets 0 to 1  payload 10 B
  frame 67  157 B  checksums 1a921a81 0b267e55  stream 10  epoch 4  offsets 1 to 3  payload 100 B
  frame 224  its first 136 B, 11 B are in the next object
`+below+`1.2.0/6/3/wal/360  write-ahead log object, version 0, 141 B
  header  start 360  frames 101 B  node 6  epoch 3  trim none
  11 B of a frame that began in the object before
  frame 371  90 B  checksums 65514aec 5f70a54d  stream 10  epoch 4  offsets 6 to 10  payload 33 B
`), got)
}

func TestADamagedLogOfAnotherWriterIsToldSo(t *testing.T) {
	const log = "1679091C5A880FAF6FB5E6087EB1B2DC/_kafka_s3stream-1.5.5/6/3/wal/"
	for _, test := range []struct {
		what   string
		damage func(t *testing.T, log string)
		want   string
	}{
		{"the rest of a frame has another length", func(t *testing.T, log string) {
			b, err := os.ReadFile(log + "352-461")
			require.NoError(t, err)
			b[27] = 18
			require.NoError(t, os.WriteFile(log+"352-461", b, 0o600))
		}, `352-461" at 20: bytes left of the last frame of the object before: want 19, got 18`},
		{"a frame is cut where its header is damaged", func(t *testing.T, log string) {
			b, err := os.ReadFile(log + "0-352")
			require.NoError(t, err)
			b[48+224+5] ^= 1 // its length
			require.NoError(t, os.WriteFile(log+"0-352", b, 0o600))
		}, `0-352" at 224: checksum of a frame's header`},
		{"the end is another one", func(t *testing.T, log string) {
			require.NoError(t, os.Rename(log+"461-948", log+"461-949"))
		}, `461-949" at 12: end of the frames: want 949, got 948`},
		{"the start is another one", func(t *testing.T, log string) {
			require.NoError(t, os.Rename(log+"461-948", log+"460-948"))
		}, `460-948" at 4: start offset: want 460, got 461`},
		{"the key is one of an older version", func(t *testing.T, log string) {
			require.NoError(t, os.Rename(log+"461-948", log+"461"))
		}, `461" at 0: version, by its key: want 0, got 1`},
		{"a frame is cut in a window", func(t *testing.T, log string) {
			require.NoError(t, os.Rename(log+"0-352", log+"0-67108864"))
		}, `0-67108864" at 224: a frame's body is cut off: bytes: want 123, got 104`},
	} {
		t.Run(test.what, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(foreignFile("s3stream-1.5.5"))))
			test.damage(t, filepath.Join(dir, filepath.FromSlash(log))+string(filepath.Separator))
			got := tidemark(t, "", "wal", "dump", dir, "--node", "6")
			require.Equal(t, ExitFailed, got.Code)
			require.Contains(t, got.Out, test.want)
		})
	}
}
