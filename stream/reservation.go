package stream

import "encoding/binary"

// A reservation of other writers, big-endian: which writer holds a node's log, in stores without put-if-absent. The engine
// requires put-if-absent instead, and reads reservations for tools only.
//
//	+------------+---------+------------+----------+
//	| magic      | node id | node epoch | failover |
//	| u32        | i64     | i64        | u8       |
//	+------------+---------+------------+----------+
//	0            4         12           20
const (
	reservationMagic = 0x12345678 // that of a WAL object of version 0, which is longer

	// ReservationSize is the size of a reservation in bytes.
	ReservationSize = 21
)

// Reservation says which writer holds a node's log.
type Reservation struct {
	Node, Epoch int64
	Failover    bool // the log was taken over by another node
}

// DecodeReservation decodes a whole reservation. Errors match [ErrCorrupt] or are a [*VersionError].
func DecodeReservation(object string, b []byte) (Reservation, error) {
	s := source{object: object}
	if len(b) != ReservationSize {
		return Reservation{}, s.differs("bytes of a reservation", ReservationSize, len(b))
	}
	if magic := binary.BigEndian.Uint32(b); magic != reservationMagic {
		return Reservation{}, s.version("reservation", hexNumber(magic), hexNumber(reservationMagic))
	}
	return Reservation{
		Node: int64(binary.BigEndian.Uint64(b[4:])), Epoch: int64(binary.BigEndian.Uint64(b[12:])), Failover: b[20] != 0,
	}, nil
}
