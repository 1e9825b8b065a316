package interop

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/interop/corpus"
	"github.com/tidemark-io/tidemark/interop/kafkafiles"
	"github.com/tidemark-io/tidemark/kafkalog"
)

func TestKafkalogReadsWhatApacheKafkaWroteAsKafkaDoes(t *testing.T) {
	ctx := limited(t, 5*time.Minute)
	stopped, killed, err := kafkafiles.Write(ctx, shared.install, t.TempDir(), kafkafiles.Size{Batches: 8, Records: 40})
	require.NoError(t, err)
	t.Run("after a clean stop", func(t *testing.T) { requireReadAlike(t, stopped) })
	t.Run("after kill -9", func(t *testing.T) { requireReadAlike(t, killed) })
}

func TestKafkalogReadsTheGoldenFilesAsKafkaDid(t *testing.T) {
	for _, name := range []string{"stopped", "killed"} {
		s, err := kafkafiles.Load(filepath.Join("..", "kafkalog", "testdata", "apache-kafka-4.4.0", name))
		require.NoError(t, err)
		files := os.DirFS(s.Dir)
		s.Dir = t.TempDir()
		require.NoError(t, os.CopyFS(s.Dir, files))
		t.Run(name, func(t *testing.T) { requireReadAlike(t, s) })
	}
}

// requireReadAlike opens each partition of the snapshot with kafkalog and holds its answers against Kafka's.
func requireReadAlike(t *testing.T, s *kafkafiles.Snapshot) {
	recovery, err := s.Checkpoint("recovery-point-offset-checkpoint")
	require.NoError(t, err)
	starts, err := s.Checkpoint("log-start-offset-checkpoint")
	require.NoError(t, err)
	env := kafkalog.NewEnv(kafkalog.EnvOptions{Now: func() time.Time { return time.UnixMilli(s.TakenAt) }})
	defer func() { require.NoError(t, env.Close()) }()
	for name, want := range s.Partitions {
		t.Run(name, func(t *testing.T) {
			config := kafkalog.DefaultConfig()
			config.RetentionMs = -1
			config.ProducerExpirationMs = kafkafiles.ProducerExpiration.Milliseconds()
			log, err := kafkalog.Open(env, filepath.Join(s.Dir, name), kafkalog.Options{
				Config: config, Clean: s.Clean, Foreign: true, RecoveryPoint: recovery[name], LogStart: starts[name],
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, log.Close()) }()
			if !s.Clean {
				// Kafka writes its starts once a minute; after kill -9 the file may be behind what clients were told.
				require.NoError(t, log.SetLogStart(want.LogStart))
			}
			require.Empty(t, log.Check())
			got := answers(t, log, want)
			require.Equal(t, *want, *got)
			requireGoesOn(t, log)
		})
	}
}

