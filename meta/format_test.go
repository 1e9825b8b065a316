package meta

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// testTopic is the i-th of many topics.
func testTopic(i int) CreateTopic {
	return CreateTopic{ID: TopicID{0: 1, 14: byte(i >> 8), 15: byte(i)}, Name: fmt.Sprintf("topic-%05d", i), Partitions: 4,
		Configs: map[string]string{"cleanup.policy": "compact", "retention.ms": "60000"}}
}

// everyCommand has each command once, with every field set to something of its own.
func everyCommand() []Command {
	id := TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	return []Command{
		RegisterNode{Node: 5, ExpectedEpoch: -1, Incarnation: [16]byte{0xA0, 15: 0xAF}, Address: "host:9092", Slots: 3},
		AllocateProducerIDs{Node: 5, NodeEpoch: 1, Count: 100},
		PutKv{Key: "a/b", Value: []byte("hi")},
		PutKvIfAbsent{Key: "a/b", Value: []byte("there")},
		CasKv{Key: "a/c", Expected: 0, Value: []byte{0, 1, 2}},
		DeleteKvIfMatches{Key: "a/b", Value: []byte("other")},
		DeleteKv{Key: "a/c"},
		CreateTopic{ID: id, Name: "orders", Partitions: 3,
			Configs: map[string]string{"retention.ms": "1000", "cleanup.policy": "compact,delete"}},
		CreateTopic{ID: TopicID{0: 2}, Name: "gone", Partitions: 1, Configs: map[string]string{}},
		SetTopicConfigs{ID: id, ExpectedVersion: 1, Configs: map[string]string{"segment.bytes": "1048576"}},
		CreatePartitions{ID: id, Expected: 3, Total: 5},
		RaiseLeaderEpochs{Node: 5, NodeEpoch: 1, Topics: []TopicPartitions{{ID: id, Partitions: []int32{0, 4}}, {ID: TopicID{0: 2}}}},
		DeleteTopic{ID: TopicID{0: 2}},
	}
}

// everyStreamCommand has each command of LevelStreams once and what it needs, with every field set to something of its own.
func everyStreamCommand() []Command {
	a, b := [16]byte{0xA0, 15: 0xAF}, [16]byte{0xB0}
	plain := catalog.StreamObject{Object: 1, Size: 30, Stream: 1, Epoch: 4, Start: 0, End: 30}
	composite := plain
	composite.Object, composite.Size, composite.Attributes = 3, 77, catalog.NewAttributes(true, 2, false)
	return []Command{
		RegisterNode{Node: 5, ExpectedEpoch: -1, Incarnation: a, Address: "host:9092", Slots: 3},
		RegisterNode{Node: 6, ExpectedEpoch: -1, Incarnation: b},
		AnnounceLevel{Node: 5, Incarnation: a, Level: 1, Build: "v1.2.3"},
		AnnounceLevel{Node: 6, Incarnation: b, Level: 9, Build: "v9"},
		RaiseLevel{Level: 1, Nodes: []int32{5, 6}},
		OpenWAL{Node: 5, NodeEpoch: 1, Start: 2 * catalog.Window},
		CloseWAL{Node: 6, NodeEpoch: 1, Start: catalog.Window},
		CreateStreams{Node: 5, NodeEpoch: 1, Count: 3},
		OpenStream{Node: 5, NodeEpoch: 1, Stream: 0, Epoch: 2},
		OpenStream{Node: 5, NodeEpoch: 1, Stream: 1, Epoch: 4},
		PrepareObjects{Node: 5, NodeEpoch: 1, Count: 6, TTLMs: 60_000},
		CommitObjects{Node: 5, NodeEpoch: 1, Commit: catalog.Commit{
			Object: 0, Size: 512, Attributes: catalog.NewAttributes(false, 1, false),
			Ranges:        []catalog.Range{{Stream: 0, Epoch: 2, Start: 0, End: 20, Size: 200}},
			StreamObjects: []catalog.StreamObject{plain},
		}},
		CompactStream{Node: 5, NodeEpoch: 1, StreamCompaction: catalog.StreamCompaction{
			Object: 3, Size: 77, Stream: 1, Epoch: 4, Start: 0, End: 30, Attributes: composite.Attributes,
			Sources: []catalog.ObjectID{1}, Operations: []catalog.Operation{catalog.DeepDelete},
			DeadComponents: []catalog.ObjectID{1},
		}},
		CommitObjects{Node: 6, NodeEpoch: 1, Commit: catalog.Commit{
			Object: 4, Size: 256, Ranges: []catalog.Range{{Stream: 0, Epoch: -1, Start: 0, End: 20, Size: 200}},
			Compacted: []catalog.ObjectID{0},
		}},
		TrimStream{Node: 5, NodeEpoch: 1, Stream: 1, Epoch: 4, Start: 12},
		CloseStream{Node: 5, NodeEpoch: 1, Stream: 0, Epoch: 2},
		DeleteStream{Node: 6, NodeEpoch: 1, Stream: 2, Epoch: -1},
		ExpirePrepared{},
		CleanDestroyed{Objects: []catalog.ObjectID{1, 99}},
	}
}

