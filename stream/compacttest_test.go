package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// testingT is what the tests of this package need of *testing.T and *rapid.T.
type testingT interface {
	require.TestingT
	Helper()
	Context() context.Context
}

// depot is a node's committed streams without an engine: what is appended is committed at once, as an upload would, and
// remembered, so that it can be read back.
type depot struct {
	testingT
	metadata *catalogtest.Memory
	catalog  *flakyCatalog // metadata with faults
	base     *mem.Store
	store    *faultstore.Store // base with faults
	node     catalog.Node
	streams  []catalog.StreamID
	appended map[catalog.StreamID][]Record
	done     []CompactedEvent
	failures []error
	waited   *atomic.Int64 // what the metadata's clock is ahead, as a duration
}

// wait lets time pass for the metadata.
func (d *depot) wait(t time.Duration) { d.waited.Add(int64(t)) }

// inDepot runs a test in a bubble: time passes when everybody waits.
func inDepot(t *testing.T, streams int, test func(d *depot)) {
	synctest.Test(t, func(t *testing.T) { test(newDepot(t, streams)) })
}

func newDepot(t testingT, streams int) *depot {
	d := &depot{testingT: t, base: mem.New(), waited: &atomic.Int64{}}
	d.metadata = catalogtest.NewMemory(func() time.Time { return time.Now().Add(time.Duration(d.waited.Load())) })
	d.catalog = &flakyCatalog{Catalog: d.metadata}
	d.store = faultstore.New(d.base, nil)
	d.appended = map[catalog.StreamID][]Record{}
	d.register()
	first, err := d.metadata.CreateStreams(t.Context(), d.node, streams)
	require.NoError(t, err)
	for i := range streams {
		id := first + catalog.StreamID(i)
		_, err := d.metadata.OpenStream(t.Context(), d.node, id, 1)
		require.NoError(t, err)
		d.streams = append(d.streams, id)
	}
	return d
}

// register begins the next epoch of node 1.
func (d *depot) register() {
	epoch, err := d.metadata.RegisterNode(d.Context(), catalog.Registration{
		ID: 1, Expected: -1, Incarnation: [16]byte{1, byte(d.metadata.View().Index())}, Slots: 1,
	})
	require.NoError(d, err)
	d.node = catalog.Node{ID: 1, Epoch: epoch}
}

// testConfig is small: streams split from 400 bytes on, objects in parts of 300.
func testConfig() Config {
	c := DefaultConfig()
	c.CompactSplit, c.CompactCache, c.CompactBandwidth, c.ObjectPartSize = 400, 10_000, 0, 300
	return c
}

func (d *depot) events() Events {
	return Events{
		Compacted:        func(e CompactedEvent) { d.done = append(d.done, e) },
		CompactionFailed: func(e FailedEvent) { d.failures = append(d.failures, e.Err) },
	}
}

func (d *depot) compactor(changes ...func(*compactConfig)) *compactor {
	c := newCompactor(compactorOptions{
		catalog: d.catalog, data: d.store, namespace: DefaultNamespace, node: d.node, events: d.events(), cfg: testConfig(),
	})
	c.config.minorBytes, c.config.majorBytes, c.config.deadBytes = 1000, 1<<20, 600
	for _, change := range changes {
		change(&c.config)
	}
	return c
}

func (d *depot) cleaner() *cleaner {
	return newCleaner(cleanerOptions{
		catalog: d.catalog, data: d.store, namespace: DefaultNamespace, events: d.events(), cfg: testConfig(),
	})
}

// run is a number of records to append to a stream, of size bytes each and three rows.
type run struct {
	stream      int
	count, size int
}

// records makes the next records of a stream; what is in them says where they belong.
func (d *depot) records(r run) []Record {
	id := d.streams[r.stream]
	row, _ := d.metadata.View().Stream(id)
	base := row.End
	var records []Record
	for range r.count {
		payload := bytes.Repeat(fmt.Appendf(nil, "%d@%d ", id, base), r.size/4+1)[:r.size]
		records = append(records, Record{Stream: id, Epoch: row.Epoch, Base: base, Count: 3, Payload: payload})
		base += 3
	}
	return records
}

