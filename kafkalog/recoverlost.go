package kafkalog

import (
	"math"

	"github.com/tidemark-io/tidemark/batch"
)

// lookAhead is how far is looked for batches that go with a cut.
const lookAhead = 64 << 20

// intactBatches counts whole batches with right checksums.
type intactBatches struct {
	batches int
	bytes   int64
	offsets int64 // that they cover
}

func (n *intactBatches) add(m intactBatches) {
	n.batches += m.batches
	n.bytes += m.bytes
	n.offsets += m.offsets
}

// nothingBehind reports whether no whole batch is left behind the one at the position, in the file or in later segments.
func (rec *recovery) nothingBehind() (bool, error) {
	behind, err := rec.intactBehind(rec.at+1, rec.reader.size, 1)
	if err != nil || behind.batches > 0 {
		return false, err
	}
	later, err := rec.laterIntact()
	return later.batches == 0, err
}

// intactBehind counts the whole batches with a correct checksum from a position on, at most most of them and within that
// many bytes. Checksums are computed only where the offset is plausible, so that arbitrary bytes do not make this slow.
// The position of the recovery does not change.
func (rec *recovery) intactBehind(from, within int64, most int) (found intactBatches, err error) {
	probe := *rec
	probe.buf, probe.bufLen, probe.unproven = nil, 0, -1
	end := min(rec.reader.size, from+within)
	for probe.at = from; probe.at+batch.HeaderSize <= end && found.batches < most; {
		h, ok, err := probe.intact()
		if err != nil {
			return found, err
		}
		if !ok {
			probe.at++
			continue
		}
		found.add(intactBatches{batches: 1, bytes: int64(h.Size()), offsets: h.NextOffset() - h.BaseOffset})
		probe.at += int64(h.Size())
	}
	return found, nil
}

// intact reports whether a whole batch with a right checksum and an offset that may follow stands at the position.
func (rec *recovery) intact() (h batch.Header, ok bool, err error) {
	if rec.buf == nil {
		rec.buf = make([]byte, min(scanSize, rec.reader.size-rec.at))
	}
	head, err := rec.bytes(batch.HeaderSize)
	if err != nil || head[16] != batch.Magic {
		return h, false, err
	}
	h, bad := decodeHeader(head, rec.reader.size-rec.at)
	if bad != nil || h.Magic != batch.Magic || h.BaseOffset < rec.expect || h.BaseOffset-rec.segment.base > math.MaxInt32 {
		return h, false, nil
	}
	b, err := rec.bytes(h.Size())
	return h, err == nil && batch.Batch(b).VerifyCRC() == nil, err
}

// laterIntact counts the whole batches of the later segments, which are about to be removed.
func (rec *recovery) laterIntact() (found intactBatches, err error) {
	for _, s := range rec.later {
		probe := recovery{loader: rec.loader, segment: s, expect: s.base, unproven: -1}
		if probe.reader, err = s.reader(); err != nil {
			return found, err
		}
		in, err := probe.intactBehind(0, lookAhead, math.MaxInt)
		probe.reader.close()
		if err != nil {
			return found, err
		}
		found.add(in)
	}
	return found, nil
}
