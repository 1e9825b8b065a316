package meta

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// placing applies commands one after the other and keeps the state that comes of them.
type placing struct {
	*testing.T
	s *State
}

func newPlacing(t *testing.T) *placing {
	p := &placing{t, Empty()}
	for node := range int32(4) { // node 3 takes no streams
		p.must(RegisterNode{Node: node, ExpectedEpoch: -1, Incarnation: [16]byte{byte(node) + 1}, Slots: uint32(node) % 3 * 10})
	}
	p.must(CreateStreams{Node: 1, NodeEpoch: 1, Count: 6})
	return p
}

// must applies a command that is allowed, over a snapshot of the state before it.
func (p *placing) must(c Command) Result {
	p.Helper()
	restored, err := DecodeSnapshot(p.s.EncodeSnapshot())
	require.NoError(p, err)
	again, _ := restored.Apply(restored.index+1, Entry{Commands: []Command{c}})
	next, results := p.s.Apply(p.s.index+1, Entry{Commands: []Command{c}})
	require.NoError(p, results[0].Err(), "%+v", c)
	require.Equal(p, next.dump(), again.dump(), "the same from a snapshot")
	p.s = next
	return results[0]
}

func (p *placing) refused(want Code, c Command) {
	p.Helper()
	before := p.s.EncodeSnapshot()
	next, results := p.s.Apply(p.s.index, Entry{Commands: []Command{c}})
	require.Equal(p, want, results[0].Code, "%+v: %s", c, results[0].Detail)
	require.Equal(p, before, next.EncodeSnapshot())
}

func TestMD14_StreamsArePlacedBySlots(t *testing.T) {
	p := newPlacing(t)
	require.Equal(t, []uint32{0, 10, 20, 0}, []uint32{p.slots(0), p.slots(1), p.slots(2), p.slots(3)})
	var nodes []uint64
	for id := range catalog.StreamID(6) {
		nodes = append(nodes, p.must(PlaceStream{Stream: id}).ID)
	}
	require.Equal(t, []uint64{1, 2, 2, 1, 2, 2}, nodes, "node 2 has twice the slots; of equals the lowest")
	require.Equal(t, uint64(1), p.must(PlaceStream{Stream: 0}).ID, "again")

	p.must(OpenStream{Node: 2, NodeEpoch: 1, Stream: 0, Epoch: 1}) // placement is advice
	p.refused(StreamNotClosed, PlaceStream{Stream: 0})
	p.must(CloseStream{Node: 2, NodeEpoch: 1, Stream: 0, Epoch: 1})
	p.refused(InvalidArgument, PlaceStream{Stream: 0})
	p.refused(StreamNotExist, PlaceStream{Stream: 99})
	p.must(DeleteStream{Node: 1, NodeEpoch: 1, Stream: 3, Epoch: -1})
	p.must(CreateStreams{Node: 1, NodeEpoch: 1, Count: 1})
	require.Equal(t, uint64(1), p.must(PlaceStream{Stream: 6}).ID, "it has none now")
}

func (p *placing) slots(node int32) uint32 {
	n, _ := p.s.Node(node)
	return n.Slots
}

func TestMD14_WithoutANodeThatTakesStreamsThereIsNoPlace(t *testing.T) {
	p := &placing{t, Empty()}
	p.must(RegisterNode{Node: 1, ExpectedEpoch: -1, Incarnation: [16]byte{1}})
	p.must(CreateStreams{Node: 1, NodeEpoch: 1, Count: 1})
	p.refused(InvalidArgument, PlaceStream{Stream: 0})
}

func TestMD14_AStreamGoesOverWhenItsOwnerHasClosedIt(t *testing.T) {
	p := newPlacing(t)
	move := TransferStream{Stream: 0, From: 1, To: 2}
	p.refused(StreamNotOpened, move)
	p.must(OpenStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: 4})
	p.refused(StreamNotExist, TransferStream{Stream: 99, From: 1, To: 2})
	p.refused(InvalidArgument, TransferStream{Stream: 0, From: 1, To: 1})
	p.refused(NodeEpochMismatch, TransferStream{Stream: 0, From: 1, To: 3})
	p.refused(NodeEpochMismatch, TransferStream{Stream: 0, From: 1, To: 9})
	p.refused(StreamNotOpened, TransferStream{Stream: 0, From: 2, To: 1})
	p.refused(Redundant, CompleteTransfer{Stream: 0, Epoch: 4})
	p.must(move)
	p.must(move)
	p.refused(InvalidArgument, TransferStream{Stream: 0, From: 1, To: 0})
	for id, transfer := range p.s.Transfers() {
		require.Equal(t, []any{catalog.StreamID(0), Transfer{From: 1, To: 2}}, []any{id, transfer})
	}
	p.refused(StreamNotClosed, CompleteTransfer{Stream: 0, Epoch: 4})
	p.must(CloseStream{Node: 1, NodeEpoch: 1, Stream: 0, Epoch: 4})
	p.refused(ExpiredEpoch, CompleteTransfer{Stream: 0, Epoch: 3})
	p.must(CompleteTransfer{Stream: 0, Epoch: 4})
	p.refused(Redundant, CompleteTransfer{Stream: 0, Epoch: 4})
	row, _ := p.s.Stream(0)
	require.Equal(t, catalog.NodeID(2), row.Node)
	require.Zero(t, p.s.transfers.len())
}

func TestMD14_OpeningOnTheTargetAndDeletingEndATransfer(t *testing.T) {
	p := newPlacing(t)
	for id := range catalog.StreamID(2) {
		p.must(OpenStream{Node: 1, NodeEpoch: 1, Stream: id, Epoch: 1})
		p.must(TransferStream{Stream: id, From: 1, To: 2})
		p.must(CloseStream{Node: 1, NodeEpoch: 1, Stream: id, Epoch: 1})
	}
	p.must(OpenStream{Node: 2, NodeEpoch: 1, Stream: 0, Epoch: 2})
	p.must(DeleteStream{Node: 1, NodeEpoch: 1, Stream: 1, Epoch: 1})
	require.Zero(t, p.s.transfers.len())
}

func TestTransfersAreInTheGoldenForm(t *testing.T) {
	e := Entry{Commands: []Command{
		TransferStream{Stream: 258, From: 3, To: 4}, CompleteTransfer{Stream: 258, Epoch: 5}, PlaceStream{Stream: 258},
	}}
	b, err := e.Encode()
	require.NoError(t, err)
	require.Equal(t, []byte{
		15, 2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0,
		16, 2, 1, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
		18, 2, 1, 0, 0, 0, 0, 0, 0,
	}, b[entryHeaderSize:len(b)-crcSize])
	decoded, err := DecodeEntry(b)
	require.NoError(t, err)
	require.Equal(t, e, decoded)
}
