package broker

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/topicconfig"
)

// alterNode changes settings of this node ("7") or of all (""), which must succeed.
func (c *client) alterNode(name string, settings ...alteration) {
	c.t.Helper()
	code, text := c.alter(1, altering(resourceBroker, name, settings...))
	require.Equal(c.t, codeNone, code, text)
}

// described is one setting of a resource with its synonyms.
func (c *client) described(resource int8, name, setting string) kmsg.DescribeConfigsResponseResourceConfig {
	c.t.Helper()
	req := describeConfigs(4, resource, name, setting)
	req.IncludeSynonyms = true
	resp := do[*kmsg.DescribeConfigsResponse](c, req)
	require.Equal(c.t, codeNone, resp.Resources[0].ErrorCode)
	require.Len(c.t, resp.Resources[0].Configs, 1, "%s of %q", setting, name)
	return resp.Resources[0].Configs[0]
}

func TestEveryDefaultOfTopicsCanBeAlteredOfNodesAndIsInForceInTheOpenLog(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	own := r.topic("own", 1, map[string]string{})
	c := r.dial()
	others := map[topicconfig.Type]string{
		topicconfig.Boolean: "true", topicconfig.Int: "5", topicconfig.Long: "4321", topicconfig.Double: "0.25",
	}
	named := map[string]string{
		"cleanup.policy": "compact", "compression.type": "lz4", "message.timestamp.type": "LogAppendTime", "tidemark.flush": "os",
		"segment.bytes": "2000000",
	}
	for _, d := range topicconfig.Definitions() {
		if len(d.Synonyms) == 0 {
			continue
		}
		value, ok := named[d.Name]
		if !ok {
			value = others[d.Type]
		}
		name := d.Synonyms[0].Name
		for resource, source := range map[string]int8{"": sourceAllNodes, "7": sourceThisNode} {
			c.alterNode(resource, alteration{name, opSet, value})
			require.Equal(t, value, r.log(topic, 0).Config().Value(d.Name), name)
			for _, told := range []kmsg.DescribeConfigsResponseResourceConfig{
				c.described(resourceTopic, "t", d.Name), c.described(resourceBroker, "7", name), c.described(resourceBroker, resource, name),
			} {
				require.Equal(t, value, *told.Value, name)
				require.Equal(t, kmsg.ConfigSource(source), told.Source, name)
				require.Equal(t, synonym(name, value, source), told.ConfigSynonyms[0], name)
				require.False(t, told.ReadOnly)
			}
			code, text := c.alter(1, altering(resourceTopic, "own", alteration{d.Name, opSet, d.Default}))
			require.Equal(t, codeNone, code, text)
			require.Equal(t, d.Default, r.log(own, 0).Config().Value(d.Name), "what a topic sets itself wins: %s", name)

			c.alterNode(resource, alteration{name, opDelete, "-"})
			require.Equal(t, d.Default, r.log(topic, 0).Config().Value(d.Name), name)
		}
	}
	require.Empty(t, r.backend.NodeConfigs().All.Settings)
	require.Empty(t, r.backend.NodeConfigs().This.Settings)
}

func TestAnAlteredDefaultTakesEffectOnTheNextRecord(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	require.Equal(t, codeNone, c.produce(topic, 0, records("something longer than what follows")).ErrorCode)
	c.alterNode("", alteration{"message.max.bytes", opSet, "70"}, alteration{"log.message.timestamp.type", opSet, "LogAppendTime"})
	require.Equal(t, codeMessageTooLarge, c.produce(topic, 0, records("something longer than what follows")).ErrorCode)
	require.Equal(t, codeNone, c.produce(topic, 0, records("x")).ErrorCode)
	require.True(t, c.stored(topic).Attributes().LogAppendTime())
}

