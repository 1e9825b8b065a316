package meta_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// raised lets the commands of streams into a log: a node that the tests do not know of announces that it understands them.
func raised(t require.TestingT, l *meta.Log) *meta.Log {
	const bystander = 1000
	results, err := l.Propose(background,
		meta.RegisterNode{Node: bystander, ExpectedEpoch: -1, Incarnation: [16]byte{0xFF}},
		meta.AnnounceLevel{Node: bystander, Incarnation: [16]byte{0xFF}, Level: meta.NewestLevel, Build: "test"},
		meta.RaiseLevel{Level: meta.LevelStreams, Nodes: []int32{bystander}})
	require.NoError(t, err)
	require.NoError(t, results[2].Err())
	return l
}

// newCatalog opens a catalog for one test.
func newCatalog(t *testing.T, b meta.Backend, now func() time.Time) catalog.Catalog {
	return meta.NewCatalog(raised(t, open(t, b, meta.Options{Now: now, SnapshotEvery: 7})))
}

func TestTheCatalogPassesItsSuite(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		catalogtest.Run(t, func(t *testing.T, now func() time.Time) catalog.Catalog {
			return newCatalog(t, metatest.NewMemory("c").Join(), now)
		})
	})
	t.Run("embedded", func(t *testing.T) {
		catalogtest.Run(t, func(t *testing.T, now func() time.Time) catalog.Catalog {
			b, err := embedded.Open(filepath.Join(t.TempDir(), "meta.db"), embedded.Options{ClusterID: "c"})
			require.NoError(t, err)
			return newCatalog(t, b, now)
		})
	})
	t.Run("lossy", func(t *testing.T) {
		catalogtest.Run(t, func(t *testing.T, now func() time.Time) catalog.Catalog {
			return newCatalog(t, metatest.Lossy(metatest.NewMemory("c").Join(), 7), now)
		})
	})
}

// twin makes every call to two catalogs and holds the answers, and all that can be seen, against each other.
type twin struct {
	*rapid.T
	ours, reference catalog.Catalog
	nodes           []catalog.Node
}

// newTwin registers nodes 1 and 2 and makes three streams, in both.
func newTwin(t *rapid.T, l *meta.Log, now func() time.Time) *twin {
	w := &twin{T: t, ours: meta.NewCatalog(l), reference: catalogtest.NewMemory(now)}
	for id := range catalog.NodeID(2) {
		var epochs [2]int64
		for i, c := range w.both() {
			var err error
			epochs[i], err = c.RegisterNode(background, catalog.Registration{
				ID: id + 1, Expected: -1, Incarnation: [16]byte{byte(id) + 1}, Address: "h:1", Slots: 1,
			})
			require.NoError(t, err)
		}
		require.Equal(t, epochs[0], epochs[1])
		w.nodes = append(w.nodes, catalog.Node{ID: id + 1, Epoch: epochs[0]})
	}
	w.call("create", func(c catalog.Catalog) (any, error) { return c.CreateStreams(background, w.nodes[0], 3) })
	return w
}

func (w *twin) both() []catalog.Catalog { return []catalog.Catalog{w.ours, w.reference} }

// refusals are what a call may be refused as.
var refusals = []error{
	catalog.ErrStreamNotExist, catalog.ErrStreamNotClosed, catalog.ErrStreamFenced, catalog.ErrExpiredEpoch,
	catalog.ErrNodeEpochMismatch, catalog.ErrRedundant, catalog.ErrNotContiguous, catalog.ErrObjectNotPrepared,
	catalog.ErrObjectIDInUse, catalog.ErrCompactionLosesData, catalog.ErrStreamNotOpened, catalog.ErrOffsetOutOfRange,
	catalog.ErrInvalidArgument,
}

func refusalOf(t require.TestingT, err error) error {
	if err == nil {
		return nil
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return r
		}
	}
	require.NoError(t, err, "is no refusal")
	return nil
}