// write stores a data object under a new id.
func (d *depot) write(records []Record) (id catalog.ObjectID, size int64, ranges []catalog.Range) {
	d.Helper()
	id, err := d.metadata.PrepareObjects(d.Context(), d.node, 1, time.Hour)
	require.NoError(d, err)
	var b bytes.Buffer
	w := NewObjectWriter(&b, 100)
	for _, r := range records {
		require.NoError(d, w.Add(r))
	}
	require.NoError(d, w.Close())
	require.NoError(d, d.base.Put(d.Context(), DataKey(DefaultNamespace, id), b.Bytes()))
	ranges = w.Index().runs()
	for i := range ranges {
		ranges[i].Epoch = records[0].Epoch
	}
	return id, w.Size(), ranges
}

func (d *depot) remember(records []Record) {
	for _, r := range records {
		d.appended[r.Stream] = append(d.appended[r.Stream], r)
	}
}

// set commits a stream-set object of runs, which are in the order of their streams.
func (d *depot) set(runs ...run) catalog.ObjectID {
	d.Helper()
	var records []Record
	for _, r := range runs {
		records = append(records, d.records(r)...)
	}
	id, size, ranges := d.write(records)
	require.NoError(d, d.metadata.Commit(d.Context(), d.node, catalog.Commit{Object: id, Size: size, Ranges: ranges}))
	d.remember(records)
	return id
}

// object commits a stream object of a run.
func (d *depot) object(r run) catalog.ObjectID {
	d.Helper()
	records := d.records(r)
	id, size, ranges := d.write(records)
	require.NoError(d, d.metadata.Commit(d.Context(), d.node, catalog.Commit{
		Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{{
			Object: id, Size: size, Stream: ranges[0].Stream, Epoch: ranges[0].Epoch, Start: ranges[0].Start, End: ranges[0].End,
		}},
	}))
	d.remember(records)
	return id
}

func (d *depot) trim(stream int, start int64) {
	d.Helper()
	id := d.streams[stream]
	require.NoError(d, d.metadata.TrimStream(d.Context(), d.node, id, d.epoch(id), start))
}

func (d *depot) epoch(id catalog.StreamID) int64 {
	row, _ := d.metadata.View().Stream(id)
	return row.Epoch
}

func (d *depot) deleteStream(stream int) {
	d.Helper()
	id := d.streams[stream]
	require.NoError(d, d.metadata.CloseStream(d.Context(), d.node, id, d.epoch(id)))
	require.NoError(d, d.metadata.DeleteStream(d.Context(), d.node, id, d.epoch(id)))
	delete(d.appended, id)
}

// verify reads every live record back and holds the catalog against its invariants.
func (d *depot) verify() {
	d.Helper()
	v := d.metadata.View()
	require.Empty(d, catalog.Check(v))
	for id, appended := range d.appended {
		row, _ := v.Stream(id)
		want := slices.DeleteFunc(slices.Clone(appended), func(r Record) bool { return r.End() <= row.Start })
		got, err := readCommitted(d.Context(), d.base, v, id)
		require.NoError(d, err)
		got = slices.DeleteFunc(got, func(r Record) bool { return r.End() <= row.Start })
		require.Equal(d, len(want), len(got), "records of stream %d", id)
		for i := range want {
			require.Equal(d, want[i], got[i])
		}
	}
}

// readCommitted reads all blocks of a stream from its start on, by nothing but metadata and formats.
func readCommitted(ctx context.Context, store objstore.Store, v catalog.View, id catalog.StreamID) ([]Record, error) {
	row, _ := v.Stream(id)
	var all []Record
	for _, o := range v.Objects(id, row.Start, row.End, 1<<20) {
		layout, err := loadLayout(ctx, store, DefaultNamespace, o.Object, o.Size, o.Attributes)
		if err != nil {
			return nil, err
		}
		for i, e := range layout.entries {
			if e.Stream != id {
				continue
			}
			key, b := DataKey(DefaultNamespace, layout.holder(i)), make([]byte, e.Size)
			if err := store.ReadRange(ctx, key, b, e.Position); err != nil {
				return nil, err
			}
			records, err := DecodeBlocks(key, e, b)
			if err != nil {
				return nil, err
			}
			all = append(all, records...)
		}
	}
	return all, nil
}

