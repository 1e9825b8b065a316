package vfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

func testRemove(t *testing.T, s *suite) {
	s.put("f", "x")
	s.mkdir("empty")
	s.mkdir("full/sub")
	require.NoError(t, s.Remove(s.path("f")))
	require.NoError(t, s.Remove(s.path("empty")))
	require.ErrorIs(t, s.Remove(s.path("f")), fs.ErrNotExist)
	require.Error(t, s.Remove(s.path("full")))
	require.Equal(t, []string{"full/"}, s.names(""))
}

func testRemoveOpen(t *testing.T, s *suite) {
	s.put("f", "still here")
	f := s.open("f", vfs.ReadWrite)
	require.NoError(t, s.Remove(s.path("f")))
	s.put("f", "another")
	require.Equal(t, "still here", s.all(f))
	s.write(f, "S", 0)
	require.NoError(t, f.Sync())
	require.Equal(t, "Still here", s.all(f))
	require.Equal(t, "another", s.content("f"))
}

func testRename(t *testing.T, s *suite) {
	s.mkdir("d")
	s.put("a", "bytes")
	f := s.open("a", vfs.ReadWrite)
	require.NoError(t, s.Rename(s.path("a"), s.path("d/b")))
	require.Equal(t, []string{"d/"}, s.names(""))
	require.Equal(t, "bytes", s.content("d/b"))
	s.write(f, "B", 0)
	require.Equal(t, "Bytes", s.content("d/b"))
	require.NoError(t, s.Rename(s.path("d/b"), s.path("d/b")))
	require.Equal(t, "Bytes", s.content("d/b"))
}

func testRenameReplaces(t *testing.T, s *suite) {
	s.put("old", "old")
	s.put("new", "new")
	f := s.open("old", vfs.ReadOnly)
	require.NoError(t, s.Rename(s.path("new"), s.path("old")))
	require.Equal(t, "new", s.content("old"))
	require.Equal(t, "old", s.all(f))
	require.Equal(t, []string{"old"}, s.names(""))
}

func testRenameDir(t *testing.T, s *suite) {
	s.mkdir("topic-0/sub")
	s.put("topic-0/log", "bytes")
	f := s.open("topic-0/log", vfs.ReadWrite)
	require.NoError(t, s.Rename(s.path("topic-0"), s.path("topic-0.x-delete")))
	require.Equal(t, []string{"topic-0.x-delete/"}, s.names(""))
	require.Equal(t, "bytes", s.content("topic-0.x-delete/log"))
	s.write(f, "B", 0)
	require.NoError(t, f.Sync(), "a file is synced though its directory has another name")
	require.Equal(t, "Bytes", s.content("topic-0.x-delete/log"))
	require.ErrorIs(t, s.SyncDir(s.path("topic-0")), fs.ErrNotExist)
}

func testRenameErrors(t *testing.T, s *suite) {
	s.put("f", "f")
	s.mkdir("d/e")
	s.mkdir("empty")
	require.ErrorIs(t, s.Rename(s.path("missing"), s.path("x")), fs.ErrNotExist)
	require.ErrorIs(t, s.Rename(s.path("f"), s.path("missing/x")), fs.ErrNotExist)
	require.Error(t, s.Rename(s.path("f"), s.path("d")), "over a directory")
	require.Error(t, s.Rename(s.path("d"), s.path("f")), "a directory over a file")
	require.Error(t, s.Rename(s.path("d"), s.path("empty")), "a directory over an empty one")
	require.Error(t, s.Rename(s.path("d"), s.path("d/e/inside")), "into itself")
	require.Equal(t, []string{"d/", "empty/", "f"}, s.names(""))
	require.Equal(t, "f", s.content("f"))
}

func testLink(t *testing.T, s *suite) {
	s.put("a", "one")
	s.put("taken", "x")
	require.NoError(t, s.Link(s.path("a"), s.path("b")))
	s.write(s.open("a", vfs.ReadWrite), "ONE", 0)
	require.Equal(t, "ONE", s.content("b"))
	require.NoError(t, s.Remove(s.path("a")))
	require.Equal(t, "ONE", s.content("b"))
	require.ErrorIs(t, s.Link(s.path("b"), s.path("taken")), fs.ErrExist)
	require.ErrorIs(t, s.Link(s.path("missing"), s.path("c")), fs.ErrNotExist)
	s.mkdir("d")
	require.Error(t, s.Link(s.path("d"), s.path("e")))
	require.NoError(t, s.Link(s.path("b"), s.path("c")))
	require.NoError(t, s.Rename(s.path("b"), s.path("c")), "two names of one file: nothing to do")
	require.Equal(t, "ONE", s.content("c"))
}

func testMkdirAll(t *testing.T, s *suite) {
	s.mkdir("a/b/c")
	s.mkdir("a/b/c")
	s.mkdir("a/d/")
	require.Equal(t, []string{"b/", "d/"}, s.names("a"))
	s.put("file", "x")
	require.Error(t, s.MkdirAll(s.path("file")))
	require.Error(t, s.MkdirAll(s.path("file/sub")))
}

