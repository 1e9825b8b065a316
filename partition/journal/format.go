package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
)

// The file, numbers in big-endian order, checksums CRC-32C:
//
//	0        512                        512 + side size            512 + 2 × side size
//	┌────────┬──────────────────────────┬──────────────────────────┐
//	│ header │ side 0: round │ round │ …│ side 1: round │ round │ …│
//	└────────┴──────────────────────────┴──────────────────────────┘
//
// Rounds begin at multiples of 512 bytes, the unit that a disk writes as a whole: what was acknowledged never shares one with
// what is being written. What is between them is zero, or the remains of older rounds.
//
//	header    0        8         12      16          24
//	          ┌────────┬─────────┬───────┬───────────┐
//	          │ magic  │ version │ crc   │ side size │     crc: of the side size
//	          └────────┴─────────┴───────┴───────────┘
//
//	waiting   24      28      32       36                     512     in the header's sector; zero unless the journal waits
//	          ┌───────┬───────┬────────┬──────────────────────┐
//	          │ crc   │ flags │ keys   │ bits                 │     crc: of what follows it
//	          └───────┴───────┴────────┴──────────────────────┘
//	                                    bit n mod 3808 (lowest of its byte first): partition n of the journal waits
//	                   1: it waits; 2: a file was left alone
//	                           crc of the topic ids and partitions of all partitions, in the order in which rounds first name them
//
//	round     0       4       8            16         20       24
//	          ┌───────┬───────┬────────────┬──────────┬────────┬─────────┬───
//	          │ magic │ crc   │ generation │ sequence │ length │ entries │     crc: of what follows it, entries included
//	          └───────┴───────┴────────────┴──────────┴────────┴─────────┴───
//	                                        in its side of the entries in bytes
//
//	entry     0          16          20       24             32         40
//	          ┌──────────┬───────────┬────────┬──────────────┬──────────┬─────────┐
//	          │ topic id │ partition │ length │ segment base │ position │ records │
//	          └──────────┴───────────┴────────┴──────────────┴──────────┴─────────┘
//	                                  of the records in bytes   in the segment's file
//
// The header is durable before the first round is written. Before a side is begun again its first sector is zeros,
// durably. Each time that a side is begun its rounds get the next generation, from one that was drawn for the file, and
// sequences from 0; the side with the lower generation is the older one. A side is its rounds of one generation whose
// sequences follow each other. Where one is not there in whole the side ends: a round is begun only when the one before
// it is durable, so no later one can be there, and one that is says that the file was damaged.
//
// A file of records that were set aside is such a file with a single side, written at once. It ends where its side does.
//
// Records are bytes of clients, which may look like anything, a round included. No client knows which generations there are.
const (
	fileMagic   = "TMJOURNL"
	fileVersion = uint32(1)
	roundMagic  = uint32(0x544d4a52) // "TMJR"

	headerSize      = 24
	roundHeaderSize = 24
	entryHeaderSize = 40

	sectorSize  = 512
	maxSideSize = 1 << 40
)

// MaxRoundBytes bounds the entries of one round. A reader takes a longer one for damage.
const MaxRoundBytes = 16 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Key identifies the partition of an entry.
type Key struct {
	Topic     [16]byte // the topic's id
	Partition int32
}

// Entry holds records of one partition and their location.
type Entry struct {
	Key
	Base     int64 // base offset of the segment, which names its file
	Position int64 // of the first byte in that file

	// Records are whole batches. They alias what the entry was decoded from.
	Records []byte
}

// encodeHeader returns the first sector of a file.
func encodeHeader(sideSize int64) []byte {
	b := make([]byte, sectorSize)
	copy(b, fileMagic)
	binary.BigEndian.PutUint32(b[8:], fileVersion)
	binary.BigEndian.PutUint64(b[16:], uint64(sideSize))
	binary.BigEndian.PutUint32(b[12:], crc32.Checksum(b[16:headerSize], castagnoli))
	return b
}