// everyTableCommand has each command of LevelTables once and what it needs, with every field set to something of its own.
func everyTableCommand() []Command {
	a := [16]byte{0xA0, 15: 0xAF}
	return []Command{
		RegisterNode{Node: 5, ExpectedEpoch: -1, Incarnation: a, Address: "host:9092", Slots: 3},
		AnnounceLevel{Node: 5, Incarnation: a, Level: 2, Build: "v1.2.3"},
		RaiseLevel{Level: 2, Nodes: []int32{5}},
		CreateTable{Name: "orders", Buckets: 2, Options: []byte(`{"a":1}`), Schema: goldenSchema(1)},
		CreateTable{Name: "events.by-day", Kind: PrimaryKeyTable, Partitioned: true, Buckets: 1, Options: []byte{},
			Schema: goldenSchema(1)},
		CreateTable{Name: "gone", Buckets: 1, Options: []byte("x"), Schema: goldenSchema(9)},
		AddSchema{Table: 1, ExpectedLast: 0, Schema: goldenSchema(2)},
		CreatePartition{Table: 2, Key: "2026-11-30"},
		CreatePartition{Table: 2, Key: "2026-12-01"},
		AddBuckets{Table: 2, Expected: 1, Count: 2},
		DropPartition{Table: 2, Partition: 0},
		DropTable{Table: 3},
		RegisterCoordinator{Node: 5, NodeEpoch: 1, ExpectedEpoch: 0},
		LeadBucket{Node: 5, NodeEpoch: 1, Bucket: BucketID{2, 1, 2}, CoordinatorEpoch: 1},
		LeadBucket{Node: 5, NodeEpoch: 1, Bucket: BucketID{1, NoPartition, 1}, CoordinatorEpoch: 1},
		OpenStream{Node: 5, NodeEpoch: 1, Stream: 1, Epoch: 0},
	}
}

// goldenSchema is a schema whose bytes no library can change: that of testdata, with another field id in its last column.
func goldenSchema(id byte) []byte {
	text, err := os.ReadFile(filepath.Join("testdata", "schema.hex"))
	if err != nil {
		panic(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		panic(err)
	}
	b[bytes.LastIndex(b, []byte("7\x00"))] = '0' + id
	return b
}

func everyTableCommandEntry() Entry {
	return Entry{Node: 5, NodeEpoch: 1, Nonce: 0x2122232425262728, NowMs: 1_760_000_000_000, Commands: everyTableCommand()}
}

func TestTableEntryVersion1Golden(t *testing.T) {
	b, err := everyTableCommandEntry().Encode()
	require.NoError(t, err)
	golden(t, "entry-v1-tables.hex", b)
	decoded, err := DecodeEntry(b)
	require.NoError(t, err)
	require.Equal(t, everyTableCommandEntry(), decoded)
}

func TestSnapshotVersion3Golden(t *testing.T) {
	s, results := Empty().Apply(9, everyTableCommandEntry())
	for i, r := range results {
		require.NoError(t, r.Err(), "%+v", everyTableCommand()[i])
	}
	b := s.EncodeSnapshot()
	golden(t, "snapshot-v3.hex", b)
	decoded, err := DecodeSnapshot(b)
	require.NoError(t, err)
	require.Equal(t, b, decoded.EncodeSnapshot())
	require.Equal(t, s.dump(), decoded.dump())
}

func everyStreamCommandEntry() Entry {
	return Entry{Node: 5, NodeEpoch: 1, Nonce: 0x1112131415161718, NowMs: 1_760_000_000_000, Commands: everyStreamCommand()}
}

func TestStreamEntryVersion1Golden(t *testing.T) {
	b, err := everyStreamCommandEntry().Encode()
	require.NoError(t, err)
	golden(t, "entry-v1-streams.hex", b)
	decoded, err := DecodeEntry(b)
	require.NoError(t, err)
	require.Equal(t, everyStreamCommandEntry(), decoded)
}

func TestSnapshotVersion2Golden(t *testing.T) {
	s, results := Empty().Apply(8, everyStreamCommandEntry())
	for i, r := range results {
		require.NoError(t, r.Err(), "%+v", everyStreamCommand()[i])
	}
	b := s.EncodeSnapshot()
	golden(t, "snapshot-v2.hex", b)
	decoded, err := DecodeSnapshot(b)
	require.NoError(t, err)
	require.Equal(t, b, decoded.EncodeSnapshot())
	require.Equal(t, s.dump(), decoded.dump())
}

func everyCommandEntry() Entry {
	return Entry{Node: 5, NodeEpoch: 13, Nonce: 0x0102030405060708, NowMs: 1_760_000_000_000, Commands: everyCommand()}
}

// golden compares bytes with a file of hex that is never rewritten: a difference is a change of the format, which needs a
// new version and a new file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(file)), strings.TrimSpace(hex.Dump(got)))
}

