package metatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/meta"
)

// ErrCrashed is what a [Memory] answers to those who had it open when it crashed. It is final.
var ErrCrashed = errors.New("metatest: crashed")

// Memory is the storage of a metadata log that survives a crash of the process: what was acknowledged is there when it is
// reopened. A whole server can be tested on it, with [Memory.Open] in place of embedded.Open.
//
// All methods are safe for concurrent use.
type Memory struct {
	clusterID string

	mu        sync.Mutex
	entries   [][]byte // entries[i] has index truncated+1+i
	truncated uint64
	snapshots []stored // ascending, at most two
	sessions  map[*session]bool
	claims    map[string]*memoryClaim

	crashIn   int  // the write that crashes, counted down; 0: none
	crashKeep bool // whether that write is durable
	crashDone chan struct{}
}

type stored struct {
	index uint64
	data  []byte
}

// NewMemory returns an empty log of the given cluster.
func NewMemory(clusterID string) *Memory {
	return &Memory{clusterID: clusterID, sessions: map[*session]bool{}, claims: map[string]*memoryClaim{}}
}

// Open opens the log alone, as one process does with a file: while another backend is open it fails with a
// [*meta.LockedError].
func (m *Memory) Open() (meta.Backend, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sessions) > 0 {
		return nil, &meta.LockedError{Path: "memory"}
	}
	return m.join(), nil
}

// Join opens the log beside others, as the nodes of a cluster do.
func (m *Memory) Join() meta.Backend {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.join()
}

func (m *Memory) join() *session {
	s := &session{m: m, notify: make(chan struct{}, 1)}
	m.sessions[s] = true
	return s
}

// Crash ends every process that has the log open, between two writes: their calls fail with [ErrCrashed] from now on. The
// log can be reopened at once.
func (m *Memory) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crash()
}

func (m *Memory) crash() {
	for s := range m.sessions {
		m.end(s, ErrCrashed)
	}
	m.crashIn = 0
	if m.crashDone != nil {
		close(m.crashDone)
		m.crashDone = nil
	}
}

// CrashAtWrite arranges a crash at the nth write from now, counted from 1, where a write is an append, a snapshot or a
// truncation. keep says whether that write itself is durable; its caller hears of it in neither case. The channel is
// closed when it has happened.
func (m *Memory) CrashAtWrite(n int, keep bool) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashIn, m.crashKeep, m.crashDone = n, keep, make(chan struct{})
	return m.crashDone
}

// Corrupt changes a stored item in place: the entry at index, or the snapshot taken at index. f gets its bytes and returns
// what is stored instead.
func (m *Memory) Corrupt(snapshot bool, index uint64, f func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !snapshot {
		m.entries[index-m.truncated-1] = f(m.entries[index-m.truncated-1])
		return
	}
	for i := range m.snapshots {
		if m.snapshots[i].index == index {
			m.snapshots[i].data = f(m.snapshots[i].data)
		}
	}
}

// end takes a session's keys and closes it. The caller holds the lock.
func (m *Memory) end(s *session, why error) {
	s.ended = why
	delete(m.sessions, s)
	for _, c := range m.claims {
		if c.s == s {
			m.release(c)
		}
	}
}

// Expire takes a key from its holder, as when the holder was not heard of for the time to live. It reports whether anybody
// had it.
func (m *Memory) Expire(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.claims[key]
	if c != nil {
		m.release(c)
	}
	return c != nil
}

// Stall keeps a key from being refreshed from now on: its holder still has it and can no longer prove it.
func (m *Memory) Stall(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.claims[key]; c != nil {
		c.stalled = time.Now()
	}
}

func (m *Memory) release(c *memoryClaim) {
	if m.claims[c.key] == c {
		delete(m.claims, c.key)
		close(c.lost)
	}
}

// write makes one durable change, unless the arranged crash is due.
func (m *Memory) write(change func()) error {
	if m.crashIn > 0 {
		m.crashIn--
		if m.crashIn == 0 {
			if m.crashKeep {
				change()
			}
			m.crash()
			return ErrCrashed
		}
	}
	change()
	return nil
}

func (m *Memory) head() uint64 { return m.truncated + uint64(len(m.entries)) }

// session is the log as one process has it open.
type session struct {
	m      *Memory
	notify chan struct{}
	ended  error // under m.mu
}

var _ meta.Backend = (*session)(nil)

// lock takes the lock if the session may be used.
func (s *session) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.m.mu.Lock()
	if s.ended != nil {
		defer s.m.mu.Unlock()
		return s.ended
	}
	return nil
}

func (s *session) String() string { return "memory" }

