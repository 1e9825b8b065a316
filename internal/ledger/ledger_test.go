package ledger

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// at returns the record of id as a server shows it at offset.
func at(offset int64, id ID) *kgo.Record {
	r := newRecord("t", id, 0, 100)
	r.Offset = offset
	return r
}

// answered returns what Verify would notice about partition 0 of [0, end) that answers with records.
func answered(l *Ledger, end int64, records ...*kgo.Record) []string {
	return answeredFrom(l, 0, end, records...)
}

// answeredFrom is answered with a log that starts later.
func answeredFrom(l *Ledger, start, end int64, records ...*kgo.Record) []string {
	c := newCheck(l, 0, start, end, l.promised()[0])
	c.checkStart(l.promised()[0])
	for _, r := range records {
		c.record(r)
	}
	c.finish()
	var texts []string
	for _, v := range l.Violations() {
		texts = append(texts, v.String())
	}
	return texts
}

func TestAKeptPromiseIsNoViolation(t *testing.T) {
	l := New("t")
	l.Acknowledged(at(0, ID{0, 0}))
	l.Seen(at(0, ID{0, 0}))
	l.Acknowledged(at(1, ID{1, 0}))
	require.Empty(t, answered(l, 3, at(0, ID{0, 0}), at(1, ID{1, 0}), at(2, ID{0, 1})), "an unacknowledged record may be there")
	require.Empty(t, answered(l, 3, at(0, ID{0, 0}), at(1, ID{1, 0}), at(2, ID{0, 1})), "and again")
}

func TestEachBrokenPromiseIsNamed(t *testing.T) {
	changed := at(0, ID{0, 0})
	changed.Value = append(changed.Value, 0)
	foreign := at(0, ID{0, 0})
	foreign.Key = []byte("w1-01")

	for name, tc := range map[string]struct {
		told   func(*Ledger)
		end    int64
		answer []*kgo.Record
		want   []string
	}{
		"an acknowledged record is gone": {
			told: func(l *Ledger) { l.Acknowledged(at(0, ID{0, 0})); l.Acknowledged(at(1, ID{0, 1})) },
			end:  1, answer: []*kgo.Record{at(0, ID{0, 0})},
			want: []string{"partition 0 offset 1: w0-1 was acknowledged and is gone; the log is [0, 1)"},
		},
		"a record that a reader was shown is gone": {
			told: func(l *Ledger) { l.Seen(at(0, ID{0, 0})) },
			want: []string{"partition 0 offset 0: w0-0 was shown to a reader and is gone; the log is [0, 0)"},
		},
		"an offset is answered with another record": {
			told: func(l *Ledger) { l.Acknowledged(at(0, ID{0, 0})) },
			end:  1, answer: []*kgo.Record{at(0, ID{1, 0})},
			want: []string{"partition 0 offset 0: answered with w0-0 and later with w1-0"},
		},
		"an offset is answered with other bytes": {
			told: func(l *Ledger) { l.Acknowledged(at(0, ID{0, 0})) },
			end:  1, answer: []*kgo.Record{changed},
			want: []string{"partition 0 offset 0: w0-0 was answered with two contents"},
		},
		"an offset is acknowledged twice": {
			told: func(l *Ledger) { l.Acknowledged(at(0, ID{0, 0})); l.Acknowledged(at(0, ID{0, 0})) },
			end:  1, answer: []*kgo.Record{at(0, ID{0, 0})},
			want: []string{"partition 0 offset 0: w0-0 was acknowledged twice"},
		},
		"a record stands twice": {
			told: func(l *Ledger) { l.Acknowledged(at(0, ID{0, 0})) },
			end:  2, answer: []*kgo.Record{at(0, ID{0, 0}), at(1, ID{0, 0})},
			want: []string{
				"partition 0 offset 1: w0-0 stands at offset 0 too",
				"partition 0 offset 1: w0-0 follows w0-0",
			},
		},
		"a writer's records are out of order": {
			told: func(*Ledger) {},
			end:  2, answer: []*kgo.Record{at(0, ID{0, 1}), at(1, ID{0, 0})},
			want: []string{"partition 0 offset 1: w0-0 follows w0-1"},
		},
		"the log has a hole": {
			told: func(*Ledger) {},
			end:  3, answer: []*kgo.Record{at(0, ID{0, 0}), at(2, ID{0, 1})},
			want: []string{"partition 0 offset 1: a hole: the next record is at 2"},
		},
		"a record comes from nowhere": {
			told: func(*Ledger) {},
			end:  1, answer: []*kgo.Record{foreign},
			want: []string{`partition 0 offset 0: a record that no writer sent: ledger: key "w1-01" is not one that a writer made`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := New("t")
			tc.told(l)
			require.Equal(t, tc.want, answered(l, tc.end, tc.answer...))
		})
	}
}

