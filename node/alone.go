package node

import (
	"context"
	"fmt"
)

// NotAloneError says that another node lives in the cluster. A topic's records are on the disk of one node, and this version
// cannot record which one: two nodes would both serve the topic.
type NotAloneError struct {
	Node, Other int32
	Address     string // of the other one, if it says so
}

func (e *NotAloneError) Error() string {
	return fmt.Sprintf("node %d is running in this cluster, and this version serves a cluster from one node: stop it "+
		"before you start node %d", e.Other, e.Node)
}

// RecordsElsewhereError says that the metadata log has topics and that the data directory is new.
type RecordsElsewhereError struct {
	Metadata, DataDir string
	Topics            int
}

func (e *RecordsElsewhereError) Error() string {
	return fmt.Sprintf("%s is new, and the metadata log %s has %d topics, whose records are in another data directory: start the "+
		"node with that one", e.DataDir, e.Metadata, e.Topics)
}

// checkRecordsAreHere refuses to start every topic empty in a data directory that is not the cluster's.
func (n *Node) checkRecordsAreHere(metadata string) error {
	topics := n.meta.View().TopicCount()
	if topics == 0 || n.data.used() {
		return nil
	}
	return &RecordsElsewhereError{Metadata: metadata, DataDir: n.config.DataDir, Topics: topics}
}

// checkAlone makes sure that no other node lives. If two start at the same time, each sees the other, because both have their
// liveness keys by then.
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
