package importer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultsOfKafkasTopicsThatTheServerDoesNotHaveAreTold(t *testing.T) {
	m := newMachine(t)
	require.Equal(t, map[string]string{"retention.ms": "-1"}, m.mustPlan(nil).TopicDefaults, "set while the brokers ran")
	properties := map[string]string{
		"log.retention.hours": "24", "log.segment.bytes": "104857600", "log.roll.hours": "168", "min.insync.replicas": "2",
		"log.cleanup.policy": "", "broker.id": "1",
	}
	require.Equal(t, map[string]string{"retention.ms": "-1", "segment.bytes": "104857600"},
		m.mustPlan(func(o *Options) { o.Properties = properties }).TopicDefaults)
	require.Equal(t, map[string]string{"segment.bytes": "104857600"}, m.mustPlan(func(o *Options) {
		o.Properties, o.TopicDefaults = properties, map[string]string{"retention.ms": "-1"}
	}).TopicDefaults)
	require.Equal(t, map[string]string{"retention.ms": "86400000"}, topicDefaults(map[string]string{"log.retention.hours": "24"}))
	require.Equal(t, map[string]string{"retention.ms": "60000"},
		topicDefaults(map[string]string{"log.retention.hours": "24", "log.retention.minutes": "1"}))
	require.Equal(t, map[string]string{"retention.ms": "-1"}, topicDefaults(map[string]string{"log.retention.hours": "-1"}))
}
