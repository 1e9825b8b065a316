package stream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// fleet is three nodes over one bucket, whose streams move about, and the plain model of what was appended.
type fleet struct {
	*world  // its catalog, its clock, and its way to install a rebuilt one
	random  *rand.Rand
	bucket  *mem.Bucket
	ships   []*ship
	cargo   []*fleetStream
	records int
}

// ship is a node: its process, or the one that it had.
type ship struct {
	id     catalog.NodeID
	engine *stream.Engine // nil: it was killed
	store  *faultstore.Store
}

// fleetStream is a stream of the model. Records have one row each.
type fleetStream struct {
	id      catalog.StreamID
	on      *ship // nil: nobody has it open
	handle  *stream.Stream
	start   int64
	acked   []string // from offset 0 on
	unknown []string // submitted when their node was killed
}

func (s *fleetStream) end() int64 { return int64(len(s.acked)) }

// TestMetadataOfSeveralNodesIsMadeAgain moves streams between nodes, kills nodes with appends under way, has others take over
// their logs, and throws the metadata away, with all nodes killed, over and over.
func TestMetadataOfSeveralNodesIsMadeAgain(t *testing.T) {
	bucket := mem.NewBucket(time.Now)
	f := &fleet{world: newWorld(t, bucket.Open(), bucket.Open(), 0), bucket: bucket}
	f.random = rand.New(rand.NewPCG(f.seed, 7))
	var closed func()
	f.catalog, closed = openMetadata(t.Context(), t, t.TempDir(), f.now)
	for id := range catalog.NodeID(3) {
		f.ships = append(f.ships, &ship{id: id + 1})
	}
	for range number(t, livesVariable, 3) {
		for _, s := range f.ships {
			f.launch(s)
		}
		f.load()
		for range 150 {
			f.step()
		}
		for _, s := range f.ships {
			f.sink(s)
		}
		closed()
		closed = f.lose()
	}
	for _, s := range f.ships {
		f.launch(s)
	}
	f.load()
	for range 2 { // what others hold is given up, and removed
		f.waited.Add(int64(8 * 24 * time.Hour))
		require.NoError(t, f.ships[0].engine.Clean(t.Context()))
	}
	require.Zero(t, len(f.catalog.View().Destroyed(1)))
	f.verify()
	for _, s := range f.ships {
		require.NoError(t, s.engine.Close(t.Context()))
	}
	f.checkRebuilt(nil)
	closed()
}

// launch opens the engine of a node, which recovers what its log has.
func (f *fleet) launch(s *ship) {
	if s.engine != nil {
		return
	}
	s.store = faultstore.New(f.bucket.Open(), nil)
	config := f.config()
	config.UploadStreamSplit, config.CompactSplit = 1<<10, 4<<10 // many objects of one stream, which composites link
	if f.random.IntN(2) == 0 {
		config.WALTrimPersist = time.Hour // the log tells late what was committed
	}
	engine, err := stream.Open(f.Context(), stream.Options{
		Catalog: f.catalog, Node: s.id, Cluster: "end-to-end", WAL: s.store, Data: s.store, Proof: time.Now, Config: config,
	})
	require.NoError(f, err)
	s.engine = engine
	for _, c := range f.cargo {
		if c.on == s {
			c.on = nil
		}
	}
}

// load opens every stream that nobody has, on some node, and makes new ones.
func (f *fleet) load() {
	for len(f.cargo) < 12 {
		id, err := f.anyShip().engine.CreateStreams(f.Context(), 1)
		require.NoError(f, err)
		f.cargo = append(f.cargo, &fleetStream{id: id})
	}
	for _, c := range f.cargo {
		if c.on == nil {
			f.board(c, f.anyShip())
		}
	}
}

func (f *fleet) anyShip() *ship {
	for {
		if s := f.ships[f.random.IntN(len(f.ships))]; s.engine != nil {
			return s
		}
	}
}

// board opens a stream, and settles what became of records whose outcome was not known.
func (f *fleet) board(c *fleetStream, on *ship) {
	row, known := f.catalog.View().Stream(c.id)
	if !known { // nothing of it has to be there
		require.Equal(f, c.start, c.end(), "stream %d", c.id)
		id, err := on.engine.CreateStreams(f.Context(), 1)
		require.NoError(f, err)
		*c = fleetStream{id: id}
		row, _ = f.catalog.View().Stream(id)
	}
	handle, err := on.engine.OpenStream(f.Context(), c.id, row.Epoch+1)
	require.NoError(f, err)
	c.on, c.handle = on, handle
	if c.start == c.end() { // all of it is trimmed
		c.acked = c.acked[:min(len(c.acked), int(handle.Confirm()))]
	}
	for handle.Confirm() > c.end() {
		require.NotEmpty(f, c.unknown, "stream %d reaches to %d, acknowledged is %d", c.id, handle.Confirm(), c.end())
		c.acked, c.unknown = append(c.acked, c.unknown[0]), c.unknown[1:]
	}
	c.unknown = nil
	require.Equal(f, c.end(), handle.Confirm(), "stream %d", c.id)
	require.LessOrEqual(f, handle.Start(), max(c.start, 0), "stream %d", c.id)
	c.start = handle.Start()
	f.read(c)
}

