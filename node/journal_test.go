package node_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

const journalFile = nodetest.DataDir + "/tidemark.journal"

// spread produces one record to each of n partitions at once and returns them by position once all are acknowledged.
func spread(t *testing.T, c *kgo.Client, topic string, n int, value string) map[position]string {
	t.Helper()
	want := map[position]string{}
	var mu sync.Mutex
	var last sync.WaitGroup
	for p := range int32(n) {
		last.Add(1)
		c.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)}, func(r *kgo.Record, err error) {
			defer last.Done()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			want[position{topic, p, r.Offset}] = string(r.Value)
		})
	}
	last.Wait()
	return want
}

func TestF01_RecordsOfManyPartitionsSurviveAPowerCutInTheJournalAlone(t *testing.T) {
	for seed := range uint64(5) {
		m := machine(t)
		m.Start()
		c := client(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		const partitions = 100
		createTopic(t, c, partitions, nil, "orders")
		want := spread(t, c, "orders", partitions, "first") // whose syncs make the names of the files durable
		for i := range 5 {
			for at, value := range spread(t, c, "orders", partitions, fmt.Sprint("again ", i)) {
				want[at] = value
			}
		}
		require.True(t, exists(m.FS, journalFile))
		m.CutPower(nodetest.Cut{Seed: seed}) // what was not synced is gone
		m.Start()
		require.Equal(t, want, consume(t, m, "orders"))
		require.False(t, exists(m.FS, journalFile), "everything is in the logs again")

		spread(t, c, "orders", partitions, "more")
		m.Stop()
		require.False(t, exists(m.FS, journalFile), "a directory that was closed in order is as Kafka leaves it")
	}
}

func TestAJournalBesideLogsThatWereClosedInOrderIsOlderThanTheyAre(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	createTopic(t, c, 10, nil, "orders")
	spread(t, c, "orders", 10, "first")
	spread(t, c, "orders", 10, "second")
	m.CutPower(nodetest.Cut{Keep: 1}) // the process is killed, the machine runs on
	stale, err := vfs.ReadFile(m.FS, journalFile)
	require.NoError(t, err)
	m.Start()
	m.Stop()
	logs := func() (all string) {
		for _, name := range under(tree(t, m.FS, nodetest.DataDir), ".log") {
			data, err := vfs.ReadFile(m.FS, name)
			require.NoError(t, err)
			all += name + string(data)
		}
		return all
	}
	before := logs()
	require.NoError(t, vfs.WriteFileAtomic(m.FS, journalFile, stale))
	m.Wrap = func(fs vfs.FS) vfs.FS {
		return faultfs.New(fs, faultfs.FailMatching(faultfs.OpRemove, journalFile, errPower))
	}
	_, err = m.TryStart(t.Context())
	require.ErrorIs(t, err, errPower)
	require.True(t, exists(m.FS, nodetest.DataDir+"/.kafka_cleanshutdown"), "a start after a crash here must know it, too")
	m.Wrap = nil
	m.Start()
	require.False(t, exists(m.FS, journalFile))
	m.Stop()
	require.Equal(t, before, logs())
}

// TestARecordOfADirectoryThatIsNotServedGoesBackIntoItFromTheJournal has starts after a power cut that cannot tell whose a
// directory is, or do not know its topic, and one after these that can and does.
func TestARecordOfADirectoryThatIsNotServedGoesBackIntoItFromTheJournal(t *testing.T) {
	for _, c := range []struct {
		name        string
		hide, bring func(t *testing.T, m *nodetest.Machine)
	}{
		{
			"partition.metadata is not there",
			func(t *testing.T, m *nodetest.Machine) {
				require.NoError(t, m.FS.Rename(metadataOrders, metadataOrders+".away"))
			},
			func(t *testing.T, m *nodetest.Machine) {
				require.NoError(t, m.FS.Rename(metadataOrders+".away", metadataOrders))
			},
		},
		{
			"the directory had been moved aside",
			func(t *testing.T, m *nodetest.Machine) {
				require.NoError(t, m.FS.Rename(nodetest.DataDir+"/orders-3", nodetest.DataDir+"/"+strayOrders))
				require.NoError(t, vfs.EnsureDir(m.FS, nodetest.DataDir+"/orders-3"))
				require.NoError(t, vfs.WriteFileAtomic(m.FS, nodetest.DataDir+"/orders-3/something", nil))
			},
			func(t *testing.T, m *nodetest.Machine) {
				require.NoError(t, vfs.RemoveAll(m.FS, nodetest.DataDir+"/orders-3"))
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine(t)
			m.Start()
			cl := client(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			createTopic(t, cl, 20, nil, "orders")
			want := spread(t, cl, "orders", 20, "first")
			for at, value := range spread(t, cl, "orders", 20, "in the journal alone") {
				want[at] = value
			}
			require.True(t, exists(m.FS, journalFile))
			m.CutPower(nodetest.Cut{Seed: 1})
			c.hide(t, m)
			m.Start()
			m.Stop()
			c.bring(t, m)
			m.Start()
			require.Equal(t, want, consume(t, m, "orders"))
			m.Stop()
		})
	}
}

const (
	strayOrders    = "orders-3.0123456789abcdef0123456789abcdef-stray"
	metadataOrders = nodetest.DataDir + "/orders-3/partition.metadata"
)

// TestF10_APartitionWhoseFileTheDiskFailsKeepsNoOtherFromItsJournal has the disk fail the file of one partition, while the server
// runs and at the next start.
func TestF10_APartitionWhoseFileTheDiskFailsKeepsNoOtherFromItsJournal(t *testing.T) {
	m := machine(t)
	var fails atomic.Bool
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.When(func(op faultfs.Op) bool {
			return fails.Load() && faultfs.Matching(faultfs.OpSync, "*/orders-3/*.log")(op)
		}, faultfs.Always(faultfs.Fault{Err: syscall.EIO, Drop: true})))
	}
	m.Start()
	c := client(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	const partitions = 20
	createTopic(t, c, partitions, nil, "orders")
	want := spread(t, c, "orders", partitions, "first") // whose syncs make the names of the files durable
	for at, value := range spread(t, c, "orders", partitions, "again") {
		want[at] = value
	}
	fails.Store(true)
	m.CutPower(nodetest.Cut{Seed: 1})
	m.Start()
	one := client(t, m, kgo.RecordRetries(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	err := one.ProduceSync(within(t), &kgo.Record{Topic: "orders", Partition: 3, Value: []byte("refused")}).FirstErr()
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	for p := range int32(partitions) {
		if p != 3 {
			want[produce(t, c, "orders", p, "meanwhile")] = "meanwhile"
		}
	}
	_, body := get(t, m.HTTPAddr(), "/readyz")
	require.Contains(t, body, "orders-3")
	fails.Store(false)
	m.CutPower(nodetest.Cut{Seed: 2})
	m.Start()
	require.Equal(t, want, consume(t, m, "orders"))
	m.Stop()
	require.Empty(t, under(tree(t, m.FS, nodetest.DataDir), "tidemark.journal"))
}

// TestF10_APartitionWhoseRecordsOnlyTheJournalHasWaitsForSpace has the power go on a disk that is full then: the journal's
// records do not fit into the files of two partitions, at two starts.
func TestF10_APartitionWhoseRecordsOnlyTheJournalHasWaitsForSpace(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	const partitions = 20
	createTopic(t, c, partitions, nil, "orders")
	want := spread(t, c, "orders", partitions, "first") // whose syncs make the names of the files durable
	for at, value := range spread(t, c, "orders", partitions, "again") {
		want[at] = value
	}
	var full atomic.Bool
	full.Store(true)
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.When(func(op faultfs.Op) bool {
			return full.Load() && (faultfs.Matching(faultfs.OpWriteAt, "*/orders-3/*.log")(op) || faultfs.Matching(faultfs.OpWriteAt, "*/orders-7/*.log")(op))
		}, faultfs.Always(faultfs.Fault{Err: syscall.ENOSPC})))
	}
	for seed := range uint64(2) {
		m.CutPower(nodetest.Cut{Seed: seed}) // what was not synced is gone
		m.Start()
		for _, p := range []int32{3, 7} {
			one := client(t, m, kgo.RecordRetries(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			err := one.ProduceSync(within(t), &kgo.Record{Topic: "orders", Partition: p, Value: []byte("refused")}).FirstErr()
			require.ErrorIs(t, err, kerr.KafkaStorageError)
		}
		for p := range int32(partitions) {
			if p != 3 && p != 7 {
				want[produce(t, c, "orders", p, "meanwhile")] = "meanwhile"
			}
		}
		_, body := get(t, m.HTTPAddr(), "/readyz")
		require.Contains(t, body, "orders-3")
	}
	full.Store(false)
	require.Eventually(t, func() bool {
		_, body := get(t, m.HTTPAddr(), "/readyz")
		return !strings.Contains(body, "orders-")
	}, patience, time.Millisecond)
	require.Equal(t, want, consume(t, m, "orders"))
	m.Stop()
	require.Empty(t, under(tree(t, m.FS, nodetest.DataDir), "tidemark.journal"))
	require.True(t, exists(m.FS, nodetest.DataDir+"/.kafka_cleanshutdown"))
}