func testList(t *testing.T, s *suite) {
	require.Empty(t, s.names(""))
	for _, name := range []string{"b", "a", "c", "10", "2"} {
		s.put(name, "x")
	}
	s.mkdir("bb/inner")
	require.Equal(t, []string{"10", "2", "a", "b", "bb/", "c"}, s.names(""))
	_, err := s.List(s.path("missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.List(s.path("a"))
	require.Error(t, err)

	entries, err := s.List(s.dir)
	require.NoError(t, err)
	info, err := entries[2].Info()
	require.NoError(t, err)
	require.Equal(t, "a", info.Name())
	require.Equal(t, int64(1), info.Size())
}

func testSync(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	s.write(f, "x", 0)
	require.NoError(t, f.Sync())
	require.NoError(t, s.SyncDir(s.dir))
	require.ErrorIs(t, s.SyncDir(s.path("missing")), fs.ErrNotExist)
	require.Error(t, s.SyncDir(s.path("f")), "not a directory")
	require.NoError(t, s.open("f", vfs.ReadOnly).Sync())
}

func testLock(t *testing.T, s *suite) {
	held, err := s.Lock(s.path(".lock"))
	require.NoError(t, err)
	_, err = s.Lock(s.path(".lock"))
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.ErrorContains(t, err, s.path(".lock"))
	other, err := s.Lock(s.path("other"))
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.NoError(t, held.Close())
	require.Error(t, held.Close())
	held, err = s.Lock(s.path(".lock"))
	require.NoError(t, err)
	require.NoError(t, held.Close())
	require.Equal(t, []string{".lock", "other"}, s.names(""), "the file stays")
	_, err = s.Lock(s.path("missing/.lock"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func testWriteFileAtomic(t *testing.T, s *suite) {
	name := s.path("f")
	require.NoError(t, vfs.WriteFileAtomic(s, name, []byte("first, and long")))
	f := s.open("f", vfs.ReadOnly)
	s.put("f"+vfs.TempSuffix, "what a crash has left behind, longer than all others")
	require.NoError(t, vfs.WriteFileAtomic(s, name, []byte("second")))
	require.Equal(t, "second", s.content("f"))
	require.Equal(t, "first, and long", s.all(f))
	require.NoError(t, vfs.WriteFileAtomic(s, name, nil))
	require.Equal(t, "", s.content("f"))
	require.Equal(t, []string{"f"}, s.names(""))

	s.mkdir("dir/full")
	require.Error(t, vfs.WriteFileAtomic(s, s.path("dir"), []byte("x")))
	require.Equal(t, []string{"dir/", "f"}, s.names(""), "nothing is left of a failure")
	require.ErrorIs(t, vfs.WriteFileAtomic(s, s.path("no/f"), nil), fs.ErrNotExist)
}

func testEnsureDir(t *testing.T, s *suite) {
	require.NoError(t, vfs.EnsureDir(s, s.path("a/b/c")))
	require.NoError(t, vfs.EnsureDir(s, s.path("a/b/c")))
	require.Equal(t, []string{"c/"}, s.names("a/b"))
	s.put("f", "x")
	require.Error(t, vfs.EnsureDir(s, s.path("f/d")))
	require.Error(t, vfs.EnsureDir(s, s.path("f")), "a file is in the way")
}

func testRemoveAll(t *testing.T, s *suite) {
	s.put("f", "x")
	s.mkdir("d/e/empty")
	s.put("d/x", "x")
	s.put("d/e/y", "x")
	require.NoError(t, vfs.RemoveAll(s, s.path("d")))
	require.NoError(t, vfs.RemoveAll(s, s.path("d")))
	require.NoError(t, vfs.RemoveAll(s, s.path("f")))
	require.Empty(t, s.names(""))
}

func testRemoveAllConcurrently(t *testing.T, s *suite) {
	for i := range 50 {
		s.mkdir(fmt.Sprintf("d/%d", i%5))
		s.put(fmt.Sprintf("d/%d/%d", i%5, i), "x")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := vfs.RemoveAll(s, s.path("d")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Empty(t, s.names(""))
}

func testConcurrentNames(t *testing.T, s *suite) {
	s.mkdir("d")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 30 {
				name := fmt.Sprintf("d/%d-%d", i, j)
				f, err := s.Open(s.path(name), vfs.CreateNew)
				if err != nil {
					t.Error(err)
					return
				}
				err = errors.Join(
					f.Close(),
					s.Rename(s.path(name), s.path(name+".x")),
					s.SyncDir(s.path("d")),
					s.Link(s.path(name+".x"), s.path(name)),
					s.Remove(s.path(name+".x")),
				)
				if _, listErr := s.List(s.path("d")); err != nil || listErr != nil {
					t.Error(err, listErr)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, s.names("d"), 120)
}
