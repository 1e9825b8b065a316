package node

import (
	"context"
	"sync"
	"sync/atomic"
)

// each calls f for the numbers from 0 to n-1, several at the same time, and returns when the last call has returned. Once
// ctx has ended no more calls are begun; each then returns its error.
func each(ctx context.Context, n, workers int, f func(i int)) error {
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
