package runner

import "time"

// Events receive what happens to shards. Unset functions are not called. They must be quick and must not call the runner.
type Events struct {
	Loaded       func(Loaded)       // a shard accepts requests
	LoadFailed   func(LoadFailed)   // a shard could not read its partition
	Skipped      func(Skipped)      // records of unknown types were skipped
	Ended        func(Ended)        // a shard ended because of its log
	Checkpointed func(Checkpointed) // a shard wrote out its whole state
}

// Loaded is the event of a shard that accepts requests.
type Loaded struct {
	Partition int32
	Records   int
	Bytes     int64
	Groups    int
	Took      time.Duration
}

// LoadFailed is the event of a shard that could not read its partition. A later request retries it.
type LoadFailed struct {
	Partition int32
	Offset    int64 // of the record that could not be read, or -1
	Err       error
}

// Skipped is the event of records of unknown types. They stay in the partition, checkpoints included.
type Skipped struct {
	Partition int32
	Records   int
	First     int64 // offset
}

// Ended is the event of a shard whose log failed or was closed.
type Ended struct {
	Partition int32
	Err       error
}

// Checkpointed is the event of a shard that wrote out its whole state, so that a start need not read what came before.
type Checkpointed struct {
	Partition int32
	From      int64 // where a start reads from now: behind what was written before, or at a record that no batch can carry
	Records   int
	Err       error // nothing was gained; retried later
}

func (e Events) withDefaults() Events {
	ensure(&e.Loaded)
	ensure(&e.LoadFailed)
	ensure(&e.Skipped)
	ensure(&e.Ended)
	ensure(&e.Checkpointed)
	return e
}

func ensure[T any](f *func(T)) {
	if *f == nil {
		*f = func(T) {}
	}
}