func (s *session) ClusterID() string { return s.m.clusterID }

func (s *session) Notify() <-chan struct{} { return s.notify }

func (s *session) Head(ctx context.Context) (uint64, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.m.mu.Unlock()
	return s.m.head(), nil
}

func (s *session) Append(ctx context.Context, index uint64, entry []byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.m.mu.Unlock()
	if head := s.m.head(); index != head+1 {
		return fmt.Errorf("%w: head is %d, append is at %d", meta.ErrConflict, head, index)
	}
	return s.m.write(func() {
		s.m.entries = append(s.m.entries, bytes.Clone(entry))
		for other := range s.m.sessions {
			select {
			case other.notify <- struct{}{}:
			default:
			}
		}
	})
}

func (s *session) Read(ctx context.Context, from uint64, limit int) ([][]byte, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.m.mu.Unlock()
	if from <= s.m.truncated {
		return nil, fmt.Errorf("%w: entry %d", meta.ErrTruncated, from)
	}
	var out [][]byte
	for i := from; i <= s.m.head() && len(out) < limit; i++ {
		out = append(out, bytes.Clone(s.m.entries[i-s.m.truncated-1]))
	}
	return out, nil
}

func (s *session) PutSnapshot(ctx context.Context, index uint64, data []byte) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.m.mu.Unlock()
	if n := len(s.m.snapshots); n > 0 && index <= s.m.snapshots[n-1].index {
		newest := &s.m.snapshots[n-1]
		if index < newest.index || bytes.Equal(data, newest.data) {
			return nil
		}
		return s.m.write(func() { newest.data = bytes.Clone(data) })
	}
	return s.m.write(func() {
		s.m.snapshots = append(s.m.snapshots, stored{index, bytes.Clone(data)})
		if len(s.m.snapshots) > 2 {
			s.m.snapshots = s.m.snapshots[1:]
		}
	})
}

func (s *session) Snapshot(ctx context.Context) (uint64, []byte, error) {
	if err := s.lock(ctx); err != nil {
		return 0, nil, err
	}
	defer s.m.mu.Unlock()
	if len(s.m.snapshots) == 0 {
		return 0, nil, nil
	}
	newest := s.m.snapshots[len(s.m.snapshots)-1]
	return newest.index, bytes.Clone(newest.data), nil
}

func (s *session) OlderSnapshot(ctx context.Context) (uint64, []byte, error) {
	if err := s.lock(ctx); err != nil {
		return 0, nil, err
	}
	defer s.m.mu.Unlock()
	if len(s.m.snapshots) < 2 {
		return 0, nil, nil
	}
	older := s.m.snapshots[len(s.m.snapshots)-2]
	return older.index, bytes.Clone(older.data), nil
}

func (s *session) Truncate(ctx context.Context) (uint64, error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.m.mu.Unlock()
	if len(s.m.snapshots) < 2 {
		return 0, nil
	}
	through := s.m.snapshots[0].index
	if through <= s.m.truncated {
		return through, nil
	}
	err := s.m.write(func() {
		s.m.entries = s.m.entries[through-s.m.truncated:]
		s.m.truncated = through
	})
	return through, err
}

func (s *session) Claim(ctx context.Context, key string, value []byte) (meta.Claim, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.m.mu.Unlock()
	if s.m.claims[key] != nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrClaimed, key)
	}
	c := &memoryClaim{s: s, key: key, value: bytes.Clone(value), lost: make(chan struct{})}
	s.m.claims[key] = c
	return c, nil
}

func (s *session) Claims(ctx context.Context, prefix string) (map[string][]byte, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.m.mu.Unlock()
	out := map[string][]byte{}
	for key, c := range maps.All(s.m.claims) {
		if strings.HasPrefix(key, prefix) {
			out[key] = bytes.Clone(c.value)
		}
	}
	return out, nil
}

func (s *session) Close() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.ended == nil {
		s.m.end(s, meta.ErrClosed)
	}
	return nil
}

type memoryClaim struct {
	s     *session
	key   string
	value []byte
	lost  chan struct{}

	stalled time.Time // since when it has not been refreshed; zero: it is
}

func (c *memoryClaim) Lost() <-chan struct{} { return c.lost }

func (c *memoryClaim) Proved() time.Time {
	c.s.m.mu.Lock()
	defer c.s.m.mu.Unlock()
	if !c.stalled.IsZero() {
		return c.stalled
	}
	return time.Now()
}

func (c *memoryClaim) Release() {
	c.s.m.mu.Lock()
	defer c.s.m.mu.Unlock()
	c.s.m.release(c)
}
