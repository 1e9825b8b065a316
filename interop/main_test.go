package interop

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/server"
)

// world is what the tests of this package share: the peers and one running server.
type world struct {
	install server.Install
	under   *server.Server
	binary  string // of tidemark; empty when another server is under test
}

var shared world

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if shared.install, err = server.Installed(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "tidemark-interop-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	switch name := os.Getenv("TIDEMARK_INTEROP_SERVER"); name {
	case "", "tidemark":
		if shared.binary, err = server.BuildTidemark(shared.install, dir); err != nil {
			return 0, err
		}
	case "kafka":
	default:
		return 0, fmt.Errorf("TIDEMARK_INTEROP_SERVER is %q; it may be tidemark or kafka", name)
	}
	if shared.under, err = newServer(dir); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := shared.under.Start(ctx); err != nil {
		return 0, err
	}
	code = m.Run()
	if err := shared.under.Alive(); err != nil {
		return code, err
	}
	return code, shared.under.Stop(ctx)
}

// newServer prepares another server of the kind under test with its data in a new directory below dir.
func newServer(dir string) (*server.Server, error) {
	data, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return nil, err
	}
	if shared.binary == "" {
		return server.NewKafka(shared.install, server.KafkaOptions{Dir: data})
	}
	return server.NewTidemark(server.TidemarkOptions{Dir: data, Binary: shared.binary})
}

// limited returns a context that ends the test's waits in time to say what was waited for.
func limited(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// client returns a franz-go client of the server under test, closed at the end of the test.
func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(shared.under.Addr())}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// createTopics creates topics with one partition each and the given configs.
func createTopics(t *testing.T, configs map[string]string, topics ...string) {
	t.Helper()
	values := map[string]*string{}
	for name, value := range configs {
		values[name] = kadm.StringPtr(value)
	}
	created, err := kadm.NewClient(client(t)).CreateTopics(limited(t, time.Minute), 1, 1, values, topics...)
	require.NoError(t, err)
	require.NoError(t, created.Error())
}
