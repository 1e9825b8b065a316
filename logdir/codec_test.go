package logdir

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// golden reads a file whose bytes are fixed forever.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return data
}

func id(last byte) UUID { return UUID{15: last} }

var goldenOffsets = map[Partition]int64{
	{"orders", 3}:      4711,
	{"orders", 10}:     0,
	{"payments-eu", 0}: 1<<63 - 1,
}

func TestCheckpointBytes(t *testing.T) {
	require.Equal(t, string(golden(t, "checkpoint-v0")), string(encodeOffsets(goldenOffsets)))
	offsets, err := decodeOffsets(golden(t, "checkpoint-v0"))
	require.NoError(t, err)
	require.Equal(t, goldenOffsets, offsets)
	require.Equal(t, "0\n0\n", string(encodeOffsets(nil)))
	require.Equal(t, "0\n1\norders 3 4711\n", string(encodeOffsets(map[Partition]int64{{"orders", 3}: 4711})))
}

func TestCheckpointsAreReadAsKafkaReadsThem(t *testing.T) {
	one := map[Partition]int64{{"orders", 3}: 4711}
	for text, want := range map[string]map[Partition]int64{
		"":                                  {},
		"0":                                 {},
		"0\n":                               {},
		"0\n0":                              {},
		"0\n0\n":                            {},
		"0\n1\norders 3 4711":               one,
		"0\r\n1\r\norders 3 4711\r\n":       one,
		"0\n1\n  orders\t3 \t 4711 \n":      one,
		"0\n2\norders 3 1\norders 3 4711\n": one,
	} {
		got, err := decodeOffsets([]byte(text))
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestDamagedCheckpointsAreRefusedWithTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"\n":                        `f:1: want a version, found ""`,
		"x\n":                       `f:1: want a version, found "x"`,
		"0\n\n":                     `f:2: want a number of entries, found ""`,
		"0\nmany\n":                 `f:2: want a number of entries, found "many"`,
		"0\n-1\n":                   `f:2: want a number of entries, found "-1"`,
		"0\n1\n":                    `f:2: 1 entries are announced and 0 there`,
		"0\n1\na 0 1\nb 0 1\n":      `f:2: 1 entries are announced and 2 there`,
		"0\n1\na 0 1\n\n":           `f:2: 1 entries are announced and 2 there`,
		"0\n1\na 0\n":               `f:3: want topic, partition and offset, found "a 0"`,
		"0\n2\na 0 1\nb 0 1 x\n":    `f:4: want topic, partition and offset, found "b 0 1 x"`,
		"0\n1\na x 1\n":             `f:3: want topic, partition and offset, found "a x 1"`,
		"0\n1\na 0 x\n":             `f:3: want topic, partition and offset, found "a 0 x"`,
		"0\n1\na 3000000000 1\n":    `f:3: want topic, partition and offset, found "a 3000000000 1"`,
		"0\n1\na -1 1\n":            `f:3: partition -1 of topic a is negative`,
		"0\n1\na 0 -1\n":            `f:3: offset -1 of a-0 is negative`,
		"0\n1\n.. 0 1\n":            `f:3: ".." is not a topic name`,
		"0\n1\na/b 0 1\n":           `f:3: topic name "a/b" has the character '/'; letters, digits, '.', '_' and '-' are allowed`,
		"0\n1\n\xff 0 1\n":          `f: not UTF-8 text`,
		"0\n1\na 0 1\x00\x00\x00\n": `f:3: want topic, partition and offset, found "a 0 1\x00\x00\x00"`,
		strings.Repeat("\x00", 30):  `f:1: want a version, found "` + strings.Repeat(`\x00`, 30) + `"`,
		"1\n0\n":                    `f: format version 1 is not known here; this build reads version 0`,
		"-1\n":                      `f: format version -1 is not known here; this build reads version 0`,
	} {
		_, err := decodeOffsets([]byte(text))
		require.EqualError(t, inFile("f", err), want, "%q", text)
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add(golden(f, "checkpoint-v0"))
	f.Add([]byte("0\n1\n"))
	f.Add([]byte("0\r\n1\r\na\t1  2"))
	f.Fuzz(func(t *testing.T, data []byte) {
		offsets, err := decodeOffsets(data)
		if err != nil {
			return
		}
		again, err := decodeOffsets(encodeOffsets(offsets))
		require.NoError(t, err)
		require.Equal(t, offsets, again)
	})
}

func TestMetaBytes(t *testing.T) {
	v1 := Meta{ClusterID: "4L6g3nShT-eMCtK--X86sw", NodeID: 1, DirectoryID: id(42)}
	require.Equal(t, string(golden(t, "meta-v1.properties")), string(encodeMeta(v1)))
	got, err := decodeMeta(golden(t, "meta-v1.properties"))
	require.NoError(t, err)
	require.Equal(t, v1, got)

	got, err = decodeMeta(golden(t, "meta-v0.properties"))
	require.NoError(t, err)
	require.Equal(t, Meta{ClusterID: "4L6g3nShT-eMCtK--X86sw", NodeID: 7}, got)
}

func TestMetaIsReadAsKafkaReadsIt(t *testing.T) {
	for text, want := range map[string]Meta{
		"":                    {NodeID: -1},
		"# nothing\n! here\n": {NodeID: -1},
		"broker.id=3":         {NodeID: 3},
		"version=0\nnode.id=5\nbroker.id = 3\ncluster.id=x\n":               {NodeID: 3, ClusterID: "x"},
		"version=1\r\ncluster.id:a b \\u0021\r\nnode.id 0\r\nunknown=x\r\n": {ClusterID: "a b !"},
		"version=1\nnode.id=1\nnode.id=2\ncluster.id=a\\\n   b\n":           {NodeID: 2, ClusterID: "ab"},
		"version=1\nnode.id=1\ncluster.id=\\uD83D\\uDE00\\t\\n\\z\xe9\n":    {NodeID: 1, ClusterID: "😀\t\nzé"},
	} {
		got, err := decodeMeta([]byte(text))
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestDamagedMetaIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"version=2\nnode.id=1\ncluster.id=x":  "f: format version 2 is not known here; this build reads versions 0 to 1",
		"version=-1":                          "f: format version -1 is not known here; this build reads versions 0 to 1",
		"version=one":                         `f: version "one" is not a number`,
		"version=1\nnode.id=1":                "f: version 1 needs cluster.id and node.id",
		"version=1\ncluster.id=x":             "f: version 1 needs cluster.id and node.id",
		"version=1\ncluster.id=x\nnode.id=":   `f: node.id is ""; want a number from 0`,
		"version=1\ncluster.id=x\nnode.id=-3": `f: node.id is "-3"; want a number from 0`,
		"broker.id=x":                         `f: broker.id is "x"; want a number from 0`,
		"directory.id=x":                      `f: directory.id: "x" is not a UUID: want 22 characters of base64 (A-Z a-z 0-9 - _)`,
		`cluster.id=\u00g0`:                   `f: \u00g0 is not an escape: want four hexadecimal digits`,
		`cluster.id=\u12`:                     `f: \u12 is not an escape: want four hexadecimal digits`,
	} {
		_, err := decodeMeta([]byte(text))
		require.EqualError(t, inFile("f", err), want, "%q", text)
	}
}

func TestPropertiesOfAnyTextAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		props := rapid.MapOf(rapid.StringN(1, -1, -1), rapid.String()).Draw(t, "props")
		got, err := parseProperties(formatProperties(props))
		require.NoError(t, err)
		require.Equal(t, props, got)
	})
}

