package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

func TestKcat(t *testing.T) {
	exchange(t, kcatPeer{}, traits{
		// With -Z an empty field of a line is null, and no line can have an empty one.
		writes: corpus.Abilities{TextOnly: true, SameHeaders: true, NoTimestamps: true, NoEmptyKeys: true, NoEmptyValues: true},
		reads:  corpus.Abilities{TextOnly: true},

		idempotent: true,
	})
}

// kcatPeer is Debian's kcat, an old librdkafka: it still asks for versions that other clients have left behind.
type kcatPeer struct{}

func (kcatPeer) write(t *testing.T, jobs []job) {
	t.Helper()
	for _, j := range jobs {
		var lines bytes.Buffer
		for _, r := range j.Records {
			fmt.Fprintf(&lines, "%s\t%s\n", r.Key, r.Value)
		}
		args := []string{"-P", "-t", j.Topic, "-p", "0", "-K", `\t`, "-Z",
			"-X", "compression.codec=" + j.Codec,
			"-X", fmt.Sprintf("enable.idempotence=%t", j.Idempotent),
			"-X", fmt.Sprintf("message.max.bytes=%d", j.MaxBytes),
			"-X", "linger.ms=50"}
		for _, h := range j.Records[0].Headers {
			args = append(args, "-H", h.Key+"="+string(h.Value))
		}
		kcat(t, &lines, args...)
	}
}

func (kcatPeer) read(t *testing.T, jobs []job) map[string][]corpus.Record {
	t.Helper()
	got := map[string][]corpus.Record{}
	for _, j := range jobs {
		out := kcat(t, nil, "-C", "-t", j.Topic, "-p", "0", "-o", "beginning", "-c", fmt.Sprint(len(j.Records)), "-q", "-J",
			"-X", fmt.Sprintf("fetch.message.max.bytes=%d", j.MaxBytes), "-X", "check.crcs=true")
		got[j.Topic] = parseKcat(t, out)
	}
	return got
}

// parseKcat reads the lines that kcat prints with -J.
func parseKcat(t *testing.T, out []byte) []corpus.Record {
	t.Helper()
	field := func(s *string) []byte {
		if s == nil {
			return nil
		}
		return []byte(*s)
	}
	var records []corpus.Record
	for _, line := range bytes.Split(bytes.TrimSpace(out), []byte("\n")) {
		var m struct {
			Offset  int64     `json:"offset"`
			TS      int64     `json:"ts"`
			Headers []*string `json:"headers"` // key, value, key, value
			Key     *string   `json:"key"`
			Payload *string   `json:"payload"`
		}
		require.NoError(t, json.Unmarshal(line, &m), "%d bytes in all, this line: %.200s", len(out), line)
		r := corpus.Record{Offset: m.Offset, Timestamp: m.TS, Key: field(m.Key), Value: field(m.Payload)}
		for i := 0; i+1 < len(m.Headers); i += 2 {
			r.Headers = append(r.Headers, corpus.Header{Key: *m.Headers[i], Value: field(m.Headers[i+1])})
		}
		records = append(records, r)
	}
	return records
}

// kcat runs kcat on the server under test and returns what it printed.
func kcat(t *testing.T, stdin *bytes.Buffer, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(limited(t, 2*time.Minute), "kcat", append([]string{"-b", shared.under.Addr()}, args...)...)
	if stdin != nil {
		command.Stdin = stdin
	}
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	require.NoError(t, command.Run(), "kcat %s\n%s", strings.Join(args, " "), errs.String())
	return out.Bytes()
}

func TestKcatWritesEmptyValuesWithEveryKindOfAcknowledgement(t *testing.T) {
	for _, acks := range []string{"0", "1", "all"} {
		t.Run("acks "+acks, func(t *testing.T) {
			topic := "kcat-empty-acks-" + acks
			createTopics(t, nil, topic)
			kcat(t, bytes.NewBufferString("\t\nkey\t\n\tvalue\n"), "-P", "-t", topic, "-p", "0", "-K", `\t`, "-X", "acks="+acks)
			want := []corpus.Record{
				{Offset: 0, Key: []byte{}, Value: []byte{}},
				{Offset: 1, Key: []byte("key"), Value: []byte{}},
				{Offset: 2, Key: []byte{}, Value: []byte("value")},
			}
			got := franzGo{}.read(t, []job{{Topic: topic, MaxBytes: smallLimit, Records: want}})[topic]
			require.Empty(t, corpus.Diff(want, got, corpus.Abilities{NoTimestamps: true}))
		})
	}
}

func TestKcatMakesATopicByWritingToIt(t *testing.T) {
	kcat(t, bytes.NewBufferString("first\n"), "-P", "-t", "kcat-made-this")
	out := kcat(t, nil, "-C", "-t", "kcat-made-this", "-o", "beginning", "-c", "1", "-q")
	require.Equal(t, "first\n", string(out))
	var listed struct {
		Topics []struct {
			Topic string `json:"topic"`
		} `json:"topics"`
	}
	require.NoError(t, json.Unmarshal(kcat(t, nil, "-L", "-J"), &listed))
	var names []string
	for _, topic := range listed.Topics {
		names = append(names, topic.Topic)
	}
	require.Contains(t, names, "kcat-made-this")
}

func TestKcatFindsOffsetsByTimestamp(t *testing.T) {
	const topic = "kcat-by-time"
	createTopics(t, nil, topic)
	var records []corpus.Record
	for i := range int64(10) {
		records = append(records, corpus.Record{Offset: i, Timestamp: 1_700_000_000_000 + i*1000, Value: fmt.Appendf(nil, "%d", i)})
	}
	for _, r := range records { // a batch each, so that none of them answers for another
		franzGo{}.write(t, []job{{Topic: topic, Codec: "none", Idempotent: true, MaxBytes: smallLimit, Records: []corpus.Record{r}}})
	}
	for ts, want := range map[string]string{
		"1699999999999": "0",  // before all
		"1700000003000": "3",  // exactly one
		"1700000003001": "4",  // between two
		"1700000009001": "-1", // after all
		"-2":            "0",  // the first
		"-1":            "10", // the end
	} {
		out := kcat(t, nil, "-Q", "-t", topic+":0:"+ts)
		require.Equal(t, fmt.Sprintf("%s [0] offset %s\n", topic, want), string(out), "timestamp %s", ts)
	}
	out := kcat(t, nil, "-C", "-t", topic, "-p", "0", "-o", "s@1700000004000", "-o", "e@1700000007000", "-e", "-q")
	require.Equal(t, "4\n5\n6\n", string(out))
	out = kcat(t, nil, "-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q")
	require.Equal(t, "8\n9\n", string(out))
}

func TestKcatIsRefusedAMessageAboveTheLimit(t *testing.T) {
	const topic = "kcat-too-large"
	createTopics(t, nil, topic)
	command := exec.CommandContext(limited(t, time.Minute), "kcat", "-b", shared.under.Addr(), "-P", "-t", topic, "-p", "0",
		"-X", "message.max.bytes=4000000", "-X", "message.timeout.ms=20000")
	command.Stdin = strings.NewReader(strings.Repeat("x", 2<<20) + "\n")
	out, err := command.CombinedOutput()
	require.Error(t, err, "it was taken")
	require.Contains(t, string(out), "Message size too large")
}
