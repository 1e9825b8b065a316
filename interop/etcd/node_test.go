package etcd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/etcd"
	"github.com/tidemark-io/tidemark/node"
)

// nodeConfig is a server on a directory, with its metadata in the cluster.
func nodeConfig(c *cluster, dir string, id int32) node.Config {
	return node.Config{
		DataDir: dir, NodeID: id, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}},
		MetaStore: node.MetaStore{URL: "etcd://" + strings.Join(c.endpoints(), ",") + "/prod"},
	}
}

func startNode(t *testing.T, config node.Config) *node.Node {
	t.Helper()
	n, err := node.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close(context.Background()) })
	return n
}

func clientOf(t *testing.T, n *node.Node) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs().KafkaAdvertised), kgo.ConsumeTopics("orders"))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestAServerKeepsItsMetadataInEtcd(t *testing.T) {
	c, dir := startCluster(t, 3, nil), t.TempDir()
	first := startNode(t, nodeConfig(c, dir, 1))
	client := clientOf(t, first)
	_, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "orders")
	require.NoError(t, err)
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())

	_, err = node.Open(t.Context(), nodeConfig(c, t.TempDir(), 2))
	var elsewhere *node.RecordsElsewhereError
	require.ErrorAs(t, err, &elsewhere, "its data directory has none of the records")
	require.Equal(t, 1, elsewhere.Topics)
	cluster := first.ClusterID()
	require.NoError(t, first.Close(t.Context()))

	c.stop(c.leader())
	again := startNode(t, nodeConfig(c, dir, 1))
	require.Equal(t, cluster, again.ClusterID())
	client = clientOf(t, again)
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("two")}).FirstErr())
	require.Equal(t, "one", string(client.PollFetches(t.Context()).Records()[0].Value))
	require.NoError(t, again.Close(t.Context()))
}

func TestASecondNodeOfAClusterIsRefused(t *testing.T) {
	c := startCluster(t, 1, nil)
	startNode(t, nodeConfig(c, t.TempDir(), 1))
	_, err := node.Open(t.Context(), nodeConfig(c, t.TempDir(), 2))
	var alone *node.NotAloneError
	require.ErrorAs(t, err, &alone)
	require.Equal(t, []int32{2, 1}, []int32{alone.Node, alone.Other})

	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = node.Open(short, nodeConfig(c, t.TempDir(), 1))
	var taken *meta.TakenError
	require.ErrorAs(t, err, &taken, "two processes under one id")
}

func TestAServerThatIsTakenOverEnds(t *testing.T) {
	c := startCluster(t, 1, nil)
	n := startNode(t, nodeConfig(c, t.TempDir(), 1))
	config, err := etcd.ParseURL(nodeConfig(c, "", 1).MetaStore.URL, etcd.Credentials{})
	require.NoError(t, err)
	l := openLog(t, config, meta.Options{Node: 9})
	_, err = l.Do(t.Context(), meta.RegisterNode{Node: 1, ExpectedEpoch: 1, Incarnation: [16]byte{9}})
	require.NoError(t, err)
	<-n.Done()
	var fenced *meta.FencedError
	require.ErrorAs(t, n.Err(), &fenced)
	require.Equal(t, meta.FencedError{Node: 1, Epoch: 1, Then: 2}, *fenced)
}
