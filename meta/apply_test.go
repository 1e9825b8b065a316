package meta

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// step is one command and what comes of it.
type step struct {
	do   Command
	want Result // Detail is compared by its beginning
}

// play applies steps one after the other, each in an entry of its own, and returns the last state. A rejected command
// must leave no trace but the index.
func play(t *testing.T, s *State, steps ...step) *State {
	t.Helper()
	for i, st := range steps {
		next, results := s.Apply(s.index+1, Entry{NowMs: 1000, Commands: []Command{st.do}})
		got := results[0]
		require.Contains(t, got.Detail, st.want.Detail, "step %d: %T", i, st.do)
		got.Detail, st.want.Detail = "", ""
		require.Equal(t, st.want, got, "step %d: %T", i, st.do)
		if got.Code != OK {
			before, after := s.dump(), next.dump()
			delete(before, "index")
			delete(after, "index")
			delete(before, "clock")
			delete(after, "clock")
			require.Equal(t, before, after, "step %d: %T was rejected and changed something", i, st.do)
		}
		s = next
	}
	return s
}

func TestKV2_KeysAreWrittenReadAndCompared(t *testing.T) {
	one, two := []byte("one"), []byte("two")
	play(t, Empty(),
		step{DeleteKv{Key: "k"}, Result{}},
		step{CasKv{Key: "k", Expected: 1, Value: one}, Result{}},
		step{PutKvIfAbsent{Key: "k", Value: one}, Result{Value: one, Version: 1}},
		step{PutKvIfAbsent{Key: "k", Value: two}, Result{Value: one, Version: 1}},
		step{PutKv{Key: "k", Value: one}, Result{Value: one, Version: 2}},
		step{CasKv{Key: "k", Expected: 1, Value: two}, Result{Value: one, Version: 2}},
		step{CasKv{Key: "k", Expected: 0, Value: two}, Result{Value: one, Version: 2}},
		step{CasKv{Key: "k", Expected: 2, Value: two}, Result{Swapped: true, Value: two, Version: 3}},
		step{DeleteKvIfMatches{Key: "k", Value: one}, Result{Code: Redundant, Detail: `"k"`}},
		step{DeleteKvIfMatches{Key: "k", Value: two}, Result{Value: two, Version: 3}},
		step{DeleteKvIfMatches{Key: "k", Value: two}, Result{}},
		step{CasKv{Key: "k", Expected: 0, Value: one}, Result{Swapped: true, Value: one, Version: 4}},
		step{DeleteKv{Key: "k"}, Result{Value: one, Version: 4}},
		step{PutKv{Key: "k", Value: []byte{}}, Result{Value: []byte{}, Version: 5}},
	)
}

func TestKV1_KeysAndValuesHaveLimits(t *testing.T) {
	longest, tooLong := strings.Repeat("k", MaxKeyBytes), strings.Repeat("k", MaxKeyBytes+1)
	largest, tooLarge := make([]byte, MaxValueBytes), make([]byte, MaxValueBytes+1)
	invalid := func(detail string) Result { return Result{Code: InvalidArgument, Detail: detail} }
	s := play(t, Empty(),
		step{PutKv{Key: longest, Value: largest}, Result{Value: largest, Version: 1}},
		step{PutKv{Key: "", Value: nil}, invalid("1 to 512 bytes, not 0")},
		step{PutKvIfAbsent{Key: tooLong}, invalid("1 to 512 bytes, not 513")},
		step{CasKv{Key: tooLong}, invalid("not 513")},
		step{DeleteKv{Key: tooLong}, invalid("not 513")},
		step{DeleteKvIfMatches{Key: ""}, invalid("not 0")},
		step{PutKv{Key: "k", Value: tooLarge}, invalid("at most 524288 bytes, not 524289")},
		step{CasKv{Key: "k", Value: tooLarge}, invalid("not 524289")},
	)
	require.Equal(t, uint64(1), s.kvVersion)
}

func TestKV3_ListYieldsThePrefixInOrder(t *testing.T) {
	s := Empty()
	for _, key := range []string{"b/2", "a", "b/10", "b", "b/", "c/1", "b0"} {
		s = play(t, s, step{PutKv{Key: key, Value: []byte(key)}, Result{Value: []byte(key), Version: s.kvVersion + 1}})
	}
	var keys []string
	for key, v := range s.List("b/") {
		require.Equal(t, key, string(v.Value))
		keys = append(keys, key)
	}
	require.Equal(t, []string{"b/", "b/10", "b/2"}, keys)
	for key := range s.List("b/") {
		require.Equal(t, "b/", key)
		break
	}
}

