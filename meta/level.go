package meta

import (
	"fmt"
	"iter"
	"strings"
)

// Level says which commands may be in the log. It is part of the state and only rises, and only when every live node
// has announced that it understands the new ones: until then an upgrade can be rolled back, and no node meets a command
// that it cannot read. The numbers are on disk.
type Level uint32

// The levels.
const (
	// LevelTopics has topics, settings, leader epochs, nodes, producer ids, and key-value pairs. A log begins at it.
	LevelTopics Level = 0
	// LevelStreams adds streams, their objects, and the write-ahead logs of nodes.
	LevelStreams Level = 1

	// LevelTables adds tables, their partitions and buckets, and the coordinator: the holder of the metadata lease. It raises a
	// log of LevelStreams to this level when every live node understands it, see [Member].
	LevelTables Level = 2

	// NewestLevel is the highest that this build understands. A log that is above it is refused.
	NewestLevel = LevelTables
)

// NodeLevel is what a node announced about itself.
type NodeLevel struct {
	Node int32
	// Level is the highest that it understands, Build the version of its program for people to read.
	Level Level
	Build string

	incarnation [16]byte
}

// Level is the one whose commands may be in the log.
func (s *State) Level() Level { return s.level }

// NodeLevels yields what nodes announced under their present epoch, in the order of their ids. Who is missing has announced
// nothing and counts as understanding [LevelTopics] only.
func (s *State) NodeLevels() iter.Seq[NodeLevel] {
	return func(yield func(NodeLevel) bool) {
		for id, n := range s.nodes.all() {
			if l, ok := s.levels.get(id); ok && l.incarnation == n.Incarnation && !yield(l) {
				return
			}
		}
	}
}

// nodeLevel is the level of a node, as far as it is known.
func (s *State) nodeLevel(node int32) Level {
	n, known := s.nodes.get(node)
	l, announced := s.levels.get(node)
	if !known || !announced || l.incarnation != n.Incarnation {
		return LevelTopics
	}
	return l.Level
}

// levelOf is the level that a command needs.
func levelOf(c Command) Level {
	switch c.Type() {
	case numOpenStream, numTrimStream, numCloseStream, numDeleteStream, numPrepareObjects, numCommitObjects,
		numCompactStream, numExpirePrepared, numCleanDestroyed, numCreateStreams, numOpenWAL, numCloseWAL,
		numTransferStream, numCompleteTransfer, numPlaceStream:
		return LevelStreams
	case numCreateTable, numDropTable, numAddSchema, numCreatePartition, numDropPartition, numAddBuckets, numLeadBucket,
		numRegisterCoordinator:
		return LevelTables
	}
	return LevelTopics
}

// LevelError says that a command was not proposed, because not every node would understand it.
type LevelError struct {
	// Command names the command, empty for the rise of the level itself; Needs is its level, and Level that of the log.
	Command      string
	Needs, Level Level
	// Behind are the nodes that announced less than the command needs.
	Behind []NodeLevel
}

// Error names the command, both levels, and the nodes that are behind.
func (e *LevelError) Error() string {
	var behind strings.Builder
	for _, n := range e.Behind {
		fmt.Fprintf(&behind, "; node %d runs %q, which understands level %d", n.Node, n.Build, n.Level)
	}
	if e.Command == "" {
		return fmt.Sprintf("meta: the log cannot rise from level %d to %d%s", e.Level, e.Needs, behind.String())
	}
	return fmt.Sprintf("meta: %s needs level %d and the log is at level %d%s", e.Command, e.Needs, e.Level, behind.String())
}

// checkLevel returns a [*LevelError] for a command that not every node would understand.
func (s *State) checkLevel(c Command) error {
	needs := levelOf(c)
	if needs <= s.level {
		return nil
	}
	e := &LevelError{Command: strings.TrimPrefix(fmt.Sprintf("%T", c), "meta."), Needs: needs, Level: s.level}
	for n := range s.NodeLevels() {
		if n.Level < needs {
			e.Behind = append(e.Behind, n)
		}
	}
	return e
}
