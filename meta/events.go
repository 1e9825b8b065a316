package meta

import "time"

// Events are callbacks by which a log reports to an observer. Every function may be nil. They are called one at a
// time on the log's own goroutine, so they must be quick, must not wait, and must not call the log.
type Events struct {
	// Applied is called after an entry was applied and its state published.
	Applied func(AppliedEvent)
	// Retrying is called when the backend did not respond or a response was lost, before the log waits and retries.
	Retrying func(RetryEvent)
	// Snapshotted is called after a snapshot was stored and the log truncated.
	Snapshotted func(SnapshotEvent)
	// FellBack is called when the newest snapshot was damaged and its state was rebuilt from the older one and the
	// entries since then. While a log is being opened it runs on the goroutine of [Open]'s caller.
	FellBack func(FallbackEvent)
	// Stopped is called once, when the log stops for a reason other than Close.
	Stopped func(error)
}

// AppliedEvent describes an entry that was applied.
type AppliedEvent struct {
	// Index is the entry's index and Bytes its size.
	Index uint64
	Bytes int
	// Commands is how many it holds and Rejected how many of them changed nothing.
	Commands, Rejected int
	// Own says that this log proposed it.
	Own bool
}

// RetryEvent describes a call that will be retried.
type RetryEvent struct {
	// Err is the backend's error.
	Err error
	// Attempt counts from 1; After is the wait before the next one.
	Attempt int
	After   time.Duration
}

// SnapshotEvent describes a snapshot.
type SnapshotEvent struct {
	// Index is the state's index and Bytes the snapshot's size.
	Index uint64
	Bytes int
	// Truncated is the index up to which entries are gone, 0 if none.
	Truncated uint64
}

// FallbackEvent describes a damaged snapshot that was rebuilt from an older one.
type FallbackEvent struct {
	// Damaged is the index of the snapshot, and Err what is wrong with it.
	Damaged uint64
	Err     error
	// From is the index of the older snapshot, 0 for the log's beginning, and Entries how many were applied to it.
	From, Entries uint64
}

// withDefaults fills the functions that are nil, so that nobody has to look.
func (e Events) withDefaults() Events {
	if e.Applied == nil {
		e.Applied = func(AppliedEvent) {}
	}
	if e.Retrying == nil {
		e.Retrying = func(RetryEvent) {}
	}
	if e.Snapshotted == nil {
		e.Snapshotted = func(SnapshotEvent) {}
	}
	if e.FellBack == nil {
		e.FellBack = func(FallbackEvent) {}
	}
	if e.Stopped == nil {
		e.Stopped = func(error) {}
	}
	return e
}
