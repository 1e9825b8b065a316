package config

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a key's value.
type Kind string

// The kinds of values.
const (
	Dir      Kind = "DIR"
	File     Kind = "FILE"
	User     Kind = "NAME:PASSWORD"
	Address  Kind = "HOST:PORT"
	List     Kind = "HOST:PORT,..." // addresses; see [Definition.Kind]
	Choice   Kind = "choice"
	Bool     Kind = "bool"
	Number   Kind = "number"
	Size     Kind = "size"
	Duration Kind = "duration"
	Ratio    Kind = "ratio"
	URL      Kind = "URL"
)

// Definition describes one key. It is a value.
type Definition struct {
	// Key is the name in the file and of the flag.
	Key string
	// Env is the name of the environment variable.
	Env string
	// Kind is what the value is. A List is addresses separated by commas; as a flag it may be repeated, and in the file it may
	// be a YAML list.
	Kind Kind
	// Default is the default as [Loaded.Print] shows it.
	Default string
	// Choices are the words that a Choice may be.
	Choices []string
	// Doc says what the key does.
	Doc string
}

// TopicDefault is the key of the settings of topics that do not set them themselves: NAME=VALUE in a flag, which may be
// repeated; a list of NAME=VALUE separated by newlines or semicolons in the environment; a map or a list in the file.
const TopicDefault = "topic-default"

// Definitions returns every key but [TopicDefault], in the order in which they are printed. The caller owns the slice.
func Definitions() []Definition {
	out := make([]Definition, len(table))
	for i := range table {
		out[i] = table[i].Definition
		out[i].Choices = slices.Clone(out[i].Choices)
	}
	return out
}

// key is a row of the table: a definition and how its value gets into a Server and is shown.
type key struct {
	Definition
	set         func(s *Server, text string) error
	show        func(s *Server) string // with secrets hidden
	defaultText string                 // what set takes for the default
	secret      bool                   // the text may hold secrets
}

// table is every key. It is never changed.
var table = slices.Concat(serverKeys(), metaKeys(), brokerKeys(), networkKeys(), groupKeys(), logKeys(), streamKeys())

func serverKeys() []key {
	return []key{
		textKey("data-dir", Dir, func(s *Server) *string { return &s.DataDir }, "tidemark-data",
			"The directory for logs and metadata."),
		addressesKey("kafka-listen", func(s *Server) *[]string { return &s.KafkaListen }, "127.0.0.1:9092", false,
			"Where Kafka clients connect; port 0 picks a free one and prints it."),
		addressesKey("kafka-advertise", func(s *Server) *[]string { return &s.KafkaAdvertise }, "", true,
			"The addresses to advertise to Kafka clients, one for each of kafka-listen, in the same order; without one, a client is "+
				"given the address that it connected to."),
		addressKey("flight-listen", func(s *Server) *string { return &s.FlightListen }, "127.0.0.1:9123", true,
			"Where Arrow Flight clients connect, or off; not served by this version."),
		addressKey("flight-advertise", func(s *Server) *string { return &s.FlightAdvertise }, "", true,
			"The address to advertise to Flight clients, by default flight-listen; not served by this version."),
		addressKey("http-listen", func(s *Server) *string { return &s.HTTPListen }, "127.0.0.1:9180", true,
			"Where health, metrics and the console are served, or off."),
		storeKey(),
		boolKey("insecure-listen", func(s *Server) *bool { return &s.InsecureListen }, false,
			"Allow listeners that other machines can reach although clients are not authenticated."),
		choiceKey("log-level", func(s *Server) *string { return &s.LogLevel }, "info",
			[]string{"debug", "info", "warn", "error"}, "The lowest level of messages to log."),
		choiceKey("log-format", func(s *Server) *string { return &s.LogFormat }, "text", []string{"text", "json"},
			"The format of log messages."),
		sizeKey("memory-limit", func(s *Server) *int64 { return &s.MemoryLimit }, 0, 0, math.MaxInt64,
			"The memory to stay within, which buffers are sized by; 0 is GOMEMLIMIT, or nine tenths of the container's limit."),
		numberKey("max-open-files", func(s *Server) *int32 { return &s.MaxOpenFiles }, 0, 0,
			"How many files to keep open that are not being written; 0 is half of what the process may open."),
		choiceKey("group-metrics", func(s *Server) *string { return &s.GroupMetrics }, "group",
			[]string{"off", "group", "partition"}, "How detailed the metrics of consumer groups are."),
		traceKey(),
		ratioKey("trace-sample-ratio", func(s *Server) *float64 { return &s.TraceRatio }, 0.01,
			"The share of requests and flushes to trace, from 0 to 1; starts and new topics are always traced."),
		numberKey("max-partitions", func(s *Server) *int32 { return &s.MaxPartitions }, 10_000, 0,
			"How many partitions this server holds at most; 0 is no limit."),
		sizeKey("disk-reserve", func(s *Server) *int64 { return &s.DiskReserve }, -1, -1, math.MaxInt64,
			"Refuse producers when less of the disk than this is free; -1 is 256MiB, or a twentieth of a small disk."),
	}
}

