package stream

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// kill leaves n dead objects behind, and returns their ids.
func (d *depot) kill(n int) (ids []catalog.ObjectID) {
	for range n {
		ids = append(ids, d.object(run{0, 1, 10}))
	}
	row, _ := d.metadata.View().Stream(d.streams[0])
	d.trim(0, row.End)
	d.objectRound(d.compactor(), 0, false)
	return ids
}

func (d *depot) cleanRound(c *cleaner) CleanedEvent {
	d.Helper()
	done, err := c.round(d.Context())
	require.NoError(d, err)
	done.Took = 0
	return done
}

func TestBytesStayForTheirGrace(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.kill(2)
		d.wait(10*time.Minute - time.Millisecond)
		require.Equal(d, CleanedEvent{}, d.cleanRound(d.cleaner()), "GC-3")
		require.Len(d, d.keys(), 2)
		d.wait(time.Millisecond)
		require.Equal(d, CleanedEvent{Deleted: 2}, d.cleanRound(d.cleaner()))
		require.Empty(d, d.keys())
		require.Empty(d, d.metadata.View().Destroyed(10))
	})
}

func TestReservedIdsExpireAndTheirBytesGo(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.write(d.records(run{0, 1, 10}))
		d.wait(time.Hour)
		require.Equal(d, CleanedEvent{Expired: 1}, d.cleanRound(d.cleaner()), "GC-4")
		d.wait(10 * time.Minute)
		require.Equal(d, CleanedEvent{Deleted: 1}, d.cleanRound(d.cleaner()))
		require.Empty(d, d.keys())
	})
}

// TestF69_OneBadKeyHoldsUpNobody: of a batch three are denied, two are throttled and some are gone already.
func TestF69_OneBadKeyHoldsUpNobody(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		ids := d.kill(1000)
		for _, id := range ids[10:15] {
			require.NoError(d, d.base.Delete(d.Context(), DataKey(DefaultNamespace, id)))
		}
		bad := map[string]error{}
		for i, id := range ids[:5] {
			bad[DataKey(DefaultNamespace, id)] = []error{objstore.ErrDenied, objstore.ErrThrottled}[i/3]
		}
		d.store.SetInjector(faultstore.When(
			func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete }, faultstore.Always(faultstore.Fault{Keys: bad})))
		d.wait(10 * time.Minute)
		c := d.cleaner()
		done := d.cleanRound(c)
		require.ErrorIs(d, done.Err, objstore.ErrDenied, "told")
		require.Equal(d, []int{995, 5}, []int{done.Deleted, done.Failed}, "GC-5")
		require.Len(d, d.keys(), 5)

		delete(bad, DataKey(DefaultNamespace, ids[3]))
		delete(bad, DataKey(DefaultNamespace, ids[4]))
		done = d.cleanRound(c)
		require.Equal(d, []int{2, 3}, []int{done.Deleted, done.Failed})
		d.store.SetInjector(nil)
		require.Equal(d, 3, d.cleanRound(c).Deleted)
	})
}

func TestWhatFailedComesLast(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		ids := d.kill(8)
		bad := map[string]error{}
		for _, id := range ids[:4] {
			bad[DataKey(DefaultNamespace, id)] = objstore.ErrDenied
		}
		d.store.SetInjector(faultstore.When(
			func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete }, faultstore.Always(faultstore.Fault{Keys: bad})))
		d.wait(10 * time.Minute)
		c := d.cleaner()
		c.cfg.GCBatch = 4
		require.Equal(d, 4, d.cleanRound(c).Failed, "the oldest four are bad")
		done := d.cleanRound(c)
		require.Equal(d, []int{4, 0}, []int{done.Deleted, done.Failed}, "and hold up nobody")
	})
}

