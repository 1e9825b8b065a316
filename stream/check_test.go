package stream

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// skewedView is a view of which parts say something else than the metadata.
type skewedView struct {
	catalog.View
	streams   func(catalog.Stream) catalog.Stream
	sets      func(catalog.StreamSetState) catalog.StreamSetState
	objects   func(catalog.StreamObjectState) catalog.StreamObjectState
	destroyed []catalog.DestroyedObject // more
	node      func(catalog.NodeState) (catalog.NodeState, bool)
	prepared  catalog.ObjectID
	next      catalog.ObjectID
}

func (v *skewedView) Streams() iter.Seq[catalog.Stream] {
	return func(yield func(catalog.Stream) bool) {
		for s := range v.View.Streams() {
			if v.streams != nil {
				s = v.streams(s)
			}
			if !yield(s) {
				return
			}
		}
	}
}

func (v *skewedView) StreamSets() iter.Seq[catalog.StreamSetState] {
	return func(yield func(catalog.StreamSetState) bool) {
		for s := range v.View.StreamSets() {
			if v.sets != nil {
				s = v.sets(s)
			}
			if !yield(s) {
				return
			}
		}
	}
}

func (v *skewedView) StreamObjects(id catalog.StreamID) []catalog.StreamObjectState {
	objects := slices.Clone(v.View.StreamObjects(id))
	for i := range objects {
		if v.objects != nil {
			objects[i] = v.objects(objects[i])
		}
	}
	return objects
}

func (v *skewedView) Destroyed(limit int) []catalog.DestroyedObject {
	return append(slices.Clone(v.View.Destroyed(limit)), v.destroyed...)
}

func (v *skewedView) Node(id catalog.NodeID) (catalog.NodeState, bool) {
	n, known := v.View.Node(id)
	if v.node != nil {
		return v.node(n)
	}
	return n, known
}

func (v *skewedView) IsPrepared(id catalog.ObjectID) bool {
	return v.prepared != 0 && id == v.prepared || v.View.IsPrepared(id)
}

func (v *skewedView) NextObject() catalog.ObjectID {
	if v.next != 0 {
		return v.next
	}
	return v.View.NextObject()
}

// viewer has one view.
type viewer struct{ view catalog.View }

func (v viewer) View() catalog.View { return v.view }

// healthy is a store with something of everything.
type healthy struct {
	*depot
	view      *skewedView
	set       catalog.ObjectID
	object    catalog.ObjectID
	composite catalog.ObjectID
	component catalog.ObjectID // of it
	destroyed catalog.ObjectID
	prefix    WALPrefix
	windows   []int64 // of the log's objects; the first is trimmed
	verify    func(Record) error
}

func newHealthy(t testingT) *healthy {
	d := newDepot(t, 4)
	h := &healthy{depot: d, prefix: WALPrefix{Cluster: "tm", Node: 1}}
	h.object = d.object(run{0, 2, 50})
	d.object(run{0, 2, 100})
	h.component = d.object(run{1, 20, 100})
	d.object(run{1, 20, 100})
	d.objectRound(d.compactor(), 1, true)
	h.composite = d.objects(1)[0].Object
	d.object(run{3, 20, 100})
	d.object(run{3, 20, 100})
	d.objectRound(d.compactor(), 3, true)
	h.set = d.set(run{0, 3, 50}, run{2, 2, 50})
	d.set(run{2, 1, 10})
	d.trim(0, 2)
	d.deleteStream(3) // a composite waits for its deletion, with what it links
	h.destroyed = d.metadata.View().Destroyed(1)[0].Object
	_, err := d.metadata.PrepareObjects(t.Context(), d.node, 3, time.Hour)
	require.NoError(t, err)
	h.writeLog()
	h.view = &skewedView{View: d.metadata.View()}
	return h
}

