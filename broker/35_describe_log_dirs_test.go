package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeLogDirsTellsSizesAndRoomInEveryVersion(t *testing.T) {
	r := newRig(t)
	a, b := r.topic("a", 1, nil), r.topic("b", 3, nil)
	r.backend.setPartition("b", 1, Partition{Leader: testNode + 1})
	c := r.dial()
	one, three := records("x"), records("x", "y", "z")
	c.mustProduce(a, 0, one)
	c.mustProduce(b, 2, three)
	dir := func(version int16, topics ...kmsg.DescribeLogDirsResponseDirTopic) []kmsg.DescribeLogDirsResponseDir {
		d := kmsg.DescribeLogDirsResponseDir{Dir: "/abs/data", TotalBytes: -1, UsableBytes: -1, Topics: topics}
		if version >= 4 {
			d.TotalBytes, d.UsableBytes = 1000, 400
		}
		return []kmsg.DescribeLogDirsResponseDir{d}
	}
	inA := kmsg.DescribeLogDirsResponseDirTopic{Topic: "a", Partitions: []kmsg.DescribeLogDirsResponseDirTopicPartition{
		{Partition: 0, Size: int64(len(one))}}}
	inB := kmsg.DescribeLogDirsResponseDirTopic{Topic: "b", Partitions: []kmsg.DescribeLogDirsResponseDirTopicPartition{
		{Partition: 0}, {Partition: 2, Size: int64(len(three))}}}
	someOfB := kmsg.DescribeLogDirsResponseDirTopic{Topic: "b", Partitions: inB.Partitions[1:]}
	backwards := kmsg.DescribeLogDirsResponseDirTopic{Topic: "b", Partitions: []kmsg.DescribeLogDirsResponseDirTopicPartition{
		inB.Partitions[1], inB.Partitions[0]}}
	for version := int16(1); version <= 5; version++ {
		req := at(version, kmsg.NewPtrDescribeLogDirsRequest())
		require.Equal(t, dir(version, inA, inB), do[*kmsg.DescribeLogDirsResponse](c, req).Dirs)
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{
			{Topic: "b", Partitions: []int32{2, 1, 2, 99, -1}}, {Topic: "nowhere", Partitions: []int32{0}}, {Topic: "a"},
		}
		require.Equal(t, dir(version, someOfB), do[*kmsg.DescribeLogDirsResponse](c, req).Dirs)
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{
			{Topic: "b", Partitions: []int32{2}}, {Topic: "a", Partitions: []int32{0}}, {Topic: "b", Partitions: []int32{0, 2}},
		}
		require.Equal(t, dir(version, backwards, inA), do[*kmsg.DescribeLogDirsResponse](c, req).Dirs, "in the order of the request")
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
		require.Equal(t, dir(version), do[*kmsg.DescribeLogDirsResponse](c, req).Dirs)
	}
}