func (f *fleet) read(c *fleetStream) {
	for at := c.handle.Start(); at < c.end(); {
		got, err := c.handle.Fetch(f.Context(), stream.FetchRequest{Start: at, End: c.end(), MaxBytes: 16 << 10})
		require.NoError(f, err)
		for _, r := range got.Records {
			require.Equal(f, at, r.Base)
			require.Equal(f, c.acked[at], string(r.Payload), "stream %d", c.id)
			at = r.End()
		}
	}
}

func (f *fleet) verify() {
	for _, c := range f.cargo {
		f.read(c)
	}
}

// step does one thing.
func (f *fleet) step() {
	c := f.cargo[f.random.IntN(len(f.cargo))]
	switch n := f.random.IntN(100); {
	case n < 60:
		row := f.row(c)
		_, err := c.handle.Append(f.Context(), 1, []byte(row))
		require.NoError(f, err)
		c.acked = append(c.acked, row)
	case n < 68:
		require.NoError(f, c.on.engine.Upload(f.Context()))
	case n < 74:
		require.NoError(f, c.on.engine.Compact(f.Context()))
	case n < 80:
		f.waited.Add(int64(time.Duration(f.random.IntN(15)) * time.Minute))
		require.NoError(f, c.on.engine.Clean(f.Context()))
	case n < 86:
		to := c.start + f.random.Int64N(c.end()-c.start+1)
		require.NoError(f, c.handle.Trim(f.Context(), to))
		c.start = to
	case n < 96:
		require.NoError(f, c.handle.Close(f.Context()))
		f.board(c, f.anyShip())
	default:
		f.wreck(c.on)
	}
}

// row is a payload of some length that is like no other.
func (f *fleet) row(c *fleetStream) string {
	f.records++
	return fmt.Sprintf("%d of stream %d%*d", f.records, c.id, 1+f.random.IntN(3000), 0)
}

// sink kills a node with appends under way.
func (f *fleet) sink(s *ship) {
	if s.engine == nil {
		return
	}
	for _, c := range f.cargo {
		for range f.random.IntN(3) {
			if c.on != s {
				break
			}
			row := f.row(c)
			a, err := s.engine.Admit(f.Context(), 1, len(row))
			require.NoError(f, err)
			if _, err = c.handle.Submit(a, 1, []byte(row)); err == nil {
				c.unknown = append(c.unknown, row)
			}
			a.Release()
		}
	}
	var left atomic.Int64
	left.Store(f.random.Int64N(4))
	s.store.SetInjector(func(op faultstore.Op) faultstore.Fault { // a few calls still arrive
		if left.Add(-1) < 0 {
			return faultstore.Fault{Err: objstore.ErrDenied}
		}
		return faultstore.Fault{}
	})
	ended, cancel := context.WithCancel(f.Context())
	cancel()
	require.Error(f, s.engine.Close(ended))
	s.engine = nil
	for _, c := range f.cargo {
		if c.on == s {
			c.handle = nil
		}
	}
}

// wreck kills a node, and has another one take its log over, or lets it come back.
func (f *fleet) wreck(s *ship) {
	f.sink(s)
	if f.random.IntN(2) == 0 {
		for _, other := range f.ships {
			if other.engine != nil {
				require.NoError(f, other.engine.Failover(f.Context(), s.id))
				break
			}
		}
	}
	f.launch(s)
	f.load()
}

// lose puts metadata in place that is made from the bucket alone.
func (f *fleet) lose() (closed func()) {
	store := f.bucket.Open()
	o := stream.RebuildOptions{WAL: store, Data: store, Node: 1}
	made, err := stream.Rebuild(f.Context(), o)
	require.NoError(f, err)
	require.NoError(f, made.Write(f.Context(), o))
	f.Logf("%d streams, %d sets, %d objects, %d replaced, %d copied, %d records logged on %d nodes, %d findings", len(made.Streams),
		len(made.Sets), len(made.Objects), len(made.Replaced), len(made.Copies), made.LoggedRecords, len(made.Nodes), len(made.Findings))
	f.catalog, closed = installed(f.world, made, f.now)
	f.checkRebuilt(made)
	for _, c := range f.cargo {
		c.on = nil
	}
	return closed
}
