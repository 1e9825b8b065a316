package runner

import "errors"

// checkpointIfDue writes out the shard's whole state when a start would have to read much more than that. The error is
// that the log has ended.
func (s *shard) checkpointIfDue() error {
	if s.appended < max(s.runner.options.CheckpointBytes, 2*s.held) || s.groups.Transactions() > 0 {
		return nil // offsets of an open transaction are only in the log
	}
	done := Checkpointed{Partition: s.partition, From: s.log.End(), Records: len(s.unknown)}
	s.appended = 0
	last, err := s.appendPairs(s.unknown.pairs())
	for _, group := range s.groups.Records() {
		if err != nil {
			break
		}
		last, err = s.append(group)
		done.Records += len(group)
	}
	if err != nil {
		done.Records, done.Err = 0, err
		s.runner.options.Events.Checkpointed(done)
		if errors.Is(err, ErrEnded) {
			return err
		}
		return nil
	}
	s.held, s.appended = s.appended, 0
	if last == nil { // there is no state left
		return nil
	}
	s.flying = append(s.flying, flight{pending: last, then: func() { s.trim(done) }})
	return nil
}

// trim lets starts read from a durable checkpoint. Failing to do so only costs time at a start.
func (s *shard) trim(done Checkpointed) {
	done.Err = s.log.Trim(done.From)
	s.runner.options.Events.Checkpointed(done)
}