// decodeHeader returns the size of a side. An *unknownVersionError says that a later program wrote the file; any other error, that the
// header is not whole.
func decodeHeader(b []byte) (sideSize int64, err error) {
	if len(b) < headerSize || string(b[:8]) != fileMagic {
		return 0, errNoHeader
	}
	switch version := binary.BigEndian.Uint32(b[8:]); version {
	case fileVersion:
	case 0:
		return 0, errNoHeader
	default:
		return 0, &unknownVersionError{found: version}
	}
	sideSize = int64(binary.BigEndian.Uint64(b[16:]))
	if binary.BigEndian.Uint32(b[12:]) != crc32.Checksum(b[16:headerSize], castagnoli) ||
		sideSize <= 0 || sideSize > maxSideSize || sideSize%sectorSize != 0 {
		return 0, errNoHeader
	}
	return sideSize, nil
}

var errNoHeader = errors.New("the header is not whole")

// roundHeader begins a round.
type roundHeader struct {
	crc        uint32
	generation uint64
	sequence   uint32
	length     int // of the entries
}

// decodeRoundHeader reports false if there is none.
func decodeRoundHeader(b []byte) (roundHeader, bool) {
	if len(b) < roundHeaderSize || binary.BigEndian.Uint32(b) != roundMagic {
		return roundHeader{}, false
	}
	h := roundHeader{
		crc: binary.BigEndian.Uint32(b[4:]), generation: binary.BigEndian.Uint64(b[8:]),
		sequence: binary.BigEndian.Uint32(b[16:]), length: int(binary.BigEndian.Uint32(b[20:])),
	}
	return h, h.length <= MaxRoundBytes
}

// sealRound writes the header of a round into the room for it in front of the entries, and pads it to whole sectors.
func sealRound(round []byte, generation uint64, sequence uint32) []byte {
	binary.BigEndian.PutUint32(round, roundMagic)
	binary.BigEndian.PutUint64(round[8:], generation)
	binary.BigEndian.PutUint32(round[16:], sequence)
	binary.BigEndian.PutUint32(round[20:], uint32(len(round)-roundHeaderSize))
	binary.BigEndian.PutUint32(round[4:], crc32.Checksum(round[8:], castagnoli))
	return append(round, make([]byte, sectors(int64(len(round)))-int64(len(round)))...)
}

// sectors rounds a size up to whole sectors.
func sectors(n int64) int64 { return (n + sectorSize - 1) / sectorSize * sectorSize }

// appendEntryHeader appends what comes before an entry's records.
func appendEntryHeader(b []byte, e Entry, length int) []byte {
	b = append(b, e.Topic[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Partition))
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Base))
	return binary.BigEndian.AppendUint64(b, uint64(e.Position))
}

// decodeEntries yields the entries of a round, and last an error if the bytes do not end with an entry.
func decodeEntries(b []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for len(b) > 0 {
			if len(b) < entryHeaderSize {
				yield(Entry{}, fmt.Errorf("%d bytes behind the last entry", len(b)))
				return
			}
			e := Entry{
				Base: int64(binary.BigEndian.Uint64(b[24:])), Position: int64(binary.BigEndian.Uint64(b[32:])),
			}
			copy(e.Topic[:], b)
			e.Partition = int32(binary.BigEndian.Uint32(b[16:]))
			length := int64(binary.BigEndian.Uint32(b[20:]))
			b = b[entryHeaderSize:]
			if length > int64(len(b)) || e.Base < 0 || e.Position < 0 || e.Partition < 0 {
				yield(Entry{}, fmt.Errorf("an entry of %d bytes at %d of segment %d of partition %d in %d bytes",
					length, e.Position, e.Base, e.Partition, len(b)))
				return
			}
			e.Records, b = b[:length:length], b[length:]
			if !yield(e, nil) {
				return
			}
		}
	}
}