func TestTheEntryOfTheSpecification(t *testing.T) {
	want, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "").Replace(
		"54 4d 4d 4c 01 05 00 00 00 0d 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 c0 2c c8 99 01 00 00" +
			"01 01 00 00 00 | 0c 03 00 00 00 61 2f 62 02 00 00 00 68 69 | e6 41 56 7b"))
	require.NoError(t, err)
	entry := Entry{Node: 5, NodeEpoch: 13, Nonce: 1, NowMs: 1_760_000_000_000,
		Commands: []Command{PutKv{Key: "a/b", Value: []byte("hi")}}}
	got, err := entry.Encode()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, got, 56)
	decoded, err := DecodeEntry(want)
	require.NoError(t, err)
	require.Equal(t, entry, decoded)
}

func TestEntryVersion1Golden(t *testing.T) {
	b, err := everyCommandEntry().Encode()
	require.NoError(t, err)
	golden(t, "entry-v1.hex", b)
	decoded, err := DecodeEntry(b)
	require.NoError(t, err)
	require.Equal(t, everyCommandEntry(), decoded)
}

func TestSnapshotVersion1Golden(t *testing.T) {
	s, results := Empty().Apply(7, everyCommandEntry())
	require.Equal(t, OK, results[len(results)-1].Code)
	b := s.EncodeSnapshot()
	golden(t, "snapshot-v1.hex", b)
	decoded, err := DecodeSnapshot(b)
	require.NoError(t, err)
	require.Equal(t, s.dump(), decoded.dump())
}

// dump is all that a state says, as plain values.
func (s *State) dump() map[string]any {
	out := map[string]any{"index": s.index, "clock": s.clockMs, "streams": s.nextStreamID, "objects": s.nextObjectID,
		"producers": s.nextProducerID, "destroyed": s.nextDestroyedSeq, "kvVersion": s.kvVersion, "partitions": s.partitions}
	for t := range s.Topics() {
		byID, _ := s.TopicByID(t.ID)
		out["topic "+t.Name] = []Topic{*t, *byID}
		out["name "+collisionKey(t.Name)], _ = s.topicNames.get(collisionKey(t.Name))
	}
	for n := range s.Nodes() {
		out[fmt.Sprint("node ", n.ID)] = n
	}
	for key, v := range s.List("") {
		out["key "+key] = v
	}
	for row := range s.Streams() {
		out[fmt.Sprint("stream ", row.ID)] = []any{row, s.StreamObjects(row.ID), s.Objects(row.ID, row.Start, row.End, 100)}
	}
	for set := range s.StreamSets() {
		counted, _ := s.sets.get(set.Object)
		out[fmt.Sprint("set ", set.Object)] = []any{set, counted.streams}
	}
	for id, o := range s.objects.all() {
		out[fmt.Sprint("object ", id)] = *o
	}
	for id, at := range s.Prepared() {
		out[fmt.Sprint("prepared ", id)] = at
	}
	for id, mark := range s.marks.all() {
		out[fmt.Sprint("marked ", id)] = mark
	}
	for id, n := range s.opened.all() {
		out[fmt.Sprint("opened ", id)] = n
	}
	for l := range s.NodeLevels() {
		out[fmt.Sprint("level of ", l.Node)] = l
	}
	for id, n := range s.placed.all() {
		out[fmt.Sprint("placed ", id)] = n
	}
	for id, transfer := range s.Transfers() {
		out[fmt.Sprint("transfer ", id)] = transfer
	}
	for t := range s.Tables() {
		byName, _ := s.Table(t.Name)
		out[fmt.Sprint("table ", t.ID)] = t.dump()
		out[fmt.Sprint("named ", t.Name)] = byName.dump()
	}
	for stream, id := range s.bucketOf.all() {
		out[fmt.Sprint("bucket of ", stream)] = id
	}
	for d := range s.Dropped() {
		stream, _ := s.droppedKeys.get(d.WriterSnapshotKey())
		out[fmt.Sprint("dropped ", d.Stream)] = []any{d, stream}
	}
	out["tables"] = []any{s.lastTable, s.coordinator, s.tableNames.len(), s.droppedKeys.len()}
	out["marks"], out["level"] = s.Destroyed(1000), s.level
	out["sizes"] = []int{s.topics.len(), s.topicIDs.len(), s.topicNames.len(), s.nodes.len(), s.kv.len()}
	return out
}

