package command

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// commit writes offsets of a group that has no members.
func commit(t *testing.T, server, group, topic string, offsets map[int32]int64) {
	t.Helper()
	to := kadm.Offsets{}
	for p, at := range offsets {
		to.AddOffset(topic, p, at, -1)
	}
	require.NoError(t, kadm.NewClient(connectTo(t, server)).CommitAllOffsets(within(t), group, to))
}

// join makes a live member of a group, which has its partitions when join returns.
func join(t *testing.T, server, group, topic, name string) {
	t.Helper()
	assigned := make(chan struct{}, 16)
	kc := connectTo(t, server, kgo.ClientID(name), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { assigned <- struct{}{} }))
	ctx := within(t)
	poll, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for poll.Err() == nil {
			kc.PollFetches(poll)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-assigned:
	case <-ctx.Done():
		require.Fail(t, "the member was assigned nothing")
	}
}

// onBoth runs a test against this server and against franz-go's, each with a topic orders.
func onBoth(t *testing.T, partitions int32, test func(t *testing.T, server string)) {
	t.Run("tidemark", func(t *testing.T) {
		server := startServer(t)
		done(t, "", "topic", "create", "orders", "-p", fmt.Sprint(partitions), "--server", server)
		test(t, server)
	})
	t.Run("kfake", func(t *testing.T) { test(t, startFake(t, "orders", partitions)) })
}

func TestGroupsAreListedAndTheirLagIsShown(t *testing.T) { onBoth(t, 2, listsGroups) }

func listsGroups(t *testing.T, server string) {
	run := func(args ...string) string { return done(t, "", append(args, "--server", server)...) }
	require.Equal(t, output{Code: ExitOK, Err: "no groups\n"}, tidemark(t, "", "group", "list", "--server", server))
	require.Equal(t, output{Code: ExitOK, Err: "no groups\n"}, tidemark(t, "", "group", "lag", "--server", server))

	kc := connectTo(t, server, manual())
	write(t, kc, "orders", 0, "a", "b", "c", "d")
	write(t, kc, "orders", 1, "e", "f")
	commit(t, server, "billing", "orders", map[int32]int64{0: 1, 1: 2})
	commit(t, server, "audit", "orders", map[int32]int64{0: 4})
	require.Regexp(t, `^GROUP    STATE  TYPE +PROTOCOL +COORDINATOR\naudit    Empty .*\nbilling  Empty .*\n$`, run("group", "list"))
	require.Equal(t, "GROUP    STATE  MEMBERS  LAG  LARGEST\nbilling  Empty  0        3    3\naudit    Empty  0        0    0\n", run("group", "lag"))
	require.Equal(t, "billing  Empty  0 members  lag 3\n"+
		"TOPIC   PARTITION  COMMITTED  START  END  LAG  MEMBER  HOST\n"+
		"orders  0          1          0      4    3    -       -\n"+
		"orders  1          2          0      2    0    -       -\n", run("group", "lag", "billing"))
	golden(t, "group-lag.json", run("group", "lag", "billing", "audit", "-o", "json"))
	require.Contains(t, done(t, "", "__complete", "group", "describe", "--server", server, "b"), "billing\n:4\n")

	for _, verb := range []string{"lag", "describe"} {
		got := tidemark(t, "", "group", verb, "nobody", "--server", server)
		require.Equal(t, ExitFailed, got.Code)
		require.Contains(t, got.Err, `there is no group "nobody"; 'tidemark group list' shows what there is`)
	}
}

func TestF40_LagIsZeroWhereOnlyMarkersFollow(t *testing.T) {
	server := startFake(t, "orders", 1)
	kc := connectTo(t, server, manual(), kgo.TransactionalID("tx"))
	require.NoError(t, kc.BeginTransaction())
	write(t, kc, "orders", 0, "a", "b")
	require.NoError(t, kc.EndTransaction(within(t), kgo.TryCommit))
	commit(t, server, "behind", "orders", map[int32]int64{0: 1})
	commit(t, server, "done", "orders", map[int32]int64{0: 2})
	require.Equal(t, "GROUP   STATE  MEMBERS  LAG  LARGEST\nbehind  Empty  0        2    2\ndone    Empty  0        0    0\n",
		done(t, "", "group", "lag", "--server", server))
}

