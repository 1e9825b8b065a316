// Package lazymem lends buffers of any size that take no memory until they are written to.
//
// A buffer is only address space at first: the system gives it a page when something is stored there, and not before. So
// a reader of a message of a declared size can have contiguous room for all of it from the start, and a peer that
// declares much and sends nothing has reserved nothing. Returned buffers are kept for the next borrower, with their
// pages, so that a busy server neither maps memory nor faults it in; how much is kept is bounded, and what stays unused
// for a while goes back to the system.
//
// Where a system has no such memory, or the process's address space is limited, [Pool.Take] returns nil and the caller
// grows a buffer of its own.
package lazymem

import (
	"math/bits"
	"slices"
	"sync"
	"time"
)

// Buffers that are kept come in powers of two from 8 KiB to 16 MiB. A larger one is mapped for a single use.
const (
	smallestBits = 13
	largestBits  = 24
	classes      = largestBits - smallestBits + 1
)

const (
	// mostBuffers bounds the mappings of a pool, lent or idle. Linux allows a process 65,530 (vm.max_map_count), and the
	// Go runtime, which dies when it cannot map, needs its share.
	mostBuffers = 16 << 10

	// keepFor is how long an unused buffer is kept; it may be up to twice as long.
	keepFor = 10 * time.Second

	// roomy is how many classes larger than requested a kept buffer may be: up to sixteen times. The sizes of one
	// client's requests differ by that much, and each would otherwise have buffers of its own.
	roomy = 4
)

// Pool lends buffers. It is safe for concurrent use. Make one with [New], end it with [Pool.Close]. A zero Pool has no
// address space and lends none.
type Pool struct {
	limits
	unmap func(memory []byte) error // nil means release

	mu       sync.Mutex
	idle     [classes][]*Buffer // last in, first out: its pages are the likeliest to be in a processor's cache
	least    [classes]int       // the smallest number that was idle since the last trim
	kept     int64              // bytes of idle buffers that may be backed by memory
	mapped   int                // buffers, lent or idle
	reserved int64              // bytes of address space of those
	stuck    [][]byte           // mappings that are counted, hold no memory, and could not be unmapped
	trimmer  *time.Timer        // runs while something is idle
	closed   bool
}

// limits are the limits of a pool.
type limits struct {
	keep    int64 // bytes of memory in idle buffers
	buffers int   // mappings
	space   int64 // bytes of address space
}

// New returns a pool that keeps at most the given number of bytes of memory in buffers that are not lent.
func New(keep int64) *Pool {
	return &Pool{limits: limits{keep: keep, buffers: mostBuffers, space: reservable()}}
}

// Buffer is a piece of memory that was lent. It belongs to its borrower until [Pool.Give].
type Buffer struct {
	memory []byte // all that was mapped
	class  int    // -1 if it belongs to no class
	n      int    // requested bytes
	warm   int    // how many bytes from the start may be backed by memory, from this use or earlier ones
}

// Bytes returns the n requested bytes, with arbitrary content. Nothing may alias them once the buffer is returned: the
// memory may then be somebody else's, or unmapped.
func (b *Buffer) Bytes() []byte { return b.memory[:b.n:b.n] }

// Drop releases the pages that lie wholly behind the first n bytes. What was stored there is lost; the buffer may be
// written to as before.
func (b *Buffer) Drop(n int) {
	drop(b.memory, n)
	b.warm = max(b.n, n) // the requested bytes may still be written
}

// Take lends a buffer of n bytes, n being positive. It returns nil when there is no address space for it.
func (p *Pool) Take(n int) *Buffer {
	class := classOf(n)
	size := n
	if class >= 0 {
		size = 1 << (class + smallestBits)
	}
	kept, ok := p.admit(class, size)
	if kept != nil {
		kept.n, kept.warm = n, max(n, kept.warm)
		return kept
	}
	if !ok {
		return nil
	}
	memory, err := reserve(size)
	if err != nil {
		p.forget(int64(size))
		return nil
	}
	return &Buffer{memory: memory, class: class, n: n, warm: n}
}

