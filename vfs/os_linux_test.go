package vfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// shortWriter takes at most most bytes and two buffers a call, and is interrupted before every other one.
type shortWriter struct {
	most  int
	calls int
	got   []byte
}

func (w *shortWriter) write(iovs [][]byte, off int64) (int, error) {
	w.calls++
	if w.calls%2 == 1 {
		return -1, syscall.EINTR
	}
	if len(iovs) > maxVectors || off != int64(len(w.got)) || len(iovs[0]) == 0 {
		return 0, fmt.Errorf("%d buffers at %d, %d bytes so far", len(iovs), off, len(w.got))
	}
	all := bytes.Join(iovs[:min(2, len(iovs))], nil)
	all = all[:min(len(all), w.most)]
	w.got = append(w.got, all...)
	return len(all), nil
}

func TestVectoredWritesContinueAfterShortAndInterruptedOnes(t *testing.T) {
	var bufs [][]byte
	for i := range 2_500 {
		bufs = append(bufs, bytes.Repeat([]byte{byte(i)}, i%5))
	}
	want := bytes.Join(bufs, nil)
	for most := 1; most < 9; most++ {
		w := &shortWriter{most: most}
		n, err := (&vectorCall{bufs: bufs}).writeAll(w.write)
		require.NoError(t, err)
		require.Equal(t, int64(len(want)), n)
		require.True(t, bytes.Equal(want, w.got))
	}
}

func TestVectoredWritesStopAtAnErrorAndAtNoProgress(t *testing.T) {
	calls := 0
	n, err := (&vectorCall{bufs: [][]byte{[]byte("abc"), []byte("def")}, off: 10}).writeAll(func(iovs [][]byte, off int64) (int, error) {
		if calls++; calls == 1 {
			return 4, nil
		}
		require.Equal(t, int64(14), off)
		require.Equal(t, [][]byte{[]byte("ef")}, iovs)
		return -1, syscall.ENOSPC
	})
	require.Equal(t, int64(4), n)
	require.True(t, IsNoSpace(err))

	_, err = (&vectorCall{bufs: [][]byte{[]byte("abc")}}).writeAll(func([][]byte, int64) (int, error) { return 0, nil })
	require.ErrorIs(t, err, io.ErrShortWrite)
}

func TestInterruptedCallsAreTriedAgain(t *testing.T) {
	calls := 0
	err := retryInterrupted(func() error {
		if calls++; calls < 3 {
			return syscall.EINTR
		}
		return syscall.EIO
	})
	require.Equal(t, syscall.EIO, err)
	require.Equal(t, 3, calls)
}

func TestAFullDiskIsRecognised(t *testing.T) {
	for err, want := range map[error]bool{
		nil:            false,
		syscall.ENOSPC: true,
		syscall.EDQUOT: true,
		syscall.EIO:    false,
		&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}:        true,
		fmt.Errorf("append: %w", fmt.Errorf("write: %w", syscall.ENOSPC)): true,
		errors.New("no space left on device"):                             false,
	} {
		require.Equal(t, want, IsNoSpace(err), "%v", err)
	}
	full, err := OS().Open("/dev/full", ReadWrite)
	if err != nil {
		return // a machine without the device
	}
	defer full.Close()
	_, err = full.WriteAt([]byte("x"), 0)
	require.True(t, IsNoSpace(err), "%v", err)
	_, err = full.(VectorWriter).WriteVectorAt([][]byte{{1}}, 0)
	require.True(t, IsNoSpace(err), "%v", err)
}

func TestFilesCloseOnExecAndAreNotForOthersToRead(t *testing.T) {
	dir := t.TempDir()
	f, err := OS().Open(dir+"/f", Create)
	require.NoError(t, err)
	defer f.Close()
	lock, err := OS().Lock(dir + "/.lock")
	require.NoError(t, err)
	defer lock.Close()
	for _, file := range []*os.File{f.(*osFile).f, lock.(*os.File)} {
		flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFD, 0)
		require.NoError(t, err)
		require.NotZero(t, flags&unix.FD_CLOEXEC)
		info, err := file.Stat()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o007)
	}
	require.NoError(t, OS().MkdirAll(dir+"/a/b"))
	info, err := OS().Stat(dir + "/a/b")
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o007)
}

// lockHelper makes this test binary a process that holds the lock it names until its standard input ends.
const lockHelper = "TIDEMARK_TEST_LOCK"

func TestMain(m *testing.M) {
	name := os.Getenv(lockHelper)
	if name == "" {
		os.Exit(m.Run())
	}
	if _, err := OS().Lock(name); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("locked")
	io.Copy(io.Discard, os.Stdin)
}

func TestALockHoldsAgainstAnotherProcessAndEndsWithIt(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), lockHelper+"="+name)
	stdin, err := holder.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked\n", line)

	_, err = OS().Lock(name)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	lock, err := OS().Lock(name)
	require.NoError(t, err, "the kernel drops the lock of a process that ends")
	require.NoError(t, lock.Close())
}

