package stream

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// walLimits are the settings of a WAL.
type walLimits struct {
	// batchBytes is how long the frames of a group may be, unless it is one frame.
	batchBytes int
	// batchInterval is the least time between two groups of an open log, unless they are full; with 0 the next group goes
	// out when the previous one is stored.
	batchInterval time.Duration
	// maxUnflushed bounds the bytes of frames that are not acknowledged.
	maxUnflushed int64
	// inflight is how many windows the log may run ahead of the first one that is not acknowledged; at most 64.
	inflight int64
	// maxPutAge bounds how old the proof of the node's epoch may be when a group is acknowledged.
	maxPutAge time.Duration
}

// walItem is a record in flight. Its position in the log is known once its group is sealed.
type walItem struct {
	record Record
	offset int64
	// acked is called once, when the record is durable or its outcome is unknown for good.
	acked func(offset int64, err error)
}

// walGroup is the content of one PUT.
type walGroup struct {
	window   int64
	items    []*walItem // in the order of submission
	size     int        // of the frames
	cost     int64      // of those that count against the capacity
	first    time.Time  // when the first record came
	proof    time.Time  // when the node's epoch was last known to be current, at the seal
	trim     int64
	acked    int64 // below this window everything was acknowledged at the seal; -1 if nothing was
	uploaded bool
}

// records returns the group's records in the order of their frames (WAL-4).
func (g *walGroup) records() []Record {
	records := make([]Record, len(g.items))
	for i, item := range g.byPlace() {
		records[i] = item.record
	}
	return records
}

// object returns what the group's object holds: its records, and the mark behind them if there is one.
func (g *walGroup) object() []Record {
	records := g.records()
	if g.acked >= 0 && g.size+markSize <= Window {
		records = append(records, walMark(g.acked))
	}
	return records
}

func (g *walGroup) byPlace() []*walItem {
	items := slices.Clone(g.items)
	slices.SortStableFunc(items, func(a, b *walItem) int {
		return cmp.Or(cmp.Compare(a.record.Stream, b.record.Stream), cmp.Compare(a.record.Base, b.record.Base))
	})
	return items
}

// walQueue decides which records form a group, when a group is sealed, which window it gets, which may be uploaded and
// which are acknowledged. It does no I/O and reads no clock; its owner locks it.
//
//	submit --> open group --seal--> sealed (in window order) --takeUploads--> in flight --finish--> popped from the head
type walQueue struct {
	limits     walLimits
	start      int64 // the window of the first group
	next       int64 // of the next one
	open       *walGroup
	sealed     []*walGroup // not acknowledged, oldest first
	started    int         // how many of sealed are in flight or done
	unflushed  int64
	lastSeal   time.Time
	sealedOnce bool
	gather     walGather // of a log without an interval
	trim       int64     // for the groups that are sealed from now on
	sealedTrim int64     // is in the newest sealed group
}

func newWALQueue(limits walLimits, start int64) *walQueue {
	return &walQueue{limits: limits, start: start, next: start, trim: -1, sealedTrim: -1}
}

// submit adds a record (WAL-1, WAL-9) and seals what is due. proof is the newest one of the node's epoch.
func (q *walQueue) submit(item *walItem, now, proof time.Time) error {
	size := FrameLen(item.record)
	if size > Window {
		return fmt.Errorf("%w: a frame of %d bytes", ErrRecordTooLarge, size)
	}
	// A record that is larger than the capacity may pass alone, so that it does not wait forever (F-42). A sentinel takes
	// no room, so that admitted records fit.
	cost := int64(size)
	if item.record.IsSentinel() {
		cost = 0
	}
	if q.unflushed > 0 && q.unflushed+cost > q.limits.maxUnflushed {
		return ErrOverCapacity
	}
	if q.open != nil && q.open.size+size > min(q.limits.batchBytes, Window) {
		q.seal(now, proof)
	}
	if q.open == nil {
		q.open = &walGroup{first: now}
	}
	q.open.items = append(q.open.items, item)
	q.open.size += size
	q.open.cost += cost
	q.unflushed += cost
	q.tick(now, proof)
	return nil
}

// deadline is when the open group must be sealed; false if there is none (WAL-2 b), or if a group in flight completes
// first: sealing gains nothing then, and the open group may grow. Without an interval it is a little later when more
// records are expected, see [walGather].
func (q *walQueue) deadline() (time.Time, bool) {
	if q.open == nil || !q.mayUpload() {
		return time.Time{}, false
	}
	due := q.lastSeal.Add(q.limits.batchInterval)
	if !q.sealedOnce || due.Before(q.open.first) {
		due = q.open.first
	}
	if len(q.open.items) < q.gather.expected && due.Before(q.gather.until) {
		due = q.gather.until
	}
	return due, true
}

