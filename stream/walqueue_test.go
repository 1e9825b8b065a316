package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

var testLimits = walLimits{
	batchBytes: 1000, batchInterval: 100 * time.Millisecond, maxUnflushed: 5000, inflight: 3, maxPutAge: time.Minute,
}

// queueAt is a queue with a clock of its own.
type queueAt struct {
	*walQueue
	t   *testing.T
	now time.Time
}

func newQueueAt(t *testing.T, limits walLimits) *queueAt {
	return &queueAt{walQueue: newWALQueue(limits, 0), t: t, now: time.Unix(1_700_000_000, 0)}
}

// add submits a record whose frame has size bytes.
func (q *queueAt) add(stream catalog.StreamID, base int64, size int) {
	q.t.Helper()
	require.NoError(q.t, q.submit(q.item(stream, base, size), q.now, q.now))
}

func (q *queueAt) item(stream catalog.StreamID, base int64, size int) *walItem {
	empty := FrameLen(Record{})
	return &walItem{record: Record{Stream: stream, Base: base, Count: 1, Payload: make([]byte, size-empty)}}
}

// groups says how many records each sealed group has.
func (q *queueAt) groups() []int {
	counts := []int{}
	for _, g := range q.sealed {
		counts = append(counts, len(g.items))
	}
	return counts
}

func TestWAL3_ALoneRecordOfAnIdleLogIsSealedAtOnce(t *testing.T) {
	q := newQueueAt(t, testLimits)
	q.add(1, 0, 100)
	require.Equal(t, []int{1}, q.groups())
	q.add(1, 1, 100)
	require.Equal(t, []int{1}, q.groups(), "the log is no longer idle")
	due, waiting := q.deadline()
	require.True(t, waiting)
	require.Equal(t, q.now.Add(testLimits.batchInterval), due)
	q.now = due.Add(-1)
	q.tick(q.now, q.now)
	require.Equal(t, []int{1}, q.groups())
	q.now = due
	q.tick(q.now, q.now)
	require.Equal(t, []int{1, 1}, q.groups())
	q.now = q.now.Add(testLimits.batchInterval)
	q.add(1, 2, 100)
	require.Equal(t, []int{1, 1, 1}, q.groups(), "idle again")
}

func TestWAL2_AFullGroupIsSealed(t *testing.T) {
	q := newQueueAt(t, testLimits)
	q.add(1, 0, 100) // makes the log busy
	q.add(1, 1, 400)
	q.add(1, 2, 600)
	require.Equal(t, []int{1}, q.groups(), "exactly full")
	q.add(1, 3, 100)
	require.Equal(t, []int{1, 2}, q.groups())
	q.add(1, 4, 1500) // travels alone
	require.Equal(t, []int{1, 2, 1}, q.groups())
	q.add(1, 5, 100)
	require.Equal(t, []int{1, 2, 1, 1}, q.groups())
	q.seal(q.now, q.now)
	q.seal(q.now, q.now)
	require.Equal(t, []int{1, 2, 1, 1, 1}, q.groups(), "there is no empty group")
	for i, g := range q.sealed {
		require.EqualValues(t, i*Window, g.window)
	}
}

func TestWAL4_FramesAreSortedAndAcknowledgementsAreNot(t *testing.T) {
	q := newQueueAt(t, testLimits)
	q.add(1, 0, 100)
	q.add(7, 20, 100)
	q.add(3, 10, 100)
	q.add(7, 10, 100)
	q.seal(q.now, q.now)
	g := q.sealed[1]
	var places, order []int64
	for _, r := range g.records() {
		places = append(places, int64(r.Stream), r.Base)
	}
	for _, item := range g.items {
		order = append(order, int64(item.record.Stream), item.offset-g.window)
	}
	require.Equal(t, []int64{3, 10, 7, 10, 7, 20}, places)
	require.Equal(t, []int64{7, 200, 3, 0, 7, 100}, order)
}

