package broker

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAConnectionIsOfOneMachineWhenBothEndsAre(t *testing.T) {
	tcp := func(addr string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", addr)
		require.NoError(t, err)
		return a
	}
	for _, c := range []struct {
		local, remote net.Addr
		want          bool
	}{
		{tcp("127.0.0.1:9092"), tcp("127.0.0.1:40000"), true},
		{tcp("127.0.0.1:9092"), tcp("127.0.0.2:40000"), true},
		{tcp("[::1]:9092"), tcp("[::1]:40000"), true},
		{tcp("10.1.2.3:9092"), tcp("10.1.2.3:40000"), true},
		{tcp("[::ffff:10.1.2.3]:9092"), tcp("10.1.2.3:40000"), true},
		{tcp("10.1.2.3:9092"), tcp("10.1.2.4:40000"), false},
		{&net.UnixAddr{Name: "a"}, &net.UnixAddr{Name: "b"}, false},
		{tcp("127.0.0.1:9092"), &net.UnixAddr{Name: "b"}, false},
		{nil, nil, false},
	} {
		require.Equal(t, c.want, sameHost(c.local, c.remote), "%v from %v", c.local, c.remote)
	}
}

func TestAConnectionFromThisMachineIsNotPaced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	served, err := l.Accept()
	require.NoError(t, err)
	defer served.Close()

	unpace(served)
	raw, err := served.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		name, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		require.NoError(t, err)
		require.Equal(t, "reno", name)
	}))

	ours, theirs := net.Pipe() // has no socket
	defer theirs.Close()
	unpace(ours)
	require.NoError(t, ours.Close())
	require.NoError(t, served.Close())
	unpace(served) // is closed
}
