package faults

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/server"
)

// descriptors is how many the server may have: fewer than connections come.
const descriptors = 256

// A partition costs a descriptor only while it has records that no sync covered.
func TestATopicMayHaveMorePartitionsThanTheServerHasDescriptors(t *testing.T) {
	h := process(t, server.TidemarkOptions{Dir: t.TempDir(), OpenFiles: descriptors})
	require.NoError(t, h.Start(within(t)))
	require.NoError(t, create(t, h, 2*descriptors, "wide"))
	c := client(t, h)
	for p := range int32(2 * descriptors) {
		r := &kgo.Record{Topic: "wide", Partition: p, Value: []byte("first")}
		require.NoError(t, c.ProduceSync(within(t), r).FirstErr(), "partition %d", p)
	}
	require.NoError(t, h.Stop(within(t)))
}

func TestAServerWithoutDescriptorsGoesOnAndLosesNothing(t *testing.T) {
	h := process(t, server.TidemarkOptions{Dir: t.TempDir(), OpenFiles: descriptors, Args: []string{"--max.connections", "10000"}})
	require.NoError(t, h.Start(within(t)))
	l, load := load(t, h)
	for i := range 2 {
		require.NoError(t, create(t, h, 30, fmt.Sprint("many", i)))
	}

	// Connections that say nothing take what is left. What is connected already goes on, or tries again.
	var idle []net.Conn
	for !strings.Contains(h.Output(), "too many open files") {
		c, err := net.DialTimeout("tcp", h.Addr(), patience)
		require.NoError(t, err, "%d connections", len(idle))
		idle = append(idle, c)
	}
	require.NoError(t, l.WaitAcks(within(t), l.Acks()+1))
	for _, c := range idle {
		require.NoError(t, c.Close())
	}
	require.NoError(t, l.WaitAcks(within(t), l.Acks()+500))
	for p := range int32(3) {
		require.NoError(t, produce(t, h, "many0", p, 100), "every partition is served again")
	}
	code, _ := get(t, h, "/readyz")
	require.Equal(t, http.StatusOK, code)
	require.NotEqual(t, "tidemark_kafka_accept_failures_total 0\n", metric(t, h, "tidemark_kafka_accept_failures_total"))
	require.Contains(t, h.Output(), "a listener could not accept a connection")

	require.NoError(t, h.Kill())
	require.NoError(t, h.Start(within(t)), "with as few")
	for p := range int32(3) {
		require.NoError(t, produce(t, h, "many1", 10*p, 100), "every partition is served")
	}
	require.NoError(t, l.WaitAcks(within(t), l.Acks()+100))
	require.NoError(t, load.Stop(within(t)))
	verify(t, h, l, "after a kill and a start with few descriptors")
	require.NoError(t, h.Stop(within(t)))
}