func TestWAL5_UploadsRunAheadOfTheFirstUnfinishedOnlySoFar(t *testing.T) {
	q := newQueueAt(t, testLimits)
	for i := range int64(6) {
		q.add(1, i, 100)
		q.seal(q.now, q.now)
	}
	started := q.takeUploads()
	require.Len(t, started, 3)
	require.Empty(t, q.takeUploads())
	for _, g := range started[1:] {
		acked, err := q.finish(g, q.now)
		require.NoError(t, err)
		require.Empty(t, acked, "F4: held until the first is done")
	}
	require.Empty(t, q.takeUploads(), "the first one is stuck")
	acked, err := q.finish(started[0], q.now)
	require.NoError(t, err)
	require.Equal(t, started, acked)
	require.Len(t, q.takeUploads(), 3)
	require.EqualValues(t, 300, q.unflushed)
}

func TestWAL9_ARecordOverTheCapacityChangesNothing(t *testing.T) {
	q := newQueueAt(t, testLimits)
	for i := range int64(5) {
		q.add(1, i, 1000)
	}
	before := *q.walQueue
	require.ErrorIs(t, q.submit(q.item(1, 5, 100), q.now, q.now), ErrOverCapacity)
	require.Equal(t, before, *q.walQueue)
	q.seal(q.now, q.now)
	for _, g := range q.takeUploads()[:1] {
		_, err := q.finish(g, q.now)
		require.NoError(t, err)
	}
	q.add(1, 5, 100)
}

func TestF42_RecordsAroundTheCapacityPassOrFailAtOnce(t *testing.T) {
	for _, size := range []int{2500, 4999, 5000, 5001, 15000} {
		q := newQueueAt(t, testLimits)
		q.add(1, 0, size)
		q.seal(q.now, q.now)
		require.ErrorIs(t, q.submit(q.item(1, 1, 5000), q.now, q.now), ErrOverCapacity)
		acked, err := q.finish(q.takeUploads()[0], q.now)
		require.NoError(t, err)
		require.Len(t, acked, 1)
		q.add(1, 1, 5000)
	}
	q := newQueueAt(t, testLimits)
	require.ErrorIs(t, q.submit(q.item(1, 0, Window+1), q.now, q.now), ErrRecordTooLarge)
	require.True(t, q.idle())
}

func TestWAL12_NothingIsAcknowledgedOnAnOldProof(t *testing.T) {
	q := newQueueAt(t, testLimits)
	q.add(1, 0, 100)
	q.now = q.now.Add(testLimits.maxPutAge)
	q.add(1, 1, 100)
	uploads := q.takeUploads()
	acked, err := q.finish(uploads[0], q.now)
	require.NoError(t, err)
	require.Len(t, acked, 1, "just in time")
	acked, err = q.finish(uploads[1], q.now.Add(testLimits.maxPutAge+1))
	require.ErrorContains(t, err, "last known to be current")
	require.Empty(t, acked)
	require.Len(t, q.drain(), 1)
}

func TestWAL20_TheTrimOffsetGoesIntoLaterGroupsAndNeverBack(t *testing.T) {
	q := newQueueAt(t, testLimits)
	for _, trim := range []int64{-1, 500, 300} {
		q.setTrim(trim)
		q.add(1, 0, 100)
		q.seal(q.now, q.now)
	}
	var trims []int64
	for _, g := range q.sealed {
		trims = append(trims, g.trim)
	}
	require.Equal(t, []int64{-1, 500, 500}, trims)
}

