package node_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// spoil is one way to damage a file.
type spoil struct {
	name   string
	change func(data []byte, newer string) []byte // nil: it cannot be opened
}

var spoils = []spoil{
	{"cut in half", func(data []byte, _ string) []byte { return data[:len(data)/2] }},
	{"empty", func([]byte, string) []byte { return nil }},
	{"zeros", func(data []byte, _ string) []byte { return make([]byte, max(len(data), 16)) }},
	{"random", func(data []byte, _ string) []byte {
		random := rand.NewChaCha8([32]byte{7})
		noise := make([]byte, max(len(data), 16))
		_, _ = random.Read(noise)
		return noise
	}},
	{"newer", func(_ []byte, newer string) []byte { return []byte(newer) }},
	{"unreadable", nil},
}

// What a start makes of a damaged file.
const (
	served  = "served"  // as if nothing had happened
	kept    = "kept"    // that, and the damaged file is in the quarantine
	offline = "offline" // the partition alone is not served
	refused = "refused" // the server does not start, and says why
	others  = "others"  // all others are served; what is read of the partition is right, or an error
)

// spoilable is a file and what a start makes of each spoil of it.
type spoilable struct {
	name  string
	newer string // how the file of a newer version begins
	want  [6]string
}

// spoilables are the files of a data directory. orders-0 begins at offset 5 and has two segments.
func spoilables(t *testing.T, disk vfs.FS) []spoilable {
	of := func(suffix string, n int) string {
		found := under(tree(t, disk, "data/orders-0"), suffix)
		require.Greater(t, len(found), n, suffix)
		return found[n]
	}
	//                                               half     empty    zeros    random   newer    unreadable
	checkpoint := [6]string{kept, served, kept, kept, refused, kept}
	all := func(want string) [6]string { return [6]string{want, want, want, want, want, want} }
	return []spoilable{
		{"data/recovery-point-offset-checkpoint", "1\n0\n", checkpoint},
		{"data/replication-offset-checkpoint", "1\n0\n", checkpoint},
		{"data/log-start-offset-checkpoint", "1\n0\n", checkpoint},
		{"data/cleaner-offset-checkpoint", "1\n0\n", all(served)}, // nothing reads it
		{"data/meta.properties", "version=2\n", [6]string{kept, kept, kept, kept, refused, kept}},
		{"data/.kafka_cleanshutdown", `{"version":9}`, all(served)},
		{"data/tidemark.closed-logs", "TMCLOSED\x00\x00\x00\x01", [6]string{kept, kept, kept, kept, refused, kept}},
		{"data/orders-0/partition.metadata", "version: 9\nmore: 1\ntopic_id: x", [6]string{kept, kept, kept, kept, kept, offline}},
		{"data/orders-0/leader-epoch-checkpoint", "1\n0\n", [6]string{kept, served, kept, kept, offline, offline}},
		{"data/orders-0/log-start-offset-checkpoint", "1\n5\n", all(offline)},
		{of(".snapshot", 0), "\x00\x09", all(others)},
		{of(".snapshot", 1), "\x00\x09", [6]string{kept, kept, kept, kept, kept, offline}},
		{of(".index", 0), "", all(others)},
		{of(".timeindex", 0), "", all(others)},
		{of(".log", 0), "", all(others)},
		{of(".log", 1), "", all(others)},
	}
}

// spoilt is a stopped machine with a partition of two segments, a trimmed start and its records, and another of one record.
func spoilt(t *testing.T) (m *nodetest.Machine, want map[position]string) {
	m = machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, map[string]string{"segment.bytes": "1048576", "index.interval.bytes": "0"}, "orders")
	createTopic(t, c, 1, nil, "good")
	produce(t, c, "good", 0, "record")
	want = map[position]string{}
	random := rand.NewChaCha8([32]byte{1})
	for i := range int64(24) {
		noise := make([]byte, 60_000)
		_, _ = random.Read(noise)
		at := produce(t, c, "orders", 0, string(noise))
		require.Equal(t, position{"orders", 0, i}, at)
		if i >= 5 {
			want[at] = string(noise)
		}
	}
	require.NoError(t, deleteBelow(t, c, "orders", 5))
	m.Stop()
	require.Len(t, under(tree(t, m.FS, "data/orders-0"), ".log"), 2)
	return m, want
}

