package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/observe"
)

// metaFile is the embedded metadata log in the data directory.
const metaFile = "metadata.db"

// MetadataLostError says that the data directory has been used but that the metadata log is missing or empty. A start
// would treat every partition as a directory that does not belong here.
type MetadataLostError struct {
	Metadata    string   // where the metadata log is, or should be
	DataDir     string   // where the partitions are
	Directories []string // some of them
	Total       int      // how many there are
	Topics      []string // their topics, by the directories' names
	Empty       bool     // the file exists and is empty
	Err         error    // the error of opening the metadata log, or nil when it exists and is empty
}

func (e *MetadataLostError) Error() string {
	found := strings.Join(e.Directories, ", ")
	if e.Total > len(e.Directories) {
		found += ", …"
	}
	state := "is empty"
	if e.Err != nil && !e.Empty {
		state = "is missing"
	}
	if e.Total == 0 {
		return fmt.Sprintf("the metadata log %s %s, but %s says that a server used it: restore the metadata log from a copy, "+
			"or start with an empty data directory", e.Metadata, state, path.Join(e.DataDir, "meta.properties"))
	}
	return fmt.Sprintf("the metadata log %s %s, but %s holds %d partitions (%s) of %d topics: restore the metadata log with "+
		"'tidemark restore'; without a backup, 'tidemark recover --data-dir %s' rebuilds what it can from the partitions; "+
		"or move the partitions elsewhere to start anew", e.Metadata, state, e.DataDir, e.Total, found, len(e.Topics), e.DataDir)
}

// Unwrap returns the error of opening the metadata log.
func (e *MetadataLostError) Unwrap() error { return e.Err }

// IdentityError says that the data directory belongs to another node or cluster.
type IdentityError struct {
	File     string
	What     string // "cluster id" or "node id"
	Got      string // in the file
	Expected string // by the configuration or the metadata log
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("%s: the %s is %s, not %s", e.File, e.What, e.Got, e.Expected)
}

// openMeta opens the metadata log, makes sure that it belongs to this data directory, registers the node in it, and
// offers copies of it.
func (n *Node) openMeta(ctx context.Context) error {
	backend, err := n.openMetaLog(ctx)
	if err != nil {
		return err
	}
	if n.meta.View().Index() == 0 && len(n.data.found.partitions) > 0 {
		return n.data.metadataLost(backend.String(), nil)
	}
	if source, unfinished := n.meta.View().Get(importKey); unfinished {
		return &UnfinishedImportError{Source: string(source.Value)}
	}
	if n.config.MetaStore.URL != "" {
		if err := n.checkRecordsAreHere(backend.String()); err != nil {
			return err
		}
	}
	if err := n.data.settleIdentity(n.meta.ClusterID()); err != nil {
		return err
	}
	if err := n.loadNodeSettings(); err != nil {
		return err
	}
	n.clusterID = n.meta.ClusterID()
	n.show(func(s *shown) { s.cluster = n.clusterID })
	if err := n.register(ctx); err != nil {
		return err
	}
	return n.openBackups(ctx)
}

// openMetaLog opens the metadata log and returns its backend.
func (n *Node) openMetaLog(ctx context.Context) (meta.Backend, error) {
	backend, err := n.openMetaBackend(ctx)
	if err != nil {
		return nil, err
	}
	n.meta, err = meta.Open(ctx, backend, meta.Options{
		Now: n.config.Now, Node: n.config.NodeID, Events: n.metaEvents(),
	})
	if err != nil {
		return nil, err
	}
	n.undo("the metadata log", func(context.Context) error { return n.meta.Close() })
	return backend, nil
}

// openMetaBackend returns the configured backend, or one that the node closes: etcd's, or the one in the data directory.
func (n *Node) openMetaBackend(ctx context.Context) (meta.Backend, error) {
	switch {
	case n.config.Meta != nil:
		return n.config.Meta, nil
	case n.config.MetaStore.URL != "":
		return n.openMetaCluster(ctx)
	}
	file := path.Join(n.config.DataDir, metaFile)
	there, err := n.data.exists(file)
	if err != nil {
		return nil, err
	}
	clusterID := cmp.Or(n.data.identity.ClusterID, n.config.ClusterID) // a restored directory has its own
	if !there {
		clusterID = n.data.clusterID(n.config.ClusterID)
	}
	b, err := embedded.Open(file, embedded.Options{ClusterID: clusterID, MustExist: n.data.used()})
	if err != nil {
		return nil, n.data.explain(file, err)
	}
	n.metaFile = b
	n.undo("the metadata file", func(context.Context) error { return b.Close() })
	return b, nil
}

// openMetaCluster opens the log in etcd. A data directory with a metadata log of its own is refused: its topics are in
// there.
func (n *Node) openMetaCluster(ctx context.Context) (meta.Backend, error) {
	file := path.Join(n.config.DataDir, metaFile)
	if there, err := n.data.exists(file); err != nil {
		return nil, err
	} else if there {
		return nil, &TwoMetadataLogsError{File: file, URL: n.config.MetaStore.URL}
	}
	b, err := n.config.MetaStore.openCluster(ctx, cmp.Or(n.data.identity.ClusterID, n.config.ClusterID), n.data.used())
	if err != nil {
		return nil, n.data.explain(n.config.MetaStore.URL, err)
	}
	n.undo("the connection to etcd", func(context.Context) error { return b.Close() })
	return b, nil
}

// metaEvents reports to the observer, and ends the node's work when the metadata log stops.
func (n *Node) metaEvents() meta.Events {
	e := observe.Meta(n.reg, n.log)
	stopped := e.Stopped
	e.Stopped = func(err error) {
		stopped(err)
		n.fail(fmt.Errorf("node: the metadata log stopped: %w", err))
	}
	return e
}

// joinTime is how long a node waits for the liveness key of a dead process to expire.
const joinTime = 30 * time.Second

// register takes the node's place in the metadata log: the liveness key, and an epoch that no earlier process had.
func (n *Node) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	m, err := meta.Join(ctx, n.meta, meta.MemberOptions{
		Node: n.config.NodeID, Slots: 1, Build: n.config.Version, Announce: n.config.MetaStore.URL != "",
	})
	if err != nil {
		return err
	}
	n.member = m
	watched, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-m.Lost():
			var fenced *meta.FencedError
			if errors.As(m.Err(), &fenced) { // a stop of the log is reported by the log itself
				n.fail(fmt.Errorf("node: the node lost its place in the cluster: %w", fenced))
			}
		case <-ended:
		}
	}()
	n.undo("the node's liveness key", func(context.Context) error {
		close(ended)
		<-watched
		m.Close()
		return nil
	})
	n.producerIDs = newProducerIDs(n.meta, m)
	return n.checkAlone(ctx)
}
