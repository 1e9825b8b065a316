package batch

import (
	"fmt"
)

// inspection is what a walk over the records of a batch found.
type inspection struct {
	maxTimestamp int64 // -1 when no record has a timestamp
	irregular    bool  // the offsets are not 0, 1, 2 ...

	failed      int // records at fault
	badTime     bool
	recordFault []RecordError
}

// inspect reads every record and applies the rules for records. It holds one compression block and one record at a time.
func inspect(b Batch, rules *Rules) (inspection, error) {
	found := inspection{maxTimestamp: noTimestamp}
	var s recordScanner
	s.reset(b, rules.limits())
	defer s.close()
	base := b.BaseTimestamp()
	for s.next() {
		index := s.index - 1
		ts := base + s.raw.timestampDelta
		found.maxTimestamp = max(found.maxTimestamp, ts)
		found.irregular = found.irregular || s.raw.offsetDelta != index
		found.check(&s, index, ts, rules)
	}
	if s.err != nil {
		return found, refuse(InvalidRecord, s.err)
	}
	return found, found.err()
}

func (f *inspection) check(s *recordScanner, index int32, ts int64, rules *Rules) {
	switch {
	case rules.Compacted && s.raw.key == nil:
		f.fault(index, "a compacted topic does not accept a record without a key")
	case rules.TimestampType == CreateTime && !rules.timestampAllowed(ts):
		f.badTime = true
		f.fault(index, timestampMessage(ts, rules))
	case s.src != nil && s.raw.attributes&codecMask != 0:
		f.fault(index, "a record of a compressed batch is marked as compressed itself")
	}
}

func timestampMessage(ts int64, r *Rules) string {
	return fmt.Sprintf("timestamp %d is out of range: at most %d ms before and %d ms after the broker's clock %d",
		ts, r.BeforeMaxMs, r.AfterMaxMs, r.NowMs)
}

func (f *inspection) fault(index int32, message string) {
	f.failed++
	if len(f.recordFault) < MaxRecordErrors {
		f.recordFault = append(f.recordFault, RecordError{Index: index, Message: message})
	}
}

// err returns the verdict on all records: a bad timestamp outranks every other fault.
func (f *inspection) err() error {
	switch {
	case f.failed == 0:
		return nil
	case f.badTime:
		return &ValidationError{Kind: InvalidTimestamp, RecordErrors: f.recordFault, Err: errTimestampRange}
	}
	return &ValidationError{
		Kind:         InvalidRecord,
		RecordErrors: f.recordFault,
		Err:          fmt.Errorf("%d of the records are invalid, the first because %s", f.failed, f.recordFault[0].Message),
	}
}
