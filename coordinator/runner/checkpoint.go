package runner

import "errors"

// checkpointIfDue writes out everything that the shard holds when a start would have much more to read than that. The
// error is that the log has ended.
func (s *shard) checkpointIfDue() error {
	if s.appended < max(s.runner.options.CheckpointBytes, 2*s.held) || s.groups.Transactions() > 0 {
		return nil // what an open transaction stored is in the log alone
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
	if last == nil { // nothing is left of anything
		return nil
	}
	s.flying = append(s.flying, flight{pending: last, then: func() { s.trim(done) }})
	return nil
}

// trim has starts read from a checkpoint that is durable. That it fails costs a start time and nothing else.
func (s *shard) trim(done Checkpointed) {
	done.Err = s.log.Trim(done.From)
	s.runner.options.Events.Checkpointed(done)
}
