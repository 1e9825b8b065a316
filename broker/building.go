package broker

import (
	"iter"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// building reserves room for an answer of about n bytes that may be much larger than its request, and waits for it.
// release frees it when the answer is encoded; from then on it weighs on its connection. An answer that is larger than
// all room is built alone.
func (c *call) building(n int64) (release func(), err error) {
	b := c.server.answers
	n = b.Share(n)
	if err := b.Acquire(c.conn.reading, n); err != nil {
		return nil, &hangUp{ClosedShutdown, nil}
	}
	return func() { b.Release(n) }, nil
}

// describedPartitionCost estimates the memory of a partition in an answer, decoded and encoded.
const describedPartitionCost = int64(unsafe.Sizeof(kmsg.MetadataResponseTopicPartition{})) + 64

// partitionsIn counts the partitions of topics.
func partitionsIn(topics iter.Seq[*Topic]) int64 {
	var n int64
	for t := range topics {
		n += int64(len(t.Partitions))
	}
	return n
}

// unique drops all but the first of the elements that have the same key. It reuses the memory of s.
func unique[T any, K comparable](s []T, key func(T) K) []T {
	if len(s) < 2 {
		return s
	}
	seen := make(map[K]struct{}, len(s))
	kept := s[:0]
	for _, v := range s {
		k := key(v)
		if _, twice := seen[k]; twice {
			continue
		}
		seen[k] = struct{}{}
		kept = append(kept, v)
	}
	return kept
}
