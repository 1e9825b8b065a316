package broker

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/topicconfig"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// segments counts the segment files of a log.
func segments(t *testing.T, r *rig, topic *Topic) (n int) {
	t.Helper()
	entries, err := r.backend.disk.List(r.log(topic, 0).Dir())
	require.NoError(t, err)
	for _, e := range entries {
		if path.Ext(e.Name()) == ".log" {
			n++
		}
	}
	return n
}

// stored is the last batch of a partition.
func (c *client) stored(topic *Topic) batch.Batch {
	c.t.Helper()
	var last batch.Batch
	for rest := c.fetchOne(fetchFrom(18, topic, 0, 0)).RecordBatches; len(rest) > 0; {
		var err error
		last, rest, err = batch.Next(rest)
		require.NoError(c.t, err)
	}
	return last
}

func TestU18_AnOpenLogObeysNewSettingsFromTheAnswerOn(t *testing.T) {
	text := strings.Repeat("abcdefgh", 400)
	code := func(c *client, topic *Topic, records []byte) int16 { return c.produce(topic, 0, records).ErrorCode }
	old := batchOf(batch.BuilderOptions{}, "x") // of the year 2000
	tests := []struct {
		before, after alteration // after: what the topic is changed to
		check         func(t *testing.T, r *rig, c *client, topic *Topic, changed bool)
	}{
		{alteration{"max.message.bytes", opSet, "100000"}, alteration{"max.message.bytes", opSet, "100"},
			func(t *testing.T, _ *rig, c *client, topic *Topic, changed bool) {
				require.Equal(t, map[bool]int16{false: codeNone, true: codeMessageTooLarge}[changed], code(c, topic, records(text)))
			}},
		{alteration{"compression.type", opSet, "producer"}, alteration{"compression.type", opSet, "zstd"},
			func(t *testing.T, _ *rig, c *client, topic *Topic, changed bool) {
				require.Equal(t, codeNone, code(c, topic, records(text)))
				require.Equal(t, map[bool]batch.Codec{false: batch.None, true: batch.Zstd}[changed], c.stored(topic).Attributes().Codec())
			}},
		{alteration{"message.timestamp.type", opSet, "CreateTime"}, alteration{"message.timestamp.type", opSet, "LogAppendTime"},
			func(t *testing.T, _ *rig, c *client, topic *Topic, changed bool) {
				require.Equal(t, codeNone, code(c, topic, records("x")))
				require.Equal(t, changed, c.stored(topic).Attributes().LogAppendTime())
			}},
		{alteration{"message.timestamp.before.max.ms", opDelete, "-"}, alteration{"message.timestamp.before.max.ms", opSet, "1000"},
			func(t *testing.T, _ *rig, c *client, topic *Topic, changed bool) {
				require.Equal(t, map[bool]int16{false: codeNone, true: codeInvalidTimestamp}[changed], code(c, topic, old))
			}},
		{alteration{"cleanup.policy", opSet, "delete"}, alteration{"cleanup.policy", opSet, "compact"},
			func(t *testing.T, _ *rig, c *client, topic *Topic, changed bool) {
				resp := do[*kmsg.DeleteRecordsResponse](c, deleteRequest(2, topic.Name, 0, 0))
				require.Equal(t, map[bool]int16{false: codeNone, true: codePolicyViolation}[changed], resp.Topics[0].Partitions[0].ErrorCode)
			}},
		{alteration{"segment.bytes", opDelete, "-"}, alteration{"segment.bytes", opSet, "1048576"},
			func(t *testing.T, r *rig, c *client, topic *Topic, changed bool) {
				for range 2 {
					require.Equal(t, codeNone, code(c, topic, records(strings.Repeat("x", 900_000))))
				}
				require.Equal(t, changed, segments(t, r, topic) > 1)
			}},
		{alteration{"segment.ms", opDelete, "-"}, alteration{"segment.ms", opSet, "1"},
			func(t *testing.T, r *rig, c *client, topic *Topic, changed bool) {
				for i := range 2 { // the time that counts is that of the records
					b := batch.NewBuilder(batch.BuilderOptions{})
					b.Add(testTime+int64(i)*1000, []byte("k"), []byte("v"))
					built, err := b.Build()
					require.NoError(t, err)
					require.Equal(t, codeNone, code(c, topic, built))
				}
				require.Equal(t, changed, segments(t, r, topic) > 1)
			}},
		{alteration{"max.decompressed.message.bytes", opDelete, "-"}, alteration{"max.decompressed.message.bytes", opSet, "100"},
			func(t *testing.T, _ *rig, c *client, topic *Topic, changed bool) {
				packed := batchOf(batch.BuilderOptions{Codec: batch.Gzip}, text)
				require.Equal(t, changed, code(c, topic, packed) != codeNone)
			}},
	}
	for _, test := range tests {
		t.Run(test.after.name, func(t *testing.T) {
			r := newRigOn(t, memfs.New())
			topic := r.topic("t", 1, nil)
			c := r.dial()
			set := func(a alteration) {
				code, text := c.alter(1, altering(resourceTopic, "t", a))
				require.Equal(t, codeNone, code, text)
			}
			set(test.before)
			test.check(t, r, c, topic, false)
			set(test.after)
			test.check(t, r, c, topic, true)
		})
	}
}

func TestEverySettingCanBeAlteredAndIsInForceInTheOpenLog(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	others := map[topicconfig.Type]string{
		topicconfig.Boolean: "true", topicconfig.Int: "5", topicconfig.Long: "4321", topicconfig.Double: "0.25", topicconfig.List: "0:1",
	}
	named := map[string]string{
		"cleanup.policy": "compact", "compression.type": "lz4", "message.timestamp.type": "LogAppendTime", "tidemark.flush": "os",
		"segment.bytes": "2000000", "remote.log.copy.disable": "true",
	}
	for _, d := range topicconfig.Definitions() {
		value, ok := named[d.Name]
		if !ok {
			value = others[d.Type]
		}
		code, text := c.alter(1, altering(resourceTopic, "t", alteration{d.Name, opSet, value}))
		require.Equal(t, codeNone, code, text)
		require.NotEqual(t, d.Default, value, d.Name)
		require.Equal(t, value, r.log(topic, 0).Config().Value(d.Name), d.Name)
		told := configs(do[*kmsg.DescribeConfigsResponse](c, describeConfigs(4, resourceTopic, "t", d.Name)))[d.Name]
		require.Equal(t, value, *told.Value)
		require.Equal(t, kmsg.ConfigSource(sourceTopic), told.Source)

		code, text = c.alter(1, altering(resourceTopic, "t", alteration{d.Name, opDelete, "-"}))
		require.Equal(t, codeNone, code, text)
		require.Equal(t, d.Default, r.log(topic, 0).Config().Value(d.Name), d.Name)
	}
	require.Empty(t, r.overrides("t"))
}
