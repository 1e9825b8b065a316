package memfs

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// CrashOptions say how much a crash leaves of what was not synced. The zero value leaves none of it.
type CrashOptions struct {
	// Seed makes the crash repeatable: the same history of calls and the same seed leave the same bytes.
	Seed uint64
	// KeepUnsynced is the probability, from 0 to 1, that a sector, a length or a change of a name that was not synced
	// is kept. 0 keeps none. 1 keeps all, which is what the end of a process leaves when the machine runs on. In
	// between some files keep all of their sectors, some none, and the rest decide sector by sector.
	KeepUnsynced float64
	// Torn lets a sector be kept in part, and a file end at any byte of what was appended, not only between sectors.
	Torn bool
	// SectorSize is the number of bytes that are kept or lost together, unless torn: a power of two from 1 to 4096. The
	// default value is 512.
	SectorSize int
}

// CrashClean is [FS.Crash] at its strictest: the copy holds what was synced and nothing else.
func (f *FS) CrashClean() *FS { return f.Crash(CrashOptions{}) }

// Crash returns a new file system that holds what this one might hold if the machine lost power now: see the package's
// introduction. In the copy everything is durable, except, after the end of a process, what a failed
// sync dropped; and nothing is open or locked. This file system goes on as it was,
// independent of the copy; [FS.Kill] it first if something still runs on it.
func (f *FS) Crash(o CrashOptions) *FS {
	if o.SectorSize == 0 {
		o.SectorSize = 512
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &crash{
		CrashOptions: o,
		rand:         rand.New(rand.NewPCG(o.Seed, 0)),
		files:        map[*file]*file{},
	}
	c.chooseNames(f.mu.pending)
	after := &FS{now: f.now}
	after.mu.root = c.copyDir(f.mu.root, nil)
	return after
}

// crash is one crash while it happens.
type crash struct {
	CrashOptions
	rand *rand.Rand
	// names are the changes of names that are kept, as the last one leaves each name.
	names map[*dir]map[string]node
	// files are the copies made so far, so that a file with two names stays one.
	files map[*file]*file
}

// keeps draws whether one thing is kept.
func (c *crash) keeps() bool { return c.rand.Float64() < c.KeepUnsynced }

// chooseNames draws which changes of names are kept, with all that they need.
func (c *crash) chooseNames(pending []*change) {
	c.names = map[*dir]map[string]node{}
	kept := map[*change]bool{}
	lost := func(need *change) bool { return !need.durable && !kept[need] }
	for _, p := range pending {
		if p.durable || slices.ContainsFunc(p.needs, lost) || !c.keeps() {
			continue
		}
		kept[p] = true
		for _, s := range p.slots {
			if c.names[s.dir] == nil {
				c.names[s.dir] = map[string]node{}
			}
			c.names[s.dir][s.name] = s.node
		}
	}
}

// copyDir copies a directory with everything below it, in the order of the names.
func (c *crash) copyDir(d, parent *dir) *dir {
	entries := maps.Clone(d.durable)
	for name, n := range c.names[d] {
		if n == nil {
			delete(entries, name)
		} else {
			entries[name] = n
		}
	}
	after := newDir(parent, d.mtime)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var n node
		switch before := entries[name].(type) {
		case *dir:
			n = c.copyDir(before, after)
		case *file:
			n = c.copyFile(before)
		}
		after.entries[name], after.durable[name] = n, n
	}
	return after
}

func (c *crash) copyFile(before *file) *file {
	if after, ok := c.files[before]; ok {
		return after
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	after := newFile(c.chooseTime(before.mu.syncedMtime, before.mu.mtime))
	after.mu.live = c.chooseImage(&before.mu.content)
	after.mu.durable = after.mu.live.clone()
	after.mu.era = before.mu.era + 1 // no page that it shares is of this era
	if c.KeepUnsynced >= 1 {
		after.mu.keepCached(&before.mu.content)
	}
	c.files[before] = after
	return after
}

func (c *crash) chooseTime(synced, newest time.Time) time.Time {
	if c.keeps() {
		return newest
	}
	return synced
}

// chooseImage chooses what a file holds: which of its states, how long, and which of its sectors.
func (c *crash) chooseImage(of *content) image {
	s := c.chooseState(of)
	left := of.durable.clone()
	left.cut(s.floor, of.era)
	shortest := left.size
	keep := c.sectorChance()
	for _, i := range slices.Sorted(maps.Keys(s.dirty)) {
		c.layOver(&left, i, s.dirty[i], keep, of.era)
	}
	left.size = max(s.size, int64(len(left.pages))*pageSize)
	left.cut(c.chooseLength(shortest, s.size), of.era)
	return left
}

// chooseState draws how many of the truncations are kept.
func (c *crash) chooseState(of *content) state {
	for _, s := range of.past {
		if !c.keeps() {
			return s
		}
	}
	return of.present()
}

func (c *crash) chooseLength(shortest, newest int64) int64 {
	if c.keeps() {
		return newest
	}
	if shortest == newest || c.KeepUnsynced <= 0 || c.rand.IntN(2) == 0 {
		return shortest
	}
	length := shortest + c.rand.Int64N(newest-shortest)
	if !c.Torn {
		length = max(shortest, length&^int64(c.SectorSize-1))
	}
	return length
}

// sectorChance draws the probability with which this file's sectors are kept.
func (c *crash) sectorChance() float64 {
	if c.rand.IntN(2) == 0 {
		return c.KeepUnsynced
	}
	if c.keeps() {
		return 1
	}
	return 0
}

// layOver puts those sectors of a newer page that are kept over page i.
func (c *crash) layOver(m *image, i int, newer page, keep float64, era uint64) {
	for at := 0; at < pageSize; at += c.SectorSize {
		if c.rand.Float64() >= keep {
			continue
		}
		n := c.SectorSize
		if c.Torn && c.KeepUnsynced < 1 && c.rand.IntN(8) == 0 {
			n = c.rand.IntN(n)
		}
		sector := m.own(i, era)[at : at+n]
		if newer.data == nil {
			clear(sector)
		} else {
			copy(sector, newer.data[at:])
		}
	}
}
