package stream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// walRecovery ends the WAL of an older epoch and commits its uncommitted records (3.6 steps 3 to 6, 3.9). It may be
// repeated after a crash at any point, and run twice at once: the catalog refuses the older of two epochs.
type walRecovery struct {
	catalog   catalog.Catalog
	node      catalog.Node // the recovering epoch: its commits are refused once it is superseded
	store     objstore.Store
	prefix    WALPrefix
	readahead int64
	block     int64     // how much is committed at once, in bytes of payload
	uploader  *uploader // commits what is found; nil for a read-only run
}

// recover ends the epoch whose log begins at start, and returns what it found. The next epoch's log may begin one window
// after the fence, at RecoveredEvent.To + Window.
func (r *walRecovery) recover(ctx context.Context, ended, start int64) (RecoveredEvent, error) {
	began := time.Now()
	takeover := walTakeover{store: r.store, prefix: r.prefix, ended: ended, start: start, by: r.node.Epoch}
	for {
		run, err := takeover.end(ctx)
		if err != nil {
			return RecoveredEvent{}, err
		}
		replay := r.newReplay(run.trim)
		replay.commits = newWALCommits(ctx, r.uploader)
		err = readWALAhead(ctx, r.store, run.objects, r.readahead, func(o walObject, data []byte) error {
			return replay.object(o, data)
		})
		if err == nil {
			err = replay.flush()
		}
		err = replay.commits.end(err)
		if errors.Is(err, errVanished) {
			if err := takeover.lookAgain(ctx); err != nil {
				return RecoveredEvent{}, err
			}
			continue // it was trimmed meanwhile (WAL-27)
		}
		e := replay.found
		e.Node, e.Epoch, e.From, e.To, e.Dead = r.node, ended, run.from, run.to, run.dead
		e.Took = time.Since(began)
		return e, err
	}
}

// walReplay takes the records of a run in order, and commits those that belong to a stream and are not in it (WAL-28,
// WAL-29).
type walReplay struct {
	recovery *walRecovery
	view     catalog.View
	trim     int64
	expected map[catalog.StreamID]int64 // where the next record of a stream must begin
	kept     []Record                   // not committed yet
	size     int64                      // of their payloads
	found    RecoveredEvent
	commits  *walCommits // nil for a read-only run
}

// newReplay begins a replay on a view that has the registration of the recovering epoch, so that no older one can commit
// any more.
func (r *walRecovery) newReplay(trim int64) *walReplay {
	return &walReplay{recovery: r, view: r.catalog.View(), trim: trim, expected: map[catalog.StreamID]int64{}}
}

// object takes the records of one object. Its bytes stay in use until they are committed.
func (p *walReplay) object(o walObject, data []byte) error {
	h, frames, err := DecodeWALObject(o.key, data)
	if err != nil {
		return err
	}
	if h != o.header { // an object never changes
		return source{object: o.key}.differs("WAL header", o.header, h)
	}
	p.found.Objects++
	for _, f := range frames {
		keep, err := p.judge(o.key, f)
		if err != nil {
			return err
		}
		if !keep {
			continue
		}
		if p.size > 0 && p.size+int64(len(f.Record.Payload)) > p.recovery.block {
			if err := p.flush(); err != nil {
				return err
			}
		}
		p.kept = append(p.kept, f.Record)
		p.size += int64(len(f.Record.Payload))
	}
	return nil
}

// judge decides whether a record must be committed.
func (p *walReplay) judge(key string, f Frame) (keep bool, err error) {
	if f.Padding || f.Record.IsSentinel() || f.Record.IsMark() {
		return false, nil
	}
	record := f.Record
	if err := record.CheckAppend(); err != nil {
		return false, &CorruptError{Object: key, Position: f.Offset, What: err.Error()}
	}
	if f.Offset <= p.trim {
		p.found.Dropped.Trimmed++
		return false, nil
	}
	expected, mine := p.expect(record)
	switch {
	case !mine:
		p.found.Dropped.Foreign++
		return false, nil
	case record.End() <= expected:
		p.found.Dropped.Committed++
		return false, nil
	case record.Base != expected:
		return false, &RecoverError{
			Key: key, Position: f.Offset, Stream: record.Stream, Want: expected, Base: record.Base, End: record.End(),
		}
	}
	p.expected[record.Stream] = record.End()
	return true, nil
}

// expect returns where the next record of the record's stream must begin; false if the stream is not the node's in the
// record's epoch.
func (p *walReplay) expect(r Record) (int64, bool) {
	row, known := p.view.Stream(r.Stream)
	if !known || !row.Opened || row.Node != p.recovery.node.ID || row.Epoch != r.Epoch {
		return 0, false
	}
	if expected, ok := p.expected[r.Stream]; ok {
		return expected, true
	}
	return row.End, true
}

// flush begins to commit what was kept (WAL-30).
func (p *walReplay) flush() error {
	records := p.kept
	p.found.Records += len(records)
	p.found.Bytes += p.size
	p.kept, p.size = nil, 0
	if len(records) == 0 || p.commits == nil {
		return nil
	}
	slices.SortStableFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Base, b.Base))
	})
	return p.commits.add(records)
}

// streamClosers is how many streams are closed at once: a metadata log batches commands.
const streamClosers = 64

// closeStreams closes every stream that the node still has open, so that any node can lead it (WAL-31).
func (r *walRecovery) closeStreams(ctx context.Context) error {
	var opened []catalog.Stream
	for s := range r.catalog.View().Streams() {
		if s.Opened && s.Node == r.node.ID {
			opened = append(opened, s)
		}
	}
	errs := make([]error, len(opened))
	if err := parallel.Each(ctx, len(opened), streamClosers, func(i int) {
		s := opened[i]
		errs[i] = retry(ctx, func() error { return r.catalog.CloseStream(ctx, r.node, s.ID, s.Epoch) })
	}); err != nil {
		return err
	}
	return cmp.Or(errs...)
}
