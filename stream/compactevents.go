package stream

import (
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

func (e Events) compacted(c CompactedEvent) {
	if e.Compacted != nil {
		e.Compacted(c)
	}
}

func (e Events) compactionFailed(err error) {
	if e.CompactionFailed != nil {
		e.CompactionFailed(FailedEvent{err})
	}
}

func (e Events) cleaned(c CleanedEvent) {
	if e.Cleaned != nil {
		e.Cleaned(c)
	}
}

// CompactedEvent describes a commit that replaced objects by others.
type CompactedEvent struct {
	// Kind says which job it was: "set", "split", "minor", "major", "rebuild" or "cleanup".
	Kind string
	// Stream is the stream, or -1 in a compaction of stream-set objects.
	Stream catalog.StreamID
	// Sources and Outputs count objects, BytesRead and BytesWritten what was transferred.
	Sources, Outputs        int
	BytesRead, BytesWritten int64
	// Excluded is how many objects were left for the next round, to keep the limits of one (CP-4).
	Excluded int
	Took     time.Duration
}

// CleanedEvent describes a round of the cleaner.
type CleanedEvent struct {
	// Expired is how many reserved ids were released.
	Expired int
	// Deleted is how many objects were deleted, and Failed how many could not be deleted and will be retried.
	Deleted, Failed int
	// Err is why the first of them failed; nil if none did.
	Err  error
	Took time.Duration
}
