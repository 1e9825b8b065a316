package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/coordinator"
)

// # OffsetFetch (9): versions 1-10
//
// Returns what groups have committed. Where nothing is committed the offset is -1, without an error, even for a group
// that does not exist; an offset committed for an earlier topic of the same name does not count. Member ids and epochs
// belong to the newer group protocol and are ignored.
//
//	v2   null topics: everything the group has; error of the whole response
//	v3   throttle time
//	v5   leader epochs
//	v6   flexible
//	v7   require stable: an error where an open transaction may change the offset
//	v8   several groups
//	v9   member id and epoch
//	v10  topics by id
//
// Errors of a partition: UNKNOWN_TOPIC_ID, UNSTABLE_OFFSET_COMMIT. Errors of a group (in version 1, of each partition):
// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
func offsetFetchAPI() api {
	return api{
		key: 9, name: "OffsetFetch", min: 1, max: 10, served: 1, flexible: 6,
		shape: shape{
			text().until(7),
			list(250, text(), listOf(200, fixed(4))).until(7),
			list(500, text(), text().since(9), fixed(4).since(9), // group, member id and epoch
				list(300, text().until(9), fixed(16).since(10), listOf(200, fixed(4)))).since(8),
			fixed(1).since(7),
		},
		handle: decoding(kmsg.NewPtrOffsetFetchRequest, (*call).offsetFetch),
	}
}

// groupFetch is the part of a request for one group, in the form of version 8 and later.
type groupFetch struct {
	req    kmsg.OffsetFetchRequestGroup
	fetch  *coordinator.Fetch
	places []int // index of each of the fetch's topics among those of the request
}

func (c *call) offsetFetch(req *kmsg.OffsetFetchRequest) (answer, error) {
	groups := unique(req.Groups, wholeGroup())
	if c.version < 8 {
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group = req.Group
		if req.Topics != nil {
			one.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
			for i, t := range req.Topics {
				one.Topics[i].Topic, one.Topics[i].Partitions = t.Topic, t.Partitions
			}
		}
		groups = []kmsg.OffsetFetchRequestGroup{one}
	}
	topics := c.server.backend.Topics()
	fetches := make([]groupFetch, len(groups))
	calls := make([]asked, len(groups))
	for i, g := range groups {
		fetches[i] = c.planFetch(g, req.RequireStable, topics)
		calls[i] = c.ask(fetches[i].fetch)
	}
	return c.later(calls, func(answers []coordinator.Answer) kmsg.Response {
		resp := kmsg.NewPtrOffsetFetchResponse()
		for i, f := range fetches {
			a, _ := answers[i].(*coordinator.FetchAnswer)
			resp.Groups = append(resp.Groups, f.response(c, a))
		}
		if c.version < 8 {
			c.flatten(resp, req)
		}
		return resp
	}), nil
}

// wholeGroup returns the key by which entries of a request are deduplicated: entries that ask for everything of the same
// group share a key, because their answer may be long and is given once.
func wholeGroup() func(kmsg.OffsetFetchRequestGroup) any {
	n := 0
	return func(g kmsg.OffsetFetchRequestGroup) any {
		if g.Topics == nil {
			return g.Group
		}
		n++
		return n
	}
}

// planFetch finds the topics of a request. The coordinator is not asked about those whose id is unknown.
func (c *call) planFetch(g kmsg.OffsetFetchRequestGroup, stable bool, topics Topics) groupFetch {
	f := groupFetch{req: g, fetch: &coordinator.Fetch{Group: g.Group, RequireStable: stable && c.version >= 7}}
	f.fetch.All = g.Topics == nil && c.version >= 2
	for i, rt := range g.Topics {
		t, err := topicRef{id: rt.TopicID, name: rt.Topic, byID: c.version >= 10}.find(topics)
		asked := coordinator.FetchTopic{Topic: rt.Topic, Partitions: rt.Partitions}
		switch {
		case err == nil:
			asked.Topic, asked.TopicID = t.Name, t.ID
		case c.version >= 10:
			continue
		}
		f.fetch.Topics = append(f.fetch.Topics, asked)
		f.places = append(f.places, i)
	}
	return f
}

// response is the answer for one group.
func (f *groupFetch) response(c *call, a *coordinator.FetchAnswer) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = f.req.Group
	if a.Err != nil {
		out.ErrorCode = codeOf(a.Err)
		return out
	}
	if f.fetch.All {
		topics := c.server.backend.Topics()
		for _, found := range a.Topics {
			t, err := topicRef{name: found.Topic}.find(topics)
			if err != nil || found.TopicID != (TopicID{}) && found.TopicID != t.ID {
				continue // of a deleted topic
			}
			out.Topics = append(out.Topics, fetchedTopic(found.Topic, t.ID, found.Partitions))
		}
		return out
	}
	out.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(f.req.Topics))
	for i, rt := range f.req.Topics {
		out.Topics[i] = unknownOffsets(rt)
	}
	for i, found := range a.Topics {
		rt := f.req.Topics[f.places[i]]
		out.Topics[f.places[i]] = fetchedTopic(rt.Topic, rt.TopicID, found.Partitions)
	}
	return out
}

func fetchedTopic(name string, id TopicID, offsets []coordinator.FetchedOffset) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.OffsetFetchResponseGroupTopic{Topic: name, TopicID: id}
	out.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(offsets))
	for i := range offsets {
		o := &offsets[i]
		out.Partitions[i] = kmsg.OffsetFetchResponseGroupTopicPartition{
			Partition: o.Partition, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: &o.Metadata, ErrorCode: codeOf(o.Err),
		}
	}
	return out
}

func unknownOffsets(rt kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.OffsetFetchResponseGroupTopic{Topic: rt.Topic, TopicID: rt.TopicID}
	for _, p := range rt.Partitions {
		out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
			Partition: p, Offset: -1, LeaderEpoch: -1, Metadata: kmsg.StringPtr(""), ErrorCode: codeUnknownTopicID,
		})
	}
	return out
}

// flatten puts the answer for the one group of an older request where that version has it.
func (c *call) flatten(resp *kmsg.OffsetFetchResponse, req *kmsg.OffsetFetchRequest) {
	g := resp.Groups[0]
	resp.Groups = nil
	if g.ErrorCode != codeNone {
		resp.ErrorCode = g.ErrorCode
		if c.version < 2 {
			resp.Topics = refusedOffsets(req, g.ErrorCode)
		}
		return
	}
	for _, t := range g.Topics {
		out := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			})
		}
		resp.Topics = append(resp.Topics, out)
	}
}

// refusedOffsets repeats the error of the whole for each partition.
func refusedOffsets(req *kmsg.OffsetFetchRequest, code int16) []kmsg.OffsetFetchResponseTopic {
	var topics []kmsg.OffsetFetchResponseTopic
	for _, rt := range req.Topics {
		out := kmsg.OffsetFetchResponseTopic{Topic: rt.Topic}
		for _, p := range rt.Partitions {
			out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p, Offset: -1, LeaderEpoch: -1, Metadata: kmsg.StringPtr(""), ErrorCode: code,
			})
		}
		topics = append(topics, out)
	}
	return topics
}