// inQuarantine reports whether a file with these bytes was kept aside.
func inQuarantine(t *testing.T, disk vfs.FS, data []byte) bool {
	for _, name := range under(tree(t, disk, "data"), "quarantine") {
		if kept, err := vfs.ReadFile(disk, name); err == nil && bytes.Equal(kept, data) {
			return true
		}
	}
	return false
}

func TestU24_ADamagedFileOfAnyKindKeepsNobodyElseFromBeingServed(t *testing.T) {
	first, want := spoilt(t)
	for _, file := range spoilables(t, first.FS) {
		for i, how := range spoils {
			for _, clean := range []bool{true, false} {
				if file.newer == "" && how.name == "newer" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/clean=%v", path.Base(file.name), how.name, clean), func(t *testing.T) {
					tryDamage(t, first, want, file.name, how, file.newer, file.want[i], clean)
				})
			}
		}
	}
}

func tryDamage(t *testing.T, first *nodetest.Machine, want map[position]string, name string, how spoil, newer, outcome string,
	clean bool) {
	m := machine(t)
	m.Meta, m.FS = first.Meta, first.FS.Crash(memfs.CrashOptions{KeepUnsynced: 1})
	var log said
	m.Config.Log = slog.New(slog.NewTextHandler(&log, nil))
	if !clean {
		require.NoError(t, m.FS.Remove("data/.kafka_cleanshutdown"))
		if strings.HasSuffix(name, "cleanshutdown") {
			return
		}
		if strings.HasSuffix(name, ".snapshot") {
			outcome = others // it may not be looked at
		}
	}
	data, err := vfs.ReadFile(m.FS, name)
	require.NoError(t, err)
	if how.change == nil {
		var moved atomic.Bool
		m.Wrap = func(base vfs.FS) vfs.FS {
			return faultfs.New(base, faultfs.When(func(op faultfs.Op) bool {
				if op.Kind == faultfs.OpRename && op.Name == name {
					moved.Store(true)
				}
				return op.Name == name && !moved.Load() && (op.Kind == faultfs.OpOpen || op.Kind == faultfs.OpCreate)
			}, faultfs.Always(faultfs.Fault{Err: fs.ErrPermission})))
		}
	} else {
		data = how.change(data, newer)
		require.NoError(t, vfs.WriteFileAtomic(m.FS, name, data))
	}

	_, err = m.TryStart(t.Context())
	if outcome == refused {
		require.ErrorContains(t, err, path.Base(name))
		require.ErrorContains(t, err, "version")
		still, err := vfs.ReadFile(m.FS, name)
		require.NoError(t, err)
		require.Equal(t, string(data), string(still))
		return
	}
	require.NoError(t, err)
	require.Len(t, consume(t, m, "good"), 1)
	c := client(t, m)
	produce(t, c, "good", 0, "goes on")
	_, ready := get(t, m.HTTPAddr(), "/readyz")
	switch outcome {
	case served, kept:
		require.Equal(t, want, consume(t, m, "orders"))
		require.Equal(t, position{"orders", 0, 24}, produce(t, c, "orders", 0, "next"))
		require.NotContains(t, ready, "failed")
	case offline:
		requireOffline(t, m, c, how.change != nil, log.String())
	}
	require.Equal(t, outcome == kept, strings.Contains(ready, "kept in the quarantine"), ready)
	require.Equal(t, outcome == kept, strings.Contains(log.String(), "a damaged file was kept aside"))
	if outcome == kept {
		told := metric(t, m, "tidemark_node_files_set_aside_total") + metric(t, m, "tidemark_kafkalog_files_set_aside_total")
		require.Contains(t, told, "_total 1\n")
		require.True(t, inQuarantine(t, m.FS, data))
	}
	if outcome == offline {
		still, err := vfs.ReadFile(m.FS, name)
		require.NoError(t, err)
		require.Equal(t, string(data), string(still), "nothing is done to it")
	}
	m.Stop()
	if how.change != nil {
		requireRepairable(t, m, outcome)
	}
}

