package kafkalog

import (
	"errors"
	"math"
	"slices"

	"github.com/tidemark-io/tidemark/batch"
)

// TimestampOffset is a record found by timestamp.
type TimestampOffset struct {
	Offset    int64
	Timestamp int64 // of that record, ms
}

// OffsetForTimestamp returns the first record at or above the log start whose timestamp is at least ts (ms), and false
// if there is none. It continues with the next segment if a segment's largest timestamp promises a record but none is
// at or above the log start, and decodes records of any size. It does not wait for an append, and blocks on the device.
//
// Errors are of class [ErrStorage], and [ErrInvalidBatch] for a batch that cannot be decoded.
func (l *Log) OffsetForTimestamp(ts int64) (TimestampOffset, bool, error) {
	return l.searchAgain(timeSearch{target: ts})
}

// OffsetForTimestampChecked is the lookup of Kafka's ListOffsets. The first segment whose largest timestamp reaches ts
// decides; one without timestamps counts with its file's modification time. When that segment has no such record the
// answer is none, even if a later segment has one. A record of a compressed batch above MaxDecompressedRecord that
// must be read is a [*BatchError] around [*batch.RecordTooLargeError].
func (l *Log) OffsetForTimestampChecked(ts int64) (TimestampOffset, bool, error) {
	return l.searchAgain(timeSearch{target: ts, checked: true})
}

// OffsetForTimestampCheckedFrom is [Log.OffsetForTimestampChecked] for records at or above minimum.
func (l *Log) OffsetForTimestampCheckedFrom(ts, minimum int64) (TimestampOffset, bool, error) {
	return l.searchAgain(timeSearch{target: ts, minimum: minimum, checked: true})
}

// timeSearch looks for the first record with timestamp >= target and offset >= minimum.
type timeSearch struct {
	target  int64
	minimum int64
	checked bool // Kafka's rule: the first candidate segment decides, and records are limited
	limits  batch.Limits
}

// searchAgain runs the search until the log is not cut under it.
func (l *Log) searchAgain(q timeSearch) (TimestampOffset, bool, error) {
	for {
		if err := l.open(); err != nil {
			return TimestampOffset{}, false, err
		}
		v := l.view.Load()
		found, ok, err := l.searchView(v, q)
		if !l.viewChanged(v, err) {
			return found, ok, err
		}
	}
}

func (l *Log) searchView(v *view, q timeSearch) (TimestampOffset, bool, error) {
	q.minimum = max(q.minimum, v.start)
	if q.checked {
		q.limits.MaxRecordBytes = l.config.Load().MaxDecompressedRecord
	}
	for _, s := range v.segments {
		stamp, err := q.stampOf(s)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if stamp < q.target {
			continue
		}
		found, ok, err := q.segment(s)
		if ok || err != nil || q.checked {
			return found, ok, err
		}
	}
	return TimestampOffset{}, false, nil
}

// stampOf returns the largest timestamp by which the segment is a candidate.
func (q *timeSearch) stampOf(s *segment) (int64, error) {
	if q.checked {
		return s.age()
	}
	stamp, _, err := s.largest()
	if unusableIndex(err) {
		return math.MaxInt64, nil // unknown: look inside
	}
	return stamp, err
}

// segment searches one segment. The time index says up to which offset no record reaches the target.
func (q *timeSearch) segment(s *segment) (TimestampOffset, bool, error) {
	r, err := s.reader()
	if err != nil {
		return TimestampOffset{}, false, err
	}
	defer r.close()
	from, err := q.from(&r)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	walk, err := r.walkFrom(from)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	defer walk.close()
	for {
		at := walk.position
		h, found, err := walk.next()
		if err != nil || !found {
			return TimestampOffset{}, false, err
		}
		if h.MaxTimestamp < q.target || h.LastOffset() < q.minimum {
			continue
		}
		hit, ok, err := r.firstRecord(&h, at, q.limits, func(rec *batch.Record) bool {
			return rec.Timestamp >= q.target && rec.Offset >= q.minimum
		})
		if ok || err != nil {
			return hit, ok, err
		}
	}
}

// from returns the offset from which to search. The time index says up to which one no record reaches the target, if
// the batch that it names is as it says.
func (q *timeSearch) from(r *segmentReader) (int64, error) {
	if q.target == math.MinInt64 {
		return q.minimum, nil // nothing is before it
	}
	entry, err := r.segment.times.lookup(q.target - 1)
	if err != nil || entry.timestamp < 0 {
		return q.minimum, r.segment.withoutIndex(err)
	}
	walk, err := r.walkFrom(entry.offset)
	if err != nil {
		return q.minimum, err
	}
	defer walk.close()
	h, _, found, err := walk.seek(entry.offset)
	if err != nil || !found || h.LastOffset() != entry.offset || h.MaxTimestamp != entry.timestamp {
		return q.minimum, err
	}
	return max(q.minimum, entry.offset), nil
}

