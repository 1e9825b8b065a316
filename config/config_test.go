package config_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/config"
)

// write makes a configuration file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemark.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func load(t *testing.T, s config.Sources) *config.Loaded {
	t.Helper()
	l, err := config.Load(s)
	require.NoError(t, err)
	return l
}

// problems returns what is wrong with a configuration, one message a line.
func problems(t *testing.T, s config.Sources) []string {
	t.Helper()
	l, err := config.Load(s)
	require.Error(t, err)
	require.Nil(t, l)
	return strings.Split(err.Error(), "\n")
}

// value returns one line of what Print shows.
func value(t *testing.T, l *config.Loaded, key string) config.Value {
	t.Helper()
	for _, v := range l.Values {
		if v.Key == key {
			return v
		}
	}
	require.Fail(t, "no such key", key)
	return config.Value{}
}

// defaults are written out so that a change of one is seen.
func defaults() config.Server {
	return config.Server{
		DataDir: "tidemark-data", KafkaListen: []string{"127.0.0.1:9092"}, FlightListen: "127.0.0.1:9123", HTTPListen: "127.0.0.1:9180",
		TopicDefaults: map[string]string{}, LogLevel: "info", LogFormat: "text",
		NodeID: 1, GroupMetrics: "group", TraceRatio: 0.01, MaxPartitions: 10_000, DiskReserve: -1,
		NumRecoveryThreads: 2, AutoCreateTopics: true, DeleteTopic: true, NumPartitions: 1, DefaultReplication: 1,
		MessageMaxBytes: 1048588, FetchMaxBytes: 57671680, MaxFetchSessions: 1000,
		SocketRequestMaxBytes: 104857600, ConnectionsMaxIdle: 10 * time.Minute, MaxConnections: 2147483647,
		MaxConnectionsPerIP: 2147483647, QueuedMaxRequestBytes: -1,
		RetentionCheckInterval: 5 * time.Minute, InitialTaskDelay: 30 * time.Second,
		RecoveryPointCheckpointInterval: time.Minute, LogStartCheckpointInterval: time.Minute,
		HighWatermarkCheckpointInterval: 5 * time.Second, ProducerIDExpiration: 24 * time.Hour,
		ProducerIDExpirationCheck: 10 * time.Minute,
		OffsetsPartitions:         50, OffsetsRetentionMinutes: 10080, OffsetsRetentionCheck: 10 * time.Minute, OffsetMetadataMax: 4096,
		GroupInitialDelay: 3 * time.Second, GroupMinSession: 6 * time.Second, GroupMaxSession: 30 * time.Minute,
		GroupMaxSize:  2147483647,
		WALBatchBytes: -1, WALBatchInterval: -1, WALMaxUnflushed: -1, WALInflight: 50, WALReadahead: -1,
		CacheWALSize: -1, CacheBlockSize: -1, CacheIndexSize: -1, UploadThreshold: 100 << 20, UploadInterval: time.Minute,
		CompactInterval: 20 * time.Minute, CompactMinorInterval: 10 * time.Minute, CompactMajorInterval: time.Hour,
		CompactCache: -1, CompactBandwidth: -1, NetBandwidth: 1 << 30, GCInterval: 10 * time.Second, GCGrace: 10 * time.Minute,
	}
}

func TestEveryDefaultIsLegal(t *testing.T) {
	l := load(t, config.Sources{})
	require.Equal(t, defaults(), l.Server)
	for i, d := range config.Definitions() {
		require.Equal(t, config.Value{Key: d.Key, Value: d.Default, Source: config.DefaultSource}, l.Values[i])
		if d.Default != "" { // what is shown can be given
			again := load(t, config.Sources{Flags: map[string][]string{d.Key: {d.Default}}})
			require.Equal(t, defaults(), again.Server, d.Key)
		}
	}
}

