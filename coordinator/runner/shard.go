package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/records"
)

// shard is one partition and the goroutine that serves it.
type shard struct {
	runner    *Runner
	partition int32
	log       Log

	life   context.Context // ends when nothing is waited for any more
	giveUp context.CancelFunc
	news   chan struct{} // signals that something was queued or that the shard stops
	ended  chan struct{} // closed when the goroutine has ended

	mu struct {
		sync.Mutex
		state state
		why   error // of refusing, unless the state is ready
		queue []*Call
		until time.Time // a failed shard is not retried before
	}

	// Owned by the goroutine.
	groups  *coordinator.Shard
	waiting map[coordinator.Ticket]*Call
	ticket  coordinator.Ticket
	flying  []flight // appended and not yet durable, in order
	timer   *time.Timer
	unknown unknownRecords

	start    int64 // the first offset that a start reads, or a lower one
	appended int64 // bytes since the last checkpoint
	held     int64 // bytes of the last checkpoint
}

type state int8

const (
	loading  state = 0
	ready    state = 1
	stopping state = 2
	over     state = 3
)

// flight is a set of records that are not durable yet, and the replies that depend on them.
type flight struct {
	pending Pending
	replies []coordinator.Reply
	then    func() // called once they are durable; may be nil
}

func newShard(r *Runner, partition int32, log Log) *shard {
	s := &shard{
		runner: r, partition: partition, log: log,
		news: make(chan struct{}, 1), ended: make(chan struct{}),
		groups: coordinator.NewShard(r.options.Groups), waiting: map[coordinator.Ticket]*Call{},
	}
	s.life, s.giveUp = context.WithCancel(context.Background())
	s.mu.why = coordinator.ErrLoading
	if log.Empty() {
		s.mu.state = ready
	}
	return s
}

// submit queues a request, or answers it at once when the shard accepts none.
func (s *shard) submit(req coordinator.Request) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state != ready {
		return answered(coordinator.Refuse(req, s.mu.why))
	}
	c := &Call{request: req, done: make(chan struct{})}
	s.mu.queue = append(s.mu.queue, c)
	s.wake()
	return c
}

func (s *shard) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// stop makes the shard refuse requests with the given error and end.
func (s *shard) stop(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state < stopping {
		s.mu.state, s.mu.why = stopping, why
	}
	s.wake()
}

// finished reports whether another shard may replace this one.
func (s *shard) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state == over && !s.runner.options.Now().Before(s.mu.until)
}

// take empties the queue. It reports whether the shard is to stop.
func (s *shard) take() (calls []*Call, stop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls, s.mu.queue = s.mu.queue, nil
	return calls, s.mu.state >= stopping
}

// run is the shard's goroutine.
func (s *shard) run() {
	defer close(s.ended)
	defer s.giveUp()
	s.timer = time.NewTimer(0)
	defer s.timer.Stop()
	if !s.load() {
		return
	}
	err := s.guarded()
	if err != nil {
		s.stop(coordinator.ErrNotCoordinator)
		s.runner.options.Events.Ended(Ended{Partition: s.partition, Err: err})
	}
	s.finish(err)
}

// guarded runs serve. A panic in the groups' logic ends the shard and not the server; the next shard starts from the log.
func (s *shard) guarded() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return s.serve()
}

// nowMs returns the time for the state machine: the wall clock when the runner was made, continued monotonically. It also
// tells the machine how far the wall clock has moved away.
func (s *shard) nowMs() int64 {
	wall := s.runner.options.Now()
	even := s.runner.began.UnixMilli() + wall.Sub(s.runner.began).Milliseconds()
	s.groups.SetSkew(wall.UnixMilli() - even)
	return even
}

// serve handles requests and timers until the shard stops, or its log ends, which is the error.
func (s *shard) serve() error {
	for {
		s.arm()
		select {
		case <-s.news:
			calls, stop := s.take()
			if err := s.handle(calls); err != nil {
				return err
			}
			if stop {
				return nil
			}
		case <-s.landing():
			if err := s.land(); err != nil {
				return err
			}
		case <-s.timer.C:
		}
		if err := s.tick(); err != nil {
			return err
		}
		if err := s.checkpointIfDue(); err != nil {
			return err
		}
	}
}

// handle passes requests to the groups, in order. All of them count as waiting from the start, so that finish answers
// those that were not reached, whatever ended the shard before.
func (s *shard) handle(calls []*Call) error {
	first := s.ticket + 1
	for _, c := range calls {
		s.ticket++
		s.waiting[s.ticket] = c
	}
	for i, c := range calls {
		if err := s.advance(s.groups.Handle(s.nowMs(), first+coordinator.Ticket(i), c.request)); err != nil {
			return err
		}
	}
	return nil
}

// arm sets the timer to the groups' next deadline, if there is one.
func (s *shard) arm() {
	at, ok := s.groups.Next()
	if !ok {
		s.timer.Stop()
		return
	}
	s.timer.Reset(time.Duration(at-s.nowMs()) * time.Millisecond)
}

// tick does everything that is due.
func (s *shard) tick() error {
	for {
		out := s.groups.Tick(s.nowMs())
		if out == nil {
			return nil
		}
		if err := s.advance(out); err != nil {
			return err
		}
	}
}

