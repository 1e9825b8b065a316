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

// kafkaListeners is the Kafka listeners of a node, in the order of its configuration. They do not change once clients are
// served.
type kafkaListeners []KafkaListener

// String is the addresses that are listened on.
func (ls kafkaListeners) String() string {
	var text []string
	for _, l := range ls {
		text = append(text, l.Addr.String())
	}
	return strings.Join(text, ",")
}

// named writes something of each listener as Kafka's settings do: with the name of the listener, which there must differ.
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

// advertisedText is what a listener tells, without a host where that depends on the client.
func (l KafkaListener) advertisedText() string {
	if l.Advertised != "" {
		return l.Advertised
	}
	_, port, _ := net.SplitHostPort(l.Addr.String()) // it listens on all addresses of a network
	return ":" + port
}

// advertised is the address that a client is told: that of the listener it came in on, or the one that it connected to.
func (ls kafkaListeners) advertised(via broker.Via) (host string, port int32) {
	told := via.Local.String()
	for _, l := range ls {
		if l.Advertised != "" && l.Addr.String() == via.Listener.String() {
			told = l.Advertised
		}
	}
	host, text, err := net.SplitHostPort(told)
	if err != nil {
		return told, 0 // no address of a network
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return host, 0
	}
	return unmapped(host), int32(number)
}

// warnOfLoopback adds a warning to events when a client on another machine is told a loopback address, once for each listener:
// a beginner's mistake with containers.
func (ls kafkaListeners) warnOfLoopback(next broker.Events, log *slog.Logger) broker.Events {
	tells := map[string]string{} // what a listener tells that only this machine can reach
	for _, l := range ls {
		if host, _, err := net.SplitHostPort(l.Advertised); err == nil && isLoopback(host) {
			tells[l.Addr.String()] = l.Advertised
		}
	}
	if len(tells) == 0 {
		return next
	}
	var said sync.Map // the listeners that it was said of
	opened := next.ConnectionOpened
	next.ConnectionOpened = func(c broker.Connection) {
		opened(c)
		listener := c.Listener.String()
		told, wrong := tells[listener]
		if !wrong || isLocal(c.Remote) {
			return
		}
		if _, again := said.LoadOrStore(listener, true); !again {
			log.Warn("a client on another machine is told a loopback address: unless it came through a forwarded port, it will "+
				"connect to itself; set kafka-advertise to an address that it can reach",
				"client", c.Remote, "listener", listener, "advertised", told)
		}
	}
	return next
}

// isLoopback reports whether a host stands for the machine of whoever looks it up.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// isLocal reports whether a connection comes from this machine by loopback, or not from a network at all.
func isLocal(remote net.Addr) bool {
	tcp, ok := remote.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// unmapped turns an IPv4 address that a listener for both families reports in its IPv6 form into a plain one.
func unmapped(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4In6() {
		return ip.Unmap().String()
	}
	return host
}

// advertisedBy is the HOST:PORT that a listener which is bound to an address tells its clients; empty: the address that
// they have connected to.
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
