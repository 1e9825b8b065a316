package kafkalog

import (
	"encoding/binary"
	"io/fs"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/vfs"
)

// oneProducer is the producer in the golden snapshot.
func oneProducer() ProducerSnapshotEntry {
	return ProducerSnapshotEntry{
		ProducerID: 1000, LastOffset: 44, Timestamp: 1700000000020, CoordinatorEpoch: 7, TxnFirstOffset: -1,
	}
}

func TestASnapshotHasKafkasBytes(t *testing.T) {
	for name, entries := range map[string][]ProducerSnapshotEntry{
		"snapshot-empty":        {},
		"snapshot-one-producer": {oneProducer()},
	} {
		golden := formatBytes(t, name)
		require.Equal(t, golden, encodeSnapshot(entries), name)
		decoded, err := decodeSnapshot("x", golden)
		require.NoError(t, err)
		require.Equal(t, entries, decoded, name)
	}
}

func TestASnapshotOfALiveStateIsTheSameBytesEveryTime(t *testing.T) {
	p := newProducerState()
	for _, pid := range []int64{5, 900, 3, 77, 1} {
		mustTake(t, p, dataHeader(pid, 0, 0, pid, 1))
	}
	p.setEnd(901)
	first := encodeSnapshot(p.snapshotEntries())
	for range 20 {
		require.Equal(t, first, encodeSnapshot(p.clone().snapshotEntries()))
	}
}

// resealed returns the snapshot with a change and a checksum that fits again.
func resealed(data []byte, change func(data []byte) []byte) []byte {
	data = change(append([]byte(nil), data...))
	if len(data) >= snapshotHeaderSize {
		binary.BigEndian.PutUint32(data[2:], snapshotCRC(data))
	}
	return data
}

func TestADamagedSnapshotIsRefused(t *testing.T) {
	golden := formatBytes(t, "snapshot-one-producer")
	patch := func(at int, bytes ...byte) []byte {
		return resealed(golden, func(data []byte) []byte { copy(data[at:], bytes); return data })
	}
	for name, test := range map[string]struct {
		data     []byte
		position int64
	}{
		"0 bytes":                  {nil, 0},
		"9 bytes":                  {golden[:9], 9},
		"half an entry":            {resealed(golden, func(d []byte) []byte { return d[:len(d)-1] }), 6},
		"a byte too many":          {resealed(golden, func(d []byte) []byte { return append(d, 0) }), 6},
		"more entries than bytes":  {patch(6, 0, 0, 0, 2), 6},
		"fewer entries than bytes": {patch(6, 0, 0, 0, 0), 6},
		"a negative count":         {patch(6, 0xff, 0xff, 0xff, 0xff), 6},
		"a huge count":             {patch(6, 0x7f, 0xff, 0xff, 0xff), 6},
		"a negative producer":      {patch(10, 0xff), 10},
		"a negative epoch":         {patch(18, 0xff), 10},
		"a negative offset delta":  {patch(32, 0xff), 10},
		"a producer twice": {resealed(golden, func(d []byte) []byte {
			d[9] = 2
			return append(d, d[snapshotHeaderSize:]...)
		}), 56},
		"zeros": {make([]byte, 56), -1},
	} {
		_, err := decodeSnapshot("x", test.data)
		require.True(t, damaged(err), "%s: %v", name, err)
		require.ErrorIs(t, err, ErrStorage)
		var corrupt *CorruptionError
		if test.position >= 0 {
			require.ErrorAs(t, err, &corrupt, name)
			require.Equal(t, test.position, corrupt.Position, name)
		}
	}
}

func TestEveryFlippedBitOfASnapshotIsFound(t *testing.T) {
	golden := formatBytes(t, "snapshot-one-producer")
	for bit := range len(golden) * 8 {
		data := append([]byte(nil), golden...)
		data[bit/8] ^= 1 << (bit % 8)
		_, err := decodeSnapshot("x", data)
		require.True(t, damaged(err), "bit %d: %v", bit, err)
	}
}

func TestASnapshotOfAnotherVersionIsRefusedWithBothVersions(t *testing.T) {
	data := resealed(formatBytes(t, "snapshot-one-producer"), func(d []byte) []byte { d[1] = 2; return d })
	_, err := decodeSnapshot("x", data)
	require.Equal(t, &UnsupportedVersionError{Artifact: "producer snapshot", Path: "x", Found: 2, Supported: 1}, err)
}

