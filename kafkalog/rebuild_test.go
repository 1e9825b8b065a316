package kafkalog

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/batch"
)

// replayedLog is a log as rebuildProducers sees it: segments of batches.
type replayedLog struct {
	files    *snapshotFiles
	bases    []int64
	batches  []batch.Batch // of all segments
	logStart int64
	replayed []int64 // base offsets of the batches that the last rebuild read
	synced   []int64 // offsets at which it asked for what lies below to be durable
}

func (l *replayedLog) end() int64 {
	if len(l.batches) == 0 {
		return l.bases[0]
	}
	return l.batches[len(l.batches)-1].NextOffset()
}

func (l *replayedLog) add(b batch.Batch) {
	b.SetBaseOffset(l.end())
	l.batches = append(l.batches, b)
}

func (l *replayedLog) roll() { l.bases = append(l.bases, l.end()) }

// rebuild brings the state to the offset end.
func (l *replayedLog) rebuild(p *producerState, end int64) error {
	l.replayed, l.synced = nil, nil
	return rebuildProducers(p, l.files, rebuildOptions{
		end: end, logStart: l.logStart, bases: l.bases, nowMs: 0, expirationMs: math.MaxInt64,
		replay: func(base, from int64) error {
			upper := int64(math.MaxInt64)
			if i, _ := slices.BinarySearch(l.bases, base); i+1 < len(l.bases) {
				upper = l.bases[i+1]
			}
			for _, b := range l.batches {
				if b.BaseOffset() < base || b.BaseOffset() >= min(upper, end) || b.LastOffset() < from {
					continue
				}
				l.replayed = append(l.replayed, b.BaseOffset())
				if _, _, err := p.replay(b); err != nil {
					return err
				}
			}
			return nil
		},
		beforeSnapshot: func(offset int64) error {
			l.synced = append(l.synced, offset)
			return nil
		},
	})
}

// live is the state of a process that appended every batch itself.
func (l *replayedLog) live(t require.TestingT) *producerState {
	p := newProducerState()
	p.reset(l.logStart)
	for _, b := range l.batches {
		_, _, err := p.replay(b)
		require.NoError(t, err)
	}
	return p
}

// requireLive compares with the live state what a snapshot keeps.
func (l *replayedLog) requireLive(t require.TestingT, p *producerState) {
	want := l.live(t)
	require.Equal(t, want.snapshotEntries(), p.snapshotEntries())
	require.True(t, slices.Equal(want.ongoing, p.ongoing), "want %v, got %v", want.ongoing, p.ongoing)
	require.Equal(t, l.end(), p.mapEnd)
}

// threeSegments is a log with the segments 0, 4 and 9, that ends at 12 with a transaction open since 9.
func threeSegments(t testing.TB) *replayedLog {
	l := &replayedLog{files: newTestSnapshots(t, newPartsFS(t)), bases: []int64{0}}
	l.add(newTestBatch(t, dataHeader(7, 0, 0, 0, 3)))
	l.add(newTestBatch(t, txnHeader(8, 0, 0, 0, 1)))
	l.roll()
	l.add(newTestBatch(t, dataHeader(7, 0, 3, 0, 3)))
	l.add(newTestBatch(t, txnHeader(8, 0, 1, 0, 1)))
	l.add(batch.EndMarker(batch.EndMarkerOptions{ProducerID: 8, CoordinatorEpoch: 1, Timestamp: 5}))
	l.roll()
	l.add(newTestBatch(t, txnHeader(8, 0, 2, 0, 1)))
	l.add(newTestBatch(t, dataHeader(7, 0, 6, 0, 1)))
	l.add(newTestBatch(t, dataHeader(9, 0, 0, 0, 1)))
	return l
}

func TestF16_ALogWithoutSnapshotsIsReplayedAsAWhole(t *testing.T) {
	l := threeSegments(t)
	p := newProducerState()
	require.NoError(t, l.rebuild(p, 12))
	l.requireLive(t, p)
	require.Equal(t, []int64{0, 3, 4, 7, 8, 9, 10, 11}, l.replayed)
	require.Equal(t, l.live(t).recovered(), p.recovered(), "nothing was loaded, so nothing is forgotten")
	requireSnapshots(t, l.files, 4, 9, 12)
	require.Equal(t, []int64{4, 9, 12}, l.synced)
	require.EqualValues(t, 12, p.lastSnap)
}

