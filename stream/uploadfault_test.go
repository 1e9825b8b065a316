package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

func TestF26_ACommitWhoseReplyIsLostIsCommittedOnce(t *testing.T) {
	for _, after := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied=%v", after), func(t *testing.T) {
			runUpload(t, nil, func(t *testing.T, u *uploadTest) {
				u.memory.setInject(func(n int, call string) catalogFault {
					if n == 1 || n == 2 {
						return catalogFault{catalog.ErrUnavailable, after}
					}
					return catalogFault{}
				})
				u.addBlock(100, 1)
				require.Empty(t, u.committedBlocks(), "its outcome is not known")
				<-time.After(time.Minute)
				require.Equal(t, []int64{0}, u.committedBlocks())
				require.NoError(t, u.failure())
				want := []string{"prepare 1", "commit 1:0-10", "commit 1:0-10"}
				if !after {
					want = append(want, "commit 1:0-10") // the second one is not answered by Redundant
				}
				require.Equal(t, want, u.memory.log())
				require.Equal(t, []int64{0}, u.stored()[1])
				require.Len(t, u.retried, len(want)-2)
			})
		})
	}
}

func TestF26_ACommitThatWasCompactedBeforeItsReplyIsNotWrittenAgain(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.memory.setInject(func(n int, call string) catalogFault {
			if n == 1 {
				return catalogFault{catalog.ErrUnavailable, true}
			}
			return catalogFault{}
		})
		u.addBlock(100, 1, 2)
		sets := slices.Collect(u.memory.View().StreamSets())
		require.Len(t, sets, 1)
		first, err := u.memory.Memory.PrepareObjects(t.Context(), u.node, 2, time.Hour)
		require.NoError(t, err)
		commit := catalog.Commit{Object: catalog.NoObject, Compacted: []catalog.ObjectID{sets[0].Object}}
		for i, r := range sets[0].Ranges {
			commit.StreamObjects = append(commit.StreamObjects, catalog.StreamObject{
				Object: first + catalog.ObjectID(i), Size: 1, Stream: r.Stream, Epoch: -1, Start: r.Start, End: r.End,
			})
		}
		require.NoError(t, u.memory.Memory.Commit(t.Context(), u.node, commit))
		<-time.After(time.Minute)
		require.Equal(t, []int64{1}, u.committedBlocks())
		require.NoError(t, u.failure())
		require.Equal(t, 1, u.store.Count(objstore.OpPutIfAbsent), "written once")
	})
}

func TestF27_ACommitThatIsRejectedStopsTheEngine(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.addBlock(100, 1)
		u.memory.setInject(func(_ int, call string) catalogFault {
			if call == "commit 1:10-20 2:0-10" {
				return catalogFault{err: catalog.ErrNotContiguous}
			}
			return catalogFault{}
		})
		u.addBlock(100, 1, 2)
		u.addBlock(100, 1, 2)
		var rejected *CommitRejectedError
		require.ErrorAs(t, u.failure(), &rejected)
		require.ErrorIs(t, rejected, catalog.ErrNotContiguous)
		require.ErrorIs(t, rejected, ErrEngineFailed)
		require.Equal(t, int64(20), rejected.Commit.Ranges[0].End, "the full request")
		require.Equal(t, []int64{0}, u.committedBlocks(), "nothing more is committed")
		require.ErrorIs(t, u.force(t.Context()), catalog.ErrNotContiguous)
		require.Equal(t, []int64{0, 10, 20}, offsets(u.records.get(1, 0, 100, 1000)), "what was not committed is kept")
		require.Zero(t, u.store.Count(objstore.OpDelete))
	})
}

func TestUP6_EveryOtherRefusalIsABrokenInvariant(t *testing.T) {
	for _, refusal := range []error{
		catalog.ErrObjectIDInUse, catalog.ErrExpiredEpoch, catalog.ErrStreamNotOpened, catalog.ErrStreamNotExist,
		catalog.ErrInvalidArgument, catalog.ErrOffsetOutOfRange, errors.New("the metadata log is closed"),
	} {
		t.Run(refusal.Error(), func(t *testing.T) {
			runUpload(t, nil, func(t *testing.T, u *uploadTest) {
				u.memory.setInject(func(n int, _ string) catalogFault {
					if n == 1 {
						return catalogFault{err: refusal}
					}
					return catalogFault{}
				})
				u.addBlock(100, 1)
				var rejected *CommitRejectedError
				require.ErrorAs(t, u.failure(), &rejected)
				require.ErrorIs(t, rejected, refusal)
				require.ErrorIs(t, rejected, ErrEngineFailed)
				require.NotErrorIs(t, rejected, ErrFenced)
				require.Len(t, rejected.Commit.StreamObjects, 1)
			})
		})
	}
}