func TestMD1_EachIncarnationGetsAnEpochOfItsOwn(t *testing.T) {
	register := func(expected int64, incarnation byte, address string) RegisterNode {
		return RegisterNode{Node: 7, ExpectedEpoch: expected, Incarnation: [16]byte{incarnation}, Address: address, Slots: 2}
	}
	s := play(t, Empty(),
		step{register(0, 1, "a:1"), Result{Code: NodeEpochMismatch, Detail: "unknown"}},
		step{register(-1, 1, "a:1"), Result{ID: 1}},
		step{register(-1, 1, "a:2"), Result{ID: 1}},
		step{register(99, 1, ""), Result{ID: 1}}, // a retry of the same process is safe whatever it expected
		step{register(-1, 2, ""), Result{ID: 2}},
		step{register(1, 3, "a:3"), Result{Code: NodeEpochMismatch, Detail: "at epoch 2, expected 1"}},
		step{register(2, 3, "a:3"), Result{ID: 3}},
		step{register(2, 4, "a:4"), Result{Code: NodeEpochMismatch, Detail: "at epoch 3"}}, // the second survivor
		step{RegisterNode{Node: -1, ExpectedEpoch: -1}, Result{Code: InvalidArgument, Detail: "negative"}},
	)
	node, ok := s.Node(7)
	require.True(t, ok)
	require.Equal(t, Node{ID: 7, Epoch: 3, Incarnation: [16]byte{3}, Address: "a:3", Slots: 2, WALEpoch: -1}, node)
	require.Equal(t, []Node{node}, slices.Collect(s.Nodes()))
}

func TestKV4_ProducerIDsArePositiveAndNeverGivenTwice(t *testing.T) {
	allocate := func(epoch int64, count uint32) AllocateProducerIDs {
		return AllocateProducerIDs{Node: 1, NodeEpoch: epoch, Count: count}
	}
	s := play(t, Empty(),
		step{allocate(1, 10), Result{Code: NodeEpochMismatch, Detail: "unknown"}},
		step{RegisterNode{Node: 1, ExpectedEpoch: -1, Incarnation: [16]byte{1}}, Result{ID: 1}},
		step{allocate(1, 10), Result{ID: 1, Count: 10}},
		step{allocate(1, 1), Result{ID: 11, Count: 1}},
		step{allocate(0, 1), Result{Code: NodeEpochMismatch, Detail: "at epoch 1, not 0"}},
		step{allocate(2, 1), Result{Code: NodeEpochMismatch, Detail: "at epoch 1, not 2"}},
		step{allocate(1, 0), Result{Code: InvalidArgument, Detail: "1 to 4096"}},
		step{allocate(1, 4097), Result{Code: InvalidArgument, Detail: "1 to 4096"}},
		step{allocate(1, 4096), Result{ID: 12, Count: 4096}},
	)
	s.nextProducerID = maxProducerID - 1
	play(t, s,
		step{allocate(1, 3), Result{Code: InvalidArgument, Detail: "no producer ids are left"}},
		step{allocate(1, 2), Result{ID: maxProducerID - 1, Count: 2}},
		step{allocate(1, 1), Result{Code: InvalidArgument, Detail: "no producer ids are left"}},
	)
}

func TestTopicsAreCreatedOnceUnderALegalName(t *testing.T) {
	create := func(id byte, name string) CreateTopic {
		return CreateTopic{ID: TopicID{id}, Name: name, Partitions: 2}
	}
	s := play(t, Empty(),
		step{create(1, "a.b"), Result{}},
		step{create(1, "a.b"), Result{Code: Redundant}},
		step{create(2, "a.b"), Result{Code: TopicExists}},
		step{create(2, "a_b"), Result{Code: TopicNameCollides, Detail: `"a.b"`}},
		step{create(1, "other"), Result{Code: TopicIDInUse, Detail: `"a.b"`}},
		step{create(2, "other"), Result{}},
		step{CreateTopic{Name: "zero", Partitions: 1}, Result{Code: InvalidArgument, Detail: "reserved"}},
		step{CreateTopic{ID: TopicID{15: 1}, Name: "kraft", Partitions: 1}, Result{Code: InvalidArgument, Detail: "reserved"}},
		step{CreateTopic{ID: TopicID{9}, Name: "none", Partitions: 0}, Result{Code: InvalidArgument, Detail: "partitions, not 0"}},
		step{CreateTopic{ID: TopicID{9}, Name: "many", Partitions: MaxPartitions + 1}, Result{Code: InvalidArgument, Detail: "100000"}},
	)
	for _, name := range []string{"", ".", "..", "a b", "a/b", "ä", strings.Repeat("n", 250), "a\x00"} {
		play(t, s, step{create(3, name), Result{Code: InvalidArgument, Detail: "not a legal topic name"}})
	}
	for i, name := range []string{"...", "-", "_", "A.z-0_9", strings.Repeat("n", 249)} {
		play(t, s, step{create(byte(10+i), name), Result{}})
	}
	require.Equal(t, int64(4), s.PartitionCount())
	require.Equal(t, 2, s.TopicCount())
	topic, ok := s.Topic("a.b")
	require.True(t, ok)
	require.Equal(t, &Topic{ID: TopicID{1}, Name: "a.b", CreatedMs: 1000, ConfigVersion: 1, configs: []setConfig{},
		leaderEpochs: []int32{0, 0}}, topic)
	other, collides := s.CollidingTopic("a_b")
	require.True(t, collides)
	require.Equal(t, "a.b", other)
	_, collides = s.CollidingTopic("a.b")
	require.False(t, collides, "a topic does not collide with itself")
}

