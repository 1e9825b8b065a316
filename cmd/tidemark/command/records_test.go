package command

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/node"
)

func TestU25_WhatIsProducedIsConsumed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("two\nlines"), 0o600))
	server := startServer(t)
	const all = `%k=%s %K/%S %h\n`
	for name, test := range map[string]struct {
		in      string
		produce string
		format  string
		want    string
	}{
		"lines":                   {"a\nb\n\nlast", "", all, "=a -1/1 \n=b -1/1 \n= -1/0 \n=last -1/4 \n"},
		"lines of Windows":        {"a\r\nb\r\n", "", all, "=a -1/1 \n=b -1/1 \n"},
		"nothing":                 {"", "", all, ""},
		"a key for all":           {"a\n", "--key k", all, "k=a 1/1 \n"},
		"an empty key":            {"a\n", "--key=", all, "=a 0/1 \n"},
		"keys":                    {"k:v:w\n:x\n", "--key-delimiter :", all, "k=v:w 1/3 \n=x 0/1 \n"},
		"nulls":                   {"k:\nl:NIL\n", "-K : -Z NIL", all, "k= 1/0 \nl= 1/-1 \n"},
		"headers":                 {"a\n", "-H x=1 -H y=", all, "=a -1/1 x=1,y=\n"},
		"another delimiter":       {"a\nb\x00c", `-D \0`, all, "=a\nb -1/3 \n=c -1/1 \n"},
		"a delimiter of two":      {"a-b--c--", "-D --", all, "=a-b -1/3 \n=c -1/1 \n"},
		"a file":                  {"", "--key f " + file, all, "f=two\nlines 1/9 \n"},
		"a tombstone":             {"", "--key gone --tombstone", all, "gone= 4/-1 \n"},
		"JSON":                    {`{"key":"k","value":"v","headers":[{"name":"h","value":"1"}],"timestamp":1700000000123}` + "\n\n" + `{"value":null}`, "-i json", `%T %k=%s %S %h|`, ""},
		"compressed":              {"a\n", "-z zstd --acks 1", all, "=a -1/1 \n"},
		"JSON with its partition": {`{"partition":0,"value":"v"}`, "-i json --keep-partitions", `%p %s\n`, "0 v\n"},
	} {
		t.Run(name, func(t *testing.T) {
			topic := strings.ReplaceAll(name, " ", "-")
			done(t, "", "topic", "create", topic, "--server", server)
			words := strings.Fields(test.produce)
			if name == "another delimiter" || name == "a delimiter of two" {
				words = strings.SplitN(test.produce, " ", 2)
			}
			args := append([]string{"produce", topic, "--server", server}, words...)
			require.Equal(t, output{Code: ExitOK}, tidemark(t, test.in, args...))
			got := done(t, "", "consume", topic, "-e", "-f", test.format, "--server", server)
			if name == "JSON" {
				require.Regexp(t, `^1700000000123 k=v 1 h=1\|\d{13} = -1 \|$`, got)
				return
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestProduceSaysWhatWasAcknowledgedBeforeItFailed(t *testing.T) {
	server := startServer(t)
	got := tidemark(t, "a:1\nnone\nb:2\n", "produce", "t", "-K", ":", "--server", server)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, `no key delimiter ":" in "none"`)
	require.Regexp(t, `^[01] records? acknowledged\n`, got.Err)
	got = tidemark(t, "{\n", "produce", "t", "--input", "json", "--server", server)
	require.Contains(t, got.Err, "a record is no JSON object with key, value, headers, timestamp and partition")
	got = tidemark(t, "", "produce", "t", filepath.Join(t.TempDir(), "gone"), "--server", server)
	require.Contains(t, got.Err, "no such file")
}

func TestU07_RecordsAreReadBetweenAnyTwoPlaces(t *testing.T) {
	server := startServer(t)
	done(t, "", "topic", "create", "t", "--server", server)
	kc := connectTo(t, server)
	begin := time.UnixMilli(1_700_000_000_000)
	for i, v := range []string{"a", "b", "c", "d", "e"} {
		r := &kgo.Record{Topic: "t", Value: []byte(v), Timestamp: begin.Add(time.Duration(i) * time.Minute)}
		require.NoError(t, kc.ProduceSync(within(t), r).FirstErr())
	}
	for call, want := range map[string]string{
		"-e":                       "abcde",
		"--until end":              "abcde",
		"--until now":              "abcde",
		"--until 2":                "ab",
		"--until 99":               "abcde",
		"--until -1":               "abcd",
		"--until start":            "",
		"--from 2 -e":              "cde",
		"--from 2 --until 3":       "c",
		"--from 3 --until 2":       "",
		"--from 5 -e":              "",
		"--from -2 -e":             "de",
		"--from -99 -e":            "abcde",
		"--from end -e":            "",
		"--from @1700000060000 -e": "bcde",
		"--from @1700000060001 -e": "cde",
		"--from @1700000060000 --until @1700000180000": "bc",
		"--from 2023-11-14T22:15:20Z -e":               "cde",
		"--from -1h --until now":                       "",
		"--until -1h":                                  "abcde",
		"--max 2":                                      "ab",
		"--max 2 --from 1":                             "bc",
		"-e --partition 0":                             "abcde",
		"-e --read-committed":                          "abcde",
	} {
		args := append([]string{"consume", "t", "--server", server, "-f", "%s"}, strings.Fields(call)...)
		require.Equal(t, want, done(t, "", args...), call)
	}
}

func TestConsumeWritesTextAndJSON(t *testing.T) {
	server := startServer(t)
	done(t, "", "topic", "create", "t", "--server", server)
	kc := connectTo(t, server)
	for _, r := range []*kgo.Record{
		{Key: []byte("k"), Value: []byte(`<"v">`), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "i", Value: []byte{0xfe}}, {Key: "n"}}},
		{Value: []byte{0xff, 0x00}},
		{Key: []byte{}, Value: nil},
	} {
		r.Topic, r.Timestamp = "t", time.UnixMilli(1700000000123)
		require.NoError(t, kc.ProduceSync(within(t), r).FirstErr())
	}
	golden(t, "consume.json", done(t, "", "consume", "t", "-e", "-o", "json", "--server", server))
	require.Equal(t, "h=1,i=\xfe,n=NULL\tk\t<\"v\">\n\tNULL\t\xff\x00\n\t\tNULL\n",
		done(t, "", "consume", "t", "-e", "--keys", "--headers", "-Z", "NULL", "--server", server))

	done(t, "", "topic", "create", "copy", "--server", server)
	done(t, done(t, "", "consume", "t", "-e", "-o", "json", "--server", server), "produce", "copy", "-i", "json", "--server", server)
	golden(t, "consume.json", done(t, "", "consume", "copy", "-e", "-o", "json", "--server", server))
}

func TestConsumeFollowsUntilItIsInterrupted(t *testing.T) {
	server := startServer(t)
	done(t, "", "topic", "create", "t", "-p", "2", "--server", server)
	out, errs, stop := background(t, "consume", "t", "--server", server)
	kc := connectTo(t, server, manual())
	write(t, kc, "t", 0, "first")
	out.waitFor(t, "first\n")
	write(t, kc, "t", 1, "second")
	out.waitFor(t, "second\n")
	done(t, "third\n", "produce", "t", "--acks", "0", "--server", server)
	out.waitFor(t, "third\n")
	require.Equal(t, ExitOK, stop())
	require.Empty(t, errs.String())
}

func TestAFollowerFromAnOffsetSeesNothingBefore(t *testing.T) {
	server := startServer(t)
	done(t, "", "topic", "create", "t", "-p", "2", "--server", server)
	kc := connectTo(t, server, manual())
	write(t, kc, "t", 0, "a0", "a1", "a2")
	out, _, stop := background(t, "consume", "t", "--from", "2", "--server", server)
	out.waitFor(t, "a2\n")
	write(t, kc, "t", 1, "b0", "b1", "b2")
	out.waitFor(t, "b2\n")
	require.Equal(t, ExitOK, stop())
	require.Equal(t, "a2\nb2\n", out.String())
}

func TestF40_ReadingToTheEndFinishesWhereMarkersAreAtTheEnd(t *testing.T) {
	server := startFake(t, "t", 3)
	kc := connectTo(t, server, manual(), kgo.TransactionalID("tx"))
	transaction := func(how kgo.TransactionEndTry, partition int32, values ...string) {
		require.NoError(t, kc.BeginTransaction())
		write(t, kc, "t", partition, values...)
		require.NoError(t, kc.EndTransaction(within(t), how))
	}
	transaction(kgo.TryCommit, 0, "a", "b")
	transaction(kgo.TryAbort, 1, "never")
	plain := connectTo(t, server, manual())
	write(t, plain, "t", 1, "c")
	transaction(kgo.TryAbort, 1, "neither")
	for _, isolation := range []string{"", "--read-committed"} {
		args := []string{"consume", "t", "-e", "-f", "%s ", "--server", server}
		want := "a b never c neither "
		if isolation != "" {
			args, want = append(args, isolation), "a b c "
		}
		for p, some := range map[string]string{"0": "a b ", "2": ""} {
			require.Equal(t, some, done(t, "", append(args, "-p", p)...))
		}
		require.ElementsMatch(t, strings.Fields(want), strings.Fields(done(t, "", args...)))
	}
}

func TestF40_ReadingToTheEndFinishesWhereCompactionLeftAHole(t *testing.T) {
	dir := t.TempDir()
	n, err := node.Open(within(t), node.Config{DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	done(t, "a\nb\n", "produce", "t", "--server", n.Addrs().Kafka.String())
	require.NoError(t, n.Close(context.Background()))
	hollow(t, filepath.Join(dir, "t-0"))

	server := startServerIn(t, dir)
	require.Contains(t, done(t, "", "topic", "describe", "t", "--server", server), " 0      100  100\n")
	require.Equal(t, "a b ", done(t, "", "consume", "t", "-e", "-f", "%s ", "--server", server))
	require.Equal(t, "", done(t, "", "consume", "t", "-e", "--from", "50", "--server", server))
}

func TestF68_APayloadThatCannotBeReadIsAnErrorAndNoHang(t *testing.T) {
	dir := t.TempDir()
	n, err := node.Open(within(t), node.Config{DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}})
	require.NoError(t, err)
	done(t, "a\n", "produce", "t", "--server", n.Addrs().Kafka.String())
	require.NoError(t, n.Close(context.Background()))
	spoilt := batch.NewBuilder(batch.BuilderOptions{BaseOffset: 1})
	spoilt.Add(1_700_000_000_000, nil, []byte("this is no gzip"))
	b, err := spoilt.Build()
	require.NoError(t, err)
	const attributes, checksum, checked = 21, 17, 21
	b[attributes+1] |= byte(batch.Gzip)
	binary.BigEndian.PutUint32(b[checksum:], crc32.Checksum(b[checked:], crc32.MakeTable(crc32.Castagnoli)))
	appendAt(t, filepath.Join(dir, "t-0"), b, 1)

	server := startServerIn(t, dir)
	done(t, "after\n", "produce", "t", "--server", server)
	got := tidemark(t, "", "consume", "t", "-e", "--from", "1", "--server", server)
	require.Equal(t, ExitFailed, got.Code)
	require.Empty(t, got.Out)
	require.Contains(t, got.Err, "partition 0: ")
	require.Equal(t, "after\n", done(t, "", "consume", "t", "-e", "--from", "2", "--server", server), "what is behind it can be read")
}

// hollow appends to a log what compaction leaves of a batch none of whose records is kept: offsets 2 to 99, and no record.
func hollow(t *testing.T, dir string) {
	t.Helper()
	b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: 2, HasProducer: true, ProducerID: 7, LastOffsetDelta: 97})
	b.Add(1_700_000_000_000, nil, []byte("gone"))
	whole, err := b.Build()
	require.NoError(t, err)
	appendAt(t, dir, batch.RetainEmpty(whole.Header()), 2)
}

// appendAt appends a batch to the log of a partition that no server has open.
func appendAt(t *testing.T, dir string, b batch.Batch, offset int64) {
	t.Helper()
	env := kafkalog.NewEnv(kafkalog.EnvOptions{})
	l, err := kafkalog.Open(env, dir, kafkalog.Options{Clean: true})
	require.NoError(t, err)
	_, err = l.AppendVerbatimAt(b, offset)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, env.Close())
}
