package stream

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

const (
	// maxRangeBytes is how long a range GET for several units may be (BC-1): long enough that its latency does not matter,
	// short enough that several run at once. It is four units of 1 MiB with their headers.
	maxRangeBytes = 4<<20 + 64<<10
	// maxUnusedAge is how long an unused unit stays (BC-7), and an idle reader (BC-3).
	maxUnusedAge = time.Minute
)

// unitSource locates a unit: the bytes of one index entry in one object.
type unitSource struct {
	object catalog.ObjectID
	entry  IndexEntry
}

// unitKey identifies a unit. The same blocks may be reached through a composite and through the object itself.
type unitKey struct {
	object   catalog.ObjectID
	position int64
}

func (s unitSource) key() unitKey { return unitKey{s.object, s.entry.Position} }

// follows reports whether the unit's bytes come right after another's.
func (s unitSource) follows(before unitSource) bool {
	return s.object == before.object && s.entry.Position == before.entry.Position+int64(before.entry.Size)
}

// unit is the unit of the block cache: the content of one index entry, loaded or loading (BC-1). The cache guards every
// field that does not belong to the holder.
type unit struct {
	unitSource
	done    chan struct{} // closed when records or err are set, which do not change after that
	records []Record
	err     error

	load     *unitLoad // the GET that it came with
	loading  bool
	cost     int64
	holders  int           // readers that use it, or are about to: it is not evicted
	finished bool          // its only reader has read it to the end
	place    *list.Element // in the eviction list, while nobody holds it
	used     time.Time     // when it was put into that list
}

// isLoaded reports whether the records are there, without waiting.
func (u *unit) isLoaded() bool { return !u.isPending() && u.err == nil }

// isPending reports whether the unit is loading.
func (u *unit) isPending() bool {
	select {
	case <-u.done:
		return false
	default:
		return true
	}
}

// unitLoad is one range GET, for adjacent units. Their records share its bytes, which are freed once none of the units is
// in the cache.
type unitLoad struct {
	number int64 // counts the loads of the cache
	units  []*unit
	cancel context.CancelFunc
	live   int   // how many of the units are in the cache
	owed   int64 // cost of those that are not
}

// blockCache keeps units, and loads those that are missing. It is safe for concurrent use.
//
// There is one GET for a unit however many readers want it, and it continues while any of them does. A load that failed,
// or that nobody wants any more, is forgotten: the next reader begins a new one (BC-8). Units that nobody holds are
// evicted when the cache is over its capacity, those that their only reader has finished first, then the least recently
// used; and all that have not been used for maxUnusedAge (BC-7).
type blockCache struct {
	store    objstore.Store
	keyOf    func(catalog.ObjectID) string
	capacity int64
	ctx      context.Context // ends all loads
	running  *sync.WaitGroup // of the loads

	mu struct {
		sync.Mutex
		units    map[unitKey]*unit
		cost     int64     // of all units, including those loading, and of those that share bytes with them
		loads    int64     // how many were begun
		finished list.List // of *unit, the one finished last first
		used     list.List // of *unit, the one used last first
		done     int64     // cost of the finished ones
	}
}

func newBlockCache(
	ctx context.Context, running *sync.WaitGroup, store objstore.Store, keyOf func(catalog.ObjectID) string, capacity int64,
) *blockCache {
	c := &blockCache{store: store, keyOf: keyOf, capacity: capacity, ctx: ctx, running: running}
	c.mu.units = map[unitKey]*unit{}
	return c
}

// hold returns the units of the sources, in their order, and begins to load those that are neither loaded nor loading.
// The caller must release each.
func (c *blockCache) hold(sources []unitSource) []*unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	units := make([]*unit, len(sources))
	var missing []*unit
	for i, s := range sources {
		u := c.mu.units[s.key()]
		if u == nil {
			u = &unit{unitSource: s, done: make(chan struct{}), cost: int64(s.entry.Size)}
			c.mu.units[s.key()] = u
			c.mu.cost += u.cost
			missing = append(missing, u)
		}
		c.unlistLocked(u)
		u.holders++
		units[i] = u
	}
	for len(missing) > 0 {
		n := countAdjacent(missing)
		c.startLocked(missing[:n:n])
		missing = missing[n:]
	}
	c.evictLocked()
	return units
}

// offer adds the units of an object that was read whole, whose bytes are b. One that cannot be decoded is left out: a
// read of it will report why.
func (c *blockCache) offer(object catalog.ObjectID, index Index, b []byte) {
	load := &unitLoad{}
	for _, e := range index {
		end := e.Position + int64(e.Size)
		records, err := DecodeBlocks(c.keyOf(object), e, b[e.Position:end:end])
		if err != nil {
			continue
		}
		u := &unit{unitSource: unitSource{object, e}, done: make(chan struct{}), records: records, load: load}
		u.cost = int64(e.Size) + recordBookkeeping*int64(len(records))
		close(u.done)
		load.units = append(load.units, u)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range slices.Backward(load.units) { // the first ones are evicted last
		if c.mu.units[u.key()] != nil {
			continue
		}
		c.mu.units[u.key()] = u
		c.mu.cost += u.cost
		load.live++
		c.listLocked(u, false)
	}
	c.evictLocked()
}

// peek returns a unit that is loaded, held by the caller, or nil.
func (c *blockCache) peek(s unitSource) *unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.mu.units[s.key()]
	if u == nil || u.loading {
		return nil
	}
	c.unlistLocked(u)
	u.holders++
	return u
}

