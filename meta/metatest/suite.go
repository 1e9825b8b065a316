package metatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
)

// Storage is a log's storage as the suite sees it: something that a backend can be opened on, again and again.
type Storage interface {
	// Open opens the log. While it is open, a second Open fails with a [*meta.LockedError], unless the storage is
	// [Shared].
	Open() (meta.Backend, error)
	// Crash ends whoever has the log open as a power cut would. What was acknowledged is there at the next Open.
	Crash()
}

// Shared is storage that several processes may have open at the same time.
type Shared interface {
	Storage
	// Join opens the log beside others.
	Join() (meta.Backend, error)
}

// Run checks that a backend keeps the promises of [meta.Backend]. make returns new, empty storage of the cluster
// "suite-cluster".
func Run(t *testing.T, make func(t *testing.T) Storage) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"an entry goes to the index after the head and nowhere else (B1)", (*suite).appendsAtHeadOnly},
		{"of several appends at one index exactly one wins (B1)", (*suite).oneWinsEachIndex},
		{"what was acknowledged survives a crash (B2)", (*suite).survivesCrash},
		{"entries are read in order and without holes (B3, B6)", (*suite).readsInOrder},
		{"an append whose reply is lost can be found out about (B4)", (*suite).outcomeCanBeLearned},
		{"an append wakes whoever waits (B5)", (*suite).appendNotifies},
		{"a snapshot may be large, the newest wins, and may be stored again (B7)", (*suite).keepsNewestSnapshots},
		{"a key has one holder until it is released or its holder dies (B8)", (*suite).claimsAreExclusive},
		{"one process has the log open, or the head decides (B9)", (*suite).opensOnce},
		{"a truncated index is not a free one (B10)", (*suite).truncationKeepsHead},
		{"truncation removes what the older snapshot covers (MP-6)", (*suite).truncatesBelowOlderSnapshot},
		{"bytes belong to whoever passed or got them", (*suite).bytesAreNotShared},
		{"who gains the lease is the coordinator until another one is (MP-9)", (*suite).oneCoordinates},
		{"a closed backend and an ended context say so", (*suite).closedAndCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &suite{T: t, ctx: context.Background(), storage: make(t)}
			s.open()
			t.Cleanup(func() { s.closeQuietly() })
			test.run(s)
		})
	}
}

// suite is one test's log. Its helpers call as a caller of a lossy network must: again, until there is an answer.
type suite struct {
	*testing.T
	ctx     context.Context
	storage Storage
	b       meta.Backend
	nonce   uint64
}

func (s *suite) open() {
	b, err := s.storage.Open()
	require.NoError(s, err)
	s.b = b
}

func (s *suite) closeQuietly() {
	if s.b != nil {
		_ = s.b.Close()
	}
}

func (s *suite) reopen() {
	require.NoError(s, s.b.Close())
	s.open()
}

func (s *suite) crashAndReopen() {
	s.storage.Crash()
	_ = s.b.Close()
	s.open()
}

// until repeats a call as long as nobody answers.
func until(call func() error) error {
	for {
		if err := call(); !errors.Is(err, meta.ErrUnavailable) && !errors.Is(err, meta.ErrOutcomeUnknown) {
			return err
		}
	}
}

// entry returns an entry of its own, with one command.
func (s *suite) entry(value string) []byte {
	s.nonce++
	b, err := meta.Entry{Node: 1, Nonce: s.nonce, NowMs: int64(s.nonce), Commands: []meta.Command{
		meta.PutKv{Key: fmt.Sprintf("key-%03d", s.nonce), Value: []byte(value)},
	}}.Encode()
	require.NoError(s, err)
	return b
}

// add appends one entry at an index and makes sure that it is there.
func (s *suite) add(index uint64, entry []byte) {
	err := until(func() error { return s.b.Append(s.ctx, index, entry) })
	if err != nil { // an earlier attempt may have got in
		require.ErrorIs(s, err, meta.ErrConflict)
	}
	require.Equal(s, [][]byte{entry}, s.read(index, 1))
}

// fill appends entries at the indexes from, from+1 and so on up to to.
func (s *suite) fill(from, to uint64) [][]byte {
	var out [][]byte
	for i := from; i <= to; i++ {
		e := s.entry(fmt.Sprintf("value %d", i))
		s.add(i, e)
		out = append(out, e)
	}
	return out
}

