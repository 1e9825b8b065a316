package vfstest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

func testOpenModes(t *testing.T, s *suite) {
	for _, c := range []struct {
		mode    vfs.Mode
		missing string // content, or the error's start
		there   string
	}{
		{vfs.ReadOnly, "not there", "old"},
		{vfs.ReadWrite, "not there", "old"},
		{vfs.Create, "", "old"},
		{vfs.CreateNew, "", "taken"},
		{vfs.CreateTruncate, "", ""},
	} {
		outcome := func(name string) string {
			f, err := s.Open(s.path(name), c.mode)
			switch {
			case err == nil:
				defer f.Close()
				return s.all(f)
			default:
				require.Nil(t, f)
				if errors.Is(err, fs.ErrNotExist) {
					return "not there"
				}
				require.ErrorIs(t, err, fs.ErrExist)
				return "taken"
			}
		}
		s.put("there", "old")
		require.Equal(t, c.missing, outcome("missing"), "mode %d", c.mode)
		require.Equal(t, c.there, outcome("there"), "mode %d", c.mode)
		if c.missing == "" {
			require.NoError(t, s.Remove(s.path("missing")))
		}
	}
}

func testOpenErrors(t *testing.T, s *suite) {
	s.mkdir("d")
	s.put("file", "x")
	for _, mode := range []vfs.Mode{vfs.ReadWrite, vfs.Create, vfs.CreateNew, vfs.CreateTruncate} {
		_, err := s.Open(s.path("d"), mode)
		require.Error(t, err, "a directory opened for writing, mode %d", mode)
	}
	_, err := s.Open(s.path("no/such/dir"), vfs.Create)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.Open(s.path("file/below"), vfs.Create)
	require.Error(t, err)
	_, err = s.Open(s.path("file"), vfs.Mode(99))
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = s.Open("", vfs.ReadOnly)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "open", "an error says what was tried")
}

func testReadWriteAt(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	var model []byte
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		off := random.IntN(20_000)
		p := bytes.Repeat([]byte{byte(1 + random.IntN(255))}, random.IntN(6_000))
		if len(p) > 0 && off+len(p) > len(model) {
			model = append(model, make([]byte, off+len(p)-len(model))...)
		}
		copy(model[min(off, len(model)):], p)
		s.write(f, string(p), int64(off))

		got := make([]byte, random.IntN(8_000))
		at := random.IntN(len(model) + 10)
		n, err := f.ReadAt(got, int64(at))
		want := model[min(at, len(model)):]
		if len(want) < len(got) {
			require.Equal(t, io.EOF, err)
		} else {
			require.NoError(t, err)
			want = want[:len(got)]
		}
		require.True(t, bytes.Equal(want, got[:n]))
	}
	require.Equal(t, string(model), s.content("f"))
}

func testGap(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	s.write(f, "a", 0)
	s.write(f, "b", 10_000)
	require.Equal(t, "a"+strings.Repeat("\x00", 9_999)+"b", s.all(f))
}

func testBadOffsets(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	_, err := f.ReadAt(make([]byte, 1), -1)
	require.Error(t, err)
	require.NotEqual(t, io.EOF, err)
	_, err = f.WriteAt([]byte("x"), -1)
	require.Error(t, err)
	require.Error(t, f.Truncate(-1))
	n, err := f.ReadAt(make([]byte, 1), 1<<40)
	require.Equal(t, io.EOF, err)
	require.Zero(t, n)
	_, err = f.WriteAt(nil, 100)
	require.NoError(t, err)
	require.Empty(t, s.all(f), "writing nothing does not make a file longer")
}

func testTruncate(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	long := strings.Repeat("x", 10_000)
	s.write(f, long, 0)
	require.NoError(t, f.Truncate(5_000))
	require.Equal(t, long[:5_000], s.all(f))
	require.NoError(t, f.Truncate(7_000))
	require.Equal(t, long[:5_000]+strings.Repeat("\x00", 2_000), s.all(f))
	s.write(f, "end", 9_000)
	require.Equal(t, long[:5_000]+strings.Repeat("\x00", 4_000)+"end", s.all(f))
	require.NoError(t, f.Truncate(0))
	require.Empty(t, s.all(f))
	s.write(f, "b", 1)
	require.Equal(t, "\x00b", s.all(f))
}

