package stream_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"net"
	"net/rpc"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// A catalog that several processes share: the parent of a test serves one in memory over a socket. It is as little as the
// tests need: whole views go over the wire.

// Change is a call of a catalog; Op says which one and which of the fields count.
type Change struct {
	Op           string
	Node         catalog.Node
	Registration catalog.Registration
	Stream       catalog.StreamID
	Epoch, Start int64
	Count        int
	TTL          time.Duration
	Commit       catalog.Commit
	Compaction   catalog.StreamCompaction
	IDs          []catalog.ObjectID
	Index        uint64
}

// Outcome is the answer to a change, with the view after it.
type Outcome struct {
	N      int64
	Stream catalog.Stream
	View   *sentView
	// Refusal is the number of the refusal, from 1 on; 0 for none. Text is the whole error.
	Refusal int
	Text    string
}

// refusals are the errors that keep their identity on the wire.
func refusals() []error {
	return []error{
		catalog.ErrStreamNotExist, catalog.ErrStreamNotClosed, catalog.ErrStreamFenced, catalog.ErrExpiredEpoch,
		catalog.ErrNodeEpochMismatch, catalog.ErrRedundant, catalog.ErrNotContiguous, catalog.ErrObjectNotPrepared,
		catalog.ErrObjectIDInUse, catalog.ErrCompactionLosesData, catalog.ErrStreamNotOpened, catalog.ErrOffsetOutOfRange,
		catalog.ErrInvalidArgument, catalog.ErrUnavailable, catalog.ErrTooLarge,
	}
}

// catalogServer is the server's side.
type catalogServer struct {
	catalog catalog.Catalog
	ctx     context.Context // ends what waits
}