// read returns exactly n entries from an index on, however few come at a time.
func (s *suite) read(from uint64, n int) [][]byte {
	var out [][]byte
	for len(out) < n {
		var got [][]byte
		require.NoError(s, until(func() (err error) {
			got, err = s.b.Read(s.ctx, from+uint64(len(out)), n-len(out))
			return err
		}))
		if len(got) == 0 {
			break
		}
		require.LessOrEqual(s, len(got), n-len(out))
		out = append(out, got...)
	}
	return out
}

func (s *suite) head() (head uint64) {
	require.NoError(s, until(func() (err error) {
		head, err = s.b.Head(s.ctx)
		return err
	}))
	return head
}

// snapshotAt returns the bytes of a state at index, with a value of the given size.
func (s *suite) snapshotAt(index uint64, size int) []byte {
	state := meta.Empty()
	commands := []meta.Command{meta.PutKv{Key: "at", Value: fmt.Append(nil, index)}}
	for i := 0; size > 0; i++ {
		n := min(size, meta.MaxValueBytes)
		commands = append(commands, meta.PutKv{Key: fmt.Sprintf("part-%d", i), Value: make([]byte, n)})
		size -= n
	}
	state, _ = state.Apply(index, meta.Entry{Commands: commands})
	return state.EncodeSnapshot()
}

func (s *suite) putSnapshot(index uint64, data []byte) {
	require.NoError(s, until(func() error { return s.b.PutSnapshot(s.ctx, index, data) }))
}

func (s *suite) requireSnapshot(index uint64, data []byte) {
	var gotIndex uint64
	var got []byte
	require.NoError(s, until(func() (err error) {
		gotIndex, got, err = s.b.Snapshot(s.ctx)
		return err
	}))
	require.Equal(s, index, gotIndex)
	require.True(s, string(data) == string(got), "the snapshot's %d bytes are not the %d that were stored", len(got), len(data))
}

// requireOlder checks which snapshot is the one before the newest.
func (s *suite) requireOlder(index uint64, data []byte) {
	var gotIndex uint64
	var got []byte
	require.NoError(s, until(func() (err error) {
		gotIndex, got, err = s.b.OlderSnapshot(s.ctx)
		return err
	}))
	require.Equal(s, index, gotIndex)
	require.True(s, string(data) == string(got), "the snapshot's %d bytes are not the %d that were stored", len(got), len(data))
}

func (s *suite) truncate() (through uint64) {
	require.NoError(s, until(func() (err error) {
		through, err = s.b.Truncate(s.ctx)
		return err
	}))
	return through
}

func (s *suite) appendsAtHeadOnly() {
	require.Equal(s, uint64(0), s.head())
	s.fill(1, 3)
	for _, index := range []uint64{0, 1, 2, 3, 5, 6, 1 << 40} {
		entry := s.entry("misplaced")
		err := until(func() error { return s.b.Append(s.ctx, index, entry) })
		require.ErrorIs(s, err, meta.ErrConflict, "append at %d", index)
		require.Equal(s, uint64(3), s.head())
	}
}

func (s *suite) oneWinsEachIndex() {
	const rivals, indexes = 4, 8
	for index := uint64(1); index <= indexes; index++ {
		entries := make([][]byte, rivals)
		for i := range entries {
			entries[i] = s.entry(fmt.Sprintf("rival %d", i))
		}
		errs := make([]error, rivals)
		var rivalry sync.WaitGroup
		for i := range entries {
			rivalry.Go(func() { errs[i] = until(func() error { return s.b.Append(s.ctx, index, entries[i]) }) })
		}
		rivalry.Wait()
		require.Equal(s, index, s.head())
		winner := s.read(index, 1)[0]
		require.Contains(s, entries, winner)
		for i, err := range errs {
			if err == nil {
				require.Equal(s, entries[i], winner, "an append that was acknowledged is not what the log holds")
			} else {
				require.ErrorIs(s, err, meta.ErrConflict)
			}
		}
	}
}

