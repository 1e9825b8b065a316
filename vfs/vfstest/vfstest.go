// Package vfstest is the test suite of file systems. Every [vfs.FS] passes it, so what has been tested in memory holds on
// a disk.
package vfstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

// NewFS returns a file system and an empty directory in it for one test.
type NewFS func(t *testing.T) (fsys vfs.FS, dir string)

// Run tests a file system, and of the optional interfaces those that it has.
func Run(t *testing.T, newFS NewFS) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s *suite)
	}{
		{"open modes", testOpenModes},
		{"open errors", testOpenErrors},
		{"read and write at offsets", testReadWriteAt},
		{"a gap reads as zeros", testGap},
		{"bad offsets", testBadOffsets},
		{"truncate", testTruncate},
		{"a read-only handle does not write", testReadOnly},
		{"one handle, many readers and a writer", testConcurrentHandle},
		{"closed handle", testClosed},
		{"file stat", testFileStat},
		{"modification time", testChtimes},
		{"remove", testRemove},
		{"a removed file stays readable", testRemoveOpen},
		{"rename", testRename},
		{"rename replaces a file", testRenameReplaces},
		{"rename of a directory", testRenameDir},
		{"rename errors", testRenameErrors},
		{"link", testLink},
		{"make directories", testMkdirAll},
		{"list", testList},
		{"sync of files and directories", testSync},
		{"lock", testLock},
		{"replace a file atomically", testWriteFileAtomic},
		{"ensure a directory", testEnsureDir},
		{"remove all", testRemoveAll},
		{"remove all while others do", testRemoveAllConcurrently},
		{"names made and removed concurrently", testConcurrentNames},
		{"vectored writes", testVectorWriter},
		{"block reservation", testPreallocator},
		{"write-back", testWriteBacker},
		{"sending to a socket", testSocketSender},
		{"sending past the end of the file", testSendShort},
		{"sending to a closed connection", testSendClosed},
		{"sending after the deadline", testSendDeadline},
		{"free space", testSpace},
		{"sync of a volume", testVolume},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys, dir := newFS(t)
			c.test(t, &suite{t: t, FS: fsys, dir: dir})
		})
	}
}

// suite is one test's file system with helpers that read as sentences.
type suite struct {
	vfs.FS
	t   *testing.T
	dir string
}

func (s *suite) path(name string) string { return s.dir + "/" + name }

func (s *suite) open(name string, mode vfs.Mode) vfs.File {
	s.t.Helper()
	f, err := s.Open(s.path(name), mode)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { f.Close() })
	return f
}

// put makes or replaces a file.
func (s *suite) put(name, content string) {
	s.t.Helper()
	f, err := s.Open(s.path(name), vfs.CreateTruncate)
	require.NoError(s.t, err)
	s.write(f, content, 0)
	require.NoError(s.t, f.Close())
}

func (s *suite) write(f vfs.File, content string, off int64) {
	s.t.Helper()
	n, err := f.WriteAt([]byte(content), off)
	require.NoError(s.t, err)
	require.Equal(s.t, len(content), n)
}

func (s *suite) content(name string) string {
	s.t.Helper()
	data, err := vfs.ReadFile(s.FS, s.path(name))
	require.NoError(s.t, err)
	return string(data)
}

// all reads an open file.
func (s *suite) all(f vfs.File) string {
	s.t.Helper()
	info, err := f.Stat()
	require.NoError(s.t, err)
	data := make([]byte, info.Size())
	if len(data) > 0 {
		_, err = f.ReadAt(data, 0)
		require.NoError(s.t, err)
	}
	return string(data)
}

func (s *suite) mkdir(name string) {
	s.t.Helper()
	require.NoError(s.t, s.MkdirAll(s.path(name)))
}

// names lists a directory; directories end in a slash.
func (s *suite) names(dir string) []string {
	s.t.Helper()
	entries, err := s.List(s.path(dir))
	require.NoError(s.t, err)
	names := []string{}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	return names
}