func TestAStepThatHangsIsCutOff(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.kill(cleanStep + 1)
		d.wait(10 * time.Minute)
		hang := faultstore.FailNth(0, objstore.ErrTransient)
		d.store.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete },
			func(op faultstore.Op) faultstore.Fault {
				f := hang(op)
				if f.Err != nil {
					f.Hook = func(ctx context.Context) { <-ctx.Done() }
				}
				return f
			}))
		begun := time.Now()
		done := d.cleanRound(d.cleaner())
		require.Equal(d, 30*time.Second, time.Since(begun), "GC-5")
		require.Equal(d, []int{1, cleanStep}, []int{done.Deleted, done.Failed})
	})
}

func TestOnlyTheHolderOfTheLeaseCleans(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.kill(1)
		c := d.cleaner()
		holds := false
		c.leads = func() bool { return holds }
		for _, left := range []int{1, 0} {
			ctx, cancel := context.WithTimeout(d.Context(), 11*time.Minute)
			c.run(ctx)
			cancel()
			require.Len(d, d.keys(), left)
			holds = true
		}
	})
}

// TestMP9_ACleanerWhoseLeaseIsLostAmidARoundDeletesNothingMore: it learns of that with the next command that is accepted, before the
// first step or between two.
func TestMP9_ACleanerWhoseLeaseIsLostAmidARoundDeletesNothingMore(t *testing.T) {
	for steps := range 2 {
		inDepot(t, 1, func(d *depot) {
			d.kill(cleanStep + 1)
			d.wait(10 * time.Minute)
			deletes, asked := 0, 0
			d.store.SetInjector(func(op faultstore.Op) faultstore.Fault {
				if op.Kind == objstore.OpDelete {
					deletes++
				}
				return faultstore.Fault{}
			})
			c := d.cleaner()
			c.leads = func() bool {
				asked++
				return asked <= 2+steps // before the round, in front of it, and in front of each step
			}
			ctx, cancel := context.WithTimeout(d.Context(), 11*time.Second)
			defer cancel()
			c.run(ctx)
			require.Equal(d, steps, deletes)
			require.Equal(d, cleanStep+1-steps*cleanStep, len(d.keys()))
			c.leads = nil
			for len(d.keys()) > 0 {
				d.cleanRound(c)
			}
		})
	}
}

func TestPlainObjectsMayBeMarkedDeep(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		id := d.object(run{0, 1, 10})
		d.trim(0, 3)
		require.NoError(d, d.metadata.CompactStream(d.Context(), d.node, catalog.StreamCompaction{
			Object: catalog.NoObject, Stream: d.streams[0], Epoch: 1,
			Sources: []catalog.ObjectID{id}, Operations: []catalog.Operation{catalog.DeepDelete},
		}))
		d.cleanAll()
		require.Empty(d, d.keys())
	})
}

func TestADamagedCompositeIsKeptAndTold(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.object(run{0, 20, 100})
		d.object(run{0, 20, 100})
		d.objectRound(d.compactor(), 0, true)
		composite := DataKey(DefaultNamespace, d.objects(0)[0].Object)
		whole, err := d.base.Get(d.Context(), composite)
		require.NoError(d, err)
		whole[0] ^= 1
		require.NoError(d, d.base.Put(d.Context(), composite, whole))
		d.deleteStream(0)
		d.wait(10 * time.Minute)
		done := d.cleanRound(d.cleaner())
		var version *VersionError
		require.ErrorAs(d, done.Err, &version)
		require.Equal(d, 1, done.Failed)
		require.Len(d, d.keys(), 3, "what it links is not known, so nothing is")
		whole[0] ^= 1
		require.NoError(d, d.base.Put(d.Context(), composite, whole))
		d.cleanAll()
	})
}

func TestF37_AMarkIsAsOldAsAClockThatJumpedSays(t *testing.T) {
	inDepot(t, 1, func(d *depot) {
		d.kill(1)
		d.wait(24 * time.Hour) // as if: marks made before the jump are as old as it says
		later := d.object(run{0, 1, 10})
		d.trim(0, 6)
		d.objectRound(d.compactor(), 0, false)
		require.Equal(d, 1, d.cleanRound(d.cleaner()).Deleted)
		require.Equal(d, []string{DataKey(DefaultNamespace, later)}, d.keys(), "marked after the jump")
	})
}