// TestAcknowledgementsKeepTheOrderOfSubmission finishes uploads in any order: records are acknowledged in the order in which
// they were submitted, none before its group and all groups before it are stored, and none twice.
func TestAcknowledgementsKeepTheOrderOfSubmission(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		q := newQueueAt(t, testLimits)
		submitted, acked := []*walItem{}, []*walItem{}
		var flying []*walGroup
		stored := map[int64]bool{}
		r.Repeat(map[string]func(*rapid.T){
			"submit": func(r *rapid.T) {
				size := rapid.IntRange(57, 1500).Draw(r, "size")
				item := q.item(catalog.StreamID(rapid.IntRange(0, 3).Draw(r, "stream")), int64(len(submitted)), size)
				if q.submit(item, q.now, q.now) == nil {
					submitted = append(submitted, item)
				}
			},
			"time": func(r *rapid.T) {
				q.now = q.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(r, "ms")) * time.Millisecond)
				q.tick(q.now, q.now)
			},
			"flush": func(*rapid.T) { q.seal(q.now, q.now) },
			"start": func(*rapid.T) { flying = append(flying, q.takeUploads()...) },
			"finish": func(r *rapid.T) {
				if len(flying) == 0 {
					return
				}
				i := rapid.IntRange(0, len(flying)-1).Draw(r, "which")
				g := flying[i]
				flying = append(flying[:i], flying[i+1:]...)
				stored[g.window] = true
				groups, err := q.finish(g, q.now)
				require.NoError(r, err)
				for _, done := range groups {
					for w := int64(0); w <= done.window; w += Window {
						require.True(r, stored[w])
					}
					acked = append(acked, done.items...)
				}
			},
			"": func(r *rapid.T) {
				require.Equal(r, submitted[:len(acked)], acked)
				require.LessOrEqual(r, int64(len(flying)), testLimits.inflight)
				sum := int64(0)
				for _, item := range submitted[len(acked):] {
					sum += int64(FrameLen(item.record))
				}
				require.Equal(r, sum, q.unflushed)
			},
		})
	})
}

func TestWithoutAnIntervalAGroupTakesWhatCameWhileTheOneBeforeItWasStored(t *testing.T) {
	limits := testLimits
	limits.batchInterval = 0
	q := newQueueAt(t, limits)
	q.add(1, 0, 100)
	q.add(1, 1, 100)
	q.add(1, 2, 100)
	require.Equal(t, []int{1}, q.groups())
	_, waiting := q.deadline()
	require.False(t, waiting, "it waits for the first group, not for a moment")
	q.add(1, 3, 900)
	require.Equal(t, []int{1, 2}, q.groups(), "a full group does not wait")
	for _, g := range q.takeUploads() {
		_, err := q.finish(g, q.now)
		require.NoError(t, err)
	}
	q.tick(q.now, q.now)
	require.Equal(t, []int{1}, q.groups())
}

// TestWithoutAnIntervalAGroupWaitsForThoseWhoAreAnswered: until as many have come as were there before, for half of the time
// that the last group took to be stored.
func TestWithoutAnIntervalAGroupWaitsForThoseWhoAreAnswered(t *testing.T) {
	limits := testLimits
	limits.batchInterval = 0
	q := newQueueAt(t, limits)
	base := int64(0)
	add := func(n int) {
		for range n {
			q.add(1, base, 57)
			base++
		}
	}
	store := func() { // the group that is on its way, which takes 40 ms
		uploads := q.takeUploads()
		require.Len(t, uploads, 1)
		q.now = q.now.Add(40 * time.Millisecond)
		_, err := q.finish(uploads[0], q.now)
		require.NoError(t, err)
		q.tick(q.now, q.now)
	}
	add(1)
	add(3)
	store()
	require.Empty(t, q.groups(), "one was answered, and is waited for")
	due, waiting := q.deadline()
	require.True(t, waiting)
	require.Equal(t, q.now.Add(20*time.Millisecond), due)
	add(1)
	require.Equal(t, []int{4}, q.groups(), "all have come")
	store()
	_, waiting = q.deadline()
	require.False(t, waiting, "nobody waits")
	add(3)
	require.Empty(t, q.groups())
	q.now = q.now.Add(20 * time.Millisecond)
	q.tick(q.now, q.now)
	require.Equal(t, []int{3}, q.groups(), "one has not come in time")
	add(1)
	store()
	require.Empty(t, q.groups())
	q.now = q.now.Add(20 * time.Millisecond)
	q.tick(q.now, q.now)
	require.Equal(t, []int{1}, q.groups(), "nobody has come")
	add(2)
	store()
	require.Equal(t, []int{2}, q.groups(), "waiting was in vain, so this one does not")
	add(1)
	store()
	require.Empty(t, q.groups(), "it is tried again")
	q.seal(q.now, q.now)
	require.Equal(t, []int{1}, q.groups())
}

