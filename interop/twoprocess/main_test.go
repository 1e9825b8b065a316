package twoprocess

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/tidemark-io/tidemark/interop/server"
)

// shared is what the tests share: a running S3 server, and etcd in this process.
var shared struct{ s3, etcd string }

// TestMain is where the processes that the tests start begin, too.
func TestMain(m *testing.M) {
	if text := os.Getenv(ordersVariable); text != "" {
		os.Exit(obey(text))
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	in, err := server.Installed()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "tidemark-two-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	metadata, err := startEtcd(dir)
	if err != nil {
		return 0, err
	}
	defer metadata.Close()
	s3, err := server.NewSeaweed(in, dir)
	if err != nil {
		return 0, err
	}
	if err := s3.Start(context.Background()); err != nil {
		return 0, err
	}
	os.Setenv("AWS_ACCESS_KEY_ID", server.SeaweedClient().AccessKey)
	os.Setenv("AWS_SECRET_ACCESS_KEY", server.SeaweedClient().SecretKey)
	shared.s3 = s3.Addr()
	code = m.Run()
	if err := s3.Alive(); err != nil {
		return code, err
	}
	return code, s3.Kill() // it takes ten seconds to stop, and has nothing to lose
}

func startEtcd(dir string) (*embed.Etcd, error) {
	config := embed.NewConfig()
	config.Name, config.Dir = "m0", dir+"/etcd"
	config.TickMs, config.ElectionMs = 10, 100
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.UnsafeNoFsync = true // machines do not lose power here
	for _, urls := range []*[]url.URL{&config.ListenClientUrls, &config.ListenPeerUrls} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*urls = []url.URL{{Scheme: "http", Host: l.Addr().String()}}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
	config.InitialCluster = config.Name + "=" + config.ListenPeerUrls[0].String()
	e, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	<-e.Server.ReadyNotify()
	shared.etcd = config.ListenClientUrls[0].Host
	return e, nil
}
