package interop

import (
	"context"
	"flag"
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
	maker   *server.Maker
	under   *server.Server
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

// tests is how many tests run at a time. Those that may run beside others wait most of the time: for sessions to end.
const tests = "4"

func run(m *testing.M) (code int, err error) {
	flag.Parse()
	if err := flag.Set("test.parallel", tests); err != nil {
		return 0, err
	}
	if shared.install, err = server.Installed(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "tidemark-interop-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if shared.maker, err = server.UnderTest(shared.install, dir); err != nil {
		return 0, err
	}
	if shared.under, err = shared.maker.New(dir); err != nil {
		return 0, err
	}
	if err := shared.under.Start(context.Background()); err != nil {
		return 0, err
	}
	code = m.Run()
	if err := shared.under.Alive(); err != nil {
		return code, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return code, shared.under.Stop(ctx)
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

// createTopics creates topics with one partition each and the given configs, which keep old records: tests choose the
// timestamps that they look for.
func createTopics(t *testing.T, configs map[string]string, topics ...string) {
	t.Helper()
	values := map[string]*string{"retention.ms": kadm.StringPtr("-1")}
	for name, value := range configs {
		values[name] = kadm.StringPtr(value)
	}
	created, err := kadm.NewClient(client(t)).CreateTopics(limited(t, time.Minute), 1, 1, values, topics...)
	require.NoError(t, err)
	require.NoError(t, created.Error())
}
