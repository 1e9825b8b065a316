package catalogtest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// New returns an empty catalog for one test, whose clock is now.
type New func(t *testing.T, now func() time.Time) catalog.Catalog

// Run tests a catalog. After every test its view is checked with [catalog.Check].
func Run(t *testing.T, newCatalog New) {
	for _, c := range []struct {
		name string
		test func(s *suite)
	}{
		{"MD-1 registering nodes", testRegister},
		{"MD-2 every call checks the node's epoch", testNodeEpoch},
		{"MD-3 creating streams", testCreate},
		{"MD-4 opening streams", testOpen},
		{"MD-4 a stream's epochs", testEpochs},
		{"MD-5 trimming streams", testTrim},
		{"MD-6 closing streams", testClose},
		{"MD-7 deleting streams", testDelete},
		{"MD-8 preparing objects", testPrepare},
		{"MD-9 an upload", testUpload},
		{"MD-9 uploads that are refused", testUploadRefused},
		{"MD-9 compaction of stream-set objects", testCompaction},
		{"MD-9 compactions that are refused", testCompactionRefused},
		{"MD-9 compaction drops what is dead", testCompactionOfTheDead},
		{"MD-10 compaction of stream objects", testStreamCompaction},
		{"MD-10 stream compactions that are refused", testStreamCompactionRefused},
		{"MD-11 MD-13 expiry and cleaning", testExpiry},
		{"MD-12 the stronger operation wins", testStronger},
		{"MD-15 the node's log", testWAL},
		{"views never change, and can be waited for", testViews},
		{"looking up objects", testLookup},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t}
			s.clock.Store(1_700_000_000_000)
			s.Catalog = newCatalog(t, func() time.Time { return time.UnixMilli(s.clock.Load()) })
			c.test(s)
			require.Empty(t, catalog.Check(s.View()))
		})
	}
}

// suite is one test's catalog with helpers that read as sentences.
type suite struct {
	*testing.T
	catalog.Catalog
	clock atomic.Int64 // ms
}

func (s *suite) wait(d time.Duration) { s.clock.Add(d.Milliseconds()) }

// node registers a node.
func (s *suite) node(id catalog.NodeID) catalog.Node {
	s.Helper()
	epoch, err := s.RegisterNode(s.Context(), catalog.Registration{
		ID: id, Expected: -1, Incarnation: [16]byte{byte(id), byte(s.View().Index())}, Address: "host:1", Slots: 1,
	})
	require.NoError(s, err)
	return catalog.Node{ID: id, Epoch: epoch}
}

// streams makes streams and opens them at epoch 1.
func (s *suite) streams(n catalog.Node, count int) []catalog.StreamID {
	s.Helper()
	first, err := s.CreateStreams(s.Context(), n, count)
	require.NoError(s, err)
	var ids []catalog.StreamID
	for i := range count {
		id := first + catalog.StreamID(i)
		_, err := s.OpenStream(s.Context(), n, id, 1)
		require.NoError(s, err)
		ids = append(ids, id)
	}
	return ids
}

func (s *suite) prepare(n catalog.Node, count int) catalog.ObjectID {
	s.Helper()
	id, err := s.PrepareObjects(s.Context(), n, count, time.Hour)
	require.NoError(s, err)
	return id
}

// uploadSet commits a stream-set object of ranges at epoch 1.
func (s *suite) uploadSet(n catalog.Node, ranges ...catalog.Range) catalog.ObjectID {
	s.Helper()
	id := s.prepare(n, 1)
	require.NoError(s, s.Commit(s.Context(), n, catalog.Commit{Object: id, Size: 100, Ranges: ranges}))
	return id
}

// uploadObject commits a stream object at epoch 1.
func (s *suite) uploadObject(n catalog.Node, id catalog.StreamID, start, end int64) catalog.ObjectID {
	s.Helper()
	o := object(s.prepare(n, 1), id, start, end)
	require.NoError(s, s.Commit(s.Context(), n, catalog.Commit{
		Object: catalog.NoObject, StreamObjects: []catalog.StreamObject{o},
	}))
	return o.Object
}

func object(id catalog.ObjectID, stream catalog.StreamID, start, end int64) catalog.StreamObject {
	return catalog.StreamObject{Object: id, Size: end - start, Stream: stream, Epoch: 1, Start: start, End: end}
}

func span(stream catalog.StreamID, start, end int64) catalog.Range {
	return catalog.Range{Stream: stream, Epoch: 1, Start: start, End: end, Size: end - start}
}

func (s *suite) stream(id catalog.StreamID) catalog.Stream {
	s.Helper()
	row, ok := s.View().Stream(id)
	require.True(s, ok)
	return row
}

// destroyed lists the marks in the view.
func (s *suite) destroyed() map[catalog.ObjectID]catalog.Operation {
	marks := map[catalog.ObjectID]catalog.Operation{}
	for _, d := range s.View().Destroyed(1000) {
		marks[d.Object] = d.Operation
	}
	return marks
}

// refused checks that a call failed with an error and changed no stream.
func (s *suite) refused(want error, call func() error) {
	s.Helper()
	streams := listStreams(s.View())
	require.ErrorIs(s, call(), want)
	require.Equal(s, streams, listStreams(s.View()))
}

func listStreams(v catalog.View) []catalog.Stream {
	var all []catalog.Stream
	for row := range v.Streams() {
		all = append(all, row)
	}
	return all
}
