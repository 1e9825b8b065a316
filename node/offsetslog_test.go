package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/runner"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// openOffsetsLog opens a log of a compacted topic on a disk in memory.
func openOffsetsLog(t *testing.T) offsetsLog {
	t.Helper()
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: memfs.New()})
	flusher := partition.NewFlusher(partition.FlusherOptions{})
	maintainer := partition.NewMaintainer(partition.MaintainerOptions{})
	config, err := topicconfig.Parse(map[string]string{"cleanup.policy": "compact", "max.message.bytes": "10000"})
	require.NoError(t, err)
	l, err := partition.Open(partition.Options{
		Env: env, Flusher: flusher, Maintainer: maintainer, Dir: "/log", Topic: offsetsTopic, Config: config,
		RecoveryPoint: -1, HighWatermark: -1, LogStart: -1,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		flusher.Close()
		maintainer.Close()
		require.NoError(t, env.Close())
	})
	return offsetsLog{l}
}

// appendAll appends one batch and waits until it is durable.
func (l offsetsLog) appendAll(t *testing.T, values ...string) {
	t.Helper()
	var records []runner.KeyValue
	for _, v := range values {
		r := runner.KeyValue{Key: []byte("k" + v), Value: []byte(v)}
		if v == "" {
			r.Value = nil
		}
		records = append(records, r)
	}
	p, err := l.Append(context.Background(), 1000, records)
	require.NoError(t, err)
	<-p.Done()
	require.NoError(t, p.Err())
}

// replayed is what the log holds, as text.
func (l offsetsLog) replayed(t *testing.T) []string {
	t.Helper()
	var got []string
	require.NoError(t, l.Replay(context.Background(), func(e runner.Entry) error {
		value := string(e.Value)
		if e.Value == nil {
			value = "nil"
		}
		got = append(got, fmt.Sprintf("%d %s=%s %d %d", e.Offset, e.Key, value, e.ProducerID, e.Marker))
		return nil
	}))
	return got
}

func TestAnOffsetsLogReplaysWhatWasAppended(t *testing.T) {
	l := openOffsetsLog(t)
	require.True(t, l.Empty())
	require.Equal(t, 10000, l.MaxBatchBytes())
	l.appendAll(t, "a", "b")
	l.appendAll(t, "")
	require.False(t, l.Empty())
	require.Equal(t, int64(3), l.End())
	require.Equal(t, []string{"0 ka=a -1 0", "1 kb=b -1 0", "2 k=nil -1 0"}, l.replayed(t))
}

func TestAnOffsetsLogBeginsWhereItWasTrimmedAlsoInsideABatch(t *testing.T) {
	l := openOffsetsLog(t)
	l.appendAll(t, "a", "b", "c")
	l.appendAll(t, "d")
	require.NoError(t, l.Trim(2))
	require.Equal(t, []string{"2 kc=c -1 0", "3 kd=d -1 0"}, l.replayed(t))
	require.NoError(t, l.Trim(4))
	require.True(t, l.Empty())
	require.Empty(t, l.replayed(t))
}

func TestT31_AnOffsetsLogTellsTransactionsAndTheirEnds(t *testing.T) {
	b := batch.NewBuilder(batch.BuilderOptions{
		HasProducer: true, ProducerID: 7, BaseSequence: 0, Transactional: true,
	})
	b.Add(1000, []byte("k"), []byte("v"))
	data, err := b.Build()
	require.NoError(t, err)
	marker := batch.EndMarker(batch.EndMarkerOptions{BaseOffset: 1, ProducerID: 7, Commit: true, Timestamp: 1000})
	abort := batch.EndMarker(batch.EndMarkerOptions{BaseOffset: 2, ProducerID: 8, Timestamp: 1000})
	var got []runner.Entry
	next, err := replayBatches(append(append(append([]byte{}, data...), marker...), abort...), 0, func(e runner.Entry) error {
		e.Key, e.Value = nil, nil
		got = append(got, e)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, int64(3), next)
	require.Equal(t, []runner.Entry{
		{Offset: 0, ProducerID: 7},
		{Offset: 1, ProducerID: 7, Marker: runner.CommitMarker},
		{Offset: 2, ProducerID: 8, Marker: runner.AbortMarker},
	}, got)
}

func TestAnOffsetsLogSaysInTheCoordinatorsWordsWhatIsWrong(t *testing.T) {
	l := openOffsetsLog(t)
	_, err := l.Append(context.Background(), 1000, []runner.KeyValue{{Key: []byte("k"), Value: []byte(strings.Repeat("x", 20000))}})
	require.ErrorIs(t, err, coordinator.ErrRecordTooLarge)
	require.False(t, errors.Is(err, runner.ErrEnded))

	require.ErrorIs(t, coordinatorError(context.DeadlineExceeded), coordinator.ErrNotAvailable)
	full := coordinatorError(&partition.StorageError{Err: errors.New("full")})
	require.ErrorIs(t, full, coordinator.ErrNotCoordinator)
	require.False(t, errors.Is(full, runner.ErrEnded), "the log may take the next one")
	for _, final := range []error{
		&partition.StorageError{Final: true}, partition.ErrClosed, partition.ErrDeleted, partition.ErrNotLeader,
	} {
		err := coordinatorError(final)
		require.ErrorIs(t, err, coordinator.ErrNotCoordinator)
		require.ErrorIs(t, err, runner.ErrEnded)
	}
}

func TestARecordThatIsInTheLogIsCarriedHoweverLargeItIs(t *testing.T) {
	l := openOffsetsLog(t)
	large := runner.KeyValue{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 100_000)} // ten times max.message.bytes
	_, err := l.Append(t.Context(), 1000, []runner.KeyValue{large})
	require.ErrorIs(t, err, coordinator.ErrRecordTooLarge)
	require.NotErrorIs(t, err, runner.ErrEnded)
	p, err := l.Carry(t.Context(), 1000, large)
	require.NoError(t, err)
	<-p.Done()
	require.NoError(t, p.Err())
	require.Equal(t, []string{"0 k=" + string(large.Value) + " -1 0"}, l.replayed(t))

	large.Value = make([]byte, 3<<20) // more than a segment
	c := l.log.Config()
	c.SegmentBytes = 1 << 20
	l.log.SetConfig(c)
	_, err = l.Carry(t.Context(), 1000, large)
	require.ErrorIs(t, err, coordinator.ErrRecordTooLarge)
	require.NotErrorIs(t, err, runner.ErrEnded)
}