// keys lists the bucket.
func (d *depot) keys() []string {
	page, err := d.base.List(d.Context(), objstore.ListRequest{})
	require.NoError(d, err)
	var keys []string
	for _, o := range page.Objects {
		keys = append(keys, o.Key)
	}
	return keys
}

// needed lists the keys that live objects need.
func (d *depot) needed() []string {
	v := d.metadata.View()
	var keys []string
	need := func(id catalog.ObjectID) { keys = append(keys, DataKey(DefaultNamespace, id)) }
	for s := range v.StreamSets() {
		need(s.Object)
	}
	for s := range v.Streams() {
		for _, o := range v.StreamObjects(s.ID) {
			need(o.Object)
			layout, err := loadLayout(d.Context(), d.base, DefaultNamespace, o.Object, o.Size, o.Attributes)
			require.NoError(d, err)
			for _, c := range layout.components {
				need(c.Object)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// cleanAll lets all grace and reservations pass and cleans.
func (d *depot) cleanAll() {
	d.Helper()
	d.wait(25 * time.Hour)
	for range 2 { // what expires in the first round has its grace before it
		_, err := d.cleaner().round(d.Context())
		require.NoError(d, err)
		d.wait(time.Hour)
	}
	require.Empty(d, d.metadata.View().Destroyed(10))
	require.Equal(d, d.needed(), d.keys(), "GC-7: the bucket holds what is needed and no more")
}

// flakyCatalog is a catalog whose changes can be made to fail.
type flakyCatalog struct {
	catalog.Catalog
	// fault, if set, decides about the n-th change from now on, counted from 0: it fails with err, before or after it was
	// made.
	fault atomic.Pointer[func(n int) (err error, after bool)]
	n     atomic.Int64
}

// inject replaces the fault and counts anew.
func (f *flakyCatalog) inject(fault func(n int) (err error, after bool)) {
	f.n.Store(0)
	if fault == nil {
		f.fault.Store(nil)
		return
	}
	f.fault.Store(&fault)
}

func (f *flakyCatalog) change(do func() error) error {
	fault := f.fault.Load()
	n := int(f.n.Add(1)) - 1
	if fault == nil {
		return do()
	}
	err, after := (*fault)(n)
	if err != nil && !after {
		return err
	}
	return errors.Join(err, do())
}

// Commit implements [catalog.Catalog], as all that follow.
func (f *flakyCatalog) Commit(ctx context.Context, n catalog.Node, c catalog.Commit) error {
	return f.change(func() error { return f.Catalog.Commit(ctx, n, c) })
}

func (f *flakyCatalog) CompactStream(ctx context.Context, n catalog.Node, c catalog.StreamCompaction) error {
	return f.change(func() error { return f.Catalog.CompactStream(ctx, n, c) })
}

func (f *flakyCatalog) PrepareObjects(
	ctx context.Context, n catalog.Node, count int, ttl time.Duration,
) (id catalog.ObjectID, err error) {
	err = f.change(func() (err error) {
		id, err = f.Catalog.PrepareObjects(ctx, n, count, ttl)
		return err
	})
	return id, err
}

func (f *flakyCatalog) ExpirePrepared(ctx context.Context) (n int, err error) {
	err = f.change(func() (err error) {
		n, err = f.Catalog.ExpirePrepared(ctx)
		return err
	})
	return n, err
}

func (f *flakyCatalog) CleanDestroyed(ctx context.Context, ids ...catalog.ObjectID) (n int, err error) {
	err = f.change(func() (err error) {
		n, err = f.Catalog.CleanDestroyed(ctx, ids...)
		return err
	})
	return n, err
}
