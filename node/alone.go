package node

import (
	"context"
	"fmt"
)

// NotAloneError says that the cluster has another live node. A topic's records are on one node's disk, and this version
// does not record which: two nodes would both serve the topic.
type NotAloneError struct {
	Node, Other int32
	Address     string // of the other node, if known
}

func (e *NotAloneError) Error() string {
	return fmt.Sprintf("node %d is running in this cluster, and this version serves a cluster from one node: stop it "+
		"before you start node %d", e.Other, e.Node)
}

// RecordsElsewhereError says that the metadata log has topics but the data directory is new.
type RecordsElsewhereError struct {
	Metadata, DataDir string
	Topics            int
}

func (e *RecordsElsewhereError) Error() string {
	return fmt.Sprintf("%s is new, and the metadata log %s has %d topics, whose records are in another data directory: start the "+
		"node with that one", e.DataDir, e.Metadata, e.Topics)
}

// checkRecordsAreHere refuses a data directory that is not the cluster's, in which every topic would start empty.
func (n *Node) checkRecordsAreHere(metadata string) error {
	topics := n.meta.View().TopicCount()
	if topics == 0 || n.data.used() {
		return nil
	}
	return &RecordsElsewhereError{Metadata: metadata, DataDir: n.config.DataDir, Topics: topics}
}

// checkAlone makes sure that no other node is alive. If two start at the same time, each sees the other, because both
// have written their liveness keys by then.
func (n *Node) checkAlone(ctx context.Context) error {
	live, err := n.meta.Live(ctx)
	if err != nil {
		return err
	}
	for id, other := range live {
		if id != n.config.NodeID {
			return &NotAloneError{Node: n.config.NodeID, Other: id, Address: other.Address}
		}
	}
	return nil
}
