package stream

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// foundLog describes the records of a stream's newest epoch in the log of a node, from from to to without a gap.
type foundLog struct {
	node     catalog.NodeID
	epoch    int64
	from, to int64
	records  int64
	bytes    int64
	// torn are ends of the stream's runs that lie inside a record: recovery cannot continue there.
	torn map[int64]bool
	// broken reports that a record is missing at to, so that everything after it is lost.
	broken bool
	// salvaged reports that the log is damaged somewhere, and that its records are copied into objects.
	salvaged bool
	// proved reports that no record of an earlier object of the log can be missing before from. Otherwise the objects
	// that exist may have been sent together with the first of the epoch, which never arrived: then nothing in them was
	// acknowledged.
	proved bool
	// late reports that the log was ended and its first objects are gone, as if it had been recovered and were being
	// removed. If that is so, data objects have all of its records.
	late bool
}

// readLogs finds the logs of all nodes of the cluster, and which parts were not drained.
func (b *rebuilder) readLogs(ctx context.Context) error {
	logs := map[WALPrefix][]objstore.Info{}
	clusters := map[string]int{}
	listed, err := listAll(ctx, b.WAL, "")
	if err != nil {
		return err
	}
	for _, info := range listed {
		prefix, found, err := ParseWALPrefix(info.Key)
		switch {
		case err != nil:
			if err := b.damage(findNode(-1, info.Key), err); err != nil {
				return err
			}
		case found:
			logs[prefix] = append(logs[prefix], info)
			clusters[prefix.Cluster]++
		}
	}
	if err := b.pickCluster(clusters); err != nil {
		return err
	}
	for _, prefix := range slices.SortedFunc(maps.Keys(logs), func(a, b WALPrefix) int { return int(a.Node) - int(b.Node) }) {
		if prefix.Cluster != b.made.Cluster {
			continue
		}
		if err := b.readLog(ctx, prefix, logs[prefix]); err != nil {
			return err
		}
	}
	return nil
}

// pickCluster decides which cluster's logs are read.
func (b *rebuilder) pickCluster(clusters map[string]int) error {
	names := slices.Sorted(maps.Keys(clusters))
	if b.made.Cluster == "" {
		if len(names) > 1 {
			return fmt.Errorf("the bucket has logs of several clusters, %s: say which one is meant", strings.Join(names, ", "))
		}
		if len(names) == 1 {
			b.made.Cluster = names[0]
		}
	}
	for _, name := range names {
		if name != b.made.Cluster {
			b.find(findStream(-1), "logs of cluster %s are left alone: %d objects", name, clusters[name])
		}
	}
	return nil
}

// nodeLog is the log of a node while it is read.
type nodeLog struct {
	*rebuilder
	prefix  WALPrefix
	keys    []string // of all its objects that are of a known form
	state   catalog.NodeState
	surveys map[int64]*walSurvey // by the epoch in the key
	highest int64                // window of any object, or -Window
	bad     bool                 // it cannot be recovered
	lost    int64                // records after damage
	run     []walObject          // that were read
	trim    int64
	late    bool // as in foundLog
	streams map[catalog.StreamID]*foundLog
}

// readLog determines what a node's log shows: the epochs, where the log of the newest begins, and its records that are
// not trimmed.
func (b *rebuilder) readLog(ctx context.Context, prefix WALPrefix, listed []objstore.Info) error {
	l := &nodeLog{
		rebuilder: b, prefix: prefix, state: catalog.NodeState{ID: prefix.Node, Slots: 1, WALEpoch: -1}, highest: -Window,
		surveys: map[int64]*walSurvey{}, streams: map[catalog.StreamID]*foundLog{},
	}
	if err := l.readHeaders(ctx, listed); err != nil {
		return err
	}
	l.state.WALStart = l.highest + Window // closed cleanly: nothing to recover
	if err := l.readNewest(ctx); err != nil {
		return err
	}
	if l.bad {
		l.salvage()
	}
	b.made.Nodes = append(b.made.Nodes, l.state)
	return nil
}

// salvage treats a log that cannot be recovered as one that was closed cleanly. What can be read of it and continues
// where objects end is copied.
func (l *nodeLog) salvage() {
	records, bytes := int64(0), int64(0)
	for _, found := range l.streams {
		records, bytes, found.salvaged = records+found.records, bytes+found.bytes, true
	}
	f := findNode(l.prefix.Node, l.prefix.String())
	f.Stops = true
	l.find(f, "the log is damaged: what can be read of it without gaps (records: %d, bytes: %d, streams: %d) is copied into objects unless "+
		"others hold it; left out are records behind gaps (%d) and whatever cannot be read. The objects of the log are kept under %s",
		records, bytes, len(l.streams), l.lost, SalvagedPrefix)
	l.state.WALEpoch, l.state.WALStart = -1, l.highest+Window
	l.made.salvaged = append(l.made.salvaged, &salvagedLog{
		prefix: l.prefix, keys: l.keys, run: l.run, trim: l.trim, want: map[catalog.StreamID]salvagedRun{},
	})
}