// writeLog makes the log of epoch 1: a window that is committed and trimmed, two that are not, one that is under way and one
// above it. The fence that ended an older epoch is there too.
func (h *healthy) writeLog() {
	require.NoError(h, h.metadata.OpenWAL(h.Context(), h.node, Window))
	h.windows = []int64{Window, 2 * Window, 3 * Window, 5 * Window}
	committed := Record{Stream: h.streams[0], Epoch: 1, Base: 0, Count: 21, Payload: []byte("committed")}
	h.putWAL(h.windows[0], -1, committed)
	h.putWAL(h.windows[1], Window, h.next(0, 0), h.next(2, 0))
	h.putWAL(h.windows[2], Window, h.next(0, 1))
	h.putWAL(h.windows[3], Window, h.next(0, 5))
	fence := EncodeWALObject(WALHeader{Node: 1, Epoch: 1, Trim: -1}, []Record{Sentinel()})
	require.NoError(h, h.base.Put(h.Context(), h.prefix.Key(WALKey{Epoch: 0, Start: 0}), fence))
}

// next is the record of ten rows that comes n records behind the end of a stream.
func (h *healthy) next(stream int, n int64) Record {
	row, _ := h.metadata.View().Stream(h.streams[stream])
	return Record{Stream: row.ID, Epoch: 1, Base: row.End + 10*n, Count: 10, Payload: []byte("not committed")}
}

func (h *healthy) walKey(window int64) string { return h.prefix.Key(WALKey{Epoch: 1, Start: window}) }

func (h *healthy) putWAL(window, trim int64, records ...Record) {
	header := WALHeader{Start: window, Node: 1, Epoch: 1, Trim: trim}
	require.NoError(h, h.base.Put(h.Context(), h.walKey(window), EncodeWALObject(header, records)))
}

// change replaces the bytes of an object.
func (h *healthy) change(key string, edit func(b []byte) []byte) {
	b, err := h.base.Get(h.Context(), key)
	require.NoError(h, err)
	require.NoError(h, h.base.Put(h.Context(), key, edit(b)))
}

func (h *healthy) dataKey(id catalog.ObjectID) string { return DataKey(DefaultNamespace, id) }

func flipAt(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[(at+len(b))%len(b)] ^= 0x40
		return b
	}
}

func (h *healthy) check(deep bool) (found []Finding, err error) {
	for f, err := range Check(h.Context(), CheckOptions{
		Catalog: viewer{h.view}, WAL: h.store, Data: h.store, Cluster: "tm", Deep: deep, Verify: h.verify,
	}) {
		if err != nil {
			return found, err
		}
		found = append(found, f)
	}
	return found, nil
}

func TestAHealthyStoreYieldsNothing(t *testing.T) {
	h := newHealthy(t)
	for _, deep := range []bool{false, true} {
		before := h.keys()
		found, err := h.check(deep)
		require.NoError(t, err)
		require.Empty(t, found)
		require.Equal(t, before, h.keys(), "a check changes nothing")
	}
}

// broken is a way to break a healthy store, and what Check finds then.
type broken struct {
	kind FindingKind
	// deep is a fault that only a deep check finds.
	deep bool
	do   func(h *healthy)
	// also is what follows from it.
	also FindingKind
}

