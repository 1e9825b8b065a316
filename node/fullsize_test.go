package node_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// childDir names the data directory of a server that this program runs in place of its tests, to be killed.
const childDir = "NODE_TEST_CHILD_DIR"

// serveUntilKilled runs a server and prints where it listens. It ends when its parent does.
func serveUntilKilled(dir string) int {
	n, err := node.Open(context.Background(), onlyKafka(dir, nil))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(n.Addrs().KafkaAdvertised)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
	return 1
}

func onlyKafka(dir string, disk vfs.FS) node.Config {
	return node.Config{DataDir: dir, NodeID: 1, FS: disk, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}}
}

// killed is a server in a process of its own, and a client of it.
type killed struct {
	t      *testing.T
	cmd    *exec.Cmd
	client *kgo.Client
}

func serveInProcess(t *testing.T, dir string) *killed {
	k := &killed{t: t, cmd: exec.Command(os.Args[0])}
	k.cmd.Env = append(os.Environ(), childDir+"="+dir)
	k.cmd.Stderr = os.Stderr
	_, err := k.cmd.StdinPipe() // which ends with this process, or with Wait
	require.NoError(t, err)
	out, err := k.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, k.cmd.Start())
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the server did not start")
	k.client, err = kgo.NewClient(kgo.SeedBrokers(strings.TrimSpace(addr)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(t, err)
	return k
}

// kill ends the server as kill -9 does.
func (k *killed) kill() {
	k.client.Close()
	require.NoError(k.t, k.cmd.Process.Kill())
	_ = k.cmd.Wait() // it says that it was killed
}

// The field report's own size is 64 MiB a segment, 128 GiB in all: NODE_SEGMENT_BYTES=67108864, which 'make starts' sets. The
// sealed segments of all partitions are names of the same files, so that it takes 1.4 GiB of a disk. What is read does not
// depend on the size: it is the active segments.
func TestF77_AStartAfterAKillReadsTheActiveSegmentsAndNoSealedOne(t *testing.T) {
	const partitions, sealed = 100, 20
	size := int64(fromEnv(t, "NODE_SEGMENT_BYTES", 1<<20))
	dir := filepath.Join(t.TempDir(), "data")
	n, err := node.Open(t.Context(), onlyKafka(dir, nil))
	require.NoError(t, err)
	c := clientOf(t, n)
	createTopic(t, c, partitions, map[string]string{"segment.bytes": fmt.Sprint(size), "retention.ms": "-1"}, "orders")
	c.Close()
	require.NoError(t, n.Close(t.Context()))
	first := filepath.Join(dir, "orders-0")
	end := fillSegments(t, first, size, sealed)
	for p := 1; p < partitions; p++ {
		shareSealed(t, first, filepath.Join(dir, fmt.Sprintf("orders-%d", p)))
	}

	server := serveInProcess(t, dir)
	noise := rand.NewChaCha8([32]byte{1})
	var failed atomic.Pointer[error]
	const rounds, record = 2, 16 << 10
	for range rounds { // the records of the second round are in the journal first
		for p := range int32(partitions) {
			value := make([]byte, record)
			_, _ = noise.Read(value)
			server.client.Produce(t.Context(), &kgo.Record{Topic: "orders", Partition: p, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
				}
			})
		}
		require.NoError(t, server.client.Flush(within(t)))
		require.Nil(t, failed.Load())
	}
	server.kill()
	active, total := recordBytes(t, dir)
	require.Equal(t, partitions*(sealed+1), len(under(tree(t, vfs.OS(), dir), ".log")))

	var read atomic.Int64
	disk := faultfs.New(vfs.OS(), faultfs.When(faultfs.Matching(faultfs.OpReadAt, "*.log"), func(op faultfs.Op) faultfs.Fault {
		read.Add(op.Len)
		return faultfs.Fault{}
	}))
	start := func(how string) *node.Node {
		read.Store(0)
		before, began := processReads(), time.Now()
		n, err := node.Open(t.Context(), onlyKafka(dir, disk))
		require.NoError(t, err)
		t.Logf("start %s, %d partitions of %d sealed segments of %d bytes, %d bytes of records in all, %d in active segments: "+
			"%d bytes of records read (%d bytes of whatever file by the process) in %v",
			how, partitions, sealed, size, total, active, read.Load(), processReads()-before, time.Since(began).Round(time.Millisecond))
		return n
	}
	n = start("after kill -9")
	require.Positive(t, read.Load())
	const last = rounds * (record + 200) // of each partition, which the journal may have as well: it is held against the file
	require.LessOrEqual(t, read.Load(), active+partitions*(last+4096), "the active segments, and a header to begin with")
	require.Greater(t, total, 50*read.Load())
	c = clientOf(t, n)
	ends, err := kadm.NewClient(c).ListEndOffsets(within(t), "orders")
	require.NoError(t, err)
	require.Len(t, ends["orders"], partitions)
	ends.Each(func(o kadm.ListedOffset) {
		require.Equal(t, end+rounds, o.Offset, "partition %d: %v", o.Partition, o.Err)
	})
	c.Close()
	require.NoError(t, n.Close(t.Context()))

	n = start("after a clean stop")
	require.Zero(t, read.Load())
	require.NoError(t, n.Close(t.Context()))
}