func TestAGroupIsDescribedWithItsMembers(t *testing.T) { onBoth(t, 2, describesMembers) }

func describesMembers(t *testing.T, server string) {
	write(t, connectTo(t, server, manual()), "orders", 0, "a", "b")
	join(t, server, "billing", "orders", "worker")
	got := done(t, "", "group", "describe", "billing", "--server", server)
	require.Regexp(t, `^coordinator [01]  protocol consumer  assignor \S+\n`+
		`billing  Stable  1 member  lag 2\n`+
		`TOPIC   PARTITION  COMMITTED  START  END  LAG  MEMBER  HOST\n`+
		`orders  0          -          0      2    2    worker  \S+\n`+
		`orders  1          -          0      0    0    worker  \S+\n`+
		`MEMBER +CLIENT  HOST +PARTITIONS\n\S+ +worker  \S+ +orders 0,1\n$`, got)
	require.Contains(t, done(t, "", "group", "describe", "billing", "-o", "json", "--server", server), `"client": "worker"`)
}

func TestU06_OffsetsAreMovedOnlyWhenThatIsMeant(t *testing.T) { onBoth(t, 2, movesOffsets) }

func movesOffsets(t *testing.T, server string) {
	done(t, "", "topic", "create", "other", "--server", server)
	kc := connectTo(t, server, manual())
	begin := time.UnixMilli(1_700_000_000_000)
	for i := range 10 {
		r := &kgo.Record{Topic: "orders", Value: []byte("x"), Timestamp: begin.Add(time.Duration(i) * time.Minute)}
		require.NoError(t, kc.ProduceSync(within(t), r).FirstErr())
	}
	write(t, kc, "orders", 1, "a", "b")
	commit(t, server, "billing", "orders", map[int32]int64{0: 5})
	reset := func(args ...string) output {
		return tidemark(t, "", append([]string{"group", "reset-offsets", "billing", "--server", server}, args...)...)
	}
	table := func(rows ...string) string {
		text := "TOPIC   PARTITION  CURRENT  NEW  MOVES\n"
		for _, r := range rows {
			text += r + "\n"
		}
		return text
	}
	const dry = "nothing was moved; add --execute to do it\n"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--to", "start"}, table("orders  0          5        0    -5")},
		{[]string{"--to", "end"}, table("orders  0          5        10   +5")},
		{[]string{"--to", "7"}, table("orders  0          5        7    +2")},
		{[]string{"--to", "99"}, table("orders  0          5        10   +5")},
		{[]string{"--to", "-1"}, table("orders  0          5        9    +4")},
		{[]string{"--to", "@1700000120000"}, table("orders  0          5        2    -3")},
		{[]string{"--by", "+3"}, table("orders  0          5        8    +3")},
		{[]string{"--by", "-100"}, table("orders  0          5        0    -5")},
		{[]string{"--to", "1", "--topic", "orders"}, table("orders  0          5        1    -4", "orders  1          -        1    -")},
		{[]string{"--to", "1", "--topic", "orders:1"}, table("orders  1          -        1    -")},
		{[]string{"--by", "1", "--topic", "orders"}, table("orders  0          5        6    +1")},
	} {
		require.Equal(t, output{ExitOK, test.want, dry}, reset(test.args...), "%v", test.args)
	}
	golden(t, "group-reset.json", reset("--to", "end", "-o", "json").Out)
	require.Equal(t, output{Code: ExitOK, Out: table("orders  0          5        2    -3")}, reset("--by", "-3", "--execute"))
	require.Contains(t, done(t, "", "group", "lag", "billing", "--server", server), "orders  0          2          0      10   8 ")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--to", "end", "--topic", "gone"}, `there is no topic "gone"`},
		{[]string{"--to", "end", "--topic", "orders:9"}, `topic "orders" has partitions 0 to 1, not 9`},
	} {
		got := reset(test.args...)
		require.Equal(t, ExitFailed, got.Code)
		require.Contains(t, got.Err, test.want)
	}
	fresh := tidemark(t, "", "group", "reset-offsets", "fresh", "--to", "end", "--server", server)
	require.Equal(t, ExitFailed, fresh.Code)
	require.Contains(t, fresh.Err, `group "fresh" has committed nothing; name what to move with --topic`)
	done(t, "", "group", "reset-offsets", "fresh", "--to", "end", "--topic", "orders", "--execute", "--server", server)
	require.Contains(t, done(t, "", "group", "lag", "fresh", "--server", server), "lag 0\n")
}

