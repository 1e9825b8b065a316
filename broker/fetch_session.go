package broker

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Epochs of a fetch session with a special meaning; a running session counts from 1.
const (
	initialSessionEpoch int32 = 0  // a full fetch that asks for a session
	finalSessionEpoch   int32 = -1 // a full fetch without a session; ends the one it names
)

// sessionRest is how long a session must have been unused before it ends when others begin, and how old it must be before
// it can be replaced by a larger one. A parked fetch of ten minutes may lose its session, which costs a full fetch.
const sessionRest = 2 * time.Minute

// sessionCache keeps fetch sessions (KIP-227): what a client wants to fetch, so that it sends only changes, and what it
// last received, so that it gets only changes.
//
// A full cache makes room by removing sessions that were unused for sessionRest, or one that is older than that and
// smaller than the new one. Failing that the client gets no session, which only costs bandwidth. A session may have a few
// more partitions than exist; one that outgrows that, or the room of all, ends.
type sessionCache struct {
	max    int
	room   int64      // for the partitions of all sessions
	hosted func() int // partitions that there are

	mu       sync.Mutex
	sessions map[int32]*fetchSession // by id
}

// fetchSession is one session. The partitions are answered in order, and those that returned data go to the end of it, so
// that no partition starves the others.
type fetchSession struct {
	id      int32
	byID    bool // topics are named by id
	created time.Time
	used    atomic.Int64 // when it was used last, ns since 1970
	size    atomic.Int64 // partitions

	mu    sync.Mutex
	epoch int32 // expected in the next request
	parts map[sessionKey]*sessionPartition
	order []*sessionPartition
}

// sessionKey names a partition of a session, by id or by name.
type sessionKey struct {
	id    TopicID
	topic string
	index int32
}

// sessionPartition is a partition of a session: the latest request and the latest answer.
type sessionPartition struct {
	sessionKey
	offset       int64
	maxBytes     int32
	currentEpoch int32
	lastEpoch    int32

	highWatermark int64 // as last sent; -1 before the first answer and after an error
	logStart      int64
}

// spareSessionPartitions is how many partitions a session may have beyond those that exist: of topics that were deleted,
// or are yet to be created.
const spareSessionPartitions = 1000

func newSessionCache(max int, room int64, hosted func() int) *sessionCache {
	return &sessionCache{max: max, room: room, hosted: hosted, sessions: make(map[int32]*fetchSession)}
}

// mayHave reports whether one session may have so many partitions.
func (c *sessionCache) mayHave(size int) bool {
	return size <= spareSessionPartitions || size <= spareSessionPartitions+c.hosted()
}

// fits reports whether a session that has grown may stay.
func (c *sessionCache) fits(s *fetchSession) bool {
	if !c.mayHave(int(s.size.Load())) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heldLocked() <= c.room
}

// heldLocked counts the partitions of all sessions.
func (c *sessionCache) heldLocked() int64 {
	var n int64
	for _, s := range c.sessions {
		n += s.size.Load()
	}
	return n
}

// begin applies a request to its session, and returns the partitions to fetch, the session if there is one, and the error
// of the whole response. Names may alias the request.
func (c *sessionCache) begin(req *kmsg.FetchRequest) (items []fetchItem, s *fetchSession, code int16) {
	switch {
	case req.SessionEpoch == finalSessionEpoch:
		c.end(req.SessionID)
		return fullItems(req), nil, codeNone
	case req.SessionEpoch == initialSessionEpoch:
		c.end(req.SessionID)
		items = fullItems(req)
		s = c.create(req.Version >= 13, len(items))
		if s != nil {
			s.fill(items)
		}
		return items, s, codeNone
	}
	s = c.find(req.SessionID)
	if s == nil {
		return nil, nil, codeFetchSessionIDNotFound
	}
	before := s.size.Load()
	items, code = s.advance(req)
	if code != codeNone {
		return nil, nil, code
	}
	if s.size.Load() > before && !c.fits(s) {
		c.end(s.id)
		return nil, nil, codeFetchSessionIDNotFound // the client starts over
	}
	if len(items) == 0 {
		c.end(s.id)
		return nil, nil, codeNone
	}
	return items, s, codeNone
}

func (c *sessionCache) find(id int32) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

func (c *sessionCache) end(id int32) {
	if id == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, id)
}

// create makes a session for that many partitions, or returns nil when there is no room.
func (c *sessionCache) create(byID bool, size int) *fetchSession {
	if size == 0 || !c.mayHave(size) {
		return nil
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked(now)
	if len(c.sessions) >= c.max && !c.evictLocked(now, size) || c.heldLocked()+int64(size) > c.room {
		return nil
	}
	s := &fetchSession{
		id: c.freeIDLocked(), byID: byID, created: now, epoch: 1,
		parts: make(map[sessionKey]*sessionPartition, size),
	}
	s.used.Store(now.UnixNano())
	s.size.Store(int64(size))
	c.sessions[s.id] = s
	return s
}

// expireLocked removes the sessions that are out of use.
func (c *sessionCache) expireLocked(now time.Time) {
	for id, s := range c.sessions {
		if now.UnixNano()-s.used.Load() > int64(sessionRest) {
			delete(c.sessions, id)
		}
	}
}

// evictLocked removes the smallest old session if it is smaller than the new one.
func (c *sessionCache) evictLocked(now time.Time, size int) bool {
	var smallest *fetchSession
	for _, s := range c.sessions {
		if now.Sub(s.created) > sessionRest && (smallest == nil || s.size.Load() < smallest.size.Load()) {
			smallest = s
		}
	}
	if smallest == nil || smallest.size.Load() >= int64(size) {
		return false
	}
	delete(c.sessions, smallest.id)
	return true
}

// freeIDLocked picks an id at random, so that ids cannot be guessed by counting.
func (c *sessionCache) freeIDLocked() int32 {
	for {
		id := rand.Int32N(math.MaxInt32) + 1 // never 0, which is no session
		if c.sessions[id] == nil {
			return id
		}
	}
}

// len is the number of sessions.
func (c *sessionCache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions)
}

