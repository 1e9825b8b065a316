package partition

import (
	"sync"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/internal/poison"
	"github.com/tidemark-io/tidemark/kafkalog"
)

// The journal gets what a log wrote a moment ago. Reading a small record back from the file takes half as long as writing
// it did, so a round with few bytes keeps a copy of them.

// copiedBytes is how much a round keeps.
const copiedBytes = 2 << 10

// copied is the last batches of a log, one behind the other as they are in its file.
type copied struct {
	bytes [copiedBytes]byte
	n     int
	end   int64 // the offset after them
}

var copies = sync.Pool{New: func() any { return new(copied) }}

// copyBatch keeps the bytes of an append that joins the round, in the order of the appends, unless they become too many, or do not
// follow on what the round has: an append that was durable or visible already when it was to join a round is in none. b is as it was
// written; nil if nothing was.
func (r *round) copyBatch(b batch.Batch) {
	switch {
	case b == nil || r.uncopied:
	case r.copied == nil && len(b) <= copiedBytes:
		r.copied = copies.Get().(*copied)
		r.copied.add(b)
	case r.copied != nil && r.copied.n+len(b) <= copiedBytes && r.copied.end == b.BaseOffset():
		r.copied.add(b)
	default:
		r.uncopied = true
		r.dropCopy()
	}
}

func (c *copied) add(b batch.Batch) {
	c.n += copy(c.bytes[c.n:], b)
	c.end = b.NextOffset()
}

// dropCopy gives the memory of the copy back.
func (r *round) dropCopy() {
	if c := r.copied; c != nil {
		r.copied = nil
		c.n = 0
		poison.Fill(c.bytes[:])
		copies.Put(c)
	}
}

// appendTail appends the bytes of a tail of the log to dst. They are the last ones up to the same offset, if the copy has as many:
// batches follow one another in a file, and a log that takes appends is never cut at its end.
func (r *round) appendTail(tail kafkalog.Tail) func(dst []byte) ([]byte, error) {
	c := r.copied
	if c == nil || c.end != tail.End || int64(c.n) < tail.Size {
		return tail.AppendTo
	}
	return func(dst []byte) ([]byte, error) { return append(dst, c.bytes[int64(c.n)-tail.Size:c.n]...), nil }
}