func testReadOnly(t *testing.T, s *suite) {
	s.put("f", "bytes")
	f := s.open("f", vfs.ReadOnly)
	_, err := f.WriteAt([]byte("x"), 0)
	require.Error(t, err)
	require.Error(t, f.Truncate(0))
	if v, ok := f.(vfs.VectorWriter); ok {
		_, err := v.WriteVectorAt([][]byte{[]byte("x")}, 0)
		require.Error(t, err)
	}
	require.Equal(t, "bytes", s.all(f))
}

// testConcurrentHandle appends blocks and publishes how far it came; readers must see every published block whole.
func testConcurrentHandle(t *testing.T, s *suite) {
	const block, blocks = 1_000, 300
	f := s.open("f", vfs.Create)
	var published atomic.Int64
	var wg sync.WaitGroup
	for r := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(r), 0))
			got := make([]byte, block)
			for seen := int64(0); seen < blocks; {
				if seen = published.Load(); seen == 0 {
					continue
				}
				i := random.Int64N(seen)
				n, err := f.ReadAt(got, i*block)
				if err != nil || n != block || !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, block)) {
					t.Errorf("block %d of %d: %d bytes, %v", i, seen, n, err)
					return
				}
			}
		})
	}
	for i := range int64(blocks) {
		s.write(f, strings.Repeat(string([]byte{byte(i)}), block), i*block)
		published.Store(i + 1)
	}
	wg.Wait()
}

func testClosed(t *testing.T, s *suite) {
	f, err := s.Open(s.path("f"), vfs.Create)
	require.NoError(t, err)
	s.write(f, "x", 0)
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = f.WriteAt([]byte("y"), 0)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorIs(t, f.Truncate(0), fs.ErrClosed)
	require.ErrorIs(t, f.Sync(), fs.ErrClosed)
	_, err = f.Stat()
	require.ErrorIs(t, err, fs.ErrClosed)
	if w, ok := f.(vfs.VectorWriter); ok {
		_, err = w.WriteVectorAt([][]byte{[]byte("y")}, 0)
		require.ErrorIs(t, err, fs.ErrClosed)
	}
	if p, ok := f.(vfs.SocketSender); ok {
		_, err = p.SendTo(nil, 0, 1)
		require.ErrorIs(t, err, fs.ErrClosed)
	}
	require.Equal(t, "x", s.content("f"))
}

func testFileStat(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	s.write(f, "12345", 0)
	for _, stat := range []func() (fs.FileInfo, error){f.Stat, func() (fs.FileInfo, error) { return s.Stat(s.path("f")) }} {
		info, err := stat()
		require.NoError(t, err)
		require.Equal(t, "f", info.Name())
		require.Equal(t, int64(5), info.Size())
		require.True(t, info.Mode().IsRegular())
		require.False(t, info.IsDir())
	}
	s.mkdir("d")
	info, err := s.Stat(s.path("d"))
	require.NoError(t, err)
	require.True(t, info.IsDir())
	require.True(t, info.Mode().IsDir())
	_, err = s.Stat(s.path("missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func testChtimes(t *testing.T, s *suite) {
	s.put("f", "x")
	want := time.UnixMilli(1_700_000_000_123)
	require.NoError(t, s.Chtimes(s.path("f"), want))
	info, err := s.Stat(s.path("f"))
	require.NoError(t, err)
	require.Equal(t, want.UnixMilli(), info.ModTime().UnixMilli())
	s.put("f", "y")
	info, err = s.Stat(s.path("f"))
	require.NoError(t, err)
	require.True(t, info.ModTime().After(want), "writing sets the time")
	require.ErrorIs(t, s.Chtimes(s.path("missing"), want), fs.ErrNotExist)
}