func TestTheStrongestOfTheSettingsOfATopicIsInForceAndAllAreTold(t *testing.T) {
	r := newRig(t)
	r.backend.startedWith(map[string]string{"retention.ms": "4000"})
	topic := r.topic("t", 1, map[string]string{"retention.ms": "1000"})
	c := r.dial()
	c.alterNode("", alteration{"log.retention.ms", opSet, "3000"})
	c.alterNode("7", alteration{"log.retention.ms", opSet, "2000"})

	ofNode := []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
		synonym("log.retention.ms", "2000", sourceThisNode), synonym("log.retention.ms", "3000", sourceAllNodes),
		synonym("log.retention.ms", "4000", sourceNodeAtStart), synonym("log.retention.hours", "168", sourceDefault),
	}
	ofTopic := slices.Concat([]kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{synonym("retention.ms", "1000", sourceTopic)}, ofNode)
	takeAway := []func(){
		func() { c.alter(1, altering(resourceTopic, "t", alteration{"retention.ms", opDelete, "-"})) },
		func() { c.alterNode("7", alteration{"log.retention.ms", opDelete, "-"}) },
		func() { c.alterNode("", alteration{"log.retention.ms", opDelete, "-"}) },
	}
	for i := range 4 {
		told := c.described(resourceTopic, "t", "retention.ms")
		require.Equal(t, ofTopic[i:], told.ConfigSynonyms)
		require.Equal(t, *ofTopic[i].Value, *told.Value)
		require.Equal(t, ofTopic[i].Source, told.Source)
		require.Equal(t, *ofTopic[i].Value, r.log(topic, 0).Config().Value("retention.ms"))

		told = c.described(resourceBroker, "7", "log.retention.ms")
		require.Equal(t, ofNode[max(i-1, 0):], told.ConfigSynonyms)
		require.Equal(t, *ofNode[max(i-1, 0)].Value, *told.Value)
		require.Equal(t, []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{synonym("log.retention.hours", "168", sourceDefault)},
			c.described(resourceBroker, "7", "log.retention.hours").ConfigSynonyms)
		if i < len(takeAway) {
			takeAway[i]()
		}
	}
	require.Empty(t, configs(do[*kmsg.DescribeConfigsResponse](c, describeConfigs(4, resourceBroker, ""))))
}

func TestWhatIsSetOfAllNodesIsToldByItself(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	c.alterNode("", alteration{"max.connections", opSet, "500"}, alteration{"log.roll.ms", opSet, "60000"})
	c.alterNode("7", alteration{"log.roll.ms", opSet, "50000"})
	r.backend.nodes.Load().All.Settings["of.a.later.version"] = "hush"
	got := do[*kmsg.DescribeConfigsResponse](c, describeConfigs(4, resourceBroker, "")).Resources[0].Configs
	var told []string
	for _, s := range got {
		require.Equal(t, kmsg.ConfigSource(sourceAllNodes), s.Source)
		if s.IsSensitive {
			require.Nil(t, s.Value, "what is not known may be a secret")
			told = append(told, s.Name)
			continue
		}
		told = append(told, s.Name+"="+*s.Value)
	}
	require.Equal(t, []string{"log.roll.ms=60000", "max.connections=500", "of.a.later.version"}, told)
	c.alterNode("", alteration{"log.roll.ms", opDelete, "-"})
	c.alterNode("", alteration{"of.a.later.version", opDelete, "-"})
	require.Equal(t, map[string]string{"max.connections": "500"}, r.backend.NodeConfigs().All.Settings)
}

func TestSettingsOfNodesThatAreRefusedChangeNothing(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	had := map[string]string{"log.retention.ms": "5000"}
	c.alterNode("7", alteration{"log.retention.ms", opSet, "5000"})
	c.alterNode("", alteration{"log.retention.ms", opSet, "5000"})
	tests := []struct {
		settings []alteration
		code     int16
		text     string
	}{
		{[]alteration{{"num.partitions", opSet, "3"}, {"log.roll.ms", opSet, "5"}, {"log.retention.hours", opSet, "3"}}, codeInvalidRequest,
			"Cannot update these configs dynamically: [log.retention.hours, num.partitions]"},
		{[]alteration{{"no.such", opSet, "3"}}, codeInvalidRequest, "Cannot update these configs dynamically: [no.such]"},
		{[]alteration{{"retention.ms", opSet, "3"}}, codeInvalidRequest, "Cannot update these configs dynamically: [retention.ms]"},
		{[]alteration{{"log.roll.ms", opSet, "5"}, {"log.retention.ms", opSet, "soon"}}, codeInvalidRequest,
			"Invalid value soon for configuration log.retention.ms: not a number of type LONG"},
		{[]alteration{{"log.segment.bytes", opSet, "9"}}, codeInvalidRequest,
			"Invalid value 9 for configuration log.segment.bytes: value must be at least 1048576"},
		{[]alteration{{"max.connections", opSet, "0"}}, codeInvalidRequest, "Invalid value 0 for configuration max.connections"},
		{[]alteration{{"max.connections.per.ip", opSet, "many"}}, codeInvalidRequest, "not a number of type INT"},
		{[]alteration{{"log.cleaner.min.compaction.lag.ms", opSet, "9"}, {"log.cleaner.max.compaction.lag.ms", opSet, "8"}},
			codeInvalidRequest, "must not be more than"},
		{[]alteration{{"log.roll.ms", opAppend, "5"}}, codeInvalidConfig, "Config value append is not allowed for config key: log.roll.ms"},
		{[]alteration{{"no.such", opAppend, "5"}}, codeInvalidConfig, "Unknown config name: no.such"},
		{[]alteration{{"log.roll.ms", opSet, "-"}}, codeInvalidRequest, "Null value not supported for : log.roll.ms"},
	}
	for _, test := range tests {
		for _, name := range []string{"", "7"} {
			code, text := c.alter(1, altering(resourceBroker, name, test.settings...))
			require.Equal(t, test.code, code, "%v", test)
			require.Contains(t, text, test.text)
			require.Equal(t, had, r.backend.NodeConfigs().All.Settings)
			require.Equal(t, had, r.backend.NodeConfigs().This.Settings)
		}
	}
	r.backend.failing = context.DeadlineExceeded
	code, _ := c.alter(1, altering(resourceBroker, "", alteration{"log.roll.ms", opSet, "5"}))
	require.Equal(t, codeRequestTimedOut, code)
	r.backend.failing = nil
	c.alterNode("7", alteration{"num.partitions", opDelete, "-"}) // it is not set, which is what was asked for
}

