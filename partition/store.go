package partition

import (
	"time"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
)

// store is the log under a [Log]. *kafkalog.Log is the one there is; tests put another in its place to hold a sync or to
// fail it.
type store interface {
	Append(b batch.Batch, o kafkalog.AppendOptions) (kafkalog.Appended, error)
	Failed() error          // not nil: no appends until it is reopened
	SyncTo() (int64, error) // records only, what an append waits for
	Sync() error            // everything, for a start that reads nothing
	UnsyncedTail() (kafkalog.Tail, bool)

	ReadRegions(fetch, limit int64, maxBytes int) (*kafkalog.Regions, error)
	LogStart() int64
	LocalLogStart() int64
	FirstSegmentBase() int64
	RecoveryPoint() int64
	LogEnd() int64
	LastStable(hw int64) int64
	Size() int64

	AssignEpoch(epoch int32, start int64) error
	EpochForOffset(offset int64) (int32, bool)
	EndOffsetForEpoch(requested int32) (epoch int32, end int64)
	OffsetForTimestampChecked(ts int64) (kafkalog.TimestampOffset, bool, error)
	MaxTimestampOffset() (kafkalog.TimestampOffset, bool, error)
	AbortedInRange(from, to int64) ([]kafkalog.AbortedTxn, error)

	TrimTo(offset int64) (int64, error)
	Tick(now time.Time, hw int64) error
	Maintain(now time.Time) error
	MaintenanceDelay(now time.Time) (time.Duration, bool)
	RemoveExpiredProducers(now time.Time, expiration time.Duration)
	ActiveProducers() []kafkalog.ActiveProducer
	SetConfig(kafkalog.Config)
	Fence()
	Close() error
}
