package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
)

// patience says how often a call of a store is tried before its error counts, and how long the pauses between tries are:
// they double from least to most, with up to as much again at random.
type patience struct {
	tries       int
	least, most time.Duration
	// throttled takes the place of least when the store asks its callers to slow down.
	throttled time.Duration
}

// readPatience is for a caller that waits for records: about 20 s, as long as the context allows.
func readPatience() patience {
	return patience{tries: 10, least: 50 * time.Millisecond, most: 3 * time.Second, throttled: 500 * time.Millisecond}
}

// compactPatience is for background work: about 2 min.
func compactPatience() patience {
	return patience{tries: 8, least: minRetry, most: 20 * time.Second, throttled: 5 * time.Second}
}

// delay is how long to wait after a try, counted from 0.
func (p patience) delay(try int, err error) time.Duration {
	least := p.least
	if errors.Is(err, objstore.ErrThrottled) {
		least = p.throttled
	}
	d := min(least<<min(try, 16), p.most)
	return d + rand.N(d)
}

// StoreRetriedEvent describes a call of a store that failed temporarily and will be retried.
type StoreRetriedEvent struct {
	Op    objstore.Op
	Key   string
	Try   int // from 1
	Delay time.Duration
	Err   error
}

// patientStore retries the calls of readers and compaction while the store fails temporarily. Each call is retried alone,
// so that nothing that arrived is requested again. Errors that are not [objstore.Retriable] are returned immediately, and
// so is the end of the context. Starting an upload in parts is retried; its later failures are for the caller.
//
// When the store throttles one call, no other call begins before that one's pause is over: a crowd of readers that
// continues would keep the store overloaded. It is safe for concurrent use.
type patientStore struct {
	objstore.Store
	patience patience
	retried  func(StoreRetriedEvent) // may be nil

	mu    sync.Mutex
	until time.Time // no call begins before
}

func newPatientStore(s objstore.Store, p patience, retried func(StoreRetriedEvent)) *patientStore {
	return &patientStore{Store: s, patience: p, retried: retried}
}

// Get implements [objstore.Store], as do all methods that follow.
func (s *patientStore) Get(ctx context.Context, key string) (b []byte, err error) {
	err = s.do(ctx, objstore.OpGet, key, func() error { b, err = s.Store.Get(ctx, key); return err })
	return b, err
}

func (s *patientStore) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	return s.do(ctx, objstore.OpReadRange, key, func() error { return s.Store.ReadRange(ctx, key, p, off) })
}

func (s *patientStore) Head(ctx context.Context, key string) (info objstore.Info, err error) {
	err = s.do(ctx, objstore.OpHead, key, func() error { info, err = s.Store.Head(ctx, key); return err })
	return info, err
}

func (s *patientStore) Put(ctx context.Context, key string, data []byte) error {
	return s.do(ctx, objstore.OpPut, key, func() error { return s.Store.Put(ctx, key, data) })
}

func (s *patientStore) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.do(ctx, objstore.OpPutIfAbsent, key, func() error { return s.Store.PutIfAbsent(ctx, key, data) })
}

func (s *patientStore) Create(ctx context.Context, key string) (u objstore.Upload, err error) {
	err = s.do(ctx, objstore.OpCreate, key, func() error { u, err = s.Store.Create(ctx, key); return err })
	return u, err
}

// do makes a call until it succeeds, fails permanently, or the patience or the context ends.
func (s *patientStore) do(ctx context.Context, op objstore.Op, key string, call func() error) error {
	for try := 0; ; try++ {
		if err := s.waitForStore(ctx); err != nil {
			return err
		}
		err := call()
		if err == nil || !objstore.Retriable(err) || ctx.Err() != nil || try+1 >= s.patience.tries {
			return err
		}
		delay := s.patience.delay(try, err)
		if errors.Is(err, objstore.ErrThrottled) {
			s.hold(delay)
		}
		if s.retried != nil {
			s.retried(StoreRetriedEvent{Op: op, Key: key, Try: try + 1, Delay: delay, Err: err})
		}
		if pause(ctx, delay) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// hold delays all calls for a while.
func (s *patientStore) hold(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(d); until.After(s.until) {
		s.until = until
	}
}

// waitForStore waits until calls may begin.
func (s *patientStore) waitForStore(ctx context.Context) error {
	for {
		s.mu.Lock()
		left := time.Until(s.until)
		s.mu.Unlock()
		if left <= 0 {
			return nil
		}
		if err := pause(ctx, left); err != nil {
			return err
		}
	}
}
