package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/etcd"
)

// cluster is etcd servers in this process.
type cluster struct {
	t       *testing.T
	configs []*embed.Config
	members []*embed.Etcd // nil: stopped
}

// startCluster starts members on free ports. change may be nil.
func startCluster(t *testing.T, members int, change func(*embed.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, members: make([]*embed.Etcd, members)}
	var peers []string
	for i := range members {
		config := embed.NewConfig()
		config.Name, config.Dir = fmt.Sprintf("m%d", i), t.TempDir()
		config.TickMs, config.ElectionMs = 10, 100
		config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		config.ListenClientUrls = []url.URL{freeURL(t)}
		config.ListenPeerUrls = []url.URL{freeURL(t)}
		config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
		config.UnsafeNoFsync = true // machines do not lose power here
		if change != nil {
			change(config)
		}
		peers = append(peers, config.Name+"="+config.ListenPeerUrls[0].String())
		c.configs = append(c.configs, config)
	}
	var starting sync.WaitGroup
	for i, config := range c.configs {
		config.InitialCluster = strings.Join(peers, ",")
		starting.Go(func() { c.start(i) })
	}
	starting.Wait()
	t.Cleanup(func() {
		for i := range c.members {
			c.stop(i)
		}
	})
	return c
}

func freeURL(t *testing.T) url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}

// start starts a member, anew after a stop.
func (c *cluster) start(i int) {
	config := *c.configs[i]
	member, err := embed.StartEtcd(&config)
	if err != nil {
		c.t.Error(err)
		return
	}
	<-member.Server.ReadyNotify()
	c.members[i] = member
	c.configs[i].ClusterState = embed.ClusterStateFlagExisting
}

// stop ends a member.
func (c *cluster) stop(i int) {
	if c.members[i] != nil {
		c.members[i].Close()
		c.members[i] = nil
	}
}

// leader is the member that leads, -1 for none.
func (c *cluster) leader() int {
	for i, m := range c.members {
		if m != nil && m.Server.Leader() == m.Server.MemberID() {
			return i
		}
	}
	return -1
}

func (c *cluster) endpoints() (hosts []string) {
	for _, config := range c.configs {
		hosts = append(hosts, config.ListenClientUrls[0].Host)
	}
	return hosts
}

// admin is a client of the tests' own.
func (c *cluster) admin() *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// config is that of a log in the cluster.
func (c *cluster) config(name string) etcd.Config {
	return etcd.Config{Endpoints: c.endpoints(), Name: name, ClusterID: "suite-cluster", TTL: 2 * time.Second, Timeout: 2 * time.Second}
}

// cable is a network that can be cut.
type cable struct {
	mu    sync.Mutex
	conns []net.Conn
	isCut bool
}

var errCut = errors.New("the cable is cut")

func (c *cable) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		return nil, errors.Join(errCut, conn.Close())
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// cut ends all connections and lets no new one come about.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}

// options send a backend's connections over the cable.
func (c *cable) options() []grpc.DialOption { return []grpc.DialOption{grpc.WithContextDialer(c.dial)} }

// storage is one log in a cluster, as the suite sees it.
type storage struct {
	c      *cluster
	name   string
	admin  *clientv3.Client
	cables []*cable
	wrap   func(meta.Backend) meta.Backend
}

// Open opens the log over a cable of its own.
func (s *storage) Open() (meta.Backend, error) { return s.Join() }

// Join opens the log beside others.
func (s *storage) Join() (meta.Backend, error) {
	network := &cable{}
	s.cables = append(s.cables, network)
	config := s.c.config(s.name)
	config.DialOptions = network.options()
	b, err := etcd.Open(s.c.t.Context(), config)
	if err != nil {
		return nil, err
	}
	if s.wrap != nil {
		return s.wrap(b), nil
	}
	return b, nil
}

// Crash cuts off whoever has the log open, and lets their leases expire.
func (s *storage) Crash() {
	for _, network := range s.cables {
		network.cut()
	}
	s.cables = nil
	s.expireLeases()
}

func (s *storage) expireLeases() {
	ctx := context.Background()
	leases, err := s.admin.Leases(ctx)
	require.NoError(s.c.t, err)
	for _, l := range leases.Leases {
		_, _ = s.admin.Revoke(ctx, l.ID)
	}
}
