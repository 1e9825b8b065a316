package stream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// checkLogs checks the write-ahead log of every node that has one or should.
func (c *checker) checkLogs(ctx context.Context, v catalog.View) error {
	nodes := map[catalog.NodeID]bool{}
	for s := range v.Streams() {
		if s.Opened {
			nodes[s.Node] = true
		}
	}
	for info, err := range listEach(ctx, c.WAL, "") {
		if err != nil {
			return err
		}
		if node, ok := c.logOf(info.Key); ok {
			nodes[node] = true
		}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if err := c.checkLog(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// logOf returns the node whose log a key of this cluster belongs to.
func (c *checker) logOf(key string) (catalog.NodeID, bool) {
	_, rest, _ := strings.Cut(key, "/_kafka_"+c.Cluster+"/")
	text, _, _ := strings.Cut(rest, "/")
	node, err := strconv.ParseInt(text, 10, 32)
	prefix := WALPrefix{Cluster: c.Cluster, Node: catalog.NodeID(node)}
	return prefix.Node, err == nil && strings.HasPrefix(key, prefix.String())
}

// logLooks is how often a log is checked again whose objects vanish meanwhile, since its writer deletes committed ones,
// or in which a window seems to be missing: a listing is not a snapshot, and the object may have been written after it.
const logLooks = 5

// checkLog checks one node's log. Findings are reported once a check was not disturbed.
func (c *checker) checkLog(ctx context.Context, node catalog.NodeID) error {
	for look := 0; ; look++ {
		l := logCheck{checker: c, prefix: WALPrefix{Cluster: c.Cluster, Node: node}, last: look >= logLooks}
		err := l.look(ctx)
		var gap *WALGapError
		if (errors.Is(err, errVanished) || errors.As(err, &gap)) && !l.last {
			continue
		}
		if err != nil {
			return err
		}
		for _, report := range l.found {
			if err := report(); err != nil {
				return err
			}
		}
		return nil
	}
}

// logCheck is one attempt to check a node's log.
type logCheck struct {
	*checker
	prefix WALPrefix
	last   bool           // no other attempt follows
	found  []func() error // reports to make at the end of the attempt
	survey walSurvey      // of the epoch that has the log
	// fenced are the windows of the lowest fences of ended epochs: objects above a fence are kept as long as it is.
	fenced map[int64]int64
	left   []leftObject
}

// leftObject is an object of an epoch that has ended.
type leftObject struct {
	WALKey
	key string
}

func (l *logCheck) note(key string, kind FindingKind, format string, args ...any) {
	l.found = append(l.found, func() error { return l.report(aboutNode(l.prefix.Node, key), kind, format, args...) })
}

// look lists the objects first, so that metadata is newer and has committed everything that was trimmed.
func (l *logCheck) look(ctx context.Context) error {
	listed, err := listAll(ctx, l.WAL, l.prefix.String())
	if err != nil {
		return err
	}
	state, registered := l.Catalog.View().Node(l.prefix.Node)
	if !registered {
		if len(listed) > 0 {
			l.note(l.prefix.String(), FoundForeignLog, "it has %d objects", len(listed))
		}
		return nil
	}
	l.survey = walSurvey{own: map[int64]walObject{}, fences: map[int64]walObject{}, trim: -1}
	l.fenced = map[int64]int64{}
	for _, info := range listed {
		if err := l.object(ctx, state, info); err != nil {
			return err
		}
	}
	for _, o := range l.left {
		if fence, fenced := l.fenced[o.Epoch]; !fenced || o.Start < fence {
			l.note(o.key, FoundLeftover, "epoch %d has the log", state.WALEpoch)
		}
	}
	if state.WALEpoch < 0 {
		return nil // closed cleanly: nothing is needed
	}
	l.checkTrims()
	return l.checkRun(ctx, state)
}

// object checks one object, and adds it to the survey if it belongs to the epoch that has the log.
func (l *logCheck) object(ctx context.Context, state catalog.NodeState, info objstore.Info) error {
	key, err := l.prefix.Parse(info.Key)
	switch {
	case err != nil:
		l.note(info.Key, FoundUnknownKey, "%v", err)
		return nil
	case key.Epoch > state.Epoch:
		l.note(info.Key, FoundFutureEpoch, "the node is in epoch %d", state.Epoch)
		return nil
	case key.Epoch != state.WALEpoch:
		return l.oldObject(ctx, state, key, info)
	}
	h, err := l.header(ctx, info)
	if err == nil {
		err = h.Check(info.Key, l.prefix.Node, key, info.Size)
	}
	if err != nil {
		return l.noteBad(info.Key, err)
	}
	l.survey.add(walObject{key: info.Key, size: info.Size, header: h}, key.Epoch)
	return nil
}

func (l *logCheck) header(ctx context.Context, info objstore.Info) (WALHeader, error) {
	return readWALHeader(ctx, l.WAL, info.Key, info.Size)
}

// oldObject checks an object of an ended epoch. Once another epoch has the log, everything but fences and the objects
// above them should be gone.
func (l *logCheck) oldObject(ctx context.Context, state catalog.NodeState, key WALKey, info objstore.Info) error {
	if key.Epoch > state.WALEpoch {
		return nil // its log was closed cleanly, or is about to be opened
	}
	h, err := l.header(ctx, info)
	if err != nil {
		return l.noteBad(info.Key, err)
	}
	if h.Epoch <= key.Epoch {
		l.left = append(l.left, leftObject{key, info.Key})
	} else if fence, fenced := l.fenced[key.Epoch]; !fenced || key.Start < fence {
		l.fenced[key.Epoch] = key.Start
	}
	return nil
}

// noteBad records an error that describes a fault of an object, and returns any other.
func (l *logCheck) noteBad(key string, err error) error {
	var version *VersionError
	var recover *RecoverError
	switch {
	case errors.As(err, &version):
		l.note(key, FoundUnknownVersion, "%v", err)
	case errors.Is(err, ErrCorrupt):
		l.note(key, FoundBadWAL, "%v", err)
	case errors.As(err, &recover):
		l.note(key, FoundBadRecovery, "%v", err)
	default:
		return err
	}
	return nil
}

// checkTrims checks that the trim offset does not decrease from object to object (WOB-3).
func (l *logCheck) checkTrims() {
	trim, from := int64(-1), ""
	for _, window := range slices.Sorted(maps.Keys(l.survey.own)) {
		o := l.survey.own[window]
		if o.header.Trim < trim {
			l.note(o.key, FoundBadTrim, "it is %d, that of %q is %d", o.header.Trim, from, trim)
		}
		if o.header.Trim >= trim {
			trim, from = o.header.Trim, o.key
		}
	}
}

// checkRun checks the windows that a recovery would need: whether one is missing that cannot be in flight (WAL-16), and
// in a deep check whether their records continue their streams (WAL-29).
func (l *logCheck) checkRun(ctx context.Context, state catalog.NodeState) error {
	takeover := walTakeover{store: l.WAL, prefix: l.prefix, ended: state.WALEpoch}
	var run []walObject
	window := l.survey.first(state.WALStart)
	for ; ; window += Window {
		o, own := l.survey.own[window]
		if !own {
			break
		}
		run = append(run, o)
	}
	var gap *WALGapError
	err := takeover.checkGap(ctx, l.survey, window)
	if err != nil && (!l.last || !errors.As(err, &gap)) {
		return err
	}
	if err != nil {
		l.note(l.prefix.Key(WALKey{Epoch: state.WALEpoch, Start: window}), FoundWALGap, "%v", err)
		return nil
	}
	if !l.Deep {
		return nil
	}
	replay := walReplay{
		recovery: &walRecovery{node: catalog.Node{ID: l.prefix.Node}, block: 1},
		view:     l.Catalog.View(), trim: l.survey.trim, expected: map[catalog.StreamID]int64{},
	}
	err = readWALAhead(ctx, l.WAL, run, 1, func(o walObject, data []byte) error {
		return cmp.Or(l.noteBadRecovery(o.key, replay.object(o, data)), replay.flush())
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// noteBadRecovery records what would end a recovery, and ends this one.
func (l *logCheck) noteBadRecovery(key string, err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(l.noteBad(key, err), errEnough)
}
