package partition

import (
	"cmp"
	"slices"
)

// Producer is the log's state of one idempotent or transactional producer.
type Producer struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // -1 if unknown
	LastTimestamp    int64 // of its last batch or marker, in ms since 1970; -1 if unknown
	CoordinatorEpoch int32 // of its last marker; -1 if there was none
	TxnStart         int64 // first offset of its open transaction; -1 without one
}

// Producers returns the producers known to the log, in the order of their ids. The caller owns the slice. It reads no
// file. Errors: [ErrClosed], [ErrDeleted].
func (l *Log) Producers() ([]Producer, error) {
	if err := l.unreadable(); err != nil {
		return nil, err
	}
	active := l.store.ActiveProducers()
	producers := make([]Producer, len(active))
	for i, p := range active {
		producers[i] = Producer{
			ID: p.ProducerID, Epoch: p.ProducerEpoch, LastSequence: p.LastSequence, LastTimestamp: p.LastTimestamp,
			CoordinatorEpoch: p.CoordinatorEpoch, TxnStart: p.TxnStartOffset,
		}
	}
	slices.SortFunc(producers, func(a, b Producer) int { return cmp.Compare(a.ID, b.ID) })
	return producers, nil
}
