package meta

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnAdoptedTopicHasTheEpochsThatItHad(t *testing.T) {
	id := TopicID{0: 7}
	adopt := AdoptTopic{ID: id, Name: "orders", LeaderEpochs: []int32{4, 0, 9}, Configs: map[string]string{"retention.ms": "-1"}}
	s, results := Empty().Apply(1, Entry{NowMs: 5, Commands: []Command{adopt, adopt,
		AdoptTopic{ID: TopicID{0: 8}, Name: "none"},
		AdoptTopic{ID: TopicID{0: 8}, Name: "negative", LeaderEpochs: []int32{-1}},
		AdoptTopic{ID: TopicID{0: 8}, Name: "last", LeaderEpochs: []int32{math.MaxInt32}},
		AdoptTopic{ID: TopicID{0: 8}, Name: "orders", LeaderEpochs: []int32{0}},
	}})
	var codes []Code
	for _, r := range results {
		codes = append(codes, r.Code)
	}
	require.Equal(t, []Code{OK, Redundant, InvalidArgument, InvalidArgument, InvalidArgument, TopicExists}, codes)
	require.Equal(t, 1, s.TopicCount())
	require.Equal(t, int64(3), s.PartitionCount())
	topic, ok := s.Topic("orders")
	require.True(t, ok)
	require.Equal(t, &Topic{ID: id, Name: "orders", CreatedMs: 5, ConfigVersion: 1,
		configs: []setConfig{{"retention.ms", "-1"}}, leaderEpochs: []int32{4, 0, 9}}, topic)
	byID, _ := s.TopicByID(id)
	require.Same(t, topic, byID)
}

func TestProducerIDsOfAnotherServerAreNotHandedOut(t *testing.T) {
	s, results := Empty().Apply(1, Entry{Commands: []Command{
		RegisterNode{Node: 1, ExpectedEpoch: -1, Incarnation: [16]byte{1}},
		RaiseProducerIDs{Next: 5000},
		RaiseProducerIDs{Next: 10},
		RaiseProducerIDs{Next: maxProducerID + 1},
		AllocateProducerIDs{Node: 1, NodeEpoch: 1, Count: 10},
	}})
	require.Equal(t, Result{ID: 5000}, results[1])
	require.Equal(t, Result{ID: 5000}, results[2])
	require.Equal(t, InvalidArgument, results[3].Code)
	require.Equal(t, Result{ID: 5000, Count: 10}, results[4])
	require.Equal(t, uint64(5010), s.nextProducerID)
}

func TestCommandsOfAnImportAreTheseBytes(t *testing.T) {
	for _, c := range []struct {
		command Command
		bytes   string
	}{
		{AdoptTopic{ID: TopicID{1, 15: 2}, Name: "ab", LeaderEpochs: []int32{3, 4}, Configs: map[string]string{"k": "v"}},
			"35" + "01000000000000000000000000000002" + "020000006162" + "020000000300000004000000" + "01000000" + "010000006b" + "0100000076"},
		{RaiseProducerIDs{Next: 0x0102}, "78" + "0201000000000000"},
	} {
		b, err := encodeCommand(c.command)
		require.NoError(t, err)
		require.Equal(t, c.bytes, hex.EncodeToString(b))
		entry := Entry{Commands: []Command{c.command}}
		whole, err := entry.Encode()
		require.NoError(t, err)
		decoded, err := DecodeEntry(whole)
		require.NoError(t, err)
		require.Equal(t, entry, decoded)
	}
}
