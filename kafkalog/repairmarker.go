package kafkalog

import (
	"bytes"

	"github.com/tidemark-io/tidemark/batch"
)

// All markers of one kind are alike but for their offset, epochs, producer and time. So one that is wrong in one byte, as a disk
// leaves it that loses a bit, is found by trying: for its 57 bytes under the checksum there is one change that makes it right.

// markerBytes is the size of a marker.
const markerBytes = batch.HeaderSize + 17

// isMarker reports whether a batch is a whole marker as Kafka writes it.
func isMarker(b batch.Batch) bool {
	if b.Magic() != batch.Magic || b.VerifyCRC() != nil {
		return false
	}
	control, found, err := b.Control()
	if err != nil || !found || !control.EndsTransaction() {
		return false
	}
	return bytes.Equal(b, markerLike(b, control))
}

// markerLike returns the marker with the fields of a batch.
func markerLike(b batch.Batch, control batch.ControlRecord) batch.Batch {
	return batch.EndMarker(batch.EndMarkerOptions{
		BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(), ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(),
		Commit: control.Type == batch.Commit, CoordinatorEpoch: control.CoordinatorEpoch, Timestamp: b.MaxTimestamp(),
	})
}

// fixedInMarkers returns the positions in a marker whose bytes are the same in every one, and those bytes.
func fixedInMarkers() map[int]byte {
	zero := batch.EndMarker(batch.EndMarkerOptions{})
	other := batch.EndMarker(batch.EndMarkerOptions{
		BaseOffset: -1, LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1, Commit: true, CoordinatorEpoch: -1, Timestamp: -1,
	})
	fixed := map[int]byte{}
	const crcFrom, crcTo = 17, 21
	for i := range zero {
		if zero[i] == other[i] && (i < crcFrom || i >= crcTo) {
			fixed[i] = zero[i]
		}
	}
	return fixed
}

// mendedMarker returns the marker that must have been at a position, if what is there differs from one in one byte, and its
// offset is least or more and belongs into the segment. Else it is nil.
func (sc *repairScanner) mendedMarker(at, least int64) (batch.Batch, error) {
	if sc.size-at < markerBytes {
		return nil, nil
	}
	found, err := sc.bytes(at, int(markerBytes))
	if err != nil {
		return nil, err
	}
	wrong := 0
	for i, b := range fixedInMarkers() {
		if found[i] != b {
			wrong++
		}
	}
	if wrong > 1 {
		return nil, nil
	}
	var mended batch.Batch
	tried := batch.Batch(bytes.Clone(found))
	for i := range tried {
		was := tried[i]
		for change := 1; change < 256; change++ {
			tried[i] = was ^ byte(change)
			if !isMarker(tried) || tried.BaseOffset() < least || tried.BaseOffset() >= sc.segment.limit {
				continue
			}
			if mended != nil {
				return nil, nil // it could be either
			}
			mended = bytes.Clone(tried)
		}
		tried[i] = was
	}
	return mended, nil
}