// requireOffline asks for the partition as a client does. Of damage it is told what to do.
func requireOffline(t *testing.T, m *nodetest.Machine, c *kgo.Client, damaged bool, log string) {
	t.Helper()
	ends, err := kadm.NewClient(c).ListEndOffsets(within(t), "orders")
	require.NoError(t, err)
	end, _ := ends.Lookup("orders", 0)
	require.ErrorContains(t, end.Err, "KAFKA_STORAGE_ERROR")
	require.Contains(t, log, `msg="a partition is not served" topic=orders partition=0`)
	_, ready := get(t, m.HTTPAddr(), "/readyz")
	require.Contains(t, ready, `"failed":["orders-0"]`)
	require.Equal(t, damaged, strings.Contains(ready, "run 'tidemark log repair'"), ready)

	produce := kmsg.NewPtrProduceRequest()
	produce.Acks, produce.TimeoutMillis = -1, 1000
	to := kmsg.NewProduceRequestTopic()
	to.Topic = "orders"
	to.Partitions = append(to.Partitions, kmsg.NewProduceRequestTopicPartition())
	to.Partitions[0].Records = batch.RetainEmpty(batch.Header{MaxTimestamp: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
	produce.Topics = append(produce.Topics, to)
	produce.SetVersion(12) // the last with names
	answer, err := c.Broker(1).RetriableRequest(within(t), pinned{produce})
	require.NoError(t, err)
	refusal := answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.Equal(t, int16(56), refusal.ErrorCode)
	require.NotNil(t, refusal.ErrorMessage)
	require.NotContains(t, *refusal.ErrorMessage, "data/", "no path of the server")
	want := "the server's storage failed; its log says how"
	if damaged {
		want = "partition 0 of topic orders is offline because its files are damaged: stop the server and run 'tidemark log repair'"
	}
	require.Equal(t, want, *refusal.ErrorMessage)
}

// pinned is a request that is sent in no newer version than this test speaks.
type pinned struct{ *kmsg.ProduceRequest }

// MaxVersion is the last version with topics' names.
func (pinned) MaxVersion() int16 { return 12 }

// requireRepairable repairs the stopped machine's partition and starts it again.
func requireRepairable(t *testing.T, m *nodetest.Machine, outcome string) {
	orders := logdir.Partition{Topic: "orders"}
	said, err := logdir.ReadCheckpoints(m.FS, "data")
	require.NoError(t, err)
	plan, err := kafkalog.PlanRepair(m.FS, "data/orders-0", kafkalog.RepairOptions{
		Flushed: said.RecoveryPoints[orders], Visible: said.HighWatermarks[orders], LogStart: said.LogStarts[orders],
	})
	require.NoError(t, err)
	_, err = plan.Apply()
	require.NoError(t, err)
	m.Start()
	_, ready := get(t, m.HTTPAddr(), "/readyz")
	require.NotContains(t, ready, "failed", outcome)
	require.NotContains(t, ready, "warnings", outcome)
	m.Stop()
}

func TestU24_ADamagedJournalIsKeptAndTheServerStarts(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	createTopic(t, c, 20, nil, "orders")
	want := spread(t, c, "orders", 20, "first")
	for at, value := range spread(t, c, "orders", 20, "in the journal alone") {
		want[at] = value
	}
	journal, err := vfs.ReadFile(m.FS, journalFile)
	require.NoError(t, err)
	m.CutPower(nodetest.Cut{Keep: 1})
	journal[512+30] ^= 1
	require.NoError(t, vfs.WriteFileAtomic(m.FS, journalFile, journal))
	var log said
	m.Config.Log = slog.New(slog.NewTextHandler(&log, nil))
	m.Start()
	require.Equal(t, want, consume(t, m, "orders"), "the files had them")
	if strings.Contains(log.String(), "the journal is damaged") { // else the damage was in what was not used any more
		_, ready := get(t, m.HTTPAddr(), "/readyz")
		require.Contains(t, ready, "tidemark.journal")
		left, err := vfs.ReadFile(m.FS, journalFile+".left-1")
		require.NoError(t, err)
		require.Equal(t, journal, left)
	}
}
