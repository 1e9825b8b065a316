package stream

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// compact replaces all stream objects of a stream by one with the same records, and deletes their bytes.
func (r *readTest) compact(id catalog.StreamID, composite bool) {
	ctx := context.Background()
	v := r.memory.Memory.View()
	sources := v.StreamObjects(id)
	object, err := r.memory.PrepareObjects(ctx, r.node, 1, time.Hour)
	require.NoError(r.t, err)
	c := catalog.StreamCompaction{
		Object: object, Stream: id, Epoch: 4, Start: sources[0].Start, End: sources[len(sources)-1].End,
	}
	var linked CompositeObject
	var records []Record
	var keys []string
	for _, s := range sources {
		key := DataKey(DefaultNamespace, s.Object)
		b, err := r.store.Get(ctx, key)
		require.NoError(r.t, err)
		index, own, err := DecodeObject(key, b)
		require.NoError(r.t, err)
		linked.Components = append(linked.Components, Component{Object: s.Object, FirstBlock: int32(len(linked.Entries))})
		linked.Entries = append(linked.Entries, index...)
		records = append(records, own...)
		keys = append(keys, key)
		c.Sources = append(c.Sources, s.Object)
		operation := catalog.Delete
		if composite {
			operation = catalog.KeepData
		}
		c.Operations = append(c.Operations, operation)
	}
	var b []byte
	if composite {
		c.Size, c.Attributes = linked.LinkedBytes(), catalog.NewAttributes(true, 0, false)
		b, err = linked.Encode()
		require.NoError(r.t, err)
	} else {
		var w byteWriter
		o := NewObjectWriter(&w, r.cfg.ObjectBlockSize)
		for _, record := range records {
			require.NoError(r.t, o.Add(record))
		}
		require.NoError(r.t, o.Close())
		b, c.Size = w, o.Size()
	}
	require.NoError(r.t, r.store.Put(ctx, DataKey(DefaultNamespace, object), b))
	require.NoError(r.t, r.memory.CompactStream(ctx, r.node, c))
	if !composite {
		require.NoError(r.t, r.store.Delete(ctx, keys...))
	}
	r.trace.Reset()
}

type byteWriter []byte

func TestCMP5_ACompositeIsReadFromItsComponents(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		r.commit(25, 1)
		r.commit(10, 1)
		r.compact(1, true)
		require.Equal(t, bases(90, 400), r.get(1, 95, 400, all))
		require.Equal(t, []string{"get 3", "read 0 0+1340", "read 1 0+3355", "read 2 0+1340"}, r.requests())
		require.Equal(t, bases(0, 450), r.get(1, 0, 450, all))
		require.Empty(t, r.requests())
	})
}

func TestF31_F35_AReadGoesOnWhenItsObjectIsCompactedAndDeleted(t *testing.T) {
	for _, seen := range []string{"nothing", "the index", "some units"} {
		t.Run("having seen "+seen, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(50, 1)
				r.commit(50, 1)
				next := int64(0)
				switch seen {
				case "the index":
					next = 10
					require.Equal(t, bases(0, 10), r.get(1, 0, 10, 1))
				case "some units":
					next = 300
					require.Equal(t, bases(0, 150), r.get(1, 0, 150, all))
					require.Equal(t, bases(150, 300), r.get(1, 150, 300, all))
				}
				gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange })
				r.store.SetInjector(gate.Inject)
				got := make(chan []int64)
				go func() { got <- r.get(1, next, 1000, all) }()
				_, err := gate.Held(t.Context(), 1)
				require.NoError(t, err)
				r.compact(1, false)
				gate.Open()
				have := <-got
				for have[len(have)-1] < 990 { // what was found before the error came first
					have = append(have, r.get(1, have[len(have)-1]+10, 1000, all)...)
				}
				require.Equal(t, bases(next, 1000), have)
			})
		})
	}
}

func TestBC5_AfterAResetNothingIsReadAheadForAMinute(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(100, 1)
		r.commit(100, 1)
		r.get(1, 0, 10, 1)
		s := r.readers.take(1, 10)
		s.drop(r.blocks) // as if the unit had been evicted
		r.keep(s)
		<-time.After(time.Second)
		r.blocks.evictUnused(time.Now().Add(time.Hour))
		r.compact(1, false)
		require.Equal(t, bases(10, 20), r.get(1, 10, 20, 1))
		r.requests()
		r.get(1, 20, 200, all)
		require.Len(t, r.requests(), 1)
		<-time.After(r.cfg.ReadaheadCooldown)
		r.get(1, 200, 210, 1)
		require.Len(t, r.requests(), 2)
	})
}

