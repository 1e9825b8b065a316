package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/observe"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs"
)

// Config configures a node. Only DataDir must be set; a zero value elsewhere takes the default that its comment names, which
// works on a laptop.
type Config struct {
	// DataDir holds the partitions and the metadata log, in Kafka's layout of a log.dir. It is created if it does not exist.
	DataDir string

	// NodeID is this node's id, at least 0. It is written into a new data directory and must not change after.
	NodeID int32

	// ClusterID is the cluster's id in a new data directory; empty generates one. In an existing directory it must be
	// empty or the directory's own.
	ClusterID string

	// Rack is where the node stands; clients can ask for it. Empty means none.
	Rack string

	// Kafka is where Kafka clients connect. The default is 127.0.0.1:9092. Port 0 picks a free one. A client is given the
	// address of the listener that it connected to, so internal and external clients can each have one that they can
	// reach.
	Kafka []Listener

	// HTTP is the HOST:PORT of health, readiness, metrics and profiles; empty means no listener. Port 0 picks a free one.
	HTTP string

	// InsecureListen allows listeners that other machines can reach although clients are not authenticated.
	InsecureListen bool

	// TopicDefaults are settings that every topic has unless it sets them itself, by Kafka's names. TopicPatterns are the
	// same for topics whose names match; a later one wins over an earlier one.
	TopicDefaults map[string]string
	TopicPatterns []TopicPattern

	// NumPartitions [num.partitions, 1] and DefaultReplicationFactor [default.replication.factor, 1] apply to topics that are
	// created without them.
	NumPartitions            int32
	DefaultReplicationFactor int16

	// DisableAutoCreateTopics is the opposite of [auto.create.topics.enable, true], DisableDeleteTopics that of
	// [delete.topic.enable, true].
	DisableAutoCreateTopics bool
	DisableDeleteTopics     bool

	// Limits of the Kafka listeners together; 0 is Kafka's default.
	MaxConnections        int           // [max.connections, no limit]
	MaxConnectionsPerIP   int           // [max.connections.per.ip, no limit]
	ConnectionsMaxIdle    time.Duration // [connections.max.idle.ms, 10 min]
	SocketRequestMaxBytes int32         // [socket.request.max.bytes, 100 MiB]
	QueuedMaxRequestBytes int64         // [queued.max.request.bytes, 256 MiB here]
	FetchMaxBytes         int32         // [fetch.max.bytes, 55 MiB]
	FetchSessions         int           // [max.incremental.fetch.session.cache.slots, 1000]

	// MaxPartitions is how many partitions the node holds at most; 0 is [DefaultMaxPartitions], negative is no limit. Existing
	// ones are always opened.
	MaxPartitions int

	// DiskReserve is how many bytes of the disk are kept free of records: with less, producers are refused, so that
	// metadata, committed offsets and deletions have room. 0 is 256 MiB, or a twentieth of a small disk; negative is none.
	DiskReserve int64

	// How the log engine works; 0 is the default.
	RecoveryThreads  int           // [num.recovery.threads.per.data.dir] logs opened at the same time; 8
	SyncWorkers      int           // logs synced at the same time; 16
	MaxUnsyncedBytes int64         // of all logs; 256 MiB, at most an eighth of MemoryLimit
	MaxOpenFiles     int           // descriptors kept for files that are not being written; 1024
	InitialTaskDelay time.Duration // [log.initial.task.delay.ms] at the next multiple of the two intervals that follow
	RetentionCheck   time.Duration // [log.retention.check.interval.ms] 5 min
	ProducerCheck    time.Duration // [producer.id.expiration.check.interval.ms] 10 min
	ProducerExpiry   time.Duration // [producer.id.expiration.ms] 24 h

	// How often the checkpoint files are written when something has moved; 0 is Kafka's default.
	RecoveryPointCheckpoint time.Duration // [log.flush.offset.checkpoint.interval.ms] 1 min
	LogStartCheckpoint      time.Duration // [log.flush.start.offset.checkpoint.interval.ms] 1 min
	HighWatermarkCheckpoint time.Duration // [replica.high.watermark.checkpoint.interval.ms] 5 s

	// Groups is how groups are coordinated.
	Groups GroupConfig

	// GroupMetrics is how detailed /metrics is about consumer groups: "off", "group" (a few series a group, the default) or
	// "partition" (one more for each partition that a group has an offset for).
	GroupMetrics string

	// TraceEndpoint is the URL of an OpenTelemetry receiver (OTLP over HTTP), such as http://127.0.0.1:4318; empty: there are
	// no traces, and they cost nothing.
	TraceEndpoint string

	// TraceSampleRatio is the share of requests and syncs that is traced, up to 1 for all; 0 is [DefaultTraceSampleRatio],
	// negative is none. Starts and new topics are always traced.
	TraceSampleRatio float64

	// FS is the file system that DataDir is on; nil is the real one.
	FS vfs.FS

	// Now is the clock; nil is time.Now.
	Now func() time.Time

	// Meta is the store of the metadata log; the node does not close it. Nil is what MetaStore names.
	Meta meta.Backend

	// MetaStore is where the metadata log is when Meta is nil. Its zero value is a file in DataDir.
	MetaStore MetaStore

	// Store is the object store of streams: a bucket, as in package objstore/cloud, or a directory, as a path or file:// URL.
	// It is opened and probed when the node starts, which fails if the store lacks something. Empty is a directory in DataDir,
	// which is created with the first stream.
	Store string

	// Streams are the settings of streams.
	Streams StreamConfig

	// MemoryLimit is how many bytes of memory the process should stay within; unsynced records and the caches of streams are
	// sized by it. 0 is no limit. The node does not set the Go runtime's limit.
	MemoryLimit int64

	// Log receives messages for people; nil discards them.
	Log *slog.Logger

	// LogLevel is the level of Log, so that it can be changed over HTTP; nil: it cannot be.
	LogLevel *slog.LevelVar

	// Progress is called as start-up and closing advance, with the phase, how many of its steps are done, and how many there
	// are, 0 for a phase without steps. It may be called by several goroutines at once, must be quick and must not call the
	// node. Nil is not called.
	Progress func(phase string, done, total int)

	// Version says what is running, for metrics and the log.
	Version string
}

