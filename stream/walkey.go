package stream

import (
	"crypto/md5"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// WALPrefix is the key prefix of the WAL objects of one node of one cluster (1.5):
//
//	UPPERHEX(md5(node)) "/_kafka_" cluster "/" node "/" epoch "/wal/" start "-" end
//	`------------------ prefix -------------------'
//
// Numbers are decimal without padding. A key without "-end" is of an old writer; its objects are version 0.
type WALPrefix struct {
	Cluster string
	Node    catalog.NodeID
}

// ParseWALPrefix returns the prefix of the log that a key belongs to, of any cluster and node. found is false for keys of
// anything else. A key that names a log but has no valid prefix is found, with an [*UnknownKeyError] (KEY-1).
func ParseWALPrefix(key string) (p WALPrefix, found bool, err error) {
	parts := strings.Split(key, "/")
	if len(parts) < 3 {
		return p, false, nil
	}
	cluster, found := strings.CutPrefix(parts[1], "_kafka_")
	if !found {
		return p, false, nil
	}
	node, err := strconv.ParseInt(parts[2], 10, 32)
	p = WALPrefix{Cluster: cluster, Node: catalog.NodeID(node)}
	if err != nil || node < 0 || !strings.HasPrefix(key, p.String()) {
		return p, true, &UnknownKeyError{Key: key, Want: "MD5/_kafka_CLUSTER/NODE/EPOCH/wal/START-END"}
	}
	return p, true, nil
}

// String returns the prefix, which ends in a slash.
func (p WALPrefix) String() string {
	node := strconv.Itoa(int(p.Node))
	return fmt.Sprintf("%X/_kafka_%s/%s/", md5.Sum([]byte(node)), p.Cluster, node)
}

// Epoch returns the prefix of one epoch's objects.
func (p WALPrefix) Epoch(epoch int64) string { return fmt.Sprintf("%s%d/wal/", p, epoch) }

// Key returns an object's key.
func (p WALPrefix) Key(k WALKey) string {
	if k.Old {
		return p.Epoch(k.Epoch) + strconv.FormatInt(k.Start, 10)
	}
	return windowKey(p.Epoch(k.Epoch), k.Start)
}

// windowKey returns the key of a window's object, given the prefix of its epoch.
func windowKey(epoch string, start int64) string {
	return epoch + strconv.FormatInt(start, 10) + "-" + strconv.FormatInt(start+Window, 10)
}

// WALKey is the parsed form of a WAL object's key.
type WALKey struct {
	// Epoch is the node epoch that the window belongs to.
	Epoch int64
	// Start is the logical offset of the object's window.
	Start int64
	// Old keys have no end and are of objects of version 0.
	Old bool
}

// Compare orders keys by epoch and start, which is not the order of their text.
func (k WALKey) Compare(other WALKey) int {
	if k.Epoch != other.Epoch {
		if k.Epoch < other.Epoch {
			return -1
		}
		return 1
	}
	switch {
	case k.Start < other.Start:
		return -1
	case k.Start > other.Start:
		return 1
	}
	return 0
}

// Parse parses a key below the prefix. A key that fits no form is an [*UnknownKeyError] (KEY-1).
func (p WALPrefix) Parse(key string) (WALKey, error) {
	unknown := &UnknownKeyError{Key: key, Want: p.String() + "EPOCH/wal/START-END"}
	rest, below := strings.CutPrefix(key, p.String())
	if !below {
		return WALKey{}, unknown
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 || parts[1] != "wal" {
		return WALKey{}, unknown
	}
	start, end, hasEnd := strings.Cut(parts[2], "-")
	k := WALKey{Old: !hasEnd}
	var ok bool
	if k.Epoch, ok = parseNumber(parts[0]); !ok {
		return WALKey{}, unknown
	}
	if k.Start, ok = parseNumber(start); !ok {
		return WALKey{}, unknown
	}
	if hasEnd {
		if e, ok := parseNumber(end); !ok || k.Start > e-Window || e-k.Start != Window {
			return WALKey{}, unknown
		}
	}
	return k, nil
}

// parseNumber reads a decimal that is not negative and not padded.
func parseNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}
