package stream

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// recordBookkeeping is what a record costs in memory besides its bytes (LC-3): many tiny records are mostly this (F-62).
const recordBookkeeping = 64

// recordCost is what a record costs in the log cache, in bytes (LC-3).
func recordCost(r Record) int64 { return int64(r.EncodedLen()) + recordBookkeeping }

// DiscontinuityError is a record that does not begin where its stream ended in the log cache (LC-2). It is a defect of
// the engine, which accepts no appends after it.
type DiscontinuityError struct {
	Stream catalog.StreamID
	// Want is the offset at which the record must begin, Got the one at which it does.
	Want, Got int64
}

func (e *DiscontinuityError) Error() string {
	return fmt.Sprintf("stream %d continues at %d in the log cache, but a record at %d was acknowledged", e.Stream, e.Want, e.Got)
}

// blockState is the state of a block of the log cache. It only advances.
type blockState uint8

const (
	blockActive blockState = iota // takes records
	blockSealed                   // on its way to the data bucket
	blockFree                     // committed: may be evicted (LC-5)
)

// cacheBlock holds the records of one upload: one run without a gap for each stream. Once it is sealed it never changes;
// before that the lock of its cache guards it.
type cacheBlock struct {
	runs  map[catalog.StreamID]*logRun
	cost  int64 // of all records (LC-3)
	size  int64 // of all payloads (REC-3)
	began time.Time
	// lastOffset is the logical WAL offset of the record that came last; others may have greater ones (WAL-4).
	lastOffset int64
	state      blockState // guarded by the cache
	// hurried is a block that does not wait for the rate limit (UP-9): somebody waits for it.
	hurried bool
}

// logRun is consecutive records of one stream.
type logRun struct {
	records []Record
	size    int64 // of the payloads
}

func newCacheBlock(now time.Time) *cacheBlock {
	return &cacheBlock{runs: map[catalog.StreamID]*logRun{}, began: now, lastOffset: -1}
}

// newSealedBlock returns a block of records in any order between streams, with those of each stream in order. An error is
// a [*DiscontinuityError].
func newSealedBlock(now time.Time, records []Record) (*cacheBlock, error) {
	b := newCacheBlock(now)
	for _, r := range records {
		if err := b.checkNext(r); err != nil {
			return nil, err
		}
		b.add(r)
	}
	b.state = blockSealed
	return b, nil
}

// checkNext checks that a record follows its stream's last one in the block (LC-2).
func (b *cacheBlock) checkNext(r Record) error {
	if run := b.runs[r.Stream]; run != nil && run.end() != r.Base {
		return &DiscontinuityError{Stream: r.Stream, Want: run.end(), Got: r.Base}
	}
	return nil
}

// takes reports whether the record can be in the same block as its stream's others: same epoch, and offsets that an index
// entry and a commit can span (LC-1, F-06).
func (b *cacheBlock) takes(r Record) bool {
	run := b.runs[r.Stream]
	return run == nil || run.records[0].Epoch == r.Epoch && spans(run.start(), r.End())
}

func (b *cacheBlock) add(r Record) {
	run := b.runs[r.Stream]
	if run == nil {
		run = &logRun{}
		b.runs[r.Stream] = run
	}
	run.records = append(run.records, r)
	run.size += int64(len(r.Payload))
	b.size += int64(len(r.Payload))
	b.cost += recordCost(r)
}

// streams returns the ids of the block's streams in order.
func (b *cacheBlock) streams() []catalog.StreamID { return slices.Sorted(maps.Keys(b.runs)) }

// records returns a stream's records in order, nil if there are none. They are shared.
func (b *cacheBlock) records(id catalog.StreamID) []Record {
	if run := b.runs[id]; run != nil {
		return run.records
	}
	return nil
}

func (r *logRun) start() int64 { return r.records[0].Base }

func (r *logRun) end() int64 { return r.records[len(r.records)-1].End() }

// from returns the records from the one that covers the offset, or all if the run begins above it.
func (r *logRun) from(offset int64) []Record {
	first := sort.Search(len(r.records), func(i int) bool { return r.records[i].End() > offset })
	return r.records[first:]
}

// joins reports whether the runs of b continue those of the same streams that end as given.
func (b *cacheBlock) joins(ends map[catalog.StreamID]int64) bool {
	for id, run := range b.runs {
		if end, both := ends[id]; both && end != run.start() {
			return false
		}
	}
	return true
}

// mergeBlocks merges several free blocks that follow each other and join into one (LC-6).
func mergeBlocks(blocks []*cacheBlock) *cacheBlock {
	m := newCacheBlock(blocks[0].began)
	counts := map[catalog.StreamID]int{}
	for _, b := range blocks {
		for id, run := range b.runs {
			counts[id] += len(run.records)
		}
	}
	for id, n := range counts {
		m.runs[id] = &logRun{records: make([]Record, 0, n)}
	}
	for _, b := range blocks {
		for id, run := range b.runs {
			m.runs[id].records = append(m.runs[id].records, run.records...)
			m.runs[id].size += run.size
		}
		m.cost, m.size, m.lastOffset = m.cost+b.cost, m.size+b.size, b.lastOffset
	}
	m.state = blockFree
	return m
}