func TestUP5_AnOwnerThatIsNoMoreStopsAndDeletesNothing(t *testing.T) {
	for _, at := range []string{"prepare 1", "commit 1:0-10"} {
		for _, refusal := range []error{catalog.ErrNodeEpochMismatch, catalog.ErrStreamFenced} {
			t.Run(fmt.Sprintf("%s: %v", at, refusal), func(t *testing.T) {
				runUpload(t, nil, func(t *testing.T, u *uploadTest) {
					u.memory.setInject(func(_ int, call string) catalogFault {
						if call == at {
							return catalogFault{err: refusal}
						}
						return catalogFault{}
					})
					u.addBlock(100, 1)
					require.ErrorIs(t, u.failure(), ErrFenced)
					require.ErrorIs(t, u.force(t.Context()), refusal)
					require.Zero(t, u.store.Count(objstore.OpDelete))
				})
			})
		}
	}
}

func TestF28_IDsThatExpireDuringAnOutageAreReplaced(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient}))
		u.addBlock(100, 1, 2)
		u.addBlock(100, 1, 2)
		<-time.After(2 * time.Hour)
		expired, err := u.memory.ExpirePrepared(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, expired)
		u.store.SetInjector(nil)
		<-time.After(3 * time.Minute)
		require.NoError(t, u.failure())
		require.Equal(t, []int64{1, 3}, u.committedBlocks())
		require.Equal(t, map[catalog.StreamID][]int64{1: {0, 10}, 2: {0, 10}}, u.stored())
		require.Len(t, u.memory.View().Destroyed(10), 2, "the cleaner removes the bytes of the old ids")
	})
}

func TestF25_F58_AnUploadThatFailsMidwayIsAbortedAndWrittenAgainWhole(t *testing.T) {
	for _, kind := range []objstore.Op{objstore.OpCreate, objstore.OpWrite, objstore.OpFinish} {
		for _, cause := range []error{objstore.ErrTransient, objstore.ErrThrottled, errors.New("no such upload")} {
			t.Run(fmt.Sprintf("%s: %v", kind, cause), func(t *testing.T) {
				runUpload(t, func(cfg *Config) { cfg.ObjectPartSize = 100 << 10 }, func(t *testing.T, u *uploadTest) {
					failing := func(op faultstore.Op) bool { return op.Kind == kind }
					u.store.SetInjector(faultstore.When(failing, faultstore.FailNth(0, cause)))
					begun := time.Now()
					for range 5 {
						u.records.add(1, 10, 70<<10)
					}
					u.addBlock(100, 1)
					require.Empty(t, u.committedBlocks())
					require.Equal(t, []string{"prepare 1"}, u.memory.log(), "no commit")
					for len(u.committedBlocks()) == 0 {
						<-time.After(time.Second)
					}
					require.Less(t, time.Since(begun), 5*time.Second)
					require.Equal(t, 2, u.store.Count(objstore.OpCreate))
					require.Equal(t, 1, u.store.Count(objstore.OpAbort)+boolCount(kind != objstore.OpWrite), "aborted")
					require.Equal(t, []int64{0, 10, 20, 30, 40, 50}, u.stored()[1])
				})
			})
		}
	}
}

func boolCount(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestF58_WhatTheStoreForgetsEveryTimeIsNotTriedForEver(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.store.SetInjector(faultstore.Always(faultstore.Fault{Err: errors.New("no such upload")}))
		u.addBlock(100, 1)
		<-time.After(time.Hour)
		var failed *UploadError
		require.ErrorAs(t, u.failure(), &failed)
		require.Equal(t, uploadTries, failed.Tries)
		require.Equal(t, uploadTries, u.store.Calls())
	})
}