func (t *Table) dump() []any {
	out := []any{t.ID, t.Name, t.Kind, t.Partitioned, t.Buckets, string(t.Options), t.CreatedMs, t.nextPartition}
	for version, b := range t.schemas.all() {
		out = append(out, version, string(b))
	}
	for id := range t.fieldIDs.all() {
		out = append(out, id)
	}
	for p := range t.Partitions() {
		out = append(out, p.ID, p.Key)
		for n, b := range p.Buckets() {
			out = append(out, n, b)
		}
	}
	for key, id := range t.keys.all() {
		out = append(out, key, id)
	}
	return out
}

// reseal puts the right CRC behind bytes that a test has changed.
func reseal(b []byte) []byte { return sealed(b[: len(b)-crcSize : len(b)-crcSize]) }

func TestEveryDamageOfAnEntryIsRefused(t *testing.T) {
	b, err := everyCommandEntry().Encode()
	require.NoError(t, err)
	for i := range b {
		damaged := append([]byte{}, b...)
		damaged[i] ^= 0x10
		_, err := DecodeEntry(damaged)
		require.Error(t, err, "byte %d", i)
	}
	for n := range b {
		_, err := DecodeEntry(b[:n])
		require.Error(t, err, "%d bytes", n)
	}
	_, err = DecodeEntry(append(append([]byte{}, b...), 0))
	require.Error(t, err)
	for n := entryHeaderSize; n < len(b)-crcSize; n++ { // cut, with a CRC that fits
		_, err := DecodeEntry(sealed(b[:n:n]))
		require.Error(t, err, "cut to %d bytes", n)
	}
}

func TestML1_WhatANewerVersionWroteIsNamedAsSuch(t *testing.T) {
	entry, err := everyCommandEntry().Encode()
	require.NoError(t, err)
	snapshot := Empty().EncodeSnapshot()
	raise, err := Entry{Commands: []Command{RaiseLevel{Level: 1, Nodes: []int32{1}}}}.Encode()
	require.NoError(t, err)
	leveled := (&State{level: 1}).EncodeSnapshot()
	tabled := (&State{level: 2}).EncodeSnapshot()
	for _, c := range []struct {
		name string
		b    []byte
		at   int
		to   byte
		want VersionError
	}{
		{"entry", entry, 4, 2, VersionError{What: "entry version", Got: 2, Known: 1}},
		{"codec", entry, 33, 9, VersionError{What: "command codec version", Got: 9, Known: 1}},
		{"command", entry, 38, 200, VersionError{What: "command type", Got: 200, Known: 120}},
		{"command that this build does not have", entry, 38, 1, VersionError{What: "command type", Got: 1, Known: 120}},
		{"snapshot", snapshot, 4, 4, VersionError{What: "snapshot version", Got: 4, Known: 3}},
		{"users", snapshot, 61 + 8*11, 4, VersionError{What: "number of users in the snapshot", Got: 4}},
		{"level of an entry", raise, 39, 7, VersionError{What: "level of the metadata", Got: 7, Known: 2}},
		{"level of a snapshot", leveled, len(leveled) - 4 - 8 - 4, 7, VersionError{What: "level of the metadata", Got: 7, Known: 2}},
		{"level of a snapshot with tables", tabled, len(tabled) - 4 - 28 - 8 - 4, 7,
			VersionError{What: "level of the metadata", Got: 7, Known: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := append([]byte{}, c.b...)
			b[c.at] = c.to
			decode := func(b []byte) error { _, err := DecodeEntry(b); return err }
			if string(b[:4]) == snapshotMagic {
				decode = func(b []byte) error { _, err := DecodeSnapshot(b); return err }
			}
			var version *VersionError
			require.ErrorAs(t, decode(reseal(b)), &version)
			require.Equal(t, c.want, *version)
			var format *FormatError
			require.ErrorAs(t, decode(b), &format, "without the CRC that fits it is damage")
		})
	}
}

