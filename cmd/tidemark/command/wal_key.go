package command

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// walPlace is where an object stands in a log of any writer of the format, according to its key:
//
//	MD5 of the node "/_kafka_" cluster "/" node [ "_" kind ] "/" epoch "/wal/" start [ "-" end ]
//
// Writers differ in the last part. One of version 0 has no end. Those of version 1 end at the next multiple of the window,
// as ours do, or, in older ones, behind the last frame; their starts need not be multiples of the window either.
type walPlace struct {
	cluster string
	node    catalog.NodeID
	kind    string // of a log beside the node's own; ours have none
	epoch   int64
	walSpan
}

// walSpan is the last part of a key.
type walSpan struct {
	start int64
	end   int64 // noEnd in version 0
}

const noEnd = -1

func (p walPlace) compare(other walPlace) int {
	return cmp.Or(cmp.Compare(p.cluster, other.cluster), cmp.Compare(p.node, other.node), cmp.Compare(p.kind, other.kind),
		cmp.Compare(p.epoch, other.epoch), cmp.Compare(p.start, other.start))
}

// follows reports whether an object stands right behind another one in the same log.
func (p walPlace) follows(other walPlace, otherEnd int64) bool {
	other.walSpan = p.walSpan
	return p == other && p.start == otherEnd
}

func parseWALPlace(key string) (walPlace, bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 6 || parts[4] != "wal" {
		return walPlace{}, false
	}
	cluster, ok := strings.CutPrefix(parts[1], "_kafka_")
	if !ok {
		return walPlace{}, false
	}
	text, kind, _ := strings.Cut(parts[2], "_")
	node, err := strconv.ParseInt(text, 10, 32)
	sum := md5.Sum([]byte(text))
	if err != nil || node < 0 || !strings.EqualFold(parts[0], hex.EncodeToString(sum[:])) {
		return walPlace{}, false
	}
	epoch, ok := parseOffset(parts[3])
	if !ok {
		return walPlace{}, false
	}
	span, ok := parseWALSpan(parts[5])
	return walPlace{cluster: cluster, node: catalog.NodeID(node), kind: kind, epoch: epoch, walSpan: span}, ok
}

func parseWALSpan(text string) (s walSpan, ok bool) {
	start, end, hasEnd := strings.Cut(text, "-")
	if s.start, ok = parseOffset(start); !ok {
		return s, false
	}
	if s.end = noEnd; !hasEnd {
		return s, true
	}
	s.end, ok = parseOffset(end)
	return s, ok && s.end > s.start
}

// parseOffset reads a decimal that is not negative.
func parseOffset(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil
}

// endsWindow reports whether the object ends with a window, as all do of writers that keep frames whole.
func (s walSpan) endsWindow() bool { return s.end >= 0 && s.end%stream.Window == 0 }

// version returns that of the objects which have such a key.
func (s walSpan) version() int {
	if s.end == noEnd {
		return 0
	}
	return 1
}

// check verifies a header against the key of an object of size bytes.
func (p walPlace) check(key string, h stream.WALHeader, size int64) error {
	ours := stream.WALPrefix{Cluster: p.cluster, Node: p.node}
	if k, err := ours.Parse(key); err == nil && !k.Old && k.Start%stream.Window == 0 {
		return h.Check(key, p.node, k, size)
	}
	behind := h.Start + h.BodyLen
	switch damaged := func(at int64, what string, want, got any) error {
		return &stream.CorruptError{Object: key, Position: at, What: what, Want: fmt.Sprint(want), Got: fmt.Sprint(got)}
	}; {
	case h.Version != p.version():
		return damaged(0, "version, by its key", p.version(), h.Version)
	case h.Start != p.start:
		return damaged(4, "start offset", p.start, h.Start)
	case p.end != noEnd && p.end != behind && p.end != (behind+stream.Window-1)/stream.Window*stream.Window:
		return damaged(12, "end of the frames", p.end, behind)
	case h.Node != p.node:
		return damaged(28, "node", p.node, h.Node)
	case h.Epoch < p.epoch:
		return damaged(32, "node epoch", p.epoch, h.Epoch)
	case h.Trim < -1 || h.Trim >= behind:
		return damaged(40, "trim offset", "-1 or below the object's end", h.Trim)
	}
	return nil
}