func TestADeniedWriteStopsAtOnceAndNamesTheObject(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.store.SetInjector(faultstore.Always(faultstore.Fault{Err: objstore.ErrDenied}))
		u.addBlock(100, 1)
		err := u.failure()
		require.ErrorIs(t, err, objstore.ErrDenied)
		require.ErrorIs(t, err, ErrEngineFailed)
		require.ErrorContains(t, err, DataKey(DefaultNamespace, 0))
		require.Equal(t, 1, u.store.Calls())
	})
}

func TestF42_APrepareThatFailsIsAskedForAgain(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.memory.setInject(func(n int, _ string) catalogFault {
			if n == 0 {
				return catalogFault{err: catalog.ErrUnavailable}
			}
			return catalogFault{}
		})
		u.addBlock(100, 1)
		u.addBlock(100, 1)
		require.NoError(t, u.force(t.Context()))
		require.Equal(t, []int64{0, 1}, u.committedBlocks())
	})
}

func TestF39_UploadsStallWhileMetadataAreAwayAndCatchUp(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.memory.setInject(func(int, string) catalogFault { return catalogFault{err: catalog.ErrUnavailable} })
		for range 8 {
			u.addBlock(1<<20, 1)
		}
		<-time.After(time.Hour)
		require.Empty(t, u.committedBlocks())
		require.NoError(t, u.failure())
		require.GreaterOrEqual(t, u.records.cost(), int64(8<<20), "nothing is evicted: appends wait for room (LC-7)")
		u.memory.setInject(nil)
		<-time.After(5 * time.Minute)
		require.Len(t, u.committedBlocks(), 8)
		require.Equal(t, []int64{0, 10, 20, 30, 40, 50, 60, 70}, u.stored()[1])
	})
}

func TestF14_OneObjectThatCannotBeWrittenHoldsUpWhatComesAfterItOnly(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		bad := DataKey(DefaultNamespace, 5)
		u.store.SetInjector(func(op faultstore.Op) faultstore.Fault {
			if op.Key == bad {
				return faultstore.Fault{Err: objstore.ErrTransient}
			}
			return faultstore.Fault{}
		})
		for range 10 {
			u.addBlock(100, 1)
		}
		<-time.After(time.Hour / 2)
		require.Equal(t, []int64{0, 1, 2, 3, 4}, u.committedBlocks())
		require.Equal(t, []int64{0, 10, 20, 30, 40}, u.stored()[1], "all of them can be read")
		u.store.SetInjector(nil)
		<-time.After(2 * time.Minute)
		require.Len(t, u.committedBlocks(), 10)
		require.Len(t, u.stored()[1], 10)
		page, err := u.store.List(t.Context(), objstore.ListRequest{})
		require.NoError(t, err)
		require.Len(t, page.Objects, 10, "no object is left that metadata do not know")
	})
}

// drop closes a stream and deletes it, behind the uploader's back.
func (u *uploadTest) drop(id catalog.StreamID) {
	require.NoError(u.t, u.memory.CloseStream(context.Background(), u.node, id, 4))
	require.NoError(u.t, u.memory.DeleteStream(context.Background(), u.node, id, 4))
}

// deletions are the points of an upload at which a stream may be deleted. Each arranges for it to happen.
var deletions = map[string]func(u *uploadTest, drop func()){
	"before it is planned":     func(u *uploadTest, drop func()) { drop() },
	"before prepare":           func(u *uploadTest, drop func()) { u.atCall("prepare", false, nil, drop) },
	"prepare's reply is lost":  func(u *uploadTest, drop func()) { u.atCall("prepare", true, catalog.ErrUnavailable, drop) },
	"before a write":           func(u *uploadTest, drop func()) { u.atWrite(faultstore.Fault{}, drop) },
	"a write that is repeated": func(u *uploadTest, drop func()) { u.atWrite(faultstore.Fault{Err: objstore.ErrTransient}, drop) },
	"a write whose reply is lost": func(u *uploadTest, drop func()) {
		u.atWrite(faultstore.Fault{Err: objstore.ErrTransient, After: true}, drop)
	},
	"before the commit":               func(u *uploadTest, drop func()) { u.atCall("commit", false, nil, drop) },
	"a commit that has no effect":     func(u *uploadTest, drop func()) { u.atCall("commit", false, catalog.ErrUnavailable, drop) },
	"a commit whose reply is lost":    func(u *uploadTest, drop func()) { u.atCall("commit", true, catalog.ErrUnavailable, drop) },
	"ids that expired, and the write": func(u *uploadTest, drop func()) { u.atCall("commit", false, catalog.ErrObjectNotPrepared, drop) },
}