func TestF45_ADeletedTopicIsNotTheOneThatHasItsNameNow(t *testing.T) {
	old, young := TopicID{1}, TopicID{2}
	s := play(t, Empty(),
		step{CreateTopic{ID: old, Name: "t", Partitions: 3}, Result{}},
		step{DeleteTopic{ID: old}, Result{}},
		step{DeleteTopic{ID: old}, Result{Code: TopicNotExist}},
		step{CreateTopic{ID: young, Name: "t", Partitions: 1}, Result{}},
		step{DeleteTopic{ID: old}, Result{Code: TopicNotExist}},
		step{SetTopicConfigs{ID: old, ExpectedVersion: 1}, Result{Code: TopicNotExist}},
		step{CreatePartitions{ID: old, Expected: 3, Total: 4}, Result{Code: TopicNotExist}},
	)
	require.Equal(t, int64(1), s.PartitionCount())
	_, ok := s.TopicByID(old)
	require.False(t, ok)
	topic, _ := s.TopicByID(young)
	require.Equal(t, int32(1), topic.Partitions())
	s = play(t, s, step{DeleteTopic{ID: young}, Result{}}, step{CreateTopic{ID: TopicID{3}, Name: "t", Partitions: 1}, Result{}})
	require.Equal(t, 1, s.TopicCount())
}

func TestPartitionsAreAddedOnlyToTheExpectedCount(t *testing.T) {
	id := TopicID{1}
	s := play(t, Empty(),
		step{CreateTopic{ID: id, Name: "t", Partitions: 2}, Result{}},
		step{CreatePartitions{ID: id, Expected: 1, Total: 5}, Result{Code: PartitionCountConflict, Detail: "has 2 partitions, expected 1"}},
		step{CreatePartitions{ID: id, Expected: 2, Total: 2}, Result{Code: InvalidArgument}},
		step{CreatePartitions{ID: id, Expected: 2, Total: 1}, Result{Code: InvalidArgument}},
		step{CreatePartitions{ID: id, Expected: 2, Total: MaxPartitions + 1}, Result{Code: InvalidArgument}},
		step{CreatePartitions{ID: id, Expected: 2, Total: 5}, Result{}},
		step{CreatePartitions{ID: id, Expected: 2, Total: 5}, Result{Code: PartitionCountConflict}}, // never twice
	)
	require.Equal(t, int64(5), s.PartitionCount())
}

func TestSettingsAreReplacedAtTheExpectedVersion(t *testing.T) {
	id := TopicID{1}
	first, second := map[string]string{"a": "1", "b": "2"}, map[string]string{"b": "3"}
	s := play(t, Empty(),
		step{CreateTopic{ID: id, Name: "t", Partitions: 1, Configs: first}, Result{}},
		step{SetTopicConfigs{ID: id, ExpectedVersion: 1, Configs: second}, Result{ID: 2}},
		step{SetTopicConfigs{ID: id, ExpectedVersion: 1, Configs: first}, Result{Code: ConfigConflict, Detail: "at version 2, expected 1"}},
		step{SetTopicConfigs{ID: id, ExpectedVersion: 2, Configs: map[string]string{"": "x"}}, Result{Code: InvalidArgument}},
		step{SetTopicConfigs{ID: id, ExpectedVersion: 2, Configs: map[string]string{"a": strings.Repeat("x", 32768)}}, Result{Code: InvalidArgument}},
		step{CreatePartitions{ID: id, Expected: 1, Total: 2}, Result{}},
	)
	topic, _ := s.Topic("t")
	require.Equal(t, second, topic.Configs())
	require.Equal(t, uint64(2), topic.ConfigVersion)
	topic.Configs()["b"] = "changed by a caller"
	require.Equal(t, second, topic.Configs())

	many := map[string]string{}
	for i := range MaxConfigs + 1 {
		many[fmt.Sprint(i)] = ""
	}
	play(t, s, step{SetTopicConfigs{ID: id, ExpectedVersion: 2, Configs: many}, Result{Code: InvalidArgument, Detail: "at most 256"}})
}

