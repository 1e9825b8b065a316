package kafkadir

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

// State is what a server serves: its topics, except internal ones, and the offsets that groups have committed.
type State struct {
	Topics map[string]*Topic   `json:"topics"`
	Groups map[string][]Commit `json:"groups"`
}

// Topic is one topic.
type Topic struct {
	ID         string            `json:"id"`
	Configs    map[string]string `json:"configs"` // the topic's own
	Partitions []Partition       `json:"partitions"`
}

// Partition is one partition.
type Partition struct {
	Start   int64    `json:"start"`
	End     int64    `json:"end"`
	Stable  int64    `json:"last_stable"`
	Records []Record `json:"records"`
}

// Record is one record and how it was stored.
type Record struct {
	corpus.Record
	LeaderEpoch int32 `json:"leader_epoch"`
	Codec       uint8 `json:"codec"`
	Control     bool  `json:"control"`
	ProducerID  int64 `json:"producer_id"`
}

// Commit is an offset that a group has committed.
type Commit struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
	Metadata    string `json:"metadata"`
}

// Ask records what the server at an address serves.
func Ask(ctx context.Context, addr string) (*State, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	s := &State{Topics: map[string]*Topic{}, Groups: map[string][]Commit{}}
	topics, err := admin.ListTopics(ctx)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("kafkadir: list topics: %w", err)
	}
	for name, t := range topics {
		s.Topics[name] = &Topic{ID: t.ID.String(), Configs: map[string]string{}, Partitions: make([]Partition, len(t.Partitions))}
	}
	for _, ask := range []func(context.Context, *kadm.Client, *State) error{askConfigs, askBounds, askGroups} {
		if err := ask(ctx, admin, s); err != nil {
			return nil, fmt.Errorf("kafkadir: %w", err)
		}
	}
	return s, askRecords(ctx, addr, s)
}

func (s *State) names() []string {
	var names []string
	for name := range s.Topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func askConfigs(ctx context.Context, admin *kadm.Client, s *State) error {
	all, err := admin.DescribeTopicConfigs(ctx, s.names()...)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Err != nil {
			return fmt.Errorf("configs of %s: %w", r.Name, r.Err)
		}
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				s.Topics[r.Name].Configs[c.Key] = c.MaybeValue()
			}
		}
	}
	return nil
}

func askBounds(ctx context.Context, admin *kadm.Client, s *State) error {
	for _, bound := range []struct {
		list func(context.Context, ...string) (kadm.ListedOffsets, error)
		set  func(*Partition, int64)
	}{
		{admin.ListStartOffsets, func(p *Partition, o int64) { p.Start = o }},
		{admin.ListEndOffsets, func(p *Partition, o int64) { p.End = o }},
		{admin.ListCommittedOffsets, func(p *Partition, o int64) { p.Stable = o }},
	} {
		listed, err := bound.list(ctx, s.names()...)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return fmt.Errorf("offsets: %w", err)
		}
		listed.Each(func(o kadm.ListedOffset) { bound.set(&s.Topics[o.Topic].Partitions[o.Partition], o.Offset) })
	}
	return nil
}

func askGroups(ctx context.Context, admin *kadm.Client, s *State) error {
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	for _, group := range groups.Groups() {
		offsets, err := admin.FetchOffsets(ctx, group)
		if err == nil {
			err = offsets.Error()
		}
		if err != nil {
			return fmt.Errorf("offsets of group %s: %w", group, err)
		}
		for _, o := range offsets.Sorted() {
			s.Groups[group] = append(s.Groups[group], Commit{
				Topic: o.Topic, Partition: o.Partition, Offset: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata,
			})
		}
	}
	return nil
}

// askRecords reads every partition from its start to its end, control records included.
func askRecords(ctx context.Context, addr string, s *State) error {
	from := map[string]map[int32]kgo.Offset{}
	left := 0
	for name, t := range s.Topics {
		from[name] = map[int32]kgo.Offset{}
		for i, p := range t.Partitions {
			if p.Start < p.End {
				from[name][int32(i)] = kgo.NewOffset().At(p.Start)
				left++
			}
		}
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(from), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer c.Close()
	for left > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("kafkadir: read: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := &s.Topics[r.Topic].Partitions[r.Partition]
			p.Records = append(p.Records, recordOf(r))
			if r.Offset+1 == p.End {
				left--
			}
		})
	}
	return nil
}

func recordOf(r *kgo.Record) Record {
	out := Record{LeaderEpoch: r.LeaderEpoch, Codec: r.Attrs.CompressionType(), Control: r.Attrs.IsControl(), ProducerID: r.ProducerID,
		Record: corpus.Record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, corpus.Header{Key: strings.Clone(h.Key), Value: h.Value})
	}
	return out
}