func TestEveryKeyFillsAFieldOfItsOwn(t *testing.T) {
	example := map[config.Kind]string{config.Dir: "x", config.File: "x", config.User: "me:secret", config.Address: "h:1", config.List: "h:1,i:2", config.Bool: "true", config.Number: "77",
		config.Size: "7MiB", config.Duration: "77s", config.Ratio: "0.77", config.URL: "http://h:1"}
	fields := map[string]string{}
	for _, d := range config.Definitions() {
		text := example[d.Kind]
		if d.Kind == config.Choice {
			text = d.Choices[len(d.Choices)-1]
		}
		if d.Default == text {
			text = "false"
		}
		got := reflect.ValueOf(load(t, config.Sources{Flags: map[string][]string{d.Key: {text}}}).Server)
		want := reflect.ValueOf(defaults())
		var changed []string
		for i := range got.NumField() {
			if !reflect.DeepEqual(got.Field(i).Interface(), want.Field(i).Interface()) {
				changed = append(changed, got.Type().Field(i).Name)
			}
		}
		require.Len(t, changed, 1, d.Key)
		require.Empty(t, fields[changed[0]], "%s and %s fill the same field", d.Key, fields[changed[0]])
		fields[changed[0]] = d.Key
		require.NotEmpty(t, d.Doc, d.Key)
		require.Equal(t, "TIDEMARK_"+strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(d.Key)), d.Env)
	}
	require.Len(t, fields, reflect.TypeFor[config.Server]().NumField()-2, "every field but the topic defaults and patterns has a key")
}

func TestFlagsBeatTheEnvironmentWhichBeatsTheFileWhichBeatsDefaults(t *testing.T) {
	path := write(t, "num.partitions: 2\nnode.id: 2\nlog-level: debug\n")
	l := load(t, config.Sources{
		Flags:   map[string][]string{"config": {path}, "num.partitions": {"9", "4"}},
		Environ: []string{"TIDEMARK_NUM_PARTITIONS=3", "TIDEMARK_NODE_ID=3", "TIDEMARK_DATA_DIR=", "HOME=/root"},
	})
	require.Equal(t, config.Value{Key: "num.partitions", Value: "4", Source: "flag --num.partitions"}, value(t, l, "num.partitions"))
	require.Equal(t, config.Value{Key: "node.id", Value: "3", Source: "environment TIDEMARK_NODE_ID"}, value(t, l, "node.id"))
	require.Equal(t, config.Value{Key: "log-level", Value: "debug", Source: config.Source("file " + path)}, value(t, l, "log-level"))
	require.Equal(t, config.Value{Key: "data-dir", Value: "tidemark-data", Source: "default"}, value(t, l, "data-dir"))
	want := defaults()
	want.NumPartitions, want.NodeID, want.LogLevel = 4, 3, "debug"
	require.Equal(t, want, l.Server)
}

func TestTheEnvironmentMayNameTheFile(t *testing.T) {
	path, other := write(t, "node.id: 5\n"), write(t, "node.id: 6\n")
	environ := []string{"TIDEMARK_CONFIG=" + path}
	require.Equal(t, int32(5), load(t, config.Sources{Environ: environ}).Server.NodeID)
	flags := map[string][]string{"config": {other}}
	require.Equal(t, int32(6), load(t, config.Sources{Environ: environ, Flags: flags}).Server.NodeID)
}

func TestDottedKeysAreFlatOrNestedInTheFile(t *testing.T) {
	l := load(t, config.Sources{Flags: map[string][]string{"config": {write(t, `
auto.create.topics.enable: false
log:
  initial.task.delay.ms: 3s
  retention:
    check.interval.ms: 10s
message:
  max:
    bytes: 2MiB
`)}}})
	want := defaults()
	want.AutoCreateTopics, want.InitialTaskDelay, want.RetentionCheckInterval = false, 3*time.Second, 10*time.Second
	want.MessageMaxBytes = 2 << 20
	require.Equal(t, want, l.Server)
}

