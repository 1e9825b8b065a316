package node

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/broker"
)

func TestAListenerOfBothFamiliesTellsTheAddressOfTheOneThatWasUsed(t *testing.T) {
	bound := &net.TCPAddr{IP: net.IPv6unspecified, Port: 9092}
	ls := kafkaListeners{{Addr: bound, Advertised: advertisedBy(Listener{Listen: "[::]:9092"}, bound)}}
	for local, want := range map[string]string{
		"[2001:db8::1]:9092":      "2001:db8::1",
		"[::ffff:192.0.2.1]:9092": "192.0.2.1",
		"192.0.2.1:9092":          "192.0.2.1",
		"[fe80::1%eth0]:9092":     "fe80::1%eth0",
		"[::ffff:127.0.0.1]:9092": "127.0.0.1",
	} {
		host, port := ls.advertised(broker.Via{Listener: bound, Local: textAddr(local)})
		require.Equal(t, want, host)
		require.Equal(t, int32(9092), port)
	}
	require.Equal(t, ":9092", ls[0].advertisedText())
}

// textAddr is an address as it is written.
type textAddr string

func (textAddr) Network() string { return "tcp" }

func (a textAddr) String() string { return string(a) }

func TestAnAddressThatIsNoneOfANetworkIsToldAsItIs(t *testing.T) {
	host, port := kafkaListeners{}.advertised(broker.Via{Listener: textAddr("pipe"), Local: textAddr("pipe")})
	require.Equal(t, "pipe", host)
	require.Zero(t, port)
	require.Empty(t, advertisedBy(Listener{}, textAddr("pipe")))
}

func TestU15_AClientFromElsewhereThatIsToldLoopbackIsWarnedAboutOnce(t *testing.T) {
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	first, second, right := tcp("::", 9092), tcp("::", 9093), tcp("::", 9094)
	ls := kafkaListeners{
		{Addr: first, Advertised: "localhost:9092"}, {Addr: second, Advertised: "127.0.0.1:9093"}, {Addr: right, Advertised: "broker1:9094"},
	}
	var text strings.Builder
	seen := 0
	events := ls.warnOfLoopback(broker.Events{ConnectionOpened: func(broker.Connection) { seen++ }}, slog.New(slog.NewTextHandler(&text, nil)))
	open := func(listener, remote net.Addr) {
		events.ConnectionOpened(broker.Connection{Via: broker.Via{Listener: listener}, Remote: remote})
	}
	open(first, tcp("127.0.0.1", 40000))
	open(first, tcp("::1", 40000))
	open(first, textAddr("pipe"))
	open(right, tcp("192.0.2.7", 40000))
	require.Empty(t, text.String())
	open(first, tcp("192.0.2.7", 40000))
	open(first, tcp("192.0.2.8", 40000))
	open(second, tcp("192.0.2.7", 40001))
	require.Equal(t, 2, strings.Count(text.String(), "level=WARN"), "once for each listener")
	require.Contains(t, text.String(), "client=192.0.2.7:40000 listener=[::]:9092 advertised=localhost:9092")
	require.Contains(t, text.String(), "client=192.0.2.7:40001 listener=[::]:9093 advertised=127.0.0.1:9093")
	require.Equal(t, 7, seen)
}
