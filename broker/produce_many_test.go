package broker

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
)

// produceToMany makes a Produce request for a topic with so many batches.
func produceToMany(t *Topic, batches int, of func(i int) (index int32, records []byte)) *kmsg.ProduceRequest {
	req := produceTo(13, t, 0, -1, nil)
	req.Topics[0].Partitions = make([]kmsg.ProduceRequestTopicPartition, batches)
	for i := range req.Topics[0].Partitions {
		p := &req.Topics[0].Partitions[i]
		p.Partition, p.Records = of(i)
	}
	return req
}

func TestARequestForManyPartitionsKeepsTheOrderOfEach(t *testing.T) {
	const partitions, each = 150, 3
	r := newRig(t)
	topic := r.topic("t", partitions, nil)
	unknown := int32(partitions)
	var order []int32 // every partition so often, and one that there is not
	for range each {
		for i := range partitions {
			order = append(order, int32(i))
		}
	}
	order = append(order, unknown)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	next := make([]int64, partitions)
	want := make([]kmsg.ProduceResponseTopicPartition, len(order))
	req := produceToMany(topic, len(order), func(i int) (int32, []byte) {
		p := order[i]
		want[i] = kmsg.NewProduceResponseTopicPartition()
		want[i].Partition, want[i].LogAppendTime = p, -1
		if p == unknown {
			want[i].ErrorCode, want[i].BaseOffset, want[i].LogStartOffset = codeUnknownTopicOrPartition, -1, -1
			return p, records("nowhere")
		}
		want[i].BaseOffset, want[i].LogStartOffset = next[p], 0
		next[p]++
		return p, idempotent(77, 0, int32(want[i].BaseOffset), "a")
	})
	c := r.dial()
	got := do[*kmsg.ProduceResponse](c, req).Topics[0].Partitions
	for i := range got {
		if got[i].ErrorCode != codeNone {
			require.NotNil(t, got[i].ErrorMessage)
			got[i].ErrorMessage = nil
		}
	}
	require.Equal(t, want, got)
	for i := range int32(partitions) {
		require.Equal(t, int64(each), r.log(topic, i).Offsets().HighWatermark)
	}
}

// faultyBackend panics when somebody asks for one partition.
type faultyBackend struct {
	*testBackend
	partition int32
}

func (b faultyBackend) Partition(id TopicID, index int32) (*partition.Log, error) {
	if index == b.partition {
		panic("in a partition")
	}
	return b.testBackend.Partition(id, index)
}

func TestAPanicAmidManyPartitionsEndsItsConnectionOnly(t *testing.T) {
	const partitions = 100
	r := newRig(t, func(o *Options) { o.Backend = faultyBackend{o.Backend.(*testBackend), 70} })
	topic := r.topic("t", partitions, nil)
	c := r.dial()
	c.send(produceToMany(topic, partitions, func(i int) (int32, []byte) { return int32(i), records("a") }))
	c.requireClosed()
	require.Equal(t, ClosedPanic, r.events.closing(t, 1).Reason)
	require.Equal(t, "in a partition", r.events.panics[0].Value)
	require.Contains(t, string(r.events.panics[0].Stack), "faultyBackend", "the stack is that of the panic")
	r.stillThere()
}

func TestPartitionsAreSpreadOverAppendersWhicheverOfThemARequestNames(t *testing.T) {
	for _, step := range []int32{1, 2, 3, 4, 8} {
		for _, of := range []int{2, 3, 4, 8} {
			got := make([]int, of)
			for i := range int32(400) {
				got[home(&kmsg.ProduceRequestTopic{Topic: "t"}, &kmsg.ProduceRequestTopicPartition{Partition: i * step}, of)]++
			}
			for _, n := range got {
				require.InDelta(t, 400/of, n, float64(200/of), "every %d. partition over %d: %v", step, of, got)
			}
		}
	}
}