func FuzzMeta(f *testing.F) {
	f.Add(golden(f, "meta-v0.properties"))
	f.Add(golden(f, "meta-v1.properties"))
	f.Add([]byte("version=1\\\n\\u0041 : \\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMeta(data)
		if err != nil || m.ClusterID == "" || m.NodeID < 0 {
			return
		}
		again, err := decodeMeta(encodeMeta(m))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func TestPartitionMetadataBytes(t *testing.T) {
	require.Equal(t, string(golden(t, "partition-metadata-v0")), string(encodeMetadata(Metadata{TopicID: id(42)})))
	for text, want := range map[string]Metadata{
		string(golden(t, "partition-metadata-v0")):              {TopicID: id(42)},
		"version:  3 \r\ntopic_id:\tAAAAAAAAAAAAAAAAAAAAKg\r\n": {Version: 3, TopicID: id(42)},
	} {
		got, err := decodeMetadata([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestDamagedPartitionMetadataIsRefusedWithTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "f: want two lines, found 1",
		"version: 0\n":              "f: want two lines, found 1",
		"version: 0\na: b\nc: d":    "f: want two lines, found 3",
		"version 0\ntopic_id: x":    `f:1: want "version:" and a value, found "version 0"`,
		"version: -1\ntopic_id: x":  `f:1: version "-1" is not a number from 0`,
		"version: 0\ntopic_id:":     `f:2: want "topic_id:" and a value, found "topic_id:"`,
		"version: 0\ntopic_id: abc": `f:2: "abc" is not a UUID: want 22 characters of base64 (A-Z a-z 0-9 - _)`,
		"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA": `f:2: topic id is zero`,
	} {
		_, err := decodeMetadata([]byte(text))
		require.EqualError(t, inFile("f", err), want, "%q", text)
	}
}

func FuzzPartitionMetadata(f *testing.F) {
	f.Add(golden(f, "partition-metadata-v0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMetadata(data)
		if err != nil {
			return
		}
		again, err := decodeMetadata(encodeMetadata(m))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func TestTheCleanShutdownMarkerCountsByItsPresence(t *testing.T) {
	require.Equal(t, int64(17), decodeMarker(golden(t, "cleanshutdown-v0")))
	for text, want := range map[string]int64{
		"":                                 -1,
		"{}":                               -1,
		"garbage":                          -1,
		`{"version":0}`:                    -1,
		`{"version":0,"brokerEpoch":-5}`:   -1,
		`{"version":9,"brokerEpoch":5}`:    -1,
		`{"version":0,"brokerEpoch":0}`:    0,
		`{"x":[1],"brokerEpoch":9}` + "\n": 9,
	} {
		require.Equal(t, want, decodeMarker([]byte(text)), "%q", text)
	}
}

var goldenClosedLogs = []ClosedLog{
	{Topic: id(42), Partition: 0, Summary: []byte("abc")},
	{Topic: id(42), Partition: 10, Summary: []byte{}},
}

func TestClosedLogsBytes(t *testing.T) {
	data, left := encodeClosedLogs(goldenClosedLogs, maxClosedLogs)
	require.Zero(t, left)
	require.Equal(t, golden(t, "closed-logs-v0"), data)
	logs, err := decodeClosedLogs(data)
	require.NoError(t, err)
	require.Equal(t, goldenClosedLogs, logs)
	none, left := encodeClosedLogs(nil, maxClosedLogs)
	require.Zero(t, left)
	require.Equal(t, "TMCLOSED\x00\x00\x00\x00\x48\x67\x4b\xc7\x00\x00\x00\x00", string(none))
	logs, err = decodeClosedLogs(none)
	require.NoError(t, err)
	require.Empty(t, logs)
}

// closedLogs returns the golden file with a change and a checksum that fits again.
func closedLogs(t testing.TB, change func(b []byte) []byte) []byte {
	data := change(golden(t, "closed-logs-v0"))
	if len(data) >= closedHeaderSize {
		binary.BigEndian.PutUint32(data[12:], crc32.Checksum(data[closedSealed:], castagnoli))
	}
	return data
}

func TestDamagedClosedLogsAreRefused(t *testing.T) {
	for want, change := range map[string]func(b []byte) []byte{
		`f: it does not begin with "TMCLOSED" and a version`:                       func(b []byte) []byte { return b[:11] },
		`f: it ends in its header`:                                                 func(b []byte) []byte { return b[:19] },
		`f: 3 entries do not fit into 51 bytes`:                                    func(b []byte) []byte { b[19] = 3; return b },
		`f: 4294967295 entries do not fit into 51 bytes`:                           func(b []byte) []byte { copy(b[16:], "\xff\xff\xff\xff"); return b },
		`f: 24 bytes follow the last entry`:                                        func(b []byte) []byte { b[19] = 1; return b },
		`f: the entry at position 20: 4294967295 bytes are announced and 27 there`: func(b []byte) []byte { copy(b[40:], "\xff\xff\xff\xff"); return b },
		`f: the entry at position 47: not behind the one before it`:                func(b []byte) []byte { b[66] = 0; return b },
		`f: the entry at position 20: partition -1 is negative`:                    func(b []byte) []byte { copy(b[36:], "\xff\xff\xff\xff"); return b },
		`f: the entry at position 48: the file ends in it`:                         func(b []byte) []byte { b[43] = 4; return b },
		`f: format version 1 is not known here; this build reads version 0`:        func(b []byte) []byte { b[11] = 1; return b },
	} {
		_, err := decodeClosedLogs(closedLogs(t, change))
		require.EqualError(t, inFile("f", err), want)
	}
	whole := golden(t, "closed-logs-v0")
	for bit := range len(whole) * 8 {
		data := bytes.Clone(whole)
		data[bit/8] ^= 1 << (bit % 8)
		_, err := decodeClosedLogs(data)
		require.Error(t, err, "bit %d", bit)
	}
	for n := range whole {
		_, err := decodeClosedLogs(whole[:n])
		require.Error(t, err, "%d bytes", n)
	}
}

func TestLogsThatFindNoRoomAreLeftOut(t *testing.T) {
	logs := []ClosedLog{
		{Topic: id(1), Summary: make([]byte, 100)},
		{Topic: id(2), Summary: make([]byte, 200)},
		{Topic: id(3), Summary: make([]byte, 50)},
	}
	data, left := encodeClosedLogs(logs, closedHeaderSize+2*closedEntryHeaderSize+150)
	require.Equal(t, 1, left)
	read, err := decodeClosedLogs(data)
	require.NoError(t, err)
	require.Equal(t, []ClosedLog{logs[0], logs[2]}, read)
}

func FuzzClosedLogs(f *testing.F) {
	f.Add(golden(f, "closed-logs-v0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		if len(data) >= closedHeaderSize {
			binary.BigEndian.PutUint32(data[12:], crc32.Checksum(data[closedSealed:], castagnoli))
		}
		logs, err := decodeClosedLogs(data)
		if err != nil {
			return
		}
		again, left := encodeClosedLogs(logs, len(data))
		require.Zero(t, left)
		require.Equal(t, data, again)
	})
}

func TestUUIDTextIsKafkas(t *testing.T) {
	require.Equal(t, "AAAAAAAAAAAAAAAAAAAAKg", id(42).String())
	require.Equal(t, "0000000000000000000000000000002a", id(42).Hex())
	high := UUID{0xfb, 0xff, 15: 0xff}
	require.Equal(t, "-_8AAAAAAAAAAAAAAAAA_w", high.String())
	for _, u := range []UUID{{}, id(1), high, NewUUID()} {
		got, err := ParseUUID(u.String())
		require.NoError(t, err)
		require.Equal(t, u, got)
		text, err := u.MarshalText()
		require.NoError(t, err)
		var back UUID
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, u, back)
	}
	for _, bad := range []string{"", "AAAA", "AAAAAAAAAAAAAAAAAAAAKg==", "AAAAAAAAAAAAAAAAAAAAK+", "AAAAAAAAAAAAAAAAAAAAKh", strings.Repeat("A", 23)} {
		_, err := ParseUUID(bad)
		require.Error(t, err, "%q", bad)
	}
	require.True(t, UUID{}.IsZero())
	require.True(t, UUID{}.IsReserved())
	require.True(t, id(99).IsReserved())
	require.False(t, id(100).IsReserved())
	require.False(t, UUID{0: 1}.IsReserved())
}

func TestNewUUIDsAreRandomAndAreNotTakenForOptions(t *testing.T) {
	seen := map[UUID]bool{}
	for range 500 {
		u := NewUUID()
		require.NotEqual(t, byte('-'), u.String()[0])
		require.Equal(t, byte(4), u[6]>>4)
		require.Equal(t, byte(2), u[8]>>6)
		require.False(t, u.IsReserved())
		seen[u] = true
	}
	require.Len(t, seen, 500)
}

const hex32 = "5f0c6d1e2b3a49788c9d0e1f2a3b4c5d"

func TestDirectoryNames(t *testing.T) {
	orders := Partition{"orders", 3}
	dotted := Partition{"a-b.c", 0}
	for name, want := range map[string]DirName{
		"orders-3":                        {Partition: orders},
		"orders-3." + hex32 + "-delete":   {Delete, orders, hex32},
		"orders-3." + hex32 + "-future":   {Future, orders, hex32},
		"orders-3." + hex32 + "-stray":    {Stray, orders, hex32},
		"orders-3.x-delete":               {Delete, orders, "x"},
		"orders-3-future":                 {Future, orders, ""},
		"a-b.c-0":                         {Partition: dotted},
		"a-b.c-0." + hex32 + "-delete":    {Delete, dotted, hex32},
		"a-b.c-0-future":                  {Future, dotted, ""},
		"x-delete-2147483647":             {Partition: Partition{"x-delete", 2147483647}},
		"x-delete-1." + hex32 + "-delete": {Delete, Partition{"x-delete", 1}, hex32},
		"--1":                             {Partition: Partition{"-", 1}},
		"__consumer_offsets-49":           {Partition: Partition{"__consumer_offsets", 49}},
	} {
		got, err := ParseDirName(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.Equal(t, name, got.String())
	}
}

func TestNamesThatAreNoPartitionsAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"":                    `directory name "" is not topic-partition`,
		"lost+found":          `directory name "lost+found" is not topic-partition`,
		"-1":                  `directory name "-1": "" is not a topic name`,
		"orders-":             `directory name "orders-" does not end with the number of a partition`,
		"orders-x":            `directory name "orders-x" does not end with the number of a partition`,
		"orders-03":           `directory name "orders-03" does not end with the number of a partition`,
		"orders-+3":           `directory name "orders-+3" does not end with the number of a partition`,
		"orders-2147483648":   `directory name "orders-2147483648" does not end with the number of a partition`,
		"or ders-3":           `directory name "or ders-3": topic name "or ders" has the character ' '; letters, digits, '.', '_' and '-' are allowed`,
		"orders-3-delete":     `directory name "orders-3-delete" is not topic-partition.id-delete`,
		"orders-3.-stray":     `directory name "orders-3.-stray" is not topic-partition.id-stray`,
		"orders-3.a b-delete": `directory name "orders-3.a b-delete" is not topic-partition.id-delete`,
		"orders.x-delete":     `directory name "orders.x-delete" is not topic-partition.id-delete`,
		"-future":             `directory name "-future" is not topic-partition.id-future`,
	} {
		_, err := ParseDirName(name)
		require.EqualError(t, err, want, name)
	}
}

func TestRetiredNamesFitTheFileSystem(t *testing.T) {
	long := Partition{strings.Repeat("t", MaxTopicName), 12}
	require.NoError(t, long.Check())
	for role, topic := range map[Role]int{Delete: 212, Stray: 213} {
		name := DirName{role, long, hex32}
		require.NoError(t, name.check())
		require.Len(t, name.String(), MaxDirName)
		got, err := ParseDirName(name.String())
		require.NoError(t, err)
		require.Equal(t, DirName{role, Partition{long.Topic[:topic], 12}, hex32}, got)
	}
	require.EqualError(t, DirName{Future, long, hex32}.check(),
		"directory name "+long.Topic+"-12."+hex32+"-future is 292 characters long; the limit is 255", "a move is not shortened")
	require.Error(t, DirName{Partition: Partition{strings.Repeat("t", 249), 1234567}}.check())
	require.ErrorContains(t, Partition{strings.Repeat("t", 250), 0}.Check(), "250 characters long; the limit is 249")
}

func TestRolesHaveNames(t *testing.T) {
	require.Equal(t, []string{"current", "delete", "future", "stray"},
		[]string{Current.String(), Delete.String(), Future.String(), Stray.String()})
}

func FuzzDirName(f *testing.F) {
	for _, name := range []string{"orders-3", "a-1." + hex32 + "-delete", "a.b-2-future", "a-1.x-stray"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parts, err := ParseDirName(name)
		if err != nil || len(name) > MaxDirName {
			return
		}
		require.Equal(t, name, parts.String())
		require.NoError(t, parts.Partition.Check())
	})
}

// A checkpoint file is written for thousands of partitions at once.
func BenchmarkEncodeCheckpoint(b *testing.B) {
	offsets := manyOffsets()
	b.ReportAllocs()
	for b.Loop() {
		encodeOffsets(offsets)
	}
}

func BenchmarkDecodeCheckpoint(b *testing.B) {
	data := encodeOffsets(manyOffsets())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeOffsets(data); err != nil {
			b.Fatal(err)
		}
	}
}

func manyOffsets() map[Partition]int64 {
	offsets := maps.Clone(goldenOffsets)
	for i := range int32(5_000) {
		offsets[Partition{"topic-" + string(rune('a'+i%26)), i}] = int64(i) * 1_000_003
	}
	return offsets
}