func (s *suite) survivesCrash() {
	var want [][]byte
	for round := uint64(0); round < 5; round++ {
		want = append(want, s.fill(3*round+1, 3*round+3)...)
		if round == 2 {
			s.reopen()
		} else {
			s.crashAndReopen()
		}
		require.Equal(s, uint64(len(want)), s.head())
		require.Equal(s, want, s.read(1, len(want)))
		require.Equal(s, "suite-cluster", s.b.ClusterID())
	}
}

func (s *suite) readsInOrder() {
	want := s.fill(1, 20)
	require.Equal(s, want, s.read(1, 20))
	require.Equal(s, want[6:9], s.read(7, 3))
	require.Equal(s, want[17:], s.read(18, 100))
	require.Empty(s, s.read(21, 10))
	require.Empty(s, s.read(1000, 10))
}

func (s *suite) outcomeCanBeLearned() {
	for index := uint64(1); index <= 40; index++ {
		entry := s.entry("asked about")
		err := s.b.Append(s.ctx, index, entry)
		for errors.Is(err, meta.ErrUnavailable) || errors.Is(err, meta.ErrOutcomeUnknown) {
			if got := s.read(index, 1); len(got) == 1 {
				require.Equal(s, entry, got[0])
				break
			}
			err = s.b.Append(s.ctx, index, entry)
		}
		require.Equal(s, [][]byte{entry}, s.read(index, 1))
		require.Equal(s, index, s.head())
	}
}

func (s *suite) appendNotifies() {
	select {
	case <-s.b.Notify():
	default:
	}
	for index := uint64(1); index <= 3; index++ {
		s.fill(index, index)
		<-s.b.Notify()
	}
}

func (s *suite) keepsNewestSnapshots() {
	s.requireSnapshot(0, nil)
	s.requireOlder(0, nil)
	s.fill(1, 9)
	large := s.snapshotAt(3, 3<<20)
	s.putSnapshot(3, large)
	s.requireSnapshot(3, large)
	s.requireOlder(0, nil)
	s.putSnapshot(2, s.snapshotAt(2, 0))
	s.requireSnapshot(3, large)
	s.crashAndReopen()
	s.requireSnapshot(3, large)
	again := s.snapshotAt(3, 2<<20) // as if the one that is there was damaged
	s.putSnapshot(3, again)
	s.requireSnapshot(3, again)
	s.requireOlder(0, nil)
	s.putSnapshot(3, again)
	s.requireSnapshot(3, again)
	for _, index := range []uint64{5, 7, 9} {
		newer := s.snapshotAt(index, 10)
		s.putSnapshot(index, newer)
		s.requireSnapshot(index, newer)
	}
	s.requireOlder(7, s.snapshotAt(7, 10))
	s.putSnapshot(9, s.snapshotAt(9, 20))
	s.putSnapshot(7, s.snapshotAt(7, 20))
	s.requireOlder(7, s.snapshotAt(7, 10))
	s.reopen()
	s.requireSnapshot(9, s.snapshotAt(9, 20))
	s.requireOlder(7, s.snapshotAt(7, 10))
}

func (s *suite) claim(key, value string) (c meta.Claim, err error) {
	err = until(func() (err error) {
		c, err = s.b.Claim(s.ctx, key, []byte(value))
		return err
	})
	return c, err
}

func (s *suite) requireClaims(prefix string, want map[string][]byte) {
	var got map[string][]byte
	require.NoError(s, until(func() (err error) {
		got, err = s.b.Claims(s.ctx, prefix)
		return err
	}))
	require.Equal(s, want, got)
}

func (s *suite) claimsAreExclusive() {
	one, err := s.claim("live/1", "first")
	require.NoError(s, err)
	_, err = s.claim("live/2", "second")
	require.NoError(s, err)
	_, err = s.claim("lease/meta", "")
	require.NoError(s, err)
	_, err = s.claim("live/1", "rival")
	require.ErrorIs(s, err, meta.ErrClaimed)
	s.requireClaims("live/", map[string][]byte{"live/1": []byte("first"), "live/2": []byte("second")})

	select {
	case <-one.Lost():
		s.Fatal("a claim that is held says that it is lost")
	default:
	}
	require.False(s, one.Proved().IsZero())
	one.Release()
	one.Release()
	<-one.Lost()
	again, err := s.claim("live/1", "again")
	require.NoError(s, err)
	one.Release() // the old claim must not give up the new one
	_, err = s.claim("live/1", "rival")
	require.ErrorIs(s, err, meta.ErrClaimed)

	s.crashAndReopen()
	<-again.Lost()
	s.requireClaims("", map[string][]byte{})
	_, err = s.claim("live/1", "after the crash")
	require.NoError(s, err)
}

func (s *suite) opensOnce() {
	if shared, ok := s.storage.(Shared); ok {
		s.sharesTheLog(shared)
		return
	}
	_, err := s.storage.Open()
	var locked *meta.LockedError
	require.ErrorAs(s, err, &locked)
	s.fill(1, 2)
	s.reopen()
	require.Equal(s, uint64(2), s.head())
}

// sharesTheLog checks that several processes can have the log open, and that the head decides between them.
func (s *suite) sharesTheLog(shared Shared) {
	other, err := shared.Join()
	require.NoError(s, err)
	defer other.Close()
	select {
	case <-s.b.Notify():
	default:
	}
	entry := s.entry("of the other one")
	require.NoError(s, until(func() error { return other.Append(s.ctx, 1, entry) }))
	<-s.b.Notify()
	require.Equal(s, [][]byte{entry}, s.read(1, 10))
	err = until(func() error { return s.b.Append(s.ctx, 1, s.entry("too late")) })
	require.ErrorIs(s, err, meta.ErrConflict)
	s.fill(2, 2)
	var got uint64
	require.NoError(s, until(func() (err error) { got, err = other.Head(s.ctx); return err }))
	require.Equal(s, uint64(2), got)

	var claim meta.Claim
	require.NoError(s, until(func() (err error) {
		claim, err = other.Claim(s.ctx, "lease/meta", []byte("other"))
		return err
	}))
	_, err = s.claim("lease/meta", "mine")
	require.ErrorIs(s, err, meta.ErrClaimed)
	s.requireClaims("lease/", map[string][]byte{"lease/meta": []byte("other")})
	claim.Release()
	_, err = s.claim("lease/meta", "mine")
	require.NoError(s, err)
}

// process is a log and its member over a backend.
type process struct {
	log    *meta.Log
	member *meta.Member
}

func (s *suite) join(b meta.Backend, node int32) process {
	l, err := meta.Open(s.ctx, b, meta.Options{Node: node})
	require.NoError(s, err)
	m, err := meta.Join(s.ctx, l, meta.MemberOptions{Node: node, Tick: 5 * time.Millisecond, Announce: true})
	require.NoError(s, err)
	return process{l, m}
}

func (p process) end(s *suite) {
	p.member.Close()
	require.NoError(s, p.log.Close())
}

// leads waits until a process leads as the coordinator of an epoch.
func (p process) leads(s *suite, epoch int64) {
	patience := time.After(time.Minute)
	for {
		changed := p.log.Changes()
		if now, leads := p.log.CoordinatorEpoch(); leads && now == epoch {
			return
		}
		select {
		case <-changed:
		case <-patience:
			s.Fatalf("%v is the coordinator, not epoch %d", p.log.View().Coordinator(), epoch)
		}
	}
}

func (s *suite) oneCoordinates() {
	first := s.join(s.b, 1)
	require.NoError(s, until(func() error { return first.member.RaiseLevel(s.ctx, meta.LevelStreams) }))
	first.leads(s, 1)
	require.Equal(s, meta.LevelTables, first.log.View().Level())
	stale := meta.RegisterCoordinator{Node: 1, NodeEpoch: first.member.Epoch(), ExpectedEpoch: 1}
	first.end(s)

	again := s.join(s.b, 1)
	again.leads(s, 2)
	_, err := again.log.Do(s.ctx, stale)
	require.ErrorIs(s, err, meta.NodeEpochMismatch, "of a process that is gone")
	stale.NodeEpoch = again.member.Epoch()
	_, err = again.log.Do(s.ctx, stale)
	require.ErrorIs(s, err, meta.CoordinatorFenced)
	require.NoError(s, until(func() error { return again.log.ConfirmLead(s.ctx) }))

	shared, ok := s.storage.(Shared)
	if !ok {
		again.end(s)
		return
	}
	b, err := shared.Join()
	require.NoError(s, err)
	defer b.Close()
	other := s.join(b, 2)
	require.ErrorIs(s, until(func() error { return other.log.ConfirmLead(s.ctx) }), meta.ErrNotLeading)
	led, stop := again.log.WhileLeading(s.ctx)
	defer stop()
	again.log.Resign(time.Hour)
	other.leads(s, 3)
	<-led.Done()
	require.ErrorIs(s, context.Cause(led), meta.ErrNotLeading)
	require.ErrorIs(s, until(func() error { return again.log.ConfirmLead(s.ctx) }), meta.ErrNotLeading)
	_, err = again.log.Do(s.ctx, meta.LeadBucket{Node: 1, NodeEpoch: again.member.Epoch(), CoordinatorEpoch: 2})
	require.ErrorIs(s, err, meta.CoordinatorFenced)
	other.end(s)
	again.log.Candidate()
	again.leads(s, 4)
	again.end(s)
}

