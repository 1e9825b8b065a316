package stream

import (
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

const (
	// maxCacheBlocks is how many blocks the log cache keeps before it evicts free ones (LC-5).
	maxCacheBlocks = 64
	// mergeAbove is how many adjacent free blocks are left as they are (LC-6).
	mergeAbove = 8
)

// logCache holds acknowledged records until their data is committed, and as long after that as memory allows (4.2).
//
//	oldest                                          newest
//	[free] [free]  |  [sealed] [sealed] [sealed]  |  [active]
//	evicted first     in upload, in this order       put adds here
//
// It is safe for concurrent use, and nothing in it blocks. The uploader takes the sealed blocks in the order in which
// they were sealed, and marks them free in the same order.
type logCache struct {
	capacity   int64
	threshold  int64 // the cost at which a block is sealed (LC-8)
	maxStreams int
	evicted    func()
	// news holds a token when the uploader should look: a block began or was sealed, or memory became short.
	news chan struct{}

	mu struct {
		sync.RWMutex
		blocks  []*cacheBlock // oldest first; only the last one may be active
		sealed  []*cacheBlock // those that the uploader has not taken yet
		cost    int64         // of all blocks
		held    int64         // of those that are not free
		pressed *cacheBlock   // sealed because memory was short, and not free yet
	}
}

// newLogCache returns an empty cache. evicted is called, without locks, whenever the cost went down: appends that wait for
// room look again (LC-7).
func newLogCache(cfg Config, evicted func()) *logCache {
	return &logCache{
		capacity:   cfg.CacheWALSize,
		threshold:  cfg.uploadThreshold(),
		maxStreams: cfg.CacheMaxStreams,
		evicted:    evicted,
		news:       make(chan struct{}, 1),
	}
}

// put adds the next acknowledged record; walOffset is its logical offset in the WAL. The payload is kept and must not
// change. The error is a [*DiscontinuityError], and then nothing was added.
func (c *logCache) put(r Record, walOffset int64) error {
	c.mu.Lock()
	if active := c.activeLocked(); active != nil && !active.takes(r) {
		c.sealLocked()
	}
	b := c.activeLocked()
	if b == nil {
		b = newCacheBlock(time.Now())
		c.mu.blocks = append(c.mu.blocks, b)
		c.tell()
	}
	if err := b.checkNext(r); err != nil {
		c.mu.Unlock()
		return err
	}
	b.add(r)
	b.lastOffset = walOffset
	c.mu.cost += recordCost(r)
	c.mu.held += recordCost(r)
	if b.cost >= c.threshold || len(b.runs) >= c.maxStreams {
		c.sealLocked()
	}
	c.pressLocked()
	c.evictAndUnlock()
	return nil
}

// activeLocked returns the block that takes records, nil if there is none.
func (c *logCache) activeLocked() *cacheBlock {
	if n := len(c.mu.blocks); n > 0 && c.mu.blocks[n-1].state == blockActive {
		return c.mu.blocks[n-1]
	}
	return nil
}

// seal ends the active block, if there is one, because a caller waits for it.
func (c *logCache) seal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.activeLocked(); b != nil {
		b.hurried = true
		c.sealLocked()
	}
}

// sealOlder ends the active block if it is as old as the interval (UP-8); otherwise it returns when it will be, or false
// if no block is active.
func (c *logCache) sealOlder(interval time.Duration, now time.Time) (due time.Time, waiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.activeLocked()
	if b == nil {
		return time.Time{}, false
	}
	if due = b.began.Add(interval); due.After(now) {
		return due, true
	}
	c.sealLocked()
	return time.Time{}, false
}

// sealLocked ends the active block.
func (c *logCache) sealLocked() {
	b := c.activeLocked()
	b.state = blockSealed
	c.mu.sealed = append(c.mu.sealed, b)
	c.tell()
}

// pressLocked seals the active block when memory is short (LC-7): the cache is full, or most of it cannot be evicted. It
// does so once and then waits until that block is free, so that a slow store is not made slower by tiny objects.
func (c *logCache) pressLocked() {
	b := c.activeLocked()
	if b == nil || c.mu.pressed != nil {
		return
	}
	if c.mu.cost >= c.capacity || c.mu.held*10 >= c.capacity*8 {
		b.hurried = true
		c.mu.pressed = b
		c.sealLocked()
	}
}

// tell wakes the uploader.
func (c *logCache) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// takeSealed hands over the blocks that were sealed since the last call, in order.
func (c *logCache) takeSealed() []*cacheBlock {
	c.mu.Lock()
	defer c.mu.Unlock()
	blocks := c.mu.sealed
	c.mu.sealed = nil
	return blocks
}

// isUploading reports whether a block is sealed and not free yet.
func (c *logCache) isUploading() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.ContainsFunc(c.mu.blocks, func(b *cacheBlock) bool { return b.state == blockSealed })
}

