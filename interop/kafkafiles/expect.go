package kafkafiles

import "github.com/tidemark-io/tidemark/interop/corpus"

// Snapshot is one copy of a log directory (of all partitions) and what Kafka said about it just before it ended.
type Snapshot struct {
	// Dir holds the files as Kafka left them.
	Dir string `json:"-"`
	// Clean says that Kafka was stopped; otherwise it was killed.
	Clean bool `json:"clean"`
	// TakenAt is Kafka's clock when it was asked, in milliseconds since 1970. What expires does so by this clock.
	TakenAt int64 `json:"taken_at"`
	// Partitions describes each partition that was written to, by the name of its directory.
	Partitions map[string]*Partition `json:"partitions"`
}

// Partition is what Kafka answered about one partition.
type Partition struct {
	LogStart int64 `json:"log_start"`
	LogEnd   int64 `json:"log_end"`
	// LastStable is below LogEnd when a transaction was open.
	LastStable int64 `json:"last_stable"`
	// Batches are the headers of all batches from the log start on, as they are stored.
	Batches []Batch `json:"batches"`
	// Records are all records from the log start on, control records included.
	Records []Record `json:"records"`
	// Aborted are the aborted transactions of the whole log.
	Aborted []Aborted `json:"aborted"`
	// Producers are the producers that Kafka remembers: with [ProducerExpiration], all of them.
	Producers []Producer `json:"producers"`
	// ByTimestamp are answers of ListOffsets.
	ByTimestamp []TimestampAnswer `json:"by_timestamp"`
	// ByEpoch are answers of OffsetForLeaderEpoch.
	ByEpoch []EpochAnswer `json:"by_epoch"`
}

// Batch is the header of a stored batch.
type Batch struct {
	BaseOffset    int64  `json:"base_offset"`
	LastOffset    int64  `json:"last_offset"`
	Size          int32  `json:"size"` // of the whole batch, in bytes
	LeaderEpoch   int32  `json:"leader_epoch"`
	CRC           uint32 `json:"crc"`
	Attributes    int16  `json:"attributes"`
	BaseTimestamp int64  `json:"base_timestamp"`
	MaxTimestamp  int64  `json:"max_timestamp"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	BaseSequence  int32  `json:"base_sequence"`
	Count         int32  `json:"count"`
}

// Record is a record as a consumer sees it.
type Record struct {
	corpus.Record
	LeaderEpoch int32 `json:"leader_epoch"`
	Control     bool  `json:"control,omitempty"`
}

// Aborted is an aborted transaction as Fetch returns it.
type Aborted struct {
	ProducerID  int64 `json:"producer_id"`
	FirstOffset int64 `json:"first_offset"`
}

// Producer is an answer of DescribeProducers.
type Producer struct {
	ID               int64 `json:"id"`
	Epoch            int32 `json:"epoch"`
	LastSequence     int32 `json:"last_sequence"`
	LastTimestamp    int64 `json:"last_timestamp"`
	CoordinatorEpoch int32 `json:"coordinator_epoch"`
	TxnStart         int64 `json:"txn_start"` // -1 when no transaction is open
}

// TimestampAnswer is Kafka's answer for the first record at or after Ask. Ask may be -3, for the record with the largest
// timestamp. Offset and Timestamp are -1 when there is none.
type TimestampAnswer struct {
	Ask       int64 `json:"ask"`
	Offset    int64 `json:"offset"`
	Timestamp int64 `json:"timestamp"`
}

// EpochAnswer is Kafka's answer for the end of an epoch. Epoch and End are -1 when it does not know.
type EpochAnswer struct {
	Ask   int32 `json:"ask"`
	Epoch int32 `json:"epoch"`
	End   int64 `json:"end"`
}