func (w *twin) call(name string, f func(c catalog.Catalog) (any, error)) {
	got, gotErr := f(w.ours)
	want, wantErr := f(w.reference)
	require.Equal(w, refusalOf(w, wantErr), refusalOf(w, gotErr), "%s: ours %v, the reference %v", name, gotErr, wantErr)
	if gotErr == nil {
		require.Equal(w, want, got, name)
	}
	require.Equal(w, seen(w.reference.View()), seen(w.ours.View()), name)
	require.Empty(w, catalog.Check(w.ours.View()), name)
}

// seen is all that a view shows of streams and objects, but for its index.
func seen(v catalog.View) map[string]any {
	out := map[string]any{"next": v.NextObject(), "destroyed": append([]catalog.DestroyedObject{}, v.Destroyed(1000)...)}
	for s := range v.Streams() {
		s.Epochs = append([]catalog.EpochStart{}, s.Epochs...)
		out[fmt.Sprint("stream ", s.ID)] = s
		out[fmt.Sprint("objects of ", s.ID)] = append([]catalog.StreamObjectState{}, v.StreamObjects(s.ID)...)
		for _, from := range []int64{s.Start, s.Start + 3, s.End - 1} {
			for _, limit := range []int{2, 100} {
				found := v.Objects(s.ID, from, s.End, limit)
				out[fmt.Sprint("parts of ", s.ID, from, limit)] = append([]catalog.ObjectRange{}, found...)
			}
		}
	}
	for set := range v.StreamSets() {
		out[fmt.Sprint("set ", set.Object)] = set
	}
	for id := range v.NextObject() {
		out[fmt.Sprint("prepared ", id)] = v.IsPrepared(id)
	}
	for id := range catalog.NodeID(3) {
		n, _ := v.Node(id)
		out[fmt.Sprint("node ", id)] = n
	}
	return out
}

// step makes one random call, which may or may not be allowed. rapid prefers small numbers, so what is to happen often comes
// first.
func (w *twin) step(clock *time.Time) {
	t := w.T
	n := rapid.SampledFrom(append(w.nodes, catalog.Node{ID: 1, Epoch: 9})).Draw(t, "node")
	s := catalog.StreamID(rapid.IntRange(0, 3).Draw(t, "stream"))
	epoch := rapid.Int64Range(0, 3).Draw(t, "epoch")
	if row, known := w.ours.View().Stream(s); known && rapid.IntRange(0, 9).Draw(t, "right") < 9 {
		epoch = row.Epoch
		if row.Node > 0 {
			n = w.nodes[row.Node-1]
		}
	}
	object := catalog.ObjectID(rapid.Int64Range(-1, 30).Draw(t, "object"))
	if rapid.IntRange(0, 9).Draw(t, "new object") < 8 {
		object = w.fresh(object, 0)
	}
	offset := rapid.Int64Range(0, 40).Draw(t, "offset")
	ctx := background
	switch rapid.IntRange(0, 13).Draw(t, "call") {
	case 12:
		*clock = clock.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
		w.call("expire", func(c catalog.Catalog) (any, error) { return c.ExpirePrepared(ctx) })
	case 0, 1:
		w.call("open", func(c catalog.Catalog) (any, error) { _, err := c.OpenStream(ctx, n, s, epoch+1); return nil, err })
	case 8:
		w.call("open", func(c catalog.Catalog) (any, error) { _, err := c.OpenStream(ctx, n, s, epoch); return nil, err })
	case 9:
		w.call("close", func(c catalog.Catalog) (any, error) { return nil, c.CloseStream(ctx, n, s, epoch) })
	case 6:
		w.call("trim", func(c catalog.Catalog) (any, error) { return nil, c.TrimStream(ctx, n, s, epoch, offset) })
	case 10:
		w.call("delete", func(c catalog.Catalog) (any, error) { return nil, c.DeleteStream(ctx, n, s, epoch) })
	case 2:
		w.call("prepare", func(c catalog.Catalog) (any, error) { return c.PrepareObjects(ctx, n, 5, time.Minute) })
	case 3, 7:
		commit := w.upload(object)
		w.call("upload", func(c catalog.Catalog) (any, error) { return nil, c.Commit(ctx, n, commit) })
	case 5:
		commit := w.compaction(object)
		w.call("compact", func(c catalog.Catalog) (any, error) { return nil, c.Commit(ctx, n, commit) })
	case 4:
		compaction := w.streamCompaction(s, object)
		w.call("compact stream", func(c catalog.Catalog) (any, error) { return nil, c.CompactStream(ctx, n, compaction) })
	case 11:
		w.call("clean", func(c catalog.Catalog) (any, error) { return c.CleanDestroyed(ctx, object, object-1) })
	case 13:
		start := catalog.Window * rapid.Int64Range(0, 3).Draw(t, "window")
		if rapid.Bool().Draw(t, "close log") {
			w.call("close log", func(c catalog.Catalog) (any, error) { return nil, c.CloseWAL(ctx, n, start) })
		} else {
			w.call("open log", func(c catalog.Catalog) (any, error) { return nil, c.OpenWAL(ctx, n, start) })
		}
	}
}