// atCall has something happen at the first call of that name, which fails.
func (u *uploadTest) atCall(name string, after bool, err error, do func()) {
	var once sync.Once
	u.memory.setInject(func(_ int, call string) (fault catalogFault) {
		if strings.HasPrefix(call, name) {
			once.Do(func() {
				fault = catalogFault{err, after}
				if !after {
					do()
					return
				}
				time.AfterFunc(time.Millisecond, do) // when it has taken effect, before the next try
			})
		}
		return fault
	})
}

func (u *uploadTest) atWrite(fault faultstore.Fault, do func()) {
	var once sync.Once
	u.store.SetInjector(func(op faultstore.Op) (f faultstore.Fault) {
		if op.Kind == objstore.OpPut || op.Kind == objstore.OpPutIfAbsent {
			once.Do(func() {
				do()
				f = fault
			})
		}
		return f
	})
}

// TestF45_AStreamThatIsDeletedDuringAnUploadIsLeftOut: at every step of the upload, whether the stream has an object of its
// own, shares one, or is all that there is. Whatever else is in the block is committed, and so is what comes after it.
func TestF45_AStreamThatIsDeletedDuringAnUploadIsLeftOut(t *testing.T) {
	for _, block := range []struct {
		name    string
		streams []catalog.StreamID
		large   bool
	}{
		{"alone", []catalog.StreamID{1}, false},
		{"sharing an object", []catalog.StreamID{1, 2, 3}, false},
		{"with an object of its own", []catalog.StreamID{1, 2, 3}, true},
	} {
		for at, arrange := range deletions {
			t.Run(block.name+", "+at, func(t *testing.T) {
				runUpload(t, func(cfg *Config) { cfg.UploadStreamSplit = 1000 }, func(t *testing.T, u *uploadTest) {
					var again catalog.StreamID
					arrange(u, func() {
						u.drop(1)
						var err error
						again, err = u.memory.CreateStreams(context.Background(), u.node, 1)
						require.NoError(t, err)
						_, err = u.memory.OpenStream(context.Background(), u.node, again, 4)
						require.NoError(t, err)
					})
					if block.large {
						u.records.add(1, 10, 2000)
					}
					u.addBlock(100, block.streams...)
					<-time.After(time.Minute)
					synctest.Wait()
					u.addBlock(100, again, 2)
					<-time.After(time.Minute)
					require.NoError(t, u.failure())
					require.Len(t, u.committedBlocks(), 2)
					want := map[catalog.StreamID][]int64{again: {0}, 2: {0}}
					if len(block.streams) > 1 {
						want[2], want[3] = []int64{0, 10}, []int64{0}
					}
					require.Equal(t, want, u.stored())
					require.Subset(t, []catalog.StreamID{1}, u.deleted, "and nobody else is told to be gone")
				})
			})
		}
	}
}

// TestF45_ARefusalThatNoDeletedStreamExplainsIsABrokenInvariant: every stream of the commit is there.
func TestF45_ARefusalThatNoDeletedStreamExplainsIsABrokenInvariant(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		u.drop(7)
		u.atCall("commit", false, catalog.ErrStreamNotExist, func() {})
		u.addBlock(100, 1, 2)
		var rejected *CommitRejectedError
		require.ErrorAs(t, u.failure(), &rejected)
		require.ErrorIs(t, rejected, catalog.ErrStreamNotExist)
		require.Empty(t, u.committedBlocks())
	})
}

// lateCatalog has views that lag behind what was committed, as an applier that is slow.
type lateCatalog struct {
	*faultCatalog
	mu   sync.Mutex
	seen catalog.View
}

func (c *lateCatalog) View() catalog.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

func (c *lateCatalog) Wait(ctx context.Context, index uint64) (catalog.View, error) {
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	v := c.Memory.View()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = v
	return v, nil
}

