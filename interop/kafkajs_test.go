package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

// TestKafkaJS exchanges records in the codecs that kafkajs has without a further package.
func TestKafkaJS(t *testing.T) {
	writes := corpus.Abilities{NoHeaderNulls: true}
	for i, codec := range []string{"none", "gzip"} {
		t.Run(codec, func(t *testing.T) {
			j := job{Topic: "kafkajs-writes-" + codec, Codec: codec, MaxBytes: smallLimit,
				Records: corpus.Mixed(uint64(i), smallRecords, writes)}
			createTopics(t, nil, j.Topic)
			records, err := json.Marshal(j.Records)
			require.NoError(t, err)
			kafkaJS(t, records, "write", j.Topic, codec)
			require.Empty(t, corpus.Diff(j.Records, franzGo{}.read(t, []job{j})[j.Topic], writes))
			requireStoredAs(t, j, franzGo{}.stored(t, j))

			j = job{Topic: "kafkajs-reads-" + codec, Codec: codec, Idempotent: true, MaxBytes: smallLimit,
				Records: corpus.Mixed(uint64(i)+10, smallRecords, corpus.Abilities{})}
			createTopics(t, nil, j.Topic)
			franzGo{}.write(t, []job{j})
			var got []corpus.Record
			out := kafkaJS(t, nil, "read", j.Topic, fmt.Sprint(len(j.Records)))
			require.NoError(t, json.Unmarshal(out, &got), "%.300s", out)
			require.Empty(t, corpus.Diff(j.Records, got, corpus.Abilities{}))
		})
	}
}

func kafkaJS(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	command := shared.install.Node("kafkajs_peer.js", append([]string{shared.under.Addr()}, args...)...)
	command.Stdin = bytes.NewReader(stdin)
	out, errs, err := bounded(t, command, time.Minute)
	require.NoError(t, err, "%.3000s", errs)
	return out
}