// countAdjacent returns how many of the units one GET can load.
func countAdjacent(units []*unit) int {
	n, size := 1, int64(units[0].entry.Size)
	for n < len(units) && units[n].follows(units[n-1].unitSource) && size+int64(units[n].entry.Size) <= maxRangeBytes {
		size += int64(units[n].entry.Size)
		n++
	}
	return n
}

// startLocked begins the GET of adjacent units.
func (c *blockCache) startLocked(units []*unit) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.loads++
	load := &unitLoad{number: c.mu.loads, units: units, cancel: cancel, live: len(units)}
	for _, u := range units {
		u.load, u.loading = load, true
	}
	c.running.Go(func() {
		defer cancel()
		c.finish(load, c.fetch(ctx, units))
	})
}

// loadedUnit is the result of a GET for one of its units.
type loadedUnit struct {
	records []Record
	err     error
}

// fetch reads and decodes adjacent units.
func (c *blockCache) fetch(ctx context.Context, units []*unit) []loadedUnit {
	loaded := make([]loadedUnit, len(units))
	first, last := units[0].entry, units[len(units)-1].entry
	b := make([]byte, last.Position+int64(last.Size)-first.Position)
	key := c.keyOf(units[0].object)
	err := c.store.ReadRange(ctx, key, b, first.Position)
	for i, u := range units {
		if err != nil {
			loaded[i].err = err
			continue
		}
		at := u.entry.Position - first.Position
		end := at + int64(u.entry.Size)
		loaded[i].records, loaded[i].err = DecodeBlocks(key, u.entry, b[at:end:end])
	}
	return loaded
}

// finish delivers loaded units, and forgets failed ones.
func (c *blockCache) finish(load *unitLoad, loaded []loadedUnit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, u := range load.units {
		u.loading = false
		u.records, u.err = loaded[i].records, loaded[i].err
		close(u.done)
		if c.mu.units[u.key()] != u {
			continue // nobody wants it any more
		}
		if u.err != nil {
			c.forgetLocked(u)
			continue
		}
		extra := recordBookkeeping * int64(len(u.records))
		u.cost += extra
		c.mu.cost += extra
		if u.holders == 0 { // others of the same load were still wanted
			c.listLocked(u, false)
		}
	}
	c.evictLocked()
}

// release releases a unit. finished says that its reader has read it to the end.
func (c *blockCache) release(u *unit, finished bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u.holders--
	switch {
	case u.holders > 0 || c.mu.units[u.key()] != u:
		return
	case u.loading:
		c.abandonLocked(u.load)
	default:
		c.listLocked(u, finished)
		c.evictLocked()
	}
}

// listLocked adds a unit that nobody holds to the eviction list.
func (c *blockCache) listLocked(u *unit, finished bool) {
	u.used, u.finished = time.Now(), finished
	if finished {
		u.place = c.mu.finished.PushFront(u)
		c.mu.done += u.cost
		return
	}
	u.place = c.mu.used.PushFront(u)
}

// abandonLocked cancels a load that nobody wants any more.
func (c *blockCache) abandonLocked(load *unitLoad) {
	for _, u := range load.units {
		if u.holders > 0 {
			return
		}
	}
	load.cancel()
	for _, u := range load.units {
		c.forgetLocked(u)
	}
}

// forgetLocked removes a unit from the cache. Its bytes are freed with those of the units that share them.
func (c *blockCache) forgetLocked(u *unit) {
	if c.mu.units[u.key()] != u {
		return
	}
	delete(c.mu.units, u.key())
	u.load.live--
	u.load.owed += u.cost
	if u.load.live == 0 {
		c.mu.cost -= u.load.owed
	}
}

// unlistLocked removes a unit from the eviction list.
func (c *blockCache) unlistLocked(u *unit) {
	switch {
	case u.place == nil:
		return
	case u.finished:
		c.mu.finished.Remove(u.place)
		c.mu.done -= u.cost
	default:
		c.mu.used.Remove(u.place)
	}
	u.place, u.finished = nil, false
}

// evictLocked removes units that nobody holds while the cache is over its capacity.
func (c *blockCache) evictLocked() {
	for _, line := range []*list.List{&c.mu.finished, &c.mu.used} {
		for c.mu.cost > c.capacity && line.Len() > 0 {
			c.evictLastLocked(line)
		}
	}
}

func (c *blockCache) evictLastLocked(line *list.List) {
	u := line.Back().Value.(*unit)
	c.unlistLocked(u)
	c.forgetLocked(u)
}

// evictUnused removes units that nobody has used for a while, and reports whether any are left.
func (c *blockCache) evictUnused(now time.Time) (left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range []*list.List{&c.mu.finished, &c.mu.used} {
		for line.Len() > 0 && now.Sub(line.Back().Value.(*unit).used) >= maxUnusedAge {
			c.evictLastLocked(line)
		}
	}
	return len(c.mu.units) > 0
}

// loads returns how many loads were begun so far.
func (c *blockCache) loads() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.loads
}

// free returns how much room there is, including what can be evicted immediately.
func (c *blockCache) free() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capacity - c.mu.cost + c.mu.done
}
