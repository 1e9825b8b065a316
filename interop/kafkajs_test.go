package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

func TestKafkaJS(t *testing.T) {
	exchangeWithKafkaJS(t, "kafkajs", shared.install.Node, corpus.Abilities{})
}

// TestF63_OlderKafkaJS runs the last of the 1.x versions, whose headers have one value each.
func TestF63_OlderKafkaJS(t *testing.T) {
	exchangeWithKafkaJS(t, "kafkajs-1", shared.install.OlderNode, corpus.Abilities{UniqueHeaders: true})
}

// kafkaJS is a way to run kafkajs_peer.js with one of its versions.
type kafkaJS func(script string, args ...string) *exec.Cmd

// exchangeWithKafkaJS exchanges records in the codecs that kafkajs has without a further package.
func exchangeWithKafkaJS(t *testing.T, name string, js kafkaJS, reads corpus.Abilities) {
	writes := reads
	writes.NoHeaderNulls = true
	for i, codec := range []string{"none", "gzip"} {
		t.Run(codec, func(t *testing.T) {
			j := job{Topic: name + "-writes-" + codec, Codec: codec, MaxBytes: smallLimit,
				Records: corpus.Mixed(uint64(i), smallRecords, writes)}
			createTopics(t, nil, j.Topic)
			records, err := json.Marshal(j.Records)
			require.NoError(t, err)
			js.run(t, records, "write", j.Topic, codec)
			require.Empty(t, corpus.Diff(j.Records, franzGo{}.read(t, []job{j})[j.Topic], writes))
			requireStoredAs(t, j, franzGo{}.stored(t, j))

			j = job{Topic: name + "-reads-" + codec, Codec: codec, Idempotent: true, MaxBytes: smallLimit,
				Records: corpus.Mixed(uint64(i)+10, smallRecords, reads)}
			createTopics(t, nil, j.Topic)
			franzGo{}.write(t, []job{j})
			var got []corpus.Record
			out := js.run(t, nil, "read", j.Topic, fmt.Sprint(len(j.Records)))
			require.NoError(t, json.Unmarshal(out, &got), "%.300s", out)
			require.Empty(t, corpus.Diff(j.Records, got, reads))
		})
	}
	t.Run("a topic", func(t *testing.T) {
		topic := name + "-made-this"
		js.run(t, nil, "admin", topic)
		topics, err := kadm.NewClient(client(t)).ListTopics(limited(t, time.Minute))
		require.NoError(t, err)
		require.False(t, topics.Has(topic), "it was not deleted")
	})
}

func (js kafkaJS) run(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	command := js("kafkajs_peer.js", append([]string{shared.under.Addr()}, args...)...)
	command.Stdin = bytes.NewReader(stdin)
	out, errs, err := bounded(t, command, 3*time.Minute)
	require.NoError(t, err, "%.3000s", errs)
	return out
}
