package kafkalog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A summary, numbers in big-endian order, the checksum CRC-32C:
//
//	0        4         6      10       12
//	+--------+---------+-------+-------+-------------+-----------------+------------------------+------------+---
//	| "TMLS" | version | crc   | flags | 11 numbers  | leader epochs n | n leader epochs        | producers m| m producers
//	+--------+---------+-------+-------+-------------+-----------------+------------------------+------------+---
//	                    of what         int64 each    uint32            int32 epoch, int64 start uint32
//	                    follows it
//	                            1: young
//
// The numbers: base offset, bytes and modification time (ns) of the active segment's records, entries of its offset index
// and of its time index, its largest timestamp (ms) with its offset, the largest timestamp of its first batch, log end,
// number of segments, bytes of all their records. A producer, with up to five batches that are remembered of it:
//
//	0             8             10             14                     22                   30        31
//	+-------------+-------------+--------------+----------------------+--------------------+---------+-----------
//	| int64       | int16       | int32        | int64 timestamp of   | int64 first offset | uint8 k | k batches
//	| producer id | epoch       | coordinator  | the last change, ms  | of its open txn,   |         |
//	|             |             | epoch or -1  |                      | -1 without one     |         |
//	+-------------+-------------+--------------+----------------------+--------------------+---------+-----------
//
//	0                     4                     8                    16                24
//	+---------------------+---------------------+--------------------+-----------------+
//	| int32 last sequence | int32 offset delta  | int64 last offset  | int64 timestamp |
//	+---------------------+---------------------+--------------------+-----------------+
const (
	summaryMagic   = "TMLS"
	summaryVersion = 0

	summaryFixed    = 12 + 8*11
	summaryEpoch    = 12
	summaryProducer = 31
	summaryBatch    = 24

	flagYoung = 1
)

// numbers are the fields of a fixed size, in the order of the format.
func (s *Summary) numbers() [11]*int64 {
	return [...]*int64{
		&s.base, &s.size, &s.modified, &s.indexEntries, &s.timeEntries, &s.maxTimestamp, &s.maxOffset, &s.firstStamp,
		&s.end, &s.segments, &s.bytes,
	}
}

// MarshalBinary returns the bytes of the summary, which are the caller's. It does not fail.
func (s *Summary) MarshalBinary() ([]byte, error) {
	data := make([]byte, 12, summaryFixed+8+summaryEpoch*len(s.epochs)+(summaryProducer+2*summaryBatch)*len(s.producers))
	copy(data, summaryMagic)
	binary.BigEndian.PutUint16(data[4:], summaryVersion)
	if s.young {
		binary.BigEndian.PutUint16(data[10:], flagYoung)
	}
	for _, n := range s.numbers() {
		data = binary.BigEndian.AppendUint64(data, uint64(*n))
	}
	data = binary.BigEndian.AppendUint32(data, uint32(len(s.epochs)))
	for _, e := range s.epochs {
		data = binary.BigEndian.AppendUint32(data, uint32(e.Epoch))
		data = binary.BigEndian.AppendUint64(data, uint64(e.Start))
	}
	data = binary.BigEndian.AppendUint32(data, uint32(len(s.producers)))
	for _, p := range s.producers {
		data = appendProducer(data, p)
	}
	binary.BigEndian.PutUint32(data[6:], summaryCRC(data))
	return data, nil
}

func appendProducer(data []byte, p summarisedProducer) []byte {
	data = binary.BigEndian.AppendUint64(data, uint64(p.id))
	data = binary.BigEndian.AppendUint16(data, uint16(p.entry.epoch))
	data = binary.BigEndian.AppendUint32(data, uint32(p.entry.coordinatorEpoch))
	data = binary.BigEndian.AppendUint64(data, uint64(p.entry.lastTimestamp))
	data = binary.BigEndian.AppendUint64(data, uint64(p.entry.txnFirst))
	data = append(data, byte(p.entry.retained))
	for _, b := range p.entry.window() {
		data = binary.BigEndian.AppendUint32(data, uint32(b.lastSequence))
		data = binary.BigEndian.AppendUint32(data, uint32(b.offsetDelta))
		data = binary.BigEndian.AppendUint64(data, uint64(b.lastOffset))
		data = binary.BigEndian.AppendUint64(data, uint64(b.timestamp))
	}
	return data
}

