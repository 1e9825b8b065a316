package node_test

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/node/nodetest"
)

// openWith starts a node on the real network that is closed with the test.
func openWith(t *testing.T, listeners ...node.Listener) *node.Node {
	t.Helper()
	n, err := node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), NodeID: 7, HTTP: "127.0.0.1:0", Kafka: listeners, InsecureListen: true,
		Groups: node.GroupConfig{OffsetsPartitions: 1, InitialRebalanceDelay: -1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	return n
}

// portOf is the port of an address.
func portOf(t *testing.T, a net.Addr) string {
	t.Helper()
	_, port, err := net.SplitHostPort(a.String())
	require.NoError(t, err)
	return port
}

// told asks a server for its address in every way that there is, and requires the same answer to all.
func told(t *testing.T, address string) string {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(address))
	require.NoError(t, err)
	defer c.Close()
	ask := func(req kmsg.Request) kmsg.Response {
		resp, err := c.SeedBrokers()[0].RetriableRequest(within(t), req)
		require.NoError(t, err)
		return resp
	}
	join := func(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
	metadata := ask(kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)
	answer := join(metadata.Brokers[0].Host, metadata.Brokers[0].Port)

	cluster := ask(kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse)
	require.Equal(t, answer, join(cluster.Brokers[0].Host, cluster.Brokers[0].Port))

	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
	found := ask(find).(*kmsg.FindCoordinatorResponse)
	require.Equal(t, answer, join(found.Coordinators[0].Host, found.Coordinators[0].Port))
	return answer
}

func TestU15_ClientsAreToldTheAddressOfTheListenerThatTheyCameInOn(t *testing.T) {
	n := openWith(t,
		node.Listener{Listen: "127.0.0.1:0"},
		node.Listener{Listen: "127.0.0.1:0", Advertise: "inside.example:19092"},
		node.Listener{Listen: "0.0.0.0:0", Advertise: "outside.example:0"},
		node.Listener{Listen: "0.0.0.0:0"},
	)
	all := n.Addrs().KafkaListeners
	require.Len(t, all, 4)
	require.Equal(t, all[0].Addr, n.Addrs().Kafka)
	local := func(i int, host string) string { return net.JoinHostPort(host, portOf(t, all[i].Addr)) }

	require.Equal(t, local(0, "127.0.0.1"), told(t, local(0, "127.0.0.1")))
	require.Equal(t, "inside.example:19092", told(t, local(1, "127.0.0.1")))
	require.Equal(t, local(2, "outside.example"), told(t, local(2, "127.0.0.1")))
	require.Equal(t, local(3, "127.0.0.1"), told(t, local(3, "127.0.0.1")), "what the client has connected to")
	require.Equal(t, local(3, "127.0.0.2"), told(t, local(3, "127.0.0.2")), "another address of the same listener")

	require.Equal(t, []string{local(0, "127.0.0.1"), "inside.example:19092", local(2, "outside.example"), ""}, []string{
		all[0].Advertised, all[1].Advertised, all[2].Advertised, all[3].Advertised,
	})
	requireShown(t, n)
}

// requireShown checks that the status page and the server's settings tell of every listener.
func requireShown(t *testing.T, n *node.Node) {
	t.Helper()
	var shown struct {
		Listeners []struct{ Name, Address, Advertised string }
	}
	_, body := get(t, n.Addrs().HTTP.String(), "/status")
	require.NoError(t, json.Unmarshal([]byte(body), &shown))
	require.Len(t, shown.Listeners, 5)
	listeners, advertised := "", ""
	for i, l := range n.Addrs().KafkaListeners {
		require.Equal(t, "kafka", shown.Listeners[i+1].Name)
		require.Equal(t, l.Addr.String(), shown.Listeners[i+1].Address)
		name := []string{"PLAINTEXT://", ",PLAINTEXT2://", ",PLAINTEXT3://", ",PLAINTEXT4://"}[i]
		listeners += name + l.Addr.String()
		if l.Advertised == "" {
			require.Equal(t, "what they have connected to", shown.Listeners[i+1].Advertised)
			advertised += name + ":" + portOf(t, l.Addr)
			continue
		}
		require.Equal(t, l.Advertised, shown.Listeners[i+1].Advertised)
		advertised += name + l.Advertised
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs().Kafka.String()))
	require.NoError(t, err)
	defer c.Close()
	described, err := kadm.NewClient(c).DescribeBrokerConfigs(within(t), 7)
	require.NoError(t, err)
	settings := map[string]string{}
	for _, s := range described[0].Configs {
		settings[s.Key] = s.MaybeValue()
	}
	require.Equal(t, listeners, settings["listeners"])
	require.Equal(t, advertised, settings["advertised.listeners"])
}

// dialed is where a client has connected to.
type dialed struct {
	mu    sync.Mutex
	where map[string]bool
}

// client is a Kafka client of a listener, closed with the test.
func (d *dialed) client(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	d.where = map[string]bool{}
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			d.mu.Lock()
			d.where[host] = true
			d.mu.Unlock()
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, host)
		}),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func (d *dialed) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for where := range d.where {
		all = append(all, where)
	}
	slices.Sort(all)
	return all
}

func TestClientsOfEveryListenerProduceAndConsumeAndStayThere(t *testing.T) {
	n := openWith(t,
		node.Listener{Listen: "127.0.0.1:0"},
		node.Listener{Listen: "0.0.0.0:0"},
		node.Listener{Listen: "127.0.0.1:0", Advertise: "localhost:0"},
	)
	at := func(i int, host string) string {
		return net.JoinHostPort(host, portOf(t, n.Addrs().KafkaListeners[i].Addr))
	}
	for _, test := range []struct {
		topic, seed string
		want        []string // where the client has connected to
	}{
		{"its-own", at(0, "127.0.0.1"), []string{at(0, "127.0.0.1")}},
		{"connected", at(1, "127.0.0.2"), []string{at(1, "127.0.0.2")}},
		{"advertised", at(2, "127.0.0.1"), []string{at(2, "127.0.0.1"), at(2, "localhost")}},
	} {
		t.Run(test.topic, func(t *testing.T) {
			var d dialed
			c := d.client(t, test.seed, kgo.ConsumeTopics(test.topic), kgo.ConsumerGroup(test.topic), kgo.AllowAutoTopicCreation())
			require.NoError(t, c.ProduceSync(within(t), &kgo.Record{Topic: test.topic, Value: []byte("v")}).FirstErr())
			fetches := c.PollFetches(within(t))
			require.NoError(t, fetches.Err())
			require.Equal(t, "v", string(fetches.Records()[0].Value))
			require.NoError(t, c.CommitRecords(within(t), fetches.Records()...))
			require.Equal(t, test.want, d.all())
		})
	}
}

func TestNoListenerStaysOpenWhenOneCannotBeOpened(t *testing.T) {
	free, err := net.Listen("tcp", nodetest.FreePort())
	require.NoError(t, err)
	taken, err := net.Listen("tcp", nodetest.FreePort())
	require.NoError(t, err)
	defer taken.Close()
	first := free.Addr().String()
	require.NoError(t, free.Close())
	_, err = node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), Kafka: []node.Listener{{Listen: first}, {Listen: taken.Addr().String()}},
	})
	require.ErrorContains(t, err, "address already in use")
	free, err = net.Listen("tcp", first)
	require.NoError(t, err)
	require.NoError(t, free.Close())
}
