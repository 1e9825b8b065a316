package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

// job is one topic that a peer writes or reads, from its only partition 0.
type job struct {
	Topic      string
	Codec      string // none, gzip, snappy, lz4 or zstd
	Idempotent bool
	MaxBytes   int // the limit of a record, a batch and a fetch that the peer is to set
	Records    []corpus.Record
}

// peer is a client that takes part.
type peer interface {
	// write writes each job's records, in order.
	write(t *testing.T, jobs []job)
	// read returns, by topic, the first len(Records) records of each job's topic.
	read(t *testing.T, jobs []job) map[string][]corpus.Record
}

// traits says what is asked of a peer.
type traits struct {
	writes     corpus.Abilities
	reads      corpus.Abilities
	idempotent bool     // the peer can write idempotently, and is asked to do both
	codecs     []string // that the peer has; nil is every one
}

var everyCodec = []string{"none", "gzip", "snappy", "lz4", "zstd"}

const (
	smallRecords = 300
	smallLimit   = 1_000_000
	largeBytes   = 20 << 20
	largeLimit   = 25 << 20
)

// exchange makes the peer write with every codec, idempotent and not, and franz-go read it; franz-go write with every
// codec and the peer read it; and both handle values of 20 MiB under raised limits.
func exchange(t *testing.T, p peer, what traits) {
	prefix := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	codecs := what.codecs
	if codecs == nil {
		codecs = everyCodec
	}
	var writes, reads []job
	for i, codec := range codecs {
		records := corpus.Mixed(uint64(i), smallRecords, what.writes)
		writes = append(writes, job{Topic: prefix + "-writes-" + codec, Codec: codec, MaxBytes: smallLimit, Records: records})
		if what.idempotent {
			writes = append(writes, job{Topic: prefix + "-writes-idempotent-" + codec, Codec: codec, Idempotent: true,
				MaxBytes: smallLimit, Records: records})
		}
		reads = append(reads, job{Topic: prefix + "-reads-" + codec, Codec: codec, Idempotent: true, MaxBytes: smallLimit,
			Records: corpus.Mixed(uint64(i), smallRecords, what.reads)})
	}
	var topics []string
	for _, j := range append(writes, reads...) {
		topics = append(topics, j.Topic)
	}
	createTopics(t, nil, topics...)

	largeWrite := job{Topic: prefix + "-writes-20MiB", Codec: "none", Idempotent: what.idempotent, MaxBytes: largeLimit,
		Records: corpus.Large(1, 2, largeBytes, what.writes)}
	largeRead := job{Topic: prefix + "-reads-20MiB", Codec: codecs[len(codecs)-1], Idempotent: true, MaxBytes: largeLimit,
		Records: corpus.Large(2, 2, largeBytes, what.reads)}
	createTopics(t, map[string]string{"max.message.bytes": fmt.Sprint(largeLimit)}, largeWrite.Topic, largeRead.Topic)
	writes, reads = append(writes, largeWrite), append(reads, largeRead)

	p.write(t, writes)
	reference := franzGo{}
	got := reference.read(t, writes)
	for _, j := range writes {
		t.Run("franz-go reads what it "+words(j.Topic, prefix), func(t *testing.T) {
			require.Empty(t, corpus.Diff(j.Records, got[j.Topic], what.writes))
			requireStoredAs(t, j, reference.stored(t, j))
		})
	}

	reference.write(t, reads)
	got = p.read(t, reads)
	for _, j := range reads {
		t.Run("it "+words(j.Topic, prefix)+" that franz-go wrote", func(t *testing.T) {
			require.Empty(t, corpus.Diff(j.Records, got[j.Topic], what.reads))
		})
	}
}

// words turns a topic's name without its prefix into words of a sentence.
func words(topic, prefix string) string {
	return strings.ReplaceAll(strings.TrimPrefix(topic, prefix+"-"), "-", " ")
}

// requireStoredAs checks that the batches were stored with the codec that was asked for, and numbered if and only if
// the writer was idempotent. A client may leave a batch alone that a codec cannot shrink, but not all of them.
func requireStoredAs(t *testing.T, j job, records []*kgo.Record) {
	t.Helper()
	codec := map[string]uint8{"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[j.Codec]
	compressed := 0
	for _, r := range records {
		if got := r.Attrs.CompressionType(); got != 0 || codec == 0 {
			require.Equal(t, codec, got, "the codec of offset %d", r.Offset)
			compressed++
		}
		if j.Idempotent {
			require.GreaterOrEqual(t, r.ProducerID, int64(0), "the producer id of offset %d", r.Offset)
		} else {
			require.Equal(t, int64(-1), r.ProducerID, "the producer id of offset %d", r.Offset)
		}
	}
	require.NotZero(t, compressed, "no batch is compressed")
}

// franzGo is the reference: what other clients write it reads, and the other way round. It is a peer like any other too.
type franzGo struct{}

func (franzGo) write(t *testing.T, jobs []job) {
	t.Helper()
	ctx := limited(t, 2*time.Minute)
	for _, j := range jobs {
		opts := []kgo.Opt{
			kgo.DefaultProduceTopic(j.Topic),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgoCodec(j.Codec)),
			kgo.ProducerBatchMaxBytes(int32(j.MaxBytes)),
			kgo.ProducerLinger(20 * time.Millisecond),
		}
		if !j.Idempotent {
			opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
		}
		c := client(t, opts...)
		var records []*kgo.Record
		for _, r := range j.Records {
			record := &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			records = append(records, record)
		}
		require.NoError(t, c.ProduceSync(ctx, records...).FirstErr(), "writing %s", j.Topic)
	}
}

func (f franzGo) read(t *testing.T, jobs []job) map[string][]corpus.Record {
	t.Helper()
	got := map[string][]corpus.Record{}
	for _, j := range jobs {
		for _, r := range f.stored(t, j) {
			record := corpus.Record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, corpus.Header{Key: h.Key, Value: h.Value})
			}
			got[j.Topic] = append(got[j.Topic], record)
		}
	}
	return got
}

// stored returns the records of the job's topic as the server has them.
func (franzGo) stored(t *testing.T, j job) []*kgo.Record {
	t.Helper()
	ctx := limited(t, time.Minute)
	c := client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.Topic: {0: kgo.NewOffset().At(0)}}),
		kgo.FetchMaxPartitionBytes(int32(j.MaxBytes)))
	var records []*kgo.Record
	for len(records) < len(j.Records) {
		fetches := c.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "reading %s: %d of %d records", j.Topic, len(records), len(j.Records))
		records = append(records, fetches.Records()...)
	}
	return records
}

func kgoCodec(name string) kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}[name]
}
