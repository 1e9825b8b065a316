package broker

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/vfs"
)

// listen opens the server on a port of its own and returns the address.
func (r *rig) listen() string {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	r.serving.Go(func() { require.NoError(r.t, r.server.Serve(l)) })
	return l.Addr().String()
}

func kgoClient(t testing.TB, addr string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond })}, options...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// consume reads so many records of a topic from its start.
func consume(t testing.TB, addr, topic string, n int, options ...kgo.Opt) map[int32][]string {
	t.Helper()
	ctx := within(t)
	c := kgoClient(t, addr, append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, options...)...)
	defer c.Close()
	got := map[int32][]string{}
	for n > 0 {
		fetches := c.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			require.Equal(t, int64(len(got[r.Partition])), r.Offset)
			got[r.Partition] = append(got[r.Partition], string(r.Value))
			n--
		})
	}
	return got
}

func TestFranzGoProducesAndConsumes(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	r := newRigOn(t, vfs.OS(), func(o *Options) { o.NumPartitions = 3 })
	r.backend.root = t.TempDir()
	addr := r.listen()
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			ctx := within(t)
			c := kgoClient(t, addr, kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation(),
				kgo.RecordPartitioner(kgo.ManualPartitioner()))
			want := map[int32][]string{}
			for i := range 300 {
				p := int32(i % 3)
				value := fmt.Sprintf("%s %d: %0*d", name, i, 500, i)
				want[p] = append(want[p], value)
				c.Produce(ctx, &kgo.Record{Topic: name, Partition: p, Value: []byte(value)}, func(_ *kgo.Record, err error) {
					require.NoError(t, err)
				})
			}
			require.NoError(t, c.Flush(ctx))
			require.Equal(t, want, consume(t, addr, name, 300))
			require.Equal(t, want, consume(t, addr, name, 300, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(1000)))
			require.Equal(t, want, consume(t, addr, name, 300, kgo.DisableFetchSessions()))
		})
	}
	require.Empty(t, r.events.panics)
	require.Empty(t, r.events.refused)
}

func TestFranzGoWithEveryAcks(t *testing.T) {
	r := newRig(t)
	addr := r.listen()
	for name, acks := range map[string]kgo.Acks{"all": kgo.AllISRAcks(), "leader": kgo.LeaderAck(), "none": kgo.NoAck()} {
		ctx := within(t)
		options := []kgo.Opt{kgo.RequiredAcks(acks), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(name)}
		if name != "all" {
			options = append(options, kgo.DisableIdempotentWrite())
		}
		c := kgoClient(t, addr, options...)
		for i := range 20 {
			require.NoError(t, c.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr())
		}
		require.Len(t, consume(t, addr, name, 20)[0], 20)
	}
}

func TestFranzGoAdministers(t *testing.T) {
	r := newRig(t)
	addr := r.listen()
	ctx := within(t)
	c := kgoClient(t, addr)
	admin := kadm.NewClient(c)

	created, err := admin.CreateTopics(ctx, 2, 3, map[string]*string{"retention.ms": kadm.StringPtr("5000")}, "a", "b")
	require.NoError(t, err)
	require.NoError(t, created.Error())
	require.Equal(t, "5000", *created["a"].Configs["retention.ms"].Value)
	_, err = admin.CreateTopic(ctx, 1, 1, nil, "a")
	require.ErrorIs(t, err, kerr.TopicAlreadyExists)
	_, err = admin.CreateTopic(ctx, 1, 1, map[string]*string{"no.such": kadm.StringPtr("5000")}, "c")
	require.ErrorIs(t, err, kerr.InvalidConfig)

	topics, err := admin.ListTopics(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, topics.Names())
	require.Equal(t, int32(testNode), topics["a"].Partitions[1].Leader)

	produced := c.ProduceSync(ctx, &kgo.Record{Topic: "a", Value: []byte("x")})
	require.NoError(t, produced.FirstErr())
	ends, err := admin.ListEndOffsets(ctx, "a")
	require.NoError(t, err)
	at, _ := ends.Lookup("a", produced[0].Record.Partition)
	require.Equal(t, int64(1), at.Offset)
	after, err := admin.ListOffsetsAfterMilli(ctx, time.Now().Add(time.Hour).UnixMilli(), "a")
	require.NoError(t, err)
	require.NoError(t, after.Error())

	deleted, err := admin.DeleteTopics(ctx, "a", "b")
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	require.Zero(t, r.backend.Topics().Len())
}

func TestF74_ManyProducersOfATopicThatIsNotThereYet(t *testing.T) {
	r := newRig(t)
	addr := r.listen()
	ctx := within(t)
	var producers sync.WaitGroup
	for i := range 8 {
		producers.Go(func() {
			c := kgoClient(t, addr, kgo.AllowAutoTopicCreation())
			defer c.Close()
			for range 10 {
				if err := c.ProduceSync(ctx, &kgo.Record{Topic: fmt.Sprintf("new-%d", i%2), Value: []byte("x")}).FirstErr(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	producers.Wait()
	require.Len(t, consume(t, addr, "new-0", 40)[0], 40)
	require.Len(t, consume(t, addr, "new-1", 40)[0], 40)
}

func TestFranzGoLiveTail(t *testing.T) {
	r := newRig(t)
	addr := r.listen()
	ctx := within(t)
	r.topic("t", 4, nil)
	tail := kgoClient(t, addr, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(10*time.Second), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	c := kgoClient(t, addr, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	for i := range 40 {
		require.NoError(t, c.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte{byte(i)}}).FirstErr())
		fetches := tail.PollFetches(ctx) // a parked fetch wakes: nothing here waits for its ten seconds
		require.NoError(t, fetches.Err())
		require.Equal(t, []byte{byte(i)}, fetches.Records()[0].Value)
	}
}
