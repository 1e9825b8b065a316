package batch

import "math"

// Sequence numbers run from 0 to 2147483647 and then start at 0 again.

// IncrementSequence returns the sequence n after s. Both must be >= 0.
func IncrementSequence(s, n int32) int32 {
	if s > math.MaxInt32-n {
		return n - (math.MaxInt32 - s) - 1
	}
	return s + n
}

// DecrementSequence returns the sequence n before s. Both must be >= 0.
func DecrementSequence(s, n int32) int32 {
	if s < n {
		return math.MaxInt32 - (n - s) + 1
	}
	return s - n
}

// SequenceFollows reports whether next is the sequence right after prev.
func SequenceFollows(prev, next int32) bool {
	return next == prev+1 && prev != math.MaxInt32 || prev == math.MaxInt32 && next == 0
}

// lastSequence returns the sequence of the last record, or -1 when the batch carries none.
func lastSequence(base, lastOffsetDelta int32) int32 {
	if base < 0 || lastOffsetDelta < 0 {
		return noSequence
	}
	return IncrementSequence(base, lastOffsetDelta)
}
