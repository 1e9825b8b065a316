package meta

import (
	"fmt"
	"iter"
)

// CheckTables yields inconsistencies of the tables in a state: a bucket whose stream does not exist or was opened in an
// epoch that no leader was assigned, and a tombstone that nothing waits for.
func (s *State) CheckTables() iter.Seq[error] {
	return func(yield func(error) bool) {
		for stream, id := range s.bucketOf.all() {
			b, known := s.Bucket(id)
			row, there := s.streams.get(stream)
			var err error
			switch {
			case !known || b.Stream != stream:
				err = fmt.Errorf("stream %d does not belong to bucket %s", stream, id)
			case !there:
				err = fmt.Errorf("stream %d of bucket %s does not exist", stream, id)
			case row.Epoch > b.LeaderEpoch:
				err = fmt.Errorf("stream %d of bucket %s is at epoch %d, and its leader at %d", stream, id, row.Epoch, b.LeaderEpoch)
			}
			if err != nil && !yield(err) {
				return
			}
		}
		for stream, d := range s.dropped.all() {
			if _, there := s.streams.get(stream); there || s.hasWriterSnapshot(d.WriterSnapshotKey()) {
				continue
			}
			if !yield(fmt.Errorf("the dropped bucket %s is gone, but its tombstone is not", d.BucketID)) {
				return
			}
		}
	}
}
