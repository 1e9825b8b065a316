package batch

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestF19_ManyReadersNeverSeeEachOthersBytes(t *testing.T) {
	type entry struct {
		batch   Batch
		records []Record
	}
	var ledger []entry
	for i := range 40 {
		var records []Record
		for n := range int64(1 + i*7%50) {
			value := fmt.Appendf(nil, "batch %d record %d %d", i, n, i*i)
			records = append(records, Record{Offset: n, Timestamp: n, Key: value[:8], Value: value,
				Headers: []RecordHeader{{Key: string(value[:9]), Value: value[3:]}}})
		}
		ledger = append(ledger, entry{build(t, BuilderOptions{Codec: Codec(i % 5)}, records), records})
	}
	var wg sync.WaitGroup
	for seed := range uint64(64) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			var reused RecordReader
			defer reused.Close()
			for range 40 {
				e := ledger[rng.IntN(len(ledger))]
				r := e.batch.Records(Limits{})
				if rng.IntN(2) == 0 {
					r = &reused
					r.Reset(e.batch, Limits{})
				}
				stop := rng.IntN(len(e.records) + 1)
				for n := 0; n < stop && r.Next(); n++ {
					if got := clone(r.Record()); fmt.Sprint(got) != fmt.Sprint(e.records[n]) {
						t.Errorf("read %v, want %v", got, e.records[n])
					}
				}
				for range rng.IntN(3) { // never, once, twice: a reader that is not closed costs only its codec
					r.Close()
				}
				if r.Err() != nil {
					t.Error(r.Err())
				}
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
}