// TestWAL3_ALoneCallerIsNotWaitedForWithoutAnInterval: whenever it comes again.
func TestWAL3_ALoneCallerIsNotWaitedForWithoutAnInterval(t *testing.T) {
	limits := testLimits
	limits.batchInterval = 0
	q := newQueueAt(t, limits)
	for i := range int64(4) {
		q.add(1, i, 100)
		require.Equal(t, []int{1}, q.groups())
		uploads := q.takeUploads()
		q.now = q.now.Add(40 * time.Millisecond)
		_, err := q.finish(uploads[0], q.now)
		require.NoError(t, err)
		q.now = q.now.Add(time.Duration(i) * 10 * time.Millisecond)
	}
}

// TestAGroupDoesNotWaitLongAfterAStoreThatWasAway: the PUT before it was tried again for a minute, and its callers may have given up.
func TestAGroupDoesNotWaitLongAfterAStoreThatWasAway(t *testing.T) {
	limits := testLimits
	limits.batchInterval, limits.maxPutAge = 0, time.Hour
	q := newQueueAt(t, limits)
	q.add(1, 0, 100)
	q.add(1, 1, 100)
	q.now = q.now.Add(time.Minute)
	_, err := q.finish(q.takeUploads()[0], q.now)
	require.NoError(t, err)
	due, waiting := q.deadline()
	require.True(t, waiting)
	require.Equal(t, q.now.Add(maxGatherWait), due)
}

// TestWaitingForCallersInVainBecomesRare: it costs at most one group in 129 half of a PUT's time.
func TestWaitingForCallersInVainBecomesRare(t *testing.T) {
	var g walGather
	now, waits := time.Unix(1_700_000_000, 0), 0
	for range 129 * 10 {
		g.begin(10, 10, 40*time.Millisecond, now)
		if g.expected > 0 {
			require.Equal(t, walGather{expected: 20, waiting: 10, until: now.Add(20 * time.Millisecond), pause: g.pause}, g)
			waits++
		}
		g.end(14)
	}
	require.Equal(t, 8+8, waits, "after 1, 2, 4 ... 128 groups, and then each 129th")
	for g.skip > 0 {
		g.begin(10, 10, 40*time.Millisecond, now)
	}
	for range 5 {
		g.begin(10, 10, 40*time.Millisecond, now)
		require.Equal(t, 20, g.expected)
		g.end(15)
	}
	require.Zero(t, g.pause, "half of them came again")
}

func TestWAL5_AGroupGrowsWhileTheFirstOneUnfinishedHoldsUpAllUploads(t *testing.T) {
	q := newQueueAt(t, testLimits)
	for i := range 3 {
		q.add(1, int64(i), 100)
		q.now = q.now.Add(testLimits.batchInterval)
	}
	require.Equal(t, []int{1, 1, 1}, q.groups(), "as many as may be in flight")
	uploads := q.takeUploads()
	q.add(1, 3, 100)
	q.now = q.now.Add(testLimits.batchInterval)
	q.add(1, 4, 100)
	require.Equal(t, []int{1, 1, 1}, q.groups())
	_, err := q.finish(uploads[0], q.now)
	require.NoError(t, err)
	q.tick(q.now, q.now)
	require.Equal(t, []int{1, 1, 2}, q.groups())
}