func TestRD1_ABlockIsFreeOnlyWhenTheLocalViewHasItsCommit(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		late := &lateCatalog{faultCatalog: u.memory, seen: u.memory.View()}
		u.uploader.catalog = late
		u.addBlock(100, 1)
		require.Equal(t, []string{"prepare 1", "commit 1:0-10"}, u.memory.log())
		require.Empty(t, u.committedBlocks())
		require.True(t, u.records.isUploading(), "it is not free")
		<-time.After(time.Second)
		require.Equal(t, []int64{0}, u.committedBlocks())
		s, _ := late.View().Stream(1)
		require.Equal(t, int64(10), s.End)
	})
}

func TestWAL30_RecoveredRecordsAreCommittedOnTheSpot(t *testing.T) {
	runUpload(t, nil, func(t *testing.T, u *uploadTest) {
		r := newUploader(uploaderOptions{
			data: u.store, catalog: u.memory, node: u.node, namespace: DefaultNamespace, cfg: u.cfg,
		})
		defer r.close()
		record := func(id catalog.StreamID, base int64) Record {
			return Record{Stream: id, Epoch: 4, Base: base, Count: 10, Payload: []byte("tide")}
		}
		u.memory.setInject(func(n int, _ string) catalogFault {
			if n%2 == 0 {
				return catalogFault{err: catalog.ErrUnavailable, after: true}
			}
			return catalogFault{}
		})
		require.NoError(t, r.uploadRecords(t.Context(), []Record{record(1, 0), record(1, 10), record(2, 0)}))
		require.NoError(t, r.uploadRecords(t.Context(), nil), "nothing is nothing")
		require.Equal(t, map[catalog.StreamID][]int64{1: {0, 10}, 2: {0}}, u.stored())
		require.Error(t, r.uploadRecords(t.Context(), []Record{record(1, 20), record(1, 31)}))

		u.memory.setInject(func(int, string) catalogFault { return catalogFault{err: catalog.ErrNodeEpochMismatch} })
		require.ErrorIs(t, r.uploadRecords(t.Context(), []Record{record(1, 20)}), ErrFenced)
		u.memory.setInject(nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, r.uploadRecords(ctx, []Record{record(1, 20)}), context.Canceled)
	})
}

// TestF09_UploadsUnderRandomFaults appends to many streams while store and metadata fail, lose replies and delay at
// random. Whatever happens, all that was put is in the catalog once, in order, and nothing was committed out of order.
func TestF09_UploadsUnderRandomFaults(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		blocks := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 9), 1, 12), 1, 12).Draw(r, "streams of each block")
		storeFaults := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 20).Draw(r, "store")
		catalogFaults := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 20).Draw(r, "catalog")
		runUpload(t, func(cfg *Config) { cfg.ObjectPartSize, cfg.UploadStreamSplit = 40<<10, 20<<10 },
			func(t *testing.T, u *uploadTest) {
				u.store.SetInjector(func(op faultstore.Op) faultstore.Fault {
					delay := func(ctx context.Context) { _ = pause(ctx, time.Duration(op.Index*7%13)*time.Second) }
					switch storeFaults[op.Index%len(storeFaults)] {
					case 0:
						return faultstore.Fault{Err: objstore.ErrTransient, Hook: delay}
					case 1:
						return faultstore.Fault{Err: objstore.ErrThrottled, After: true}
					case 2, 3, 4, 5:
						return faultstore.Fault{Hook: delay}
					}
					return faultstore.Fault{}
				})
				u.memory.setInject(func(n int, _ string) catalogFault {
					switch catalogFaults[n%len(catalogFaults)] {
					case 0, 1:
						return catalogFault{err: catalog.ErrUnavailable}
					case 2:
						return catalogFault{err: catalog.ErrUnavailable, after: true}
					}
					return catalogFault{}
				})
				want := map[catalog.StreamID][]int64{}
				for i, ids := range blocks {
					for _, id := range ids {
						id := catalog.StreamID(id)
						want[id] = append(want[id], u.records.add(id, int32(1+i), 100*i*i).Base)
					}
					u.records.seal()
					if i%3 == 0 {
						<-time.After(time.Second)
					}
				}
				if len(storeFaults) > 1 {
					<-time.After(2 * time.Minute)
				}
				u.store.SetInjector(nil)
				u.memory.setInject(nil)
				require.NoError(t, u.force(t.Context()))
				require.NoError(t, u.failure())
				require.Equal(t, want, u.stored())
				require.True(t, slices.IsSorted(u.committedBlocks()))
			})
	})
}