func TestSeveralAddressesAreWrittenInEveryWayThatThereIs(t *testing.T) {
	want := []string{"127.0.0.1:9092", "[::]:9093", "10.0.0.1:0"}
	for name, s := range map[string]config.Sources{
		"a flag with commas": {Flags: map[string][]string{"kafka-listen": {"127.0.0.1:9092, [::]:9093,10.0.0.1:0"}}},
		"a flag repeated":    {Flags: map[string][]string{"kafka-listen": {"127.0.0.1:9092", "[::]:9093,10.0.0.1:0"}}},
		"the environment":    {Environ: []string{"TIDEMARK_KAFKA_LISTEN=127.0.0.1:9092,[::]:9093,10.0.0.1:0"}},
		"a text in the file": {Flags: map[string][]string{"config": {write(t, "kafka-listen: 127.0.0.1:9092,[::]:9093,10.0.0.1:0\n")}}},
		"a list in the file": {Flags: map[string][]string{"config": {write(t, "kafka-listen:\n- 127.0.0.1:9092\n- '[::]:9093'\n- 10.0.0.1:0\n")}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := load(t, s)
			require.Equal(t, want, l.Server.KafkaListen)
			require.Equal(t, "127.0.0.1:9092,[::]:9093,10.0.0.1:0", value(t, l, "kafka-listen").Value)
		})
	}
}

func TestAPlaceInAListOfAddressesMayBeLeftEmpty(t *testing.T) {
	for _, s := range []config.Sources{
		{Flags: map[string][]string{"kafka-advertise": {",broker:9093,off"}}},
		{Flags: map[string][]string{"kafka-advertise": {"", "broker:9093", ""}}},
		{Flags: map[string][]string{"config": {write(t, "kafka-advertise: ['', broker:9093, ~]\n")}}},
	} {
		require.Equal(t, []string{"", "broker:9093", ""}, load(t, s).Server.KafkaAdvertise)
	}
	require.Empty(t, load(t, config.Sources{Environ: []string{"TIDEMARK_KAFKA_ADVERTISE=off"}}).Server.KafkaAdvertise)
}

func TestAListOfAddressesIsCheckedItemByItem(t *testing.T) {
	for text, want := range map[string]string{
		"h:1,h":     `expected HOST:PORT, such as 127.0.0.1:9092`,
		"h:1,":      `expected HOST:PORT, such as 127.0.0.1:9092`,
		"h:1,h:1":   `h:1 is named twice`,
		"h:1,h:x":   `port "x" is not a number from 0 to 65535`,
		"h:0,h:0,,": `expected HOST:PORT, such as 127.0.0.1:9092`,
	} {
		require.Equal(t, []string{`flag --kafka-listen: kafka-listen is "` + text + `": ` + want},
			problems(t, config.Sources{Flags: map[string][]string{"kafka-listen": {text}}}))
	}
	path := write(t, "kafka-listen: [[1, 2]]\nhttp-listen: [127.0.0.1:1, 127.0.0.1:2]\n")
	require.Equal(t, []string{
		"file " + path + `: http-listen is "[127.0.0.1:1 127.0.0.1:2]": expected one value, not a list or a map`,
		"file " + path + `: kafka-listen is "[[1 2]]": expected one value, not a list or a map`,
	}, problems(t, config.Sources{Flags: map[string][]string{"config": {path}}}))
}

func TestTopicDefaultsComeFromEverywhereAndTheStrongestOfEachNameWins(t *testing.T) {
	for name, text := range map[string]string{
		"map":  "topic-default:\n  retention.ms: 1\n  segment.ms: 1\n  cleanup.policy: compact,delete\n",
		"list": "topic-default:\n  - retention.ms=1\n  - segment.ms=1\n  - cleanup.policy=compact,delete\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, text)
			l := load(t, config.Sources{
				Flags:   map[string][]string{"config": {path}, "topic-default": {"retention.ms=3", "tidemark.flush=os"}},
				Environ: []string{"TIDEMARK_TOPIC_DEFAULT=retention.ms=2; segment.ms=2"},
			})
			require.Equal(t, map[string]string{"retention.ms": "3", "segment.ms": "2", "cleanup.policy": "compact,delete",
				"tidemark.flush": "os"}, l.Server.TopicDefaults)
			require.Equal(t, []config.Value{
				{Key: "topic-default.cleanup.policy", Value: "compact,delete", Source: config.Source("file " + path)},
				{Key: "topic-default.retention.ms", Value: "3", Source: "flag --topic-default"},
				{Key: "topic-default.segment.ms", Value: "2", Source: "environment TIDEMARK_TOPIC_DEFAULT"},
				{Key: "topic-default.tidemark.flush", Value: "os", Source: "flag --topic-default"},
			}, l.Values[len(config.Definitions()):])
		})
	}
}

