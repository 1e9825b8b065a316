// Package catalogtest provides what tests of the stream engine need of metadata: [Memory], a catalog in memory that
// several nodes share, and [Run], the suite that every catalog passes.
package catalogtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Memory is a [catalog.Catalog] in memory. It is safe for concurrent use and lives as long as it is held.
type Memory struct {
	now func() time.Time

	mu struct {
		sync.Mutex
		state   *state
		changed chan struct{} // closed and replaced at every change
	}
}

var _ catalog.Catalog = (*Memory)(nil)

// NewMemory returns an empty catalog. Its clock is now, but never goes back.
func NewMemory(now func() time.Time) *Memory {
	m := &Memory{now: now}
	m.mu.changed = make(chan struct{})
	m.mu.state = &state{
		nodes:     map[catalog.NodeID]catalog.NodeState{},
		streams:   map[catalog.StreamID]catalog.Stream{},
		prepared:  map[catalog.ObjectID]int64{},
		sets:      map[catalog.ObjectID]catalog.StreamSetState{},
		objects:   map[catalog.ObjectID]catalog.StreamObjectState{},
		destroyed: nil,
	}
	return m
}

// state is one moment. Rows are values, and slices in them are replaced and never changed.
type state struct {
	index, clockMs int64
	nextStream     catalog.StreamID
	nextObject     catalog.ObjectID
	nodes          map[catalog.NodeID]catalog.NodeState
	streams        map[catalog.StreamID]catalog.Stream
	prepared       map[catalog.ObjectID]int64 // the deadline
	sets           map[catalog.ObjectID]catalog.StreamSetState
	objects        map[catalog.ObjectID]catalog.StreamObjectState
	destroyed      []catalog.DestroyedObject
}

func (s *state) clone() *state {
	c := *s
	c.nodes, c.streams, c.prepared = maps.Clone(s.nodes), maps.Clone(s.streams), maps.Clone(s.prepared)
	c.sets, c.objects, c.destroyed = maps.Clone(s.sets), maps.Clone(s.objects), slices.Clone(s.destroyed)
	return &c
}

// change runs a step on a copy of the state and keeps the copy if it succeeds.
func (m *Memory) change(ctx context.Context, step func(*state) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.mu.state.clone()
	next.index++
	next.clockMs = max(next.clockMs, m.now().UnixMilli())
	if err := step(next); err != nil {
		return err
	}
	m.mu.state = next
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
	return nil
}

// changeBy is change for a node, whose epoch is checked first (MD-2).
func (m *Memory) changeBy(ctx context.Context, n catalog.Node, step func(*state) error) error {
	return m.change(ctx, func(s *state) error {
		row, known := s.nodes[n.ID]
		if !known {
			return fmt.Errorf("%w: node %d is not registered", catalog.ErrNodeEpochMismatch, n.ID)
		}
		if row.Epoch != n.Epoch {
			return fmt.Errorf("%w: node %d is in epoch %d, not %d", catalog.ErrNodeEpochMismatch, n.ID, row.Epoch, n.Epoch)
		}
		return step(s)
	})
}

// View implements [catalog.Catalog].
func (m *Memory) View() catalog.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return view{m.mu.state}
}

