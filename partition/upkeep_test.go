package partition

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
)

// watchedStore is a store whose looks a test may disturb: it is told when upkeep asks something of it, and after the answer.
// A look deletes all records and forgets all producers.
type watchedStore struct {
	*fakeStore
	known   int64
	disturb atomic.Pointer[func()] // nil: nobody
}

// asked calls who disturbs. What that one does itself is not told of.
func (s *watchedStore) asked() {
	if disturb := s.disturb.Swap(nil); disturb != nil {
		(*disturb)()
		s.disturb.Store(disturb)
	}
}

func (s *watchedStore) Append(b batch.Batch, o kafkalog.AppendOptions) (kafkalog.Appended, error) {
	if b.ProducerID() >= 0 {
		s.known++
	}
	return s.fakeStore.Append(b, o)
}

func (s *watchedStore) RemoveExpiredProducers(time.Time, time.Duration) {
	s.asked()
	s.known = 0
	s.asked()
}

func (s *watchedStore) ActiveProducers() []kafkalog.ActiveProducer {
	s.asked()
	defer s.asked()
	return make([]kafkalog.ActiveProducer, s.known)
}

func (s *watchedStore) Tick(now time.Time, hw int64) error {
	s.asked()
	defer s.asked()
	s.fakeStore.mu.Lock()
	defer s.fakeStore.mu.Unlock()
	s.size = 0
	return nil
}

func (s *watchedStore) Size() int64 {
	s.asked()
	defer s.asked()
	return s.fakeStore.Size()
}

func (s *watchedStore) LogEnd() int64 {
	s.asked()
	defer s.asked()
	return s.fakeStore.LogEnd()
}

func (s *watchedStore) Maintain(now time.Time) error {
	s.asked()
	defer s.asked()
	return s.fakeStore.Maintain(now)
}

func (s *watchedStore) MaintenanceDelay(now time.Time) (time.Duration, bool) {
	s.asked()
	defer s.asked()
	return s.fakeStore.MaintenanceDelay(now)
}

// Two appends at any two moments of a look, or at the same one: whatever they need is done in the end. The first may set what
// the second relies on, and the look may undo it in between.
func TestNoAppendInTheMiddleOfALookIsForgotten(t *testing.T) {
	for name, d := range map[string]disturbance{
		"synced, by producers with ids": {flush: "group", ids: true},
		"synced, by producers without":  {flush: "group"},
		"in the page cache, with ids":   {flush: "os", ids: true},
		"in the page cache, without":    {flush: "os"},
	} {
		t.Run(name, func(t *testing.T) {
			moments := d.look(t, -1, -1)
			require.Greater(t, moments, 6)
			for first := range moments {
				for second := first; second < moments; second++ {
					d.look(t, first, second)
				}
			}
		})
	}
}

// disturbance is what appends that disturb a look are.
type disturbance struct {
	flush string // the topic's tidemark.flush
	ids   bool   // the producers have ids
}

// look appends at two moments of a look, checks what became of the log, and returns how many moments there were.
func (d disturbance) look(t *testing.T, first, second int) (moments int) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, flusher: NewFlusher(FlusherOptions{})}
		b.maintainer = NewMaintainer(MaintainerOptions{
			RetentionInterval: time.Minute, ProducerExpiryInterval: time.Minute,
		})
		defer b.close()
		s := &watchedStore{fakeStore: newFakeStore()}
		l := b.logOf(s, map[string]string{"tidemark.flush": d.flush, "flush.ms": "60000"})
		producer := int64(-1)
		appendOne := func() {
			if d.ids {
				producer++
			}
			_, err := l.Append(t.Context(), produced(t, 1, producer, 0), AppendOptions{})
			require.NoError(t, err)
		}
		appendOne()
		l.upkeep.settleEnd = s.LogEnd() // as if the journal had something of the log, so that the look asks before all else
		l.arm(&l.upkeep.settle, monotonic().Add(time.Minute))
		disturb := func() {
			if moments == first {
				appendOne()
			}
			if moments == second {
				appendOne()
			}
			moments++
		}
		s.disturb.Store(&disturb)
		<-time.After(time.Minute)
		synctest.Wait()
		s.disturb.Store(nil)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Zero(t, s.known, "producers, appends at %d and %d", first, second)
		require.Zero(t, s.Size(), "records, appends at %d and %d", first, second)
		require.Equal(t, s.LogEnd(), s.RecoveryPoint(), "appends at %d and %d", first, second)
	})
	return moments
}

func TestProducersThatComeAtTheMomentOfALookAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, flusher: NewFlusher(FlusherOptions{})}
		b.maintainer = NewMaintainer(MaintainerOptions{ProducerExpiryInterval: time.Millisecond})
		defer b.close()
		f := &forgettingStore{fakeStore: newFakeStore()}
		l := b.logOf(f, nil)
		for round := range int64(5000) {
			<-time.After(time.Millisecond) // the look begins now too
			_, err := l.Append(t.Context(), produced(t, 1, round, 0), AppendOptions{})
			require.NoError(t, err)
			if round%4 == 0 {
				<-time.After(3 * time.Millisecond)
				synctest.Wait()
				require.Empty(t, f.ActiveProducers(), "round %d", round)
			}
		}
	})
}

// forgettingStore knows a producer from its first append to the next look.
type forgettingStore struct{ *fakeStore }

func (f *forgettingStore) Append(b batch.Batch, o kafkalog.AppendOptions) (kafkalog.Appended, error) {
	done, err := f.fakeStore.Append(b, o)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.producers++
	return done, err
}

func (f *forgettingStore) RemoveExpiredProducers(time.Time, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.producers = 0
}
