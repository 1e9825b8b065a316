package vfs_test

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
	"github.com/tidemark-io/tidemark/vfs/vfstest"
)

func TestOSPassesTheSuite(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.OS(), t.TempDir() })
}

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(data)
}

// eachCall runs the scenario with its first call failing, then its second, until it passes; after sees what is left.
func eachCall(t *testing.T, start func() *memfs.FS, scenario func(vfs.FS) error, after func(m *memfs.FS, n int, err error)) {
	t.Helper()
	for _, late := range []bool{false, true} {
		for n := 0; ; n++ {
			m := start()
			fail := faultfs.FailNth(n, syscall.EIO)
			disk := faultfs.New(m, func(op faultfs.Op) faultfs.Fault {
				f := fail(op)
				f.After = late
				return f
			})
			err := scenario(disk)
			if disk.Calls() <= n {
				require.NoError(t, err)
				break
			}
			require.Greater(t, 100, n, "the scenario does not end")
			after(m, n, err)
		}
	}
}

func TestAnAtomicReplacementIsOldOrNewWhateverFailsAndWheneverThePowerGoes(t *testing.T) {
	start := func() *memfs.FS {
		m := memfs.New()
		require.NoError(t, vfs.EnsureDir(m, "d"))
		require.NoError(t, vfs.WriteFileAtomic(m, "d/f", []byte("old content")))
		return m
	}
	replace := func(fsys vfs.FS) error { return vfs.WriteFileAtomic(fsys, "d/f", []byte("new")) }
	eachCall(t, start, replace, func(m *memfs.FS, n int, err error) {
		require.ErrorIs(t, err, syscall.EIO)
		require.Contains(t, []string{"old content", "new"}, content(t, m, "d/f"))
		_, tmpErr := m.Stat("d/f" + vfs.TempSuffix)
		require.ErrorIs(t, tmpErr, fs.ErrNotExist, "call %d left its temporary file", n)
		for seed := range uint64(20) {
			crashed := m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true})
			require.Contains(t, []string{"old content", "new"}, content(t, crashed, "d/f"))
		}
	})
	m := start()
	require.NoError(t, replace(m))
	require.Equal(t, "new", content(t, m.CrashClean(), "d/f"), "durable on return")
}

func TestAnEnsuredDirectoryIsDurableEvenIfAnEarlierAttemptWasKilled(t *testing.T) {
	ensure := func(fsys vfs.FS) error { return vfs.EnsureDir(fsys, "/a/b/c") }
	eachCall(t, func() *memfs.FS { return memfs.New() }, ensure, func(m *memfs.FS, n int, err error) {
		require.ErrorIs(t, err, syscall.EIO)
		require.NoError(t, ensure(m), "the next start")
		_, err = m.CrashClean().Stat("/a/b/c")
		require.NoError(t, err, "call %d", n)
	})
	m := memfs.New()
	require.NoError(t, ensure(m))
	disk := faultfs.New(m, nil)
	trace := disk.Trace(nil)
	require.NoError(t, ensure(disk))
	require.Equal(t, "stat /a/b/c\nsyncdir /a/b\n", trace.String())
}

func TestAParentThatMayNotBeReadIsLeftToItsOwner(t *testing.T) {
	m := memfs.New()
	require.NoError(t, m.MkdirAll("/srv/data"))
	disk := faultfs.New(m, faultfs.FailMatching(faultfs.OpSyncDir, "/srv", syscall.EACCES))
	require.NoError(t, vfs.EnsureDir(disk, "/srv/data"))
	require.NoError(t, vfs.EnsureDir(disk, "/srv/data/a"))
	require.ErrorIs(t, vfs.EnsureDir(disk, "/srv/other"), fs.ErrPermission, "here the name was made just now")
}

func TestReadFileTellsAFailedReadFromAShortFile(t *testing.T) {
	m := memfs.New()
	require.NoError(t, vfs.WriteFileAtomic(m, "f", []byte("content")))
	eachCall(t, func() *memfs.FS { return m }, func(fsys vfs.FS) error {
		data, err := vfs.ReadFile(fsys, "f")
		if err == nil {
			require.Equal(t, "content", string(data))
		}
		return err
	}, func(m *memfs.FS, n int, err error) {
		if n < 3 { // the last call is Close, whose outcome says nothing about what was read
			require.ErrorIs(t, err, syscall.EIO)
		}
	})
	_, err := vfs.ReadFile(m, "missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestRemoveAllReportsWhatItCouldNotRemove(t *testing.T) {
	m := memfs.New()
	require.NoError(t, m.MkdirAll("d/e"))
	for i := range 3 {
		require.NoError(t, vfs.WriteFileAtomic(m, fmt.Sprintf("d/e/%d", i), nil))
	}
	disk := faultfs.New(m, faultfs.FailMatching(faultfs.OpRemove, "1", syscall.EIO))
	require.ErrorIs(t, vfs.RemoveAll(disk, "d"), syscall.EIO)
	disk.SetInjector(nil)
	require.NoError(t, vfs.RemoveAll(disk, "d"))
	_, err := m.Stat("d")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestRemoveAllDoesNotFollowLinks(t *testing.T) {
	dir := t.TempDir()
	osFS := vfs.OS()
	require.NoError(t, osFS.MkdirAll(dir+"/kept"))
	require.NoError(t, vfs.WriteFileAtomic(osFS, dir+"/kept/f", []byte("x")))
	require.NoError(t, osFS.MkdirAll(dir+"/d"))
	require.NoError(t, os.Symlink(dir+"/kept", dir+"/d/link"))
	require.NoError(t, os.Symlink(dir+"/kept", dir+"/link"))
	require.NoError(t, vfs.RemoveAll(osFS, dir+"/d"))
	require.NoError(t, vfs.RemoveAll(osFS, dir+"/link"))
	require.Equal(t, "x", content(t, osFS, dir+"/kept/f"))
}
