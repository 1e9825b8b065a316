package importer

import (
	"encoding/binary"
	"os"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// A record is built by hand here, byte by byte as wire.go draws it.
type wireWriter struct{ b []byte }

func record(key, version byte) *wireWriter { return &wireWriter{[]byte{1, key, version}} }

func (w *wireWriter) text(s string) *wireWriter {
	w.b = append(w.b, byte(len(s)+1))
	w.b = append(w.b, s...)
	return w
}

func (w *wireWriter) null() *wireWriter { w.b = append(w.b, 0); return w }

func (w *wireWriter) uuid(u logdir.UUID) *wireWriter { w.b = append(w.b, u[:]...); return w }

func (w *wireWriter) int8(v int8) *wireWriter { w.b = append(w.b, byte(v)); return w }

func (w *wireWriter) int32(v int32) *wireWriter {
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(v))
	return w
}

func (w *wireWriter) int32s(vs ...int32) *wireWriter {
	w.b = append(w.b, byte(len(vs)+1))
	for _, v := range vs {
		w.int32(v)
	}
	return w
}

// end closes the record with tagged fields, by tag and bytes in turn.
func (w *wireWriter) end(tagged ...any) []byte {
	w.b = append(w.b, byte(len(tagged)/2))
	for i := 0; i < len(tagged); i += 2 {
		field := tagged[i+1].(*wireWriter).b
		w.b = append(w.b, byte(tagged[i].(int)), byte(len(field)))
		w.b = append(w.b, field...)
	}
	return w.b
}

func field() *wireWriter { return &wireWriter{} }

var (
	ordersID = logdir.UUID{1, 15: 1}
	otherID  = logdir.UUID{2, 15: 2}
)

func topicRecord(name string, id logdir.UUID) []byte {
	return record(keyTopic, 0).text(name).uuid(id).end()
}

func partitionRecord(index int32, id logdir.UUID) []byte {
	return record(keyPartition, 2).int32(index).uuid(id).int32s(1, 2).int32s(1).int32s().int32s().int32(1).int32(4).int32(9).
		uuids(logdir.UUID{9}).end(0, field().int8(0), tagEligible, field().int32s(2))
}

func (w *wireWriter) uuids(us ...logdir.UUID) *wireWriter {
	w.b = append(w.b, byte(len(us)+1))
	for _, u := range us {
		w.uuid(u)
	}
	return w
}

func applied(t *testing.T, records ...[]byte) *image {
	t.Helper()
	m := newImage()
	for _, r := range records {
		require.NoError(t, m.apply(r))
	}
	return m
}

func TestPartitionsFollowTheirRecords(t *testing.T) {
	m := applied(t, topicRecord("orders", ordersID), partitionRecord(0, ordersID))
	require.Equal(t, kraftPartition{replicas: []int32{1, 2}, isr: []int32{1}, eligible: []int32{2}, leader: 1, leaderEpoch: 4},
		m.topics[ordersID].partitions[0])

	change := func(tagged ...any) []byte {
		return record(keyPartitionChange, 2).int32(0).uuid(ordersID).end(tagged...)
	}
	require.NoError(t, m.apply(change(tagNewIsr, field().int32s(), tagNewLeader, field().int32(noLeader),
		tagNewLastKnown, field().int32s(1))))
	require.NoError(t, m.apply(change(tagNewReplicas, field().int32s(1), tagNewEligible, field().null())))
	p := m.topics[ordersID].partitions[0]
	require.Equal(t, kraftPartition{replicas: []int32{1}, lastKnown: []int32{1}, leader: noLeader, leaderEpoch: 5}, p)
	require.True(t, p.whole(1))
	require.False(t, p.whole(2))
	require.NoError(t, m.apply(change(tagNewLeader, field().int32(1), tagNewIsr, field().int32s(1))))
	require.Equal(t, int32(6), m.topics[ordersID].partitions[0].leaderEpoch)
	require.NoError(t, m.apply(record(keyClearEligible, 0).text("orders").end()))
	require.Empty(t, m.topics[ordersID].partitions[0].lastKnown)
}

func TestTheFirstVersionOfAPartitionRecordIsRead(t *testing.T) {
	m := applied(t, topicRecord("orders", ordersID), record(keyPartition, 0).int32(3).uuid(ordersID).int32s(1).int32s(1).int32s().
		int32s().int32(1).int32(0).int32(0).end())
	require.Equal(t, map[int32]kraftPartition{3: {replicas: []int32{1}, isr: []int32{1}, leader: 1}}, m.topics[ordersID].partitions)
}

func TestSettingsGoWithTheirTopic(t *testing.T) {
	set := func(kind int8, of, name, value string) []byte {
		return record(keyConfig, 0).int8(kind).text(of).text(name).text(value).end()
	}
	m := applied(t, topicRecord("orders", ordersID), set(resourceTopic, "orders", "retention.ms", "5"),
		set(resourceTopic, "orders", "segment.ms", "6"), record(keyConfig, 0).int8(resourceTopic).text("orders").text("segment.ms").null().end(),
		set(resourceBroker, "", "log.retention.ms", "7"), set(resourceBroker, "1", "log.retention.ms", "8"),
		set(resourceBroker, "2", "log.retention.ms", "9"))
	require.Equal(t, map[string]string{"retention.ms": "5"}, m.configs[resource{resourceTopic, "orders"}])
	require.Equal(t, map[string]string{"log.retention.ms": "8"}, m.brokerConfigs(1))
	require.NoError(t, m.apply(record(keyRemoveTopic, 0).uuid(ordersID).end()))
	require.NoError(t, m.apply(topicRecord("orders", otherID)))
	require.Empty(t, m.configs[resource{resourceTopic, "orders"}])
	require.Len(t, m.topics, 1)
}

