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

// Kind says what a key's value is.
type Kind string

// The kinds of values.
const (
	Text     Kind = "text"
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
	// Env is the name in the environment.
	Env string
	// Kind is what the value is. A List is addresses with commas between; as a flag it may be given any number of times, and in
	// the file it may be a YAML list.
	Kind Kind
	// Default is the default as [Loaded.Print] shows it.
	Default string
	// Choices are the words that a Choice may be.
	Choices []string
	// Doc says what it does.
	Doc string
}

// TopicDefault is the key that gives topics a setting which they do not set themselves. It may be given any number of
// times, as NAME=VALUE in a flag, as a list of NAME=VALUE separated by newlines or semicolons in the environment, and as a
// map or a list in the file.
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
var table = slices.Concat(serverKeys(), metaKeys(), brokerKeys(), networkKeys(), groupKeys(), logKeys())

func serverKeys() []key {
	return []key{
		textKey("data-dir", func(s *Server) *string { return &s.DataDir }, "tidemark-data",
			"The directory that holds logs and metadata."),
		addressesKey("kafka-listen", func(s *Server) *[]string { return &s.KafkaListen }, "127.0.0.1:9092", false,
			"Where Kafka clients connect. Port 0 picks a free one and prints it."),
		addressesKey("kafka-advertise", func(s *Server) *[]string { return &s.KafkaAdvertise }, "", true,
			"The address that Kafka clients are told, one for each of kafka-listen and in its order; where there is none, they are told "+
				"the one that they have connected to."),
		addressKey("flight-listen", func(s *Server) *string { return &s.FlightListen }, "127.0.0.1:9123", true,
			"Where Arrow Flight clients connect, or off. This version does not serve it."),
		addressKey("flight-advertise", func(s *Server) *string { return &s.FlightAdvertise }, "", true,
			"The address that Flight clients are told; what is listened on if not given. This version does not serve it."),
		addressKey("http-listen", func(s *Server) *string { return &s.HTTPListen }, "127.0.0.1:9180", true,
			"Where health, metrics and the console are served, or off."),
		storeKey(),
		boolKey("insecure-listen", func(s *Server) *bool { return &s.InsecureListen }, false,
			"Allows a listener that other machines can reach and that asks for no authentication."),
		choiceKey("log-level", func(s *Server) *string { return &s.LogLevel }, "info",
			[]string{"debug", "info", "warn", "error"}, "The least important messages that are logged."),
		choiceKey("log-format", func(s *Server) *string { return &s.LogFormat }, "text", []string{"text", "json"},
			"How log messages are written."),
		sizeKey("memory-limit", func(s *Server) *int64 { return &s.MemoryLimit }, 0, 0, math.MaxInt64,
			"The memory that the Go runtime keeps to and buffers are scaled to; 0 is GOMEMLIMIT, or most of what the container allows."),
		numberKey("max-open-files", func(s *Server) *int32 { return &s.MaxOpenFiles }, 0, 0,
			"How many files that are not being written are kept open; 0 is half of what the process may open."),
		choiceKey("group-metrics", func(s *Server) *string { return &s.GroupMetrics }, "group",
			[]string{"off", "group", "partition"}, "How much the metrics tell of each consumer group."),
		traceKey(),
		ratioKey("trace-sample-ratio", func(s *Server) *float64 { return &s.TraceRatio }, 0.01,
			"How many of the requests and flush rounds are traced, 0 to 1; starts and new topics always are."),
		numberKey("max-partitions", func(s *Server) *int32 { return &s.MaxPartitions }, 10_000, 0,
			"How many partitions this server takes before it makes no more; 0 is no limit."),
		sizeKey("disk-reserve", func(s *Server) *int64 { return &s.DiskReserve }, -1, -1, math.MaxInt64,
			"How much of the disk is kept free of records: with less, producers are refused; -1 is 256MiB, or a twentieth of a small disk."),
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
			"How many partitions a topic gets when nobody says."),
		replicationKey(),
		sizeKey("message.max.bytes", func(s *Server) *int64 { return &s.MessageMaxBytes }, 1<<20+12, 0, math.MaxInt32,
			"The largest batch of a topic that does not set max.message.bytes; a topic-default of that name is stronger."),
		sizeKey("fetch.max.bytes", func(s *Server) *int64 { return &s.FetchMaxBytes }, 55<<20, 1024, math.MaxInt32,
			"The largest answer to one fetch."),
		numberKey("max.incremental.fetch.session.cache.slots", func(s *Server) *int32 { return &s.MaxFetchSessions }, 1000, 0,
			"How many fetch sessions are kept."),
	}
}

func networkKeys() []key {
	return []key{
		sizeKey("socket.request.max.bytes", func(s *Server) *int64 { return &s.SocketRequestMaxBytes }, 100<<20, 1,
			math.MaxInt32, "The largest request that is read."),
		durationKey("connections.max.idle.ms", func(s *Server) *time.Duration { return &s.ConnectionsMaxIdle },
			10*time.Minute, math.MinInt64, "How long a silent connection stays open; 0 or below is for ever."),
		numberKey("max.connections", func(s *Server) *int32 { return &s.MaxConnections }, math.MaxInt32, 1,
			"How many connections are open at once. The default is a quarter of the file descriptors that the process may have."),
		numberKey("max.connections.per.ip", func(s *Server) *int32 { return &s.MaxConnectionsPerIP }, math.MaxInt32, 1,
			"How many connections one address may have open."),
		sizeKey("queued.max.request.bytes", func(s *Server) *int64 { return &s.QueuedMaxRequestBytes }, -1, -1,
			math.MaxInt64, "How much memory the requests in work may take before connections are no longer read; at least twice socket.request.max.bytes. -1 is a quarter of memory-limit, at most 1GiB."),
	}
}

