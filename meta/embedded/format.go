package embedded

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The file has three buckets.
//
//	meta   "format"     text, the version of this layout: 1
//	       "cluster"    text, the cluster's id
//	       "head"       index u64 of the newest entry, 0 for none
//	       "snapshots"  index u64 of each kept snapshot, ascending, at most two
//	log    index u64, big-endian  ->  entry (package meta, TMML)
//	snap   index u64, big-endian  ->  snapshot (package meta, TMMS)
//
// Entries and snapshots carry their own checksum. bbolt checks its two meta pages and nothing else, so the values in the
// bucket meta are sealed too. Numbers in values are little-endian.
//
//	 0        n      n+4
//	+--------+------+
//	| value  | CRC  |  CRC-32C of the key and the value
//	| n bytes| u32  |
//	+--------+------+
//
// The keys of log are consecutive and end at head. They begin at 1, or at or before the entry that follows the older of
// two snapshots, or the only snapshot of a log that was restored from it.
const formatVersion = "1"

var (
	bucketMeta = []byte("meta")
	bucketLog  = []byte("log")
	bucketSnap = []byte("snap")

	keyFormat    = []byte("format")
	keyCluster   = []byte("cluster")
	keyHead      = []byte("head")
	keySnapshots = []byte("snapshots")
)

// keptSnapshots is how many snapshots stay.
const keptSnapshots = 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns the value with its checksum.
func seal(key, value []byte) []byte {
	b := make([]byte, 0, len(value)+4)
	b = append(b, value...)
	return binary.LittleEndian.AppendUint32(b, sum(key, value))
}

// unseal returns the value under a checksum, as part of b.
func unseal(key, b []byte) ([]byte, error) {
	n := len(b) - 4
	if n < 0 {
		return nil, fmt.Errorf("%q has %d bytes, too few for its checksum", key, len(b))
	}
	if stored, computed := binary.LittleEndian.Uint32(b[n:]), sum(key, b[:n]); stored != computed {
		return nil, fmt.Errorf("%q has checksum %#08x, its bytes have %#08x", key, stored, computed)
	}
	return b[:n], nil
}

func sum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

func encodeIndexes(indexes ...uint64) []byte {
	b := make([]byte, 0, 8*len(indexes))
	for _, i := range indexes {
		b = binary.LittleEndian.AppendUint64(b, i)
	}
	return b
}

func decodeIndexes(key, b []byte) ([]uint64, error) {
	if len(b)%8 != 0 {
		return nil, fmt.Errorf("%q has %d bytes, not a multiple of 8", key, len(b))
	}
	out := make([]uint64, 0, len(b)/8)
	for ; len(b) > 0; b = b[8:] {
		out = append(out, binary.LittleEndian.Uint64(b))
	}
	return out, nil
}

func indexKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }
