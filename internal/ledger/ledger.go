package ledger

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Ledger records what the clients of one topic were told. The zero value is not usable; call [New]. All methods are safe
// for concurrent use.
type Ledger struct {
	topic string

	// reading is held while the log is read back, so that nothing is deleted meanwhile. It is taken before mu.
	reading sync.Mutex

	mu struct {
		sync.Mutex
		books      map[int32]*book
		commits    map[string]map[int32]*commit // by group
		ends       map[int32]int64              // after the last offset that any client saw; replaced, not changed
		sending    map[ID]map[int32]int64       // for records in flight, the value of ends when they were sent
		acked      int64
		unknown    int64
		violations []Violation
		changed    chan struct{} // closed and replaced at each acknowledgement, of records and of offsets
	}
}

// book is the ledger of one partition.
type book struct {
	at    map[int64]entry // the answer for each offset
	where map[ID]int64    // where each record was acknowledged or seen
	shown int64           // after the last record that a reader was shown

	deleting int64         // records below it may be gone: their deletion was requested
	deleted  int64         // records below it must be gone: their deletion was acknowledged
	before   map[int]int64 // the last number of each writer among the records that were forgotten with them
}

type entry struct {
	id     ID
	digest Digest
	acked  bool // acknowledged to the writer; otherwise only shown to a reader
}

// Violation is one broken promise.
type Violation struct {
	Partition int32
	Offset    int64 // -1 if it concerns no single offset
	What      string
}

// String describes what was broken and where.
func (v Violation) String() string {
	return fmt.Sprintf("partition %d offset %d: %s", v.Partition, v.Offset, v.What)
}

// New returns an empty ledger for the named topic.
func New(topic string) *Ledger {
	l := &Ledger{topic: topic}
	l.mu.books = map[int32]*book{}
	l.mu.commits = map[string]map[int32]*commit{}
	l.mu.sending = map[ID]map[int32]int64{}
	l.mu.changed = make(chan struct{})
	return l
}

// Acknowledged records that the server acknowledged r and assigned it its Partition and Offset.
func (l *Ledger) Acknowledged(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked(r, true)
	l.mu.acked++
	l.tellLocked()
}

func (l *Ledger) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellLocked()
}

// tellLocked has everybody look who waits for an acknowledgement.
func (l *Ledger) tellLocked() {
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
}

// Seen records that the server showed r, at its offset, to a reader.
func (l *Ledger) Seen(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked(r, false)
	b := l.bookLocked(r.Partition)
	b.shown = max(b.shown, r.Offset+1)
}

// Compare checks r, as the server showed it to somebody, against the ledger's entry for its offset, and reports whether
// there is one. It records nothing but a difference, so that r may come late, for example after it was deleted.
func (l *Ledger) Compare(r *kgo.Record) bool {
	id, err := ParseID(r.Key)
	digest := DigestOf(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.bookLocked(r.Partition).at[r.Offset]
	if err == nil && (!ok || known.id == id && known.digest == digest) {
		return ok
	}
	l.mu.violations = append(l.mu.violations, Violation{
		Partition: r.Partition, Offset: r.Offset, What: fmt.Sprintf("shown with other bytes than those of %s", known.id),
	})
	return ok
}

func (l *Ledger) bookLocked(partition int32) *book {
	b := l.mu.books[partition]
	if b == nil {
		b = &book{at: map[int64]entry{}, where: map[ID]int64{}, before: map[int]int64{}}
		l.mu.books[partition] = b
	}
	return b
}

// Unknown counts a record whose fate the writer does not know. It may be in the log, once, or not.
func (l *Ledger) Unknown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.unknown++
}

// Violated adds a broken promise that a client noticed itself.
func (l *Ledger) Violated(v Violation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.violations = append(l.mu.violations, v)
}

// Acks returns how many acknowledgements were recorded.
func (l *Ledger) Acks() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.acked
}

// Unknowns returns how many records' fates stayed unknown.
func (l *Ledger) Unknowns() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.unknown
}

// Violations returns the broken promises so far, in the order in which they were noticed.
func (l *Ledger) Violations() []Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Violation(nil), l.mu.violations...)
}

// WaitAcks blocks until at least n acknowledgements were recorded or ctx ends, whose error it returns.
func (l *Ledger) WaitAcks(ctx context.Context, n int64) error {
	return l.wait(ctx, func() error {
		if l.mu.acked < n {
			return fmt.Errorf("%d of %d acknowledgements", l.mu.acked, n)
		}
		return nil
	})
}

// wait blocks until lacking, which is called with the lock held at each acknowledgement, returns nil, or until ctx ends; then
// the error is both.
func (l *Ledger) wait(ctx context.Context, lacking func() error) error {
	for {
		l.mu.Lock()
		err, changed := lacking(), l.mu.changed
		l.mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("ledger: %w: %w", err, ctx.Err())
		}
	}
}

func (l *Ledger) noteLocked(r *kgo.Record, acked bool) {
	violated := func(format string, args ...any) {
		l.mu.violations = append(l.mu.violations,
			Violation{Partition: r.Partition, Offset: r.Offset, What: fmt.Sprintf(format, args...)})
	}
	id, err := ParseID(r.Key)
	if err != nil {
		violated("a record that no writer sent: %v", err)
		return
	}
	b := l.bookLocked(r.Partition)
	now := entry{id: id, digest: DigestOf(r), acked: acked}
	before, known := b.at[r.Offset]
	switch {
	case known && before.id != now.id:
		violated("answered with %s and later with %s", before.id, now.id)
		return
	case known && before.digest != now.digest:
		violated("%s was answered with two contents", id)
		return
	case known && before.acked && now.acked:
		violated("%s was acknowledged twice", id)
		return
	}
	if other, elsewhere := b.where[id]; elsewhere && other != r.Offset {
		violated("%s stands at offset %d too", id, other)
		return
	}
	if r.Offset >= l.mu.ends[r.Partition] {
		ends := maps.Clone(l.mu.ends)
		if ends == nil {
			ends = map[int32]int64{}
		}
		ends[r.Partition] = r.Offset + 1
		l.mu.ends = ends
	}
	now.acked = now.acked || before.acked
	b.at[r.Offset] = now
	b.where[id] = r.Offset
}

// promise is what the server owes for one partition at some moment.
type promise struct {
	entries           map[int64]entry
	deleting, deleted int64
	before            map[int]int64
}

// promised returns a copy of what the server owes for each partition now.
func (l *Ledger) promised() map[int32]promise {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[int32]promise, len(l.mu.books))
	for p, b := range l.mu.books {
		all[p] = promise{entries: maps.Clone(b.at), deleting: b.deleting, deleted: b.deleted, before: maps.Clone(b.before)}
	}
	return all
}