// serveCatalog serves a catalog at a socket until the test ends.
func serveCatalog(t *testing.T, c catalog.Catalog, socket string) {
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := rpc.NewServer()
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, server.RegisterName("Catalog", &catalogServer{c, ctx}))
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			all.Go(func() { server.ServeConn(conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
}

// Do makes a change.
func (s *catalogServer) Do(c Change, o *Outcome) error {
	var err error
	ctx := s.ctx
	switch c.Op {
	case "RegisterNode":
		o.N, err = s.catalog.RegisterNode(ctx, c.Registration)
	case "OpenWAL":
		err = s.catalog.OpenWAL(ctx, c.Node, c.Start)
	case "CloseWAL":
		err = s.catalog.CloseWAL(ctx, c.Node, c.Start)
	case "CreateStreams":
		var id catalog.StreamID
		id, err = s.catalog.CreateStreams(ctx, c.Node, c.Count)
		o.N = int64(id)
	case "OpenStream":
		o.Stream, err = s.catalog.OpenStream(ctx, c.Node, c.Stream, c.Epoch)
	case "TrimStream":
		err = s.catalog.TrimStream(ctx, c.Node, c.Stream, c.Epoch, c.Start)
	case "CloseStream":
		err = s.catalog.CloseStream(ctx, c.Node, c.Stream, c.Epoch)
	case "DeleteStream":
		err = s.catalog.DeleteStream(ctx, c.Node, c.Stream, c.Epoch)
	case "PrepareObjects":
		var id catalog.ObjectID
		id, err = s.catalog.PrepareObjects(ctx, c.Node, c.Count, c.TTL)
		o.N = int64(id)
	case "Commit":
		err = s.catalog.Commit(ctx, c.Node, c.Commit)
	case "CompactStream":
		err = s.catalog.CompactStream(ctx, c.Node, c.Compaction)
	case "ExpirePrepared":
		var n int
		n, err = s.catalog.ExpirePrepared(ctx)
		o.N = int64(n)
	case "CleanDestroyed":
		var n int
		n, err = s.catalog.CleanDestroyed(ctx, c.IDs...)
		o.N = int64(n)
	case "Wait":
		_, err = s.catalog.Wait(ctx, c.Index)
	}
	if err != nil {
		o.Text = err.Error()
		o.Refusal = 1 + slices.IndexFunc(refusals(), func(r error) bool { return errors.Is(err, r) })
	}
	o.View = send(s.catalog.View())
	return nil
}

// sharedCatalog is the client's side: a [catalog.Catalog].
type sharedCatalog struct {
	client *rpc.Client
	view   atomic.Pointer[sentView]
	follow sync.WaitGroup
}

var _ catalog.Catalog = (*sharedCatalog)(nil)

// dialCatalog connects to a catalog, and follows its view.
func dialCatalog(ctx context.Context, socket string) (*sharedCatalog, error) {
	client, err := rpc.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	c := &sharedCatalog{client: client}
	if _, err := c.do(ctx, Change{Op: "Wait"}); err != nil {
		return nil, err
	}
	c.follow.Go(func() {
		for {
			if _, err := c.do(context.Background(), Change{Op: "Wait", Index: c.View().Index() + 1}); err != nil {
				return
			}
		}
	})
	return c, nil
}

func (c *sharedCatalog) close() {
	_ = c.client.Close()
	c.follow.Wait()
}

// refusedError is a refusal with its text.
type refusedError struct {
	text  string
	class error
}

func (e *refusedError) Error() string { return e.text }

func (e *refusedError) Unwrap() error { return e.class }

func (c *sharedCatalog) do(ctx context.Context, request Change) (Outcome, error) {
	var o Outcome
	call := c.client.Go("Catalog.Do", request, &o, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	if call.Error != nil {
		return Outcome{}, errors.Join(catalog.ErrUnavailable, call.Error)
	}
	for {
		old := c.view.Load()
		if old != nil && old.At >= o.View.At || c.view.CompareAndSwap(old, o.View) {
			break
		}
	}
	if o.Text != "" {
		class := catalog.ErrUnavailable
		if o.Refusal > 0 {
			class = refusals()[o.Refusal-1]
		}
		return o, &refusedError{o.Text, class}
	}
	return o, nil
}

func (c *sharedCatalog) View() catalog.View { return c.view.Load() }

func (c *sharedCatalog) Wait(ctx context.Context, index uint64) (catalog.View, error) {
	_, err := c.do(ctx, Change{Op: "Wait", Index: index})
	return c.View(), err
}

func (c *sharedCatalog) RegisterNode(ctx context.Context, r catalog.Registration) (int64, error) {
	o, err := c.do(ctx, Change{Op: "RegisterNode", Registration: r})
	return o.N, err
}

func (c *sharedCatalog) OpenWAL(ctx context.Context, n catalog.Node, start int64) error {
	_, err := c.do(ctx, Change{Op: "OpenWAL", Node: n, Start: start})
	return err
}

func (c *sharedCatalog) CloseWAL(ctx context.Context, n catalog.Node, start int64) error {
	_, err := c.do(ctx, Change{Op: "CloseWAL", Node: n, Start: start})
	return err
}

func (c *sharedCatalog) CreateStreams(ctx context.Context, n catalog.Node, count int) (catalog.StreamID, error) {
	o, err := c.do(ctx, Change{Op: "CreateStreams", Node: n, Count: count})
	return catalog.StreamID(o.N), err
}

func (c *sharedCatalog) OpenStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64) (catalog.Stream, error) {
	o, err := c.do(ctx, Change{Op: "OpenStream", Node: n, Stream: s, Epoch: epoch})
	return o.Stream, err
}

func (c *sharedCatalog) TrimStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch, start int64) error {
	_, err := c.do(ctx, Change{Op: "TrimStream", Node: n, Stream: s, Epoch: epoch, Start: start})
	return err
}

func (c *sharedCatalog) CloseStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64) error {
	_, err := c.do(ctx, Change{Op: "CloseStream", Node: n, Stream: s, Epoch: epoch})
	return err
}

func (c *sharedCatalog) DeleteStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64) error {
	_, err := c.do(ctx, Change{Op: "DeleteStream", Node: n, Stream: s, Epoch: epoch})
	return err
}

func (c *sharedCatalog) PrepareObjects(ctx context.Context, n catalog.Node, count int, ttl time.Duration) (catalog.ObjectID, error) {
	o, err := c.do(ctx, Change{Op: "PrepareObjects", Node: n, Count: count, TTL: ttl})
	return catalog.ObjectID(o.N), err
}

func (c *sharedCatalog) Commit(ctx context.Context, n catalog.Node, commit catalog.Commit) error {
	_, err := c.do(ctx, Change{Op: "Commit", Node: n, Commit: commit})
	return err
}

func (c *sharedCatalog) CompactStream(ctx context.Context, n catalog.Node, compaction catalog.StreamCompaction) error {
	_, err := c.do(ctx, Change{Op: "CompactStream", Node: n, Compaction: compaction})
	return err
}

