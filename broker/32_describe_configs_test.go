package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/topicconfig"
)

func describeConfigs(version int16, resource int8, name string, names ...string) *kmsg.DescribeConfigsRequest {
	req := at(version, kmsg.NewPtrDescribeConfigsRequest())
	req.Resources = []kmsg.DescribeConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceType(resource), ResourceName: name, ConfigNames: names},
	}
	return req
}

// configs are the settings of an answer by their names.
func configs(resp *kmsg.DescribeConfigsResponse) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	m := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range resp.Resources[0].Configs {
		m[c.Name] = c
	}
	return m
}

func synonym(name, value string, source int8) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	return kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: name, Value: &value, Source: kmsg.ConfigSource(source)}
}

func TestDescribeConfigsTellsWhereEachSettingOfATopicComesFrom(t *testing.T) {
	r := newRig(t)
	r.backend.startedWith(map[string]string{"retention.ms": "5000", "max.message.bytes": "2000"})
	r.topic("t", 1, map[string]string{"max.message.bytes": "3000", "segment.ms": "604800000"})
	c := r.dial()
	want := map[string]struct {
		value    string
		source   int8
		kind     topicconfig.Type
		synonyms []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	}{
		"cleanup.policy": {"delete", sourceDefault, topicconfig.List, []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
			synonym("log.cleanup.policy", "delete", sourceDefault)}},
		"max.message.bytes": {"3000", sourceTopic, topicconfig.Int, []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
			synonym("max.message.bytes", "3000", sourceTopic), synonym("message.max.bytes", "2000", sourceNodeAtStart),
			synonym("message.max.bytes", "1048588", sourceDefault)}},
		"retention.ms": {"5000", sourceNodeAtStart, topicconfig.Long, []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
			synonym("log.retention.ms", "5000", sourceNodeAtStart), synonym("log.retention.hours", "168", sourceDefault)}},
		"segment.ms": {"604800000", sourceTopic, topicconfig.Long, []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
			synonym("segment.ms", "604800000", sourceTopic)}},
		"flush.ms": {"9223372036854775807", sourceDefault, topicconfig.Long, nil},
		"tidemark.flush": {"group", sourceDefault, topicconfig.String, []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
			synonym("tidemark.flush", "group", sourceDefault)}},
	}
	for version := int16(1); version <= 4; version++ {
		req := describeConfigs(version, resourceTopic, "t")
		req.IncludeSynonyms, req.IncludeDocumentation = true, true
		got := configs(do[*kmsg.DescribeConfigsResponse](c, req))
		require.Len(t, got, len(topicconfig.Definitions()))
		for name, w := range want {
			value := w.value
			wanted := kmsg.DescribeConfigsResponseResourceConfig{
				Name: name, Value: &value, Source: kmsg.ConfigSource(w.source), ConfigSynonyms: w.synonyms,
			}
			if version >= 3 {
				d, _ := topicconfig.Lookup(name)
				wanted.ConfigType, wanted.Documentation = kmsg.ConfigType(w.kind), &d.Doc
			}
			require.Equal(t, wanted, got[name], "version %d", version)
		}
	}
	got := configs(do[*kmsg.DescribeConfigsResponse](c, describeConfigs(4, resourceTopic, "t", "flush.ms", "no.such", "flush.ms")))
	require.Len(t, got, 1, "a name that does not exist is left out")
	require.Nil(t, got["flush.ms"].Documentation)
}

func TestDescribeConfigsTellsTheSettingsOfThisNode(t *testing.T) {
	r := newRig(t, func(o *Options) { o.NumPartitions, o.MaxConnections = 5, 0 })
	r.backend.startedWith(map[string]string{"retention.ms": "5000", "max.message.bytes": "2000"})
	c := r.dial()
	req := describeConfigs(4, resourceBroker, "7")
	req.IncludeSynonyms = true
	got := configs(do[*kmsg.DescribeConfigsResponse](c, req))
	for name, want := range map[string]struct {
		value    string
		source   int8
		readOnly bool
	}{
		"num.partitions":            {"5", sourceNodeAtStart, true},
		"max.connections":           {"2147483647", sourceDefault, false},
		"auto.create.topics.enable": {"true", sourceDefault, true},
		"socket.request.max.bytes":  {"104857600", sourceDefault, true},
		"node.id":                   {"7", sourceNodeAtStart, true},
		"log.retention.ms":          {"5000", sourceNodeAtStart, false},
		"log.retention.hours":       {"168", sourceDefault, true},
		"message.max.bytes":         {"2000", sourceNodeAtStart, false},
		"log.cleanup.policy":        {"delete", sourceDefault, false},
		"log.roll.hours":            {"168", sourceDefault, true},
	} {
		require.NotNil(t, got[name].Value, name)
		require.Equal(t, want.value, *got[name].Value, name)
		require.Equal(t, kmsg.ConfigSource(want.source), got[name].Source, name)
		require.Equal(t, want.readOnly, got[name].ReadOnly, name)
	}
	require.Nil(t, got["log.retention.minutes"].Value, "weaker settings have no value where a stronger one has")
	require.Nil(t, got["password"].Value)
	require.True(t, got["password"].IsSensitive)
	for _, s := range got["password"].ConfigSynonyms {
		require.Nil(t, s.Value)
	}
	require.Len(t, got, len(do[*kmsg.DescribeConfigsResponse](c, req).Resources[0].Configs), "no name appears twice")
	require.Empty(t, configs(do[*kmsg.DescribeConfigsResponse](c, describeConfigs(4, resourceBroker, ""))))
}

func TestDescribeConfigsErrors(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for _, test := range []struct {
		resource int8
		name     string
		want     int16
	}{
		{resourceTopic, "nowhere", codeUnknownTopicOrPartition},
		{resourceTopic, "a b", codeInvalidTopicException},
		{resourceBroker, "8", codeInvalidRequest},
		{resourceBroker, "seven", codeInvalidRequest},
		{resourceBrokerLogger, "8", codeInvalidRequest},
		{resourceBrokerLogger, "7", codeNone},
		{resourceClientMetrics, "", codeInvalidRequest},
		{resourceClientMetrics, "m", codeNone},
		{resourceGroup, "", codeInvalidRequest},
		{resourceGroup, "g", codeNone},
		{99, "g", codeInvalidRequest},
	} {
		resp := do[*kmsg.DescribeConfigsResponse](c, describeConfigs(4, test.resource, test.name))
		require.Equal(t, test.want, resp.Resources[0].ErrorCode, "%v", test)
		require.Equal(t, test.want == codeNone, *resp.Resources[0].ErrorMessage == "", "%v", test)
		require.Empty(t, resp.Resources[0].Configs)
	}
}

func TestTheSettingsOfFiveThousandTopicsCanBeAskedForAtOnce(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1, nil)
	c := r.dial()
	req := describeConfigs(4, resourceTopic, "t")
	for range 4999 {
		req.Resources = append(req.Resources, req.Resources[0])
	}
	resp := do[*kmsg.DescribeConfigsResponse](c, req)
	require.Len(t, resp.Resources, 5000)
	require.Len(t, resp.Resources[4999].Configs, len(topicconfig.Definitions()))
}
