package metatest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/tidemark-io/tidemark/meta"
)

// Lossy returns a backend that misbehaves the way a network does in front of one that does not: appends whose request or
// reply is lost, that are delivered twice, or that arrive long after their caller gave up; calls that find nobody; reads
// that return less than they could; wake-ups for nothing. The same seed misbehaves in the same way for the same calls.
// Close closes the backend behind it too.
func Lossy(behind meta.Backend, seed uint64) meta.Backend {
	l := &lossy{Backend: behind, rand: rand.New(rand.NewPCG(seed, 0)), notify: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{})}
	go l.forward()
	return l
}

type lossy struct {
	meta.Backend
	notify     chan struct{}
	stop, done chan struct{}
	closing    sync.Once

	mu   sync.Mutex
	rand *rand.Rand
	late []lateAppend
}

// lateAppend is a request that is still under way.
type lateAppend struct {
	index uint64
	entry []byte
}

// forward passes wake-ups on until Close.
func (l *lossy) forward() {
	defer close(l.done)
	for {
		select {
		case <-l.Backend.Notify():
			l.wake()
		case <-l.stop:
			return
		}
	}
}

func (l *lossy) wake() {
	select {
	case l.notify <- struct{}{}:
	default:
	}
}

// roll draws from 0 to n-1. Now and then it delivers what is under way, and wakes everybody for nothing.
func (l *lossy) roll(ctx context.Context, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) > 0 && l.rand.IntN(2) == 0 {
		late := l.late[0]
		l.late = l.late[1:]
		_ = l.Backend.Append(ctx, late.index, late.entry) // nobody waits for the reply
	}
	if l.rand.IntN(8) == 0 {
		l.wake()
	}
	return l.rand.IntN(n)
}

// away fails one call in eight.
func (l *lossy) away(ctx context.Context) error {
	if l.roll(ctx, 8) == 0 {
		return fmt.Errorf("%w: the network is down", meta.ErrUnavailable)
	}
	return nil
}

func lost(what string) error { return fmt.Errorf("%w: the %s was lost", meta.ErrOutcomeUnknown, what) }

func (l *lossy) Append(ctx context.Context, index uint64, entry []byte) error {
	switch l.roll(ctx, 16) {
	case 0:
		return lost("request")
	case 1:
		if err := l.Backend.Append(ctx, index, entry); err != nil {
			return err
		}
		return lost("reply")
	case 2: // sent twice; the second reply arrives first
		if err := l.Backend.Append(ctx, index, entry); err != nil {
			return err
		}
		return l.Backend.Append(ctx, index, entry)
	case 3:
		l.mu.Lock()
		l.late = append(l.late, lateAppend{index, bytes.Clone(entry)})
		l.mu.Unlock()
		return lost("reply, and the request is late")
	case 4:
		return fmt.Errorf("%w: the network is down", meta.ErrUnavailable)
	}
	return l.Backend.Append(ctx, index, entry)
}

func (l *lossy) Notify() <-chan struct{} { return l.notify }

func (l *lossy) Head(ctx context.Context) (uint64, error) {
	if err := l.away(ctx); err != nil {
		return 0, err
	}
	return l.Backend.Head(ctx)
}

func (l *lossy) Read(ctx context.Context, from uint64, limit int) ([][]byte, error) {
	if err := l.away(ctx); err != nil {
		return nil, err
	}
	return l.Backend.Read(ctx, from, min(limit, 1+l.roll(ctx, 8)))
}

func (l *lossy) PutSnapshot(ctx context.Context, index uint64, data []byte) error {
	if err := l.away(ctx); err != nil {
		return err
	}
	if err := l.Backend.PutSnapshot(ctx, index, data); err != nil {
		return err
	}
	if l.roll(ctx, 8) == 0 {
		return lost("reply")
	}
	return nil
}

func (l *lossy) Snapshot(ctx context.Context) (uint64, []byte, error) {
	if err := l.away(ctx); err != nil {
		return 0, nil, err
	}
	return l.Backend.Snapshot(ctx)
}

func (l *lossy) OlderSnapshot(ctx context.Context) (uint64, []byte, error) {
	if err := l.away(ctx); err != nil {
		return 0, nil, err
	}
	return l.Backend.OlderSnapshot(ctx)
}

func (l *lossy) Truncate(ctx context.Context) (uint64, error) {
	if err := l.away(ctx); err != nil {
		return 0, err
	}
	return l.Backend.Truncate(ctx)
}

func (l *lossy) Claim(ctx context.Context, key string, value []byte) (meta.Claim, error) {
	if err := l.away(ctx); err != nil {
		return nil, err
	}
	return l.Backend.Claim(ctx, key, value)
}

func (l *lossy) Claims(ctx context.Context, prefix string) (map[string][]byte, error) {
	if err := l.away(ctx); err != nil {
		return nil, err
	}
	return l.Backend.Claims(ctx, prefix)
}

func (l *lossy) Close() error {
	l.closing.Do(func() { close(l.stop) })
	<-l.done
	return l.Backend.Close()
}