// readHeaders reads the header of every object of the log.
func (l *nodeLog) readHeaders(ctx context.Context, listed []objstore.Info) error {
	t := walTakeover{store: l.WAL, prefix: l.prefix}
	objects, errs := make([]walObject, len(listed)), make([]error, len(listed))
	if err := parallel.Each(ctx, len(listed), headerReaders, func(i int) {
		objects[i], errs[i] = t.readHeader(ctx, listed[i].Key, listed[i].Size)
	}); err != nil {
		return err
	}
	for i, o := range objects {
		key, err := l.prefix.Parse(listed[i].Key)
		if err != nil {
			l.refuse(findNode(l.prefix.Node, listed[i].Key), err)
			continue
		}
		l.keys = append(l.keys, listed[i].Key)
		l.state.Epoch = max(l.state.Epoch, key.Epoch)
		l.highest = max(l.highest, key.Start)
		if errs[i] != nil {
			l.bad = true
			if err := l.damage(findNode(l.prefix.Node, listed[i].Key), errs[i]); err != nil {
				return err
			}
			continue
		}
		l.state.Epoch = max(l.state.Epoch, o.header.Epoch)
		if l.surveys[key.Epoch] == nil {
			l.surveys[key.Epoch] = &walSurvey{own: map[int64]walObject{}, fences: map[int64]walObject{}, trim: -1}
		}
		l.surveys[key.Epoch].add(o, key.Epoch)
	}
	return nil
}

// readNewest reads the log of the newest epoch: all older ones were committed before it was opened (WAL-24).
func (l *nodeLog) readNewest(ctx context.Context) error {
	if len(l.surveys) == 0 {
		return nil
	}
	epoch := slices.Max(slices.Collect(maps.Keys(l.surveys)))
	s := l.surveys[epoch]
	fence, fenced := s.fence()
	if fenced { // objects above it are dead, and are kept as long as it is
		maps.DeleteFunc(s.own, func(window int64, _ walObject) bool { return window > fence.header.Start })
	}
	if len(s.own) == 0 {
		return nil // nothing was acknowledged in it, or everything was drained
	}
	lowest := slices.Min(slices.Collect(maps.Keys(s.own)))
	start, proved := lowest, lowest == 0
	known, ok := l.startOf(epoch)
	if ok && known <= lowest {
		proved = known == lowest || s.trim >= 0
		if !proved && !fenced { // its first object is never trimmed
			f := findNode(l.prefix.Node, l.prefix.Key(WALKey{Epoch: epoch, Start: known}))
			f.Stops = true
			l.find(f, "the log of epoch %d began at %d according to the fence before it, but no object exists there, only others from %d on: "+
				"either none of those was acknowledged, or the first object was and is lost. They are used", epoch, known, lowest)
		}
	}
	if s.trim >= 0 { // the window of the trim offset was acknowledged
		start, proved = min(start, s.trim-s.trim%Window), true
	}
	// What is left of a log that was ended and recovered is removed from its beginning on. If that is under way it begins at what is
	// left: all of it is in objects, and no later part can be missing before an earlier one.
	removing := fenced && lowest > s.first(start)
	if removing {
		start, proved = lowest, false
	}
	l.late = removing || fenced && !proved && ok && known < lowest
	l.state.WALEpoch, l.state.WALStart = epoch, start
	t := walTakeover{store: l.WAL, prefix: l.prefix, ended: epoch}
	if !proved && !removing && !(ok && known < lowest) {
		var err error
		if proved, err = l.proveStart(ctx, &t, s, lowest); err != nil {
			return err
		}
	}
	window := s.first(start)
	for ; ; window += Window {
		o, own := s.own[window]
		if !own {
			break
		}
		l.run = append(l.run, o)
	}
	if err := t.checkGap(ctx, *s, window); err != nil {
		l.bad = true
		if err := l.damage(findNode(l.prefix.Node, l.prefix.Key(WALKey{Epoch: epoch, Start: window})), err); err != nil {
			return err
		}
	}
	if l.bad {
		l.run = s.from(s.first(start)) // what may have been acknowledged
	}
	l.trim = s.trim
	return l.readRecords(ctx, proved)
}

