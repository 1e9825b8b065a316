package vfstest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

func testVectorWriter(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	w, ok := f.(vfs.VectorWriter)
	if !ok {
		return
	}
	n, err := w.WriteVectorAt(nil, 5)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, s.all(f))

	bufs := [][]byte{[]byte("one"), {}, []byte("two"), nil, []byte("three")}
	n, err = w.WriteVectorAt(bufs, 2)
	require.NoError(t, err)
	require.Equal(t, int64(11), n)
	require.Equal(t, "\x00\x00onetwothree", s.all(f))
	require.Equal(t, [][]byte{[]byte("one"), {}, []byte("two"), nil, []byte("three")}, bufs)
	_, err = w.WriteVectorAt(bufs, -1)
	require.Error(t, err)

	// More buffers than one call to the kernel takes.
	var many [][]byte
	var want bytes.Buffer
	for i := range 3_000 {
		b := bytes.Repeat([]byte{byte(i)}, i%7)
		many = append(many, b)
		want.Write(b)
	}
	n, err = w.WriteVectorAt(many, 0)
	require.NoError(t, err)
	require.Equal(t, int64(want.Len()), n)
	require.Equal(t, want.String(), s.all(f))
}

func testPreallocator(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	p, ok := f.(vfs.Preallocator)
	if !ok {
		return
	}
	s.write(f, "x", 0)
	if err := p.Preallocate(1, 1<<20); err != nil {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		return
	}
	require.Equal(t, "x", s.all(f), "the length stays")
	s.write(f, "y", 1)
	require.Equal(t, "xy", s.all(f))
	require.NoError(t, f.Truncate(2))
	require.Equal(t, "xy", s.all(f))
	require.Error(t, p.Preallocate(-1, 1))
}

func testWriteBacker(t *testing.T, s *suite) {
	f := s.open("f", vfs.Create)
	w, ok := f.(vfs.WriteBacker)
	if !ok {
		return
	}
	s.write(f, strings.Repeat("x", 100_000), 0)
	require.NoError(t, w.WriteBack(0, 100_000))
	require.NoError(t, w.WriteBack(50_000, 0))
	require.Error(t, w.WriteBack(-1, 1))
	require.Len(t, s.all(f), 100_000)
}

// sender returns a file that can send to sockets, or nil.
func (s *suite) sender(content string) vfs.SocketSender {
	s.put("f", content)
	sender, _ := s.open("f", vfs.ReadOnly).(vfs.SocketSender)
	return sender
}

// connect returns both ends of a TCP connection on this machine.
func connect(t *testing.T) (server *net.TCPConn, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	a, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); a.Close() })
	return a.(*net.TCPConn), c.(*net.TCPConn)
}

func rawConn(t *testing.T, c *net.TCPConn) syscall.RawConn {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	return raw
}

// testSocketSender sends ranges over several connections from one handle at once; they are larger than a socket's
// buffers, so that the senders have to wait for their readers.
func testSocketSender(t *testing.T, s *suite) {
	var content strings.Builder
	for i := range 1 << 20 {
		content.WriteString(string([]byte{byte(i), byte(i >> 8), byte(i >> 16), 'x'}))
	}
	sender := s.sender(content.String())
	if sender == nil {
		return
	}
	var wg sync.WaitGroup
	for i := range 3 {
		off, n := i*1000+1, content.Len()-i*3000-1
		server, client := connect(t)
		raw := rawConn(t, server)
		wg.Go(func() {
			defer server.Close()
			if sent, err := sender.SendTo(raw, int64(off), int64(n)); err != nil || sent != int64(n) {
				t.Errorf("sent %d of %d: %v", sent, n, err)
			}
		})
		wg.Go(func() {
			got, err := io.ReadAll(client)
			if err != nil || string(got) != content.String()[off:off+n] {
				t.Errorf("received %d bytes of %d: %v", len(got), n, err)
			}
		})
	}
	wg.Wait()
	server, _ := connect(t)
	sent, err := sender.SendTo(rawConn(t, server), 10, 0)
	require.NoError(t, err)
	require.Zero(t, sent)
	_, err = sender.SendTo(rawConn(t, server), -1, 5)
	require.ErrorIs(t, err, fs.ErrInvalid)
}

func testSendShort(t *testing.T, s *suite) {
	sender := s.sender("short")
	if sender == nil {
		return
	}
	server, client := connect(t)
	sent, err := sender.SendTo(rawConn(t, server), 2, 100)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, int64(3), sent)
	var pathErr *fs.PathError
	require.ErrorAs(t, err, &pathErr, "it is the file's fault")
	require.NoError(t, server.Close())
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "ort", string(got))
}

func testSendClosed(t *testing.T, s *suite) {
	sender := s.sender(strings.Repeat("x", 8<<20))
	if sender == nil {
		return
	}
	server, client := connect(t)
	raw := rawConn(t, server)
	require.NoError(t, client.SetLinger(0))
	require.NoError(t, client.Close())
	sent, err := sender.SendTo(raw, 0, 8<<20)
	require.Error(t, err)
	require.Less(t, sent, int64(8<<20))
	requireConnError(t, err)

	server, _ = connect(t)
	raw = rawConn(t, server)
	require.NoError(t, server.Close())
	_, err = sender.SendTo(raw, 0, 10)
	require.ErrorIs(t, err, net.ErrClosed)
	requireConnError(t, err)
}

func testSendDeadline(t *testing.T, s *suite) {
	sender := s.sender(strings.Repeat("x", 64<<20))
	if sender == nil {
		return
	}
	server, _ := connect(t)
	require.NoError(t, server.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
	sent, err := sender.SendTo(rawConn(t, server), 0, 64<<20)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nobody reads")
	require.Less(t, sent, int64(64<<20))
	requireConnError(t, err)
}

// requireConnError holds that a fault of a connection is not taken for one of the file.
func requireConnError(t *testing.T, err error) {
	t.Helper()
	var pathErr *fs.PathError
	require.False(t, errors.As(err, &pathErr), "%v", err)
}

func testSpace(t *testing.T, s *suite) {
	r, ok := s.FS.(vfs.SpaceReporter)
	if !ok {
		return
	}
	free, total, err := r.Space(s.dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	require.NoError(t, err)
	require.Positive(t, free)
	require.GreaterOrEqual(t, total, free)
	_, _, err = r.Space(s.path("missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func testVolume(t *testing.T, s *suite) {
	o, ok := s.FS.(vfs.VolumeOpener)
	if !ok {
		return
	}
	v, err := o.OpenVolume(s.dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	f := s.open("f", vfs.CreateNew)
	_, err = f.WriteAt([]byte("bytes"), 0)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, v.Sync())
	}
	holds, err := v.Holds(s.path("f"))
	require.NoError(t, err)
	require.True(t, holds)
	_, err = v.Holds(s.path("missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = o.OpenVolume(s.path("missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
