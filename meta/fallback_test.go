package meta_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

// The tests of this file are row F41 of the failure matrix: a newest snapshot whose checksum fails.

// twoSnapshots is storage with 25 entries, of which 1 to 10 are gone, snapshots at 10 and 20, and the state's bytes.
func twoSnapshots(t *testing.T) (storage *metatest.Memory, want []byte) {
	t.Helper()
	storage = metatest.NewMemory("c")
	r := start(t, storage.Open, meta.Options{SnapshotEvery: 10})
	for i := range 25 {
		_, err := r.Do(background, put(fmt.Sprint(i), "v"))
		require.NoError(t, err)
	}
	require.NoError(t, r.Log.Close())
	want = r.View().EncodeSnapshot()
	require.NoError(t, r.backend.Close())
	return storage, want
}

// damages are the ways in which the bytes of a snapshot are not those that were written.
func damages() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		"a bit changed":   flip(50),
		"a magic changed": flip(1),
		"a CRC changed":   func(b []byte) []byte { return flip(len(b) - 1)(b) },
		"a half of it":    func(b []byte) []byte { return b[:len(b)/2] },
		"nothing is left": func([]byte) []byte { return nil },
		"a version byte":  flip(4),
		"a byte too many": func(b []byte) []byte { return append(b, 0) },
	}
}

func TestF41_ADamagedSnapshotIsMadeAgainFromTheOlderOneAndTheEntriesSince(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			storage, want := twoSnapshots(t)
			storage.Corrupt(true, 20, damage)
			var rec recorder
			events, snapped := rec.events(), make(chan meta.SnapshotEvent, 1)
			events.Snapshotted = func(e meta.SnapshotEvent) { snapped <- e }
			l := open(t, storage.Join(), meta.Options{SnapshotEvery: 10, Events: events})
			require.Equal(t, want, l.View().EncodeSnapshot())
			require.Len(t, rec.fell, 1)
			require.ErrorContains(t, rec.fell[0].Err, "meta: memory: snapshot 20: ")
			rec.fell[0].Err = nil
			require.Equal(t, []meta.FallbackEvent{{Damaged: 20, From: 10, Entries: 10}}, rec.fell)

			first := <-snapped
			require.Equal(t, meta.SnapshotEvent{Index: 20, Bytes: first.Bytes}, first, "it is stored in its place, at once")
			requireSnapshots(t, storage, 20, 10)
			_, err := l.Do(background, put("more", "v"))
			require.NoError(t, err)
			settled := l.View().EncodeSnapshot()
			require.NoError(t, l.Close())
			requireSnapshots(t, storage, 20, 10)
			again := open(t, storage.Join(), meta.Options{Events: rec.events()})
			require.Equal(t, settled, again.View().EncodeSnapshot())
			require.Len(t, rec.fell, 1, "nothing had to be made up for")
		})
	}
}

// requireSnapshots checks that the two snapshots that are kept are whole, and of which entries.
func requireSnapshots(t *testing.T, storage *metatest.Memory, newest, older uint64) {
	t.Helper()
	b := storage.Join()
	defer b.Close()
	for index, read := range map[uint64]func(context.Context) (uint64, []byte, error){newest: b.Snapshot, older: b.OlderSnapshot} {
		at, data, err := read(background)
		require.NoError(t, err)
		require.Equal(t, index, at)
		s, err := meta.DecodeSnapshot(data)
		require.NoError(t, err)
		require.Equal(t, index, s.Index())
	}
}

// TestF41_BothSnapshotsAreWholeWhateverWriteAfterAFallbackIsTheLast: with the next snapshots, and with crashes, too.
func TestF41_BothSnapshotsAreWholeWhateverWriteAfterAFallbackIsTheLast(t *testing.T) {
	for n := 1; n <= 40; n++ {
		storage, _ := twoSnapshots(t)
		storage.Corrupt(true, 20, flip(50))
		crashed := storage.CrashAtWrite(n, n%2 == 0)
		l, err := meta.Open(background, storage.Join(), meta.Options{SnapshotEvery: 10})
		require.NoError(t, err)
		for i := 0; err == nil; i++ {
			_, err = l.Do(background, put(fmt.Sprint("more ", i), "v"))
		}
		<-crashed
		_ = l.Close()
		b := storage.Join()
		var whole []bool
		for _, read := range []func(context.Context) (uint64, []byte, error){b.OlderSnapshot, b.Snapshot} {
			_, data, err := read(background)
			require.NoError(t, err)
			_, err = meta.DecodeSnapshot(data)
			whole = append(whole, err == nil)
		}
		require.NoError(t, b.Close())
		require.Equal(t, []bool{true, n > 1}, whole, "write %d", n)
	}
}

