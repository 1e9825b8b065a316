package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
)

// # ListOffsets (2): versions 0-11
//
// Finds, for each partition, the first record whose timestamp is the requested one or later, or one of the named offsets.
// What the isolation level hides is not found: offset -1, timestamp -1, no error. The leader epoch of a record is the one
// that it was written in, not the current one.
//
//	timestamp  what                            since  without tiering
//	     >= 0  first record of that time       v0
//	       -1  end of what isolation shows     v0
//	       -2  log start                       v0
//	       -3  record with the largest time    v7
//	       -4  first offset on local disk      v8     as -2
//	       -5  last offset in the tier         v9     -1
//	       -6  first offset to be uploaded     v11    -1
//
// Kafka 4 begins with version 1. librdkafka up to 1.5 asks for the start and the end of a partition in version 0, even
// where newer ones are listed. Version 0 is answered with an array of offsets, the newest first, which in Kafka were base
// offsets of segments: every record before one is older than the requested time. Here the array has one offset, and for a
// time that no record has reached it is the end.
//
//	v0   as many offsets as are requested, at most one
//	v1   one offset and its timestamp
//	v2   isolation level; throttle time
//	v4   leader epochs
//	v6   flexible
//	v10  a timeout, for reads of a remote tier; there is none
//
// Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
// UNSUPPORTED_VERSION for a named offset that the version does not have, INVALID_REQUEST for a partition named twice,
// KAFKA_STORAGE_ERROR.
func listOffsetsAPI() api {
	return api{
		key: 2, name: "ListOffsets", min: 0, max: 11, served: 0, flexible: 6,
		shape: shape{
			fixed(4), fixed(1).since(2), // replica id, isolation level
			list(80, text(), list(250, fixed(4), fixed(4).since(4), fixed(8), fixed(4).until(0))), // index, leader epoch, timestamp, count
			fixed(4).since(10), // timeout
		},
		handle: decoding(kmsg.NewPtrListOffsetsRequest, (*call).listOffsets),
	}
}

func (c *call) listOffsets(req *kmsg.ListOffsetsRequest) (answer, error) {
	iso, err := isolationOf(req.IsolationLevel)
	if err != nil {
		return nil, err
	}
	type topicPartition struct {
		topic string
		index int32
	}
	topics := c.server.backend.Topics()
	seen := make(map[topicPartition]bool)
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(req.Topics))
	for i, rt := range req.Topics {
		out := &resp.Topics[i]
		out.Topic = rt.Topic
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(rt.Partitions))
		t, lookup := topicRef{name: rt.Topic}.find(topics)
		for j, rp := range rt.Partitions {
			key := topicPartition{rt.Topic, rp.Partition}
			err := lookup
			if seen[key] {
				err = errDuplicatePartition
			}
			seen[key] = true
			out.Partitions[j] = c.listOffset(t, rp, iso, err)
		}
	}
	return c.reply(resp), nil
}

// listOffset answers one partition, or fails it with err if that is set.
func (c *call) listOffset(t *Topic, req kmsg.ListOffsetsRequestTopicPartition, iso partition.Isolation, err error,
) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition = req.Partition
	out.Offset, out.Timestamp, out.LeaderEpoch = -1, -1, -1
	if err == nil {
		var found partition.ListedOffset
		if found, err = c.findOffset(t, req, iso); err == nil {
			out.Offset, out.Timestamp, out.LeaderEpoch = found.Offset, found.Timestamp, found.LeaderEpoch
			if c.version == 0 && req.MaxNumOffsets > 0 {
				out.OldStyleOffsets = []int64{found.Offset}
			}
		}
	}
	out.ErrorCode = codeByTopic(err, false)
	return out
}

func (c *call) findOffset(t *Topic, req kmsg.ListOffsetsRequestTopicPartition, iso partition.Isolation,
) (partition.ListedOffset, error) {
	if !timestampIsKnown(req.Timestamp, c.version) {
		return partition.ListedOffset{}, errUnsupportedTime
	}
	log, err := c.server.lead(t, req.Partition)
	if err != nil {
		return partition.ListedOffset{}, err
	}
	if c.version >= 4 {
		if err := log.CheckLeaderEpoch(req.CurrentLeaderEpoch); err != nil {
			return partition.ListedOffset{}, err
		}
	}
	found, err := log.ListOffset(req.Timestamp, iso)
	if c.version == 0 && err == nil && found.Offset < 0 {
		return log.ListOffset(partition.Latest, iso) // everything before the end is older
	}
	return found, err
}

// timestampIsKnown reports whether the version has the timestamp: every real one, and the named offsets that it knows.
func timestampIsKnown(ts int64, version int16) bool {
	switch ts {
	case partition.Latest, partition.Earliest:
		return true
	case partition.MaxTimestamp:
		return version >= 7
	case partition.EarliestLocal:
		return version >= 8
	case partition.LatestTiered:
		return version >= 9
	case partition.EarliestPendingUpload:
		return version >= 11
	}
	return ts >= 0
}

// isolationOf parses an isolation level. Kafka cannot parse a request with an unknown one.
func isolationOf(level int8) (partition.Isolation, error) {
	if level != int8(partition.ReadUncommitted) && level != int8(partition.ReadCommitted) {
		return 0, unparsable(fmt.Errorf("isolation level %d", level))
	}
	return partition.Isolation(level), nil
}