// Listener is an address to listen on, and the address that it advertises.
type Listener struct {
	Listen    string // HOST:PORT; without a host or with 0.0.0.0 or [::] it is every address of the machine
	Advertise string // HOST:PORT; empty: the address that the client has connected to. Port 0: the bound one
}

// TopicPattern is settings for the topics whose names match a pattern.
type TopicPattern struct {
	Pattern  string // as for path.Match: * any text, ? one character, [abc] one of these
	Settings map[string]string
}

// Defaults of [Config].
const (
	DefaultKafkaListen     = "127.0.0.1:9092"
	DefaultRecoveryThreads = 8

	DefaultTraceSampleRatio = 0.01
)

func (c Config) withDefaults() Config {
	if len(c.Kafka) == 0 {
		c.Kafka = []Listener{{}}
	}
	c.Kafka = slices.Clone(c.Kafka)
	for i := range c.Kafka {
		c.Kafka[i].Listen = cmp.Or(c.Kafka[i].Listen, DefaultKafkaListen)
	}
	if c.MaxPartitions == 0 {
		c.MaxPartitions = DefaultMaxPartitions
	}
	if c.RecoveryThreads <= 0 {
		c.RecoveryThreads = DefaultRecoveryThreads
	}
	if c.TraceSampleRatio == 0 {
		c.TraceSampleRatio = DefaultTraceSampleRatio
	}
	c.MaxUnsyncedBytes = c.memoryBudgets().unsynced
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.GroupMetrics == "" {
		c.GroupMetrics = string(observe.GroupsByGroup)
	}
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return c
}

// validate reports everything that is wrong with a configuration whose defaults are set.
func (c Config) validate() error {
	var wrong []error
	if c.DataDir == "" {
		wrong = append(wrong, errors.New("DataDir is not set"))
	}
	if c.NodeID < 0 {
		wrong = append(wrong, fmt.Errorf("NodeID %d is negative", c.NodeID))
	}
	for _, l := range c.Kafka {
		if err := checkListener("Kafka.Listen", l.Listen, c.InsecureListen); err != nil {
			wrong = append(wrong, err)
		}
		if err := checkAdvertise(l); err != nil {
			wrong = append(wrong, err)
		}
	}
	if c.HTTP != "" {
		if err := checkListener("HTTP", c.HTTP, c.InsecureListen); err != nil {
			wrong = append(wrong, err)
		}
	}
	if !slices.Contains(observe.GroupDetails(), observe.GroupDetail(c.GroupMetrics)) {
		wrong = append(wrong, fmt.Errorf("GroupMetrics: %q is not off, group or partition", c.GroupMetrics))
	}
	if err := c.MetaStore.check(); err != nil {
		wrong = append(wrong, err)
	}
	if err := c.CheckStreams(); err != nil {
		wrong = append(wrong, err)
	}
	if _, err := topicconfig.Parse(c.TopicDefaults); err != nil {
		wrong = append(wrong, fmt.Errorf("TopicDefaults: %w", err))
	}
	for _, p := range c.TopicPatterns {
		if _, err := path.Match(p.Pattern, ""); err != nil {
			wrong = append(wrong, fmt.Errorf("TopicPatterns: pattern %q: %w", p.Pattern, err))
		}
		if _, err := topicconfig.Parse(p.Settings); err != nil {
			wrong = append(wrong, fmt.Errorf("TopicPatterns: pattern %q: %w", p.Pattern, err))
		}
	}
	return errors.Join(wrong...)
}

// checkAdvertise refuses an address that clients could not connect to.
func checkAdvertise(l Listener) error {
	if l.Advertise == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(l.Advertise)
	if err == nil && isUnspecified(host) {
		err = fmt.Errorf("%s is not an address that a client can connect to", l.Advertise)
	}
	if err != nil {
		return fmt.Errorf("Kafka.Advertise: %w", err)
	}
	return nil
}

// isUnspecified reports whether a host stands for all addresses of the machine.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// ExposedError says that a listener could be reached from other machines, and that clients are not authenticated.
type ExposedError struct {
	Setting string // of [Config]
	Address string
}

func (e *ExposedError) Error() string {
	return fmt.Sprintf("%s %s can be reached from other machines and does not authenticate: "+
		"listen on a loopback address, or allow it with InsecureListen", e.Setting, e.Address)
}

// checkListener refuses an address that does not parse, or that is not loopback unless that is allowed.
func checkListener(setting, address string, insecure bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	if insecure || isLoopback(host) {
		return nil
	}
	return &ExposedError{Setting: setting, Address: address}
}
