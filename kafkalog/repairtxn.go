package kafkalog

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// A transaction ends with a marker, a batch of 78 bytes that may be among what is lost. Without it the transaction stays open:
// readers of committed records wait before it forever, and the next marker of its producer ends it together with
// another one.
//
// What stood there is known if the index of aborted transactions says so, or if a snapshot of the producers behind the damage
// says that the transaction had ended, or that index that the next one had begun, and the index was durable then, so that it was
// committed. Such a marker is restored where it was. The outcome of the others is unknown; whoever runs the log decides
// what happens to them.
//
// A snapshot is written once everything before it is durable, but not by a Kafka broker: that rolls with a snapshot on disk, and
// syncs the segment and its index of aborted transactions after that. A power cut in between leaves an abort that looks like a commit.

// TransactionEnd says what a repair does about the end of a transaction.
type TransactionEnd string

const (
	// PutBackEnd rewrites the marker that was lost, at the offsets that were lost with it.
	PutBackEnd TransactionEnd = "put back"
	// AbortAtEnd writes a marker at the end of the log that aborts the transaction, since [RepairOptions].Abort selects
	// it.
	AbortAtEnd TransactionEnd = "abort"
	// StaysOpen does nothing: readers of committed records stop before the transaction.
	StaysOpen TransactionEnd = "stays open"
)

// RepairTransaction is a transaction whose end is lost, or that is open.
type RepairTransaction struct {
	End              TransactionEnd
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32 // of the producer's last marker, and of the one that is written; -1 if there was none
	First            int64 // offset of its first batch
	Marker           int64 // offset of the marker that is written, -1 if none is
	Commit           bool  // the marker says so; else it aborts

	// Lost says that offsets behind the transaction's beginning are lost, so that its end may have been among them. If it is
	// false nothing shows that the transaction had ended.
	Lost bool
	// Reason says what proves the marker that is restored.
	Reason string
}

// repairTxn is a batch of a transaction: records, or the marker of its end.
type repairTxn struct {
	header  batch.Header
	control batch.ControlRecord
	marker  bool
}

// noteTransaction remembers a whole batch if it is of a transaction.
func (s *repairSegment) noteTransaction(b batch.Batch, h batch.Header) {
	if h.Magic != batch.Magic || !h.HasProducer() || !h.IsTransactional() && !h.IsControl() {
		return
	}
	t := repairTxn{header: h}
	if h.IsControl() {
		control, found, err := b.Control()
		if err != nil || !found || !control.EndsTransaction() {
			return
		}
		t.control, t.marker = control, true
	}
	s.txns = append(s.txns, t)
}

// repairHole is a stretch of offsets that are lost, and the markers that are written into it.
type repairHole struct {
	first, next int64
	epoch       int32
	taken       map[int64]bool            // offsets of markers that are restored, or known to have been there
	markers     *[]batch.EndMarkerOptions // by rising offset
	segment     int64                     // its base
	abortsKnown bool                      // the index of aborted transactions can be read
}

// holes returns the segment's, in order.
func (s *repairSegment) holes(abortsKnown bool) (holes []*repairHole) {
	for i := range s.regions {
		if g := &s.regions[i]; !g.isPutRight() && g.next > g.first {
			holes = append(holes, &repairHole{
				first: g.first, next: g.next, epoch: g.epoch, taken: map[int64]bool{}, markers: &g.markers, segment: s.base,
				abortsKnown: abortsKnown,
			})
		}
	}
	if s.fillsBehind() {
		holes = append(holes, &repairHole{
			first: s.end, next: s.fillTo, epoch: s.epoch, taken: map[int64]bool{}, markers: &s.fillMarkers, segment: s.base,
			abortsKnown: abortsKnown,
		})
	}
	return holes
}

// freeBelow returns the last offset below a limit that no marker has, and false if there is none. The last, so that those before it
// are left for markers with a lower limit.
func (h *repairHole) freeBelow(limit int64) (int64, bool) {
	offset := min(h.next, limit) - 1
	for h.taken[offset] {
		offset--
	}
	return offset, offset >= h.first
}

// repairSnapshot is what was known of the producers at an offset.
type repairSnapshot struct {
	offset  int64
	entries []ProducerSnapshotEntry
}

