package command

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestTopicsAreCreatedListedDescribedAndDeleted(t *testing.T) {
	server := startServer(t)
	on := []string{"--server", server}
	run := func(args ...string) string { return done(t, "", append(args, on...)...) }

	got := tidemark(t, "", append([]string{"topic", "list"}, on...)...)
	require.Equal(t, output{Code: ExitOK, Err: "no topics; 'tidemark topic create NAME' makes one\n"}, got)
	require.Equal(t, "[]\n", run("topic", "list", "-o", "json"))

	golden(t, "topic-create.json", masked(run("topic", "create", "orders", "audit", "-p", "2", "-c", "retention.ms=1000", "-o", "json")))
	require.Regexp(t, `^would create dry with 3 partitions, id .*\n$`, run("topic", "create", "dry", "-p", "3", "--dry-run"))
	require.Regexp(t, `^created one with 1 partition, id .*\n$`, run("topic", "create", "one"))
	done(t, "a\nb\nc\n", "produce", "orders", "--partition", "1", "--server", server)

	require.Regexp(t, `^TOPIC   PARTITIONS  ID\naudit   2 .*\none     1 .*\norders  2 .*\n$`, run("topic", "list"))
	golden(t, "topic-list.json", masked(run("topic", "list", "-o", "json")))
	require.Regexp(t, `^orders  \(id .*\)\nPARTITION  LEADER  EPOCH  START  END  RECORDS\n`+
		`0          1       \d      0      0    0\n1          1       \d      0      3    3\n$`, run("topic", "describe", "orders"))
	golden(t, "topic-describe.json", masked(run("topic", "describe", "orders", "-o", "json")))

	require.Equal(t, "deleted audit\ndeleted orders\n", run("topic", "delete", "orders", "audit"))
	require.Regexp(t, `^TOPIC  PARTITIONS  ID\none    1 .*\n$`, run("topic", "list"))
}

func TestU16_ATopicWithASizeLimitSaysWhatThatComesTo(t *testing.T) {
	server := startServer(t)
	create := func(args ...string) string {
		return done(t, "", append([]string{"topic", "create", "--server", server, "--dry-run"}, args...)...)
	}
	require.Contains(t, create("orders", "-p", "12", "-c", "retention.bytes=536870912", "-c", "segment.bytes=134217728"),
		"\n  at most about 7.5 GiB: 12 partitions x (retention.bytes 512.0 MiB + segment.bytes 128.0 MiB)\n")
	require.Contains(t, create("one", "-c", "retention.bytes=9223372036854775807"), "1 partition x (retention.bytes ")
	require.NotContains(t, create("free"), "at most")
	require.NotContains(t, create("kept", "-c", "retention.bytes=1000", "-c", "cleanup.policy=compact"), "at most")
}

func TestTopicCommandsSayWhatIsWrong(t *testing.T) {
	server := startServer(t)
	done(t, "", "topic", "create", "there", "--server", server)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"describe what is not there": {[]string{"topic", "describe", "gone"}, `there is no topic "gone"; 'tidemark topic list' shows`},
		"delete what is not there":   {[]string{"topic", "delete", "gone"}, `there is no topic "gone"; 'tidemark topic list' shows`},
		"consume what is not there":  {[]string{"consume", "gone", "-e"}, `there is no topic "gone"; 'tidemark topic list' shows`},
		"create what is there":       {[]string{"topic", "create", "there"}, `topic "there" exists already`},
		"a name that cannot be":      {[]string{"topic", "create", "a/b"}, `topic "a/b"`},
		"a setting that is not":      {[]string{"topic", "create", "x", "-c", "retention.mss=1"}, "retention.mss"},
		"a value that cannot be":     {[]string{"topic", "create", "x", "-c", "retention.ms=soon"}, "retention.ms"},
		"a partition that is not":    {[]string{"consume", "there", "-p", "7"}, `topic "there" has partitions 0 to 0, not 7`},
		"an offset beyond the end":   {[]string{"consume", "there", "--from", "9"}, `topic "there": offset 9 is beyond the end, which is 0`},
	} {
		t.Run(name, func(t *testing.T) {
			got := tidemark(t, "", append(test.args, "--server", server)...)
			require.Equal(t, ExitFailed, got.Code)
			require.Contains(t, got.Err, test.want)
			require.Empty(t, got.Out)
		})
	}
}

