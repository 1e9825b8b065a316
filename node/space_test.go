package node_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// gauged is a disk that has as many bytes free as the test says.
type gauged struct {
	vfs.FS
	free *atomic.Int64
}

const wholeDisk = 1 << 40

func (g gauged) Space(string) (free, total int64, err error) { return g.free.Load(), wholeDisk, nil }

// withDisk gives a machine a disk with a reserve of 1 MiB, and returns how much is free, at first plenty.
func withDisk(m *nodetest.Machine, o ...faultfs.Injector) *atomic.Int64 {
	free := new(atomic.Int64)
	free.Store(wholeDisk / 2)
	m.Config.DiskReserve = 1 << 20
	m.Wrap = func(base vfs.FS) vfs.FS { return faultfs.New(gauged{base, free}, faultfs.First(o...)) }
	return free
}

// fails produces one record, without waiting for better times.
func failsToProduce(t *testing.T, m *nodetest.Machine, topic, value string) error {
	t.Helper()
	c := client(t, m, kgo.RecordRetries(0), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return c.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
}

func TestU16_ANearlyFullDiskRefusesProducersAndLeavesRoomForEverythingElse(t *testing.T) {
	m := machine(t)
	free := withDisk(m)
	m.Start()
	c := client(t, m)
	admin := kadm.NewClient(c)
	createTopic(t, c, 1, nil, "orders")
	createTopic(t, c, 1, nil, "old")
	kept := produce(t, c, "orders", 0, "kept")
	commit := func() error {
		return admin.CommitAllOffsets(within(t), "billing", kadm.OffsetsFromRecords(kgo.Record{Topic: "orders", Offset: 0}))
	}
	require.NoError(t, commit())

	free.Store(1<<20 - 1)
	// The server looks at the disk now and then, not at each append.
	var refused error
	require.Eventually(t, func() bool {
		refused = failsToProduce(t, m, "orders", strings.Repeat("x", 70_000))
		return refused != nil
	}, patience, time.Millisecond)
	require.ErrorIs(t, refused, kerr.KafkaStorageError)
	require.NotEqual(t, "0\n", metric(t, m, `tidemark_partition_refused_batches_total{reason="low disk"}`))
	require.Equal(t, "tidemark_node_low_disk 1\n", metric(t, m, "tidemark_node_low_disk "))
	require.Equal(t, "tidemark_disk_reserve_bytes 1.048576e+06\n", metric(t, m, "tidemark_disk_reserve_bytes"))

	code, body := get(t, m.HTTPAddr(), "/readyz")
	require.Equal(t, http.StatusOK, code, "readers are served")
	var said struct{ Warnings []string }
	require.NoError(t, json.Unmarshal([]byte(body), &said))
	require.Equal(t, []string{"producers are refused: 0 MiB are free on the server's disk, of which the last 1 MiB are reserved for " +
		"metadata and deletion: delete topics or records, shorten retention, or add space"}, said.Warnings)

	require.Equal(t, "kept", consume(t, m, "orders")[kept])
	require.NoError(t, commit(), "committed offsets have the reserve")
	created, err := admin.CreateTopic(within(t), 1, 1, nil, "new")
	require.ErrorIs(t, errors.Join(err, created.Err), kerr.KafkaStorageError)
	require.Contains(t, created.ErrMessage, "reserved for metadata and deletion")
	deleted, err := admin.DeleteTopics(within(t), "old")
	require.NoError(t, errors.Join(err, deleted.Error()))

	waiting := make(chan error, 1)
	patient := client(t, m)
	patient.Produce(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("waits")}, func(_ *kgo.Record, err error) { waiting <- err })
	free.Store(1<<20 + 1)
	_, body = get(t, m.HTTPAddr(), "/readyz")
	require.Contains(t, body, "producers are refused", "a little more than the reserve is not room yet")
	free.Store(2 << 20)
	require.NoError(t, <-waiting, "clients try again by themselves")
	require.Equal(t, "tidemark_node_low_disk 0\n", metric(t, m, "tidemark_node_low_disk "))
	require.Equal(t, "tidemark_node_low_disk_total 1\n", metric(t, m, "tidemark_node_low_disk_total"))
	_, body = get(t, m.HTTPAddr(), "/readyz")
	require.NotContains(t, body, "producers are refused")
}

func TestADiskThatCannotSayHowMuchIsFreeRefusesNobody(t *testing.T) {
	m := machine(t)
	free := withDisk(m, faultfs.FailMatching(faultfs.OpSpace, "*", errors.New("input/output error")))
	free.Store(0)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "orders")
	kept := produce(t, c, "orders", 0, "kept")
	require.Equal(t, "kept", consume(t, m, "orders")[kept])
	require.Empty(t, metric(t, m, "tidemark_disk_free_bytes"))
}

func TestANodeThatStartsOnAFullDiskServesReaders(t *testing.T) {
	m := machine(t)
	free := withDisk(m)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "orders")
	kept := produce(t, c, "orders", 0, "kept")
	m.Stop()

	free.Store(10)
	m.Start()
	require.ErrorIs(t, failsToProduce(t, m, "orders", "no"), kerr.KafkaStorageError)
	require.Equal(t, map[position]string{kept: "kept"}, consume(t, m, "orders"))
}

