package stream

import (
	"context"
	"sync"

	"github.com/tidemark-io/tidemark/objstore"
)

// readWALAhead reads objects and passes them to each in order, while the following ones are read: as many as fit into
// budget bytes, at least one (WAL-25). each owns the bytes. A missing object is errVanished. It returns at the first
// error, once no read is in flight any more.
func readWALAhead(
	ctx context.Context, store objstore.Store, objects []walObject, budget int64,
	each func(o walObject, data []byte) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	var reads sync.WaitGroup
	defer reads.Wait()
	defer cancel()

	type answer struct {
		data []byte
		err  error
	}
	var ahead []chan answer // of the objects that are being read or wait for each
	left := objects
	for _, o := range objects {
		for len(left) > 0 && (len(ahead) == 0 || left[0].size <= budget) {
			next := left[0]
			answers := make(chan answer, 1)
			ahead, left, budget = append(ahead, answers), left[1:], budget-next.size
			reads.Go(func() {
				var a answer
				a.err = retry(ctx, func() (err error) { a.data, err = store.Get(ctx, next.key); return err })
				answers <- a
			})
		}
		a := <-ahead[0]
		if a.err != nil {
			return vanished(o.key, a.err)
		}
		if err := each(o, a.data); err != nil {
			return err
		}
		ahead, budget = ahead[1:], budget+o.size
	}
	return nil
}
