package broker

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alteration is one setting of an IncrementalAlterConfigs request; a value of "-" is null.
type alteration struct {
	name  string
	op    int8
	value string
}

func altering(resource int8, name string, settings ...alteration) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceType(resource), ResourceName: name}
	for _, s := range settings {
		c := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: s.name, Op: kmsg.IncrementalAlterConfigOp(s.op)}
		if s.value != "-" {
			c.Value = &s.value
		}
		r.Configs = append(r.Configs, c)
	}
	return r
}

// alter changes settings of one resource and returns the code and the text of the answer.
func (c *client) alter(version int16, r kmsg.IncrementalAlterConfigsRequestResource) (int16, string) {
	c.t.Helper()
	req := at(version, kmsg.NewPtrIncrementalAlterConfigsRequest())
	req.Resources = append(req.Resources, r)
	resp := do[*kmsg.IncrementalAlterConfigsResponse](c, req)
	require.Len(c.t, resp.Resources, 1)
	require.Equal(c.t, r.ResourceName, resp.Resources[0].ResourceName)
	require.Equal(c.t, r.ResourceType, resp.Resources[0].ResourceType)
	if resp.Resources[0].ErrorMessage == nil {
		return resp.Resources[0].ErrorCode, ""
	}
	return resp.Resources[0].ErrorCode, *resp.Resources[0].ErrorMessage
}

// overrides are what a topic sets itself, in the metadata; those of the open logs must be the same.
func (r *rig) overrides(name string) map[string]string {
	r.t.Helper()
	t, ok := r.backend.Topics().ByName(name)
	require.True(r.t, ok)
	for i := range t.Partitions {
		require.True(r.t, t.Config.Equal(r.log(t, int32(i)).Config()))
	}
	return t.Config.Overrides()
}

func TestIncrementalAlterConfigsChangesSingleSettings(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2, map[string]string{"retention.ms": "123456"})
	c := r.dial()
	steps := []struct {
		name  string
		alter []alteration
		want  map[string]string
	}{
		{"set beside another", []alteration{{"segment.ms", opSet, "7000"}},
			map[string]string{"retention.ms": "123456", "segment.ms": "7000"}},
		{"set and delete at once", []alteration{{"segment.ms", opSet, "8000"}, {"retention.ms", opDelete, "-"}},
			map[string]string{"segment.ms": "8000"}},
		{"delete what is not set", []alteration{{"flush.ms", opDelete, "-"}}, map[string]string{"segment.ms": "8000"}},
		{"delete what is unknown", []alteration{{"no.such", opDelete, "x"}}, map[string]string{"segment.ms": "8000"}},
		{"append to the default", []alteration{{"cleanup.policy", opAppend, "compact"}},
			map[string]string{"segment.ms": "8000", "cleanup.policy": "delete,compact"}},
		{"append what is there", []alteration{{"cleanup.policy", opAppend, "compact"}},
			map[string]string{"segment.ms": "8000", "cleanup.policy": "delete,compact"}},
		{"subtract", []alteration{{"cleanup.policy", opSubtract, "delete"}},
			map[string]string{"segment.ms": "8000", "cleanup.policy": "compact"}},
		{"subtract what is not there", []alteration{{"cleanup.policy", opSubtract, "nothing"}},
			map[string]string{"segment.ms": "8000", "cleanup.policy": "compact"}},
		{"subtract the rest", []alteration{{"cleanup.policy", opSubtract, "compact"}, {"segment.ms", opDelete, "-"}},
			map[string]string{"cleanup.policy": ""}},
		{"nothing", nil, map[string]string{"cleanup.policy": ""}},
	}
	for i, step := range steps {
		code, text := c.alter(int16(i%2), altering(resourceTopic, "t", step.alter...))
		require.Equal(t, codeNone, code, "%s: %s", step.name, text)
		require.Equal(t, step.want, r.overrides("t"), step.name)
	}
}