func TestABatchWithoutSequencesIsKeptInASnapshot(t *testing.T) {
	entry := ProducerSnapshotEntry{
		ProducerID: 1, LastSequence: -1, LastOffset: 44, OffsetDelta: 2, Timestamp: 9, CoordinatorEpoch: -1, TxnFirstOffset: 40,
	}
	decoded, err := decodeSnapshot("x", encodeSnapshot([]ProducerSnapshotEntry{entry}))
	require.NoError(t, err)
	require.Equal(t, []ProducerSnapshotEntry{entry}, decoded)
	p := newProducerState()
	p.load(decoded, 0, math.MaxInt64)
	require.Equal(t, decoded, p.snapshotEntries())
	start, open := p.transactionStart(1)
	require.True(t, open)
	require.EqualValues(t, 40, start)
}

func TestAnEntryWithoutABatchSaysSoInOneWay(t *testing.T) {
	decoded, err := decodeSnapshot("x", encodeSnapshot([]ProducerSnapshotEntry{{
		ProducerID: 1, LastSequence: 9, LastOffset: -5, Timestamp: 3, CoordinatorEpoch: 4, TxnFirstOffset: -7,
	}}))
	require.NoError(t, err)
	require.Equal(t, []ProducerSnapshotEntry{{
		ProducerID: 1, LastSequence: -1, LastOffset: -1, Timestamp: 3, CoordinatorEpoch: 4, TxnFirstOffset: -1,
	}}, decoded)
}

func TestExpiredEntriesAreNotLoadedUnlessATransactionIsOpen(t *testing.T) {
	idle, open, fresh := oneProducer(), oneProducer(), oneProducer()
	open.ProducerID, open.TxnFirstOffset = 1001, 40
	fresh.ProducerID, fresh.Timestamp = 1002, idle.Timestamp+1
	p := newProducerState()
	p.load([]ProducerSnapshotEntry{idle, open, fresh}, idle.Timestamp+30000, 30000)
	require.Equal(t, []int64{1001, 1002}, p.ids())
}

func newTestSnapshots(t require.TestingT, fsys vfs.FS, offsets ...int64) *snapshotFiles {
	files, err := loadSnapshotFiles(fsys, partsDir)
	require.NoError(t, err)
	for _, offset := range offsets {
		require.NoError(t, files.publish(offset, encodeSnapshot(nil)))
	}
	return files
}

// requireSnapshots holds the list in memory and the directory against what is wanted.
func requireSnapshots(t require.TestingT, files *snapshotFiles, want ...int64) {
	require.ElementsMatch(t, want, files.all())
	listed, err := loadSnapshotFiles(files.fs, files.dir)
	require.NoError(t, err)
	require.ElementsMatch(t, want, listed.all())
}

func TestSnapshotsAreFoundByName(t *testing.T) {
	fsys := newPartsFS(t)
	for _, name := range []string{
		"00000000000000000020.snapshot", "00000000000000000003.snapshot", "00000000000000000100.snapshot",
		"00000000000000000050.snapshot.deleted", "50.snapshot", "00000000000000000050.log", "x.snapshot",
	} {
		storeFile(t, fsys, partsDir+"/"+name, nil)
	}
	files := newTestSnapshots(t, fsys)
	require.Equal(t, []int64{3, 20, 100}, files.all())
	newest, found := files.newest()
	require.True(t, found)
	require.EqualValues(t, 100, newest)
	require.True(t, files.has(20))
	require.False(t, files.has(50))
}

func TestAPublishedSnapshotSurvivesAPowerCutAndIsNotReplaced(t *testing.T) {
	fsys := newPartsFS(t)
	require.NoError(t, fsys.SyncDir("."))
	files := newTestSnapshots(t, fsys)
	_, found := files.newest()
	require.False(t, found)
	require.NoError(t, files.publish(46, encodeSnapshot([]ProducerSnapshotEntry{oneProducer()})))
	require.NoError(t, files.publish(46, encodeSnapshot(nil)))

	after := newTestSnapshots(t, fsys.CrashClean())
	requireSnapshots(t, after, 46)
	entries, err := after.read(46)
	require.NoError(t, err)
	require.Equal(t, []ProducerSnapshotEntry{oneProducer()}, entries)
}

