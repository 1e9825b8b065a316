package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/ledger"
	"github.com/tidemark-io/tidemark/interop/server"
)

// patience bounds what a test waits for when something is wrong.
const patience = 2 * time.Minute

// built is the program, built once for all tests.
var built struct {
	once   sync.Once
	binary string
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.binary != "" {
		_ = os.RemoveAll(filepath.Dir(built.binary)) // a build that is left over does no harm
	}
	os.Exit(code)
}

func binary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		install, err := server.Located()
		if err != nil {
			built.err = err
			return
		}
		dir, err := os.MkdirTemp("", "tidemark-faults-")
		if err != nil {
			built.err = err
			return
		}
		built.binary, built.err = server.BuildTidemark(install, dir)
	})
	require.NoError(t, built.err)
	return built.binary
}

// process prepares the real program with its data in dir.
func process(t *testing.T, o server.TidemarkOptions) *server.Server {
	t.Helper()
	o.Binary = binary(t)
	s, err := server.NewTidemark(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server printed:\n%s", s.Dump())
		}
		require.NoError(t, s.Kill())
	})
	return s
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test waited too long"))
	t.Cleanup(cancel)
	return ctx
}

// client is a client that does not try again, closed with the test.
func client(t *testing.T, h *server.Server, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(h.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordRetries(0), kgo.RequestRetries(0), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()),
	}, o...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// create makes a topic with small segments.
func create(t *testing.T, h *server.Server, partitions int32, topic string) error {
	t.Helper()
	size := "1048576"
	created, err := kadm.NewClient(client(t, h)).
		CreateTopic(within(t), partitions, 1, map[string]*string{"segment.bytes": &size}, topic)
	if err = errors.Join(err, created.Err); err != nil {
		return fmt.Errorf("%w: %s", err, created.ErrMessage)
	}
	return nil
}

// produce sends one record of so many bytes.
func produce(t *testing.T, h *server.Server, topic string, partition int32, size int) error {
	t.Helper()
	r := &kgo.Record{Topic: topic, Partition: partition, Value: make([]byte, size)}
	return client(t, h).ProduceSync(within(t), r).FirstErr()
}

// get asks the HTTP side.
func get(t *testing.T, h *server.Server, what string) (code int, body string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	answer, err := c.Get("http://" + h.HTTPAddr() + what)
	require.NoError(t, err)
	read, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(read)
}

// metric returns the lines of one metric.
func metric(t *testing.T, h *server.Server, name string) string {
	t.Helper()
	_, body := get(t, h, "/metrics")
	var lines []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// load starts the ledger's clients on a topic of three partitions.
func load(t *testing.T, h *server.Server) (*ledger.Ledger, *ledger.Load) {
	t.Helper()
	require.NoError(t, create(t, h, 3, "loaded"))
	l := ledger.New("loaded")
	load, err := ledger.StartLoad(l, ledger.LoadOptions{
		Client: []kgo.Opt{kgo.SeedBrokers(h.Addr())}, Readers: 1, Group: "readers",
	})
	require.NoError(t, err)
	t.Cleanup(load.Close)
	return l, load
}

// verify reads everything back and holds it against the ledger.
func verify(t *testing.T, h *server.Server, l *ledger.Ledger, when string) {
	t.Helper()
	report, err := l.Verify(within(t), kgo.SeedBrokers(h.Addr()))
	require.NoError(t, err, when)
	require.NoError(t, report.Err(), when)
	t.Logf("%s: %d acknowledged, %d in the log", when, report.Acked, report.Read)
}