// fillSegments appends to the log in a directory until so many segments are sealed, and returns its end.
func fillSegments(t *testing.T, dir string, size int64, sealed int) (end int64) {
	t.Helper()
	rolls := 0
	env := kafkalog.NewEnv(kafkalog.EnvOptions{Events: kafkalog.Events{Rolled: func(kafkalog.RolledEvent) { rolls++ }}})
	c := kafkalog.DefaultConfig()
	c.SegmentBytes = size
	l, err := kafkalog.Open(env, dir, kafkalog.Options{Config: c, Clean: true})
	require.NoError(t, err)
	value := make([]byte, min(size/8, 1<<20))
	_, _ = rand.NewChaCha8([32]byte{2}).Read(value)
	builder := batch.NewBuilder(batch.BuilderOptions{})
	builder.Add(time.Now().UnixMilli(), nil, value)
	records, err := builder.Build()
	require.NoError(t, err)
	for rolls < sealed {
		_, err := l.Append(records, kafkalog.AppendOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, l.Sync())
	end = l.LogEnd()
	require.NoError(t, l.Close())
	require.NoError(t, env.Close())
	return end
}

// shareSealed gives a log the sealed segments of another as second names of the files, and a copy of everything else but
// whose it is.
func shareSealed(t *testing.T, from, to string) {
	t.Helper()
	names := under(tree(t, vfs.OS(), from), ".log")
	active := strings.TrimSuffix(filepath.Base(names[len(names)-1]), ".log")
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		base, _, _ := strings.Cut(e.Name(), ".")
		switch {
		case e.Name() == "partition.metadata":
		case len(base) == len(active) && base < active:
			require.NoError(t, os.Link(source, target))
		default:
			data, err := os.ReadFile(source)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(target, data, 0o600))
		}
	}
}

// recordBytes returns how long the files of records are, of the last of each directory, and of all.
func recordBytes(t *testing.T, dir string) (active, all int64) {
	t.Helper()
	last := map[string]int64{} // by directory; names sort by offset
	for _, name := range under(tree(t, vfs.OS(), dir), ".log") {
		info, err := os.Stat(name)
		require.NoError(t, err)
		last[filepath.Dir(name)] = info.Size()
		all += info.Size()
	}
	for _, size := range last {
		active += size
	}
	return active, all
}

// processReads is how many bytes this process has read by system calls, 0 where that is not counted.
func processReads() int64 {
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(io), "rchar: ")
	count, _, _ := strings.Cut(after, "\n")
	n, _ := strconv.ParseInt(count, 10, 64)
	return n
}