func TestWhatWouldHurtLiveMembersIsRefusedAndSaysWhoTheyAre(t *testing.T) { onBoth(t, 1, refusesLive) }

func refusesLive(t *testing.T, server string) {
	join(t, server, "billing", "orders", "worker-7")
	for what, args := range map[string][]string{
		"move offsets": {"reset-offsets", "billing", "--to", "start", "--topic", "orders", "--execute"},
		"delete":       {"delete", "billing"},
	} {
		got := tidemark(t, "", append(append([]string{"group"}, args...), "--server", server)...)
		require.Equal(t, ExitFailed, got.Code)
		require.Regexp(t, fmt.Sprintf(`cannot %s while group "billing" has 1 live member; stop:\n  worker-7 at \S+ \(member \S+\)`, what), got.Err)
	}
}

func TestGroupsAreDeleted(t *testing.T) { onBoth(t, 1, deletesGroups) }

func deletesGroups(t *testing.T, server string) {
	commit(t, server, "billing", "orders", map[int32]int64{0: 0})
	require.Equal(t, "deleted billing\n", done(t, "", "group", "delete", "billing", "--server", server))
	require.Equal(t, "[]\n", done(t, "", "group", "list", "-o", "json", "--server", server))
	got := tidemark(t, "", "group", "delete", "billing", "--server", server)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, `there is no group "billing"`)
}

func TestU06_OffsetsInATopicAreDeletedOnlyWhenThatIsMeant(t *testing.T) { onBoth(t, 3, deletesOffsets) }

func deletesOffsets(t *testing.T, server string) {
	done(t, "", "topic", "create", "other", "--server", server)
	commit(t, server, "billing", "orders", map[int32]int64{0: 5, 2: 7})
	commit(t, server, "billing", "other", map[int32]int64{0: 1})
	remove := func(args ...string) output {
		return tidemark(t, "", append([]string{"group", "delete-offsets", "billing", "--server", server}, args...)...)
	}
	const dry = "nothing was deleted; add --execute to do it\n"
	const head = "TOPIC   PARTITION  COMMITTED\n"
	require.Equal(t, output{ExitOK, head + "orders  0          5\norders  2          7\n", dry}, remove("--topic", "orders"))
	require.Equal(t, output{ExitOK, head + "orders  2          7\nother   0          1\n", dry},
		remove("--topic", "orders:1,2", "--topic", "other"))
	require.Equal(t, "[\n  {\n    \"topic\": \"orders\",\n    \"partition\": 2,\n    \"committed\": 7\n  }\n]\n",
		remove("--topic", "orders:2", "-o", "json").Out)
	require.Equal(t, output{Code: ExitOK, Out: head + "orders  2          7\n"}, remove("--topic", "orders:2", "--execute"))
	got := remove("--topic", "orders:2", "--execute")
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, `group "billing" has committed nothing there; 'tidemark group lag billing' shows what it has`)
	require.Equal(t, output{Code: ExitOK, Out: head + "orders  0          5\n"}, remove("--topic", "orders", "--execute"))
	require.NotContains(t, done(t, "", "group", "lag", "billing", "--server", server), "orders")

	require.Equal(t, ExitUsage, remove().Code)
	got = tidemark(t, "", "group", "delete-offsets", "nobody", "--topic", "orders", "--server", server)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, `there is no group "nobody"`)
}

func TestOffsetsThatLiveMembersReadAreNotDeleted(t *testing.T) { onBoth(t, 1, keepsOffsetsOfReaders) }

func keepsOffsetsOfReaders(t *testing.T, server string) {
	done(t, "", "topic", "create", "other", "--server", server)
	commit(t, server, "billing", "orders", map[int32]int64{0: 0})
	commit(t, server, "billing", "other", map[int32]int64{0: 0})
	join(t, server, "billing", "orders", "worker")
	got := tidemark(t, "", "group", "delete-offsets", "billing", "--topic", "orders", "--execute", "--server", server)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, `orders partition 0: live members of group "billing" read the topic; stop them first`)
	require.Contains(t, done(t, "", "group", "delete-offsets", "billing", "--topic", "other", "--execute", "--server", server), "other  0")
}