func TestPreallocationReservesBlocks(t *testing.T) {
	f, err := OS().Open(t.TempDir()+"/f", Create)
	require.NoError(t, err)
	defer f.Close()
	err = f.(Preallocator).Preallocate(0, 1<<20)
	if errors.Is(err, errors.ErrUnsupported) {
		return // a file system without reservations
	}
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())
	require.GreaterOrEqual(t, info.Sys().(*syscall.Stat_t).Blocks*512, int64(1<<20))
	require.NoError(t, f.Truncate(0))
	info, err = f.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Sys().(*syscall.Stat_t).Blocks, "truncation gives them back")
}

func TestASocketThatCannotSendfileIsUnsupported(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, WriteFileAtomic(OS(), dir+"/f", []byte("bytes")))
	f, err := OS().Open(dir+"/f", ReadOnly)
	require.NoError(t, err)
	defer f.Close()
	// A file opened for appending takes no sendfile: EINVAL, as from a socket family without it.
	target, err := os.OpenFile(dir+"/target", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer target.Close()
	raw, err := target.SyscallConn()
	require.NoError(t, err)
	n, err := f.(SocketSender).SendTo(onceWriter{raw}, 0, 5)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Zero(t, n)
}

// onceWriter lets a plain file stand for a connection.
type onceWriter struct{ syscall.RawConn }

func (w onceWriter) Write(f func(fd uintptr) bool) error {
	return w.Control(func(fd uintptr) { f(fd) })
}

// A handle that is closed while it sends must not send from whatever file gets its descriptor next.
func TestAHandleClosedWhileItSendsKeepsItsDescriptor(t *testing.T) {
	dir := t.TempDir()
	want := strings.Repeat("right", 4<<20)
	require.NoError(t, WriteFileAtomic(OS(), dir+"/f", []byte(want)))
	f, err := OS().Open(dir+"/f", ReadOnly)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	raw, err := server.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)

	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := f.(SocketSender).SendTo(raw, 0, int64(len(want))); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	first := make([]byte, 5)
	_, err = io.ReadFull(client, first)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for range 20 {
		other, err := os.Create(filepath.Join(dir, "other"))
		require.NoError(t, err)
		_, err = other.WriteString("wrong")
		require.NoError(t, err)
		defer other.Close()
	}
	rest, err := io.ReadAll(client)
	require.NoError(t, err)
	require.True(t, string(first)+string(rest) == want)
	wg.Wait()
}

func BenchmarkWrite(b *testing.B) {
	header, payload := make([]byte, 61), make([]byte, 16<<10)
	whole := append(bytes.Clone(header), payload...)
	run := func(b *testing.B, write func(f File, off int64) error) {
		f, err := OS().Open(b.TempDir()+"/f", Create)
		require.NoError(b, err)
		defer f.Close()
		b.SetBytes(int64(len(whole)))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := write(f, int64(i%1024*len(whole))); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("call=pwrite", func(b *testing.B) {
		run(b, func(f File, off int64) error {
			_, err := f.WriteAt(whole, off)
			return err
		})
	})
	b.Run("call=pwritev", func(b *testing.B) {
		bufs := [][]byte{header, payload}
		run(b, func(f File, off int64) error {
			_, err := f.(VectorWriter).WriteVectorAt(bufs, off)
			return err
		})
	})
}

func BenchmarkAppendAndSync(b *testing.B) {
	f, err := OS().Open(b.TempDir()+"/f", Create)
	require.NoError(b, err)
	defer f.Close()
	data := make([]byte, 16<<10)
	for i := 0; b.Loop(); i++ {
		if _, err := f.WriteAt(data, int64(i*len(data))); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSend(b *testing.B) {
	for _, size := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		for _, way := range []string{"sendfile", "copy"} {
			b.Run(fmt.Sprintf("size=%dk/way=%s", size>>10, way), func(b *testing.B) { benchmarkSend(b, size, way) })
		}
	}
}

func benchmarkSend(b *testing.B, size int, way string) {
	dir := b.TempDir()
	require.NoError(b, WriteFileAtomic(OS(), dir+"/f", make([]byte, size)))
	f, err := OS().Open(dir+"/f", ReadOnly)
	require.NoError(b, err)
	defer f.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	server, err := l.Accept()
	require.NoError(b, err)
	var wg sync.WaitGroup
	wg.Go(func() { io.CopyBuffer(struct{ io.Writer }{io.Discard}, client, make([]byte, 256<<10)) })
	raw, err := server.(*net.TCPConn).SyscallConn()
	require.NoError(b, err)
	buf := make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if way == "sendfile" {
			_, err = f.(SocketSender).SendTo(raw, 0, int64(size))
		} else if _, err = f.ReadAt(buf, 0); err == nil {
			_, err = server.Write(buf)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	server.Close()
	wg.Wait()
	client.Close()
}
