package importer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a log directory that Apache Kafka 4.4.0 wrote; its README says how.
const fixture = "testdata/apache-kafka-4.4.0"

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the test waited too long"))
	t.Cleanup(cancel)
	return ctx
}

// state is what a server serves, as in state.json.
type state struct {
	Topics map[string]*stateTopic   `json:"topics"`
	Groups map[string][]stateCommit `json:"groups"`
}

type stateTopic struct {
	ID         string            `json:"id"`
	Configs    map[string]string `json:"configs"`
	Partitions []statePartition  `json:"partitions"`
}

type statePartition struct {
	Start   int64         `json:"start"`
	End     int64         `json:"end"`
	Stable  int64         `json:"last_stable"`
	Records []stateRecord `json:"records"`
}

type stateRecord struct {
	Offset      int64         `json:"offset"`
	Timestamp   int64         `json:"timestamp"`
	Key         []byte        `json:"key"`
	Value       []byte        `json:"value"`
	Headers     []stateHeader `json:"headers"`
	LeaderEpoch int32         `json:"leader_epoch"`
	Codec       uint8         `json:"codec"`
	Control     bool          `json:"control"`
	ProducerID  int64         `json:"producer_id"`
}

type stateHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type stateCommit struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
	Metadata    string `json:"metadata"`
}

// kafkaServed is what Kafka served of the fixture.
func kafkaServed(t *testing.T) *state {
	t.Helper()
	text, err := os.ReadFile(path.Join(fixture, "state.json"))
	require.NoError(t, err)
	s := &state{}
	require.NoError(t, json.Unmarshal(text, s))
	return s
}

// machine is a disk in memory with the fixture in kafka, and a metadata log for the target in data.
type machine struct {
	t    *testing.T
	fs   *memfs.FS
	meta *metatest.Memory
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, fs: memfs.New(), meta: metatest.NewMemory("dGlkZW1hcmstaW50ZXJvcA")}
	root := path.Join(fixture, "kafka")
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return m.fs.MkdirAll(path.Join("kafka", name))
		}
		data, err := os.ReadFile(path.Join(root, name))
		if err != nil {
			return err
		}
		return vfs.WriteFileAtomic(m.fs, path.Join("kafka", name), data)
	}))
	require.NoError(t, vfs.EnsureDir(m.fs, "kafka"))
	syncTree(t, m.fs, ".")
	return m
}

func syncTree(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	list, err := fsys.List(dir)
	require.NoError(t, err)
	for _, e := range list {
		if e.IsDir() {
			syncTree(t, fsys, path.Join(dir, e.Name()))
		}
	}
	require.NoError(t, fsys.SyncDir(dir))
}

func (m *machine) options(fsys vfs.FS, backend meta.Backend) Options {
	return Options{Sources: []string{"kafka"}, Target: "data", NodeID: 1, FS: fsys, Meta: backend}
}

// open plans an import. change may be nil.
func (m *machine) open(change func(*Options)) (*Import, func() error, error) {
	backend, err := m.meta.Open()
	require.NoError(m.t, err)
	o := m.options(m.fs, backend)
	if change != nil {
		change(&o)
	}
	im, err := Open(within(m.t), o)
	if err != nil {
		return nil, nil, errors.Join(err, backend.Close())
	}
	return im, func() error { return errors.Join(im.Close(), backend.Close()) }, nil
}

// mustPlan returns the plan of an import that is not executed.
func (m *machine) mustPlan(change func(*Options)) *Plan {
	m.t.Helper()
	im, closeAll, err := m.open(change)
	require.NoError(m.t, err)
	require.NoError(m.t, closeAll())
	return im.Plan()
}

// run plans and executes.
func (m *machine) run(change func(*Options)) error {
	im, closeAll, err := m.open(change)
	if err != nil {
		return err
	}
	return errors.Join(im.Execute(within(m.t)), closeAll())
}

// start runs the node of the target until the test ends.
func (m *machine) start() (*node.Node, func(), error) {
	backend, err := m.meta.Open()
	require.NoError(m.t, err)
	n, err := node.Open(within(m.t), node.Config{
		DataDir: "data", NodeID: 1, FS: m.fs, Meta: backend, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}},
		ProducerExpiry: 100 * 365 * 24 * time.Hour, // the fixture grows old
	})
	if err != nil {
		return nil, nil, errors.Join(err, backend.Close())
	}
	return n, func() {
		require.NoError(m.t, n.Close(context.Background()))
		require.NoError(m.t, backend.Close())
	}, nil
}