func brokerKeys() []key {
	return []key{
		numberKey("node.id", func(s *Server) *int32 { return &s.NodeID }, 1, 0, "This server's id in its cluster."),
		boolKey("auto.create.topics.enable", func(s *Server) *bool { return &s.AutoCreateTopics }, true,
			"Whether a topic is created when a client asks for one that does not exist."),
		boolKey("delete.topic.enable", func(s *Server) *bool { return &s.DeleteTopic }, true,
			"Whether clients may delete topics."),
		numberKey("num.partitions", func(s *Server) *int32 { return &s.NumPartitions }, 1, 1,
			"How many partitions a new topic gets by default."),
		replicationKey(),
		sizeKey("message.max.bytes", func(s *Server) *int64 { return &s.MessageMaxBytes }, 1<<20+12, 0, math.MaxInt32,
			"The largest batch of a topic that does not set max.message.bytes; a topic-default of that name overrides this."),
		sizeKey("fetch.max.bytes", func(s *Server) *int64 { return &s.FetchMaxBytes }, 55<<20, 1024, math.MaxInt32,
			"The largest response to a fetch."),
		numberKey("max.incremental.fetch.session.cache.slots", func(s *Server) *int32 { return &s.MaxFetchSessions }, 1000, 0,
			"How many incremental fetch sessions to keep."),
	}
}

func networkKeys() []key {
	return []key{
		sizeKey("socket.request.max.bytes", func(s *Server) *int64 { return &s.SocketRequestMaxBytes }, 100<<20, 1,
			math.MaxInt32, "The largest request to accept."),
		durationKey("connections.max.idle.ms", func(s *Server) *time.Duration { return &s.ConnectionsMaxIdle },
			10*time.Minute, math.MinInt64, "How long an idle connection stays open; 0 or less is forever."),
		numberKey("max.connections", func(s *Server) *int32 { return &s.MaxConnections }, math.MaxInt32, 1,
			"How many connections may be open at once; the default is a quarter of the process's file descriptors."),
		numberKey("max.connections.per.ip", func(s *Server) *int32 { return &s.MaxConnectionsPerIP }, math.MaxInt32, 1,
			"How many connections one address may have open."),
		sizeKey("queued.max.request.bytes", func(s *Server) *int64 { return &s.QueuedMaxRequestBytes }, -1, -1,
			math.MaxInt64, "How much memory requests in progress may take before reading from connections pauses; at least twice "+
				"socket.request.max.bytes; -1 is a quarter of memory-limit, at most 1GiB."),
	}
}

func groupKeys() []key {
	return []key{
		numberKey("offsets.topic.num.partitions", func(s *Server) *int32 { return &s.OffsetsPartitions }, 50, 1,
			"How many partitions __consumer_offsets is created with."),
		numberKey("offsets.retention.minutes", func(s *Server) *int32 { return &s.OffsetsRetentionMinutes }, 7*24*60, 1,
			"How long the offsets of a group without members are kept."),
		durationKey("offsets.retention.check.interval.ms", func(s *Server) *time.Duration { return &s.OffsetsRetentionCheck },
			10*time.Minute, time.Millisecond, "How often to look for expired offsets."),
		numberKey("offset.metadata.max.bytes", func(s *Server) *int32 { return &s.OffsetMetadataMax }, 4096, 1,
			"The longest metadata text that a client may commit with an offset."),
		durationKey("group.initial.rebalance.delay.ms", func(s *Server) *time.Duration { return &s.GroupInitialDelay },
			3*time.Second, 0, "How long an empty group waits for more members after its first one joins."),
		durationKey("group.min.session.timeout.ms", func(s *Server) *time.Duration { return &s.GroupMinSession },
			6*time.Second, time.Millisecond, "The shortest session timeout that a member may ask for."),
		durationKey("group.max.session.timeout.ms", func(s *Server) *time.Duration { return &s.GroupMaxSession },
			30*time.Minute, time.Millisecond, "The longest session timeout that a member may ask for."),
		numberKey("group.max.size", func(s *Server) *int32 { return &s.GroupMaxSize }, math.MaxInt32, 1,
			"How many members a group may have."),
	}
}