// markFree records that a block is committed and visible in the catalog's view (RD-1): it may be evicted. Blocks become
// free in the order in which they were sealed.
func (c *logCache) markFree(b *cacheBlock) {
	c.mu.Lock()
	b.state = blockFree
	c.mu.held -= b.cost
	if c.mu.pressed == b {
		c.mu.pressed = nil
	}
	c.mergeLocked()
	c.pressLocked()
	c.evictAndUnlock()
}

// evictAndUnlock removes the oldest free blocks while the cache is too large (LC-5).
func (c *logCache) evictAndUnlock() {
	n := c.evictLocked(0)
	c.mu.Unlock()
	if n > 0 {
		c.evicted()
	}
}

// evictLocked makes room for records that are about to come, and returns how many blocks were evicted.
func (c *logCache) evictLocked(coming int64) int {
	n := 0
	for n < len(c.mu.blocks) && c.mu.blocks[n].state == blockFree &&
		((c.mu.cost+coming)*10 > c.capacity*9 || len(c.mu.blocks)-n > maxCacheBlocks) {
		c.mu.cost -= c.mu.blocks[n].cost
		n++
	}
	clear(c.mu.blocks[:n])
	c.mu.blocks = c.mu.blocks[n:]
	return n
}

// makeRoom evicts free blocks for records of that cost, as if they had been added, and returns the cost that is left:
// free blocks delay no append. It does not call evicted.
func (c *logCache) makeRoom(coming int64) (cost int64) {
	if cost := c.cost(); (cost+coming)*10 <= c.capacity*9 {
		return cost
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictLocked(coming)
	return c.mu.cost
}

// mergeLocked joins adjacent free blocks, more than mergeAbove at a time, into one that is no larger than a block may be
// (LC-6).
func (c *logCache) mergeLocked() {
	for i := 0; i < len(c.mu.blocks); i++ {
		n := c.mergeableLocked(i)
		if n <= mergeAbove {
			continue
		}
		merged := mergeBlocks(c.mu.blocks[i : i+n])
		c.mu.blocks = append(append(c.mu.blocks[:i:i], merged), c.mu.blocks[i+n:]...)
	}
}

// mergeableLocked returns how many blocks from the i-th on can become one.
func (c *logCache) mergeableLocked(i int) int {
	n, cost := 0, int64(0)
	for _, b := range c.mu.blocks[i:] {
		if b.state != blockFree || cost+b.cost > c.threshold {
			break
		}
		n, cost = n+1, cost+b.cost
	}
	if n <= mergeAbove {
		return 0 // a cheap check first
	}
	ends := map[catalog.StreamID]int64{}
	for k, b := range c.mu.blocks[i : i+n] {
		if !b.joins(ends) {
			return k
		}
		for id, run := range b.runs {
			ends[id] = run.end()
		}
		if len(ends) > c.maxStreams {
			return k
		}
	}
	return n
}

// cost returns the cost of all records (LC-3). While it is not below the capacity, appends wait (LC-7).
func (c *logCache) cost() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.cost
}

// get returns records of a stream from the one that covers start on, up to end and up to maxBytes of payload, but always
// the first one; start is below end. If start is not cached but something below end is, it returns the records from there
// on, and the caller finds the earlier ones elsewhere (LC-4). The result is one run without a gap, nil if there is
// nothing. It is shared and must not be changed.
func (c *logCache) get(id catalog.StreamID, start, end int64, maxBytes int) []Record {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var found []Record
	left := int64(maxBytes)
	for _, b := range c.mu.blocks[c.findLocked(id, start, end):] {
		run := b.runs[id]
		if run == nil {
			continue
		}
		if n := len(found); n > 0 && found[n-1].End() != run.start() {
			break // the stream was elsewhere in between
		}
		records := run.from(start)
		n := countWithin(records, end, &left, len(found) == 0)
		found = joinRecords(found, records[:n])
		if n < len(records) {
			break
		}
	}
	return found
}

// findLocked returns the index of the block that covers start, or else of the first one above it that begins below end,
// or else the number of blocks. It looks at the newest ones first: tail reads end there.
func (c *logCache) findLocked(id catalog.StreamID, start, end int64) int {
	found := len(c.mu.blocks)
	for i := len(c.mu.blocks) - 1; i >= 0; i-- {
		run := c.mu.blocks[i].runs[id]
		switch {
		case run == nil:
			continue
		case run.end() <= start:
			return found
		case run.start() < end:
			found = i
		}
		if run.start() <= start {
			return found
		}
	}
	return found
}

// countWithin returns how many of the records begin below end and fit into the bytes that are left, which it lowers. With
// atLeastOne the first one always fits (STR-3).
func countWithin(records []Record, end int64, left *int64, atLeastOne bool) int {
	n := 0
	for _, r := range records {
		size := int64(len(r.Payload))
		if r.Base >= end || size > *left && !(atLeastOne && n == 0) {
			break
		}
		*left -= size
		n++
	}
	return n
}

// joinRecords returns a followed by b and changes neither.
func joinRecords(a, b []Record) []Record {
	if len(a) == 0 {
		return b[:len(b):len(b)]
	}
	return append(a[:len(a):len(a)], b...)
}