// theWaysToBreak are at least one for each kind of finding.
var theWaysToBreak = map[string]broken{
	"a stream's start is above its end": {kind: FoundBadStream, deep: false, do: func(h *healthy) {
		h.view.streams = func(s catalog.Stream) catalog.Stream {
			if s.ID == h.streams[2] {
				s.Start = s.End + 1
			}
			return s
		}
	}},
	"a stream's epochs go back": {kind: FoundBadStream, deep: false, do: func(h *healthy) {
		h.view.streams = func(s catalog.Stream) catalog.Stream {
			if s.ID == h.streams[2] {
				s.Epochs = []catalog.EpochStart{{Epoch: 1, Start: 3}, {Epoch: 1, Start: 2}}
			}
			return s
		}
	}},
	"objects reach above a stream's end": {kind: FoundBadStream, deep: false, do: func(h *healthy) {
		h.view.streams = func(s catalog.Stream) catalog.Stream {
			if s.ID == h.streams[1] {
				s.End--
			}
			return s
		}
	}},
	"a stream is open on an unknown node": {kind: FoundBadNode, deep: false, do: func(h *healthy) {
		h.view.streams = func(s catalog.Stream) catalog.Stream {
			if s.ID == h.streams[1] {
				s.Node = 77
			}
			return s
		}
		h.view.node = func(n catalog.NodeState) (catalog.NodeState, bool) { return n, n.ID == 1 }
	}},
	"a log does not begin at a window": {kind: FoundBadNode, deep: false, do: func(h *healthy) {
		h.view.streams = func(s catalog.Stream) catalog.Stream {
			s.Opened, s.Node = s.ID == h.streams[0], min(s.Node, catalog.NodeID(1-2*min(1, s.ID)))
			return s
		}
		h.view.node = func(n catalog.NodeState) (catalog.NodeState, bool) {
			n.WALStart += boolAs[int64](n.ID == 1)
			n.WALEpoch = -1
			return n, n.ID == 1
		}
	}},
	"a range is missing in metadata": {also: FoundBadIndex, kind: FoundHole, deep: false, do: func(h *healthy) {
		h.view.sets = func(s catalog.StreamSetState) catalog.StreamSetState {
			if s.Object == h.set {
				s.Ranges = s.Ranges[:1]
			}
			return s
		}
	}},
	"a stream is longer than its objects": {kind: FoundHole, deep: false, do: func(h *healthy) {
		h.view.streams = func(s catalog.Stream) catalog.Stream {
			if s.ID == h.streams[1] {
				s.End++
			}
			return s
		}
	}},
	"two objects hold the same": {also: FoundBadIndex, kind: FoundOverlap, deep: false, do: func(h *healthy) {
		h.view.objects = func(o catalog.StreamObjectState) catalog.StreamObjectState {
			if o.Object == h.object {
				o.End++
			}
			return o
		}
	}},
	"an object in use is reserved": {kind: FoundNotCommitted, deep: false, do: func(h *healthy) { h.view.prepared = h.set }},
	"a mark on an object in use": {kind: FoundBadMark, deep: false, do: func(h *healthy) {
		h.view.destroyed = []catalog.DestroyedObject{{Object: h.set, MarkedMs: h.view.ClockMs()}}
	}},
	"a mark on a reserved id": {kind: FoundBadMark, deep: false, do: func(h *healthy) {
		h.view.destroyed = []catalog.DestroyedObject{{Object: h.view.NextObject() - 1, MarkedMs: h.view.ClockMs()}}
	}},
	"a mark on an id of the future": {kind: FoundBadMark, deep: false, do: func(h *healthy) {
		h.view.destroyed = []catalog.DestroyedObject{{Object: h.view.NextObject(), MarkedMs: h.view.ClockMs()}}
	}},
	"two marks": {kind: FoundBadMark, deep: false, do: func(h *healthy) {
		h.view.destroyed = h.view.View.Destroyed(1)
	}},
	"a mark that keeps the bytes": {kind: FoundBadMark, deep: false, do: func(h *healthy) {
		id := h.metadata.View().NextObject() - 1
		h.view.View = h.metadata.View()
		h.view.next = id + 2
		h.view.destroyed = []catalog.DestroyedObject{{Object: id + 1, Operation: catalog.KeepData, MarkedMs: h.view.ClockMs()}}
	}},
	"a deletion is overdue": {kind: FoundOverdue, deep: false, do: func(h *healthy) {
		h.wait(2 * time.Hour)
		h.trim(0, 0)
		h.view.View = h.metadata.View()
	}},

	"a stream-set object is gone": {kind: FoundMissingObject, deep: false, do: func(h *healthy) { h.remove(h.dataKey(h.set)) }},
	"a stream object is gone":     {kind: FoundMissingObject, deep: false, do: func(h *healthy) { h.remove(h.dataKey(h.object)) }},
	"a composite is gone":         {kind: FoundMissingObject, deep: false, do: func(h *healthy) { h.remove(h.dataKey(h.composite)) }},
	"a component is gone":         {kind: FoundMissingObject, deep: false, do: func(h *healthy) { h.remove(h.dataKey(h.component)) }},
	"an object is cut off": {kind: FoundBadSize, deep: false, do: func(h *healthy) {
		h.change(h.dataKey(h.set), func(b []byte) []byte { return b[:len(b)-1] })
	}},
	"an object is too long": {kind: FoundBadSize, deep: false, do: func(h *healthy) {
		h.change(h.dataKey(h.set), func(b []byte) []byte { return append(b, 0) })
	}},
	"a component is cut off": {kind: FoundBadSize, deep: false, do: func(h *healthy) {
		h.change(h.dataKey(h.component), func(b []byte) []byte { return b[:100] })
	}},
	"a composite links less than metadata says": {kind: FoundBadSize, deep: false, do: func(h *healthy) {
		h.view.objects = func(o catalog.StreamObjectState) catalog.StreamObjectState {
			if o.Object == h.composite {
				o.Size++
			}
			return o
		}
	}},
	"a footer is damaged": {kind: FoundBadObject, deep: false, do: func(h *healthy) { h.change(h.dataKey(h.set), flipAt(-8)) }},
	"an index is damaged": {kind: FoundBadObject, deep: false, do: func(h *healthy) { h.change(h.dataKey(h.set), flipAt(-FooterSize-12)) }},
	"a composite that waits for its deletion is damaged": {kind: FoundBadObject, deep: false, do: func(h *healthy) {
		h.change(h.dataKey(h.destroyed), flipAt(-8))
	}},
	"a footer of another version":    {kind: FoundUnknownVersion, deep: false, do: func(h *healthy) { h.change(h.dataKey(h.set), flipAt(-1)) }},
	"a composite of another version": {kind: FoundUnknownVersion, deep: false, do: func(h *healthy) { h.change(h.dataKey(h.composite), flipAt(0)) }},
	"an index holds other offsets": {kind: FoundBadIndex, deep: false, do: func(h *healthy) {
		h.change(h.dataKey(h.set), flipAt(-FooterSize-indexEntrySize+15))
	}},
	"a block is damaged":         {kind: FoundBadObject, deep: true, do: func(h *healthy) { h.change(h.dataKey(h.set), flipAt(8)) }},
	"a block of another version": {kind: FoundUnknownVersion, deep: true, do: func(h *healthy) { h.change(h.dataKey(h.set), flipAt(0)) }},
	"a record of another stream": {kind: FoundBadObject, deep: true, do: func(h *healthy) { h.change(h.dataKey(h.component), flipAt(18)) }},
	"a record is shorter than it was": {kind: FoundBadRecord, deep: true, do: func(h *healthy) {
		h.change(h.dataKey(h.set), func(b []byte) []byte { b[blockHeaderSize+28] = 2; return b })
	}},
	"a payload is not what was appended": {kind: FoundBadRecord, deep: true, do: func(h *healthy) {
		h.verify = func(r Record) error {
			if r.Stream == h.streams[1] && r.Base == 3 {
				return errors.New("checksum differs")
			}
			return nil
		}
	}},
	"bytes that nothing refers to": {kind: FoundOrphan, deep: false, do: func(h *healthy) {
		id, err := h.metadata.PrepareObjects(h.Context(), h.node, 1, 0)
		require.NoError(h, err)
		require.NoError(h, h.base.Put(h.Context(), h.dataKey(id), []byte("x")))
		h.view.next = id + 1
	}},
	"an object of the future": {kind: FoundFutureObject, deep: false, do: func(h *healthy) {
		require.NoError(h, h.base.Put(h.Context(), h.dataKey(h.view.NextObject()), []byte("x")))
	}},

	"an unknown key in a log": {kind: FoundUnknownKey, deep: false, do: func(h *healthy) {
		require.NoError(h, h.base.Put(h.Context(), h.prefix.Epoch(1)+"x", []byte("x")))
	}},
	"a log of an unknown node": {kind: FoundForeignLog, deep: false, do: func(h *healthy) {
		key := WALPrefix{Cluster: "tm", Node: 9}.Key(WALKey{})
		require.NoError(h, h.base.Put(h.Context(), key, []byte("x")))
	}},
	"an epoch of the future": {kind: FoundFutureEpoch, deep: false, do: func(h *healthy) {
		require.NoError(h, h.base.Put(h.Context(), h.prefix.Key(WALKey{Epoch: 2}), []byte("x")))
	}},
	"an object of an old epoch": {kind: FoundLeftover, deep: false, do: func(h *healthy) {
		object := EncodeWALObject(WALHeader{Node: 1, Epoch: 0, Trim: -1}, []Record{Sentinel()})
		require.NoError(h, h.base.Put(h.Context(), h.prefix.Key(WALKey{Epoch: 0, Start: Window}), object))
		require.NoError(h, h.base.Delete(h.Context(), h.prefix.Key(WALKey{Epoch: 0})), "the fence below it, for as long as which it would be kept")
	}},
	"a header that is not the key's": {kind: FoundBadWAL, deep: false, do: func(h *healthy) { h.change(h.walKey(h.windows[1]), flipAt(31)) }},
	"an object of the log is cut off": {kind: FoundBadWAL, deep: false, do: func(h *healthy) {
		h.change(h.walKey(h.windows[1]), func(b []byte) []byte { return b[:len(b)-1] })
	}},
	"a log of another version": {kind: FoundUnknownVersion, deep: false, do: func(h *healthy) { h.change(h.walKey(h.windows[1]), flipAt(0)) }},
	"a frame is damaged":       {kind: FoundBadWAL, deep: true, do: func(h *healthy) { h.change(h.walKey(h.windows[1]), flipAt(-1)) }},
	"a trim offset goes back": {kind: FoundBadTrim, deep: false, do: func(h *healthy) {
		h.putWAL(h.windows[2], Window-1, h.next(0, 1))
	}},
	"a window is missing": {kind: FoundWALGap, deep: false, do: func(h *healthy) {
		h.putWAL((4+maxInflight)*Window, Window, h.next(0, 5))
	}},
	"records that leave a gap": {kind: FoundBadRecovery, deep: true, do: func(h *healthy) {
		h.putWAL(h.windows[2], Window, h.next(0, 2))
	}},
	"records that overlap": {kind: FoundBadRecovery, deep: true, do: func(h *healthy) {
		record := h.next(0, 0)
		record.Count = 11
		h.putWAL(h.windows[2], Window, record)
	}},
}