// mayUpload reports whether a group that is sealed now could be uploaded at once (WAL-5). Without an interval groups go
// out one after the other: each takes what came while the previous one was stored.
func (q *walQueue) mayUpload() bool {
	if q.limits.batchInterval == 0 {
		return len(q.sealed) == 0
	}
	return len(q.sealed) == 0 || q.next < q.sealed[0].window+q.limits.inflight*Window
}

// tick seals the open group if its deadline has come.
func (q *walQueue) tick(now, proof time.Time) {
	if due, ok := q.deadline(); ok && !now.Before(due) {
		q.seal(now, proof)
	}
}

// seal assigns a window to the open group and a position to each of its records (WAL-4).
func (q *walQueue) seal(now, proof time.Time) {
	g := q.open
	if g == nil {
		return
	}
	g.window, g.proof, g.trim, g.acked = q.next, proof, q.trim, q.acked()
	offset := g.window
	for _, item := range g.byPlace() {
		item.offset = offset
		offset += int64(FrameLen(item.record))
	}
	q.gather.end(len(g.items))
	q.open, q.sealedTrim = nil, q.trim
	q.next += Window
	q.lastSeal, q.sealedOnce = now, true
	q.sealed = append(q.sealed, g)
}

// acked is the window below which everything is acknowledged, -1 if nothing is.
func (q *walQueue) acked() int64 {
	first := q.next
	if len(q.sealed) > 0 {
		first = q.sealed[0].window
	}
	if first == q.start {
		return -1
	}
	return first
}

// takeUploads returns the sealed groups whose upload may start, and marks them as started (WAL-5).
func (q *walQueue) takeUploads() []*walGroup {
	first := q.started
	for q.started < len(q.sealed) && q.sealed[q.started].window < q.sealed[0].window+q.limits.inflight*Window {
		q.started++
	}
	return slices.Clone(q.sealed[first:q.started])
}

// finish records that a group is stored, and returns the groups that are acknowledged by that, in order (WAL-6). A group
// whose proof is too old is not, nor is any after it: the error says so (WAL-12).
func (q *walQueue) finish(g *walGroup, now time.Time) (acked []*walGroup, err error) {
	g.uploaded = true
	for len(q.sealed) > 0 && q.sealed[0].uploaded {
		head := q.sealed[0]
		if err := q.checkAge(head, now); err != nil {
			return acked, err
		}
		q.sealed = q.sealed[1:]
		q.started--
		q.unflushed -= head.cost
		acked = append(acked, head)
	}
	if q.limits.batchInterval == 0 && len(q.sealed) == 0 {
		q.gather.begin(countItems(acked), countItems([]*walGroup{q.open}), now.Sub(q.lastSeal), now)
	}
	return acked, nil
}

// countItems is how many records groups have; nil has none.
func countItems(groups []*walGroup) int {
	n := 0
	for _, g := range groups {
		if g != nil {
			n += len(g.items)
		}
	}
	return n
}

// checkAge refuses a group whose proof has become too old, by either clock: one stops while a machine sleeps, the other
// moves when it is set.
func (q *walQueue) checkAge(g *walGroup, now time.Time) error {
	age := max(now.Sub(g.proof), now.Round(0).Sub(g.proof.Round(0)))
	if age > q.limits.maxPutAge {
		return fmt.Errorf("the node's epoch was last known to be current %v ago, at most %v are allowed", age, q.limits.maxPutAge)
	}
	return nil
}

// drain removes all records that are not acknowledged, in the order of submission, when the log has failed (WAL-11).
func (q *walQueue) drain() []*walItem {
	var items []*walItem
	for _, g := range q.sealed {
		items = append(items, g.items...)
	}
	if q.open != nil {
		items = append(items, q.open.items...)
	}
	q.open, q.sealed, q.started, q.unflushed = nil, nil, 0, 0
	return items
}

// setTrim raises the trim offset; a lower one changes nothing (WAL-19).
func (q *walQueue) setTrim(offset int64) { q.trim = max(q.trim, offset) }

// idle reports whether nothing is in flight.
func (q *walQueue) idle() bool { return q.open == nil && len(q.sealed) == 0 }
