package stream

import "time"

// UploadedEvent describes a block of the log cache whose records are committed: from now on they are read from the data
// bucket if they are not in memory.
type UploadedEvent struct {
	// Objects is how many objects hold the block, of Streams streams and Bytes payload.
	Objects, Streams int
	Bytes            int64
	// Waited is the time since the block's first record arrived, Took the time since it was sealed.
	Waited, Took time.Duration
}

// UploadRetriedEvent describes a step of an upload that failed temporarily and will be retried.
type UploadRetriedEvent struct {
	// Step is "prepare", "write" or "commit". A commit whose reserved ids had expired is reported as "commit", and its
	// objects are written again (UP-7).
	Step string
	// Key is the object's key, in a write.
	Key   string
	Try   int // from 1
	Delay time.Duration
	Err   error
}

func (e Events) uploaded(u UploadedEvent) {
	if e.Uploaded != nil {
		e.Uploaded(u)
	}
}

func (e Events) uploadRetried(u UploadRetriedEvent) {
	if e.UploadRetried != nil {
		e.UploadRetried(u)
	}
}