func TestBC5_AnObjectThatStaysAwayIsAnError(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		require.NoError(t, r.store.Delete(t.Context(), DataKey(DefaultNamespace, 0)))
		r.trace.Reset()
		_, err := r.read(t.Context(), 1, 0, 100, all, false)
		require.ErrorIs(t, err, objstore.ErrNotFound)
		require.ErrorContains(t, err, "reading stream 1 at 0")
		require.ErrorContains(t, err, DataKey(DefaultNamespace, 0))
		require.Len(t, r.requests(), 1+readResets)
	})
}

func TestSTR7_AReadBelowATrimIsOutOfRange(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		require.NoError(t, r.memory.TrimStream(t.Context(), r.node, 1, 4, 55))
		_, err := r.read(t.Context(), 1, 40, 100, all, false)
		var where *OffsetRangeError
		require.ErrorAs(t, err, &where)
		require.Equal(t, &OffsetRangeError{Stream: 1, Want: 40, Low: 55, High: 100}, where)
		require.Equal(t, bases(50, 100), r.get(1, 55, 100, all))
	})
}

// badView is a view whose objects are not what they should be.
type badView struct {
	catalog.View
	change func([]catalog.ObjectRange)
}

func TestBC4_AReaderAsksMetadataForFourObjectsAtATime(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		for range 10 {
			r.commit(10, 1)
		}
		asked := 0
		counting := badView{r.memory.Memory.View(), func(o []catalog.ObjectRange) {
			asked++
			require.LessOrEqual(t, len(o), windowObjects)
		}}
		r.memory.setViews(slices.Repeat([]catalog.View{counting}, 100)...)
		require.Equal(t, bases(0, 1000), r.get(1, 0, 1000, all))
		require.Equal(t, 3, asked, "ten objects")
	})
}

func TestAReaderRemembersNoMoreUnitsThanItSoonNeeds(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10*3*windowUnits, 1)
		end := int64(100 * 3 * windowUnits)
		require.Equal(t, bases(0, 10), r.get(1, 0, 10, 1))
		s := r.readers.take(1, 10)
		require.Len(t, s.units, windowUnits)
		r.keep(s)
		require.Equal(t, bases(10, end), r.get(1, 10, end, all))
	})
}

func TestBC4_F41_ObjectsThatDoNotFollowAreAnErrorAndNoLoop(t *testing.T) {
	for name, change := range map[string]func(o []catalog.ObjectRange){
		"a gap":                  func(o []catalog.ObjectRange) { o[1].Start += 10 },
		"an overlap":             func(o []catalog.ObjectRange) { o[1].Start -= 10 },
		"the first begins above": func(o []catalog.ObjectRange) { o[0].Start += 10 },
		"an empty one":           func(o []catalog.ObjectRange) { o[0].End = o[0].Start },
		"an end past the index":  func(o []catalog.ObjectRange) { o[0].End += 10; o[1].Start += 10 },
	} {
		t.Run(name, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(10, 1)
				r.commit(10, 1)
				r.memory.setViews(slices.Repeat([]catalog.View{badView{r.memory.Memory.View(), change}}, 100)...)
				_, err := r.read(t.Context(), 1, 0, 200, all, false)
				require.ErrorIs(t, err, ErrNotContinuous)
				require.Less(t, r.store.Calls(), 20)
			})
		})
	}
}

func TestF52_BC8_AnIndexThatIsCorruptIsNotKept(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		key := DataKey(DefaultNamespace, 0)
		good, err := r.store.Get(t.Context(), key)
		require.NoError(t, err)
		for name, bad := range map[string][]byte{
			"cut off":   good[:len(good)-1],
			"zeros":     make([]byte, len(good)),
			"empty":     {},
			"bit flips": flipByte(good, len(good)-60),
		} {
			require.NoError(t, r.store.Put(t.Context(), key, bad))
			_, err := r.read(t.Context(), 1, 0, 100, all, false)
			require.Error(t, err, "BC-9: %s", name)
			require.ErrorContains(t, err, key, name)
			require.NoError(t, r.store.Put(t.Context(), key, good))
			require.Equal(t, bases(0, 100), r.get(1, 0, 100, all), name)
			r.indexes = newIndexCache(r.indexes.ctx, &r.running, 1<<20, r.indexes.load)
			r.blocks.evictUnused(time.Now().Add(time.Hour))
		}
	})
}

// flipByte returns a copy with the bits of one byte turned.
func flipByte(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 0xFF
	return b
}