func TestF16_ASnapshotThatCannotBeWrittenIsNotListed(t *testing.T) {
	for _, op := range []string{"open", "write", "sync", "close", "rename"} {
		fsys := &probeFS{FS: newPartsFS(t)}
		files := newTestSnapshots(t, fsys)
		fsys.failOnce(op)
		require.ErrorIs(t, files.publish(46, encodeSnapshot(nil)), errInjected, op)
		requireSnapshots(t, files)
		require.NoError(t, files.publish(46, encodeSnapshot(nil)), op)
		requireSnapshots(t, files, 46)
	}
}

func TestRemovedAndForgottenSnapshots(t *testing.T) {
	fsys := newPartsFS(t)
	files := newTestSnapshots(t, fsys, 1, 2, 3, 4)
	require.NoError(t, files.remove(2))
	require.NoError(t, files.remove(2))
	requireSnapshots(t, files, 1, 3, 4)
	require.NoError(t, fsys.Rename(files.path(3), files.path(3)+deletedSuffix))
	files.forget(3)
	requireSnapshots(t, files, 1, 4)
	require.NoError(t, files.removeIf(func(offset int64) bool { return offset < 4 }))
	requireSnapshots(t, files, 4)
	require.NoError(t, files.removeAll())
	requireSnapshots(t, files)
}

func TestStraySnapshotsAreThoseOfNoSegmentButTheOneOfACleanClose(t *testing.T) {
	for name, test := range map[string]struct {
		snapshots, bases, want []int64
	}{
		"at bases":                       {[]int64{10, 20}, []int64{0, 10, 20}, []int64{10, 20}},
		"taken at the close":             {[]int64{10, 20, 35}, []int64{0, 10, 20}, []int64{10, 20, 35}},
		"two above: the older goes":      {[]int64{10, 20, 30, 35}, []int64{0, 10, 20}, []int64{10, 20, 35}},
		"between":                        {[]int64{10, 15, 20}, []int64{0, 10, 20}, []int64{10, 20}},
		"between and above":              {[]int64{10, 15, 20, 35}, []int64{0, 10, 20}, []int64{10, 20, 35}},
		"the highest is below the bases": {[]int64{5}, []int64{10, 20}, nil},
		"no segment":                     {[]int64{5}, nil, nil},
	} {
		files := newTestSnapshots(t, newPartsFS(t), test.snapshots...)
		require.NoError(t, files.removeStray(test.bases), name)
		requireSnapshots(t, files, test.want...)
	}
}

func TestAMissingSnapshotIsAnError(t *testing.T) {
	files := newTestSnapshots(t, newPartsFS(t))
	_, err := files.read(5)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = loadSnapshotFiles(newPartsFS(t), "nowhere")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestSnapshotsOfAnyStateDecodeToIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProducerState()
		for i := range rapid.IntRange(0, 20).Draw(t, "producers") {
			pid := int64(i) * rapid.Int64Range(1, 1<<40).Draw(t, "producer")
			if _, found := p.entry(pid); found {
				continue
			}
			h := dataHeader(pid, int16(rapid.IntRange(0, math.MaxInt16).Draw(t, "epoch")),
				rapid.Int32Range(-1, maxSequence).Draw(t, "sequence"), int64(i)*1000, rapid.Int32Range(1, 1000).Draw(t, "records"))
			if rapid.Bool().Draw(t, "transactional") {
				h.Attributes |= transactional
			}
			mustTake(t, p, h)
		}
		entries, err := decodeSnapshot("x", encodeSnapshot(p.snapshotEntries()))
		require.NoError(t, err)
		loaded := newProducerState()
		loaded.load(entries, 0, math.MaxInt64)
		requireSameState(t, p, loaded)
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(encodeSnapshot(nil))
	f.Add(encodeSnapshot([]ProducerSnapshotEntry{oneProducer()}))
	f.Add([]byte{0, 2, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, resealed(data, func(d []byte) []byte { return d })} {
			entries, err := decodeSnapshot("x", data)
			if err != nil {
				require.True(t, damaged(err), "%v", err)
				continue
			}
			again, err := decodeSnapshot("x", encodeSnapshot(entries))
			require.NoError(t, err)
			require.Equal(t, entries, again)
			p := newProducerState()
			p.load(entries, 0, math.MaxInt64)
			require.Len(t, p.snapshotEntries(), len(entries))
		}
	})
}