func TestListsOfNodesAreAddedToAndTakenFrom(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	steps := []struct {
		resource string
		alteration
		all, this, inForce string
	}{
		{"", alteration{"log.cleanup.policy", opAppend, "compact"}, "delete,compact", "", "delete,compact"},
		{"7", alteration{"log.cleanup.policy", opAppend, "compact"}, "delete,compact", "delete,compact", "delete,compact"},
		{"7", alteration{"log.cleanup.policy", opSubtract, "delete"}, "delete,compact", "compact", "compact"},
		{"", alteration{"log.cleanup.policy", opSubtract, "compact"}, "delete", "compact", "compact"},
		{"7", alteration{"log.cleanup.policy", opSet, ""}, "delete", "", ""},
		{"7", alteration{"log.cleanup.policy", opDelete, "-"}, "delete", "", "delete"},
		{"", alteration{"log.cleanup.policy", opSet, "compact"}, "compact", "", "compact"},
		{"7", alteration{"log.cleanup.policy", opSubtract, "delete"}, "compact", "", ""}, // of Kafka's default, as in Kafka
	}
	for _, s := range steps {
		c.alterNode(s.resource, s.alteration)
		require.Equal(t, s.all, r.backend.NodeConfigs().All.Settings["log.cleanup.policy"], "%v", s)
		require.Equal(t, s.this, r.backend.NodeConfigs().This.Settings["log.cleanup.policy"], "%v", s)
		require.Equal(t, s.inForce, r.log(topic, 0).Config().Value("cleanup.policy"), "%v", s)
	}
}

func TestAlterConfigsReplacesAllThatIsSetOfNodes(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	c.alterNode("", alteration{"log.roll.ms", opSet, "5"}, alteration{"max.connections", opSet, "50"})
	change := func(validateOnly bool, resource, name, value string) int16 {
		req := replace(2, resourceBroker, resource, name, value)
		req.ValidateOnly = validateOnly
		return do[*kmsg.AlterConfigsResponse](c, req).Resources[0].ErrorCode
	}
	require.Equal(t, codeNone, change(true, "", "log.roll.ms", "6"))
	require.Equal(t, codeInvalidRequest, change(true, "", "log.roll.ms", "x"))
	require.Equal(t, map[string]string{"log.roll.ms": "5", "max.connections": "50"}, r.backend.NodeConfigs().All.Settings, "only looked at")
	require.Equal(t, codeNone, change(false, "", "log.roll.ms", "6"))
	require.Equal(t, map[string]string{"log.roll.ms": "6"}, r.backend.NodeConfigs().All.Settings)
	require.Equal(t, codeInvalidRequest, change(false, "8", "log.roll.ms", "6"))
}

func TestTwoClientsThatAlterANodeAtOnceBothHaveTheirWay(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	r.backend.beforeSet = func() {
		r.backend.beforeSet = nil
		require.NoError(t, r.backend.setNodes(SetNodeConfigs{Settings: map[string]string{"log.roll.ms": "5"}}))
	}
	c.alterNode("7", alteration{"max.connections", opSet, "50"})
	require.Equal(t, map[string]string{"log.roll.ms": "5", "max.connections": "50"}, r.backend.NodeConfigs().This.Settings)
}

func TestLimitsOfConnectionsCanBeAltered(t *testing.T) {
	for _, name := range []string{maxConnections, maxConnectionsPerIP} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.MaxConnections, o.MaxConnectionsPerIP = 2, 2 })
			c := r.dial()
			refused := func() bool {
				_, err := r.dialRaw().Read(make([]byte, 1))
				return err == io.EOF
			}
			c.alterNode("", alteration{name, opSet, "1"})
			require.True(t, refused())
			require.Equal(t, "1", *c.described(resourceBroker, "7", name).Value)
			c.alterNode("7", alteration{name, opSet, "2"})
			second := r.dial()
			second.alterNode("7", alteration{name, opDelete, "-"})
			require.True(t, refused())
			c.alterNode("", alteration{name, opDelete, "-"})
			require.Equal(t, kmsg.ConfigSource(sourceNodeAtStart), c.described(resourceBroker, "7", name).Source)
			require.True(t, refused(), "the limit at the start")
		})
	}
}