// txnSurvey follows the transactions of a log that is going to be repaired.
type txnSurvey struct {
	repair    *Repair
	state     *producerState
	snapshots []repairSnapshot // not passed yet, rising
	durable   int64            // everything below was on disk, the indexes of aborted transactions included
	holes     []*repairHole    // passed
}

// settleTransactions finds the markers that can be restored, and the transactions that are open afterwards. It follows
// the log as the next opening will.
func (r *Repair) settleTransactions(names []string) {
	v := &txnSurvey{repair: r, state: newProducerState()}
	v.readSnapshots(names)
	for i, s := range r.segments {
		v.advance(s.base)
		if i > 0 {
			v.begin(s.base, names)
		}
		aborted, known := r.abortedIn(s, names)
		v.segment(s, aborted, known)
	}
	v.advance(r.End)
	r.settleOpen(v)
}

// readSnapshots reads those that can be read and that a log with this start would look at. What is wrong with others is found with
// the other files beside the records.
func (v *txnSurvey) readSnapshots(names []string) {
	r := v.repair
	for _, name := range names {
		offset, numbered := parseOffset(name)
		if !numbered || name != fileName(offset, snapshotSuffix) || offset <= r.Start || offset > r.End {
			continue
		}
		if entries, err := r.readSnapshot(name, offset); err == nil {
			v.snapshots = append(v.snapshots, repairSnapshot{offset, entries})
		}
	}
	slices.SortFunc(v.snapshots, func(a, b repairSnapshot) int { return cmp.Compare(a.offset, b.offset) })
	v.durable = r.options.Flushed
	if n := len(v.snapshots); n > 0 {
		v.durable = max(v.durable, v.snapshots[n-1].offset)
	}
}

// errUnprovenSnapshot is what is wrong with a snapshot that may speak of what a power cut took, as a commit or an abort.
var errUnprovenSnapshot = errors.New("a Kafka broker may have written it before what is lost in front of it was on disk")

// readSnapshot returns the producers of a snapshot that can be believed.
func (r *Repair) readSnapshot(name string, offset int64) ([]ProducerSnapshotEntry, error) {
	entries, err := ReadSnapshotFile(r.fs, path.Join(r.Dir, name))
	if err == nil && r.options.Foreign && offset > r.options.Flushed && r.losesBelow(offset) {
		return nil, errUnprovenSnapshot
	}
	return entries, err
}

// losesBelow reports whether offsets below one are lost.
func (r *Repair) losesBelow(offset int64) bool {
	return slices.ContainsFunc(r.segments, func(s *repairSegment) bool {
		return slices.ContainsFunc(s.holes(true), func(h *repairHole) bool { return h.first < offset })
	})
}

// abortedIn returns what the index of a segment says of aborted transactions, and false if it cannot be used.
func (r *Repair) abortedIn(s *repairSegment, names []string) ([]AbortedTxn, bool) {
	name := fileName(s.base, txnIndexSuffix)
	if !slices.Contains(names, name) {
		return nil, true
	}
	full := path.Join(r.Dir, name)
	if err := openTxnIndex(r.env.files.open(full, vfs.ReadOnly), s.base).verify(); err != nil {
		return nil, false
	}
	aborted, err := ReadTxnIndexFile(r.fs, full)
	return aborted, err == nil
}

// begin has the next opening begin with the snapshot at the base of a segment, if there is one.
func (v *txnSurvey) begin(base int64, names []string) {
	name := fileName(base, snapshotSuffix)
	if !slices.Contains(names, name) {
		return
	}
	entries, err := v.repair.readSnapshot(name, base)
	if err != nil {
		return
	}
	v.state.clear()
	if base > v.repair.Start {
		v.state.load(entries, 0, never)
	}
}

// segment follows the transactions through one segment.
func (v *txnSurvey) segment(s *repairSegment, aborted []AbortedTxn, known bool) {
	txns := s.txns
	ended := make(map[int64]AbortedTxn, len(aborted)) // by the offset of the marker
	for _, a := range aborted {
		ended[a.LastOffset] = a
	}
	for _, hole := range s.holes(known) {
		for len(txns) > 0 && txns[0].header.BaseOffset < hole.first {
			v.take(s, txns[0], ended)
			txns = txns[1:]
		}
		v.advance(hole.first)
		v.holes = append(v.holes, hole)
		var lost []AbortedTxn
		for _, a := range aborted {
			if a.LastOffset >= hole.first && a.LastOffset < hole.next && !hole.taken[a.LastOffset] {
				hole.taken[a.LastOffset] = true
				lost = append(lost, a)
			}
		}
		for _, a := range lost {
			if v.began(s, a) {
				v.putBack(hole, v.saidNext(a.ProducerID, hole.next), RepairTransaction{
					ProducerID: a.ProducerID, First: a.FirstOffset, Marker: a.LastOffset, Reason: "by the index of aborted transactions",
				})
			}
		}
	}
	for _, t := range txns {
		v.take(s, t, ended)
	}
}

