package stream

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// wreckage is a bucket that is filled by hand.
type wreckage struct {
	*testing.T
	store objstore.Store
}

func TestTheNewestEpochInALogIsTheStreams(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0), row(1, 1, 1))
	w.log(5, 2, 0, row(1, 1, 0), row(1, 1, 1))
	w.log(5, 2, Window, row(1, 2, 2), row(1, 2, 3))
	made := w.rebuilt(false)
	require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 2, End: 2, Opened: true, Node: 5}}, made.Streams)
	require.Equal(t, map[catalog.StreamID]int64{1: 4}, made.LogEnds)
	require.Equal(t, []catalog.NodeState{{ID: 5, Epoch: 2, Slots: 1, WALEpoch: 2}}, made.Nodes)
}

func TestALogOfAnOlderEpochThanTheObjectsGoesNowhere(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 3, 10), row(1, 3, 11))
	w.log(5, 2, 0, row(1, 1, 10))
	require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 3, Start: 10, End: 12}}, w.rebuilt(false).Streams)
}

// TestNodeEpochsGoOnAboveFences has a log that a process of epoch 4 has ended without opening its own, and one that epoch 6
// opened behind the fence that it put into epoch 5.
func TestNodeEpochsGoOnAboveFences(t *testing.T) {
	w := newWreckage(t)
	w.log(5, 2, 3*Window, row(1, 1, 0))
	w.fence(5, 2, 4*Window, 4)
	w.log(8, 5, 0, row(2, 1, 0))
	w.fence(8, 5, Window, 6)
	w.log(8, 6, 2*Window, row(3, 1, 5))
	made := w.rebuilt(false)
	require.Equal(t, []catalog.NodeState{
		{ID: 5, Epoch: 4, Slots: 1, WALEpoch: 2, WALStart: 3 * Window},
		{ID: 8, Epoch: 6, Slots: 1, WALEpoch: 6, WALStart: 2 * Window},
	}, made.Nodes)
	require.Equal(t, []catalog.Stream{
		{ID: 1, Epoch: 1, Opened: true, Node: 5}, {ID: 3, Epoch: 1, Start: 5, End: 5, Opened: true, Node: 8},
	}, made.Streams)
	require.EqualValues(t, 4+skippedStreams, made.NextStream)
}

// TestALogThatBeganBehindACleanCloseIsTaken has epoch 6 end the log of epoch 5, write four windows and close cleanly, and epoch
// 7 go on behind those. Its first objects are above where the fence in the log of epoch 5 says that the log of epoch 6 began.
func TestALogThatBeganBehindACleanCloseIsTaken(t *testing.T) {
	for name, between := range map[string]func(w *wreckage){
		"whose objects are gone": func(*wreckage) {},
		"of which one is left":   func(w *wreckage) { w.log(5, 6, 8*Window, row(1, 1, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWreckage(t)
			w.data(7, row(1, 1, 0), row(1, 1, 1))
			w.fence(5, 5, 4*Window, 6)
			between(w)
			w.log(5, 7, 9*Window, row(1, 1, 2))
			w.log(5, 7, 10*Window, row(1, 1, 3))
			made := w.rebuilt(false)
			require.Equal(t, []catalog.NodeState{{ID: 5, Epoch: 7, Slots: 1, WALEpoch: 7, WALStart: 9 * Window}}, made.Nodes)
			require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 1, End: 2, Opened: true, Node: 5}}, made.Streams)
			require.Equal(t, map[catalog.StreamID]int64{1: 4}, made.LogEnds)
			require.Empty(t, made.Findings)
		})
	}
}

// TestALogThatBeganBehindACleanCloseIsUnproved: what is below its first object may have been sent and have not arrived, for no
// fence tells where it began.
func TestALogThatBeganBehindACleanCloseIsUnproved(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0))
	w.fence(5, 5, 4*Window, 6)
	w.log(5, 7, 9*Window, row(1, 1, 2))
	_, err := Rebuild(t.Context(), w.options(false))
	require.ErrorContains(t, err, "continues after a gap, from 2 to 3")
}

