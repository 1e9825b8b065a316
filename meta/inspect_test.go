package meta_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

// inspected is storage with 25 entries, snapshots at 10 and 20 unless every is larger, and what a look at it finds.
func inspected(t *testing.T, every uint64, damage func(*metatest.Memory)) *meta.Inspection {
	t.Helper()
	storage := metatest.NewMemory("c")
	r := start(t, storage.Open, meta.Options{SnapshotEvery: every})
	for i := range 25 {
		_, err := r.Do(background, put(fmt.Sprint(i), "v"))
		require.NoError(t, err)
	}
	r.stop()
	damage(storage)
	b := storage.Join()
	defer b.Close()
	found, err := meta.Inspect(background, b)
	require.NoError(t, err)
	return found
}

func TestAnInspectionFindsNothingInAWholeLog(t *testing.T) {
	for every, want := range map[uint64]meta.Inspection{
		10:  {First: 11, Head: 25, Entries: 15, Snapshot: 20},
		15:  {First: 1, Head: 25, Entries: 25, Snapshot: 15},
		100: {First: 1, Head: 25, Entries: 25},
	} {
		got := inspected(t, every, func(*metatest.Memory) {})
		require.Empty(t, got.Findings)
		require.EqualValues(t, 25, got.State.Index())
		want.Where, want.ClusterID = "memory", "c"
		want.EntryBytes, want.SnapshotBytes, want.State = got.EntryBytes, got.SnapshotBytes, got.State
		require.Equal(t, want, *got)
		require.Positive(t, got.EntryBytes)
	}
}

func TestF41_AnInspectionNamesWhatIsDamaged(t *testing.T) {
	other := func([]byte) []byte { // a snapshot that is well-formed, and not of this log
		s, _ := meta.Empty().Apply(15, meta.Entry{Commands: []meta.Command{put("another", "life")}})
		return s.EncodeSnapshot()
	}
	for _, c := range []struct {
		name     string
		every    uint64
		snapshot bool
		index    uint64
		change   func([]byte) []byte
		want     []string
		head     uint64 // up to which the state could be made
	}{
		{"an entry behind the snapshot", 10, false, 23, flip(40), []string{"log entry 23"}, 22},
		{"an entry before the snapshot", 15, false, 3, flip(40), []string{"log entry 3"}, 25},
		{"the snapshot", 10, true, 20, flip(50), []string{"snapshot 20"}, 25},
		{"the older snapshot", 10, true, 10, flip(50), []string{"snapshot 10"}, 25},
		{"the only snapshot", 15, true, 15, flip(50), []string{"snapshot 15"}, 25},
		{"a snapshot of another index", 15, true, 15, func([]byte) []byte { return meta.Empty().EncodeSnapshot() }, []string{"than its own, which is 0"}, 0},
		{"a snapshot of another log", 15, true, 15, other, []string{"does not match the entries before it"}, 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := inspected(t, c.every, func(m *metatest.Memory) { m.Corrupt(c.snapshot, c.index, c.change) })
			require.Len(t, got.Findings, len(c.want))
			for i, want := range c.want {
				require.ErrorContains(t, got.Findings[i], want)
				require.ErrorContains(t, got.Findings[i], "memory")
			}
			require.Equal(t, c.head, got.State.Index())
		})
	}
}

func TestABackupIsReadAsItWasTaken(t *testing.T) {
	l := raised(t, open(t, metatest.NewMemory("c").Join(), meta.Options{}))
	_, err := l.Do(background, put("k", "v"))
	require.NoError(t, err)
	taken := meta.Backup{ClusterID: "c", TakenMs: 1_700_000_000_000, Build: "v1", State: l.View()}
	b, err := taken.Encode()
	require.NoError(t, err)
	got, err := meta.ReadBackup(bytes.NewReader(b))
	require.NoError(t, err)
	require.Equal(t, taken.State.EncodeSnapshot(), got.State.EncodeSnapshot())
	got.State = taken.State
	require.Equal(t, taken, got)

	for i := range b {
		_, err := meta.DecodeBackup(flip(i)(b))
		require.Error(t, err, "byte %d", i)
		_, err = meta.DecodeBackup(b[:i])
		require.Error(t, err, "%d bytes", i)
	}
}

func FuzzDecodeBackup(f *testing.F) {
	b, err := meta.Backup{ClusterID: "c", TakenMs: 5, Build: "v1", State: meta.Empty()}.Encode()
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := meta.DecodeBackup(b)
		if err != nil {
			return
		}
		again, err := got.Encode()
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}