func boolAs[N int64 | int](b bool) N {
	if b {
		return 1
	}
	return 0
}

// TestF15_AnObjectThatArrivesWhileTheLogIsListedIsNotMissed: a listing is not a snapshot. The writer goes on meanwhile, and what
// it stores later says that the window was acknowledged.
func TestF15_AnObjectThatArrivesWhileTheLogIsListedIsNotMissed(t *testing.T) {
	for _, lost := range []bool{false, true} {
		h := newHealthy(t)
		h.putWAL(4*Window, Window, h.next(0, 2))
		h.putWAL(5*Window, Window, h.next(0, 3), walMark(5*Window))
		store := &lateObject{Store: h.store, key: h.walKey(4 * Window)}
		if lost {
			require.NoError(t, h.base.Delete(t.Context(), h.walKey(4*Window)))
		}
		var kinds []FindingKind
		for f, err := range Check(t.Context(), CheckOptions{
			Catalog: viewer{h.view}, WAL: store, Data: store, Cluster: "tm", Deep: true,
		}) {
			require.NoError(t, err)
			kinds = append(kinds, f.Kind)
		}
		if lost {
			require.Equal(t, []FindingKind{FoundWALGap}, kinds)
		} else {
			require.Empty(t, kinds)
		}
	}
}

// lateObject is a store of which the listings before the first read of a range do not have an object: it came behind them.
type lateObject struct {
	objstore.Store
	key  string
	read atomic.Bool
}

