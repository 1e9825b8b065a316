package stream

import (
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// CompactionEvents are told what compaction and the cleaner do. Any may be nil. They run on the goroutine of the work and
// must not block.
type CompactionEvents struct {
	// Compacted is a commit that replaced objects.
	Compacted func(Compaction)
	// CompactionFailed is a round or pass that failed; it is tried again after its interval.
	CompactionFailed func(error)
	// Cleaned is a round of the cleaner that did something.
	Cleaned func(Cleaning)
}

func (e CompactionEvents) compacted(c Compaction) {
	if e.Compacted != nil {
		e.Compacted(c)
	}
}

func (e CompactionEvents) failed(err error) {
	if e.CompactionFailed != nil {
		e.CompactionFailed(err)
	}
}

func (e CompactionEvents) cleaned(c Cleaning) {
	if e.Cleaned != nil {
		e.Cleaned(c)
	}
}

// Compaction is a commit that replaced objects by others.
type Compaction struct {
	// Kind says which job it was: "set", "split", "minor", "major", "rebuild" or "cleanup".
	Kind string
	// Stream is the stream, or -1 in a compaction of stream-set objects.
	Stream catalog.StreamID
	// Sources and Outputs count objects, BytesRead and BytesWritten what went over the wire.
	Sources, Outputs        int
	BytesRead, BytesWritten int64
	Took                    time.Duration
}

// Cleaning is a round of the cleaner.
type Cleaning struct {
	// Expired is how many reserved ids were given up.
	Expired int
	// Deleted is how many objects are gone, and Failed how many could not be deleted and are tried again.
	Deleted, Failed int
	// Err is why the first of them failed; nil if none did.
	Err  error
	Took time.Duration
}