// TestF15_ALogWhoseFirstObjectIsLostIsNotRebuiltSilently: nobody knows where it began, but the lowest object that is left was
// sealed when one before it was acknowledged, and nothing of the log was trimmed.
func TestF15_ALogWhoseFirstObjectIsLostIsNotRebuiltSilently(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0))
	w.log(5, 7, 9*Window, row(1, 1, 2), walMark(9*Window)) // that of row 1 is lost
	w.log(5, 7, 10*Window, row(1, 1, 3), walMark(10*Window))
	_, err := Rebuild(t.Context(), w.options(false))
	require.ErrorContains(t, err, WALPrefix{Cluster: "tm-1", Node: 5}.Key(WALKey{Epoch: 7, Start: 8 * Window}))
	made := w.rebuilt(true)
	require.NoError(t, made.Write(t.Context(), w.options(true)))
	kept, err := SalvagedLogs(t.Context(), w.store)
	require.NoError(t, err)
	require.Equal(t, 2, kept[0].Objects)
}

// TestALogOfWhichTheBeginningIsCleanedUpIsNotDamaged: it was ended and recovered, and metadata were lost while what is left of it was
// removed.
func TestALogOfWhichTheBeginningIsCleanedUpIsNotDamaged(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0))
	w.data(8, row(1, 1, 1))
	w.data(9, row(1, 1, 2))
	w.log(5, 7, 9*Window, row(1, 1, 2), walMark(9*Window))
	w.fence(5, 7, 10*Window, 8)
	made := w.rebuilt(false)
	for _, f := range made.Findings {
		require.False(t, f.Stops, f.String())
	}
	require.EqualValues(t, 3, made.Streams[0].End)
}

// TestALogThatBeganBehindACleanCloseIsProvedByAMark: a later object says that the first one of the epoch was acknowledged. Then so
// was what is missing in front of it, and it is trimmed.
func TestALogThatBeganBehindACleanCloseIsProvedByAMark(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0))
	w.fence(5, 5, 4*Window, 6)
	w.log(5, 7, 9*Window, row(1, 1, 2))
	w.log(5, 7, 10*Window, row(1, 1, 3), walMark(10*Window))
	made := w.rebuilt(false)
	require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 1, Start: 2, End: 2, Opened: true, Node: 5}}, made.Streams)
	require.Equal(t, map[catalog.StreamID]int64{1: 4}, made.LogEnds)
	for _, f := range made.Findings {
		require.False(t, f.Stops, f.String())
	}
}

// TestWhatStandsAboveAFenceStaysAway: it is dead, whether anything is left below the fence or not, however far above it is.
func TestWhatStandsAboveAFenceStaysAway(t *testing.T) {
	for name, c := range map[string]struct {
		left  func(w *wreckage) // below the fence
		node  catalog.NodeState
		opens bool
	}{
		"with nothing left below": {
			func(*wreckage) {}, catalog.NodeState{ID: 5, Epoch: 6, Slots: 1, WALEpoch: -1, WALStart: 81 * Window}, false,
		},
		"with objects below": {
			func(w *wreckage) { w.log(5, 5, 3*Window, row(1, 1, 1)) },
			catalog.NodeState{ID: 5, Epoch: 6, Slots: 1, WALEpoch: 5, WALStart: 3 * Window}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWreckage(t)
			w.data(7, row(1, 1, 0))
			c.left(w)
			w.fence(5, 5, 4*Window, 6)
			w.log(5, 5, 5*Window, row(1, 1, 1), row(1, 1, 2))
			w.log(5, 5, 80*Window, row(1, 1, 9))
			made := w.rebuilt(false)
			require.Equal(t, []catalog.NodeState{c.node}, made.Nodes)
			want, ends := catalog.Stream{ID: 1, Epoch: 1, End: 1}, map[catalog.StreamID]int64{}
			if c.opens {
				want.Opened, want.Node, ends[1] = true, 5, 2
			}
			require.Equal(t, []catalog.Stream{want}, made.Streams)
			require.Equal(t, ends, made.LogEnds)
			require.Empty(t, made.Findings)
		})
	}
}

// TestALogWithoutItsFirstObjectStops has a fence that says where the log of epoch 6 began, and objects above that only.
func TestALogWithoutItsFirstObjectStops(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0))
	w.fence(5, 5, Window, 6)
	w.log(5, 6, 3*Window, row(1, 1, 1))
	_, err := Rebuild(t.Context(), w.options(false))
	require.ErrorContains(t, err, fmt.Sprintf("the log of epoch 6 began at %d", 2*Window))
	made := w.rebuilt(true)
	require.Equal(t, []catalog.NodeState{{ID: 5, Epoch: 6, Slots: 1, WALEpoch: 6, WALStart: 3 * Window}}, made.Nodes)
	require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 1, End: 1, Opened: true, Node: 5}}, made.Streams)
	require.Equal(t, map[catalog.StreamID]int64{1: 2}, made.LogEnds)
}

