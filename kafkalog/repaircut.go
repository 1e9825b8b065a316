package kafkalog

import (
	"fmt"
	"slices"
)

// A power cut may keep a batch and take the one in front of it. The next Open cuts the log at the first one that is missing, if
// that may not have been flushed: nothing behind it was acknowledged. A repair that comes first must not make a part of the log
// of what stands behind the hole. The producer of a lost batch sends it again, and would be refused, or would write what follows
// it a second time. The bytes are kept in the quarantine, and the log goes on behind the offsets that they had.

// cutUnproven takes what stands behind the first hole above what is proven out of the log. It returns the names that are left.
func (r *Repair) cutUnproven(names []string) []string {
	if r.options.Proven <= 0 {
		return names
	}
	proven := max(r.options.Proven, r.boundary(names))
	for i, s := range r.segments {
		if at, found := s.firstHole(proven); found {
			return r.cutBehind(i, at, names)
		}
	}
	return names
}

// boundary is the base of a segment below which everything is on disk, as a snapshot proves, or 0.
func (r *Repair) boundary(names []string) int64 {
	for _, s := range slices.Backward(r.segments[min(1, len(r.segments)):]) {
		name := fileName(s.base, snapshotSuffix)
		if !slices.Contains(names, name) {
			continue
		}
		if _, err := r.readSnapshot(name, s.base); err == nil {
			return s.base
		}
	}
	return 0
}

// hole is where a segment lacks what was written.
type hole struct {
	position, first int64
	epoch           int32 // of the batch in front of it, -1 without any
	reason          string
}

// firstHole returns the first hole at or above an offset. A batch that is put right is none, though a start cuts the log at it:
// its producer finds its records there.
func (s *repairSegment) firstHole(proven int64) (hole, bool) {
	for i := range s.regions {
		if g := &s.regions[i]; !g.isPutRight() && g.first >= proven {
			return hole{g.from, g.first, g.epoch, g.reason}, true
		}
	}
	if s.limit != never && s.limit > s.repair.Start && s.end >= proven && s.end < s.limit {
		return hole{s.size, s.end, s.epoch, fmt.Sprintf("the records of the offsets %d to %d are missing", s.end, s.limit-1)}, true
	}
	return hole{}, false
}

// cutBehind ends the log at a hole of the n-th segment, unless it does already.
func (r *Repair) cutBehind(n int, at hole, names []string) []string {
	s := r.segments[n]
	next := max(s.end, at.first) // behind all that goes
	later := r.segments[n+1:]
	if next == at.first && len(later) == 0 {
		return names
	}
	for _, gone := range later {
		next = max(next, gone.end)
		names = r.takeOut(gone, at.reason, names)
	}
	r.segments = r.segments[:n+1]
	names = r.takeOutSnapshots(at.first, names)
	if at.position < s.size {
		region := repairRegion{
			from: at.position, to: s.size, first: at.first, next: s.knownEnd(next), epoch: at.epoch, records: max(s.end-at.first, 0),
			reason: at.reason + "; it was not proved to be on disk, so what follows it was not acknowledged",
		}
		kept := slices.IndexFunc(s.regions, func(g repairRegion) bool { return g.from >= at.position })
		s.regions = append(s.regions[:kept], region)
	} else if s.fillTo = s.knownEnd(next); s.fillTo > at.first {
		r.add(RepairStep{Action: FillEnd, File: s.name, Position: s.size, First: at.first, Next: s.fillTo, Reason: at.reason})
	}
	s.batches = slices.DeleteFunc(s.batches, func(b repairBatch) bool { return b.position >= at.position })
	s.txns = slices.DeleteFunc(s.txns, func(t repairTxn) bool { return t.header.BaseOffset >= at.first })
	s.end, s.epoch, s.limit = at.first, at.epoch, never
	return names
}

// takeOut moves the files of a segment out of the log.
func (r *Repair) takeOut(s *repairSegment, reason string, names []string) []string {
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		name := fileName(s.base, suffix)
		if !slices.Contains(names, name) {
			continue
		}
		step := RepairStep{
			Action: SetAside, File: name, Reason: "it is behind a hole that was not proved to be on disk, so it was not acknowledged: " + reason,
		}
		if suffix == logSuffix {
			step.First, step.Next, step.Records = s.base, s.end, s.end-s.base
		}
		r.add(step)
		names = without(names, name)
	}
	return names
}

// takeOutSnapshots moves the snapshots of the producers above an offset out of the log: they know of batches that go.
func (r *Repair) takeOutSnapshots(above int64, names []string) []string {
	for _, name := range slices.Clone(names) {
		if offset, numbered := parseOffset(name); numbered && name == fileName(offset, snapshotSuffix) && offset > above {
			r.add(RepairStep{Action: SetAside, File: name, Reason: fmt.Sprintf("it knows of records above offset %d, which go", above)})
			names = without(names, name)
		}
	}
	return names
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}
