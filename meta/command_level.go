package meta

// AnnounceLevel announces the level understood by the process that last registered a node. Result: the log's level in
// ID; rejected as [NodeEpochMismatch] if another process has the node, or as [LevelTooLow] if the log holds commands
// that this one does not understand.
type AnnounceLevel struct {
	Node        int32
	Incarnation [16]byte // as in RegisterNode
	Level       Level
	Build       string // the version of the program, at most MaxBuildBytes
}

// MaxBuildBytes is the longest name of a build.
const MaxBuildBytes = 255

// RaiseLevel admits commands up to a level into the log. Nodes are the live ones, as far as the proposer knows; each
// must have announced the level. Result: the log's level in ID, which may have been higher; rejected as [LevelTooLow]
// when a node has announced less, or as [InvalidArgument] without nodes.
type RaiseLevel struct {
	Level Level
	Nodes []int32
}

// Type returns 110.
func (AnnounceLevel) Type() uint8 { return numAnnounceLevel }

// Type returns 111.
func (RaiseLevel) Type() uint8 { return numRaiseLevel }

func (c AnnounceLevel) encode(w *writer) {
	w.i32(c.Node)
	w.raw(c.Incarnation[:])
	w.u32(uint32(c.Level))
	w.str(c.Build)
}

func decodeAnnounceLevel(r *reader) Command {
	return AnnounceLevel{Node: r.i32(), Incarnation: r.id(), Level: Level(r.u32()), Build: r.str()}
}

func (c RaiseLevel) encode(w *writer) {
	w.u32(uint32(c.Level))
	w.count(len(c.Nodes))
	for _, n := range c.Nodes {
		w.i32(n)
	}
}

func decodeRaiseLevel(r *reader) Command {
	c := RaiseLevel{Level: r.level()}
	for range r.count(4) {
		c.Nodes = append(c.Nodes, r.i32())
	}
	return c
}

// level reads the level of a log. One that this build does not know is refused: what follows cannot be read.
func (r *reader) level() Level {
	l := Level(r.u32())
	if r.err == nil && l > NewestLevel {
		r.err = &VersionError{What: "level of the metadata", Got: uint64(l), Known: uint64(NewestLevel)}
	}
	return l
}

func (c AnnounceLevel) apply(t *transition) Result {
	row, known := t.next.nodes.get(c.Node)
	switch {
	case !known || row.Incarnation != c.Incarnation:
		return reject(NodeEpochMismatch, "node %d is another process now", c.Node)
	case len(c.Build) > MaxBuildBytes:
		return reject(InvalidArgument, "the name of a build has at most %d bytes, not %d", MaxBuildBytes, len(c.Build))
	case c.Level < t.next.level:
		return reject(LevelTooLow, "the log is at level %d, node %d understands %d", t.next.level, c.Node, c.Level)
	}
	t.next.levels = t.next.levels.set(c.Node, NodeLevel{
		Node: c.Node, Level: c.Level, Build: c.Build, incarnation: c.Incarnation,
	})
	return Result{ID: uint64(t.next.level)}
}

func (c RaiseLevel) apply(t *transition) Result {
	if len(c.Nodes) == 0 {
		return reject(InvalidArgument, "no node is alive")
	}
	for _, node := range c.Nodes {
		if l := t.next.nodeLevel(node); l < c.Level {
			return reject(LevelTooLow, "node %d understands level %d, not %d", node, l, c.Level)
		}
	}
	t.next.level = max(t.next.level, c.Level)
	return Result{ID: uint64(t.next.level)}
}