func TestALogThatWasClosedGoesOnBehindAllOfIt(t *testing.T) {
	w := newWreckage(t)
	w.fence(5, 2, 4*Window, 4)
	require.Equal(t, []catalog.NodeState{{ID: 5, Epoch: 4, Slots: 1, WALEpoch: -1, WALStart: 5 * Window}}, w.rebuilt(false).Nodes)
}

func TestDamageStopsARebuildUnlessItIsLeftOut(t *testing.T) {
	good := func(w *wreckage) {
		w.data(7, row(1, 1, 0))
		w.log(5, 2, 0, row(1, 1, 1))
	}
	for name, c := range map[string]struct {
		damage func(w *wreckage)
		says   string
		key    string
		left   []catalog.Stream // without it
	}{
		"a data object without an end": {
			func(w *wreckage) { w.put(DataKey(DefaultNamespace, 9), make([]byte, 100)) },
			"magic of the footer", DataKey(DefaultNamespace, 9), []catalog.Stream{{ID: 1, Epoch: 1, End: 1, Opened: true, Node: 5}},
		},
		"a data object of a later version": {
			func(w *wreckage) {
				b := w.object(row(1, 1, 0))
				b[len(b)-1] = 0xF9
				w.put(DataKey(DefaultNamespace, 9), b)
			},
			"of version 0x88e241b785f4cff9", DataKey(DefaultNamespace, 9), []catalog.Stream{{ID: 1, Epoch: 1, End: 1, Opened: true, Node: 5}},
		},
		"the newest record of a stream": {
			func(w *wreckage) {
				b := w.object(row(1, 1, 0))
				b[blockHeaderSize]++
				w.put(DataKey(DefaultNamespace, 9), b)
			},
			"record", DataKey(DefaultNamespace, 9), []catalog.Stream{{ID: 1, Epoch: 1, End: 1, Opened: true, Node: 5}},
		},
		"a frame of a log": {
			func(w *wreckage) { w.flip(w.logKey(5, 2, 0), 60) },
			"the log is damaged", "", []catalog.Stream{{ID: 1, Epoch: 1, End: 1}},
		},
		"a header of a log": {
			func(w *wreckage) { w.flip(w.logKey(5, 2, 0), 3) },
			"WAL object", w5(0), []catalog.Stream{{ID: 1, Epoch: 1, End: 1}},
		},
		"a log of the old version": {
			func(w *wreckage) {
				w.put(WALPrefix{"tm-1", 5}.Key(WALKey{Epoch: 2, Start: Window, Old: true}), make([]byte, 100))
			},
			"WAL", "", []catalog.Stream{{ID: 1, Epoch: 1, End: 1}},
		},
		"an object of a log that is missing": {
			func(w *wreckage) { w.log(5, 2, 70*Window, row(1, 1, 9)) },
			"write-ahead log has a gap", w5(Window), []catalog.Stream{{ID: 1, Epoch: 1, End: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWreckage(t)
			good(w)
			require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 1, End: 1, Opened: true, Node: 5}}, w.rebuilt(false).Streams)
			c.damage(w)
			_, err := Rebuild(t.Context(), w.options(false))
			var damaged *RebuildError
			require.ErrorAs(t, err, &damaged)
			said, keys := "", []string{}
			for _, f := range damaged.Findings {
				said, keys = said+f.String()+"\n", append(keys, f.Key)
			}
			require.Contains(t, said, c.says)
			if c.key != "" {
				require.Contains(t, keys, c.key)
			}
			require.Equal(t, c.left, w.rebuilt(true).Streams)
		})
	}
}

// TestAnUnknownKeyOfALogIsNotLeftOut: every later start of the node refuses it.
func TestAnUnknownKeyOfALogIsNotLeftOut(t *testing.T) {
	w := newWreckage(t)
	w.log(5, 2, 0, row(1, 1, 1))
	w.flip(w5(0), 60) // this could be left out
	unknown := WALPrefix{"tm-1", 5}.String() + "3/wal/one"
	w.put(unknown, []byte("?"))
	for _, leaveOut := range []bool{false, true} {
		_, err := Rebuild(t.Context(), w.options(leaveOut))
		var stopped *RebuildError
		require.ErrorAs(t, err, &stopped)
		require.Contains(t, err.Error(), fmt.Sprintf("object key %q is unknown", unknown))
		require.Contains(t, err.Error(), "move it out of the bucket")
		require.Equal(t, leaveOut, len(stopped.Findings) == 1, "%v", stopped.Findings)
	}
	require.NoError(t, w.store.Delete(t.Context(), unknown))
	w.rebuilt(true)
}

