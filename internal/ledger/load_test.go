package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience bounds what a test waits for when something is wrong.
const patience = 5 * time.Minute

// server is a stand-in with a topic of one partition that answers some requests as told.
func server(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func seeds(c *kfake.Cluster) []kgo.Opt { return []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)} }

func TestASoundServerIsFoundSound(t *testing.T) {
	c, l := server(t), New("t")
	load, err := StartLoad(l, LoadOptions{Client: seeds(c), Readers: 1, Keep: 20, Group: "g",
		Writers: []Writer{{Idempotent: true}, {LeaderAck: true}}})
	require.NoError(t, err)
	require.NoError(t, l.WaitAcks(t.Context(), 300))
	report, err := l.Verify(t.Context(), seeds(c)...)
	require.NoError(t, err)
	require.NoError(t, report.Err(), "while the load goes on")
	require.Eventually(t, func() bool { return l.promised()[0].deleted > 0 }, patience, time.Millisecond)
	load.Pause()
	load.Resume()
	require.NoError(t, load.Stop(t.Context()))
	report, err = l.Verify(t.Context(), seeds(c)...)
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Less(t, report.Read, report.Acked, "the others were deleted")
}

func TestAnIdempotentWriteThatIsRefusedIsABrokenPromise(t *testing.T) {
	c, l := server(t), New("t")
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.ProduceRequest)
		answer := request.ResponseKind().(*kmsg.ProduceResponse)
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = request.Topics[0].Topic, request.Topics[0].TopicID
		partition := kmsg.NewProduceResponseTopicPartition()
		partition.ErrorCode = kerr.InvalidRecord.Code
		topic.Partitions = append(topic.Partitions, partition)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	load, err := StartLoad(l, LoadOptions{Client: seeds(c), Writers: []Writer{{Idempotent: true}}, Buffered: 1})
	require.NoError(t, err)
	defer load.Close()
	require.NoError(t, l.WaitAcks(t.Context(), 1)) // of those after it
	require.Contains(t, l.Violations(), Violation{Partition: 0, Offset: -1,
		What: "w0-0: an idempotent write was refused: " + kerr.InvalidRecord.Error()})
}

func TestAReadThatFailsIsABrokenPromise(t *testing.T) {
	c, l := server(t), New("t")
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.FetchRequest)
		if len(request.Topics) == 0 {
			c.KeepControl()
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = request.Topics[0].Topic, request.Topics[0].TopicID
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.ErrorCode = kerr.TopicAuthorizationFailed.Code
		topic.Partitions = append(topic.Partitions, partition)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	load, err := StartLoad(l, LoadOptions{Client: seeds(c), Writers: []Writer{{}}, Readers: 1})
	require.NoError(t, err)
	defer load.Close()
	require.Eventually(t, func() bool { return len(l.Violations()) > 0 }, patience, time.Millisecond)
	require.Equal(t, Violation{Partition: 0, Offset: -1, What: "a reader failed: " + kerr.TopicAuthorizationFailed.Error()},
		l.Violations()[0])
}

func TestAPartitionThatIsGoneIsABrokenPromise(t *testing.T) {
	c, l := server(t), New("t")
	l.Acknowledged(&kgo.Record{Partition: 7, Key: []byte("w0-0")})
	report, err := l.Verify(t.Context(), seeds(c)...)
	require.NoError(t, err)
	require.Equal(t, []Violation{{Partition: 7, Offset: -1, What: "the partition is gone"}}, report.Violations)
}
