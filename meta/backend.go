package meta

import (
	"context"
	"time"
)

// Backend stores the metadata log: entries at consecutive indexes from 1, a head, and snapshots. Package metatest has the
// suite that every backend passes; the letters below are the guarantees it checks.
//
// All methods are safe for concurrent use and honour their context where they can wait. An error that matches none of
// [ErrConflict], [ErrOutcomeUnknown], [ErrUnavailable], [ErrNoSpace], [ErrTruncated], [ErrClaimed] is final: the backend is
// broken or closed, and the log stops.
type Backend interface {
	// String names where the log lives, a file's path or a URL without secrets, for messages.
	String() string

	// ClusterID is the identity that was stored when the log was made. It never changes.
	ClusterID() string

	// Head returns the index of the newest entry, 0 if none was ever appended. Truncation does not move it.
	Head(ctx context.Context) (uint64, error)

	// Append stores an entry at index if the head is index-1, and moves the head, in one atomic step (B1). Once it
	// returns nil the entry is durable (B2) and every reader of this log sees it at this index forever (B3).
	// [ErrConflict]: the head was elsewhere, also when index was truncated long ago (B10). [ErrOutcomeUnknown]: reading
	// the index shows it, once it has an entry (B4); appending the same bytes at the same index again is safe. The
	// entry is not retained.
	Append(ctx context.Context, index uint64, entry []byte) error

	// Read returns entries from the index on, in order and without holes, at most limit of them and at least one if
	// the head has reached the index (B6). The caller owns them. [ErrTruncated]: the index is gone, a snapshot
	// replaces it.
	Read(ctx context.Context, from uint64, limit int) ([][]byte, error)

	// Notify returns a channel that receives when there may be new entries (B5). It is a hint: it may come late, twice
	// or without cause, but at least one comes after an append by any process. The channel is the same for every call
	// and is not closed.
	Notify() <-chan struct{}

	// PutSnapshot stores the state's bytes as of index, whole or not at all, and of any size (B7). Once it returns nil
	// they are durable. An index below the newest snapshot's is ignored without an error; at the newest's own index
	// data replaces the stored snapshot, which differs only if it is damaged, since a state has one encoding. The two
	// newest are kept. data is not retained.
	PutSnapshot(ctx context.Context, index uint64, data []byte) error

	// Snapshot returns the newest snapshot; index 0 means that there is none. The caller owns data. A backend that
	// finds it damaged may report it as a [*CorruptError] of the item "snapshot", with its index and a [*FormatError]
	// that says Damaged.
	Snapshot(ctx context.Context) (index uint64, data []byte, err error)

	// OlderSnapshot returns the snapshot before the newest; index 0 means that there is none. The caller owns data.
	OlderSnapshot(ctx context.Context) (index uint64, data []byte, err error)

	// Truncate removes the entries that the older of the two kept snapshots covers, and returns its index, or 0 if it
	// removed nothing because there are fewer than two.
	Truncate(ctx context.Context) (through uint64, err error)

	// Claim takes an expiring key (B8), which the holder keeps until it is released, the holder's process has ended and
	// the time to live has passed, or the backend has had no contact with it for that long. [ErrClaimed]: somebody else
	// holds it. value identifies the holder to others.
	Claim(ctx context.Context, key string, value []byte) (Claim, error)

	// Claims returns the keys that begin with prefix and are held now, with their values. The caller owns the map.
	Claims(ctx context.Context, prefix string) (map[string][]byte, error)

	// Close releases the backend, its claims included. Calls in progress end with an error; so do later ones.
	Close() error
}

// Claim is an expiring key that is held.
type Claim interface {
	// Lost returns a channel that is closed when the key is no longer held, for whatever reason.
	Lost() <-chan struct{}

	// Proved returns a moment, on the clock of this machine and with its monotonic reading, at which the key was
	// certainly held: when the last successful refresh was requested. A key that is held by a lock on this machine is
	// proved to be held at any time.
	Proved() time.Time

	// Release releases the key. It may be called more than once.
	Release()
}

// LeaseKey is the key held by the node that takes snapshots and truncates.
const LeaseKey = "lease/meta"