func logKeys() []key {
	return []key{
		durationKey("log.retention.check.interval.ms", func(s *Server) *time.Duration { return &s.RetentionCheckInterval },
			5*time.Minute, time.Millisecond, "How often to look for segments to delete."),
		durationKey("log.initial.task.delay.ms", func(s *Server) *time.Duration { return &s.InitialTaskDelay },
			30*time.Second, 0, "How long after the start retention and the expiry of producers first run."),
		durationKey("log.flush.offset.checkpoint.interval.ms",
			func(s *Server) *time.Duration { return &s.RecoveryPointCheckpointInterval }, time.Minute, time.Millisecond,
			"How often to checkpoint how far each log is known to be on disk."),
		durationKey("log.flush.start.offset.checkpoint.interval.ms",
			func(s *Server) *time.Duration { return &s.LogStartCheckpointInterval }, time.Minute, time.Millisecond,
			"How often to checkpoint where each log starts."),
		durationKey("replica.high.watermark.checkpoint.interval.ms",
			func(s *Server) *time.Duration { return &s.HighWatermarkCheckpointInterval }, 5*time.Second, time.Millisecond,
			"How often to checkpoint high watermarks."),
		durationKey("producer.id.expiration.ms", func(s *Server) *time.Duration { return &s.ProducerIDExpiration },
			24*time.Hour, time.Millisecond, "How long an idempotent producer is remembered after its last batch."),
		durationKey("producer.id.expiration.check.interval.ms",
			func(s *Server) *time.Duration { return &s.ProducerIDExpirationCheck }, 10*time.Minute, time.Millisecond,
			"How often to look for expired idempotent producers."),
		numberKey("num.recovery.threads.per.data.dir", func(s *Server) *int32 { return &s.NumRecoveryThreads }, 2, 1,
			"How many logs to open at once at the start and to close at once at the stop."),
	}
}

// envName is the name of a key in the environment.
func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

const envPrefix = "TIDEMARK_"

func newKey(name string, kind Kind, doc string, set func(*Server, string) error, show func(*Server) string, def string) key {
	var s Server
	_ = set(&s, def) // a default that does not parse is a bug in the table; TestEveryDefaultIsLegal rules it out
	return key{
		Definition:  Definition{Key: name, Env: envName(name), Kind: kind, Default: show(&s), Doc: doc},
		set:         set,
		show:        show,
		defaultText: def,
	}
}

func textKey(name string, kind Kind, field func(*Server) *string, def, doc string) key {
	return newKey(name, kind, doc, func(s *Server, text string) error {
		*field(s) = text
		if text == "" {
			return errors.New("expected some text")
		}
		return nil
	}, func(s *Server) string { return *field(s) }, def)
}

// storeKey is a URL that may hold secrets.
func storeKey() key {
	k := newKey("store", URL, "The object store of streams, a bucket or a directory, as a URL; tested at the start. By default "+
		"a directory under data-dir, created with the first stream.",
		func(s *Server, text string) error {
			s.Store = text
			if text != "" && !strings.Contains(text, "://") {
				return errors.New("expected a URL, such as s3://bucket or file:///path")
			}
			return nil
		}, func(s *Server) string { return hideInURL(s.Store) }, "")
	k.secret = true
	return k
}

// traceKey is a URL that may hold secrets.
func traceKey() key {
	k := newKey("trace-endpoint", URL, "Where to send traces: an OpenTelemetry receiver (OTLP over HTTP), as a URL; by default "+
		"OTEL_EXPORTER_OTLP_ENDPOINT, if that is set.",
		func(s *Server, text string) error {
			s.TraceEndpoint = text
			u, err := url.Parse(text)
			if text != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
				return errors.New("expected a URL, such as http://127.0.0.1:4318")
			}
			return nil
		}, func(s *Server) string { return hideInURL(s.TraceEndpoint) }, "")
	k.secret = true
	return k
}

// ratioKey is a ratio from 0 to 1.
func ratioKey(name string, field func(*Server) *float64, def float64, doc string) key {
	show := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	return newKey(name, Ratio, doc, func(s *Server, text string) error {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= 1) {
			return errors.New("expected a number from 0 to 1")
		}
		*field(s) = v
		return nil
	}, func(s *Server) string { return show(*field(s)) }, show(def))
}

