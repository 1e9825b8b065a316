package node

import (
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemark-io/tidemark/broker"
)

// kafkaListeners are the Kafka listeners of a node, in the order of its configuration. They do not change once clients
// are served.
type kafkaListeners []KafkaListener

// String lists the bound addresses.
func (ls kafkaListeners) String() string {
	var text []string
	for _, l := range ls {
		text = append(text, l.Addr.String())
	}
	return strings.Join(text, ",")
}

// named joins something about each listener in the form of Kafka's settings, NAME://VALUE, where names must be unique.
func (ls kafkaListeners) named(of func(KafkaListener) string) string {
	var text []string
	for i, l := range ls {
		name := "PLAINTEXT"
		if i > 0 {
			name += strconv.Itoa(i + 1)
		}
		text = append(text, name+"://"+of(l))
	}
	return strings.Join(text, ",")
}

// advertisedText is the address that a listener advertises, without a host where that depends on the client.
func (l KafkaListener) advertisedText() string {
	if l.Advertised != "" {
		return l.Advertised
	}
	_, port, _ := net.SplitHostPort(l.Addr.String()) // bound to every address of the machine
	return ":" + port
}

// advertised returns the address to give a client: the one its listener advertises, or the one it connected to.
func (ls kafkaListeners) advertised(via broker.Via) (host string, port int32) {
	told := via.Local.String()
	for _, l := range ls {
		if l.Advertised != "" && l.Addr.String() == via.Listener.String() {
			told = l.Advertised
		}
	}
	host, text, err := net.SplitHostPort(told)
	if err != nil {
		return told, 0 // not a network address
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return host, 0
	}
	return unmapped(host), int32(number)
}

// warnOfLoopback wraps events to log a warning, once for each listener, when a client on another machine is given a
// loopback address: a common mistake with containers.
func (ls kafkaListeners) warnOfLoopback(next broker.Events, log *slog.Logger) broker.Events {
	tells := map[string]string{} // loopback addresses that listeners advertise
	for _, l := range ls {
		if host, _, err := net.SplitHostPort(l.Advertised); err == nil && isLoopback(host) {
			tells[l.Addr.String()] = l.Advertised
		}
	}
	if len(tells) == 0 {
		return next
	}
	var said sync.Map // listeners already warned about
	opened := next.ConnectionOpened
	next.ConnectionOpened = func(c broker.Connection) {
		opened(c)
		listener := c.Listener.String()
		told, wrong := tells[listener]
		if !wrong || isLocal(c.Remote) {
			return
		}
		if _, again := said.LoadOrStore(listener, true); !again {
			log.Warn("a loopback address is advertised to a client on another machine: unless it came through a forwarded port, it will "+
				"connect to itself; set kafka-advertise to an address that it can reach",
				"client", c.Remote, "listener", listener, "advertised", told)
		}
	}
	return next
}

// isLoopback reports whether a host means the machine that resolves it.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// isLocal reports whether a connection comes from this machine over loopback, or does not come over a network at all.
func isLocal(remote net.Addr) bool {
	tcp, ok := remote.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// unmapped returns the plain form of an IPv4 address that a dual-stack listener reports as IPv6.
func unmapped(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4In6() {
		return ip.Unmap().String()
	}
	return host
}

// advertisedBy returns the HOST:PORT that a listener bound to an address advertises. Empty means the address that the
// client connected to.
func advertisedBy(l Listener, bound net.Addr) string {
	boundHost, boundPort, err := net.SplitHostPort(bound.String())
	if err != nil {
		return ""
	}
	host, port, err := net.SplitHostPort(l.Advertise)
	switch {
	case err == nil && (port == "0" || port == ""):
		return net.JoinHostPort(host, boundPort)
	case err == nil:
		return net.JoinHostPort(host, port)
	case isUnspecified(boundHost):
		return ""
	}
	return net.JoinHostPort(boundHost, boundPort)
}
