package stream

import (
	"container/list"
	"context"
	"sync"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Memory costs of a cached index, in bytes.
const (
	entryCost     = 40
	componentCost = 16
	layoutCost    = 200
)

func (l objectLayout) cost() int64 {
	return layoutCost + entryCost*int64(len(l.entries)) + componentCost*int64(len(l.components))
}

// indexCache keeps the most recently used indexes of objects (BC-2). An object never changes and its id is never reused,
// so entries never become stale. It is safe for concurrent use.
//
// A load runs once for all who wait for it, and ends when nobody waits any more. A failed load is forgotten (BC-8).
type indexCache struct {
	capacity int64 // bytes
	load     func(context.Context, catalog.ObjectRange) (objectLayout, error)
	ctx      context.Context // ends all loads
	running  *sync.WaitGroup // of the loads

	mu struct {
		sync.Mutex
		slots map[catalog.ObjectID]*indexSlot
		used  list.List // of *indexSlot that are loaded, the one used last first
		cost  int64
	}
}

// indexSlot is an index that is loaded or loading.
type indexSlot struct {
	object  catalog.ObjectID
	done    chan struct{} // closed when layout and err are set
	layout  objectLayout
	err     error
	place   *list.Element // nil while it is loading
	waiting int
	cancel  context.CancelFunc
}

func newIndexCache(
	ctx context.Context, running *sync.WaitGroup, capacity int64,
	load func(context.Context, catalog.ObjectRange) (objectLayout, error),
) *indexCache {
	c := &indexCache{capacity: capacity, load: load, ctx: ctx, running: running}
	c.mu.slots = map[catalog.ObjectID]*indexSlot{}
	return c
}

// get returns an object's index, and loads it if needed. If a load that others began fails, it is retried (BC-8).
func (c *indexCache) get(ctx context.Context, o catalog.ObjectRange) (objectLayout, error) {
	for {
		c.mu.Lock()
		s, mine := c.slotLocked(o)
		s.waiting++
		c.mu.Unlock()
		err := await(ctx, s.done)
		c.leave(s)
		if err != nil {
			return objectLayout{}, err
		}
		if s.err == nil || mine {
			return s.layout, s.err
		}
	}
}

// peek returns an object's index if it is there, and starts nothing.
func (c *indexCache) peek(id catalog.ObjectID) (objectLayout, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.slots[id]
	if s == nil || s.place == nil {
		return objectLayout{}, false
	}
	c.mu.used.MoveToFront(s.place)
	return s.layout, true
}

// prefetch begins to load an object's index for later use. A failure is not reported.
func (c *indexCache) prefetch(o catalog.ObjectRange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, _ := c.slotLocked(o); s.place == nil && s.waiting == 0 {
		s.waiting++ // the load itself, so that it continues without others
	}
}

// slotLocked finds the slot of an object, or creates one and starts the load. It marks the slot as used.
func (c *indexCache) slotLocked(o catalog.ObjectRange) (s *indexSlot, started bool) {
	s = c.mu.slots[o.Object]
	if s != nil {
		if s.place != nil {
			c.mu.used.MoveToFront(s.place)
		}
		return s, false
	}
	s = &indexSlot{object: o.Object, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(c.ctx)
	s.cancel = cancel
	c.mu.slots[o.Object] = s
	c.running.Go(func() {
		defer cancel()
		layout, err := c.load(ctx, o)
		c.finish(s, layout, err)
	})
	return s, true
}

// finish keeps a loaded index, or forgets a failed load.
func (c *indexCache) finish(s *indexSlot, layout objectLayout, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.layout, s.err = layout, err
	close(s.done)
	if c.mu.slots[s.object] != s {
		return // nobody waits for it
	}
	if err != nil {
		delete(c.mu.slots, s.object)
		return
	}
	s.place = c.mu.used.PushFront(s)
	c.mu.cost += layout.cost()
	for c.mu.cost > c.capacity && c.mu.used.Len() > 1 {
		oldest := c.mu.used.Remove(c.mu.used.Back()).(*indexSlot)
		delete(c.mu.slots, oldest.object)
		c.mu.cost -= oldest.layout.cost()
	}
}

// leave records that a caller no longer waits. A load that nobody waits for is cancelled and forgotten, so that a later
// caller gets a new one.
func (c *indexCache) leave(s *indexSlot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.waiting--
	if s.waiting == 0 && s.place == nil && c.mu.slots[s.object] == s {
		s.cancel()
		delete(c.mu.slots, s.object)
	}
}
