package stream

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// damage flips a bit in an object and returns what undoes it.
func (d *depot) damage(id catalog.ObjectID, at int) (repair func()) {
	key := DataKey(DefaultNamespace, id)
	whole, err := d.base.Get(d.Context(), key)
	require.NoError(d, err)
	bad := slices.Clone(whole)
	bad[(at+len(bad))%len(bad)] ^= 0xFF
	require.NoError(d, d.base.Put(d.Context(), key, bad))
	return func() { require.NoError(d, d.base.Put(d.Context(), key, whole)) }
}

// TestADamagedObjectIsLookedAtAgainWithGrowingPauses: of a set, in its index and in a block, and until it is repaired.
func TestADamagedObjectIsLookedAtAgainWithGrowingPauses(t *testing.T) {
	for name, at := range map[string]int{"the footer": -1, "a block": 0} {
		inDepot(t, 1, func(d *depot) {
			damaged := d.set(run{0, 2, 50})
			d.set(run{0, 2, 50})
			d.set(run{0, 2, 50})
			repair := d.damage(damaged, at)
			c := d.compactor()
			rounds := func() {
				for more := true; more; {
					var err error
					more, err = c.setRound(d.Context())
					require.NoError(d, err)
				}
			}
			rounds()
			require.Len(d, d.failures, 1, name)
			require.ErrorContains(d, d.failures[0], "left out of compaction for 30m")
			require.Len(d, d.sets(), 2, "the rest went on")

			for i, pause := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} {
				<-time.After(pause - time.Second)
				rounds()
				require.Len(d, d.failures, i+1, "not before the pause is over")
				<-time.After(time.Second)
				rounds()
				require.Len(d, d.failures, i+2, "then again")
			}
			repair()
			rounds()
			require.Contains(d, d.sets(), damaged, "nobody has looked yet")
			<-time.After(4 * time.Hour)
			rounds()
			require.NotContains(d, d.sets(), damaged, "it was taken in")
			require.Len(d, d.failures, 4)

			require.False(d, c.damaged.has(damaged))
			require.Empty(d, c.damaged.found)
			d.verify()
			d.cleanAll()
		})
	}
}

// TestADamagedStreamObjectIsLeftOutAndItsNeighboursGoOn: within one pass, merged and linked.
func TestADamagedStreamObjectIsLeftOutAndItsNeighboursGoOn(t *testing.T) {
	for name, at := range map[string]int{"the footer": -1, "a block": 0} {
		for _, major := range []bool{false, true} {
			inDepot(t, 1, func(d *depot) {
				for range 2 {
					d.object(run{0, 1, 10})
				}
				damaged := d.object(run{0, 1, 10})
				for range 2 {
					d.object(run{0, 1, 10})
				}
				repair := d.damage(damaged, at)
				c := d.compactor()
				require.NoError(d, c.objectRound(d.Context(), d.streams[0], major))
				require.Len(d, d.failures, 1, name)
				require.Len(d, d.objects(0), 3, "one before it, itself, one behind it")
				repair()
				<-time.After(minDamagePause)
				require.NoError(d, c.objectRound(d.Context(), d.streams[0], major))
				require.Len(d, d.objects(0), 1)
				d.verify()
				d.cleanAll()
			})
		}
	}
}

// TestALostObjectHoldsUpNobody: one that is in use and gone is told, and the others are compacted.
func TestALostObjectHoldsUpNobody(t *testing.T) {
	inDepot(t, 2, func(d *depot) {
		lost := d.set(run{0, 2, 50})
		d.set(run{0, 2, 50})
		d.set(run{0, 2, 50})
		gone := d.object(run{1, 2, 50})
		for range 2 {
			d.object(run{1, 2, 50})
		}
		for _, id := range []catalog.ObjectID{lost, gone} {
			require.NoError(d, d.base.Delete(d.Context(), DataKey(DefaultNamespace, id)))
		}
		require.NoError(d, d.compactor().roundNow(d.Context()))
		require.Len(d, d.sets(), 2)
		require.Len(d, d.objects(1), 2)
		require.Len(d, d.failures, 2)
		for _, failure := range d.failures {
			require.ErrorIs(d, failure, objstore.ErrNotFound)
		}
	})
}
