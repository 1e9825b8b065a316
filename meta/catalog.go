package meta

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Catalog is the metadata log as the stream engine sees it. It is safe for concurrent use and holds nothing of its own:
// several may be made of one log, which must outlive them.
type Catalog struct{ log *Log }

var _ catalog.Catalog = (*Catalog)(nil)

// NewCatalog returns the catalog that a log holds.
func NewCatalog(log *Log) *Catalog { return &Catalog{log: log} }

// View implements [catalog.Catalog].
func (c *Catalog) View() catalog.View { return catalogView{c.log.View()} }

// Wait implements [catalog.Catalog].
func (c *Catalog) Wait(ctx context.Context, index uint64) (catalog.View, error) {
	s, err := c.log.WaitApplied(ctx, index)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	return catalogView{s}, nil
}

// RegisterNode implements [catalog.Catalog].
func (c *Catalog) RegisterNode(ctx context.Context, r catalog.Registration) (epoch int64, err error) {
	if r.Slots < 0 || r.Slots > math.MaxUint32 {
		return 0, fmt.Errorf("%w: %d slots", catalog.ErrInvalidArgument, r.Slots)
	}
	done, err := c.do(ctx, RegisterNode{
		Node: int32(r.ID), ExpectedEpoch: r.Expected, Incarnation: r.Incarnation, Address: r.Address, Slots: uint32(r.Slots),
	})
	return int64(done.ID), err
}

// OpenWAL implements [catalog.Catalog].
func (c *Catalog) OpenWAL(ctx context.Context, n catalog.Node, start int64) error {
	_, err := c.do(ctx, OpenWAL{Node: int32(n.ID), NodeEpoch: n.Epoch, Start: start})
	return err
}

// CloseWAL implements [catalog.Catalog].
func (c *Catalog) CloseWAL(ctx context.Context, n catalog.Node, start int64) error {
	_, err := c.do(ctx, CloseWAL{Node: int32(n.ID), NodeEpoch: n.Epoch, Start: start})
	return err
}

// CreateStreams implements [catalog.Catalog].
func (c *Catalog) CreateStreams(ctx context.Context, n catalog.Node, count int) (catalog.StreamID, error) {
	done, err := c.do(ctx, CreateStreams{Node: int32(n.ID), NodeEpoch: n.Epoch, Count: wireCount(count)})
	return catalog.StreamID(done.ID), err
}

// OpenStream implements [catalog.Catalog].
func (c *Catalog) OpenStream(
	ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64,
) (catalog.Stream, error) {
	done, err := c.do(ctx, OpenStream{Node: int32(n.ID), NodeEpoch: n.Epoch, Stream: s, Epoch: epoch})
	if err != nil {
		return catalog.Stream{}, err
	}
	return *done.Stream, nil
}

// TrimStream implements [catalog.Catalog].
func (c *Catalog) TrimStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch, start int64) error {
	_, err := c.do(ctx, TrimStream{Node: int32(n.ID), NodeEpoch: n.Epoch, Stream: s, Epoch: epoch, Start: start})
	return err
}

// CloseStream implements [catalog.Catalog].
func (c *Catalog) CloseStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64) error {
	_, err := c.do(ctx, CloseStream{Node: int32(n.ID), NodeEpoch: n.Epoch, Stream: s, Epoch: epoch})
	return err
}

// DeleteStream implements [catalog.Catalog].
func (c *Catalog) DeleteStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64) error {
	_, err := c.do(ctx, DeleteStream{Node: int32(n.ID), NodeEpoch: n.Epoch, Stream: s, Epoch: epoch})
	return err
}

// PrepareObjects implements [catalog.Catalog].
func (c *Catalog) PrepareObjects(
	ctx context.Context, n catalog.Node, count int, ttl time.Duration,
) (catalog.ObjectID, error) {
	done, err := c.do(ctx, PrepareObjects{
		Node: int32(n.ID), NodeEpoch: n.Epoch, Count: wireCount(count), TTLMs: ttl.Milliseconds(),
	})
	return catalog.ObjectID(done.ID), err
}

// Commit implements [catalog.Catalog].
func (c *Catalog) Commit(ctx context.Context, n catalog.Node, commit catalog.Commit) error {
	_, err := c.do(ctx, CommitObjects{Node: int32(n.ID), NodeEpoch: n.Epoch, Commit: commit})
	return err
}

// CompactStream implements [catalog.Catalog].
func (c *Catalog) CompactStream(ctx context.Context, n catalog.Node, s catalog.StreamCompaction) error {
	_, err := c.do(ctx, CompactStream{Node: int32(n.ID), NodeEpoch: n.Epoch, StreamCompaction: s})
	return err
}

// ExpirePrepared implements [catalog.Catalog].
func (c *Catalog) ExpirePrepared(ctx context.Context) (int, error) {
	done, err := c.do(ctx, ExpirePrepared{})
	return int(done.Count), err
}

// CleanDestroyed implements [catalog.Catalog].
func (c *Catalog) CleanDestroyed(ctx context.Context, ids ...catalog.ObjectID) (int, error) {
	done, err := c.do(ctx, CleanDestroyed{Objects: ids})
	return int(done.Count), err
}

// do proposes a command. A rejection matches the catalog's refusal; what the log could not do matches
// [catalog.ErrUnavailable], unless it says that it never will.
func (c *Catalog) do(ctx context.Context, command Command) (Result, error) {
	done, err := c.log.Do(ctx, command)
	var rejected *Rejection
	switch {
	case err == nil, errors.As(err, &rejected):
		return done, err
	case errors.Is(err, ErrTooLarge):
		return Result{}, fmt.Errorf("%w: %w", catalog.ErrTooLarge, err)
	}
	return Result{}, unavailable(ctx, err)
}

// unavailable says that the outcome is unknown, unless ctx has ended, which says so too.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", catalog.ErrUnavailable, err)
}

// wireCount is a count as a command carries it: what no command allows stays what no command allows.
func wireCount(n int) uint32 {
	if n < 0 || n > math.MaxUint32 {
		return 0
	}
	return uint32(n)
}

// View returns the state as the stream engine sees it. So tools without a log can pass a State to package stream, which
// asks for a catalog with a view.
func (s *State) View() catalog.View { return catalogView{s} }

// catalogView is a [State] as a [catalog.View].
type catalogView struct{ *State }

// Node implements [catalog.View].
func (v catalogView) Node(id catalog.NodeID) (catalog.NodeState, bool) {
	n, known := v.nodes.get(int32(id))
	if !known {
		return catalog.NodeState{}, false
	}
	return catalog.NodeState{
		ID: id, Epoch: n.Epoch, Incarnation: n.Incarnation, Address: n.Address, Slots: int(n.Slots), WALEpoch: n.WALEpoch,
		WALStart: int64(n.WALStart),
	}, true
}
