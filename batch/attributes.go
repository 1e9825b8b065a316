package batch

import "fmt"

// Codec says how the records of a batch are compressed. The numbers are part of the format.
type Codec int8

// The codecs of the format. See compress.go for the framing of each.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// String returns Kafka's name of the codec: none, gzip, snappy, lz4 or zstd.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// Valid reports whether c is one of the five codecs of the format.
func (c Codec) Valid() bool { return c >= None && c <= Zstd }

// ParseCodec returns the codec with Kafka's name for it. Besides the names of [Codec.String] it accepts "uncompressed",
// which the topic setting compression.type uses for none. The setting's "producer" is not a codec: it means that the
// batch's own is kept. Any other name is an [*UnknownCodecError].
func ParseCodec(name string) (Codec, error) {
	switch name {
	case "none", "uncompressed":
		return None, nil
	case "gzip":
		return Gzip, nil
	case "snappy":
		return Snappy, nil
	case "lz4":
		return LZ4, nil
	case "zstd":
		return Zstd, nil
	}
	return None, &UnknownCodecError{Name: name}
}

// TimestampType says what the timestamps of a batch mean. The numbers are the bit in the attributes.
type TimestampType int8

const (
	// CreateTime timestamps were set by the producer, one per record.
	CreateTime TimestampType = 0
	// LogAppendTime is the leader's clock at the append, one for the whole batch.
	LogAppendTime TimestampType = 1
)

// String returns Kafka's name of the type, as in message.timestamp.type.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// Attributes are the flags of a batch; format.go draws them.
type Attributes int16

// Codec returns the codec of the records. It may be one that the format does not have: see [Codec.Valid].
func (a Attributes) Codec() Codec { return Codec(a & codecMask) }

// LogAppendTime reports whether every record carries the log's append time instead of its own timestamp.
func (a Attributes) LogAppendTime() bool { return a&attrLogAppendTime != 0 }

// TimestampType returns [Attributes.LogAppendTime] as a type.
func (a Attributes) TimestampType() TimestampType { return TimestampType(a & attrLogAppendTime >> 3) }

// Transactional reports whether the batch is part of a transaction.
func (a Attributes) Transactional() bool { return a&attrTransactional != 0 }

// Control reports whether the batch holds a control record, which no application may see.
func (a Attributes) Control() bool { return a&attrControl != 0 }

// HasDeleteHorizon reports whether the base timestamp is a delete horizon: the time from which compaction may drop the
// tombstones (or the marker) of this batch.
func (a Attributes) HasDeleteHorizon() bool { return a&attrDeleteHorizon != 0 }

// unknown returns the bits that the format does not define.
func (a Attributes) unknown() Attributes { return a &^ attrKnown }
