package node_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestF44_RecordsFromTheFutureAreRefusedOrToldOfAndGoBySize(t *testing.T) {
	m := machine(t)
	var log said
	m.Config.Log = slog.New(slog.NewTextHandler(&log, nil))
	m.Config.InitialTaskDelay, m.Config.RetentionCheck = time.Millisecond, 5*time.Millisecond
	m.Start()
	c := client(t, m, kgo.ProducerBatchCompression(kgo.NoCompression()))
	now := time.Now()
	future := []time.Time{now.AddDate(10, 0, 0), time.UnixMilli(now.UnixMicro())} // years ahead; microseconds for milliseconds
	send := func(topic string, at time.Time, size int) error {
		return c.ProduceSync(within(t), &kgo.Record{Topic: topic, Timestamp: at, Value: make([]byte, size)}).FirstErr()
	}

	createTopic(t, c, 1, map[string]string{"retention.ms": "60000"}, "strict")
	for _, at := range future {
		require.ErrorIs(t, send("strict", at, 10), kerr.InvalidTimestamp)
	}
	require.NoError(t, send("strict", now, 10))

	createTopic(t, c, 1, map[string]string{
		"retention.ms": "60000", "segment.bytes": "1048576", "message.timestamp.after.max.ms": "9223372036854775807",
	}, "lenient")
	for _, at := range future {
		require.NoError(t, send("lenient", at, 10))
	}
	for range 4 {
		require.NoError(t, send("lenient", now.Add(-time.Hour), 600_000))
	}
	require.Eventually(t, func() bool { return len(linesWith(log.String(), "dir=data/lenient-0")) > 0 }, patience, 5*time.Millisecond,
		"the log names the partition")
	require.NotEqual(t, "tidemark_kafkalog_future_timestamps_total 0\n", metric(t, m, "tidemark_kafkalog_future_timestamps_total"))
	require.Regexp(t, `^tidemark_partition_future_timestamps_total\{partition="0",topic="lenient"\} [1-9]`,
		metric(t, m, "tidemark_partition_future_timestamps_total"), "so does a metric, and only that one")
	require.Equal(t, int64(0), start(t, c, "lenient"), "by time nothing goes")
	require.NoError(t, alter(t, c, "lenient", map[string]string{"retention.bytes": "1000000"}))
	require.Eventually(t, func() bool { return start(t, c, "lenient") > int64(len(future)) }, patience, 5*time.Millisecond, "by size it does")
	deleted, err := kadm.NewClient(c).DeleteTopics(within(t), "lenient")
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	require.Eventually(t, func() bool { return metric(t, m, "tidemark_partition_future_timestamps_total") == "" }, patience, 5*time.Millisecond)
}
