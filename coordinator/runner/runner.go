package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/coordinator"
)

// Options are the settings of a [Runner].
type Options struct {
	// Partitions returns the current number of partitions of the offsets topic, 0 if there is no such topic. It must be
	// set.
	Partitions func() int32

	// Open returns the log of a partition that is led here. The errors are those of package coordinator for clients. It
	// must be set.
	Open func(partition int32) (Log, error)

	// Groups holds the settings of the groups. NewID may be nil for random UUIDs.
	Groups coordinator.Config

	// AppendTimeout is how long an append may wait for room (offsets.commit.timeout.ms). The default is 5 s.
	AppendTimeout time.Duration

	// CheckpointBytes is roughly how many bytes of records, as keys and values, a start may read; twice the shard's state
	// if that is more. The default is 32 MiB.
	CheckpointBytes int64

	// RetryLoad is how long a shard whose load failed is not retried. The default is 10 s.
	RetryLoad time.Duration

	// Loaders is how many shards may read their partitions at the same time. The default is 2.
	Loaders int

	// Now is the clock; nil is time.Now. It must run at the speed of real time, as timers do. Sessions follow its
	// monotonic reading, if it has one, so that setting the clock ends none.
	Now func() time.Time

	Events Events
}

func (o Options) withDefaults() Options {
	if o.Groups.NewID == nil {
		o.Groups.NewID = newUUID
	}
	if o.AppendTimeout <= 0 {
		o.AppendTimeout = 5 * time.Second
	}
	if o.CheckpointBytes <= 0 {
		o.CheckpointBytes = 32 << 20
	}
	if o.RetryLoad <= 0 {
		o.RetryLoad = 10 * time.Second
	}
	if o.Loaders <= 0 {
		o.Loaders = 2
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Events = o.Events.withDefaults()
	return o
}

// newUUID returns a random UUID of version 4, as text.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Runner is a group coordinator: the shards of all partitions of the offsets topic that are led here. All methods are safe
// for concurrent use. The logs must work until [Runner.Close] returns.
type Runner struct {
	options Options
	began   time.Time
	loading chan struct{} // holds a token for each shard that is reading its partition

	mu struct {
		sync.Mutex
		shards map[int32]*shard
		closed bool
	}
}

// New returns a runner without shards. Nothing runs yet.
func New(o Options) *Runner {
	r := &Runner{options: o.withDefaults()}
	r.began = r.options.Now()
	r.loading = make(chan struct{}, r.options.Loaders)
	r.mu.shards = map[int32]*shard{}
	return r
}

// Call is a submitted request.
type Call struct {
	request coordinator.Request
	done    chan struct{}
	answer  coordinator.Answer
}

// Done is closed when there is an answer. That may take as long as a rebalance.
func (c *Call) Done() <-chan struct{} { return c.done }

// Answer returns the answer to the request, once Done is closed.
func (c *Call) Answer() coordinator.Answer { return c.answer }

func answered(a coordinator.Answer) *Call {
	c := &Call{done: make(chan struct{}), answer: a}
	close(c.done)
	return c
}

// Submit hands a request to the shard of its group and does not wait. Requests of one group are handled in the order of
// the calls. The answer never reveals anything that a crash could undo. The call always ends: with coordinator.ErrLoading
// while the shard reads its partition, with ErrNotAvailable when there is no offsets topic or the runner closes, with
// ErrNotCoordinator when the partition is not led here or its log ended.
func (r *Runner) Submit(req coordinator.Request) *Call {
	s, err := r.shardOf(req.GroupID())
	if err != nil {
		return answered(coordinator.Refuse(req, err))
	}
	return s.submit(req)
}

// Start makes sure that the shard of a group is running or starting, so that later requests find it loaded. It does not
// wait. Errors are those of [Runner.Submit], except ErrLoading.
func (r *Runner) Start(group string) error {
	_, err := r.shardOf(group)
	return err
}

// StartAll starts the shards of all partitions that hold anything: sessions and the retention of offsets continue even
// without requests. Other shards start when they are needed.
func (r *Runner) StartAll() {
	for p := range r.options.Partitions() {
		log, err := r.options.Open(p)
		if err == nil && !log.Empty() {
			_, _ = r.shard(p) // a request for the partition gets the error
		}
	}
}

func (r *Runner) shardOf(group string) (*shard, error) {
	n := r.options.Partitions()
	if n <= 0 {
		return nil, coordinator.ErrNotAvailable
	}
	return r.shard(coordinator.PartitionFor(group, n))
}

// shard returns the shard of a partition, and starts it if there is none.
func (r *Runner) shard(partition int32) (*shard, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return nil, coordinator.ErrNotAvailable
	}
	if old := r.mu.shards[partition]; old != nil {
		if !old.finished() {
			return old, nil
		}
		<-old.ended // it is ending
	}
	log, err := r.options.Open(partition)
	if err != nil {
		return nil, err
	}
	s := newShard(r, partition, log)
	r.mu.shards[partition] = s
	go s.run()
	return s, nil
}

// running returns the existing shards, in the order of partitions.
func (r *Runner) running() []*shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	shards := make([]*shard, 0, len(r.mu.shards))
	for _, s := range r.mu.shards {
		shards = append(shards, s)
	}
	slices.SortFunc(shards, func(a, b *shard) int { return int(a.partition - b.partition) })
	return shards
}

// List asks every shard for its groups. The call's answer is a *coordinator.Listing, sorted by group; its error is
// coordinator.ErrLoading when a shard is still reading its partition.
func (r *Runner) List(ctx context.Context) *coordinator.Listing {
	var calls []*Call
	for _, s := range r.running() {
		calls = append(calls, s.submit(&coordinator.List{}))
	}
	all := &coordinator.Listing{}
	for _, c := range calls {
		select {
		case <-c.done:
		case <-ctx.Done():
			return &coordinator.Listing{Err: coordinator.ErrNotAvailable}
		}
		l, _ := c.answer.(*coordinator.Listing)
		if errors.Is(l.Err, coordinator.ErrLoading) {
			return &coordinator.Listing{Err: l.Err}
		}
		all.Groups = append(all.Groups, l.Groups...) // a failed shard coordinates nothing
	}
	slices.SortFunc(all.Groups, func(a, b coordinator.ListedGroup) int {
		if a.Group < b.Group {
			return -1
		}
		return 1
	})
	return all
}

// TopicsDeleted makes every shard remove the offsets of deleted topics. It does not wait.
func (r *Runner) TopicsDeleted() {
	for _, s := range r.running() {
		s.submit(&coordinator.TopicGone{})
	}
}

// Close ends all shards. Parked requests are answered with coordinator.ErrNotAvailable; appended records are waited for
// until ctx ends. When it returns no goroutine of the runner is left.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.mu.closed = true
	r.mu.Unlock()
	shards := r.running()
	for _, s := range shards {
		s.stop(coordinator.ErrNotAvailable)
	}
	for _, s := range shards {
		select {
		case <-s.ended:
		case <-ctx.Done():
			s.giveUp()
			<-s.ended
		}
	}
	return context.Cause(ctx)
}
