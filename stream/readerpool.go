package stream

import (
	"container/list"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// maxReaders bounds how many readers are remembered between two reads.
const maxReaders = 4096

// readerKey is where a reader stopped.
type readerKey struct {
	stream catalog.StreamID
	next   int64
}

func (s *seqReader) key() readerKey { return readerKey{s.stream, s.next} }

// readerPool remembers readers between two reads, by where they stopped (BC-3). It is safe for concurrent use.
type readerPool struct {
	mu struct {
		sync.Mutex
		at   map[readerKey][]*list.Element
		idle list.List // of *seqReader, the one that came last first
	}
}

func newReaderPool() *readerPool {
	p := &readerPool{}
	p.mu.at = map[readerKey][]*list.Element{}
	return p
}

// take returns a reader that stopped at an offset, nil if there is none. The caller owns it.
func (p *readerPool) take(id catalog.StreamID, start int64) *seqReader {
	p.mu.Lock()
	defer p.mu.Unlock()
	there := p.mu.at[readerKey{id, start}]
	if len(there) == 0 {
		return nil
	}
	return p.removeLocked(there[len(there)-1])
}

// put keeps a reader for the read that continues where it stopped. It returns the one that it displaced, or nil.
func (p *readerPool) put(s *seqReader) (surplus *seqReader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.idle = time.Now()
	p.mu.at[s.key()] = append(p.mu.at[s.key()], p.mu.idle.PushFront(s))
	if p.mu.idle.Len() > maxReaders {
		return p.removeLocked(p.mu.idle.Back())
	}
	return nil
}

// expire removes the readers that have not been used for a while, and reports whether any are left.
func (p *readerPool) expire(now time.Time) (expired []*seqReader, left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mu.idle.Len() > 0 && now.Sub(p.mu.idle.Back().Value.(*seqReader).idle) >= maxUnusedAge {
		expired = append(expired, p.removeLocked(p.mu.idle.Back()))
	}
	return expired, p.mu.idle.Len() > 0
}

func (p *readerPool) removeLocked(e *list.Element) *seqReader {
	s := p.mu.idle.Remove(e).(*seqReader)
	there := p.mu.at[s.key()]
	for i := range there {
		if there[i] == e {
			there = append(there[:i], there[i+1:]...)
			break
		}
	}
	if len(there) == 0 {
		delete(p.mu.at, s.key())
		return s
	}
	p.mu.at[s.key()] = there
	return s
}
