package meta

// transition is a state under construction. The commands of an entry change next one after the other; nobody else sees it
// until all are done. A rejected command leaves next unchanged.
type transition struct {
	next State
}

// Apply returns the state after an entry, and one result for each of its commands. It is pure: s is not changed, and the
// same state and entry give the same outcome everywhere. No reference to e is kept.
func (s *State) Apply(index uint64, e Entry) (*State, []Result) {
	t := transition{next: *s}
	t.next.index = index
	t.next.clockMs = max(s.clockMs, e.NowMs)
	results := make([]Result, len(e.Commands))
	for i, c := range e.Commands {
		results[i] = c.apply(&t)
	}
	return &t.next, results
}
