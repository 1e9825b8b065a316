package stream

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// seqReader is a reader of a stream that may continue where it stopped (BC-3): the units from there on, the first of
// which are loaded or loading. It is for one goroutine at a time.
//
//	held[0] ... held[n-1] | the units of the window that nobody loads for it yet
//
// Between two reads it holds only units that are loading: loaded ones may be evicted, and the next read loads them again.
type seqReader struct {
	readWindow
	held []*unit // the first len(held) of the window's units; nil for those that were loaded and released
	// next is where the last read ended; a read that begins there takes over the reader.
	next int64
	// reads counts the reads that found something. Readahead begins only after one has continued where another stopped:
	// the probes of a search read nothing ahead.
	reads int
	// size is how many bytes are read ahead (BC-6), but none before cool.
	size int64
	cool time.Time
	idle time.Time // unused since
}

func newSeqReader(id catalog.StreamID, start, size int64) *seqReader {
	return &seqReader{readWindow: readWindow{stream: id, end: start}, next: start, size: size}
}

// plan finds the units for a read of [start, end) and returns how many of the window's first ones it needs: as many as
// hold maxBytes of payload, not counting one that begins before start, and at least one (OBJ-5). It is 0 only if how says
// not to wait, or if there is nothing at start.
func (s *seqReader) plan(ctx context.Context, o *objectReader, start, end int64, maxBytes int, how howToLook) (int, error) {
	budget := int64(maxBytes)
	for n := 0; ; n++ {
		if n > 0 && (s.units[n-1].entry.End() >= end || budget <= 0) {
			return n, nil
		}
		if n == len(s.units) {
			if found, err := s.more(ctx, o, how); err != nil || !found {
				return n, err
			}
		}
		if e := s.units[n].entry; e.Start >= start {
			budget -= e.payloadBytes()
		}
	}
}

// hold makes sure that the first n units are loaded or loading, and stay.
func (s *seqReader) hold(c *blockCache, n int) {
	if missing := n - len(s.held); missing > 0 {
		s.held = append(s.held, make([]*unit, missing)...)
	}
	for first := 0; first < n; first++ {
		if s.held[first] != nil {
			continue
		}
		end := first + 1
		for end < n && s.held[end] == nil {
			end++
		}
		copy(s.held[first:], c.hold(s.units[first:end]))
		first = end
	}
}

// wait returns the i-th unit, which is held, once it is loaded. A failed load is retried if it is older than the given
// number of loads, that is, if others had begun it (BC-8).
func (s *seqReader) wait(ctx context.Context, c *blockCache, i int, begun int64) (*unit, error) {
	for {
		u := s.held[i]
		if err := await(ctx, u.done); err != nil {
			return nil, err
		}
		if u.err == nil || u.load.number > begun {
			return u, u.err
		}
		c.release(u, false)
		s.held[i] = c.hold(s.units[i : i+1])[0]
	}
}

// inMemory returns the i-th unit, given that all before it are held, if it is loaded or being loaded for this reader;
// otherwise nil.
func (s *seqReader) inMemory(c *blockCache, i int) *unit {
	if i < len(s.held) && s.held[i] != nil {
		return s.held[i]
	}
	u := c.peek(s.units[i])
	switch {
	case u == nil:
	case i < len(s.held):
		s.held[i] = u
	default:
		s.held = append(s.held, u)
	}
	return u
}

// rest releases loaded units between two reads.
func (s *seqReader) rest(c *blockCache) {
	for i, u := range s.held {
		if u != nil && !u.isPending() {
			c.release(u, false)
			s.held[i] = nil
		}
	}
}

// grow enlarges the readahead if the read has to wait for one of the first n units (BC-6): by each unit that is in
// flight, or by a step if that is more, so that it doubles until the reader no longer waits.
func (s *seqReader) grow(cfg Config, n int) {
	if !slices.ContainsFunc(s.held[:n], (*unit).isPending) {
		return
	}
	for _, u := range s.held {
		if u != nil && u.isPending() {
			s.size = min(s.size+max(cfg.ReadaheadStep, int64(u.entry.Size)), cfg.ReadaheadMax)
		}
	}
}

// missingBytes returns the size of those of the first n units that are not held yet.
func (s *seqReader) missingBytes(n int) int64 {
	size := int64(0)
	for i, u := range s.units[:n] {
		if i >= len(s.held) || s.held[i] == nil {
			size += int64(u.entry.Size)
		}
	}
	return size
}

// readAhead begins to load the units after the first n (BC-6), if less than half of the readahead is there, and if what
// is in flight leaves room for a whole range GET, or for half of the readahead if that is less.
func (s *seqReader) readAhead(ctx context.Context, o *objectReader, n int, now time.Time) {
	if s.reads == 0 || now.Before(s.cool) {
		return
	}
	there, ahead := int64(0), int64(0)
	for i, u := range s.held[n:] {
		size := int64(s.units[n+i].entry.Size)
		ahead += size
		if u == nil || !u.isPending() {
			there += size
		}
	}
	if there*2 >= s.size || s.size-ahead < min(maxRangeBytes, s.size/2) || o.blocks.free() < s.size+o.cfg.ReadaheadMax {
		return
	}
	s.lookAhead(o)
	count := len(s.held)
	for ; ahead < s.size; count++ {
		if count == len(s.units) {
			if found, err := s.more(ctx, o, lookAhead); err != nil || !found {
				break // a read will meet the error, if it persists
			}
		}
		ahead += int64(s.units[count].entry.Size)
	}
	s.hold(o.blocks, count)
}

// lookAhead begins to load the index of the next object, so that it is there when the reader gets to it.
func (s *seqReader) lookAhead(o *objectReader) {
	if len(s.objects) == 0 && s.ask(o.catalog.View()) != nil {
		return // a read will meet the error, if it persists
	}
	if len(s.objects) > 0 {
		o.indexes.prefetch(s.objects[0])
	}
}

// advance moves the reader to where a read ended, and releases the units before it.
func (s *seqReader) advance(c *blockCache, next int64) {
	n := 0
	for n < len(s.held) && s.units[n].entry.End() <= next {
		if s.held[n] != nil {
			c.release(s.held[n], true)
		}
		n++
	}
	clear(s.held[:n]) // frees the units' bytes
	s.held, s.units, s.next = s.held[n:], s.units[n:], next
	s.reads++
}

// reset releases everything and starts again at an offset: the objects have changed under the reader (BC-5).
func (s *seqReader) reset(c *blockCache, start int64, cool time.Time) {
	s.drop(c)
	s.readWindow = readWindow{stream: s.stream, end: start, view: s.view}
	s.next, s.cool = start, cool
}

// drop releases all units.
func (s *seqReader) drop(c *blockCache) {
	for _, u := range s.held {
		if u != nil {
			c.release(u, false)
		}
	}
	s.held = nil
}
