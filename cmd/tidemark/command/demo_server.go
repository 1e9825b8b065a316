package command

import (
	"context"

	"github.com/tidemark-io/tidemark/node"
)

// demoServer is the server that `tidemark demo` starts for itself.
type demoServer struct {
	node    *node.Node
	address string
}

// startDemoServer starts a server on a free port with its data in dir.
func startDemoServer(ctx context.Context, dir string) (*demoServer, error) {
	n, err := node.Open(ctx, node.Config{DataDir: dir, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}, Version: version})
	if err != nil {
		return nil, err
	}
	return &demoServer{node: n, address: n.Addrs().Kafka.String()}, nil
}

// close stops the server; its data stays in the directory.
func (s *demoServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return s.node.Close(ctx)
}