// deleted is a ledger of a partition whose first two records of three were deleted.
func deleted() *Ledger {
	l := New("t")
	for offset := range int64(3) {
		l.Acknowledged(at(offset, ID{0, offset}))
	}
	l.Delete(0, 2, func() (int64, error) { return 2, nil })
	return l
}

func TestWhatWasDeletedMustBeGoneAndNothingElse(t *testing.T) {
	require.Empty(t, answeredFrom(deleted(), 2, 3, at(2, ID{0, 2})))
	require.Equal(t,
		[]string{"partition 0 offset 2: the log starts at 3, and nobody asked for the deletion of this",
			"partition 0 offset 2: w0-2 was acknowledged and is gone; the log is [3, 3)"},
		answeredFrom(deleted(), 3, 3))
	require.Equal(t,
		[]string{"partition 0 offset 1: the log starts here, and the deletion of what is below 2 was acknowledged",
			"partition 0 offset 1: w0-1 follows w0-1"},
		answeredFrom(deleted(), 1, 3, at(1, ID{0, 1}), at(2, ID{0, 2})))
	require.Equal(t, []string{"partition 0 offset 3: w0-0 follows w0-2"},
		answeredFrom(deleted(), 2, 4, at(2, ID{0, 2}), at(3, ID{0, 0})), "a second copy of what was deleted")
}

func TestADeletionOfUnknownFateMayHaveHappenedOrNot(t *testing.T) {
	for start := range int64(3) {
		l := New("t")
		for offset := range int64(3) {
			l.Acknowledged(at(offset, ID{0, offset}))
		}
		l.Delete(0, 2, func() (int64, error) { return 0, errors.New("the connection broke") })
		var kept []*kgo.Record
		for offset := start; offset < 3; offset++ {
			kept = append(kept, at(offset, ID{0, offset}))
		}
		require.Empty(t, answeredFrom(l, start, 3, kept...))
	}
}

func TestADeletionIsNotAcknowledgedWithAStartBelowIt(t *testing.T) {
	l := New("t")
	l.Delete(0, 2, func() (int64, error) { return 1, nil })
	require.Equal(t, []Violation{{0, 1, "the deletion of what is below 2 was acknowledged with a start below that"}},
		l.Violations())
}

func TestStoredOffsetsLieBetweenWhatWasAcknowledgedAndWhatWasSent(t *testing.T) {
	for stored, want := range map[int64][]Violation{
		-1: {{0, 0, "the stored offset of group g; one of 3 was acknowledged"}},
		2:  {{0, 2, "the stored offset of group g; one of 3 was acknowledged"}},
		3:  nil,
		5:  nil,
		6:  {{0, 6, "the stored offset of group g; none above 5 was sent"}},
	} {
		l := New("t")
		l.Commit("g", map[int32]int64{0: 3}, func() error { return nil })
		l.Commit("g", map[int32]int64{0: 5}, func() error { return errors.New("the connection broke") })
		l.checkGroup("g", l.commits()["g"], map[int32]int64{0: stored}, l.commits()["g"])
		require.Equal(t, want, l.Violations(), "%d is stored", stored)
	}
}

func TestAReportWithViolationsIsAnError(t *testing.T) {
	require.NoError(t, Report{Acked: 1, Read: 1}.Err())
	err := Report{Acked: 2, Read: 1, Violations: []Violation{{Partition: 3, Offset: 4, What: "gone"}}}.Err()
	require.EqualError(t, err, "ledger: 1 broken promises (acknowledged 2, read 1)\n  partition 3 offset 4: gone")
}

func TestDigestsTellNullFromEmptyAndHeadersFromValues(t *testing.T) {
	null, empty := &kgo.Record{Key: []byte("k")}, &kgo.Record{Key: []byte("k"), Value: []byte{}}
	shifted := &kgo.Record{Key: []byte("k"), Value: []byte{}, Headers: []kgo.RecordHeader{{}}}
	require.NotEqual(t, DigestOf(null), DigestOf(empty))
	require.NotEqual(t, DigestOf(empty), DigestOf(shifted))
}

func TestARecordFollowsFromItsID(t *testing.T) {
	id := ID{Writer: 7, Seq: 1 << 40}
	parsed, err := ParseID([]byte(id.String()))
	require.NoError(t, err)
	require.Equal(t, id, parsed)
	require.Equal(t, newRecord("t", id, 10, 20), newRecord("t", id, 10, 20))
	require.Len(t, newRecord("t", id, 10, 10).Value, 10)
}

func TestWaitAcksReturnsWhenReachedOrGivenUp(t *testing.T) {
	l := New("t")
	l.Acknowledged(at(0, ID{0, 0}))
	require.NoError(t, l.WaitAcks(t.Context(), 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, errors.Is(l.WaitAcks(ctx, 2), context.Canceled))
}