func (s *suite) truncationKeepsHead() {
	s.fill(1, 10)
	s.putSnapshot(4, s.snapshotAt(4, 0))
	s.putSnapshot(10, s.snapshotAt(10, 0))
	require.Equal(s, uint64(4), s.truncate())
	require.Equal(s, uint64(10), s.head())
	for _, index := range []uint64{1, 3, 4, 5, 10} {
		err := until(func() error { return s.b.Append(s.ctx, index, s.entry("fork")) })
		require.ErrorIs(s, err, meta.ErrConflict, "append at truncated index %d", index)
	}
	s.fill(11, 11)
	require.Equal(s, uint64(11), s.head())
}

func (s *suite) truncatesBelowOlderSnapshot() {
	want := s.fill(1, 12)
	require.Equal(s, uint64(0), s.truncate(), "without a snapshot nothing may go")
	s.putSnapshot(5, s.snapshotAt(5, 0))
	require.Equal(s, uint64(0), s.truncate(), "with one snapshot nothing may go")
	s.putSnapshot(9, s.snapshotAt(9, 0))
	require.Equal(s, uint64(5), s.truncate())
	require.Equal(s, want[5:], s.read(6, 7))
	for range 2 {
		for _, gone := range []uint64{1, 5} {
			err := until(func() error { _, err := s.b.Read(s.ctx, gone, 10); return err })
			require.ErrorIs(s, err, meta.ErrTruncated)
		}
		s.crashAndReopen()
		require.Equal(s, want[5:], s.read(6, 7))
	}
	s.putSnapshot(12, s.snapshotAt(12, 0))
	require.Equal(s, uint64(9), s.truncate())
	s.reopen()
	require.Equal(s, want[9:], s.read(10, 10))
	s.fill(13, 13)
}

func (s *suite) bytesAreNotShared() {
	entry := s.entry("mine")
	want := string(entry)
	s.add(1, entry)
	clear(entry)
	got := s.read(1, 1)[0]
	require.Equal(s, want, string(got))
	clear(got)
	require.Equal(s, want, string(s.read(1, 1)[0]))

	snapshot := s.snapshotAt(1, 0)
	kept := append([]byte{}, snapshot...)
	s.putSnapshot(1, snapshot)
	clear(snapshot)
	s.requireSnapshot(1, kept)
}

func (s *suite) closedAndCancelled() {
	s.fill(1, 1)
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	require.ErrorIs(s, until(func() error { return s.b.Append(ended, 2, s.entry("late")) }), context.Canceled)
	require.ErrorIs(s, until(func() error { _, err := s.b.Head(ended); return err }), context.Canceled)
	require.NoError(s, s.b.Close())
	require.ErrorIs(s, until(func() error { return s.b.Append(s.ctx, 2, s.entry("late")) }), meta.ErrClosed)
	require.ErrorIs(s, until(func() error { _, err := s.b.Head(s.ctx); return err }), meta.ErrClosed)
	require.ErrorIs(s, until(func() error { _, err := s.b.Read(s.ctx, 1, 1); return err }), meta.ErrClosed)
	require.ErrorIs(s, until(func() error { _, _, err := s.b.Snapshot(s.ctx); return err }), meta.ErrClosed)
	require.ErrorIs(s, until(func() error { _, err := s.b.Claim(s.ctx, "k", nil); return err }), meta.ErrClosed)
	s.b = nil
}