func TestATransactionOfTheMetadataLogCountsAsAWhole(t *testing.T) {
	begin, end, abort := record(keyBeginTxn, 0).end(), record(keyEndTxn, 0).end(), record(keyAbortTxn, 0).end()
	m := applied(t, begin, topicRecord("orders", ordersID))
	require.Empty(t, m.topics, "it has not ended")
	require.NoError(t, m.apply(abort))
	require.NoError(t, m.apply(begin))
	require.NoError(t, m.apply(topicRecord("other", otherID)))
	require.NoError(t, m.apply(end))
	require.Len(t, m.topics, 1)
	require.Equal(t, "other", m.topics[otherID].name)
}

func TestRecordsThatCannotBeReadAreErrors(t *testing.T) {
	for name, r := range map[string][]byte{
		"short":         topicRecord("orders", ordersID)[:8],
		"long string":   {1, keyTopic, 0, 200, 1},
		"newer":         {1, keyTopic, 1},
		"frame":         {2, keyTopic, 0},
		"empty":         {},
		"unknown topic": partitionRecord(0, otherID),
		"partition":     partitionRecord(-1, ordersID),
		"change":        record(keyPartitionChange, 0).int32(5).uuid(ordersID).end(),
	} {
		m := applied(t, topicRecord("orders", ordersID))
		require.Error(t, m.apply(r), name)
	}
	m := applied(t, record(77, 9).text("a kind that came later").end())
	require.Equal(t, newImage(), m)
}

func FuzzImage(f *testing.F) {
	f.Add(topicRecord("orders", ordersID))
	f.Add(partitionRecord(0, ordersID))
	f.Add(record(keyPartitionChange, 2).int32(0).uuid(ordersID).end(tagNewLeader, field().int32(2)))
	f.Fuzz(func(t *testing.T, value []byte) {
		m := newImage()
		_ = m.apply(topicRecord("orders", ordersID)) // of any outcome but a panic
		_ = m.apply(partitionRecord(0, ordersID))
		_ = m.apply(value)
	})
}

// metadataFiles are the fixture's metadata log on a disk in memory.
func metadataFiles(t *testing.T) *memfs.FS {
	t.Helper()
	fsys := memfs.New()
	require.NoError(t, fsys.MkdirAll("meta"))
	dir := path.Join(fixture, "kafka", "__cluster_metadata-0")
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		data, err := os.ReadFile(path.Join(dir, e.Name()))
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFileAtomic(fsys, path.Join("meta", e.Name()), data))
	}
	return fsys
}

func TestSnapshotsAndTheLogSayTheSame(t *testing.T) {
	fsys := metadataFiles(t)
	want, err := readImage(fsys, "meta")
	require.NoError(t, err)
	names := map[string]int{}
	for _, topic := range want.topics {
		names[topic.name] = len(topic.partitions)
	}
	require.Equal(t, map[string]int{"__consumer_offsets": 2, "__transaction_state": 2, "topic-00": 1, "topic-01": 2, "topic-02": 5,
		"topic-03": 1, "topic-04": 2, "topic-05": 3}, names)

	snapshots := 0
	for {
		list, err := fsys.List("meta")
		require.NoError(t, err)
		newest := ""
		for _, e := range list {
			if path.Ext(e.Name()) == checkpointSuffix {
				newest = e.Name()
			}
		}
		if newest == "" {
			break
		}
		snapshots++
		require.NoError(t, fsys.Remove(path.Join("meta", newest)))
		got, err := readImage(fsys, "meta")
		require.NoError(t, err)
		require.Equal(t, want, got, "without %s", newest)
	}
	require.Greater(t, snapshots, 1)
}

func TestASnapshotThatDoesNotEndIsPassedOver(t *testing.T) {
	fsys := metadataFiles(t)
	want, err := readImage(fsys, "meta")
	require.NoError(t, err)
	list, err := fsys.List("meta")
	require.NoError(t, err)
	cut := 0
	for _, e := range list {
		if path.Ext(e.Name()) != checkpointSuffix {
			continue
		}
		f, err := fsys.Open(path.Join("meta", e.Name()), vfs.ReadWrite)
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		require.NoError(t, f.Truncate(info.Size()-1))
		require.NoError(t, f.Close())
		cut++
	}
	require.Greater(t, cut, 1)
	got, err := readImage(fsys, "meta")
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestATornEndOfTheMetadataLogIsItsEnd(t *testing.T) {
	fsys := metadataFiles(t)
	want, err := readImage(fsys, "meta")
	require.NoError(t, err)
	f, err := fsys.Open("meta/00000000000000000000.log", vfs.ReadWrite)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: 1 << 40})
	b.Add(0, nil, topicRecord("never", otherID))
	whole, err := b.Build()
	require.NoError(t, err)
	_, err = f.WriteAt(whole[:len(whole)-3], info.Size())
	require.NoError(t, err)
	got, err := readImage(fsys, "meta")
	require.NoError(t, err)
	require.Equal(t, want, got)

	_, err = f.WriteAt(whole, info.Size())
	require.NoError(t, err)
	_, err = readImage(fsys, "meta")
	require.ErrorContains(t, err, "the metadata in between is missing")
}
