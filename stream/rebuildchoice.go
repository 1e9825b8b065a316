package stream

import (
	"cmp"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// choose decides which objects hold which records, and builds the metadata.
func (b *rebuilder) choose() {
	streams := b.sortedStreams()
	b.leaveUnclear(streams)
	c := newChoice(streams)
	c.settle(b.sortedObjects(), func(id catalog.StreamID) *foundStream { return b.streams[id] })
	b.made.NextStream = b.highestStream + 1 + skippedStreams
	b.made.NextObject = b.highestObject + 1 + skippedObjects
	for _, s := range streams {
		if chosen, ok := c.chains[s.id]; ok {
			b.takeStream(s, chosen)
		}
	}
	for _, o := range b.sortedObjects() {
		b.takeObject(c, o)
	}
	slices.SortFunc(b.made.Objects, func(x, y catalog.StreamObjectState) int {
		return cmp.Or(cmp.Compare(x.Stream, y.Stream), cmp.Compare(x.Start, y.Start))
	})
	b.sortReplaced(c)
	for _, l := range b.made.salvaged {
		l.first = b.made.NextObject
		b.made.NextObject += catalog.ObjectID(len(l.run))
	}
}

// takeStream adds the row of a stream. One that continues in a log is left open on that log's node, so that recovery
// takes its records.
func (b *rebuilder) takeStream(s *foundStream, chosen chain) {
	s.start, s.end = chosen.start, chosen.end
	row := catalog.Stream{ID: s.id, Epoch: max(s.epoch, s.dropped), Start: s.start, End: s.end, Node: b.Node}
	if s.log != nil {
		row.Epoch = max(s.epoch, s.log.epoch)
	}
	if s.goesOn() && s.log.to > s.end {
		if s.log.late {
			b.tellLate(s)
		}
		if s.log.salvaged {
			b.salvageFrom(s)
		} else {
			row.Opened, row.Node = true, s.log.node
		}
		b.made.LogEnds[s.id] = s.log.to
		b.made.LoggedRecords += s.log.records
		b.made.LoggedBytes += s.log.bytes
	}
	b.made.Streams = append(b.made.Streams, row)
}

// tellLate reports that no object has a stream's last records in a log of which the beginning is gone. So the log was not
// recovered, and it is not known that objects have what is gone.
func (b *rebuilder) tellLate(s *foundStream) {
	f := findStream(s.id)
	f.Node, f.Stops = s.log.node, true
	b.find(f, "the log was ended and its first objects are gone, as if it had been recovered and were being removed, but no object "+
		"has its records from %d to %d: either what was acknowledged in those objects of the log is lost, of this stream or of "+
		"others, or this stream was trimmed or deleted. The records are used", max(s.end, s.log.from), s.log.to)
}

// leaveUnclear looks for streams whose log continues after an ambiguous gap: either records that were trimmed, or ones
// that were never acknowledged, in which case those after it were not either. Leaving out what is unclear means leaving
// those out.
func (b *rebuilder) leaveUnclear(streams []*foundStream) {
	for _, s := range streams {
		if !s.goesOn() || s.log.proved || len(s.runs) == 0 {
			continue
		}
		if chosen, _ := s.chain(nil); len(chosen.runs) > 0 {
			continue // what an object holds was acknowledged, and so was everything before it
		}
		f := findStream(s.id)
		f.Stops = true
		b.find(f, "objects hold it from %d on, and the log of node %d continues after a gap, from %d to %d, with records of which it is unknown "+
			"whether they were acknowledged: either those before them were and are trimmed, or none was. The records of the log are "+
			"left out", s.runs[0].start, s.log.node, s.log.from, s.log.to)
		s.log, s.dropped = nil, s.log.epoch
	}
}

// takeObject adds the row of an object that is used, or of the copy of its used part.
func (b *rebuilder) takeObject(c *choice, o *foundObject) {
	used, unused := c.split(o)
	if len(used) == 0 {
		return
	}
	id, size := o.id, o.size
	if len(unused) > 0 {
		copied := RebuildCopy{From: o.id, To: b.made.NextObject}
		b.made.NextObject++
		for _, r := range used {
			copied.Ranges = append(copied.Ranges, r.asRange())
			size = 0 // until it is written
		}
		id = copied.To
		b.made.Copies = append(b.made.Copies, copied)
	}
	for _, component := range o.components {
		if linked := b.objects[component]; linked != nil {
			linked.linked = true
		}
	}
	if len(used) == 1 && (len(o.runs) == 1 || len(unused) > 0) {
		b.made.Objects = append(b.made.Objects, catalog.StreamObjectState{
			StreamObject: catalog.StreamObject{
				Object: id, Size: size, Stream: used[0].stream, Epoch: -1, Start: used[0].start, End: used[0].end,
				Attributes: catalog.NewAttributes(o.composite, 0, false),
			},
			DataMs: o.putMs,
		})
		return
	}
	set := catalog.StreamSetState{Object: id, Node: b.Node, Size: size, CommittedMs: o.putMs, DataMs: o.putMs}
	for _, r := range used {
		set.Ranges = append(set.Ranges, r.asRange())
	}
	b.made.Sets = append(b.made.Sets, set)
}

func (r *foundRun) asRange() catalog.Range {
	return catalog.Range{Stream: r.stream, Epoch: -1, Start: r.start, End: r.end, Size: r.size}
}

// sortReplaced classifies the objects that are not used: all of their records are held elsewhere, or lie below a gap.
func (b *rebuilder) sortReplaced(c *choice) {
	copied := map[catalog.ObjectID]bool{}
	for _, one := range b.made.Copies {
		copied[one.From] = true
	}
	for _, o := range b.sortedObjects() {
		used, _ := c.split(o)
		if o.linked || len(used) > 0 && !copied[o.id] {
			continue
		}
		below := len(o.runs) == 0
		for _, r := range o.runs {
			below = below || r.start < b.streams[r.stream].start
		}
		if !below {
			b.made.Replaced = append(b.made.Replaced, o.id)
		}
	}
}

// tell records findings about the streams for the operator.
func (b *rebuilder) tell() {
	for _, s := range b.sortedStreams() {
		below, first := 0, int64(-1)
		for _, r := range s.runs {
			if r.start < s.start {
				below++
				if first < 0 {
					first = r.start
				}
			}
		}
		if below == 0 {
			continue
		}
		f := findStream(s.id)
		b.find(f, "it begins at %d; runs of records from %[3]d on (%[2]d) do not join what follows, so they were trimmed, or an object is "+
			"lost: they are left alone", s.start, below, first)
	}
}