func (c *sharedCatalog) ExpirePrepared(ctx context.Context) (int, error) {
	o, err := c.do(ctx, Change{Op: "ExpirePrepared"})
	return int(o.N), err
}

func (c *sharedCatalog) CleanDestroyed(ctx context.Context, ids ...catalog.ObjectID) (int, error) {
	o, err := c.do(ctx, Change{Op: "CleanDestroyed", IDs: ids})
	return int(o.N), err
}

// sentView is a view that went over the wire: a [catalog.View].
type sentView struct {
	At       uint64
	Clock    int64
	Nodes    []catalog.NodeState
	Rows     []catalog.Stream
	Own      []catalog.StreamObjectState
	Sets     []catalog.StreamSetState
	Marks    []catalog.DestroyedObject
	Reserved []catalog.ObjectID
	Next     catalog.ObjectID
}

// sentNodes is how many node ids are looked up in a view that is sent.
const sentNodes = 10

func send(v catalog.View) *sentView {
	s := &sentView{At: v.Index(), Clock: v.ClockMs(), Marks: v.Destroyed(math.MaxInt32), Next: v.NextObject()}
	for id := range catalog.NodeID(sentNodes) {
		if n, known := v.Node(id); known {
			s.Nodes = append(s.Nodes, n)
		}
	}
	for row := range v.Streams() {
		s.Rows = append(s.Rows, row)
		s.Own = append(s.Own, v.StreamObjects(row.ID)...)
	}
	s.Sets = slices.Collect(v.StreamSets())
	for id := range v.NextObject() {
		if v.IsPrepared(id) {
			s.Reserved = append(s.Reserved, id)
		}
	}
	return s
}

func (v *sentView) Index() uint64 { return v.At }

func (v *sentView) ClockMs() int64 { return v.Clock }

func (v *sentView) Node(id catalog.NodeID) (catalog.NodeState, bool) {
	i := slices.IndexFunc(v.Nodes, func(n catalog.NodeState) bool { return n.ID == id })
	if i < 0 {
		return catalog.NodeState{}, false
	}
	return v.Nodes[i], true
}

func (v *sentView) Stream(id catalog.StreamID) (catalog.Stream, bool) {
	i := slices.IndexFunc(v.Rows, func(s catalog.Stream) bool { return s.ID == id })
	if i < 0 {
		return catalog.Stream{}, false
	}
	return v.Rows[i], true
}

func (v *sentView) Streams() iter.Seq[catalog.Stream] { return slices.Values(v.Rows) }

func (v *sentView) StreamSets() iter.Seq[catalog.StreamSetState] { return slices.Values(v.Sets) }

func (v *sentView) StreamObjects(id catalog.StreamID) (own []catalog.StreamObjectState) {
	for _, o := range v.Own {
		if o.Stream == id {
			own = append(own, o)
		}
	}
	return own
}

func (v *sentView) Objects(id catalog.StreamID, start, end int64, limit int) []catalog.ObjectRange {
	var all []catalog.ObjectRange
	row, known := v.Stream(id)
	if !known || start < row.Start || start >= end {
		return nil
	}
	add := func(o catalog.ObjectRange) {
		if o.End > start && o.Start < end {
			all = append(all, o)
		}
	}
	for _, s := range v.Sets {
		for _, r := range s.Ranges {
			if r.Stream == id {
				add(catalog.ObjectRange{
					Object: s.Object, StreamSet: true, Start: r.Start, End: r.End, Size: s.Size, Attributes: s.Attributes,
				})
			}
		}
	}
	for _, o := range v.StreamObjects(id) {
		add(catalog.ObjectRange{Object: o.Object, Start: o.Start, End: o.End, Size: o.Size, Attributes: o.Attributes})
	}
	slices.SortFunc(all, func(a, b catalog.ObjectRange) int { return cmp.Compare(a.Start, b.Start) })
	return all[:min(limit, len(all))]
}

func (v *sentView) Destroyed(limit int) []catalog.DestroyedObject {
	return v.Marks[:min(limit, len(v.Marks))]
}

func (v *sentView) IsPrepared(id catalog.ObjectID) bool { return slices.Contains(v.Reserved, id) }

func (v *sentView) NextObject() catalog.ObjectID { return v.Next }
