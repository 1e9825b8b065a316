package node

import (
	"net"
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