// served asks the node of the target for everything.
func (m *machine) served() *state {
	m.t.Helper()
	n, stop, err := m.start()
	require.NoError(m.t, err)
	defer stop()
	return ask(m.t, n.Addrs().Kafka.String())
}

func ask(t *testing.T, addr string) *state {
	t.Helper()
	ctx := within(t)
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer c.Close()
	admin := kadm.NewClient(c)
	s := &state{Topics: map[string]*stateTopic{}, Groups: map[string][]stateCommit{}}
	topics, err := admin.ListTopics(ctx)
	require.NoError(t, err)
	require.NoError(t, topics.Error())
	for name, topic := range topics {
		s.Topics[name] = &stateTopic{ID: topic.ID.String(), Configs: map[string]string{},
			Partitions: make([]statePartition, len(topic.Partitions))}
	}
	if len(topics) > 0 {
		askConfigs(t, admin, s)
		askBounds(t, admin, s)
		askRecords(t, addr, s)
	}
	askGroups(t, admin, s)
	return s
}

func askConfigs(t *testing.T, admin *kadm.Client, s *state) {
	t.Helper()
	var names []string
	for name := range s.Topics {
		names = append(names, name)
	}
	all, err := admin.DescribeTopicConfigs(within(t), names...)
	require.NoError(t, err)
	for _, r := range all {
		require.NoError(t, r.Err)
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				s.Topics[r.Name].Configs[c.Key] = c.MaybeValue()
			}
		}
	}
}

func askBounds(t *testing.T, admin *kadm.Client, s *state) {
	t.Helper()
	for _, bound := range []struct {
		list func(context.Context, ...string) (kadm.ListedOffsets, error)
		set  func(*statePartition, int64)
	}{
		{admin.ListStartOffsets, func(p *statePartition, o int64) { p.Start = o }},
		{admin.ListEndOffsets, func(p *statePartition, o int64) { p.End = o }},
		{admin.ListCommittedOffsets, func(p *statePartition, o int64) { p.Stable = o }},
	} {
		listed, err := bound.list(within(t))
		require.NoError(t, err)
		require.NoError(t, listed.Error())
		listed.Each(func(o kadm.ListedOffset) {
			if topic := s.Topics[o.Topic]; topic != nil {
				bound.set(&topic.Partitions[o.Partition], o.Offset)
			}
		})
	}
}

func askGroups(t *testing.T, admin *kadm.Client, s *state) {
	t.Helper()
	groups, err := admin.ListGroups(within(t))
	require.NoError(t, err)
	for _, group := range groups.Groups() {
		offsets, err := admin.FetchOffsets(within(t), group)
		require.NoError(t, err)
		require.NoError(t, offsets.Error())
		for _, o := range offsets.Sorted() {
			s.Groups[group] = append(s.Groups[group], stateCommit{o.Topic, o.Partition, o.At, o.LeaderEpoch, o.Metadata})
		}
	}
}

func askRecords(t *testing.T, addr string, s *state) {
	t.Helper()
	ctx := within(t)
	from, left := map[string]map[int32]kgo.Offset{}, 0
	for name, topic := range s.Topics {
		from[name] = map[int32]kgo.Offset{}
		for i, p := range topic.Partitions {
			if p.Start < p.End {
				from[name][int32(i)] = kgo.NewOffset().At(p.Start)
				left++
			}
		}
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(from), kgo.KeepControlRecords())
	require.NoError(t, err)
	defer c.Close()
	for left > 0 {
		fetches := c.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			p := &s.Topics[r.Topic].Partitions[r.Partition]
			record := stateRecord{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value,
				LeaderEpoch: r.LeaderEpoch, Codec: r.Attrs.CompressionType(), Control: r.Attrs.IsControl(), ProducerID: r.ProducerID}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, stateHeader{h.Key, h.Value})
			}
			p.Records = append(p.Records, record)
			if r.Offset+1 == p.End {
				left--
			}
		})
	}
}

// topicID reads an id as state.json has it.
func topicID(t *testing.T, text string) logdir.UUID {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return logdir.UUID(b)
}

func createTopic(t *testing.T, addr, name string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer c.Close()
	created, err := kadm.NewClient(c).CreateTopic(within(t), 1, 1, nil, name)
	require.NoError(t, err)
	require.NoError(t, created.Err)
}

// producerID asks for a new one.
func producerID(t *testing.T, n *node.Node) int64 {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs().Kafka.String()))
	require.NoError(t, err)
	defer c.Close()
	id, _, err := c.ProducerID(within(t))
	require.NoError(t, err)
	return id
}