// admit returns a kept buffer of the class or not much larger, or else reports whether a new one of the size may be
// mapped, and counts it.
func (p *Pool) admit(class, size int) (kept *Buffer, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := class; c >= 0 && c <= min(class+roomy, classes-1); c++ {
		if len(p.idle[c]) > 0 {
			return p.popLocked(c), true
		}
	}
	for i, memory := range p.stuck {
		if len(memory) >= size {
			p.stuck = slices.Delete(p.stuck, i, i+1)
			if len(memory) != size {
				class = -1
			}
			return &Buffer{memory: memory, class: class}, true
		}
	}
	if p.mapped >= p.buffers || int64(size) > p.space-p.reserved {
		return nil, false
	}
	p.mapped++
	p.reserved += int64(size)
	return nil, true
}

// popLocked takes an idle buffer of a class that has one.
func (p *Pool) popLocked(class int) *Buffer {
	idle := p.idle[class]
	last := len(idle) - 1
	b := idle[last]
	idle[last] = nil
	p.idle[class] = idle[:last]
	p.least[class] = min(p.least[class], last)
	p.kept -= int64(b.warm)
	return b
}

// forget removes a buffer of the size from the count.
func (p *Pool) forget(size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mapped--
	p.reserved -= size
}

// Give returns a buffer that [Pool.Take] lent.
func (p *Pool) Give(b *Buffer) {
	if !p.keepIdle(b) {
		p.discard(b)
	}
}

// keepIdle keeps the buffer, if it belongs to a class and there is room for it.
func (p *Pool) keepIdle(b *Buffer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || b.class < 0 || p.kept+int64(b.warm) > p.keep {
		return false
	}
	p.idle[b.class] = append(p.idle[b.class], b)
	p.kept += int64(b.warm)
	if p.trimmer == nil {
		p.least = [classes]int{}
		p.trimmer = time.AfterFunc(keepFor, p.trim)
	}
	return true
}

// discard unmaps a buffer, and one that could not be unmapped before.
func (p *Pool) discard(b *Buffer) {
	memory := b.memory
	b.memory = nil // a later use panics instead of touching somebody else's memory
	if p.free(memory) {
		if memory = p.takeStuck(); memory != nil {
			p.free(memory)
		}
	}
}

// free unmaps memory, and reports whether that was possible. The system may refuse it: it treats neighbours as one
// mapping, which becomes two when the middle goes, and a process may have only so many. Then the pages are released and
// the addresses stay, counted as before, for another borrower.
func (p *Pool) free(memory []byte) bool {
	unmap := p.unmap
	if unmap == nil {
		unmap = release
	}
	if err := unmap(memory); err != nil {
		drop(memory, 0)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stuck = append(p.stuck, memory)
		return false
	}
	p.forget(int64(len(memory)))
	return true
}

// takeStuck returns nil when there is none.
func (p *Pool) takeStuck() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.stuck) - 1
	if last < 0 {
		return nil
	}
	memory := p.stuck[last]
	p.stuck = p.stuck[:last]
	return memory
}

// trim unmaps what was idle all the time since the last trim.
func (p *Pool) trim() {
	for _, b := range p.unused() {
		p.discard(b)
	}
}

// unused removes what was idle all the time, and restarts the timer if something is left.
func (p *Pool) unused() (surplus []*Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for class := range p.idle {
		for range p.least[class] {
			surplus = append(surplus, p.popLocked(class))
		}
		p.least[class] = len(p.idle[class])
	}
	switch {
	case p.kept > 0 && !p.closed:
		p.trimmer.Reset(keepFor)
	default:
		p.trimmer = nil
	}
	return surplus
}

// Close unmaps idle buffers, and keeps none that are returned later. Lent buffers stay valid until they are returned.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	if p.trimmer != nil {
		p.trimmer.Stop()
	}
	var all []*Buffer
	for class := range p.idle {
		for len(p.idle[class]) > 0 {
			all = append(all, p.popLocked(class))
		}
	}
	p.mu.Unlock()
	for _, b := range all {
		p.discard(b)
	}
}

// classOf returns the smallest class that holds n bytes, or -1 when n is larger than all of them.
func classOf(n int) int {
	class := max(bits.Len(uint(n-1))-smallestBits, 0)
	if class >= classes {
		return -1
	}
	return class
}