// answers asks a log what Kafka was asked.
func answers(t *testing.T, log *kafkalog.Log, asked *kafkafiles.Partition) *kafkafiles.Partition {
	t.Helper()
	got := &kafkafiles.Partition{LogStart: log.LogStart(), LogEnd: log.LogEnd(), LastStable: log.LastStable(log.LogEnd())}
	for next := got.LogStart; next < got.LogEnd; {
		raw, err := log.ReadRaw(next, got.LogEnd, 1<<20)
		require.NoError(t, err)
		require.NotEmpty(t, raw.Bytes, "offset %d", next)
		for rest := raw.Bytes; len(rest) > 0; {
			var b batch.Batch
			b, rest, err = batch.Next(rest)
			require.NoError(t, err)
			require.NoError(t, b.VerifyCRC())
			got.Batches = append(got.Batches, headerOf(b))
			got.Records = append(got.Records, recordsOf(t, b, got.LogStart)...)
			next = b.NextOffset()
		}
	}
	aborted, err := log.AbortedInRange(got.LogStart, got.LastStable)
	require.NoError(t, err)
	for _, a := range aborted {
		got.Aborted = append(got.Aborted, kafkafiles.Aborted{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
	}
	for _, p := range log.ActiveProducers() {
		got.Producers = append(got.Producers, kafkafiles.Producer{ID: p.ProducerID, Epoch: int32(p.ProducerEpoch),
			LastSequence: p.LastSequence, LastTimestamp: p.LastTimestamp, CoordinatorEpoch: p.CoordinatorEpoch,
			TxnStart: p.TxnStartOffset})
	}
	slices.SortFunc(got.Producers, func(a, b kafkafiles.Producer) int { return cmp.Compare(a.ID, b.ID) })
	for _, a := range asked.ByTimestamp {
		look := func() (kafkalog.TimestampOffset, bool, error) { return log.OffsetForTimestamp(a.Ask) }
		if a.Ask < 0 {
			look = log.MaxTimestampOffset
		}
		found, ok, err := look()
		require.NoError(t, err)
		if !ok {
			found = kafkalog.TimestampOffset{Offset: -1, Timestamp: -1}
		}
		got.ByTimestamp = append(got.ByTimestamp,
			kafkafiles.TimestampAnswer{Ask: a.Ask, Offset: found.Offset, Timestamp: found.Timestamp})
	}
	for _, a := range asked.ByEpoch {
		epoch, end := log.EndOffsetForEpoch(a.Ask)
		got.ByEpoch = append(got.ByEpoch, kafkafiles.EpochAnswer{Ask: a.Ask, Epoch: epoch, End: end})
	}
	return got
}

func headerOf(b batch.Batch) kafkafiles.Batch {
	return kafkafiles.Batch{
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Size: int32(b.Size()), LeaderEpoch: b.LeaderEpoch(),
		CRC: b.CRC(), Attributes: int16(b.Attributes()), BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), Count: b.Count(),
	}
}

// recordsOf returns the batch's records from the log start on, with bytes of their own.
func recordsOf(t *testing.T, b batch.Batch, logStart int64) []kafkafiles.Record {
	t.Helper()
	var records []kafkafiles.Record
	reader := b.Records(batch.Limits{})
	defer reader.Close()
	for reader.Next() {
		r := reader.Record()
		if r.Offset < logStart {
			continue
		}
		record := kafkafiles.Record{LeaderEpoch: b.LeaderEpoch(), Control: b.Attributes().Control(),
			Record: corpus.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: slices.Clone(r.Key), Value: slices.Clone(r.Value)}}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, corpus.Header{Key: h.Key, Value: slices.Clone(h.Value)})
		}
		records = append(records, record)
	}
	require.NoError(t, reader.Err())
	return records
}

