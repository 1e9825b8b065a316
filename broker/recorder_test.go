package broker

import (
	"sync"
	"testing"
	"time"
)

// patience bounds what a test waits for when something is wrong.
const patience = 5 * time.Minute

// recorder keeps the events of a server.
type recorder struct {
	mu       sync.Mutex
	opened   []Connection
	closed   []ConnectionClosed
	rejected []ConnectionRefused
	done     []RequestDone
	refused  []RequestRefused
	panics   []Panicked
	news     chan struct{} // has a value after an event
}

func newRecorder() *recorder { return &recorder{news: make(chan struct{}, 1)} }

func record[T any](r *recorder, list *[]T) func(T) {
	return func(e T) {
		r.mu.Lock()
		*list = append(*list, e)
		r.mu.Unlock()
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
}

func (r *recorder) events() Events {
	return Events{
		ConnectionOpened:  record(r, &r.opened),
		ConnectionClosed:  record(r, &r.closed),
		ConnectionRefused: record(r, &r.rejected),
		RequestDone:       record(r, &r.done),
		RequestRefused:    record(r, &r.refused),
		Panicked:          record(r, &r.panics),
	}
}

// await waits until the events are as wanted.
func (r *recorder) await(t testing.TB, what string, wanted func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		r.mu.Lock()
		ok := wanted()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.news:
		case <-timeout:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// closing waits for the end of the n-th connection and says how it came.
func (r *recorder) closing(t testing.TB, n int) ConnectionClosed {
	t.Helper()
	r.await(t, "the end of a connection", func() bool { return len(r.closed) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed[n-1]
}