func TestLeaderEpochsRiseForWhatIsThere(t *testing.T) {
	a, b, gone := TopicID{1}, TopicID{2}, TopicID{3}
	raise := func(topics ...TopicPartitions) RaiseLeaderEpochs {
		return RaiseLeaderEpochs{Node: 1, NodeEpoch: 1, Topics: topics}
	}
	s := play(t, Empty(),
		step{raise(TopicPartitions{ID: a}), Result{Code: NodeEpochMismatch}},
		step{RegisterNode{Node: 1, ExpectedEpoch: -1, Incarnation: [16]byte{1}}, Result{ID: 1}},
		step{CreateTopic{ID: a, Name: "a", Partitions: 3}, Result{}},
		step{CreateTopic{ID: b, Name: "b", Partitions: 2}, Result{}},
		step{raise(), Result{}},
		step{raise(TopicPartitions{ID: a, Partitions: []int32{0, 2, 3, -1}}, TopicPartitions{ID: gone}, TopicPartitions{ID: b}), Result{Count: 4}},
		step{raise(TopicPartitions{ID: a, Partitions: []int32{2}}), Result{Count: 1}},
	)
	topic, _ := s.Topic("a")
	var epochs []int32
	for p := range topic.Partitions() + 1 {
		epochs = append(epochs, topic.LeaderEpoch(p))
	}
	require.Equal(t, []int32{1, 0, 2, -1}, epochs)

	worn := *topic
	worn.leaderEpochs = []int32{0, math.MaxInt32, 0}
	tr := transition{next: *s}
	tr.putTopic(&worn)
	play(t, &tr.next, step{raise(TopicPartitions{ID: b}, TopicPartitions{ID: a}), Result{Code: InvalidArgument, Detail: "would pass"}})
}

func TestTheClockNeverGoesBack(t *testing.T) {
	s := Empty()
	var clocks []int64
	for i, now := range []int64{5, 3, 9, 0, -1} {
		s, _ = s.Apply(uint64(i+1), Entry{NowMs: now, Commands: []Command{DeleteKv{Key: "k"}}})
		clocks = append(clocks, s.ClockMs())
	}
	require.Equal(t, []int64{5, 5, 9, 9, 9}, clocks)
}

func TestACommandSeesWhatThoseBeforeItInTheEntryDid(t *testing.T) {
	s, results := Empty().Apply(1, everyCommandEntry())
	for i, r := range results {
		want := OK
		if i == 5 {
			want = Redundant
		}
		require.Equal(t, want, r.Code, "%T: %s", everyCommand()[i], r.Detail)
	}
	require.Equal(t, 1, s.TopicCount())
	topic, _ := s.Topic("orders")
	require.Equal(t, []int32{1, 0, 0, 0, 1}, topic.leaderEpochs)
}

func TestAnOldStateIsUntouchedByNewerOnes(t *testing.T) {
	var states []*State
	var dumps []map[string]any
	s := Empty()
	for i := range 60 {
		var c Command = testTopic(i)
		switch i % 3 {
		case 1:
			c = CreatePartitions{ID: testTopic(i - 1).ID, Expected: 4, Total: 9}
		case 2:
			c = DeleteTopic{ID: testTopic(i - 2).ID}
		}
		s, _ = s.Apply(uint64(i+1), Entry{NowMs: int64(i), Commands: []Command{c}})
		states, dumps = append(states, s), append(dumps, s.dump())
	}
	for i := range states {
		require.Equal(t, dumps[i], states[i].dump())
	}
}

func TestARejectionIsFoundByItsCode(t *testing.T) {
	err := Result{Code: TopicExists, Detail: `topic "t" exists`}.Err()
	require.ErrorIs(t, err, TopicExists)
	require.NotErrorIs(t, err, TopicNotExist)
	require.EqualError(t, err, `meta: topic exists: topic "t" exists`)
	require.NoError(t, Result{}.Err())
	require.EqualError(t, Code(77), "code 77")
}

func TestTopicIDsAreWrittenAsKafkaWritesThem(t *testing.T) {
	require.Equal(t, "AAECAwQFBgcICQoLDA0ODw", TopicID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}.String())
}
