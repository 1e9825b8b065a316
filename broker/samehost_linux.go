package broker

import "golang.org/x/sys/unix"

// setUnpaced gives a socket the congestion control that only counts packets.
func setUnpaced(fd uintptr) {
	_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") // a system without it keeps its own
}