func TestANodeTakesNoMorePartitionsThanItMayHave(t *testing.T) {
	m := machine(t)
	m.Config.MaxPartitions = 10
	m.Start()
	c := client(t, m)
	admin := kadm.NewClient(c)
	createTopic(t, c, 8, nil, "orders")
	created, err := admin.CreateTopic(within(t), 3, 1, nil, "clicks")
	require.ErrorIs(t, errors.Join(err, created.Err), kerr.PolicyViolation)
	require.Equal(t, "the node would have too many partitions: it has 8, 3 more were requested, and max-partitions is 10",
		created.ErrMessage)
	require.Equal(t, "tidemark_node_partitions_refused_total 1\n", metric(t, m, "tidemark_node_partitions_refused_total"))
	require.Equal(t, "tidemark_node_partitions_limit 10\n", metric(t, m, "tidemark_node_partitions_limit"))
	createTopic(t, c, 2, nil, "clicks")

	_, err = admin.CommitOffsets(within(t), "billing", kadm.OffsetsFromRecords(kgo.Record{Topic: "orders"}))
	require.NoError(t, err, "the server's own topics always find room")
	deleted, err := admin.DeleteTopics(within(t), "clicks", "orders")
	require.NoError(t, errors.Join(err, deleted.Error()))
	m.Stop()
	m.Config.MaxPartitions = -1
	m.Start()
	createTopic(t, client(t, m), 100, nil, "many")
}

// overview is a part of what the status page asks for.
type overview struct {
	Version, Cluster string
	Listeners        []struct{ Name, Address, Advertised string }
	Topics           []struct {
		Name                         string
		Partitions, Offline, Records int
		WrittenRecords               int `json:"written_records"`
	}
}

func TestTheStatusPageKnowsListenersAndTopics(t *testing.T) {
	m := machine(t)
	m.Config.Version = "v1.2.3"
	n := m.Start()
	c := client(t, m)
	createTopic(t, c, 2, nil, "orders")
	produce(t, c, "orders", 0, "a")
	produce(t, c, "orders", 1, "b")

	code, body := get(t, m.HTTPAddr(), "/status")
	require.Equal(t, http.StatusOK, code)
	var said overview
	require.NoError(t, json.Unmarshal([]byte(body), &said))
	require.Equal(t, "v1.2.3", said.Version)
	require.Equal(t, n.ClusterID(), said.Cluster)
	require.Equal(t, "http", said.Listeners[0].Name)
	require.Equal(t, "kafka", said.Listeners[1].Name)
	require.Equal(t, m.Addr(), said.Listeners[1].Advertised)
	require.Len(t, said.Topics, 1)
	require.Equal(t, "orders", said.Topics[0].Name)
	require.Equal(t, []int{2, 0, 2, 2}, []int{
		said.Topics[0].Partitions, said.Topics[0].Offline, said.Topics[0].Records, said.Topics[0].WrittenRecords,
	})

	code, body = get(t, m.HTTPAddr(), "/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "<h1>Tidemark</h1>")
}

func TestU05_LagIsInTheMetricsAndOnTheStatusPageUntilTheGroupIsGone(t *testing.T) {
	m := machine(t)
	m.Config.GroupMetrics = "partition"
	m.Start()
	c := client(t, m)
	admin := kadm.NewClient(c)
	createTopic(t, c, 2, nil, "orders")
	for range 5 {
		produce(t, c, "orders", 1, "x")
	}
	_, err := admin.CommitOffsets(within(t), "billing", kadm.OffsetsFromRecords(
		kgo.Record{Topic: "orders", Partition: 0, Offset: -1}, kgo.Record{Topic: "orders", Partition: 1, Offset: 2}))
	require.NoError(t, err)
	require.Equal(t, "tidemark_group_lag_records{group=\"billing\"} 2\n", metric(t, m, "tidemark_group_lag_records"))
	require.Equal(t, "tidemark_group_members{group=\"billing\",state=\"Empty\"} 0\n", metric(t, m, "tidemark_group_members"))
	require.Contains(t, metric(t, m, "tidemark_group_partition_lag_records"),
		"{group=\"billing\",partition=\"1\",topic=\"orders\"} 2\n")
	_, body := get(t, m.HTTPAddr(), "/status")
	require.Contains(t, body, `"groups":[{"name":"billing","state":"Empty","members":0,"lag":2,"max_lag":2}]`)

	require.Equal(t, "tidemark_group_rebalances_total{group=\"billing\"} 0\n", metric(t, m, "tidemark_group_rebalances_total"))

	put, err := http.NewRequestWithContext(within(t), http.MethodPut, "http://"+m.HTTPAddr()+"/groupmetrics", strings.NewReader("group"))
	require.NoError(t, err)
	put.Close = true
	answered, err := http.DefaultClient.Do(put)
	require.NoError(t, err)
	require.NoError(t, answered.Body.Close())
	require.Equal(t, http.StatusOK, answered.StatusCode)
	require.Empty(t, metric(t, m, "tidemark_group_partition_lag_records"))
	require.NotEmpty(t, metric(t, m, "tidemark_group_lag_records"))

	deleted, err := admin.DeleteGroups(within(t), "billing")
	require.NoError(t, errors.Join(err, deleted.Error()))
	require.Empty(t, metric(t, m, "tidemark_group_"))
}
