package quarantine

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func write(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	require.NoError(t, vfs.EnsureDir(fsys, "data/orders-0"))
	require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte(text)))
}

func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(data)
}

func TestWhatIsKeptSaysWhatItWas(t *testing.T) {
	fsys := memfs.New()
	write(t, fsys, "data/orders-0/a.log", "0123456789")
	write(t, fsys, "data/orders-0/epochs", "damaged")
	write(t, fsys, "data/orders-0/index", "kept and there")
	s, err := In(fsys, "data/orders-0").Begin(noon, ByRepair)
	require.NoError(t, err)
	require.NoError(t, s.Part("a.log", 2, 3, &Offsets{First: 7, Next: 9, Records: 2}, "torn"))
	require.NoError(t, s.Part("a.log", 8, 2, nil, "torn again"))
	require.NoError(t, s.Move("epochs", nil, "not a number"))
	require.NoError(t, s.Copy("index", "is not sorted"))
	require.NoError(t, s.Commit())

	disk := fsys.CrashClean() // all of it is durable
	const at = "data/orders-0/quarantine/20261130T120000.000Z."
	require.Equal(t, []string{at + "a.log", at + "a.log.2", at + "epochs", at + "index"}, s.Paths())
	for i, want := range []string{"234", "89", "damaged", "kept and there"} {
		require.Equal(t, want, read(t, disk, s.Paths()[i]))
	}
	_, err = disk.Stat("data/orders-0/epochs")
	require.Error(t, err)
	sets, err := In(disk, "data/orders-0").Sets()
	require.NoError(t, err)
	require.Equal(t, []Manifest{{
		Format: Format, Version: 1, Time: noon, By: ByRepair, Dir: "data/orders-0", Name: "20261130T120000.000Z.json",
		Files: []File{
			{Name: "20261130T120000.000Z.a.log", From: "a.log", Position: 2, Bytes: 3, Reason: "torn",
				Offsets: &Offsets{First: 7, Next: 9, Records: 2}},
			{Name: "20261130T120000.000Z.a.log.2", From: "a.log", Position: 8, Bytes: 2, Reason: "torn again"},
			{Name: "20261130T120000.000Z.epochs", From: "epochs", Whole: true, Bytes: 7, Reason: "not a number"},
			{Name: "20261130T120000.000Z.index", From: "index", Whole: true, Bytes: 14, Reason: "is not sorted"},
		},
	}}, sets)
}

func TestFilesOfADataDirectoryAreKeptAsFiles(t *testing.T) {
	fsys := memfs.New()
	write(t, fsys, "data/checkpoint", "bad")
	for range 2 { // twice at the same moment
		s, err := Beside(fsys, "data").Begin(noon, ByStart)
		require.NoError(t, err)
		require.NoError(t, s.Copy("checkpoint", "bad"))
		require.NoError(t, s.Commit())
	}
	for _, name := range []string{"20261130T120000.000Z", "20261130T120000.001Z"} {
		require.Equal(t, "bad", read(t, fsys, "data/quarantine."+name+".checkpoint"))
		require.Contains(t, read(t, fsys, "data/quarantine."+name+".json"), `"from": "checkpoint"`)
	}
}

func TestTheOldestOfStartsGoAndWhatARepairKeptStays(t *testing.T) {
	fsys := memfs.New()
	place := In(fsys, "data/orders-0")
	write(t, fsys, "data/orders-0/file", "12345")
	for i := range 6 {
		by := ByStart
		if i == 0 {
			by = ByRepair
		}
		s, err := place.Begin(noon.Add(time.Duration(i)*time.Second), by)
		require.NoError(t, err)
		require.NoError(t, s.Copy("file", "bad"))
		require.NoError(t, s.Commit())
	}
	times := func() (seconds []int) {
		sets, err := place.Sets()
		require.NoError(t, err)
		for _, m := range sets {
			seconds = append(seconds, m.Time.Second())
		}
		return seconds
	}
	require.NoError(t, place.Prune(4, 1000))
	require.Equal(t, []int{0, 2, 3, 4, 5}, times())
	require.NoError(t, place.Prune(4, 12))
	require.Equal(t, []int{0, 4, 5}, times())
	require.NoError(t, place.Prune(0, 0))
	require.Equal(t, []int{0, 5}, times(), "the newest stays, though it is too large")
	names, err := place.names()
	require.NoError(t, err)
	require.Len(t, names, 4)
}

func TestACopyThatFailsLeavesNothing(t *testing.T) {
	faults := faultfs.New(memfs.New(), nil)
	write(t, faults, "data/orders-0/file", "12345")
	place := In(faults, "data/orders-0")
	s, err := place.Begin(noon, ByStart)
	require.NoError(t, err)
	faults.SetInjector(faultfs.FailMatching(faultfs.OpWriteAt, "*", syscall.ENOSPC))
	require.ErrorIs(t, s.Copy("file", "bad"), syscall.ENOSPC)
	names, err := place.names()
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestACrashAtAnyCallLeavesTheFileInOneOfTwoPlaces(t *testing.T) {
	broken := errors.New("broken")
	for call := 0; ; call++ {
		disk := memfs.New()
		write(t, disk, "data/orders-0/epochs", "damaged")
		failing := faultfs.New(disk, faultfs.FailFrom(call, broken))
		err := func() error {
			s, err := In(failing, "data/orders-0").Begin(noon, ByStart)
			if err != nil {
				return err
			}
			return errors.Join(s.Move("epochs", nil, "bad"), s.Commit())
		}()
		for seed := range uint64(4) {
			after := disk.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5})
			_, there := after.Stat("data/orders-0/epochs")
			_, kept := after.Stat("data/orders-0/quarantine/20261130T120000.000Z.epochs")
			require.True(t, there == nil || kept == nil, fmt.Sprint("call ", call))
			if there != nil {
				sets, err := In(after, "data/orders-0").Sets()
				require.NoError(t, err)
				require.Len(t, sets, 1, "what was moved has a manifest")
			}
		}
		if err == nil {
			require.Greater(t, call, 5)
			return
		}
		require.ErrorIs(t, err, broken)
	}
}
