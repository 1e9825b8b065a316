package coordinator

// Config is the settings of a [Shard], in Kafka's units and with Kafka's defaults for zero values where one is named.
type Config struct {
	// NewID returns a text that was never returned before, for member ids (Kafka: a random UUID). It must be set.
	NewID func() string

	// TopicExists reports whether the topic is there; id is zero when it is not known. Offsets of topics that are gone are
	// removed. Nil: every topic exists.
	TopicExists func(name string, id [16]byte) bool

	MinSessionMs int32 // group.min.session.timeout.ms, 6000
	MaxSessionMs int32 // group.max.session.timeout.ms, 1800000

	// InitialDelayMs is group.initial.rebalance.delay.ms: how long a group without members waits for more after the first
	// has joined. 0 is no wait; it has no default here.
	InitialDelayMs int32

	// MaxSize is group.max.size, the members that a group may have; 0 is no limit.
	MaxSize int

	// NewMemberJoinMs is how long the JoinGroup of a new member may stay parked: its client may be gone. 300000, as in
	// Kafka, where it is no setting.
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