func TestTheSnapshotOfACleanCloseNeedsNoReplay(t *testing.T) {
	l := threeSegments(t)
	require.NoError(t, l.rebuild(newProducerState(), 12))
	p := newProducerState()
	require.NoError(t, l.rebuild(p, 12))
	require.Empty(t, l.replayed)
	require.Empty(t, l.synced)
	l.requireLive(t, p)
	requireSnapshots(t, l.files, 4, 9, 12)
}

func TestF16_DamagedSnapshotsAreDeletedAndTheNextOlderIsTaken(t *testing.T) {
	damage := map[string]func(data []byte) []byte{
		"a flipped bit":      func(data []byte) []byte { data[len(data)-1] ^= 4; return data },
		"0 bytes":            func([]byte) []byte { return nil },
		"an unknown version": func(data []byte) []byte { return resealed(data, func(d []byte) []byte { d[1] = 2; return d }) },
		"half of it":         func(data []byte) []byte { return data[:len(data)/2] },
	}
	for name, apply := range damage {
		for _, count := range []int{1, 2, 3} {
			l := threeSegments(t)
			require.NoError(t, l.rebuild(newProducerState(), 12))
			for _, offset := range []int64{12, 9, 4}[:count] {
				path := l.files.path(offset)
				storeFile(t, l.files.fs, path, apply(storedFile(t, l.files.fs, path)))
			}
			p := newProducerState()
			require.NoError(t, l.rebuild(p, 12), name)
			l.requireLive(t, p)
			wantFirst := []int64{9, 4, 0}[count-1]
			require.Equal(t, wantFirst, l.replayed[0], "%s in %d snapshots", name, count)
			requireSnapshots(t, l.files, 4, 9, 12)
			for _, offset := range []int64{4, 9, 12} {
				_, err := l.files.read(offset)
				require.NoError(t, err, "%s: snapshot %d was written again", name, offset)
			}
		}
	}
}

func TestASnapshotThatCannotBeReadIsNotTakenForADamagedOne(t *testing.T) {
	l := threeSegments(t)
	require.NoError(t, l.rebuild(newProducerState(), 12))
	fsys := &probeFS{FS: l.files.fs}
	l.files.fs = fsys
	fsys.failOnce("read")
	require.ErrorIs(t, l.rebuild(newProducerState(), 12), errInjected)
	requireSnapshots(t, l.files, 4, 9, 12)
}

func TestSnapshotsAboveTheEndAndAtOrBelowTheLogStartAreDeleted(t *testing.T) {
	l := threeSegments(t)
	require.NoError(t, l.rebuild(newProducerState(), 12))
	l.logStart = 4
	l.batches = l.batches[:5] // up to 9
	p := newProducerState()
	require.NoError(t, l.rebuild(p, 9))
	require.Empty(t, l.replayed, "the snapshot at 9 has it all")
	requireSnapshots(t, l.files, 9)
	require.EqualValues(t, 9, p.mapEnd)
}

func TestTruncatingALiveStateReloadsIt(t *testing.T) {
	l := threeSegments(t)
	p := newProducerState()
	require.NoError(t, l.rebuild(p, 12))
	l.batches = l.batches[:6] // up to 10
	require.NoError(t, l.rebuild(p, 10))
	l.requireLive(t, p)
	require.Equal(t, []int64{9}, l.replayed)
	requireSnapshots(t, l.files, 4, 9, 10)
}

func TestAStateAtItsEndIsKept(t *testing.T) {
	l := threeSegments(t)
	p := newProducerState()
	require.NoError(t, l.rebuild(p, 12))
	before := p.clone()
	require.NoError(t, l.rebuild(p, 12))
	requireSameState(t, before, p)
	require.Len(t, p.recovered()[0].Earlier, 2, "also the batches that no snapshot keeps")
}

func TestAnEmptyLogGetsNoSnapshot(t *testing.T) {
	l := &replayedLog{files: newTestSnapshots(t, newPartsFS(t)), bases: []int64{42}, logStart: 42}
	p := newProducerState()
	require.NoError(t, l.rebuild(p, 42))
	requireSnapshots(t, l.files)
	require.EqualValues(t, 42, p.mapEnd)
	require.EqualValues(t, 42, p.lastSnap)
}

func TestTruncatingAStateWithoutProducersReadsNothing(t *testing.T) {
	l := threeSegments(t)
	p := newProducerState()
	p.reset(0)
	p.setEnd(12)
	require.NoError(t, l.rebuild(p, 10))
	require.Empty(t, l.replayed)
	require.EqualValues(t, 10, p.mapEnd)
}