func TestIncrementalAlterConfigsErrorsChangeNothing(t *testing.T) {
	r := newRig(t)
	had := map[string]string{"retention.ms": "123456"}
	r.topic("t", 1, had)
	c := r.dial()
	tests := []struct {
		resource int8
		name     string
		alter    []alteration
		want     int16
		text     string
	}{
		{resourceTopic, "t", []alteration{{"no.such", opSet, "1"}}, codeInvalidConfig, "Unknown topic config name: no.such"},
		{resourceTopic, "t", []alteration{{"no.such", opAppend, "1"}}, codeInvalidConfig, "Unknown topic config name: no.such"},
		{resourceTopic, "t", []alteration{{"segment.ms", opSet, "9"}, {"retention.ms", opSet, "x"}}, codeInvalidConfig,
			"Invalid value x for configuration retention.ms"},
		{resourceTopic, "t", []alteration{{"min.compaction.lag.ms", opSet, "9"}, {"max.compaction.lag.ms", opSet, "8"}},
			codeInvalidConfig, "must not be more than"},
		{resourceTopic, "t", []alteration{{"retention.ms", opAppend, "5"}}, codeInvalidConfig,
			"Can't APPEND to key retention.ms because its type is not LIST."},
		{resourceTopic, "t", []alteration{{"retention.ms", opSubtract, "5"}}, codeInvalidConfig, "Can't SUBTRACT from key retention.ms"},
		{resourceTopic, "t", []alteration{{"cleanup.policy", opAppend, "what"}}, codeInvalidConfig, "Invalid value"},
		{resourceTopic, "t", []alteration{{"retention.ms", 9, "5"}}, codeInvalidRequest, "Unknown operation 9 on retention.ms"},
		{resourceTopic, "t", []alteration{{"retention.ms", opSet, "-"}}, codeInvalidRequest, "Null value not supported for : retention.ms"},
		{resourceTopic, "t", []alteration{{"retention.ms", opSet, "1"}, {"retention.ms", opDelete, "-"}}, codeInvalidRequest,
			"Error due to duplicate config keys"},
		{resourceTopic, "t", []alteration{{"leader.replication.throttled.replicas", opSet, strings.Repeat("1:1,", 9000) + "1:1"}},
			codeInvalidConfig, "longer than 32767 bytes"},
		{resourceTopic, "nowhere", []alteration{{"retention.ms", opSet, "1"}}, codeUnknownTopicOrPartition, "The topic 'nowhere' does not exist."},
		{resourceTopic, "nowhere", []alteration{{"retention.ms", opSet, "x"}}, codeInvalidConfig, "Invalid value x"},
		{resourceTopic, "a b", []alteration{{"retention.ms", opSet, "1"}}, codeInvalidTopicException, "name"},
		{resourceTopic, "", []alteration{{"retention.ms", opSet, "1"}}, codeInvalidRequest, "Default topic resources are not allowed."},
		{resourceBroker, "7", []alteration{{"num.partitions", opSet, "3"}, {"a", opSet, "3"}}, codeInvalidRequest,
			"Cannot update these configs dynamically: [a, num.partitions]"},
		{resourceBroker, "", []alteration{{"num.partitions", opSet, "3"}}, codeInvalidRequest, "dynamically"},
		{resourceBroker, "8", []alteration{{"num.partitions", opSet, "3"}}, codeInvalidRequest, "Unexpected broker id, expected 7, but received 8"},
		{resourceBroker, "x", nil, codeInvalidRequest, "must be an integer"},
		{resourceBroker, "7", nil, codeNone, ""},
		{resourceBrokerLogger, "7", []alteration{{"root", opSet, "INFO"}}, codeInvalidConfig, "Logger root does not exist!"},
		{resourceGroup, "g", []alteration{{"consumer.session.timeout.ms", opSet, "1"}}, codeInvalidConfig, "no settings of groups"},
		{resourceClientMetrics, "", []alteration{{"metrics", opSet, "*"}}, codeInvalidRequest, "empty"},
		{77, "t", []alteration{{"retention.ms", opSet, "1"}}, codeInvalidRequest, "Unknown resource type 77"},
	}
	for _, test := range tests {
		code, text := c.alter(1, altering(test.resource, test.name, test.alter...))
		require.Equal(t, test.want, code, "%v", test)
		require.Contains(t, text, test.text)
		require.Equal(t, had, r.overrides("t"))
	}
	r.backend.failing = context.DeadlineExceeded
	code, _ := c.alter(1, altering(resourceTopic, "t", alteration{"retention.ms", opSet, "1"}))
	require.Equal(t, codeRequestTimedOut, code)
	r.backend.failing = nil
}

func TestAResourceThatIsNamedTwiceIsNotAlteredAndOthersAre(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1, nil)
	r.topic("u", 1, nil)
	c := r.dial()
	req := at(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{
		altering(resourceTopic, "t", alteration{"segment.ms", opSet, "1"}),
		altering(resourceTopic, "u", alteration{"segment.ms", opSet, "2"}),
		altering(resourceTopic, "t", alteration{"retention.ms", opSet, "3"}),
	}
	resp := do[*kmsg.IncrementalAlterConfigsResponse](c, req)
	var codes []int16
	for _, r := range resp.Resources {
		codes = append(codes, r.ErrorCode)
	}
	require.Equal(t, []int16{codeInvalidRequest, codeNone, codeInvalidRequest}, codes)
	require.Empty(t, r.overrides("t"))
	require.Equal(t, map[string]string{"segment.ms": "2"}, r.overrides("u"))

	req.Resources, req.ValidateOnly = req.Resources[:1], true
	require.Equal(t, codeNone, do[*kmsg.IncrementalAlterConfigsResponse](c, req).Resources[0].ErrorCode)
	require.Empty(t, r.overrides("t"), "only looked at")
}

func TestTwoClientsThatAlterATopicAtOnceBothHaveTheirWay(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	r.backend.beforeSet = func() {
		r.backend.beforeSet = nil
		require.NoError(t, r.backend.setConfigs(SetTopicConfigs{Topic: topic.ID, Overrides: map[string]string{"segment.ms": "5"}}))
	}
	code, text := c.alter(1, altering(resourceTopic, "t", alteration{"retention.ms", opSet, "1"}))
	require.Equal(t, codeNone, code, text)
	require.Equal(t, map[string]string{"segment.ms": "5", "retention.ms": "1"}, r.overrides("t"))
}
