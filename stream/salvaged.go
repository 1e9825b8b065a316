package stream

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// SalvagedLog is what [Rebuilt.Write] kept of a node's damaged log. Nothing needs it: its readable records are in
// objects. It is kept in case more of it can be read later, and costs only its space.
type SalvagedLog struct {
	// Prefix is what the keys of its objects begin with.
	Prefix string
	// Cluster and Node identify the log; empty and -1 if the keys do not say.
	Cluster string
	Node    catalog.NodeID
	// Objects is how many there are, of Bytes bytes in all.
	Objects int
	Bytes   int64
	// Since is when the oldest of them was put.
	Since time.Time

	keys []string
}

// SalvagedLogs finds what was kept of damaged logs in a store, in the order of the keys. It changes nothing.
func SalvagedLogs(ctx context.Context, store objstore.Store) ([]SalvagedLog, error) {
	found := map[string]*SalvagedLog{}
	for info, err := range listEach(ctx, store, SalvagedPrefix) {
		if err != nil {
			return nil, err
		}
		l := SalvagedLog{Prefix: SalvagedPrefix, Node: -1}
		prefix, known, err := ParseWALPrefix(strings.TrimPrefix(info.Key, SalvagedPrefix))
		if known && err == nil {
			l.Prefix, l.Cluster, l.Node = SalvagedPrefix+prefix.String(), prefix.Cluster, prefix.Node
		}
		if found[l.Prefix] == nil {
			found[l.Prefix] = &l
		}
		found[l.Prefix].add(info)
	}
	var logs []SalvagedLog
	for _, prefix := range slices.Sorted(maps.Keys(found)) {
		logs = append(logs, *found[prefix])
	}
	return logs, nil
}

func (l *SalvagedLog) add(info objstore.Info) {
	l.Objects++
	l.Bytes += info.Size
	l.keys = append(l.keys, info.Key)
	if l.Since.IsZero() || info.Modified.Before(l.Since) {
		l.Since = info.Modified
	}
}

// Drop removes the objects that were found, permanently. After an error some may be left; it may be called again.
func (l SalvagedLog) Drop(ctx context.Context, store objstore.Store) error {
	return deleteAll(ctx, store, l.keys)
}

// checkSalvaged reports the kept objects of damaged logs of the cluster, and of those whose keys name none.
func (c *checker) checkSalvaged(ctx context.Context) error {
	logs, err := SalvagedLogs(ctx, c.WAL)
	if err != nil {
		return err
	}
	for _, l := range logs {
		if l.Cluster != c.Cluster && l.Cluster != "" {
			continue
		}
		err := c.report(aboutNode(l.Node, l.Prefix), FoundSalvaged, "objects: %d, bytes: %d, kept since %s", l.Objects, l.Bytes,
			l.Since.UTC().Format(time.RFC3339))
		if err != nil {
			return err
		}
	}
	return nil
}