// TestF41_ASnapshotThatCannotBeStoredInItsPlaceKeepsTheOlderOne: a full disk, or a backend that is away.
func TestF41_ASnapshotThatCannotBeStoredInItsPlaceKeepsTheOlderOne(t *testing.T) {
	storage, _ := twoSnapshots(t)
	storage.Corrupt(true, 20, flip(50))
	full := &fullForSnapshots{Backend: storage.Join()}
	full.refuses.Store(true)
	l := open(t, full, meta.Options{SnapshotEvery: 10})
	for i := range 30 {
		_, err := l.Do(background, put(fmt.Sprint("more ", i), "v"))
		require.NoError(t, err)
	}
	b := storage.Join()
	older, _, err := b.OlderSnapshot(background)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.EqualValues(t, 10, older)
	full.refuses.Store(false)
	for i := range 30 {
		_, err := l.Do(background, put(fmt.Sprint("much more ", i), "v"))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	require.Greater(t, full.stored.Load(), int64(1))
	b = storage.Join()
	older, data, err := b.OlderSnapshot(background)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.Greater(t, older, uint64(20))
	_, err = meta.DecodeSnapshot(data)
	require.NoError(t, err)
}

// fullForSnapshots is a backend with room for entries only.
type fullForSnapshots struct {
	meta.Backend
	refuses atomic.Bool
	stored  atomic.Int64
}

func (f *fullForSnapshots) PutSnapshot(ctx context.Context, index uint64, data []byte) error {
	if f.refuses.Load() {
		return meta.ErrNoSpace
	}
	f.stored.Add(1)
	return f.Backend.PutSnapshot(ctx, index, data)
}

func TestF41_WithoutAnOlderSnapshotTheWholeLogMakesUpForTheOnlyOne(t *testing.T) {
	storage := metatest.NewMemory("c")
	r := start(t, storage.Open, meta.Options{SnapshotEvery: 15})
	for i := range 20 {
		_, err := r.Do(background, put(fmt.Sprint(i), "v"))
		require.NoError(t, err)
	}
	want := r.View().EncodeSnapshot()
	r.stop()
	storage.Corrupt(true, 15, flip(50))
	var rec recorder
	l := open(t, storage.Join(), meta.Options{Events: rec.events()})
	require.Equal(t, want, l.View().EncodeSnapshot())
	require.Equal(t, uint64(0), rec.fell[0].From)
	require.Equal(t, uint64(15), rec.fell[0].Entries)
}

func TestF41_WithoutAnOlderSnapshotAndWithoutTheBeginningItIsRefused(t *testing.T) {
	storage := metatest.NewMemory("c")
	r := start(t, storage.Open, meta.Options{SnapshotEvery: 15})
	for i := range 20 {
		_, err := r.Do(background, put(fmt.Sprint(i), "v"))
		require.NoError(t, err)
	}
	r.stop()
	storage.Corrupt(true, 15, flip(50))
	b := lost{storage.Join(), 1}
	_, err := meta.Open(background, b, meta.Options{})
	require.ErrorContains(t, err, "meta: memory: snapshot 15: at byte ")
	require.ErrorContains(t, err, "without an older snapshot the entries cannot replace it: log entry 1 is missing")
	found, err := meta.Inspect(background, b)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.Len(t, found.Findings, 2)
	require.ErrorContains(t, found.Findings[1], "log entry 1 is missing")
	require.Zero(t, found.State.Index())
}

// lost is a backend that has lost one entry.
type lost struct {
	meta.Backend
	index uint64
}

func (l lost) Read(ctx context.Context, from uint64, limit int) ([][]byte, error) {
	if from == l.index {
		return nil, fmt.Errorf("%w: entry %d", meta.ErrTruncated, from)
	}
	if from < l.index {
		limit = min(limit, int(l.index-from))
	}
	return l.Backend.Read(ctx, from, limit)
}

func TestF41_WithOneEntryMissingADamagedSnapshotIsRefusedAndBothAreNamed(t *testing.T) {
	for _, missing := range []uint64{11, 14, 20} {
		storage, _ := twoSnapshots(t)
		storage.Corrupt(true, 20, flip(50))
		b := lost{storage.Join(), missing}
		_, err := meta.Open(background, b, meta.Options{})
		require.NoError(t, b.Close())
		var refused *meta.FallbackError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, uint64(10), refused.Older)
		require.ErrorContains(t, err, "meta: memory: snapshot 20: at byte ")
		require.ErrorContains(t, err, fmt.Sprintf("and the older snapshot, 10, cannot replace it: log entry %d is missing", missing))
		var corrupt *meta.CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.Equal(t, uint64(20), corrupt.Index)
	}
}

