package kafkalog

import "fmt"

// A sealed segment may lose its end after it was synced, for example if its files were copied only in part: it then holds
// whole batches, but fewer than before. A gap before the next segment is no proof of that, since a follower or compaction
// may have left it. But the indexes of a segment are written with its records, and their last entries name batches. If
// one of these is in the gap, it existed.

// lostBehind describes the loss of a segment's end: its batches end below the offset reached, the next segment begins at
// next, and an index names a batch in between.
func (r *segmentReader) lostBehind(reached, next int64) error {
	s := r.segment
	if reached >= next || s.gone.Load() {
		return nil
	}
	for _, named := range s.namedLast() {
		if named >= reached && named < next {
			return r.corrupt(r.size, "the file ends before its last batch",
				fmt.Sprintf("offset %d, which an index names", named), fmt.Sprintf("an end at %d", reached))
		}
	}
	return nil
}

// namedLast returns the last offsets that the index files speak of, right or wrong.
func (s *segment) namedLast() (named []int64) {
	if e, found := s.index.lastOnDisk(); found {
		named = append(named, s.base+int64(e.relative))
	}
	if e, found := s.times.lastOnDisk(); found {
		named = append(named, s.base+int64(e.relative))
	}
	return named
}
