package memfs

import "slices"

// change is one step in the life of one or two names that is not durable yet: a name made, linked or removed is one
// slot, a rename is two.
//
// A crash keeps a subset of the pending changes that holds, with each change, all that it needs. What a change needs is
// the one before it on each of its names (so that a name is left as it was at some moment), and what else would lose a
// file that only moved: a rename needs the way to its new directory, and the removal of a directory needs everything
// that happened in it.
type change struct {
	slots   []slot
	needs   []*change
	durable bool
}

// slot is a name and the file or directory that it leads to after the change; nil for none.
type slot struct {
	dir  *dir
	name string
	node node
}

// record makes a change and remembers it until it is durable.
func (f *FS) record(c *change) {
	now := f.now()
	for i, s := range c.slots {
		if before := s.dir.latest[s.name]; before != nil && !before.durable {
			c.needs = append(c.needs, before)
		}
		if i == 0 || s.dir != c.slots[0].dir {
			s.dir.pending = append(s.dir.pending, c)
		}
		s.dir.latest[s.name] = c
		s.dir.mtime = now
		if s.node == nil {
			delete(s.dir.entries, s.name)
			continue
		}
		s.dir.entries[s.name] = s.node
		if d, ok := s.node.(*dir); ok {
			d.parent, d.placed = s.dir, c
		}
	}
	f.mu.pending = append(f.mu.pending, c)
}

// settle makes the pending changes of a directory durable.
func (f *FS) settle(d *dir) {
	for _, c := range d.pending {
		f.commit(c)
	}
	d.pending = nil
	clear(d.latest)
	if f.mu.settled > len(f.mu.pending)/2 {
		f.mu.pending = slices.DeleteFunc(f.mu.pending, func(c *change) bool { return c.durable })
		f.mu.settled = 0
	}
}

// commit makes a change durable, after all that it needs.
func (f *FS) commit(c *change) {
	if c.durable {
		return
	}
	for _, n := range c.needs {
		f.commit(n)
	}
	c.durable, c.needs = true, nil
	f.mu.settled++
	for _, s := range c.slots {
		if s.node == nil {
			delete(s.dir.durable, s.name)
		} else {
			s.dir.durable[s.name] = s.node
		}
	}
}
