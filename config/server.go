package config

import "time"

// Server is the configuration of one server as plain values. Sizes are bytes. Every field is the key that its comment
// names.
type Server struct {
	DataDir         string            // data-dir
	KafkaListen     []string          // kafka-listen, HOST:PORT each; at least one
	KafkaAdvertise  []string          // kafka-advertise, HOST:PORT for each of KafkaListen; "" or not there: what a client connected to
	FlightListen    string            // flight-listen, HOST:PORT; "": none
	FlightAdvertise string            // flight-advertise, HOST:PORT; "": what is listened on
	HTTPListen      string            // http-listen, HOST:PORT; "": none
	MetaURL         string            // meta-url; "": a file in the data directory
	MetaCACert      string            // meta-cacert, a file
	MetaCert        string            // meta-cert, a file
	MetaKey         string            // meta-key, a file
	MetaUser        string            // meta-user, NAME or NAME:PASSWORD: a secret
	Store           string            // store, a URL; "": a directory under DataDir. It may hold secrets
	TopicDefaults   map[string]string // topic-default, name to value, not checked here
	TopicPatterns   []TopicPattern    // topic-patterns, in the order of the file, not checked here
	InsecureListen  bool              // insecure-listen
	LogLevel        string            // log-level: debug, info, warn, error
	LogFormat       string            // log-format: text, json
	GroupMetrics    string            // group-metrics: off, group, partition
	TraceEndpoint   string            // trace-endpoint, a URL; "": no traces. It may hold secrets
	TraceRatio      float64           // trace-sample-ratio, 0 to 1

	NodeID             int32 // node.id
	MemoryLimit        int64 // memory-limit; 0: GOMEMLIMIT, or most of what the container allows
	MaxOpenFiles       int32 // max-open-files; 0: half of what the process may open
	MaxPartitions      int32 // max-partitions; 0: no limit
	DiskReserve        int64 // disk-reserve; -1: a part of the disk, 0: none
	NumRecoveryThreads int32 // num.recovery.threads.per.data.dir
	AutoCreateTopics   bool  // auto.create.topics.enable
	DeleteTopic        bool  // delete.topic.enable
	NumPartitions      int32 // num.partitions
	DefaultReplication int16 // default.replication.factor
	MessageMaxBytes    int64 // message.max.bytes
	FetchMaxBytes      int64 // fetch.max.bytes
	MaxFetchSessions   int32 // max.incremental.fetch.session.cache.slots

	SocketRequestMaxBytes int64         // socket.request.max.bytes
	ConnectionsMaxIdle    time.Duration // connections.max.idle.ms; 0 or below: forever
	MaxConnections        int32         // max.connections
	MaxConnectionsPerIP   int32         // max.connections.per.ip
	QueuedMaxRequestBytes int64         // queued.max.request.bytes; -1: a quarter of the memory limit

	OffsetsPartitions       int32         // offsets.topic.num.partitions
	OffsetsRetentionMinutes int32         // offsets.retention.minutes
	OffsetsRetentionCheck   time.Duration // offsets.retention.check.interval.ms
	OffsetMetadataMax       int32         // offset.metadata.max.bytes
	GroupInitialDelay       time.Duration // group.initial.rebalance.delay.ms
	GroupMinSession         time.Duration // group.min.session.timeout.ms
	GroupMaxSession         time.Duration // group.max.session.timeout.ms
	GroupMaxSize            int32         // group.max.size; math.MaxInt32: no limit

	RetentionCheckInterval          time.Duration // log.retention.check.interval.ms
	InitialTaskDelay                time.Duration // log.initial.task.delay.ms
	RecoveryPointCheckpointInterval time.Duration // log.flush.offset.checkpoint.interval.ms
	LogStartCheckpointInterval      time.Duration // log.flush.start.offset.checkpoint.interval.ms
	HighWatermarkCheckpointInterval time.Duration // replica.high.watermark.checkpoint.interval.ms
	ProducerIDExpiration            time.Duration // producer.id.expiration.ms
	ProducerIDExpirationCheck       time.Duration // producer.id.expiration.check.interval.ms

	StoreInflight        int32         // store.inflight; 0: by the number of cores
	WALBatchBytes        int64         // wal.batch_bytes; -1: by cache.wal_size
	WALBatchInterval     time.Duration // wal.batch_interval; -1: by the kind of the store
	WALMaxUnflushed      int64         // wal.max_unflushed; -1: by the memory limit
	WALInflight          int32         // wal.inflight
	WALReadahead         int64         // wal.readahead; -1: by the memory limit
	CacheWALSize         int64         // cache.wal_size; -1: by the memory limit
	CacheBlockSize       int64         // cache.block_size; -1: by the memory limit
	CacheIndexSize       int64         // cache.index_size; -1: by the memory limit
	UploadThreshold      int64         // upload.threshold
	UploadInterval       time.Duration // upload.interval
	CompactInterval      time.Duration // compact.interval
	CompactMinorInterval time.Duration // compact.minor_interval
	CompactMajorInterval time.Duration // compact.major_interval
	CompactCache         int64         // compact.cache; -1: by the memory limit
	CompactBandwidth     int64         // compact.bandwidth, bytes a second; -1: by net.bandwidth, 0: no bound
	NetBandwidth         int64         // net.bandwidth, bytes a second
	GCInterval           time.Duration // gc.interval
	GCGrace              time.Duration // gc.grace
}

// TopicPattern is the settings of topics whose names match a pattern. Later patterns override earlier ones, and all of them
// override [Server.TopicDefaults].
type TopicPattern struct {
	Pattern  string            // as for path.Match, not checked here
	Settings map[string]string // name to value, not checked here
}