// fullItems are the partitions of a full fetch.
func fullItems(req *kmsg.FetchRequest) []fetchItem {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	items := make([]fetchItem, 0, n)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			items = append(items, fetchItem{
				topic: t.Topic, id: t.TopicID, index: p.Partition,
				offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes,
				currentEpoch: p.CurrentLeaderEpoch, lastEpoch: p.LastFetchedEpoch,
				leader: -1, leaderEpoch: noEpoch,
			})
		}
	}
	return items
}

// fill makes the items the partitions of a new session, and links each item to its partition.
func (s *fetchSession) fill(items []fetchItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range items {
		items[i].cached = s.putLocked(&items[i])
	}
	s.size.Store(int64(len(s.order)))
}

// putLocked adds a partition or changes what is asked of it.
func (s *fetchSession) putLocked(it *fetchItem) *sessionPartition {
	key := sessionKey{id: it.id, topic: it.topic, index: it.index}
	p := s.parts[key]
	if p == nil {
		key.topic = strings.Clone(key.topic)
		p = &sessionPartition{sessionKey: key, highWatermark: -1, logStart: -1}
		s.parts[key] = p
		s.order = append(s.order, p)
	}
	p.offset, p.maxBytes, p.currentEpoch, p.lastEpoch = it.offset, it.maxBytes, it.currentEpoch, it.lastEpoch
	return p
}

// advance takes the changes of an incremental request and returns all partitions of the session.
func (s *fetchSession) advance(req *kmsg.FetchRequest) ([]fetchItem, int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.SessionEpoch != s.epoch:
		return nil, codeInvalidFetchSessionEpoch
	case s.byID != (req.Version >= 13):
		return nil, codeFetchSessionTopicIDError
	}
	s.epoch = nextSessionEpoch(s.epoch)
	s.used.Store(time.Now().UnixNano())

	changed := fullItems(req)
	for i := range changed {
		s.putLocked(&changed[i])
	}
	s.forgetLocked(req.ForgottenTopics)
	s.size.Store(int64(len(s.order)))
	items := make([]fetchItem, len(s.order))
	for i, p := range s.order {
		items[i] = fetchItem{
			topic: p.topic, id: p.id, index: p.index,
			offset: p.offset, maxBytes: p.maxBytes, currentEpoch: p.currentEpoch, lastEpoch: p.lastEpoch,
			cached: p, leader: -1, leaderEpoch: noEpoch,
		}
	}
	return items, codeNone
}

// nextSessionEpoch counts up from 1; after the largest number comes 1 again.
func nextSessionEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

func (s *fetchSession) forgetLocked(topics []kmsg.FetchRequestForgottenTopic) {
	before := len(s.parts)
	for _, t := range topics {
		for _, index := range t.Partitions {
			delete(s.parts, sessionKey{id: t.TopicID, topic: t.Topic, index: index})
		}
	}
	if len(s.parts) == before {
		return
	}
	kept := s.order[:0]
	for _, p := range s.order {
		if s.parts[p.sessionKey] == p {
			kept = append(kept, p)
		}
	}
	clear(s.order[len(kept):])
	s.order = kept
}

// finish decides which partitions the answer includes, records what was sent of each, and moves those with records to the
// end.
func (s *fetchSession) finish(f *fetchAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.Store(time.Now().UnixNano())
	served := make(map[*sessionPartition]bool)
	kept := f.items[:0]
	for i := range f.items {
		it := f.items[i]
		if it.cached.changed(&it.found) || !f.incremental {
			kept = append(kept, it)
		}
		if it.found.size > 0 {
			served[it.cached] = true
		}
	}
	f.items = kept
	if len(served) > 0 {
		s.moveToEndLocked(served)
	}
}

// changed reports whether the client must be sent this result, and records it as sent.
func (p *sessionPartition) changed(r *fetched) bool {
	news := r.size > 0 || r.isNews() || r.highWatermark != p.highWatermark || r.logStart != p.logStart
	p.highWatermark, p.logStart = r.highWatermark, r.logStart
	if r.code != codeNone {
		p.highWatermark = -1 // the next answer without an error is news
	}
	return news
}

func (s *fetchSession) moveToEndLocked(served map[*sessionPartition]bool) {
	order := make([]*sessionPartition, 0, len(s.order))
	for _, p := range s.order {
		if !served[p] {
			order = append(order, p)
		}
	}
	for _, p := range s.order {
		if served[p] {
			order = append(order, p)
		}
	}
	s.order = order
}
