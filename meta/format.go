package meta

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// MaxCommands is the most commands that one entry holds.
const MaxCommands = 256

// Magic numbers and versions. They are on disk and never change their meaning; a change of layout is a new version.
const (
	entryMagic   = "TMML"
	entryVersion = 1
	codecVersion = 1

	snapshotMagic   = "TMMS"
	snapshotVersion = 3 // the newest; see EncodeSnapshot

	entryHeaderSize = 38
	crcSize         = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is one group of commands, appended to the log as a whole.
type Entry struct {
	// Node and NodeEpoch are who proposed it; Nonce is unique among its proposals, so that a proposer that lost a reply
	// can find out whether its entry is in the log.
	Node      int32
	NodeEpoch int64
	Nonce     uint64
	// NowMs is the proposer's clock, in ms since 1970.
	NowMs int64
	// Commands are 1 to MaxCommands.
	Commands []Command
}

// An entry. Little-endian; everything before the CRC is under the CRC, which is CRC-32C.
//
//	off  0    4    5      9            17           25           33   34        38
//	    +----+----+------+------------+------------+------------+----+---------+----------+-----+
//	    |TMML|ver |node  | node epoch | nonce      | now ms     |cod.| commands| command  | CRC |
//	    |  4 |1: 1|  i32 |        i64 |        u64 |        i64 |1: 1| u32 n   | n times  | u32 |
//	    +----+----+------+------------+------------+------------+----+---------+----------+-----+
//
//	command  +------+----------------------------+     strings, blobs: u32 length, bytes
//	         | type | fields in the order of the |     lists:          u32 count, items
//	         |   u8 | command's documentation    |     bools:          u8, 0 or 1
//	         +------+----------------------------+     ids:            16 bytes
//
// PutKv 12         key str, value blob              CreateTopic 50       id, name str, partitions i32, configs
// PutKvIfAbsent 13 key str, value blob              DeleteTopic 51       id
// DeleteKv 14      key str                          CreatePartitions 52  id, expected i32, total i32
// DeleteKvIf… 19   key str, value blob              SetTopicConfigs 60   id, expected version u64, configs
// CasKv 21         key str, expected u64, value     RaiseLeaderEpochs 70 node i32, node epoch i64,
// RegisterNode 10  node i32, expected epoch i64,                         list of (id, list of partition i32)
//                  incarnation id, address str,     configs              list of (name str, value str) in the
//                  slots u32                                             order of the names, each once
// AllocateProducerIDs 20  N, count u32
// AdoptTopic 53           id, name str, list of leader epoch i32, configs
// RaiseProducerIDs 120    next u64
// AnnounceLevel 110       node i32, incarnation id, level u32, build str
// RaiseLevel 111          level u32, list of node i32
//
// N is node i32, node epoch i64. Streams, epochs, offsets, objects and sizes are i64; what a range and a stream object are is
// drawn in wire_objects.go.
//
// CreateStreams 17  N, count u32                    PrepareObjects 6   N, count u32, ttl ms i64
// OpenStream 2      N, stream, epoch                CommitObjects 7    N, object, size, attributes u32, list of range,
// TrimStream 3      N, stream, epoch, start                            list of stream object, list of compacted object
// CloseStream 4     N, stream, epoch                CompactStream 8    N, stream object, list of source object,
// DeleteStream 5    N, stream, epoch                                   list of operation u8, list of dead object
// OpenWAL 22        N, start                        ExpirePrepared 9   nothing
// CloseWAL 23       N, start                        CleanDestroyed 11  list of object
// PlaceStream 18    stream                          TransferStream 15  stream, from i32, to i32
//                                                   CompleteTransfer 16  stream, epoch
//
// A bucket is drawn in snapshot_tables.go.
//
// CreateTable 30    name str, kind u8, partitioned bool, buckets u32, options blob, schema blob
// DropTable 31      table u64                       CreatePartition 33  table u64, key str
// AddSchema 32      table u64, expected last i16,   DropPartition 34    table u64, partition u64
//                   schema blob                     AddBuckets 35       table u64, expected u32, count u32
// LeadBucket 38     N, bucket, coordinator epoch    RegisterCoordinator 43  N, expected epoch

// Encode returns the entry's bytes. It fails if a string is not UTF-8 or the number of commands is out of range.
func (e Entry) Encode() ([]byte, error) {
	commands := make([][]byte, len(e.Commands))
	for i, c := range e.Commands {
		b, err := encodeCommand(c)
		if err != nil {
			return nil, err
		}
		commands[i] = b
	}
	if len(commands) < 1 || len(commands) > MaxCommands {
		return nil, fmt.Errorf("meta: an entry has 1 to %d commands, not %d", MaxCommands, len(commands))
	}
	return e.frame(commands), nil
}

// frame puts encoded commands into an entry's frame. e.Commands is not looked at.
func (e Entry) frame(commands [][]byte) []byte {
	size := entryHeaderSize + crcSize
	for _, c := range commands {
		size += len(c)
	}
	w := writer{b: make([]byte, 0, size)}
	w.raw([]byte(entryMagic))
	w.u8(entryVersion)
	w.i32(e.Node)
	w.i64(e.NodeEpoch)
	w.u64(e.Nonce)
	w.i64(e.NowMs)
	w.u8(codecVersion)
	w.count(len(commands))
	for _, c := range commands {
		w.raw(c)
	}
	return sealed(w.b)
}

// DecodeEntry reads an entry. Values of commands alias b, which must not change afterwards. The error is a
// [*VersionError] for an entry that a newer version wrote and a [*FormatError] for anything else that is not an entry.
func DecodeEntry(b []byte) (Entry, error) {
	r, _, err := opened(b, entryMagic, "entry version", entryVersion)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Node: r.i32(), NodeEpoch: r.i64(), Nonce: r.u64(), NowMs: r.i64()}
	if v := r.u8(); r.err == nil && v != codecVersion {
		return Entry{}, &VersionError{What: "command codec version", Got: uint64(v), Known: codecVersion}
	}
	n := r.u32()
	if r.err == nil && (n < 1 || n > MaxCommands) {
		r.fail("an entry has 1 to %d commands, not %d", MaxCommands, n)
	}
	for i := uint32(0); i < n && r.err == nil; i++ {
		e.Commands = append(e.Commands, decodeCommand(r))
	}
	if err := r.finish(); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// sealed appends the CRC-32C of all bytes before it.
func sealed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// opened checks magic, CRC and version, in this order, and returns the version and a reader of what follows, up to the
// CRC. Every version keeps the places of magic, version byte and trailing CRC, so that a damaged version byte is not
// mistaken for a newer version.
func opened(b []byte, magic, what string, newest uint8) (r *reader, version uint8, err error) {
	if len(b) < len(magic)+1+crcSize {
		return nil, 0, &FormatError{Offset: len(b), Reason: fmt.Sprintf("%d bytes are too few", len(b)), Damaged: true}
	}
	if got := string(b[:len(magic)]); got != magic {
		return nil, 0, &FormatError{Offset: 0, Reason: fmt.Sprintf("magic is %q, not %q", got, magic), Damaged: true}
	}
	body := b[: len(b)-crcSize : len(b)-crcSize]
	stored := binary.LittleEndian.Uint32(b[len(body):])
	if computed := crc32.Checksum(body, castagnoli); stored != computed {
		return nil, 0, &FormatError{Offset: len(body), Reason: fmt.Sprintf("CRC is %#08x, the bytes have %#08x", stored, computed), Damaged: true}
	}
	got := body[len(magic)]
	if got < 1 || got > newest {
		return nil, 0, &VersionError{What: what, Got: uint64(got), Known: uint64(newest)}
	}
	return &reader{b: body, pos: len(magic) + 1}, got, nil
}

// finish returns the first fault, or that bytes are left over.
func (r *reader) finish() error {
	if r.err == nil && r.remaining() > 0 {
		r.fail("%d bytes are left over", r.remaining())
	}
	return r.err
}