func (l *lateObject) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	if strings.Contains(key, "/_kafka_tm/1/1/") { // of the epoch's log
		l.read.Store(true)
	}
	return l.Store.ReadRange(ctx, key, p, off)
}

func (l *lateObject) List(ctx context.Context, r objstore.ListRequest) (objstore.Page, error) {
	page, err := l.Store.List(ctx, r)
	if !l.read.Load() {
		page.Objects = slices.DeleteFunc(page.Objects, func(o objstore.Info) bool { return o.Key == l.key })
	}
	return page, err
}

func (h *healthy) remove(key string) {
	h.Helper()
	_, err := h.base.Head(h.Context(), key)
	require.NoError(h, err)
	require.NoError(h, h.base.Delete(h.Context(), key))
}

func TestWhatIsBrokenIsFound(t *testing.T) {
	for name, b := range theWaysToBreak {
		t.Run(name, func(t *testing.T) {
			h := newHealthy(t)
			b.do(h)
			found, err := h.check(true)
			require.NoError(t, err)
			kinds := map[FindingKind]int{}
			for _, f := range found {
				kinds[f.Kind]++
				require.Equal(t, f.Kind.severity(), f.Severity)
				require.NotEmpty(t, f.Detail)
			}
			want := map[FindingKind]int{b.kind: 1}
			if b.also != "" {
				want[b.also] = 1
			}
			require.Equal(t, want, kinds, "%v", found)
			shallow, err := h.check(false)
			require.NoError(t, err)
			if b.deep {
				require.Empty(t, shallow)
			} else {
				require.Equal(t, found, shallow)
			}
		})
	}
}