// requireGoesOn appends to the log and reads it back: the log is not only readable but ours now.
func requireGoesOn(t *testing.T, log *kafkalog.Log) {
	t.Helper()
	epoch, ok := log.LatestEpoch()
	require.True(t, ok)
	end := log.LogEnd()
	builder := batch.NewBuilder(batch.BuilderOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
	builder.Add(time.Now().UnixMilli(), []byte("ours"), nil)
	b, err := builder.Build()
	require.NoError(t, err)
	appended, err := log.Append(b, kafkalog.AppendOptions{LeaderEpoch: epoch + 1})
	require.NoError(t, err)
	require.Equal(t, end, appended.BaseOffset)
	raw, err := log.ReadRaw(end, math.MaxInt64, 1<<20)
	require.NoError(t, err)
	require.Equal(t, []byte(b), raw.Bytes)
	require.Empty(t, log.Check())
}

func TestDumpLogSegmentsAcceptsALogWrittenHere(t *testing.T) {
	ctx := limited(t, 3*time.Minute)
	s, err := shared.maker.New(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, s.Start(ctx))
	defer s.Kill()
	topics, err := kafkafiles.Fill(ctx, s.Addr(), kafkafiles.Size{Batches: 6, Records: 40})
	require.NoError(t, err)
	want := map[string]*kafkafiles.Partition{}
	for _, topic := range topics {
		want[topic], err = kafkafiles.Ask(ctx, s.Addr(), topic)
		require.NoError(t, err)
	}
	require.NoError(t, s.Stop(ctx)) // so that the indexes are whole
	for _, topic := range topics {
		t.Run(topic, func(t *testing.T) {
			dir, err := s.PartitionDir(topic, 0)
			require.NoError(t, err)
			segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
			require.NoError(t, err)
			if topic == "mixed" {
				require.Greater(t, len(segments), 1, "the log never rolled")
			}
			dumped := dump(t, dir)
			require.Equal(t, dumpLines(want[topic]), dumped.lines)
			for _, segment := range segments {
				info, err := os.Stat(segment)
				require.NoError(t, err)
				require.Equal(t, info.Size(), dumped.ends[segment], "%s was not read to its end", segment)
			}
		})
	}
}

// dumpedLog is what DumpLogSegments says of the .log files of one partition.
type dumpedLog struct {
	lines []string         // a line for each batch and each record, in the words of dumpLines
	ends  map[string]int64 // by file: the end of the last batch
}

var (
	dumpedBatch = regexp.MustCompile(`^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*producerId: (-?\d+) .*partitionLeaderEpoch: (\d+) .*` +
		`position: (\d+) \w+: \d+ size: (\d+) .*compresscodec: (\w+) .*isvalid: (\w+)`)
	gapBeforeFirst = regexp.MustCompile(`Non-consecutive offsets in \S+\n  -1 is followed by \d+\n`)
	dumpedRecord   = regexp.MustCompile(`^\| offset: (\d+) \w+: (\d+) keySize: (-?\d+) valueSize: (-?\d+) .*headerKeys: \[(.*)\]`)
)

// dump runs Apache Kafka's DumpLogSegments with --deep-iteration over every file of a partition.
func dump(t *testing.T, dir string) dumpedLog {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot"} {
		matches, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		files = append(files, matches...)
	}
	command := shared.install.Java("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", strings.Join(files, ","))
	out, errs, err := bounded(t, command, 3*time.Minute)
	require.NoError(t, err, "%s", errs)
	// The tool takes every log that does not start at 0, Kafka's own too, for one with a gap before its first offset.
	require.Empty(t, gapBeforeFirst.ReplaceAllString(string(errs), ""))
	d := dumpedLog{ends: map[string]int64{}}
	file := ""
	for _, line := range strings.Split(string(out), "\n") {
		for _, complaint := range []string{"ismatch", "ot found", "out of order", "onsecutive", "orrupt", "rror"} {
			require.NotContains(t, line, complaint)
		}
		if name, ok := strings.CutPrefix(line, "Dumping "); ok {
			file = name
		}
		if m := dumpedBatch.FindStringSubmatch(line); m != nil {
			require.Equal(t, "true", m[9], line)
			position, err := strconv.ParseInt(m[6], 10, 64)
			require.NoError(t, err)
			size, err := strconv.ParseInt(m[7], 10, 64)
			require.NoError(t, err)
			d.ends[file] = position + size
			d.lines = append(d.lines, fmt.Sprintf("batch %s to %s of %s, producer %s, epoch %s, %s", m[1], m[2], m[3], m[4], m[5], m[8]))
		} else if m := dumpedRecord.FindStringSubmatch(line); m != nil {
			d.lines = append(d.lines, fmt.Sprintf("record %s at %s, key %s, value %s, headers %s", m[1], m[2], m[3], m[4], m[5]))
		} else {
			require.NotContains(t, line, "baseOffset", "the form of this line is not known: %s", line)
		}
	}
	return d
}

// dumpLines says in the words of dump what clients were told about a partition.
func dumpLines(p *kafkafiles.Partition) []string {
	size := func(b []byte) int {
		if b == nil {
			return -1
		}
		return len(b)
	}
	var lines []string
	records := p.Records
	for _, b := range p.Batches {
		codec := batch.Attributes(b.Attributes).Codec().String()
		lines = append(lines, fmt.Sprintf("batch %d to %d of %d, producer %d, epoch %d, %s",
			b.BaseOffset, b.LastOffset, b.Count, b.ProducerID, b.LeaderEpoch, codec))
		for ; len(records) > 0 && records[0].Offset <= b.LastOffset; records = records[1:] {
			r := records[0]
			var headers []string
			for _, h := range r.Headers {
				headers = append(headers, h.Key)
			}
			lines = append(lines, fmt.Sprintf("record %d at %d, key %d, value %d, headers %s",
				r.Offset, r.Timestamp, size(r.Key), size(r.Value), strings.Join(headers, ",")))
		}
	}
	return lines
}