func summaryCRC(data []byte) uint32 {
	return crc32.Checksum(data[10:], crc32.MakeTable(crc32.Castagnoli))
}

// UnmarshalBinary makes s the summary that MarshalBinary wrote, and keeps nothing of data. Errors are [*CorruptionError]
// and, for another version, [*UnsupportedVersionError], with positions in data; s is then not usable.
func (s *Summary) UnmarshalBinary(data []byte) error {
	corrupt := func(position int, reason, want, got string) error {
		return &CorruptionError{Path: "summary", Position: int64(position), Reason: reason, Want: want, Got: got}
	}
	if len(data) < 6 || string(data[:4]) != summaryMagic {
		return corrupt(0, fmt.Sprintf("it does not begin with %q and a version", summaryMagic), "", "")
	}
	if version := binary.BigEndian.Uint16(data[4:]); version != summaryVersion {
		return &UnsupportedVersionError{
			Artifact: "summary", Path: "of a log", Position: 4, Found: int64(version), Supported: summaryVersion,
		}
	}
	if len(data) < summaryFixed+8 {
		return corrupt(len(data), "it ends in the middle", "", "")
	}
	if want, got := binary.BigEndian.Uint32(data[6:]), summaryCRC(data); want != got {
		return corrupt(6, "checksum", fmt.Sprintf("%08x", want), fmt.Sprintf("%08x", got))
	}
	flags := binary.BigEndian.Uint16(data[10:])
	*s = Summary{young: flags&flagYoung != 0}
	r := &summaryReader{data: data, at: 12}
	for _, n := range s.numbers() {
		*n = int64(r.uint64())
	}
	for range r.count(summaryEpoch) {
		s.epochs = append(s.epochs, EpochEntry{Epoch: int32(r.uint32()), Start: int64(r.uint64())})
	}
	for range r.count(summaryProducer) {
		s.producers = append(s.producers, r.producer())
	}
	switch wrong := s.implausible(); {
	case r.short:
		return corrupt(r.at, "it ends in the middle", "", "")
	case r.at != len(data):
		return corrupt(r.at, "more follows", "", "")
	case flags&^flagYoung != 0:
		return corrupt(10, "unknown flags", "", "")
	case wrong != "":
		return corrupt(12, "it has "+wrong, "", "")
	}
	return nil
}

// summaryReader takes numbers from the front of what is left. Behind the end they are 0, which short remembers.
type summaryReader struct {
	data  []byte
	at    int
	short bool
}

// take returns the next n bytes.
func (r *summaryReader) take(n int) []byte {
	if len(r.data)-r.at < n {
		r.short = true
		return make([]byte, n)
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *summaryReader) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *summaryReader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *summaryReader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// count reads how many things of at least that size follow, and returns 0 if there is no room for them.
func (r *summaryReader) count(least int) int {
	n := int64(r.uint32())
	if n*int64(least) > int64(len(r.data)-r.at) {
		r.short = true
		return 0
	}
	return int(n)
}

func (r *summaryReader) producer() summarisedProducer {
	p := summarisedProducer{id: int64(r.uint64()), entry: producerEntry{
		epoch: int16(r.uint16()), coordinatorEpoch: int32(r.uint32()), lastTimestamp: int64(r.uint64()), txnFirst: int64(r.uint64()),
	}}
	batches := r.take(1)[0]
	if batches > maxRetainedBatches {
		r.short = true
		return p
	}
	p.entry.retained = int8(batches)
	for i := range batches {
		p.entry.batches[i] = retainedBatch{
			lastSequence: int32(r.uint32()), offsetDelta: int32(r.uint32()), lastOffset: int64(r.uint64()), timestamp: int64(r.uint64()),
		}
	}
	return p
}