// addressKey is HOST:PORT or, if that is allowed, empty, which may be written as off.
func addressKey(name string, field func(*Server) *string, def string, optional bool, doc string) key {
	return newKey(name, Address, doc, func(s *Server, text string) error {
		if optional && (text == "" || text == "off") {
			*field(s) = ""
			return nil
		}
		*field(s) = text
		return checkAddress(text)
	}, func(s *Server) string { return *field(s) }, def)
}

// addressesKey is a list of addresses separated by commas. If it may be empty, so may each of them, or be off.
func addressesKey(name string, field func(*Server) *[]string, def string, optional bool, doc string) key {
	return newKey(name, List, doc, func(s *Server, text string) error {
		*field(s) = nil
		if optional && (text == "" || text == "off") {
			return nil
		}
		for item := range strings.SplitSeq(text, ",") {
			item = strings.TrimSpace(item)
			if optional && (item == "" || item == "off") {
				*field(s) = append(*field(s), "")
				continue
			}
			if err := checkAddress(item); err != nil {
				return err
			}
			*field(s) = append(*field(s), item)
		}
		return checkDifferent(*field(s))
	}, func(s *Server) string { return strings.Join(*field(s), ",") }, def)
}

// checkDifferent refuses a repeated address, unless it is empty or its port is 0.
func checkDifferent(addresses []string) error {
	for i, a := range addresses {
		if a != "" && !strings.HasSuffix(a, ":0") && slices.Contains(addresses[:i], a) {
			return fmt.Errorf("%s is named twice", a)
		}
	}
	return nil
}

func choiceKey(name string, field func(*Server) *string, def string, words []string, doc string) key {
	k := newKey(name, Choice, doc, func(s *Server, text string) error {
		*field(s) = text
		if !slices.Contains(words, text) {
			return fmt.Errorf("expected one of %s", strings.Join(words, ", "))
		}
		return nil
	}, func(s *Server) string { return *field(s) }, def)
	k.Choices = words
	return k
}

func boolKey(name string, field func(*Server) *bool, def bool, doc string) key {
	return newKey(name, Bool, doc, func(s *Server, text string) error {
		switch strings.ToLower(text) {
		case "true":
			*field(s) = true
		case "false":
			*field(s) = false
		default:
			return errors.New("expected true or false")
		}
		return nil
	}, func(s *Server) string { return strconv.FormatBool(*field(s)) }, strconv.FormatBool(def))
}

func numberKey(name string, field func(*Server) *int32, def, least int32, doc string) key {
	return newKey(name, Number, doc, func(s *Server, text string) error {
		v, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fmt.Errorf("expected a whole number up to %d", math.MaxInt32)
		}
		*field(s) = int32(v)
		return atLeast(v, int64(least), strconv.Itoa(int(least)))
	}, func(s *Server) string { return strconv.Itoa(int(*field(s))) }, strconv.Itoa(int(def)))
}

func replicationKey() key {
	return newKey("default.replication.factor", Number, "The replication factor that a new topic gets by default.",
		func(s *Server, text string) error {
			v, err := strconv.ParseInt(text, 10, 16)
			if err != nil {
				return fmt.Errorf("expected a whole number up to %d", math.MaxInt16)
			}
			s.DefaultReplication = int16(v)
			return atLeast(v, 1, "1")
		}, func(s *Server) string { return strconv.Itoa(int(s.DefaultReplication)) }, "1")
}

func sizeKey(name string, field func(*Server) *int64, def, least, most int64, doc string) key {
	return newKey(name, Size, doc, func(s *Server, text string) error {
		v, err := parseSize(text)
		if err != nil {
			return err
		}
		*field(s) = v
		if v > most {
			return fmt.Errorf("expected at most %s", renderSize(most))
		}
		return atLeast(v, least, renderSize(least))
	}, func(s *Server) string { return renderSize(*field(s)) }, strconv.FormatInt(def, 10))
}

func durationKey(name string, field func(*Server) *time.Duration, def, least time.Duration, doc string) key {
	return newKey(name, Duration, doc, func(s *Server, text string) error {
		v, err := parseDuration(text)
		if err != nil {
			return err
		}
		*field(s) = v
		return atLeast(int64(v), int64(least), renderDuration(least))
	}, func(s *Server) string { return renderDuration(*field(s)) }, def.String())
}

func atLeast(v, least int64, text string) error {
	if v < least {
		return fmt.Errorf("expected at least %s", text)
	}
	return nil
}