// overtaken is a backend of which somebody else takes the entries that make up for a damaged snapshot, after storing another.
type overtaken struct {
	meta.Backend
	overtake func()
}

func (o *overtaken) Read(ctx context.Context, from uint64, limit int) ([][]byte, error) {
	if o.overtake != nil {
		o.overtake()
		o.overtake = nil
	}
	return o.Backend.Read(ctx, from, limit)
}

func TestF41_ASnapshotThatIsStoredDuringAFallbackIsTaken(t *testing.T) {
	storage, want := twoSnapshots(t)
	storage.Corrupt(true, 20, flip(50))
	holder := storage.Join()
	defer holder.Close()
	b := &overtaken{storage.Join(), func() {
		require.NoError(t, holder.PutSnapshot(background, 25, want))
		through, err := holder.Truncate(background)
		require.NoError(t, err)
		require.Equal(t, uint64(20), through)
	}}
	l := open(t, b, meta.Options{Events: meta.Events{FellBack: func(e meta.FallbackEvent) { t.Errorf("fell back: %+v", e) }}})
	require.Equal(t, want, l.View().EncodeSnapshot())
}

func TestF41_TwoDamagedItemsAreRefusedAndBothAreNamed(t *testing.T) {
	storage, _ := twoSnapshots(t)
	storage.Corrupt(true, 20, flip(50))
	storage.Corrupt(false, 15, flip(40))
	b := storage.Join()
	_, err := meta.Open(background, b, meta.Options{})
	require.NoError(t, b.Close())
	require.ErrorContains(t, err, "meta: memory: snapshot 20: at byte ")
	require.ErrorContains(t, err, "cannot replace it: log entry 15: at byte ")

	storage, _ = twoSnapshots(t)
	storage.Corrupt(true, 20, flip(50))
	storage.Corrupt(true, 10, flip(50))
	b = storage.Join()
	_, err = meta.Open(background, b, meta.Options{})
	require.NoError(t, b.Close())
	require.ErrorContains(t, err, "meta: memory: snapshot 20: at byte ")
	require.ErrorContains(t, err, "meta: memory: snapshot 10: at byte ")
	require.ErrorContains(t, err, "log entry 1 is missing")
}

func TestF41_AnOlderSnapshotStandsInForDamageAlone(t *testing.T) {
	version := func(b []byte) []byte { // what a newer version wrote, whole
		b = append([]byte{}, b[:len(b)-4]...)
		b[4] = 9
		return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	other := func([]byte) []byte { return meta.Empty().EncodeSnapshot() }
	for want, change := range map[string]func([]byte) []byte{"newer version": version, "under another index": other} {
		storage, _ := twoSnapshots(t)
		storage.Corrupt(true, 20, change)
		b := storage.Join()
		_, err := meta.Open(background, b, meta.Options{Events: meta.Events{FellBack: func(e meta.FallbackEvent) {
			t.Errorf("fell back: %+v", e)
		}}})
		require.NoError(t, b.Close())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "snapshot 20")
	}
}

func TestF41_ANodeThatFellBehindGoesOnOverADamagedSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := metatest.NewMemory("c")
		leader := open(t, storage.Join(), meta.Options{SnapshotEvery: 10})
		a := &away{Backend: storage.Join()}
		var rec recorder
		lagging := open(t, a, meta.Options{Node: 1, SnapshotEvery: 1 << 60, Events: rec.events()})
		a.set(true)
		for i := range 25 {
			_, err := leader.Do(background, put(fmt.Sprint(i), "v"))
			require.NoError(t, err)
		}
		synctest.Wait()
		storage.Corrupt(true, 20, flip(50))
		a.set(false)
		s, err := lagging.WaitApplied(background, 25)
		require.NoError(t, err)
		require.Equal(t, leader.View().EncodeSnapshot(), s.EncodeSnapshot())
		require.NoError(t, lagging.Close())
		require.Len(t, rec.fell, 1)
	})
}
