package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

func TestFranzGo(t *testing.T) {
	exchange(t, franzGo{}, traits{idempotent: true})
}

func TestFranzGoWritesWithEveryKindOfAcknowledgement(t *testing.T) {
	for name, acks := range map[string]kgo.Acks{"none": kgo.NoAck(), "leader": kgo.LeaderAck(), "all": kgo.AllISRAcks()} {
		t.Run(name, func(t *testing.T) {
			topic := "franz-go-acks-" + name
			createTopics(t, nil, topic)
			c := client(t, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
			want := corpus.Mixed(1, 1000, corpus.Abilities{})
			for i, r := range want {
				record := &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
				for _, h := range r.Headers {
					record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
				}
				c.Produce(t.Context(), record, func(_ *kgo.Record, err error) { assert.NoError(t, err, "record %d", i) })
			}
			require.NoError(t, c.Flush(limited(t, time.Minute)))
			got := franzGo{}.read(t, []job{{Topic: topic, MaxBytes: smallLimit, Records: want}})[topic]
			require.Empty(t, corpus.Diff(want, got, corpus.Abilities{}))
		})
	}
}
