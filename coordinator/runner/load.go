package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/records"
)

// load reads the partition and accepts requests. It reports false when the shard is to end.
func (s *shard) load() bool {
	began := s.runner.options.Now()
	if s.isReady() { // nothing to read
		s.groups.Loaded(s.nowMs())
		return true
	}
	loaded := Loaded{Partition: s.partition}
	at, err := s.replay(&loaded)
	if err != nil {
		s.loadFailed(at, err)
		return false
	}
	s.groups.Loaded(s.nowMs())
	s.appended = loaded.Bytes
	loaded.Groups, loaded.Took = s.groups.Len(), s.runner.options.Now().Sub(began)
	s.mu.Lock()
	if s.mu.state == loading {
		s.mu.state = ready
	}
	s.mu.Unlock()
	s.runner.options.Events.Loaded(loaded)
	return true
}

func (s *shard) isReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state == ready
}

var errStopped = errors.New("the shard stops")

// replay waits for its turn and reads the partition. at is the offset of the record that it could not read, or -1.
func (s *shard) replay(loaded *Loaded) (at int64, err error) {
	select {
	case s.runner.loading <- struct{}{}:
		defer func() { <-s.runner.loading }()
	case <-s.news:
		return -1, errStopped
	}
	skipped := Skipped{Partition: s.partition}
	at = -1
	err = s.log.Replay(s.life, func(e Entry) error {
		select {
		case <-s.news:
			return errStopped
		default:
		}
		if loaded.Records == 0 {
			s.start = e.Offset
		}
		loaded.Records++
		loaded.Bytes += int64(len(e.Key) + len(e.Value) + recordOverhead)
		err := s.replayOne(e)
		if errors.Is(err, records.ErrUnknownType) {
			if skipped.Records == 0 {
				skipped.First = e.Offset
			}
			skipped.Records++
			s.unknown.note(e)
			return nil
		}
		if err != nil {
			at = e.Offset
		}
		return err
	})
	if err == nil && skipped.Records > 0 {
		s.runner.options.Events.Skipped(skipped)
	}
	return at, err
}

func (s *shard) replayOne(e Entry) error {
	if e.Marker != NoMarker {
		s.groups.ReplayMarker(e.ProducerID, e.Marker == CommitMarker)
		return nil
	}
	r, err := records.Decode(e.Key, e.Value)
	if err != nil {
		return fmt.Errorf("offset %d: %w", e.Offset, err)
	}
	s.groups.Replay(coordinator.Entry{At: e.Offset, Record: r, ProducerID: e.ProducerID})
	return nil
}

// loadFailed ends a shard that could not read its partition. Requests are refused for a while, so that retrying clients
// do not cause it to be read again and again.
func (s *shard) loadFailed(at int64, err error) {
	stopped := errors.Is(err, errStopped)
	if !stopped {
		s.runner.options.Events.LoadFailed(LoadFailed{Partition: s.partition, Offset: at, Err: err})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.state, s.mu.why = over, coordinator.ErrNotAvailable
	s.mu.until = s.runner.options.Now().Add(s.runner.options.RetryLoad)
	if stopped {
		s.mu.until = time.Time{}
	}
}