func TestABadStringIsRefusedBeforeItIsProposed(t *testing.T) {
	_, err := Entry{Commands: []Command{PutKv{Key: "\xff"}}}.Encode()
	require.ErrorContains(t, err, "not valid UTF-8")
	_, err = DecodeEntry(Entry{}.frame([][]byte{{numDeleteKv, 1, 0, 0, 0, 0xff}}))
	require.ErrorContains(t, err, "not valid UTF-8")
}

func TestAnEntryHas1To256Commands(t *testing.T) {
	for _, n := range []int{0, 257} {
		commands := make([]Command, n)
		raw := make([][]byte, n)
		for i := range n {
			commands[i] = DeleteKv{Key: "k"}
			raw[i], _ = encodeCommand(commands[i])
		}
		_, err := Entry{Commands: commands}.Encode()
		require.ErrorContains(t, err, "1 to 256 commands")
		_, err = DecodeEntry(Entry{}.frame(raw))
		require.ErrorContains(t, err, "1 to 256 commands")
	}
}

func TestDecodingDoesNotAllocateWhatADamagedCountAsksFor(t *testing.T) {
	b, err := encodeCommand(RaiseLeaderEpochs{Topics: []TopicPartitions{{}}})
	require.NoError(t, err)
	copy(b[13:], []byte{0xff, 0xff, 0xff, 0x7f})
	_, err = DecodeEntry(Entry{}.frame([][]byte{b}))
	require.ErrorContains(t, err, "does not fit")
}

func TestASnapshotWhoseRowsContradictEachOtherIsRefused(t *testing.T) {
	topic := func(id byte, name string) *Topic {
		return &Topic{ID: TopicID{id}, Name: name, ConfigVersion: 1, leaderEpochs: []int32{0}}
	}
	two := func(a, b *Topic) []byte { // written as they come, in no order
		s := Empty()
		s.topics = tree[string, *Topic]{n: 2, root: &treeNode[string, *Topic]{key: "x", value: b,
			left: &treeNode[string, *Topic]{key: "x", value: a}}}
		return s.EncodeSnapshot()
	}
	for want, b := range map[string][]byte{
		"out of order":  two(topic(1, "b"), topic(2, "a")),
		"collides with": two(topic(1, "a.b"), topic(2, "a_b")),
		"has the id of": two(topic(1, "a"), topic(1, "b")),
	} {
		_, err := DecodeSnapshot(b)
		require.ErrorContains(t, err, want)
	}
}

func TestTheChecksumIsCRC32C(t *testing.T) {
	require.Equal(t, uint32(0xE3069283), crc32.Checksum([]byte("123456789"), castagnoli))
}

func FuzzDecodeEntry(f *testing.F) {
	b, _ := everyCommandEntry().Encode()
	f.Add(b)
	b, _ = everyStreamCommandEntry().Encode()
	f.Add(b)
	b, _ = everyTableCommandEntry().Encode()
	f.Add(b)
	f.Add([]byte(entryMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, sealed(append([]byte{}, b...))} {
			e, err := DecodeEntry(b)
			if err != nil {
				continue
			}
			again, err := e.Encode()
			require.NoError(t, err)
			require.Equal(t, b, again, "what decodes encodes to the same bytes")
			Empty().Apply(1, e)
		}
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	s, _ := Empty().Apply(7, everyCommandEntry())
	f.Add(s.EncodeSnapshot())
	s, _ = Empty().Apply(8, everyStreamCommandEntry())
	f.Add(s.EncodeSnapshot())
	s, _ = Empty().Apply(9, everyTableCommandEntry())
	f.Add(s.EncodeSnapshot())
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, sealed(append([]byte{}, b...))} {
			s, err := DecodeSnapshot(b)
			if err != nil {
				continue
			}
			require.Equal(t, b, s.EncodeSnapshot(), "what decodes encodes to the same bytes")
		}
	})
}
