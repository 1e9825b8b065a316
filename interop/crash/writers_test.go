package crash

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/server"
)

// writer is a client of another make that writes the numbers from 0 on, in its own process, and prints what it was told.
type writer struct {
	t       *testing.T
	topic   string
	cmd     *exec.Cmd
	stderr  tail
	printed chan struct{} // closed when it has printed all

	mu      sync.Mutex
	news    chan struct{}
	acked   map[place]string
	refused []string
}

type place struct {
	partition int32
	offset    int64
}

// said is a line that a writer prints.
type said struct {
	Name      string `json:"name"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     string `json:"value"`
	Message   string `json:"message"`
}

// startWriters starts Apache Kafka's verifiable producer and librdkafka, both idempotent, each with a topic of its own.
func startWriters(t *testing.T, install server.Install, s *server.Server) []*writer {
	t.Helper()
	config := filepath.Join(t.TempDir(), "producer.properties")
	require.NoError(t, os.WriteFile(config, []byte("enable.idempotence=true\nretries=2147483647\ncompression.type=lz4\nlinger.ms=1\n"+
		"reconnect.backoff.ms=10\nreconnect.backoff.max.ms=50\nretry.backoff.ms=20\nretry.backoff.max.ms=50\n"+
		"delivery.timeout.ms=600000\nmax.block.ms=600000\n"), 0o600))
	return []*writer{
		startWriter(t, s, "java", install.Java("org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", s.Addr(),
			"--topic", "java", "--throughput", "200", "--command-config", config)),
		startWriter(t, s, "librdkafka", install.Python("confluent_writer.py", s.Addr(), "librdkafka")),
	}
}

func startWriter(t *testing.T, s *server.Server, topic string, cmd *exec.Cmd) *writer {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()))
	require.NoError(t, err)
	defer c.Close()
	configs := map[string]*string{"segment.bytes": kadm.StringPtr("1048576")}
	created, err := kadm.NewClient(c).CreateTopics(limited(t), partitions, 1, configs, topic)
	require.NoError(t, err)
	require.NoError(t, created.Error())

	w := &writer{t: t, topic: topic, cmd: cmd, printed: make(chan struct{}), news: make(chan struct{}, 1), acked: map[place]string{}}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = &w.stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unless it has ended
		<-w.printed
	})
	go w.listen(out)
	return w
}

func (w *writer) listen(out io.Reader) {
	defer close(w.printed)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line said
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // a log line
		}
		w.mu.Lock()
		switch at := (place{line.Partition, line.Offset}); line.Name {
		case "producer_send_success":
			if before, known := w.acked[at]; known {
				w.refused = append(w.refused, fmt.Sprintf("%v was acknowledged for %s and for %s", at, before, line.Value))
			}
			w.acked[at] = line.Value
		case "producer_send_error":
			w.refused = append(w.refused, line.Value+": "+line.Message)
		}
		w.mu.Unlock()
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// works waits until so many more records were acknowledged.
func (w *writer) works(acks int) {
	w.t.Helper()
	ctx := limited(w.t)
	for want := w.count() + acks; w.count() < want; {
		select {
		case <-w.news:
		case <-w.printed:
			w.t.Fatalf("the writer of %s ended; it printed:\n%s", w.topic, &w.stderr)
		case <-ctx.Done():
			w.t.Fatalf("the writer of %s gets no answers; it printed:\n%s", w.topic, &w.stderr)
		}
	}
}

// finish lets the writer end in order and holds the server to what it was told: every acknowledged record is there, at its
// place, and no record is there twice.
func (w *writer) finish(client kgo.Opt) {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-w.printed:
	case <-limited(w.t).Done():
		w.t.Fatalf("the writer of %s does not end", w.topic)
	}
	require.Empty(w.t, w.refused, w.topic)
	c, err := kgo.NewClient(client, kgo.ConsumeTopics(w.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(w.t, err)
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(limited(w.t), w.topic)
	require.NoError(w.t, err)
	var total int64
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	found, values := map[place]string{}, map[string]place{}
	for ctx := limited(w.t); int64(len(found)) < total; {
		fetches := c.PollFetches(ctx)
		require.NoError(w.t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			at := place{r.Partition, r.Offset}
			if other, twice := values[string(r.Value)]; twice {
				w.t.Errorf("%s: %s stands at %v and at %v", w.topic, r.Value, other, at)
			}
			found[at], values[string(r.Value)] = string(r.Value), at
		})
	}
	for at, value := range w.acked {
		require.Equal(w.t, value, found[at], "%s: acknowledged at %v", w.topic, at)
	}
	w.t.Logf("%s: %d acknowledged, %d in the log", w.topic, len(w.acked), len(found))
}

// tail keeps the end of what a process printed.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (l *tail) Write(p []byte) (int, error) {
	const kept = 8 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-kept):]
	return len(p), nil
}

// String returns what is kept.
func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
