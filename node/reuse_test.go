package node_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/internal/ledger"
	"github.com/tidemark-io/tidemark/node"
)

// fetcher asks for records over a connection of its own and takes the answers apart itself: what a client library checks or
// copies hides nothing.
type fetcher struct {
	conn   net.Conn
	slowly int // bytes of each answer that it reads one at a time
	calls  int32
}

const (
	fetchKey     = 1
	fetchVersion = 11 // the last that is not encoded flexibly
)

var errOutOfRange = errors.New("offset out of range")

// fetched is the answer for one partition.
type fetched struct {
	start, end int64
	records    []byte
}

func (f *fetcher) fetch(topic string, partition int32, offset int64, most int32) (fetched, error) {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.MaxWaitMillis, req.SessionEpoch = fetchVersion, 1, most, 50, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, most
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	f.calls++
	frame := binary.BigEndian.AppendUint16(make([]byte, 4), fetchKey)
	frame = binary.BigEndian.AppendUint16(frame, fetchVersion)
	frame = binary.BigEndian.AppendUint32(frame, uint32(f.calls))
	frame = binary.BigEndian.AppendUint16(frame, 0xffff) // no client id
	frame = req.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := f.conn.Write(frame); err != nil {
		return fetched{}, err
	}
	var head [4]byte
	if err := f.read(head[:]); err != nil {
		return fetched{}, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if err := f.read(body); err != nil {
		return fetched{}, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != f.calls {
		return fetched{}, fmt.Errorf("answer %d to request %d", got, f.calls)
	}
	answer := kmsg.NewPtrFetchResponse()
	answer.Version = fetchVersion
	if err := answer.ReadFrom(body[4:]); err != nil {
		return fetched{}, err
	}
	got := answer.Topics[0].Partitions[0]
	switch got.ErrorCode {
	case 0:
		return fetched{got.LogStartOffset, got.HighWatermark, got.RecordBatches}, nil
	case 1:
		return fetched{}, errOutOfRange
	}
	return fetched{}, fmt.Errorf("error code %d", got.ErrorCode)
}

func (f *fetcher) read(p []byte) error {
	for range min(f.slowly, len(p)) {
		if _, err := f.conn.Read(p[:1]); err != nil {
			return err
		}
		p = p[1:]
	}
	_, err := io.ReadFull(f.conn, p)
	return err
}

// shown is what readers were shown, for topics whose records come and go.
type shown struct {
	ledger   *ledger.Ledger
	compared atomic.Int64
	batches  atomic.Int64

	mu   sync.Mutex
	crcs map[position]uint32 // of the batches by their base offsets
}

// examine holds every whole batch of an answer against its checksum, against the same batch as others were shown it, and its
// records against the ledger. The last batch may be cut off, as Kafka's protocol allows.
func (s *shown) examine(topic string, partition int32, records []byte) error {
	for len(records) > 0 {
		b, rest, err := batch.Next(records)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := b.VerifyCRC(); err != nil {
			return fmt.Errorf("%s-%d, offset %d: %w", topic, partition, b.BaseOffset(), err)
		}
		if err := s.same(position{topic, partition, b.BaseOffset()}, b.CRC()); err != nil {
			return err
		}
		if err := s.records(topic, partition, b); err != nil {
			return err
		}
		s.batches.Add(1)
		records = rest
	}
	return nil
}

func (s *shown) same(at position, crc uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.crcs[at]
	if known && before != crc {
		return fmt.Errorf("%v: a batch with checksum %08x, and then another with %08x", at, before, crc)
	}
	s.crcs[at] = crc
	return nil
}

func (s *shown) records(topic string, partition int32, b batch.Batch) error {
	r := b.Records(batch.Limits{})
	defer r.Close()
	for r.Next() {
		one := r.Record()
		held := &kgo.Record{Topic: topic, Partition: partition, Offset: one.Offset, Key: one.Key, Value: one.Value}
		for _, h := range one.Headers {
			held.Headers = append(held.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		if s.ledger.Compare(held) {
			s.compared.Add(1)
		}
	}
	return r.Err()
}

// TestF19_ReadersNeverGetBytesOfOthers runs 64 readers at random offsets, writers, deletions of records, retention, and clients
// that take a byte at a time, on a whole node. With the race detector, whatever goes back into a pool of the node is
// overwritten, so that an answer which still points there has wrong checksums.
func TestF19_ReadersNeverGetBytesOfOthers(t *testing.T) {
	settings := func(c *node.Config) {
		c.RetentionCheck, c.InitialTaskDelay = 20*time.Millisecond, time.Millisecond
	}
	t.Run("files that are sent from", func(t *testing.T) {
		c := node.Config{DataDir: t.TempDir(), NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}, DiskReserve: -1}
		settings(&c)
		n, err := node.Open(within(t), c)
		require.NoError(t, err)
		defer func() { require.NoError(t, n.Close(within(t))) }()
		readersAmongChanges(t, n.Addrs().Kafka.String())
	})
	t.Run("files that are copied", func(t *testing.T) {
		m := machine(t)
		settings(&m.Config)
		m.Start()
		readersAmongChanges(t, m.Addr())
		m.Stop()
	})
}

func readersAmongChanges(t *testing.T, addr string) {
	admin, err := kgo.NewClient(kgo.SeedBrokers(addr))
	require.NoError(t, err)
	defer admin.Close()
	const partitions = 2
	small := map[string]string{"segment.bytes": "1048576", "file.delete.delay.ms": "0"}
	createTopic(t, admin, partitions, small, "trimmed")
	createTopic(t, admin, partitions, map[string]string{
		"segment.bytes": "1048576", "file.delete.delay.ms": "0", "retention.bytes": "8000000",
	}, "rolling")
	books := map[string]*shown{}
	var loads []*ledger.Load
	for topic, keep := range map[string]int64{"trimmed": 100, "rolling": 0} {
		l := ledger.New(topic)
		load, err := ledger.StartLoad(l, ledger.LoadOptions{
			Client: []kgo.Opt{kgo.SeedBrokers(addr)}, Keep: keep, Buffered: 8,
			Writers: []ledger.Writer{{Idempotent: true, Codec: kgo.Lz4Compression()}, {Idempotent: true, MinBytes: 100_000, MaxBytes: 300_000}},
		})
		require.NoError(t, err)
		defer load.Close()
		books[topic] = &shown{ledger: l, crcs: map[position]uint32{}}
		loads = append(loads, load)
	}

	for _, b := range books { // enough that answers of all sizes are to be had
		require.NoError(t, b.ledger.WaitAcks(within(t), 300))
	}
	const readers, slow = 64, 4
	var enough [readers + slow]atomic.Bool
	over := make(chan struct{})
	var all sync.WaitGroup
	errs := make(chan error, readers+slow)
	for i := range readers + slow {
		all.Go(func() {
			if err := readAnywhere(t.Context(), admin, addr, partitions, i >= readers, uint64(i), books, &enough[i], over); err != nil {
				errs <- err
			}
		})
	}
	for _, b := range books {
		require.NoError(t, b.ledger.WaitAcks(within(t), b.ledger.Acks()+200))
	}
	require.Eventually(t, func() bool {
		for i := range enough {
			if !enough[i].Load() && len(errs) == 0 {
				return false
			}
		}
		return true
	}, 4*patience, 5*time.Millisecond)
	close(over)
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	for _, load := range loads {
		load.Pause()
	}
	for topic, b := range books {
		require.Empty(t, b.ledger.Violations(), topic)
		require.Greater(t, b.compared.Load(), int64(300), topic)
		require.Greater(t, start(t, admin, topic), int64(0), "%s: nothing was deleted meanwhile", topic)
	}
	report, err := books["trimmed"].ledger.Verify(within(t), kgo.SeedBrokers(addr))
	require.NoError(t, err)
	require.NoError(t, report.Err())
}

// readAnywhere fetches from random offsets until it is over.
func readAnywhere(ctx context.Context, admin *kgo.Client, addr string, partitions int32, slow bool, seed uint64,
	books map[string]*shown, enough *atomic.Bool, over <-chan struct{}) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	sizes := []int32{1, 5_000, 50_000, 100_000, 800_000}
	f := &fetcher{conn: conn}
	if slow {
		f.slowly, sizes = 64<<10, []int32{6_000_000}
		// Less than an answer, so that the server waits in the middle of one, and more than a packet on the loopback device, which
		// the kernel would send after a timeout.
		if err := conn.(*net.TCPConn).SetReadBuffer(128 << 10); err != nil {
			return err
		}
	}
	random := rand.New(rand.NewPCG(seed, 19))
	bounds := map[position][2]int64{}
	for n := 0; ; n++ {
		select {
		case <-over:
			return nil
		default:
		}
		topic := []string{"trimmed", "rolling"}[random.IntN(2)]
		at := position{topic, random.Int32N(partitions), 0}
		from, to := bounds[at][0], bounds[at][1]
		offset := from
		if to > from {
			offset += random.Int64N(to - from)
		}
		got, err := f.fetch(topic, at.partition, offset, sizes[random.IntN(len(sizes))])
		if errors.Is(err, errOutOfRange) { // it was deleted in the meantime, or the first of all
			starts, err := kadm.NewClient(admin).ListStartOffsets(ctx, topic)
			if err != nil {
				return err
			}
			begins, _ := starts.Lookup(topic, at.partition)
			bounds[at] = [2]int64{begins.Offset, begins.Offset}
			continue
		}
		if err != nil {
			return err
		}
		bounds[at] = [2]int64{got.start, got.end}
		if err := books[topic].examine(topic, at.partition, got.records); err != nil {
			return err
		}
		if n >= 5 || slow && n >= 1 {
			enough.Store(true)
		}
	}
}
