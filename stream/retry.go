package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Back-off between two tries of one call (3.5).
const (
	minRetry = time.Second
	maxRetry = time.Minute
	jitter   = time.Second
)

// retryDelay is how long to wait after a try, counted from 0.
func retryDelay(try int) time.Duration {
	return min(minRetry<<min(try, 6), maxRetry) + rand.N(jitter)
}

// pause waits, and returns the context's error if it ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retriable reports whether a call of a store or of the catalog may succeed later. Its outcome may be unknown.
func retriable(err error) bool {
	return objstore.Retriable(err) || errors.Is(err, catalog.ErrUnavailable)
}

// retry calls until the outcome is known: nil, an error that is not [retriable], or the context's.
func retry(ctx context.Context, call func() error) error {
	for try := 0; ; try++ {
		err := call()
		if err == nil || !retriable(err) {
			return err
		}
		if pause(ctx, retryDelay(try)) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}
