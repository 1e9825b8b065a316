package meta

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// StreamTables is the part of a state that is about streams, as it is rebuilt when metadata is lost.
type StreamTables struct {
	Streams []catalog.Stream
	// Nodes have their epochs, and where their write-ahead logs begin.
	Nodes   []catalog.NodeState
	Sets    []catalog.StreamSetState
	Objects []catalog.StreamObjectState
	// Reserved are ids of objects that nothing refers to; their bytes go when the log's clock has passed ReservedUntilMs.
	Reserved        []catalog.ObjectID
	ReservedUntilMs int64
	// NextStream and NextObject are assigned next.
	NextStream catalog.StreamID
	NextObject catalog.ObjectID
}

// WithStreams returns a state that has no streams with those of the tables, one entry later and at [LevelStreams]. The error
// says which rule of streams the tables break: an id that comes twice or is not below the next one, an object of a stream
// that is not there, offsets that no object or two objects hold.
func (s *State) WithStreams(tables StreamTables) (*State, error) {
	if s.streams.len() > 0 || s.sets.len() > 0 || s.objects.len() > 0 || s.prepared.len() > 0 || s.destroyed.len() > 0 {
		return nil, errors.New("meta: the state has streams already")
	}
	next := *s
	next.index++
	next.level = max(s.level, LevelStreams)
	next.nextStreamID, next.nextObjectID = uint64(tables.NextStream), uint64(tables.NextObject)
	if err := errors.Join(next.putNodes(tables.Nodes), next.putStreams(tables.Streams), next.putObjects(tables)); err != nil {
		return nil, err
	}
	r := &reader{}
	next.linkParts(r)
	if r.err != nil {
		return nil, r.err
	}
	return &next, errors.Join(catalog.Check(catalogView{&next})...)
}

func (s *State) putNodes(nodes []catalog.NodeState) error {
	for _, n := range nodes {
		if _, known := s.nodes.get(int32(n.ID)); known || n.ID < 0 {
			return fmt.Errorf("meta: node %d exists already", n.ID)
		}
		s.nodes = s.nodes.set(int32(n.ID), Node{
			ID: int32(n.ID), Epoch: n.Epoch, Incarnation: n.Incarnation, Address: n.Address, Slots: uint32(n.Slots),
			WALEpoch: n.WALEpoch, WALStart: uint64(n.WALStart),
		})
	}
	return nil
}

func (s *State) putStreams(streams []catalog.Stream) error {
	var b treeBuilder[catalog.StreamID, *streamRow]
	for _, row := range sorted(streams, func(row catalog.Stream) catalog.StreamID { return row.ID }) {
		if row.ID < 0 || uint64(row.ID) >= s.nextStreamID || !b.add(row.ID, &streamRow{Stream: row}) {
			return fmt.Errorf("meta: stream %d appears twice, or is not below %d", row.ID, s.nextStreamID)
		}
		if row.Opened {
			s.opened = counted(s.opened, row.Node, 1)
		}
	}
	s.streams = b.tree()
	return nil
}

func (s *State) putObjects(tables StreamTables) error {
	var sets treeBuilder[catalog.ObjectID, setRow]
	for _, set := range sorted(tables.Sets, func(o catalog.StreamSetState) catalog.ObjectID { return o.Object }) {
		if !sets.add(set.Object, setRow{StreamSetState: &set, streams: s.countStreams(set.Ranges)}) {
			return fmt.Errorf("meta: stream-set object %d appears twice", set.Object)
		}
	}
	s.sets = sets.tree()
	var objects treeBuilder[catalog.ObjectID, *catalog.StreamObjectState]
	for _, o := range sorted(tables.Objects, func(o catalog.StreamObjectState) catalog.ObjectID { return o.Object }) {
		if _, known := s.streams.get(o.Stream); !known || !objects.add(o.Object, &o) {
			return fmt.Errorf("meta: object %d appears twice, or belongs to stream %d, which does not exist", o.Object, o.Stream)
		}
	}
	s.objects = objects.tree()
	var reserved treeBuilder[catalog.ObjectID, int64]
	for _, id := range sorted(tables.Reserved, func(id catalog.ObjectID) catalog.ObjectID { return id }) {
		if !reserved.add(id, tables.ReservedUntilMs) {
			return fmt.Errorf("meta: object %d is reserved twice", id)
		}
	}
	s.prepared = reserved.tree()
	return nil
}

// sorted returns rows in the order of their ids.
func sorted[T any, K cmp.Ordered](rows []T, id func(T) K) []T {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
	return rows
}