// TestWhatCanBeReadOfADamagedLogIsCopied has an object in the middle that cannot be read, which held records of stream 2, and
// one of stream 3.
func TestWhatCanBeReadOfADamagedLogIsCopied(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0))
	w.log(5, 2, 0, row(1, 1, 0), row(1, 1, 1), row(2, 1, 0), row(3, 4, 7))
	w.log(5, 2, Window, row(2, 1, 1))
	w.log(5, 2, 2*Window, row(1, 1, 2), row(2, 1, 2), row(3, 4, 8))
	w.flip(w5(Window), 60)
	made := w.rebuilt(true)
	require.Contains(t, made.Findings[len(made.Findings)-1].String(), "(records: 6, bytes: 6, streams: 3) is copied into objects unless "+
		"others hold it; left out are records behind gaps (1)")
	require.Equal(t, map[catalog.StreamID]int64{1: 3, 2: 1, 3: 9}, made.LogEnds)
	require.NoError(t, made.Write(t.Context(), w.options(true)))
	require.Equal(t, []catalog.Stream{
		{ID: 1, Epoch: 1, End: 3}, {ID: 2, Epoch: 1, End: 1}, {ID: 3, Epoch: 4, Start: 7, End: 9},
	}, made.Streams)
	first := catalog.ObjectID(8 + skippedObjects)
	require.Equal(t, []catalog.ObjectID{first, first + 2}, []catalog.ObjectID{made.Sets[0].Object, made.Sets[1].Object})
	require.Equal(t, first+3, made.NextObject)
	require.EqualValues(t, -1, made.Nodes[0].WALEpoch)
	for _, window := range []int64{0, Window, 2 * Window} {
		log, err := w.store.Get(t.Context(), w5(window))
		require.NoError(t, err)
		kept, err := w.store.Get(t.Context(), SalvagedPrefix+w5(window))
		require.NoError(t, err)
		require.Equal(t, log, kept, "a start removes the log, so all of it is kept elsewhere")
	}
	again := w.rebuilt(true)
	require.Equal(t, []int64{3, 1, 9}, []int64{again.Streams[0].End, again.Streams[1].End, again.Streams[2].End},
		"it may be done again after a crash")
}

// TestALogOfWhichNothingCanBeReadIsKept: a rebuild writes nothing of it into objects.
func TestALogOfWhichNothingCanBeReadIsKept(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0))
	w.log(5, 2, 0, row(1, 1, 1))
	w.flip(w5(0), 3) // in its header
	made := w.rebuilt(true)
	require.NoError(t, made.Write(t.Context(), w.options(true)))
	log, err := w.store.Get(t.Context(), w5(0))
	require.NoError(t, err)
	require.NoError(t, w.store.Delete(t.Context(), w5(0)))
	kept, err := w.store.Get(t.Context(), SalvagedPrefix+w5(0))
	require.NoError(t, err)
	require.Equal(t, log, kept)
	again := w.rebuilt(false)
	require.Equal(t, made.Streams, again.Streams)
	require.Empty(t, again.Findings, "what is kept is no log")
}

// TestALogIsNotWrittenOffThatCannotBeKept: nothing is made of it then.
func TestALogIsNotWrittenOffThatCannotBeKept(t *testing.T) {
	w := newWreckage(t)
	w.log(5, 2, 0, row(1, 1, 0))
	w.log(5, 2, Window, row(1, 1, 1))
	w.flip(w5(Window), 60)
	made := w.rebuilt(true)
	o := w.options(true)
	o.WAL = faultstore.New(w.store, faultstore.When(func(op faultstore.Op) bool {
		return op.Kind == objstore.OpPut
	}, faultstore.FailFrom(1, objstore.ErrDenied)))
	require.ErrorIs(t, made.Write(t.Context(), o), objstore.ErrDenied)
	require.NoError(t, made.Write(t.Context(), w.options(true)), "it may be repeated")
	require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 1, End: 1}}, made.Streams)
}