// fresh returns the i-th id that is prepared, or the given one if there are not so many.
func (w *twin) fresh(id catalog.ObjectID, i int) catalog.ObjectID {
	v := w.ours.View()
	for next := range v.NextObject() {
		if !v.IsPrepared(next) {
			continue
		}
		if i == 0 {
			return next
		}
		i--
	}
	return id
}

// upload draws a commit of new records, most of which continue their streams.
func (w *twin) upload(object catalog.ObjectID) catalog.Commit {
	commit := catalog.Commit{Object: object, Size: 9}
	for range rapid.IntRange(0, 3).Draw(w.T, "ranges") {
		commit.Ranges = append(commit.Ranges, w.newRange())
	}
	for i := range rapid.IntRange(0, 2).Draw(w.T, "stream objects") {
		r := w.newRange()
		commit.StreamObjects = append(commit.StreamObjects, catalog.StreamObject{
			Object: w.fresh(object, i+1), Size: r.Size, Stream: r.Stream, Epoch: r.Epoch, Start: r.Start, End: r.End,
			Attributes: catalog.NewAttributes(rapid.Bool().Draw(w.T, "composite"), 0, false),
		})
	}
	if rapid.Bool().Draw(w.T, "no set") {
		commit.Object = catalog.NoObject
		commit.Ranges = commit.Ranges[:min(len(commit.Ranges), rapid.IntRange(0, 1).Draw(w.T, "stray range"))]
		commit.Ranges = append([]catalog.Range(nil), commit.Ranges...)
	}
	return commit
}

func (w *twin) newRange() catalog.Range {
	s := catalog.StreamID(rapid.IntRange(0, 2).Draw(w.T, "of stream"))
	row, _ := w.ours.View().Stream(s)
	r := catalog.Range{Stream: s, Epoch: row.Epoch, Start: row.End, Size: 5}
	if rapid.IntRange(0, 9).Draw(w.T, "anywhere") == 9 {
		r.Start = rapid.Int64Range(0, 40).Draw(w.T, "start")
	}
	r.End = r.Start + rapid.Int64Range(0, 9).Draw(w.T, "count")
	return r
}

// compaction draws a commit in the place of some stream-set objects, most of which keeps all that they hold.
func (w *twin) compaction(object catalog.ObjectID) catalog.Commit {
	commit := catalog.Commit{Object: object, Size: 3}
	for set := range w.ours.View().StreamSets() {
		if rapid.IntRange(0, 5).Draw(w.T, "left out") == 5 {
			continue
		}
		commit.Compacted = append(commit.Compacted, set.Object)
		for _, r := range set.Ranges {
			switch rapid.IntRange(0, 9).Draw(w.T, "becomes") {
			case 9: // forgotten
			case 8:
				r.End += rapid.Int64Range(-2, 2).Draw(w.T, "other end")
				commit.Ranges = append(commit.Ranges, r)
			case 1:
				commit.StreamObjects = append(commit.StreamObjects, catalog.StreamObject{
					Object: w.fresh(object, len(commit.StreamObjects)+1), Size: 5, Stream: r.Stream, Epoch: -1, Start: r.Start, End: r.End,
				})
			default:
				commit.Ranges = append(commit.Ranges, r)
			}
		}
	}
	return commit
}