// proveStart uses marks to check that a log of which nothing is trimmed was acknowledged from its lowest object on. If
// that object has a mark itself, a lower one was acknowledged and is gone. Then the log is damaged, unless it was ended:
// the remains of a recovered log are removed from the beginning.
func (l *nodeLog) proveStart(ctx context.Context, t *walTakeover, s *walSurvey, lowest int64) (proved bool, err error) {
	acked, says, err := readMark(ctx, l.WAL, s.own[lowest])
	if err == nil && says {
		if _, ended := s.fence(); ended {
			l.late = true
			return false, nil
		}
		l.bad = true
		return false, l.damage(findNode(l.prefix.Node, s.own[lowest].key), t.gap(acked-Window, lowest))
	}
	if err == nil {
		acked, says, _, err = t.newestMark(ctx, s.from(lowest))
	}
	return says && acked > lowest, l.damage(findNode(l.prefix.Node, l.prefix.String()), err)
}

// startOf returns where the log of an epoch begins, according to the fence with which it ended the previous one (3.6). A
// fence of any other epoch does not show that: that one may have opened a log of its own after it and closed it cleanly.
func (l *nodeLog) startOf(epoch int64) (start int64, known bool) {
	before := int64(-1)
	for older := range l.surveys {
		if older < epoch {
			before = max(before, older)
		}
	}
	if before < 0 {
		return 0, false
	}
	fence, fenced := l.surveys[before].fence()
	if !fenced || fence.header.Epoch != epoch {
		return 0, false
	}
	return fence.header.Start + Window, true
}

// fence returns the fence that ended the epoch: the lowest one that is not stale (WAL-13).
func (s *walSurvey) fence() (fence walObject, fenced bool) {
	for _, window := range slices.Sorted(maps.Keys(s.fences)) {
		if window > s.trim {
			return s.fences[window], true
		}
	}
	return walObject{}, false
}

// rebuildAhead is how many bytes of a log are read ahead.
const rebuildAhead = 64 << 20

// readRecords reads the records of the log, object by object. A damaged object is skipped.
func (l *nodeLog) readRecords(ctx context.Context, proved bool) error {
	reading := ""
	err := readWALAhead(ctx, l.WAL, l.run, rebuildAhead, func(o walObject, data []byte) error {
		reading = o.key
		h, frames, err := DecodeWALObject(o.key, data)
		if err == nil && h != o.header {
			err = source{object: o.key}.differs("WAL header", o.header, h)
		}
		if err != nil {
			l.bad = true
			return l.damage(findNode(l.prefix.Node, o.key), err)
		}
		for _, f := range frames {
			if f.Padding || f.Record.IsSentinel() || f.Record.IsMark() || f.Offset <= l.trim {
				continue
			}
			if err := l.record(o.key, f, proved); err != nil {
				l.bad = true
				if err := l.damage(findNode(l.prefix.Node, o.key), err); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return l.damage(findNode(l.prefix.Node, reading), err)
}

// record handles a record of the log, in the order of the log.
func (l *nodeLog) record(key string, f Frame, proved bool) error {
	r := f.Record
	if err := r.CheckAppend(); err != nil {
		return &CorruptError{Object: key, Position: f.Offset, What: err.Error()}
	}
	found := l.streams[r.Stream]
	switch {
	case found == nil || r.Epoch > found.epoch: // an earlier epoch's records were committed when it ended
		found = &foundLog{
			node: l.prefix.Node, epoch: r.Epoch, from: r.Base, to: r.Base, torn: map[int64]bool{}, proved: proved, late: l.late,
		}
		l.streams[r.Stream] = found
		if s := l.stream(r.Stream); s.log == nil || s.log.epoch < r.Epoch {
			s.log = found
		}
	case r.Epoch < found.epoch:
		return nil
	case found.broken:
		l.lost++
		return nil
	case r.Base != found.to:
		l.lost++
		found.broken = true
		return &CorruptError{
			Object: key, Position: f.Offset, What: fmt.Sprintf("record of stream %d", r.Stream), Want: fmt.Sprint(found.to),
			Got: fmt.Sprint(r.Base),
		}
	}
	found.to, found.records, found.bytes = r.End(), found.records+1, found.bytes+int64(len(r.Payload))
	if r.Count == 1 {
		return nil
	}
	ends := l.stream(r.Stream).ends
	first, _ := slices.BinarySearch(ends, r.Base+1)
	for _, end := range ends[first:] {
		if end >= r.End() {
			break
		}
		found.torn[end] = true
	}
	return nil
}