// TestF45_AnObjectThatIsThereAlreadyIsNotReplaced: a copy of the metadata gives out the same ids (row F45 of the matrix).
func TestF45_AnObjectThatIsThereAlreadyIsNotReplaced(t *testing.T) {
	for name, size := range map[string]int{"one put": 100, "an upload in parts": 300 << 10} {
		t.Run(name, func(t *testing.T) {
			runUpload(t, func(cfg *Config) { cfg.ObjectPartSize = 200 << 10 }, func(t *testing.T, u *uploadTest) {
				key := DataKey(DefaultNamespace, 0)
				require.NoError(t, u.store.Put(t.Context(), key, []byte("another process's")))
				u.addBlock(size, 1)
				var taken *ObjectTakenError
				require.ErrorAs(t, u.failure(), &taken)
				require.Equal(t, key, taken.Key)
				require.ErrorIs(t, u.failure(), ErrEngineFailed)
				found, err := u.store.Get(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, "another process's", string(found))
				require.Zero(t, u.store.Count(objstore.OpDelete))
				require.Equal(t, []string{"prepare 1"}, u.memory.log(), "no commit")
			})
		})
	}
}

// TestF45_AnObjectThatComesWhileAnUploadIsSentIsNotReplaced: at any of the upload's calls, whether that one fails for now or not.
func TestF45_AnObjectThatComesWhileAnUploadIsSentIsNotReplaced(t *testing.T) {
	for _, kind := range []objstore.Op{objstore.OpCreate, objstore.OpWrite, objstore.OpFinish} {
		for _, fails := range []error{nil, objstore.ErrTransient} {
			t.Run(fmt.Sprint(kind, fails), func(t *testing.T) {
				runUpload(t, func(cfg *Config) { cfg.ObjectPartSize = 200 << 10 }, func(t *testing.T, u *uploadTest) {
					key := DataKey(DefaultNamespace, 0)
					u.store.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == kind }, func(faultstore.Op) faultstore.Fault {
						u.store.SetInjector(nil)
						require.NoError(t, u.store.Put(t.Context(), key, []byte("another process's")))
						return faultstore.Fault{Err: fails}
					}))
					u.addBlock(300<<10, 1)
					<-time.After(time.Minute)
					var taken *ObjectTakenError
					require.ErrorAs(t, u.failure(), &taken)
					found, err := u.store.Get(t.Context(), key)
					require.NoError(t, err)
					require.Equal(t, "another process's", string(found))
					require.Equal(t, []string{"prepare 1"}, u.memory.log(), "no commit")
				})
			})
		}
	}
}

// TestF45_AnObjectOfTheSameSizeIsAnother: bytes are compared.
func TestF45_AnObjectOfTheSameSizeIsAnother(t *testing.T) {
	for change, want := range map[byte]error{0: nil, 1: ErrEngineFailed} {
		s := mem.New()
		b := bytes.Repeat([]byte("0123456789abcdef"), 9<<20/16)
		u, err := createData(t.Context(), s, "k")
		require.NoError(t, err)
		_, err = u.Write(b)
		require.NoError(t, err)
		b[len(b)-1] ^= change
		require.NoError(t, s.Put(t.Context(), "k", b))
		require.ErrorIs(t, u.Finish(), want)
	}
}

// TestAnObjectOfAnEarlierTryIsTaken: the store wrote it and its answer was lost.
func TestAnObjectOfAnEarlierTryIsTaken(t *testing.T) {
	for name, kind := range map[string]objstore.Op{"one put": objstore.OpPutIfAbsent, "an upload in parts": objstore.OpFinish} {
		t.Run(name, func(t *testing.T) {
			runUpload(t, func(cfg *Config) { cfg.ObjectPartSize = 200 << 10 }, func(t *testing.T, u *uploadTest) {
				once := faultstore.Fault{Err: objstore.ErrTransient, After: true}
				u.store.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == kind }, func(op faultstore.Op) faultstore.Fault {
					u.store.SetInjector(nil)
					return once
				}))
				size := 100
				if kind == objstore.OpFinish {
					size = 300 << 10
				}
				u.addBlock(size, 1)
				<-time.After(time.Minute)
				require.Equal(t, []int64{0}, u.committedBlocks())
				require.Equal(t, []int64{0}, u.stored()[1])
			})
		})
	}
}