// streamCompaction draws one object in the place of some of a stream's.
func (w *twin) streamCompaction(s catalog.StreamID, object catalog.ObjectID) catalog.StreamCompaction {
	row, _ := w.ours.View().Stream(s)
	c := catalog.StreamCompaction{Object: object, Size: 4, Stream: s, Epoch: row.Epoch}
	for _, o := range w.ours.View().StreamObjects(s) {
		if rapid.IntRange(0, 5).Draw(w.T, "left out") == 5 {
			continue
		}
		if len(c.Sources) == 0 {
			c.Start = o.Start
		}
		c.End = o.End
		c.Sources = append(c.Sources, o.Object)
		c.Operations = append(c.Operations, catalog.Operation(rapid.IntRange(0, 11).Draw(w.T, "operation")%4%3))
	}
	switch rapid.IntRange(0, 9).Draw(w.T, "range") {
	case 5:
		c.Start++
	case 6:
		c.Start = row.Start
	case 7:
		c.Object = catalog.NoObject
	case 8:
		c.Operations = append(c.Operations, 3)[min(1, len(c.Operations)):]
	case 9:
		c.DeadComponents = []catalog.ObjectID{catalog.ObjectID(rapid.IntRange(-1, 12).Draw(w.T, "component"))}
	}
	return c
}

func TestF32_TheCatalogAnswersAsTheOneInMemoryAndKeepsEveryInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := time.UnixMilli(1_700_000_000_000)
		now := func() time.Time { return clock }
		storage := metatest.NewMemory("c")
		r := start(t, storage.Open, meta.Options{Now: now, SnapshotEvery: 9})
		defer func() { r.stop() }()
		w := newTwin(t, raised(t, r.Log), now)
		for range rapid.IntRange(1, 100).Draw(t, "calls") {
			w.step(&clock)
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 { // from a snapshot and the entries after it
				before := r.View().EncodeSnapshot()
				r.restart(t)
				require.Equal(t, before, r.View().EncodeSnapshot())
				restored, err := meta.DecodeSnapshot(before)
				require.NoError(t, err)
				require.Equal(t, before, restored.EncodeSnapshot())
				w.ours = meta.NewCatalog(r.Log)
				w.call("nothing", func(catalog.Catalog) (any, error) { return nil, nil })
			}
		}
	})
}

func TestACommitThatDoesNotFitIsRefusedBeforeItIsProposed(t *testing.T) {
	l := raised(t, open(t, metatest.NewMemory("c").Join(), meta.Options{MaxEntryBytes: 4096}))
	c := meta.NewCatalog(l)
	before := l.View().Index()
	err := c.Commit(context.Background(), catalog.Node{ID: 1, Epoch: 1}, catalog.Commit{Ranges: make([]catalog.Range, 200)})
	require.ErrorIs(t, err, catalog.ErrTooLarge)
	require.Equal(t, before, l.View().Index())
}

func TestACatalogWhoseLogHasStoppedIsUnavailable(t *testing.T) {
	l := raised(t, open(t, metatest.NewMemory("c").Join(), meta.Options{}))
	c := meta.NewCatalog(l)
	require.NoError(t, l.Close())
	_, err := c.ExpirePrepared(background)
	require.ErrorIs(t, err, catalog.ErrUnavailable)
	_, err = c.Wait(background, 1<<40)
	require.ErrorIs(t, err, catalog.ErrUnavailable)
}
