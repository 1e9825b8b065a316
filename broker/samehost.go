package broker

import (
	"net"
	"syscall"
)

// unpace makes a connection from this machine send as fast as the peer reads. There is no network to share fairly, but a
// congestion control that paces packets, as BBR does, would still arm a timer for every few of them, which was half the
// cost of a fetch. It selects reno, which any process may use.
//
// It is a hint. Connections from other machines keep the system's choice.
func unpace(nc net.Conn) {
	if !sameHost(nc.LocalAddr(), nc.RemoteAddr()) {
		return
	}
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // closed, as the first read will find
	}
	_ = raw.Control(func(fd uintptr) { setUnpaced(fd) })
}

// sameHost reports whether both ends of a TCP connection are on this machine: it talks to itself over one of its addresses, or over
// loopback ones.
func sameHost(local, remote net.Addr) bool {
	l, ok := local.(*net.TCPAddr)
	if !ok {
		return false
	}
	r, ok := remote.(*net.TCPAddr)
	return ok && (l.IP.Equal(r.IP) || r.IP.IsLoopback())
}