func TestF54_DamageInABlockIsToldAtItsOffsetAndWhatIsBeforeItIsServed(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(50, 1, 2)
		key := DataKey(DefaultNamespace, 0)
		good, err := r.store.Get(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, r.store.Put(t.Context(), key, flipByte(good, 2*1340))) // the magic of stream 1's third block
		require.Equal(t, bases(0, 200), r.get(1, 0, 500, all))
		_, err = r.read(t.Context(), 1, 200, 500, all, false)
		var version *VersionError
		require.ErrorAs(t, err, &version)
		require.Equal(t, key, version.Object)
		require.Equal(t, int64(2*1340), version.Position)
		require.ErrorContains(t, err, "reading stream 1 at 200")
		require.Equal(t, bases(300, 500), r.get(1, 300, 500, all), "what is behind it can be read")
		require.Equal(t, bases(0, 500), r.get(2, 0, 500, all), "and so can other streams")
	})
}

func TestBC8_AFailedLoadIsNotKept(t *testing.T) {
	runRead(t, nil, func(t *testing.T, r *readTest) {
		r.commit(10, 1)
		for n := range 2 { // the index, the unit
			r.store.SetInjector(faultstore.FailNth(n, objstore.ErrDenied))
			_, err := r.read(t.Context(), 1, 0, 100, all, false)
			require.ErrorIs(t, err, objstore.ErrDenied)
			r.store.SetInjector(nil)
			require.Equal(t, bases(0, 100), r.get(1, 0, 100, all))
			r.indexes = newIndexCache(r.indexes.ctx, &r.running, 1<<20, r.indexes.load)
			r.blocks.evictUnused(time.Now().Add(time.Hour))
			if s := r.readers.take(1, 100); s != nil {
				s.drop(r.blocks)
			}
		}
	})
}

func TestBC8_AFailedLoadOfOthersIsTriedAnew(t *testing.T) {
	for at, failing := range map[string]int64{"index": 1, "unit": 2} {
		t.Run(at, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(10, 1)
				var reads atomic.Int64
				release := make(chan struct{})
				r.store.SetInjector(func(op faultstore.Op) faultstore.Fault {
					if op.Kind == objstore.OpReadRange && reads.Add(1) == failing {
						return faultstore.Fault{Hook: func(context.Context) { <-release }, Err: objstore.ErrDenied}
					}
					return faultstore.Fault{}
				})
				began, joined := make(chan error), make(chan []int64)
				go func() {
					_, err := r.read(t.Context(), 1, 0, 100, all, false)
					began <- err
				}()
				synctest.Wait()
				go func() { joined <- r.get(1, 0, 100, all) }()
				synctest.Wait()
				close(release)
				require.ErrorIs(t, <-began, objstore.ErrDenied)
				require.Equal(t, bases(0, 100), <-joined)
			})
		})
	}
}

func TestBC8_WhoCancelsFailsNobodyElse(t *testing.T) {
	for _, at := range []string{"index", "unit"} {
		t.Run(at, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(10, 1)
				if at == "unit" {
					r.indexes.prefetch(r.memory.Memory.View().Objects(1, 0, 1, 1)[0])
					synctest.Wait()
				}
				gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange })
				r.store.SetInjector(gate.Inject)
				r.requests()
				ctx, cancel := context.WithCancel(t.Context())
				cancelled, got := make(chan error), make(chan []int64, 3)
				go func() {
					_, err := r.read(ctx, 1, 0, 100, all, false)
					cancelled <- err
				}()
				_, err := gate.Held(t.Context(), 1)
				require.NoError(t, err)
				for range 3 {
					go func() { got <- r.get(1, 0, 100, all) }()
				}
				synctest.Wait()
				cancel()
				require.ErrorIs(t, <-cancelled, context.Canceled)
				gate.Open()
				for range 3 {
					require.Equal(t, bases(0, 100), <-got)
				}
				want := map[string]int{"index": 2, "unit": 1}[at]
				require.Len(t, r.requests(), want)
			})
		})
	}
}

func TestF57_ALoadThatNobodyWaitsForAnyMoreIsCancelled(t *testing.T) {
	for _, at := range []string{"index", "unit"} {
		t.Run(at, func(t *testing.T) {
			runRead(t, nil, func(t *testing.T, r *readTest) {
				r.commit(10, 1)
				if at == "unit" {
					r.indexes.prefetch(r.memory.Memory.View().Objects(1, 0, 1, 1)[0])
					synctest.Wait()
				}
				gate := faultstore.NewGate(func(op faultstore.Op) bool { return op.Kind == objstore.OpReadRange })
				r.store.SetInjector(gate.Inject)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() {
					_, err := r.read(ctx, 1, 0, 100, all, false)
					ended <- err
				}()
				_, err := gate.Held(t.Context(), 1)
				require.NoError(t, err)
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
				synctest.Wait()
				held, err := gate.Held(t.Context(), 0)
				require.NoError(t, err)
				require.Empty(t, held)
				require.Zero(t, r.blocks.size())
				held2, _ := r.demand.Used()
				require.Zero(t, held2)
				gate.Open()
				require.Equal(t, bases(0, 100), r.get(1, 0, 100, all), "a fresh load")
			})
		})
	}
}