func TestAnUnknownKeyNamesTheNearestOneAndItsSource(t *testing.T) {
	path := write(t, "num.partitons: 2\nnode:\n  idd: 3\nsomething.else: 1\n")
	got := problems(t, config.Sources{
		Flags:   map[string][]string{"config": {path}, "kafka-lisen": {":1"}, "topic-defaults": {"a=b"}},
		Environ: []string{"TIDEMARK_DATADIR=x", "TIDEMARK_CONFIGG=y"},
	})
	require.Equal(t, []string{
		"file " + path + ": unknown key node.idd (did you mean node.id?)",
		"file " + path + ": unknown key num.partitons (did you mean num.partitions?)",
		"file " + path + ": unknown key something.else",
		"environment: unknown key TIDEMARK_CONFIGG (did you mean TIDEMARK_CONFIG?)",
		"environment: unknown key TIDEMARK_DATADIR (did you mean TIDEMARK_DATA_DIR?)",
		"flag --kafka-lisen: unknown key kafka-lisen (did you mean kafka-listen?)",
		"flag --topic-defaults: unknown key topic-defaults (did you mean topic-default?)",
	}, got)
	_, err := config.Load(config.Sources{Flags: map[string][]string{"kafka-lisen": {":1"}}})
	var unknown *config.UnknownKeyError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, &config.UnknownKeyError{Key: "kafka-lisen", Nearest: "kafka-listen", Source: "flag --kafka-lisen"}, unknown)
}

func TestAllBadValuesAreReportedTogether(t *testing.T) {
	path := write(t, "fetch.max.bytes: 10\nauto.create.topics.enable: yes\nlog.initial.task.delay.ms:\nnode.id: [1]\ntopic-default: x\n")
	got := problems(t, config.Sources{
		Flags: map[string][]string{"config": {path}, "num.partitions": {"0"}, "kafka-listen": {"9092"}, "log-level": {"loud"},
			"topic-default": {"a", "=b"}, "store": {"s3:bucket?secret_key=abc"}, "default.replication.factor": {"70000"}},
		Environ: []string{"TIDEMARK_HTTP_LISTEN=h:99999", "TIDEMARK_PRODUCER_ID_EXPIRATION_MS=soon", "TIDEMARK_MESSAGE_MAX_BYTES=3GiB"},
	})
	require.ElementsMatch(t, []string{
		`file ` + path + `: log.initial.task.delay.ms is "<nil>": expected a value`,
		`file ` + path + `: node.id is "[1]": expected one value, not a list or a map`,
		`file ` + path + `: topic-default is "x": expected a map, or a list of NAME=VALUE`,
		`flag --topic-default: topic-default is "a": expected NAME=VALUE`,
		`flag --topic-default: topic-default is "=b": expected NAME=VALUE`,
		`flag --kafka-listen: kafka-listen is "9092": expected HOST:PORT, such as 127.0.0.1:9092`,
		`environment TIDEMARK_HTTP_LISTEN: http-listen is "h:99999": port "99999" is not a number from 0 to 65535`,
		`flag --store: store is "s3:bucket?secret_key=hidden": expected a URL, such as s3://bucket or file:///path`,
		`flag --log-level: log-level is "loud": expected one of debug, info, warn, error`,
		`file ` + path + `: auto.create.topics.enable is "yes": expected true or false`,
		`flag --num.partitions: num.partitions is "0": expected at least 1`,
		`flag --default.replication.factor: default.replication.factor is "70000": expected a whole number up to 32767`,
		`environment TIDEMARK_MESSAGE_MAX_BYTES: message.max.bytes is "3GiB": expected at most 2147483647`,
		`file ` + path + `: fetch.max.bytes is "10": expected at least 1KiB`,
		`environment TIDEMARK_PRODUCER_ID_EXPIRATION_MS: producer.id.expiration.ms is "soon": expected a duration, such as 10s, 5m, 7d, or a number of milliseconds`,
	}, got)
}