func groupKeys() []key {
	return []key{
		numberKey("offsets.topic.num.partitions", func(s *Server) *int32 { return &s.OffsetsPartitions }, 50, 1,
			"How many partitions __consumer_offsets gets when it is made."),
		numberKey("offsets.retention.minutes", func(s *Server) *int32 { return &s.OffsetsRetentionMinutes }, 7*24*60, 1,
			"How long the offsets of a group without members are kept."),
		durationKey("offsets.retention.check.interval.ms", func(s *Server) *time.Duration { return &s.OffsetsRetentionCheck },
			10*time.Minute, time.Millisecond, "How often offsets are looked at for ones to forget."),
		numberKey("offset.metadata.max.bytes", func(s *Server) *int32 { return &s.OffsetMetadataMax }, 4096, 1,
			"The longest text that a client may commit with an offset."),
		durationKey("group.initial.rebalance.delay.ms", func(s *Server) *time.Duration { return &s.GroupInitialDelay },
			3*time.Second, 0, "How long a group that was empty waits for more members after its first."),
		durationKey("group.min.session.timeout.ms", func(s *Server) *time.Duration { return &s.GroupMinSession },
			6*time.Second, time.Millisecond, "The shortest session time-out that a member may ask for."),
		durationKey("group.max.session.timeout.ms", func(s *Server) *time.Duration { return &s.GroupMaxSession },
			30*time.Minute, time.Millisecond, "The longest session time-out that a member may ask for."),
		numberKey("group.max.size", func(s *Server) *int32 { return &s.GroupMaxSize }, math.MaxInt32, 1,
			"How many members a group may have."),
	}
}

func logKeys() []key {
	return []key{
		durationKey("log.retention.check.interval.ms", func(s *Server) *time.Duration { return &s.RetentionCheckInterval },
			5*time.Minute, time.Millisecond, "How often logs are looked at for segments to delete."),
		durationKey("log.initial.task.delay.ms", func(s *Server) *time.Duration { return &s.InitialTaskDelay },
			30*time.Second, 0, "How long after the start retention and the expiry of producers look at logs for the first time."),
		durationKey("log.flush.offset.checkpoint.interval.ms",
			func(s *Server) *time.Duration { return &s.RecoveryPointCheckpointInterval }, time.Minute, time.Millisecond,
			"How often it is written down up to where each log is on disk."),
		durationKey("log.flush.start.offset.checkpoint.interval.ms",
			func(s *Server) *time.Duration { return &s.LogStartCheckpointInterval }, time.Minute, time.Millisecond,
			"How often it is written down where each log starts."),
		durationKey("replica.high.watermark.checkpoint.interval.ms",
			func(s *Server) *time.Duration { return &s.HighWatermarkCheckpointInterval }, 5*time.Second, time.Millisecond,
			"How often high watermarks are written down."),
		durationKey("producer.id.expiration.ms", func(s *Server) *time.Duration { return &s.ProducerIDExpiration },
			24*time.Hour, time.Millisecond, "How long an idempotent producer is remembered after its last batch."),
		durationKey("producer.id.expiration.check.interval.ms",
			func(s *Server) *time.Duration { return &s.ProducerIDExpirationCheck }, 10*time.Minute, time.Millisecond,
			"How often producers are looked at for ones to forget."),
		numberKey("num.recovery.threads.per.data.dir", func(s *Server) *int32 { return &s.NumRecoveryThreads }, 2, 1,
			"How many logs are opened at once at start-up and closed at once at shutdown."),
	}
}

// envName is the name of a key in the environment.
func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

const envPrefix = "TIDEMARK_"

func newKey(name string, kind Kind, doc string, set func(*Server, string) error, show func(*Server) string, def string) key {
	var s Server
	_ = set(&s, def) // a default that does not parse is a fault of the table; TestEveryDefaultIsLegal rules it out
	return key{
		Definition:  Definition{Key: name, Env: envName(name), Kind: kind, Default: show(&s), Doc: doc},
		set:         set,
		show:        show,
		defaultText: def,
	}
}

func textKey(name string, field func(*Server) *string, def, doc string) key {
	return newKey(name, Text, doc, func(s *Server, text string) error {
		*field(s) = text
		if text == "" {
			return errors.New("expected some text")
		}
		return nil
	}, func(s *Server) string { return *field(s) }, def)
}

// storeKey is a URL that may hold secrets.
func storeKey() key {
	k := newKey("store", Text, "The object store of streams, as a URL: a bucket or a directory. A server that is given one makes sure at its start that it "+
		"does all that is needed; without one it is a directory under data-dir, made with the first stream.",
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
	k := newKey("trace-endpoint", URL, "The OpenTelemetry receiver (OTLP over HTTP) that traces are sent to, as a URL; none if "+
		"neither this nor OTEL_EXPORTER_OTLP_ENDPOINT is given.",
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

// ratioKey is a part of a whole.
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

// addressKey is HOST:PORT, or nothing, which may be written as off, if that is allowed.
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

// addressesKey is addresses with commas between. If it may be empty, so may each of them, or be off.
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

// checkDifferent refuses an address that is there twice, unless its port is any or the address is none.
func checkDifferent(addresses []string) error {
	for i, a := range addresses {
		if a != "" && !strings.HasSuffix(a, ":0") && slices.Contains(addresses[:i], a) {
			return fmt.Errorf("%s is there twice", a)
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
	return newKey("default.replication.factor", Number, "The replication factor of a topic when nobody says.",
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
