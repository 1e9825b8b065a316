package coordinator

import (
	"slices"
	"strings"
)

// Ticket identifies a waiting request for the caller. 0 is none.
type Ticket uint64

// Reply is the answer to a request.
type Reply struct {
	To     Ticket
	Answer Answer
}

// Shard is the groups of one partition of __consumer_offsets. It is for one goroutine. Times passed to it are ms since
// 1970, by a monotonic clock: it may stand still but not go back or jump. Recorded times are those of the wall clock,
// which may differ ([Shard.SetSkew]).
type Shard struct {
	config  Config
	groups  map[string]*group
	timers  timers
	pending map[int64]transaction // offsets of open transactions, by producer id

	sweep   timer
	toSweep []string // groups that the current sweep has not visited yet

	now     int64
	skew    int64  // of the wall clock against now
	members uint64 // how many there ever were, for their order
	out     Output // of the current call
}

// Output is what a call of a shard asks of its caller. It is valid until the next call.
type Output struct {
	// Records are to be appended to the shard's partition, all or none, in order.
	Records []Record

	replies []Reply
	settle  []func(err error)
	shard   *Shard
}

// Settle takes the result of appending the records, nil when they are in the partition, and returns the replies to send
// when they are durable. It must be called once for every output, before the shard is called again. Without records err
// is ignored.
func (o *Output) Settle(err error) []Reply {
	settle := o.settle
	o.settle = nil
	for _, f := range settle {
		f(err)
	}
	if len(o.shard.out.Records) > 0 {
		panic("coordinator: records that nobody will append")
	}
	replies := append(o.replies, o.shard.out.replies...)
	o.shard.out, o.replies = Output{}, nil
	return replies
}

// NewShard returns a shard without groups.
func NewShard(c Config) *Shard {
	s := &Shard{config: c.withDefaults(), groups: map[string]*group{}, pending: map[int64]transaction{}}
	s.sweep.fire = func(int64) { s.sweepNext() }
	return s
}

// Handle handles a request. Its answer is in the replies of this output or of a later one.
func (s *Shard) Handle(now int64, t Ticket, r Request) *Output {
	s.begin(now)
	switch r := r.(type) {
	case *Join:
		s.join(t, r)
	case *Sync:
		s.sync(t, r)
	case *Heartbeat:
		s.reply(t, &Done{Err: s.heartbeat(r)})
	case *Leave:
		s.leave(t, r)
	case *Commit:
		s.commit(t, r)
	case *Fetch:
		s.reply(t, s.fetch(r))
	case *DeleteOffsets:
		s.deleteOffsets(t, r)
	case *DeleteGroup:
		s.deleteGroup(t, r)
	case *Describe:
		s.reply(t, s.describe(r))
	case *List:
		s.reply(t, s.list())
	case *TopicGone:
		s.sweepSoon()
		s.reply(t, &Done{})
	}
	return s.end()
}

// SetSkew sets how far the wall clock is ahead of the times passed to the shard, in ms. When somebody sets the wall
// clock, sessions and rebalances continue as before, and records get the new time.
func (s *Shard) SetSkew(ms int64) { s.skew = ms }

// wall returns the time of the wall clock.
func (s *Shard) wall() int64 { return s.now + s.skew }

// Next returns when [Shard.Tick] has something to do.
func (s *Shard) Next() (at int64, ok bool) { return s.timers.next() }

// Tick does one thing that is due. It returns nil when nothing is.
func (s *Shard) Tick(now int64) *Output {
	t := s.timers.take(now)
	if t == nil {
		return nil
	}
	s.begin(now)
	t.fire(now)
	return s.end()
}

// Abandon answers everything that is parked with an error. The shard must not be called afterwards.
func (s *Shard) Abandon(err error) []Reply {
	s.begin(s.now)
	for _, g := range s.groups {
		for _, m := range g.members {
			s.dropParked(m, err)
		}
	}
	return s.end().Settle(nil)
}

func (s *Shard) begin(now int64) {
	s.now = max(s.now, now)
	s.out = Output{}
}

func (s *Shard) end() *Output {
	out := s.out
	out.shard = s
	s.out = Output{}
	return &out
}

// reply answers a request; ticket 0 is ignored.
func (s *Shard) reply(t Ticket, a Answer) {
	if t != 0 {
		s.out.replies = append(s.out.replies, Reply{To: t, Answer: a})
	}
}

// append adds records to the output.
func (s *Shard) append(r ...Record) { s.out.Records = append(s.out.Records, r...) }

// settled calls f with the result of appending this output's records. f may not append.
func (s *Shard) settled(f func(err error)) { s.out.settle = append(s.out.settle, f) }

// replySettled answers a request with a when this output's records are in the log, and with the error when they are not.
// Without records it replies at once.
func (s *Shard) replySettled(t Ticket, a Answer, refused func(err error) Answer) {
	if len(s.out.Records) == 0 {
		s.reply(t, a)
		return
	}
	s.settled(func(err error) {
		if err != nil {
			a = refused(err)
		}
		s.reply(t, a)
	})
}

// group returns a group, creating it if necessary.
func (s *Shard) group(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = newGroup(s, id)
		s.groups[id] = g
		if !s.sweeping() {
			s.sweepLater()
		}
	}
	return g
}

// forget drops a group that has no record and no possible member left.
func (s *Shard) forget(g *group) {
	if len(g.members) > 0 || len(g.pending) > 0 || len(g.offsets) > 0 || g.recorded != nil || s.groups[g.id] != g {
		return
	}
	s.timers.stop(&g.phase)
	delete(s.groups, g.id)
}

// sortedGroups returns the groups in the order of their ids.
func (s *Shard) sortedGroups() []*group {
	groups := make([]*group, 0, len(s.groups))
	for _, g := range s.groups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *group) int { return strings.Compare(a.id, b.id) })
	return groups
}