// take takes in a batch that is whole, given the transactions that the index of its segment says were aborted, by the offsets of
// their markers.
func (v *txnSurvey) take(s *repairSegment, t repairTxn, aborted map[int64]AbortedTxn) {
	v.advance(t.header.BaseOffset)
	if !t.marker {
		_, _ = v.state.append(&t.header) // a batch that contradicts the state changes nothing, as when the log is opened
		return
	}
	if a, found := aborted[t.header.BaseOffset]; found && a.ProducerID == t.header.ProducerID {
		v.began(s, a)
	}
	v.state.appendMarker(&t.header, t.control)
}

// began looks for the end of the transaction of a producer before the one that the index of a segment says was aborted. It is false
// if there is none: the marker of this one would then end both.
func (v *txnSurvey) began(s *repairSegment, a AbortedTxn) bool {
	v.compare(a.LastOffset, s, ProducerSnapshotEntry{ProducerID: a.ProducerID, LastOffset: a.FirstOffset, TxnFirstOffset: a.FirstOffset},
		fmt.Sprintf("by the index of aborted transactions, where the next one of its producer begins at offset %d", a.FirstOffset))
	known, found := v.state.entry(a.ProducerID)
	return !found || known.TxnFirstOffset < 0 || known.TxnFirstOffset >= a.FirstOffset
}

// advance holds the state against the snapshots up to an offset.
func (v *txnSurvey) advance(offset int64) {
	for len(v.snapshots) > 0 && v.snapshots[0].offset <= offset {
		s := v.snapshots[0]
		v.snapshots = v.snapshots[1:]
		for _, said := range s.entries {
			v.compare(s.offset, nil, said, fmt.Sprintf("by the snapshot of the producers at offset %d, which knows of its end", s.offset))
		}
	}
}

// compare looks for the end of a transaction that is open by the records, and is not, or not from the same offset on, by what is
// said of its producer at an offset: by a snapshot, or by the index of a segment, of which it has the next transaction's marker
// there. reason is who says so.
func (v *txnSurvey) compare(at int64, index *repairSegment, said ProducerSnapshotEntry, reason string) {
	known, _ := v.state.entry(said.ProducerID)
	first := known.TxnFirstOffset
	if v.state.producers[said.ProducerID] == nil || first < 0 || said.TxnFirstOffset == first {
		return
	}
	after, before := known.LastOffset, at
	if said.TxnFirstOffset >= 0 { // another one had begun by then
		after, before = first, said.TxnFirstOffset
	}
	for _, hole := range slices.Backward(v.holes) {
		marker, free := hole.freeBelow(before)
		if hole.first <= after || !hole.abortsKnown || !free {
			continue
		}
		if hole.next > before && index == nil { // where the next one begins for the next opening is not known
			continue
		}
		if hole.next > v.durable && (index == nil || hole.segment != index.base) {
			continue // the index may have lost an abort; what it has of its own segment came after that
		}
		v.putBack(hole, said, RepairTransaction{
			ProducerID: said.ProducerID, First: first, Marker: marker, Commit: true, Reason: reason,
		})
		if said.TxnFirstOffset >= 0 {
			v.state.producers[said.ProducerID].txnFirst = said.TxnFirstOffset
			v.state.begin(openTxn{first: said.TxnFirstOffset, producerID: said.ProducerID})
		}
		return
	}
}

// saidNext returns what the next snapshot at or behind an offset says of a producer.
func (v *txnSurvey) saidNext(producer, offset int64) ProducerSnapshotEntry {
	for _, s := range v.snapshots {
		i := slices.IndexFunc(s.entries, func(e ProducerSnapshotEntry) bool { return e.ProducerID == producer })
		if s.offset >= offset && i >= 0 {
			return s.entries[i]
		}
	}
	return ProducerSnapshotEntry{ProducerID: -1}
}

