package coordinator

// Config holds the settings of a [Shard], in Kafka's units. Where a comment names a default, zero means that default.
type Config struct {
	// NewID returns a text that was never returned before, for member ids (Kafka: a random UUID). It must be set.
	NewID func() string

	// TopicExists reports whether a topic exists; id is zero when it is not known. Offsets of missing topics are removed.
	// If it is nil, every topic exists.
	TopicExists func(name string, id [16]byte) bool

	MinSessionMs int32 // group.min.session.timeout.ms, 6000
	MaxSessionMs int32 // group.max.session.timeout.ms, 1800000

	// InitialDelayMs is group.initial.rebalance.delay.ms: how long a group without members waits for more after the first
	// has joined. 0 means no wait; there is no default here.
	InitialDelayMs int32

	// MaxSize is group.max.size, the largest number of members of a group; 0 is no limit.
	MaxSize int

	// NewMemberJoinMs is how long the JoinGroup of a new member may stay parked: its client may be gone. The default is
	// 300000, which is fixed in Kafka.
	NewMemberJoinMs int32

	RetentionMs int64 // offsets.retention.minutes, 7 days
	SweepMs     int64 // offsets.retention.check.interval.ms, 600000

	MetadataMaxBytes int // offset.metadata.max.bytes, 4096
}

func (c Config) withDefaults() Config {
	if c.TopicExists == nil {
		c.TopicExists = func(string, [16]byte) bool { return true }
	}
	fill(&c.MinSessionMs, 6000)
	fill(&c.MaxSessionMs, 1800000)
	fill(&c.NewMemberJoinMs, 300000)
	fill(&c.RetentionMs, 7*24*3600*1000)
	fill(&c.SweepMs, 600000)
	fill(&c.MetadataMaxBytes, 4096)
	return c
}

func fill[T int | int32 | int64](setting *T, value T) {
	if *setting == 0 {
		*setting = value
	}
}