func TestRecordsBelowTheLogStartAreNotReplayed(t *testing.T) {
	l := threeSegments(t)
	l.logStart = 5 // inside the batch at 4
	p := newProducerState()
	require.NoError(t, l.rebuild(p, 12))
	require.Equal(t, []int64{4, 7, 8, 9, 10, 11}, l.replayed)
}

func TestExpiredProducersAreNotBroughtBackBySnapshots(t *testing.T) {
	l := threeSegments(t)
	require.NoError(t, l.rebuild(newProducerState(), 12))
	p := newProducerState()
	require.NoError(t, rebuildProducers(p, l.files, rebuildOptions{
		end: 12, bases: l.bases, nowMs: 1 << 40, expirationMs: 1000,
		replay: func(int64, int64) error { return nil },
	}))
	require.Equal(t, []int64{8}, p.ids(), "only the one with an open transaction")
}

func TestARebuildStopsAtTheFirstError(t *testing.T) {
	for _, step := range []string{"replay", "beforeSnapshot"} {
		l := threeSegments(t)
		o := rebuildOptions{
			end: 12, bases: l.bases, expirationMs: math.MaxInt64,
			replay: func(int64, int64) error { return nil }, beforeSnapshot: func(int64) error { return nil },
		}
		if step == "replay" {
			o.replay = func(int64, int64) error { return errInjected }
		} else {
			o.beforeSnapshot = func(int64) error { return errInjected }
		}
		require.True(t, errors.Is(rebuildProducers(newProducerState(), l.files, o), errInjected))
		requireSnapshots(t, l.files)
	}
}

// TestAnyWayOfRebuildingGivesTheLiveState appends, rolls, truncates and reopens at random, with snapshots deleted and
// damaged in between.
func TestAnyWayOfRebuildingGivesTheLiveState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := newPartsFS(t)
		l := &replayedLog{files: newTestSnapshots(t, fsys), bases: []int64{0}}
		p := newProducerState()
		require.NoError(t, l.rebuild(p, 0))
		next := map[int64]int32{}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				pid := rapid.Int64Range(1, 3).Draw(t, "producer")
				h := dataHeader(pid, 0, next[pid], l.end(), rapid.Int32Range(1, 3).Draw(t, "records"))
				_, open := p.transactionStart(pid)
				if open || rapid.Bool().Draw(t, "transactional") {
					h.Attributes |= transactional
				}
				next[pid] += h.Count
				raw := make([]byte, batch.HeaderSize)
				h.Length = batch.HeaderSize - 12
				h.Put(raw)
				l.add(raw)
				_, _, err := p.replay(raw)
				require.NoError(t, err)
			},
			"marker": func(t *rapid.T) {
				pid := rapid.Int64Range(1, 3).Draw(t, "producer")
				b := batch.EndMarker(batch.EndMarkerOptions{ProducerID: pid, Commit: rapid.Bool().Draw(t, "commit")})
				l.add(b)
				_, _, err := p.replay(b)
				require.NoError(t, err)
			},
			"roll": func(t *rapid.T) {
				if l.end() == l.bases[len(l.bases)-1] {
					return
				}
				l.roll()
				if offset, data, due := p.capture(); due {
					require.NoError(t, l.files.publish(offset, data))
				}
			},
			"truncate": func(t *rapid.T) {
				kept := rapid.IntRange(0, len(l.batches)).Draw(t, "batches")
				l.batches = l.batches[:kept]
				end := l.end()
				l.bases = slices.DeleteFunc(l.bases, func(base int64) bool { return base > end })
				require.NoError(t, l.rebuild(p, end))
			},
			"damage": func(t *rapid.T) {
				if offsets := l.files.all(); len(offsets) > 0 {
					path := l.files.path(rapid.SampledFrom(offsets).Draw(t, "snapshot"))
					data, err := readFile(fsys, path)
					require.NoError(t, err)
					data[len(data)-1] ^= 1
					require.NoError(t, replaceFile(fsys, path, data))
				}
			},
			"reopen": func(t *rapid.T) {
				l.files = newTestSnapshots(t, fsys)
				require.NoError(t, l.files.removeStray(l.bases))
				p = newProducerState()
				require.NoError(t, l.rebuild(p, l.end()))
			},
			"": func(t *rapid.T) { l.requireLive(t, p) },
		})
	})
}