// putBack plans a marker in the place of one that is lost. said is what a snapshot behind it says of the producer, if there is
// one: epochs and time, unless the producer had gone on by then. Coordinators may raise the producer's epoch with the marker.
func (v *txnSurvey) putBack(hole *repairHole, said ProducerSnapshotEntry, t RepairTransaction) {
	t.End, t.Lost = PutBackEnd, true
	timestamp := v.repair.env.nowMs()
	if known, found := v.state.entry(t.ProducerID); found {
		t.ProducerEpoch, t.CoordinatorEpoch, timestamp = known.ProducerEpoch, max(known.CoordinatorEpoch, 0), known.Timestamp
	}
	if said.ProducerID == t.ProducerID && said.TxnFirstOffset < 0 && said.LastOffset < t.Marker {
		t.ProducerEpoch, t.CoordinatorEpoch, timestamp = said.ProducerEpoch, max(said.CoordinatorEpoch, 0), said.Timestamp
	}
	m := batch.EndMarkerOptions{
		BaseOffset: t.Marker, LeaderEpoch: hole.epoch, ProducerID: t.ProducerID, ProducerEpoch: t.ProducerEpoch,
		Commit: t.Commit, CoordinatorEpoch: t.CoordinatorEpoch, Timestamp: timestamp,
	}
	i, _ := slices.BinarySearchFunc(*hole.markers, t.Marker, func(m batch.EndMarkerOptions, offset int64) int { return cmp.Compare(m.BaseOffset, offset) })
	*hole.markers = slices.Insert(*hole.markers, i, m)
	hole.taken[t.Marker] = true
	h := batch.EndMarker(m).Header()
	v.state.appendMarker(&h, batch.ControlRecord{Type: markerType(t.Commit), CoordinatorEpoch: t.CoordinatorEpoch})
	v.repair.Transactions = append(v.repair.Transactions, t)
}

func markerType(commit bool) batch.ControlType {
	if commit {
		return batch.Commit
	}
	return batch.Abort
}

// settleOpen says what becomes of the transactions that are open at the end.
func (r *Repair) settleOpen(v *txnSurvey) {
	for _, open := range v.state.ongoing {
		known, _ := v.state.entry(open.producerID)
		t := RepairTransaction{
			End: StaysOpen, ProducerID: open.producerID, ProducerEpoch: known.ProducerEpoch, CoordinatorEpoch: known.CoordinatorEpoch,
			First: open.first, Marker: -1,
			Lost: slices.ContainsFunc(v.holes, func(h *repairHole) bool { return h.first > open.first }),
		}
		if r.options.Abort != nil && r.options.Abort(open.producerID) {
			// The epoch that Kafka's own tool gives the marker of a producer that never had one.
			t.End, t.CoordinatorEpoch, t.Marker = AbortAtEnd, max(t.CoordinatorEpoch, 0), r.End
			r.End++
		}
		r.Transactions = append(r.Transactions, t)
	}
}

// aborts reports whether a transaction is to be aborted.
func (r *Repair) aborts() bool {
	return slices.ContainsFunc(r.Transactions, func(t RepairTransaction) bool { return t.End == AbortAtEnd })
}

// abort ends open transactions, with the markers that a transaction coordinator would have written.
func (r *Repair) abort(l *Log) error {
	epoch, known := l.LatestEpoch()
	if !known {
		epoch = -1
	}
	for _, t := range r.Transactions {
		if t.End != AbortAtEnd {
			continue
		}
		found, _ := l.ProducerStateEntry(t.ProducerID)
		if found.TxnFirstOffset != t.First || l.LogEnd() != t.Marker {
			return &CorruptionError{Path: r.Dir, Reason: fmt.Sprintf("the transaction of producer %d that begins at %d is not as it was",
				t.ProducerID, t.First)}
		}
		marker := batch.EndMarker(batch.EndMarkerOptions{
			ProducerID: t.ProducerID, ProducerEpoch: found.ProducerEpoch, CoordinatorEpoch: t.CoordinatorEpoch, Timestamp: r.env.nowMs(),
		})
		if _, err := l.Append(marker, AppendOptions{LeaderEpoch: epoch, Origin: Coordinator}); err != nil {
			return err
		}
	}
	return nil
}