// TestACompositeThatWasBeingRemovedIsLeftAlone has lost a component, as when a removal ended half-way.
func TestACompositeThatWasBeingRemovedIsLeftAlone(t *testing.T) {
	w := newWreckage(t)
	w.data(8, row(1, 1, 1))
	composite, err := CompositeObject{
		Components: []Component{{Object: 7}, {Object: 8, FirstBlock: 1}},
		Entries: Index{
			{Stream: 1, Start: 0, Delta: 1, Records: 1, Size: 44}, {Stream: 1, Start: 1, Delta: 1, Records: 1, Size: 44},
		},
	}.Encode()
	require.NoError(t, err)
	w.put(DataKey(DefaultNamespace, 9), composite)
	made := w.rebuilt(false)
	require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 1, Start: 1, End: 2}}, made.Streams)
	require.Contains(t, made.Findings[0].String(), "the composite of 0 to 2 links object 7, which is not there")

	w.data(7, row(1, 1, 0))
	made = w.rebuilt(false)
	require.Equal(t, []catalog.Stream{{ID: 1, Epoch: 1, End: 2}}, made.Streams)
	require.Empty(t, made.Replaced, "what the composite links is needed")
	require.Equal(t, catalog.ObjectID(9), made.Objects[0].Object)
	require.EqualValues(t, 88, made.Objects[0].Size)
}

func TestALogOfAnotherClusterIsLeftAlone(t *testing.T) {
	w := newWreckage(t)
	w.log(5, 2, 0, row(1, 1, 0))
	other := WALPrefix{Cluster: "other", Node: 5}
	w.put(other.Key(WALKey{Epoch: 9}), EncodeWALObject(WALHeader{Node: 5, Epoch: 9, Trim: -1}, []Record{row(2, 1, 0)}))
	o := w.options(false)
	_, err := Rebuild(t.Context(), o)
	require.ErrorContains(t, err, "logs of several clusters, other, tm-1")
	o.Cluster = "tm-1"
	made, err := Rebuild(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []any{1, int64(2), "logs of cluster other are left alone: 1 objects"},
		[]any{len(made.Streams), made.Nodes[0].Epoch, made.Findings[0].String()})
}

// row is a record of one row.
func row(stream catalog.StreamID, epoch, base int64) Record {
	return Record{Stream: stream, Epoch: epoch, Base: base, Count: 1, Payload: []byte{byte(base)}}
}

// w5 is the key of an object in the log of node 5, epoch 2.
func w5(start int64) string { return WALPrefix{"tm-1", 5}.Key(WALKey{Epoch: 2, Start: start}) }

func newWreckage(t *testing.T) *wreckage { return &wreckage{T: t, store: mem.New()} }

func (w *wreckage) options(leaveOut bool) RebuildOptions {
	return RebuildOptions{WAL: w.store, Data: w.store, LeaveOut: leaveOut}
}

func (w *wreckage) rebuilt(leaveOut bool) *Rebuilt {
	w.Helper()
	made, err := Rebuild(w.Context(), w.options(leaveOut))
	require.NoError(w, err)
	return made
}

func (w *wreckage) put(key string, b []byte) {
	w.Helper()
	require.NoError(w, w.store.Put(w.Context(), key, b))
}

func (w *wreckage) object(records ...Record) []byte {
	w.Helper()
	var b bytes.Buffer
	o := NewObjectWriter(&b, 1<<20)
	for _, r := range records {
		require.NoError(w, o.Add(r))
	}
	require.NoError(w, o.Close())
	return b.Bytes()
}

func (w *wreckage) data(id catalog.ObjectID, records ...Record) {
	w.Helper()
	w.put(DataKey(DefaultNamespace, id), w.object(records...))
}

func (w *wreckage) logKey(node catalog.NodeID, epoch, start int64) string {
	return WALPrefix{Cluster: "tm-1", Node: node}.Key(WALKey{Epoch: epoch, Start: start})
}

func (w *wreckage) log(node catalog.NodeID, epoch, start int64, records ...Record) {
	w.Helper()
	w.put(w.logKey(node, epoch, start), EncodeWALObject(WALHeader{Start: start, Node: node, Epoch: epoch, Trim: -1}, records))
}

func (w *wreckage) fence(node catalog.NodeID, epoch, start, by int64) {
	w.Helper()
	w.put(w.logKey(node, epoch, start),
		EncodeWALObject(WALHeader{Start: start, Node: node, Epoch: by, Trim: -1}, []Record{Sentinel()}))
}

func (w *wreckage) flip(key string, at int) {
	w.Helper()
	b, err := w.store.Get(w.Context(), key)
	require.NoError(w, err)
	b[at]++
	w.put(key, b)
}