// Wait implements [catalog.Catalog].
func (m *Memory) Wait(ctx context.Context, index uint64) (catalog.View, error) {
	for {
		m.mu.Lock()
		v, changed := view{m.mu.state}, m.mu.changed
		m.mu.Unlock()
		if v.Index() >= index {
			return v, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// RegisterNode implements [catalog.Catalog].
func (m *Memory) RegisterNode(ctx context.Context, r catalog.Registration) (epoch int64, err error) {
	err = m.change(ctx, func(s *state) error {
		row, known := s.nodes[r.ID]
		switch {
		case r.ID < 0:
			return fmt.Errorf("%w: node %d", catalog.ErrInvalidArgument, r.ID)
		case known && row.Incarnation == r.Incarnation:
		case r.Expected >= 0 && (!known || row.Epoch != r.Expected):
			return fmt.Errorf("%w: node %d is in epoch %d, not %d", catalog.ErrNodeEpochMismatch, r.ID, row.Epoch, r.Expected)
		case !known:
			row = catalog.NodeState{ID: r.ID, Epoch: 1, WALEpoch: -1}
		default:
			row.Epoch++
		}
		row.Incarnation, row.Slots = r.Incarnation, r.Slots
		if r.Address != "" {
			row.Address = r.Address
		}
		s.nodes[r.ID], epoch = row, row.Epoch
		return nil
	})
	return epoch, err
}

// OpenWAL implements [catalog.Catalog].
func (m *Memory) OpenWAL(ctx context.Context, n catalog.Node, start int64) error {
	return m.changeBy(ctx, n, func(s *state) error {
		row := s.nodes[n.ID]
		if start < row.WALStart || start%catalog.Window != 0 {
			return fmt.Errorf("%w: log from %d, recorded is %d", catalog.ErrInvalidArgument, start, row.WALStart)
		}
		row.WALEpoch, row.WALStart = n.Epoch, start
		s.nodes[n.ID] = row
		return nil
	})
}

// CloseWAL implements [catalog.Catalog].
func (m *Memory) CloseWAL(ctx context.Context, n catalog.Node, start int64) error {
	return m.changeBy(ctx, n, func(s *state) error {
		for _, stream := range s.streams {
			if stream.Opened && stream.Node == n.ID {
				return fmt.Errorf("%w: stream %d", catalog.ErrStreamNotClosed, stream.ID)
			}
		}
		row := s.nodes[n.ID]
		if start < row.WALStart || start%catalog.Window != 0 {
			return fmt.Errorf("%w: log from %d, recorded is %d", catalog.ErrInvalidArgument, start, row.WALStart)
		}
		row.WALEpoch, row.WALStart = -1, start
		s.nodes[n.ID] = row
		return nil
	})
}

// CreateStreams implements [catalog.Catalog].
func (m *Memory) CreateStreams(ctx context.Context, n catalog.Node, count int) (first catalog.StreamID, err error) {
	err = m.changeBy(ctx, n, func(s *state) error {
		if count < 1 || count > catalog.MaxStreams {
			return fmt.Errorf("%w: %d streams", catalog.ErrInvalidArgument, count)
		}
		first = s.nextStream
		for range count {
			s.streams[s.nextStream] = catalog.Stream{ID: s.nextStream, Epoch: -1, Node: -1}
			s.nextStream++
		}
		return nil
	})
	return first, err
}

// OpenStream implements [catalog.Catalog].
func (m *Memory) OpenStream(
	ctx context.Context, n catalog.Node, id catalog.StreamID, epoch int64,
) (opened catalog.Stream, err error) {
	err = m.changeBy(ctx, n, func(s *state) error {
		row, known := s.streams[id]
		switch {
		case !known:
			return fmt.Errorf("%w: %d", catalog.ErrStreamNotExist, id)
		case row.Epoch > epoch, row.Epoch == epoch && !(row.Opened && row.Node == n.ID):
			return fmt.Errorf("%w: stream %d is in epoch %d of node %d", catalog.ErrStreamFenced, id, row.Epoch, row.Node)
		case row.Epoch < epoch && row.Opened:
			return fmt.Errorf("%w: stream %d, of node %d", catalog.ErrStreamNotClosed, id, row.Node)
		case row.Epoch < epoch:
			row.Epoch, row.Opened, row.Node = epoch, true, n.ID
			row.Epochs = append(slices.Clone(row.Epochs), catalog.EpochStart{Epoch: epoch, Start: row.End})
			s.streams[id] = row
		}
		opened = row
		return nil
	})
	return opened, err
}

// owned finds a stream for a command of its owner: opened, at that epoch, by that node.
func (s *state) owned(n catalog.Node, id catalog.StreamID, epoch int64) (catalog.Stream, error) {
	row, known := s.streams[id]
	switch {
	case !known:
		return row, fmt.Errorf("%w: %d", catalog.ErrStreamNotExist, id)
	case !row.Opened:
		return row, fmt.Errorf("%w: %d", catalog.ErrStreamNotOpened, id)
	case row.Epoch != epoch:
		return row, fmt.Errorf("%w: stream %d is in epoch %d, not %d", catalog.ErrExpiredEpoch, id, row.Epoch, epoch)
	case row.Node != n.ID:
		return row, fmt.Errorf("%w: stream %d is of node %d", catalog.ErrStreamFenced, id, row.Node)
	}
	return row, nil
}

// TrimStream implements [catalog.Catalog].
func (m *Memory) TrimStream(ctx context.Context, n catalog.Node, id catalog.StreamID, epoch, start int64) error {
	return m.changeBy(ctx, n, func(s *state) error {
		row, err := s.owned(n, id, epoch)
		switch {
		case err != nil:
			return err
		case start < row.Start:
			return nil
		case start > row.End:
			return fmt.Errorf("%w: trim stream %d to %d, its end is %d", catalog.ErrOffsetOutOfRange, id, start, row.End)
		}
		row.Start = start
		for len(row.Epochs) > 1 && row.Epochs[1].Start <= start {
			row.Epochs = row.Epochs[1:]
		}
		s.streams[id] = row
		return nil
	})
}

// CloseStream implements [catalog.Catalog].
func (m *Memory) CloseStream(ctx context.Context, n catalog.Node, id catalog.StreamID, epoch int64) error {
	return m.changeBy(ctx, n, func(s *state) error {
		if row, known := s.streams[id]; known && !row.Opened && row.Epoch == epoch {
			return nil
		}
		row, err := s.owned(n, id, epoch)
		if err != nil {
			return err
		}
		row.Opened = false
		s.streams[id] = row
		return nil
	})
}

// DeleteStream implements [catalog.Catalog].
func (m *Memory) DeleteStream(ctx context.Context, n catalog.Node, id catalog.StreamID, epoch int64) error {
	return m.changeBy(ctx, n, func(s *state) error {
		row, known := s.streams[id]
		switch {
		case !known:
			return nil
		case row.Opened:
			return fmt.Errorf("%w: %d", catalog.ErrStreamNotClosed, id)
		case row.Epoch != epoch:
			return fmt.Errorf("%w: stream %d is in epoch %d, not %d", catalog.ErrExpiredEpoch, id, row.Epoch, epoch)
		}
		delete(s.streams, id)
		for _, o := range sorted(s.objects) {
			if o.Stream != id {
				continue
			}
			operation := catalog.Delete
			if o.Attributes.IsComposite() {
				operation = catalog.DeepDelete
			}
			s.destroy(o.Object, operation)
		}
		for _, set := range sorted(s.sets) {
			exists := func(r catalog.Range) bool { _, ok := s.streams[r.Stream]; return ok }
			if !slices.ContainsFunc(set.Ranges, exists) {
				s.destroy(set.Object, catalog.Delete)
			}
		}
		return nil
	})
}

// sorted returns the rows of a table in the order of their keys.
func sorted[K catalog.ObjectID | catalog.StreamID, V any](table map[K]V) []V {
	var rows []V
	for _, key := range slices.Sorted(maps.Keys(table)) {
		rows = append(rows, table[key])
	}
	return rows
}
