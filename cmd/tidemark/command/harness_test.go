package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for when something is wrong.
const patience = 5 * time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test waited too long"))
	t.Cleanup(cancel)
	return ctx
}

// output is what a command wrote and its exit code.
type output struct {
	Code     int
	Out, Err string
}

// tidemark runs a command line with some standard input.
func tidemark(t *testing.T, in string, args ...string) output {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(within(t), args, Streams{In: strings.NewReader(in), Out: &out, Err: &errs})
	return output{code, out.String(), errs.String()}
}

// done is tidemark for a command that must succeed; it returns what was written.
func done(t *testing.T, in string, args ...string) string {
	t.Helper()
	got := tidemark(t, in, args...)
	require.Equal(t, ExitOK, got.Code, "%v: %s", args, got.Err)
	return got.Out
}

// startServer runs a node on a free port until the test ends and returns its address.
func startServer(t *testing.T) string {
	t.Helper()
	return startServerIn(t, t.TempDir())
}

func startServerIn(t *testing.T, dir string) string {
	t.Helper()
	n, err := node.Open(within(t), node.Config{
		DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}},
		Groups: node.GroupConfig{OffsetsPartitions: 2, InitialRebalanceDelay: -1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	return n.Addrs().Kafka.String()
}

// startFake runs a server that also has groups and transactions, and returns its address.
func startFake(t *testing.T, topic string, partitions int32) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// connectTo is a client that is closed with the test.
func connectTo(t *testing.T, server string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	kc, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(server), kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(kc.Close)
	return kc
}

// write produces values to one partition of a topic.
func write(t *testing.T, kc *kgo.Client, topic string, partition int32, values ...string) {
	t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
		require.NoError(t, kc.ProduceSync(within(t), r).FirstErr())
	}
}

// manual lets a test choose partitions.
func manual() kgo.Opt { return kgo.RecordPartitioner(kgo.ManualPartitioner()) }

// masks replace what differs from run to run.
var masks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`"id": "[A-Za-z0-9+/_=-]{22,24}"`), `"id": "ID"`},
	{regexp.MustCompile(`"timestamp":( ?)\d{13}`), `"timestamp":${1}TIME`},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`/tmp/[^ "]*`), "PATH"},
}

func masked(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.by)
	}
	return text
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err, "it should be:\n%s", got)
	require.Equal(t, string(want), got)
}

// lockedBuffer is a buffer that a command writes to while a test reads.
type lockedBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newLockedBuffer() *lockedBuffer { return &lockedBuffer{changed: make(chan struct{}, 1)} }

// Write appends.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

// String is what was written so far.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// waitFor returns once the text holds a word.
func (b *lockedBuffer) waitFor(t *testing.T, word string) {
	t.Helper()
	ctx := within(t)
	for !strings.Contains(b.String(), word) {
		select {
		case <-b.changed:
		case <-ctx.Done():
			require.Fail(t, "never written", "%q is not in %q", word, b.String())
		}
	}
}

// background runs a command until stop is called, which interrupts it and returns its exit code.
func background(t *testing.T, args ...string) (out, errs *lockedBuffer, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs = newLockedBuffer(), newLockedBuffer()
	code := make(chan int, 1)
	go func() { code <- Main(ctx, args, Streams{In: strings.NewReader(""), Out: out, Err: errs}) }()
	var once sync.Once
	result := -1
	stop = func() int {
		once.Do(func() {
			cancel()
			select {
			case result = <-code:
			case <-time.After(patience):
				t.Error("the command did not end when it was interrupted")
			}
		})
		return result
	}
	t.Cleanup(func() { stop() })
	return out, errs, stop
}
