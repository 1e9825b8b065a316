// Package parallel runs many small tasks, a few at the same time.
package parallel

import (
	"context"
	"sync"
	"sync/atomic"
)

// Each calls f for the numbers from 0 to n-1, up to workers of them at the same time, and returns when the last call has
// returned. Once ctx has ended no further calls are started, and if one was left out the context's cause is returned.
func Each(ctx context.Context, n, workers int, f func(i int)) error {
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(n, workers) {
		running.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	running.Wait()
	if int(next.Load()) < n {
		return context.Cause(ctx)
	}
	return nil
}