func TestEveryKindOfFindingHasAWayToBreak(t *testing.T) {
	tested := map[FindingKind]bool{}
	for _, b := range theWaysToBreak {
		tested[b.kind] = true
	}
	require.Len(t, tested, 23, "as many as there are kinds")
}

func TestACheckEndsWhenNoMoreIsWanted(t *testing.T) {
	h := newHealthy(t)
	h.remove(h.dataKey(h.set))
	h.remove(h.dataKey(h.object))
	n := 0
	for range Check(t.Context(), CheckOptions{Catalog: h.metadata, WAL: h.store, Data: h.store, Cluster: "tm"}) {
		n++
		break
	}
	require.Equal(t, 1, n)
}

func TestACheckThatCannotReadSaysSo(t *testing.T) {
	h := newHealthy(t)
	for n := 0; ; n++ {
		h.store.SetInjector(faultstore.FailNth(n, objstore.ErrDenied))
		found, err := h.check(true)
		require.Empty(t, found)
		if err == nil {
			require.Greater(t, n, 20, "each call has failed once")
			return
		}
		require.ErrorIs(t, err, objstore.ErrDenied)
	}
}

// TestACheckOfAStoreInUseYieldsNothing: between any two calls of the check objects are compacted, cleaned and appended.
func TestACheckOfAStoreInUseYieldsNothing(t *testing.T) {
	h := newHealthy(t)
	step := 0
	var mu sync.Mutex
	h.store.SetInjector(func(faultstore.Op) faultstore.Fault {
		return faultstore.Fault{Hook: func(ctx context.Context) {
			mu.Lock()
			defer mu.Unlock()
			step++
			if step%4 != 0 || step > 100 {
				return
			}
			d := *h.depot
			d.store = faultstore.New(d.base, nil)
			d.set(run{0, 1, 10}, run{2, 1, 10})
			d.object(run{1, 2, 100})
			require.NoError(t, d.compactor().roundNow(ctx))
			d.wait(11 * time.Minute)
			_, err := d.cleaner().round(ctx)
			require.NoError(t, err)
		}}
	})
	for _, deep := range []bool{false, true} {
		for f, err := range Check(t.Context(), CheckOptions{
			Catalog: h.metadata, WAL: h.store, Data: h.store, Cluster: "tm", Deep: deep,
		}) {
			require.NoError(t, err)
			require.Contains(t, []FindingKind{FoundBadRecovery}, f.Kind, "%v: the depot commits past its log", f)
		}
	}
	require.Greater(t, step, 20)
}

func TestFindingsAreOneLine(t *testing.T) {
	f := about()
	f.Kind, f.Severity, f.Detail = FoundOrphan, Waste, "why"
	require.Equal(t, "waste: orphan: why", f.String())
	f.Stream, f.Object, f.Node, f.Key = 1, 2, 3, "a/b"
	require.Equal(t, `waste: orphan, stream 1, object 2, node 3, key "a/b": why`, f.String())
}