// firstRecord decodes the batch at the position up to the first record that matches.
func (r *segmentReader) firstRecord(h *batch.Header, at int64, limits batch.Limits, matches func(*batch.Record) bool) (TimestampOffset, bool, error) {
	if h.Magic != batch.Magic {
		return TimestampOffset{}, false, &BatchError{Offset: h.BaseOffset, Err: &batch.MagicError{Magic: h.Magic}}
	}
	b := make(batch.Batch, h.Size())
	if err := r.readAt(b, at); err != nil {
		return TimestampOffset{}, false, err
	}
	var crc *batch.CRCError
	if err := b.VerifyCRC(); errors.As(err, &crc) {
		return TimestampOffset{}, false, &ChecksumError{Path: r.segment.file.path(), Position: at, Want: crc.Stored, Got: crc.Computed}
	}
	records := b.Records(limits)
	defer records.Close()
	for records.Next() {
		if rec := records.Record(); matches(rec) {
			return TimestampOffset{Offset: rec.Offset, Timestamp: rec.Timestamp}, true, nil
		}
	}
	if err := records.Err(); err != nil {
		return TimestampOffset{}, false, &BatchError{Offset: h.BaseOffset, Err: locate(err, r, at)}
	}
	return TimestampOffset{}, false, nil
}

// locate adds the file and the position to an error of decoding.
func locate(err error, r *segmentReader, at int64) error {
	return &StoredBatchError{Path: r.segment.file.path(), Position: at, Err: err}
}

// MaxTimestampOffset returns the record with the largest timestamp in the log, the earliest if there are several, and
// false if no record has one. Records below the log start whose segment is still on disk count. It reads one batch up
// to that record. It does not wait for an append, and blocks on the device. Errors are those of
// [Log.OffsetForTimestampChecked].
func (l *Log) MaxTimestampOffset() (TimestampOffset, bool, error) {
	for {
		if err := l.open(); err != nil {
			return TimestampOffset{}, false, err
		}
		v := l.view.Load()
		found, ok, err := l.maxTimestampOf(v)
		if !l.viewChanged(v, err) {
			return found, ok, err
		}
	}
}

func (l *Log) maxTimestampOf(v *view) (TimestampOffset, bool, error) {
	var in *segment
	best, bestOffset := int64(-1), int64(-1)
	for _, s := range v.segments {
		stamp, offset, err := s.largest()
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if stamp > best {
			in, best, bestOffset = s, stamp, offset
		}
	}
	if in == nil {
		return TimestampOffset{}, false, nil
	}
	r, err := in.reader()
	if err != nil {
		return TimestampOffset{}, false, err
	}
	defer r.close()
	walk, err := r.walkFrom(bestOffset)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	defer walk.close()
	limits := batch.Limits{MaxRecordBytes: l.config.Load().MaxDecompressedRecord}
	for {
		at := walk.position
		h, found, err := walk.next()
		if err != nil || !found {
			return TimestampOffset{}, false, err
		}
		if h.MaxTimestamp == best {
			return r.firstRecord(&h, at, limits, func(rec *batch.Record) bool { return rec.Timestamp == best })
		}
	}
}

// Special times of [Log.LegacyOffsetsBefore].
const (
	LatestTime   int64 = -1 // the log end
	EarliestTime int64 = -2 // the log start
)

// LegacyOffsetsBefore answers version 0 of Kafka's ListOffsets, from before records had timestamps: the bases of the
// segments whose file was last modified at or before ts (ms), the newest first, at most n. The log end counts as one
// more, modified now, unless the active segment is empty. [LatestTime] and [EarliestTime] start at the newest and give
// only the oldest. It blocks on the device; errors are of class [ErrStorage].
func (l *Log) LegacyOffsetsBefore(ts int64, n int) ([]int64, error) {
	var list []boundary
	for {
		if err := l.open(); err != nil {
			return nil, err
		}
		end := l.end.Load()
		v := l.view.Load()
		var err error
		if list, err = l.boundaries(v, end); err == nil {
			break
		}
		if !l.viewChanged(v, err) {
			return nil, err
		}
	}
	upTo := len(list) // exclusive
	switch ts {
	case LatestTime:
	case EarliestTime:
		upTo = 1
	default:
		for upTo > 0 && list[upTo-1].modified > ts {
			upTo--
		}
	}
	var offsets []int64
	for _, b := range slices.Backward(list[:upTo]) {
		if len(offsets) >= n {
			break
		}
		offsets = append(offsets, b.offset)
	}
	return offsets, nil
}

// boundary is an offset and when everything below it was written last, in ms.
type boundary struct{ offset, modified int64 }

// boundaries returns those of the segments, and the log end if the active segment holds anything.
func (l *Log) boundaries(v *view, end int64) ([]boundary, error) {
	var list []boundary
	for _, s := range v.segments {
		modified, err := s.modified()
		if err != nil {
			return nil, err
		}
		list = append(list, boundary{max(s.base, v.start), modified})
	}
	if v.active().size.Load() > 0 {
		list = append(list, boundary{end, l.env.nowMs()})
	}
	return list, nil
}
