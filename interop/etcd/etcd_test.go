package etcd_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/etcd"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

func TestCloseLeavesNothingBehind(t *testing.T) {
	c := startCluster(t, 1, nil)
	use := func() {
		b, err := etcd.Open(t.Context(), c.config("closing"))
		require.NoError(t, err)
		_, err = b.Claim(t.Context(), "live/1", nil)
		require.NoError(t, err)
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
	}
	use()
	before := goleak.IgnoreCurrent() // those of etcd's server
	use()
	goleak.VerifyNone(t, before)
}

// names gives each log of a cluster another name.
type names struct{ last atomic.Int64 }

func (n *names) next() string { return fmt.Sprint("log-", n.last.Add(1)) }

func TestEtcdKeepsEveryPromise(t *testing.T) {
	c, names := startCluster(t, 1, nil), &names{}
	admin := c.admin()
	metatest.Run(t, func(t *testing.T) metatest.Storage {
		return &storage{c: c, name: names.next(), admin: admin}
	})
}

func TestEtcdKeepsEveryPromiseOverABadNetwork(t *testing.T) {
	c, names := startCluster(t, 1, nil), &names{}
	admin := c.admin()
	for seed := range uint64(2) {
		metatest.Run(t, func(t *testing.T) metatest.Storage {
			opened := 1000 * seed
			return &storage{c: c, name: names.next(), admin: admin, wrap: func(b meta.Backend) meta.Backend {
				opened++
				return metatest.Lossy(b, opened)
			}}
		})
	}
}

func TestTheCatalogPassesItsSuiteOnEtcd(t *testing.T) {
	c, names := startCluster(t, 1, nil), &names{}
	catalogtest.Run(t, func(t *testing.T, now func() time.Time) catalog.Catalog {
		l := openLog(t, c.config(names.next()), meta.Options{Now: now, SnapshotEvery: 7})
		raise(t, l)
		return meta.NewCatalog(l)
	})
}

// openLog opens a log and closes it when the test ends.
func openLog(t *testing.T, config etcd.Config, o meta.Options) *meta.Log {
	t.Helper()
	b, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	l, err := meta.Open(t.Context(), b, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoError(t, b.Close())
	})
	return l
}

// raise lets all commands into a log.
func raise(t *testing.T, l *meta.Log) {
	t.Helper()
	const bystander = 1000
	results, err := l.Propose(t.Context(),
		meta.RegisterNode{Node: bystander, ExpectedEpoch: -1, Incarnation: [16]byte{0xFF}},
		meta.AnnounceLevel{Node: bystander, Incarnation: [16]byte{0xFF}, Level: meta.NewestLevel},
		meta.RaiseLevel{Level: meta.NewestLevel, Nodes: []int32{bystander}})
	require.NoError(t, err)
	require.NoError(t, results[2].Err())
}
