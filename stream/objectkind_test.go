package stream

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnObjectIsKnownByItsEnds(t *testing.T) {
	ends := func(b []byte) ObjectKind {
		n := min(len(b), KindProbeSize)
		return KindOf(int64(len(b)), b[:n], b[len(b)-n:])
	}
	data := golden(t, "object")
	for want, b := range map[ObjectKind][]byte{
		WALKind:         golden(t, "fence"),
		DataKind:        data,
		CompositeKind:   golden(t, "composite"),
		RangeIndexKind:  golden(t, "rangeindex"),
		ReservationKind: reservation(5, 12, true),
		UnknownKind:     []byte("hello, this is text"),
	} {
		require.Equal(t, want, ends(b))
	}
	require.Equal(t, WALKind, ends(WALHeader{Version: 0}.AppendTo(nil)), "longer than a reservation with the same magic")
	require.Equal(t, DataKind, ends(change(data, len(data)-1, 0xf9)), "of a version that is yet to come")
	require.Equal(t, UnknownKind, ends(nil))
	require.Equal(t, UnknownKind, ends(golden(t, "fence")[:KindProbeSize-1]))
}

// reservation encodes what only other writers write.
func reservation(node, epoch int64, failover bool) []byte {
	b := binary.BigEndian.AppendUint32(nil, reservationMagic)
	b = binary.BigEndian.AppendUint64(b, uint64(node))
	b = binary.BigEndian.AppendUint64(b, uint64(epoch))
	if failover {
		return append(b, 1)
	}
	return append(b, 0)
}

func TestAReservationIsDecoded(t *testing.T) {
	for _, want := range []Reservation{{Node: 5, Epoch: 12, Failover: true}, {Node: -1, Epoch: 0}} {
		got, err := DecodeReservation("k", reservation(want.Node, want.Epoch, want.Failover))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := DecodeReservation("k", reservation(1, 2, false)[1:])
	require.ErrorIs(t, err, ErrCorrupt)
	var version *VersionError
	_, err = DecodeReservation("k", change(reservation(1, 2, false), 0, 0x13))
	require.ErrorAs(t, err, &version)
}

func TestTheLengthOfABlockAndOfAFrameIsInItsHeader(t *testing.T) {
	block, frame := AppendBlock(nil, []Record{{Stream: 1, Count: 1, Payload: []byte("p")}}), golden(t, "frame")
	n, ok := DecodeBlockLen(block)
	require.True(t, ok)
	require.EqualValues(t, len(block), n)
	n, err := DecodeFrameLen("k", 134217728, frame[:FrameHeaderSize])
	require.NoError(t, err)
	require.EqualValues(t, len(frame), n)

	_, ok = DecodeBlockLen(block[:BlockHeaderSize-1])
	require.False(t, ok)
	_, ok = DecodeBlockLen(change(block, 6, 0x80))
	require.False(t, ok, "a negative length")
	_, err = DecodeFrameLen("k", 134217728, frame[:FrameHeaderSize-1])
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = DecodeFrameLen("k", 134217728, change(frame, 4, 0x80))
	require.ErrorIs(t, err, ErrCorrupt, "its checksum")
	_, err = DecodeFrameLen("k", 0, frame)
	require.ErrorIs(t, err, ErrCorrupt, "its place")
}
