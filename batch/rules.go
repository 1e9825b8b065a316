package batch

import (
	"fmt"
	"math"
)

// Rules are the requirements of a topic and a request for a produced batch; see [Validate]. [DefaultRules] has Kafka's
// defaults.
type Rules struct {
	// MaxMessageBytes is the largest batch in bytes, header included, as it arrives and again if it was rebuilt:
	// max.message.bytes. 0 means no limit.
	MaxMessageBytes int

	// SegmentBytes is the largest batch in bytes that the log can hold: segment.bytes. 0 means no limit.
	SegmentBytes int64

	// MaxRecordBytes bounds one record of a compressed batch: max.decompressed.message.bytes. 0 means no limit, Kafka's
	// default.
	MaxRecordBytes int64

	// MaxDecompressedBytes bounds the decompressed records of one batch in all, against batches made to burn time. 0
	// means [DefaultMaxDecompressedBytes], less means no limit. Kafka has no such setting.
	MaxDecompressedBytes int64

	// Compacted says that the topic's cleanup.policy contains compact: every record needs a key.
	Compacted bool

	// TimestampType is message.timestamp.type. Under LogAppendTime the timestamps of the records are ignored; the
	// log stamps the batch when it appends it.
	TimestampType TimestampType

	// BeforeMaxMs and AfterMaxMs are how far a CreateTime record may lie before and after NowMs:
	// message.timestamp.before.max.ms and message.timestamp.after.max.ms, and on a topic with scheduled delivery the
	// latter is delivery.max.delay.ms. Zero is not special: only NowMs itself is then accepted.
	BeforeMaxMs int64
	AfterMaxMs  int64

	// NowMs is the leader's clock.
	NowMs int64

	// ProduceVersion is the version of the Produce request. Before version 7 there is no zstd.
	ProduceVersion int16

	// Recompress says that compression.type names a codec: a batch of another codec than TargetCodec is rebuilt with
	// it. Without it (compression.type=producer) batches keep their codec. TargetLevel is as in [BuilderOptions].
	Recompress  bool
	TargetCodec Codec
	TargetLevel int

	// Inspect says whether compressed records are read. The zero value reads them, as Kafka does.
	Inspect Inspection
}

// Inspection is how closely [Validate] looks at compressed records.
type Inspection int8

const (
	// InspectAll decompresses every batch as a stream and checks each record.
	InspectAll Inspection = 0

	// InspectHeaders trusts the header of a compressed batch about its records, where the rules allow it: not on a
	// compacted topic, not when the batch must be recompressed, and not when BeforeMaxMs is set. AfterMaxMs is then
	// checked against the header's max timestamp. A client can thus store a payload that does not decompress; every
	// reader under [Limits] then gets an error for it, and nothing worse. Uncompressed records are always checked.
	InspectHeaders Inspection = 1
)

// DefaultMaxDecompressedBytes applies when [Rules.MaxDecompressedBytes] is 0. It is 256 times Kafka's default batch size,
// and takes a few tenths of a second to decompress.
const DefaultMaxDecompressedBytes = 256 << 20

// DefaultRules returns the rules of a topic with Kafka's default settings, for a request of the newest version at the
// given clock in ms.
func DefaultRules(nowMs int64) Rules {
	return Rules{
		MaxMessageBytes: 1048588,
		SegmentBytes:    1 << 30,
		BeforeMaxMs:     math.MaxInt64,
		AfterMaxMs:      3600000,
		NowMs:           nowMs,
		ProduceVersion:  math.MaxInt16,
	}
}

func (r *Rules) limits() Limits {
	l := Limits{MaxRecordBytes: r.MaxRecordBytes, MaxDecompressedBytes: r.MaxDecompressedBytes}
	if l.MaxDecompressedBytes == 0 {
		l.MaxDecompressedBytes = DefaultMaxDecompressedBytes
	}
	return l
}

// timestampAllowed reports whether a CreateTime timestamp is in range. A missing timestamp always is. The difference
// wraps around as Kafka's does: a time 292 million years ago counts as the future.
func (r *Rules) timestampAllowed(ts int64) bool {
	age := r.NowMs - ts
	return ts == noTimestamp || age <= r.BeforeMaxMs && -age <= r.AfterMaxMs
}

// Kind is the class of a [ValidationError], which determines the client's error code.
type Kind int8

// The kinds, each with its Kafka error code.
const (
	InvalidRecord          Kind = iota + 1 // INVALID_RECORD (87)
	Corrupt                                // CORRUPT_MESSAGE (2), which clients retry
	TooLarge                               // MESSAGE_TOO_LARGE (10)
	InvalidTimestamp                       // INVALID_TIMESTAMP (32)
	UnsupportedCompression                 // UNSUPPORTED_COMPRESSION_TYPE (76)
	ListTooLarge                           // RECORD_LIST_TOO_LARGE (18)
	UnsupportedFormat                      // a format version other than 2: INVALID_RECORD (87)
)

// String returns the kind in words.
func (k Kind) String() string {
	switch k {
	case InvalidRecord:
		return "invalid record"
	case Corrupt:
		return "corrupt"
	case TooLarge:
		return "too large"
	case InvalidTimestamp:
		return "invalid timestamp"
	case UnsupportedCompression:
		return "unsupported compression"
	case ListTooLarge:
		return "larger than a segment"
	case UnsupportedFormat:
		return "unsupported format"
	}
	return fmt.Sprintf("kind(%d)", int8(k))
}

// ValidationError says why a produced batch was refused. Nothing of the batch may be appended.
type ValidationError struct {
	Kind Kind

	// RecordErrors lists the records at fault, in order, if the fault is in single records; at most [MaxRecordErrors].
	RecordErrors []RecordError

	// Err is the cause: a [*FormatError], [*MagicError], [*CRCError], [*DecodeError] or a description.
	Err error
}

func (e *ValidationError) Error() string { return fmt.Sprintf("batch: %v: %s", e.Kind, inner(e.Err)) }

// Unwrap returns the cause.
func (e *ValidationError) Unwrap() error { return e.Err }

// RecordError says what is wrong with one record of a produced batch.
type RecordError struct {
	Index   int32 // from 0
	Message string
}

// MaxRecordErrors bounds [ValidationError.RecordErrors], so that a bad batch does not cost more memory than it has.
const MaxRecordErrors = 1024