func TestSettingsOfATopicAreShownAndAltered(t *testing.T) {
	server := startFake(t, "orders", 2)
	run := func(args ...string) string { return done(t, "", append(args, "--server", server)...) }
	require.Equal(t, "set retention.ms=5000 on orders\n", run("topic", "alter", "orders", "-c", "retention.ms=5000"))
	require.Contains(t, run("topic", "describe", "orders", "--config"), "SETTING       VALUE  FROM\nretention.ms  5000   topic\n")
	require.Contains(t, run("topic", "describe", "orders", "--config=all"), "cleanup.policy ")
	require.Contains(t, run("topic", "describe", "orders", "--config", "-o", "json"),
		`"name": "retention.ms",`+"\n"+`        "value": "5000",`)
	require.Regexp(t, `RETENTION\.MS\norders  2  .* 5000\n$`, run("topic", "list", "-c", "retention.ms"))
	require.Equal(t, "would have unset retention.ms on orders\n", run("topic", "alter", "orders", "--unset", "retention.ms", "--dry-run"))
	require.Equal(t, "unset retention.ms on orders\n", run("topic", "alter", "orders", "--unset", "retention.ms"))
	require.Contains(t, run("topic", "describe", "orders", "--config"), "no settings of its own\n")
	require.Equal(t, "raised orders to 5 partitions\n", run("topic", "alter", "orders", "-p", "5"))
	require.Regexp(t, `orders  5 `, run("topic", "list"))
	golden(t, "topic-alter.json", run("topic", "alter", "orders", "-c", "retention.ms=1", "-p", "6", "-o", "json"))
	require.Equal(t, "[\n  {\n    \"name\": \"orders\",\n    \"done\": \"deleted\"\n  }\n]\n", run("topic", "delete", "orders", "-o", "json"))
	got := tidemark(t, "", "topic", "alter", "gone", "-p", "5", "--server", server)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, `there is no topic "gone"`)
}

func TestRecordsAreDeletedOnlyWhenThatIsMeant(t *testing.T) {
	server := startFake(t, "orders", 2)
	kc := connectTo(t, server, manual())
	write(t, kc, "orders", 0, "a", "b", "c")
	write(t, kc, "orders", 1, "d")
	args := []string{"topic", "delete-records", "orders", "--before", "-1", "--server", server}
	got := tidemark(t, "", args...)
	want := "PARTITION  START  NEW START  RECORDS\n0          0      2          2\n1          0      0          0\n"
	require.Equal(t, output{ExitOK, want, "nothing was deleted; add --execute to do it\n"}, got)
	require.Equal(t, "a\nb\nc\n", done(t, "", "consume", "orders", "-p", "0", "-e", "--server", server))
	require.Equal(t, output{ExitOK, want, ""}, tidemark(t, "", append(args, "--execute")...))
	require.Equal(t, "c\n", done(t, "", "consume", "orders", "-p", "0", "-e", "--server", server))
	require.Equal(t, "d\n", done(t, "", "consume", "orders", "-p", "1", "-e", "--server", server))
	golden(t, "topic-delete-records.json", done(t, "", append(args, "-o", "json")...))
	beyond := tidemark(t, "", "topic", "delete-records", "orders", "--before", "10", "--server", server)
	require.Equal(t, ExitFailed, beyond.Code)
	require.Contains(t, beyond.Err, "offset 10 is beyond the end, which is 3")
}

func TestTheClusterIsShown(t *testing.T) {
	server := startServer(t)
	done(t, "", "topic", "create", "orders", "-p", "3", "--server", server)
	require.Regexp(t, `^cluster .*  1 topic  3 partitions\nNODE  ADDRESS +RACK  LEADS  \n1     127\.0\.0\.1:\d+  -     3      controller\n$`,
		done(t, "", "cluster", "--server", server))
	golden(t, "cluster.json", masked(done(t, "", "cluster", "-o", "json", "--server", server)))
}

func TestTheShellIsOfferedWhatTheServerHas(t *testing.T) {
	server := startFake(t, "orders", 1)
	done(t, "", "topic", "create", "other", "audit", "--server", server)
	require.Contains(t, done(t, "", "__complete", "consume", "--server", server, "o"), "orders\nother\n:4\n")
	require.Contains(t, done(t, "", "__complete", "topic", "delete", "--server", server, "other", "o"), "orders\n:4\n")
	require.Equal(t, ":4\n", done(t, "", "__complete", "consume", "--server", server, "orders", ""))
	require.Equal(t, ":4\n", done(t, "", "__complete", "consume", "--server", "127.0.0.1:1", ""))
	require.Contains(t, done(t, "", "__complete", "group", "reset-offsets", "g", "--server", server, "--topic", "a"), "audit\n")
	require.Contains(t, done(t, "", "__complete", "topic", "list", "--output", ""), "text\njson\n:4\n")
	require.Contains(t, done(t, "", "__complete", "produce", "t", "--compression", ""), "none\ngzip\nsnappy\nlz4\nzstd\n")
	require.Contains(t, done(t, "", "__complete", "serve", "--log-level", ""), "debug\ninfo\nwarn\nerror\n")
}

func TestAPartitionThatIsNotServedIsDescribedLikeTheOthers(t *testing.T) {
	detail := kadm.PartitionDetail{Partition: 3, Leader: 1, LeaderEpoch: 2}
	require.Equal(t, describedPartition{Partition: 3, Leader: 1, LeaderEpoch: 2, Start: 4, End: 10, Records: 6},
		describePartition(detail, listed{offset: 4}, listed{offset: 10}))
	require.Equal(t, describedPartition{Partition: 3, Leader: 1, LeaderEpoch: 2, Start: -1, End: -1, Error: kerr.KafkaStorageError.Error()},
		describePartition(detail, listed{offset: 4}, listed{err: kerr.KafkaStorageError}))
}
