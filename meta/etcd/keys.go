package etcd

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/meta"
)

// All keys begin with "/tidemark/NAME/". Numbers are decimal text; those in keys have 20 digits, so that they sort.
//
//	format                     the version of this layout: 1
//	cluster                    the cluster's id
//	head                       index of the newest entry, 0 for none
//	log/INDEX                  entry (package meta, TMML)
//	snap/latest                the kept snapshots, newest first, a line each:
//	                           INDEX ATTEMPT CHUNKS BYTES CRC-32C
//	snap/INDEX/ATTEMPT/CHUNK   a part of a snapshot (package meta, TMMS), at most 1 MiB
//	claim/KEY                  value of an expiring key, on a lease
//
// The indexes of log are consecutive and end at head. They begin at 1, or at or before the entry that follows the older of
// two snapshots, or the only snapshot of a log that was restored from it. ATTEMPT is random: two nodes that store the same snapshot never write into each other's parts.
const formatVersion = 1

const (
	chunkBytes    = 1 << 20
	keptSnapshots = 2
)

// keys makes the keys of one log.
type keys struct{ prefix string }

func (k keys) format() string  { return k.prefix + "format" }
func (k keys) cluster() string { return k.prefix + "cluster" }
func (k keys) head() string    { return k.prefix + "head" }

func (k keys) entry(index uint64) string { return fmt.Sprintf("%slog/%020d", k.prefix, index) }

func (k keys) latest() string { return k.prefix + "snap/latest" }

// snapshots begins the keys of all parts of all snapshots.
func (k keys) snapshots() string { return k.prefix + "snap/" }

// snapshotsFrom sorts before the parts of the snapshots at an index and above, and after all below.
func (k keys) snapshotsFrom(index uint64) string {
	return fmt.Sprintf("%ssnap/%020d/", k.prefix, index)
}

func (k keys) attempt(s snapshot) string {
	return fmt.Sprintf("%s%016x/", k.snapshotsFrom(s.index), s.attempt)
}

func (k keys) chunk(s snapshot, i int) string { return fmt.Sprintf("%s%06d", k.attempt(s), i) }

func (k keys) claim(key string) string { return k.prefix + "claim/" + key }

// snapshot says where one is and what it must be.
type snapshot struct {
	index   uint64
	attempt uint64
	chunks  int
	bytes   int
	crc     uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newSnapshot(index, attempt uint64, data []byte) snapshot {
	return snapshot{
		index: index, attempt: attempt, chunks: (len(data) + chunkBytes - 1) / chunkBytes, bytes: len(data),
		crc: crc32.Checksum(data, castagnoli),
	}
}

// check reports what is wrong with data that should be the snapshot's.
func (s snapshot) check(data []byte) error {
	if len(data) != s.bytes {
		return &meta.FormatError{Offset: len(data), Reason: fmt.Sprintf("it has %d bytes, not %d", len(data), s.bytes), Damaged: true}
	}
	if crc := crc32.Checksum(data, castagnoli); crc != s.crc {
		return &meta.FormatError{Offset: len(data), Reason: fmt.Sprintf("its bytes have CRC %#08x, not %#08x", crc, s.crc), Damaged: true}
	}
	return nil
}

func encodeSnapshots(kept []snapshot) string {
	var b strings.Builder
	for _, s := range kept {
		fmt.Fprintf(&b, "%d %016x %d %d %08x\n", s.index, s.attempt, s.chunks, s.bytes, s.crc)
	}
	return b.String()
}

func decodeSnapshots(text string) (kept []snapshot, err error) {
	for line := range strings.Lines(text) {
		var s snapshot
		if _, err := fmt.Sscanf(line, "%d %x %d %d %x\n", &s.index, &s.attempt, &s.chunks, &s.bytes, &s.crc); err != nil {
			return nil, fmt.Errorf("%q is not a snapshot: %w", line, err)
		}
		if n := len(kept); n > 0 && s.index >= kept[n-1].index {
			return nil, fmt.Errorf("snapshot %d comes after %d", s.index, kept[n-1].index)
		}
		kept = append(kept, s)
	}
	if encodeSnapshots(kept) != text {
		return nil, errors.New("it is not in canonical form")
	}
	return kept, nil
}

func encodeIndex(index uint64) string { return strconv.FormatUint(index, 10) }

func decodeIndex(b []byte) (uint64, error) { return strconv.ParseUint(string(b), 10, 64) }