func TestSettingsOfStreamsAreLeftToTheServerOrChecked(t *testing.T) {
	l := load(t, config.Sources{Flags: map[string][]string{"config": {write(t, `
store.inflight: 7
wal:
  batch_interval: 0
cache:
  wal_size: 64MiB
  block_size: -1
compact.bandwidth: 0
`)}}, Environ: []string{"TIDEMARK_GC_GRACE=1h"}})
	want := defaults()
	want.StoreInflight, want.WALBatchInterval, want.CacheWALSize, want.CompactBandwidth, want.GCGrace = 7, 0, 64<<20, 0, time.Hour
	require.Equal(t, want, l.Server)
	for flag, wrong := range map[string]string{
		"cache.wal_size=0":       "expected at least 1MiB, or -1",
		"cache.block_size=-2":    "expected at least 1MiB, or -1",
		"wal.batch_bytes=4095":   "expected at least 4KiB, or -1",
		"wal.batch_interval=-2":  "expected at least 0, or -1",
		"wal.batch_interval=no":  "expected a duration, such as 10s, 5m, 7d, or a number of milliseconds",
		"wal.inflight=0":         "expected at least 1",
		"compact.bandwidth=-2":   "expected at least 0, or -1",
		"compact.cache=1.5MB,":   "expected a size, such as 1048576, 64MiB or 1GB",
		"net.bandwidth=1":        "expected at least 1MiB",
		"gc.grace=0":             "expected at least 1s",
		"upload.interval=0":      "expected at least 1ms",
		"store.inflight=-1":      "expected at least 0",
		"upload.threshold=1024B": "expected at least 1MiB",
	} {
		key, text, _ := strings.Cut(flag, "=")
		require.Equal(t, []string{"flag --" + key + ": " + key + ` is "` + text + `": ` + wrong},
			problems(t, config.Sources{Flags: map[string][]string{key: {text}}}))
	}
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err := config.Load(config.Sources{Flags: map[string][]string{"config": {missing}}})
	require.ErrorContains(t, err, "file "+missing)
	require.True(t, errors.Is(err, os.ErrNotExist))
	broken := write(t, "a: [b\n")
	_, err = config.Load(config.Sources{Flags: map[string][]string{"config": {broken}}})
	require.ErrorContains(t, err, "file "+broken)
}

func TestSizesAndDurationsTakeUnits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1048576": 1 << 20, "64MiB": 64 << 20, "64 MiB": 64 << 20, "1GB": 1e9,
		"1.5KiB": 1536, "2TiB": 2 << 40, "5B": 5, "3kB": 3000} {
		l := load(t, config.Sources{Flags: map[string][]string{"memory-limit": {text}}})
		require.Equal(t, want, l.Server.MemoryLimit, text)
	}
	for _, text := range []string{"", "MiB", "1.3B", "64M", "-1", "1e30GiB", "NaNB", "InfKiB", "9223372036854775808"} {
		_, err := config.Load(config.Sources{Flags: map[string][]string{"memory-limit": {text}}})
		require.Error(t, err, text)
	}
	for text, want := range map[string]time.Duration{"0": 0, "1500": 1500 * time.Millisecond, "10s": 10 * time.Second,
		"7d": 7 * 24 * time.Hour, "1h30m": 90 * time.Minute, "-1": -time.Millisecond, "9223372036854775807": math.MaxInt64} {
		l := load(t, config.Sources{Flags: map[string][]string{"connections.max.idle.ms": {text}}})
		require.Equal(t, want, l.Server.ConnectionsMaxIdle, text)
	}
	for _, text := range []string{"", "d", "10", "10x", "999999999999d"} {
		_, err := config.Load(config.Sources{Flags: map[string][]string{"log.retention.check.interval.ms": {text}}})
		if text == "10" {
			require.NoError(t, err)
		} else {
			require.Error(t, err, text)
		}
	}
}

func TestAListenerCanBeTurnedOff(t *testing.T) {
	l := load(t, config.Sources{Flags: map[string][]string{"flight-listen": {"off"}, "http-listen": {""}}})
	require.Empty(t, l.Server.FlightListen)
	require.Empty(t, l.Server.HTTPListen)
	require.Equal(t, []string{`flag --kafka-listen: kafka-listen is "off": expected HOST:PORT, such as 127.0.0.1:9092`},
		problems(t, config.Sources{Flags: map[string][]string{"kafka-listen": {"off"}}}))
}

func TestPrintShowsEveryValueItsSourceAndNoSecret(t *testing.T) {
	store := "s3://me:pa55@bucket/path?region=eu&access_key=AKIA123&token=t0k"
	l := load(t, config.Sources{
		Flags:   map[string][]string{"store": {store}, "topic-default": {"retention.ms=1000"}},
		Environ: []string{"TIDEMARK_SOCKET_REQUEST_MAX_BYTES=1GiB"},
	})
	require.Equal(t, store, l.Server.Store)

	var text strings.Builder
	require.NoError(t, l.Print(&text, config.TextFormat))
	golden(t, "print.txt", text.String())

	var out strings.Builder
	require.NoError(t, l.Print(&out, config.JSONFormat))
	var values []config.Value
	require.NoError(t, json.Unmarshal([]byte(out.String()), &values))
	require.Equal(t, l.Values, values)

	for _, secret := range []string{"pa55", "AKIA123", "t0k"} {
		require.NotContains(t, text.String()+out.String(), secret)
	}
	require.ErrorContains(t, l.Print(&out, "xml"), "expected text or json")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestTopicPatternsKeepTheOrderOfTheFile(t *testing.T) {
	path := write(t, `
topic-patterns:
  - pattern: "audit-*"
    retention.ms: -1
  - pattern: "*-debug"
    retention:
      ms: 3600000
    tidemark.flush: os
`)
	l := load(t, config.Sources{Flags: map[string][]string{"config": {path}}})
	require.Equal(t, []config.TopicPattern{
		{Pattern: "audit-*", Settings: map[string]string{"retention.ms": "-1"}},
		{Pattern: "*-debug", Settings: map[string]string{"retention.ms": "3600000", "tidemark.flush": "os"}},
	}, l.Server.TopicPatterns)
	source := config.Source("file " + path)
	require.Equal(t, []config.Value{
		{Key: "topic-patterns.audit-*.retention.ms", Value: "-1", Source: source},
		{Key: "topic-patterns.*-debug.retention.ms", Value: "3600000", Source: source},
		{Key: "topic-patterns.*-debug.tidemark.flush", Value: "os", Source: source},
	}, l.Values[len(config.Definitions()):])
}

func TestWrongTopicPatternsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"topic-patterns: x\n":                                    `topic-patterns is "x": expected a list of maps with pattern and settings`,
		"topic-patterns:\n  - a\n":                               `topic-patterns[0] is "a": expected a map with pattern and settings`,
		"topic-patterns:\n  - retention.ms: 1\n":                 `topic-patterns[0] is "map[retention.ms:1]": expected a pattern, such as audit-*`,
		"topic-patterns:\n  - pattern: a\n":                      `topic-patterns[0] is "map[pattern:a]": expected at least one setting beside the pattern`,
		"topic-patterns:\n  - {pattern: a, retention.ms: [1]}\n": `topic-patterns[0] is "map[pattern:a retention.ms:[1]]": retention.ms: expected one value, not a list or a map`,
		"topic-pattern:\n  - {pattern: a, retention.ms: 1}\n":    `unknown key topic-pattern (did you mean topic-patterns?)`,
	} {
		path := write(t, text)
		require.Equal(t, []string{"file " + path + ": " + want}, problems(t, config.Sources{Flags: map[string][]string{"config": {path}}}))
	}
}