// advance appends the records of an output and releases its replies, now or when they may be sent. The error is that the
// log has ended; then finish answers, once the shard has made way.
func (s *shard) advance(out *coordinator.Output) error {
	if len(out.Records) == 0 {
		s.release(out.Settle(nil))
		return nil
	}
	pending, err := s.append(out.Records)
	replies := out.Settle(clientError(err))
	switch {
	case errors.Is(err, ErrEnded):
		return err
	case pending != nil:
		s.flying = append(s.flying, flight{pending: pending, replies: replies})
	default:
		s.release(replies)
	}
	return nil
}

// clientError returns the part of an error that clients may see.
func clientError(err error) error {
	if errors.Is(err, records.ErrTooLong) {
		return coordinator.ErrRecordTooLarge
	}
	return err
}

// release sends replies when everything appended before them is durable.
func (s *shard) release(replies []coordinator.Reply) {
	if n := len(s.flying); n > 0 {
		s.flying[n-1].replies = append(s.flying[n-1].replies, replies...)
		return
	}
	s.give(replies)
}

func (s *shard) give(replies []coordinator.Reply) {
	for _, r := range replies {
		if c := s.waiting[r.To]; c != nil {
			delete(s.waiting, r.To)
			c.answer = r.Answer
			close(c.done)
		}
	}
}

// landing is closed when the oldest records in flight are durable; nil when there are none.
func (s *shard) landing() <-chan struct{} {
	if len(s.flying) == 0 {
		return nil
	}
	return s.flying[0].pending.Done()
}

// land releases the replies that depended on the oldest records in flight. An error says that they are not durable, and
// then the content of the log is unknown.
func (s *shard) land() error {
	f := s.flying[0]
	if err := f.pending.Err(); err != nil {
		return err
	}
	s.flying[0] = flight{}
	s.flying = s.flying[1:]
	s.give(f.replies)
	if f.then != nil {
		f.then()
	}
	return nil
}

// Upper bounds, in bytes, of what a batch and each of its records take beyond keys and values.
const (
	batchOverhead  = 61
	recordOverhead = 32
)

// append appends records, see appendPairs.
func (s *shard) append(rs []coordinator.Record) (Pending, error) {
	return s.appendPairs(encoded(rs), func(ctx context.Context, ms int64, record KeyValue) (Pending, error) {
		return s.log.Append(ctx, ms, []KeyValue{record})
	})
}

// encoded yields the keys and values of records.
func encoded(rs []coordinator.Record) iter.Seq2[KeyValue, error] {
	return func(yield func(KeyValue, error) bool) {
		for _, r := range rs {
			key, value, err := records.Encode(r)
			if !yield(KeyValue{key, value}, err) {
				return
			}
		}
	}
}

// appendPairs appends keys and values, in as many batches as necessary, up to an error that comes with one. A record larger
// than a batch may be goes to large, which returns neither a pending nor an error if it left it out. The pending is that of
// the last batch. After an error some may be in the log, if they did not fit one batch.
func (s *shard) appendPairs(pairs iter.Seq2[KeyValue, error], large func(context.Context, int64, KeyValue) (Pending, error)) (Pending, error) {
	ctx, cancel := context.WithTimeout(s.life, s.runner.options.AppendTimeout)
	defer cancel()
	var last Pending
	var batch []KeyValue
	size := batchOverhead
	now := func() int64 { return s.runner.options.Now().UnixMilli() }
	note := func(p Pending, err error, bytes int) error {
		if err == nil && p != nil {
			s.appended += int64(bytes)
			last = p
		}
		return err
	}
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		p, err := s.log.Append(ctx, now(), batch)
		if err := note(p, err, size); err != nil {
			return err
		}
		batch, size = batch[:0], batchOverhead
		return nil
	}
	for pair, err := range pairs {
		if err != nil {
			return last, err
		}
		n := len(pair.Key) + len(pair.Value) + recordOverhead
		if size+n > s.log.MaxBatchBytes() {
			if err := flush(); err != nil {
				return last, err
			}
		}
		if batchOverhead+n > s.log.MaxBatchBytes() {
			p, err := large(ctx, now(), pair)
			if err := note(p, err, batchOverhead+n); err != nil {
				return last, err
			}
			continue
		}
		batch = append(batch, pair)
		size += n
	}
	return last, flush()
}

// refuseAll answers requests that were not handled.
func refuseAll(calls []*Call, err error) {
	for _, c := range calls {
		c.refuse(err)
	}
}

// finish answers everything that waits and ends the shard. Records in flight are waited for, unless the log failed.
func (s *shard) finish(failed error) {
	why := coordinator.ErrNotAvailable
	if failed != nil {
		why = coordinator.ErrNotCoordinator
		refuseAll(s.leave(), why) // before anything is answered: a client that retries because of the answer finds the next shard
	}
	s.release(s.groups.Abandon(why))
	for failed == nil && len(s.flying) > 0 {
		select {
		case <-s.landing():
			failed = s.land()
		case <-s.life.Done():
			failed = context.Cause(s.life)
		}
	}
	for _, c := range s.waiting { // their answers depend on records that may be lost
		c.refuse(coordinator.ErrNotCoordinator)
	}
	refuseAll(s.leave(), why)
}

// leave makes way for another shard, which waits until this one's goroutine has ended. It returns the requests that were
// not handled.
func (s *shard) leave() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.mu.queue
	s.mu.state, s.mu.queue = over, nil
	return calls
}

func (c *Call) refuse(err error) {
	c.answer = coordinator.Refuse(c.request, err)
	close(c.done)
}
