package memfs_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestASyncOfTheVolumeKeepsAllFilesAndNames(t *testing.T) {
	m := memfs.New()
	v, err := m.OpenVolume(".")
	require.NoError(t, err)
	write := func(name, text string) {
		f, err := m.Open(name, vfs.Create)
		require.NoError(t, err)
		defer f.Close()
		_, err = f.WriteAt([]byte(text), 0)
		require.NoError(t, err)
	}
	require.NoError(t, m.MkdirAll("a/b"))
	write("a/b/deep", "1")
	write("old", "2")
	require.NoError(t, m.Rename("old", "a/new"))
	require.NoError(t, v.Sync())
	write("a/b/later", "3")
	write("a/b/deep", "4")

	kept := m.CrashClean()
	for name, want := range map[string]string{"a/b/deep": "1", "a/new": "2"} {
		got, err := vfs.ReadFile(kept, name)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for _, name := range []string{"old", "a/b/later"} {
		_, err = kept.Stat(name)
		require.Error(t, err)
	}
}

func TestASyncOfTheVolumeTellsOnceOfWhatWasLost(t *testing.T) {
	m := memfs.New()
	v, err := m.OpenVolume(".")
	require.NoError(t, err)
	faults := faultfs.New(m, nil)
	faults.SetInjector(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.OpSync {
			return faultfs.Fault{Err: syscall.EIO, Drop: true}
		}
		return faultfs.Fault{}
	})
	f, err := faults.Open("f", vfs.Create)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("lost"), 0)
	require.NoError(t, err)
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.ErrorIs(t, v.Sync(), syscall.EIO)
	require.NoError(t, v.Sync())
	later, err := m.OpenVolume(".")
	require.NoError(t, err)
	require.NoError(t, later.Sync(), "it was opened after that")
}
