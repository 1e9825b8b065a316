package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The settings of nodes that can be changed while they run. What is not compared is the one difference: Kafka's broker keeps
// a setting whose name it does not know, for what may be plugged into it, and Tidemark refuses it.
func TestKafkasConfigToolPrintsOfNodesWhatItPrintsOfKafkasBroker(t *testing.T) {
	createTopics(t, nil, "follows")
	const all, one = "--entity-default", "--entity-name=1"
	describe := func(which string) toolRun {
		return toolRun{main: configsTool, args: []string{"--describe", "--entity-type", "brokers", which}}
	}
	alter := func(which, how, what string) toolRun {
		return toolRun{main: configsTool, args: []string{"--alter", "--entity-type", "brokers", which, how, what}}
	}
	const add, remove = "--add-config", "--delete-config"
	topic := toolRun{main: configsTool, args: []string{"--describe", "--all", "--topic", "follows"}}
	node := toolRun{main: configsTool, args: []string{"--describe", "--all", "--entity-type", "brokers", one}}
	runs := []toolRun{
		describe(all), describe(one),
		alter(all, add, "log.retention.bytes=3000000,log.cleanup.policy=[compact,delete],log.roll.ms=50000000"), describe(all), describe(one), topic,
		alter(one, add, "log.retention.bytes=2000000,max.connections.per.ip=5000"), describe(all), describe(one), topic, node,
		alter(all, add, "num.partitions=3"),
		alter(one, add, "log.retention.hours=3"),
		alter(all, add, "log.retention.bytes=much"),
		alter(one, add, "log.segment.bytes=7"),
		alter(one, remove, "log.roll.ms"),
		alter(one, remove, "log.retention.bytes,max.connections.per.ip"), describe(one), topic,
		alter(all, remove, "log.retention.bytes,log.cleanup.policy,log.roll.ms"), describe(all), describe(one), topic,
	}
	var got strings.Builder
	for _, r := range runTools(t, runs) {
		name := r.main[strings.LastIndexByte(r.main, '.')+1:]
		fmt.Fprintf(&got, "$ %s %s\n%sexit %d\n\n", name, strings.Join(r.args, " "), settingsOf(comparable(t, r)), r.code)
	}
	answersToAlterations(t, &got)
	compareWithKafkas(t, "brokers.txt", got.String())
}

// alteredHere begin the names of the settings that the test has to do with, of nodes and of topics.
var alteredHere = []string{
	"log.retention.", "log.roll.", "log.cleanup.policy=", "retention.bytes=", "segment.ms=", "cleanup.policy=", "max.connections.per.ip=",
}

// settingsOf leaves out of descriptions the settings that the test has nothing to do with, and the one that a new Kafka has of
// all nodes.
func settingsOf(out string) string {
	var kept []string
	for _, line := range strings.SplitAfter(out, "\n") {
		if !strings.Contains(line, " sensitive=") || slices.ContainsFunc(alteredHere, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// answersToAlterations writes down what the server answers to changes that the tool does not make.
func answersToAlterations(t *testing.T, got *strings.Builder) {
	t.Helper()
	c := client(t)
	null := "null"
	for _, a := range []struct {
		node  string
		op    kmsg.IncrementalAlterConfigOp
		name  string
		value string

		all, one string // log.cleanup.policy as it is set of all nodes, and as it is in force, after it
	}{
		{"", kmsg.IncrementalAlterConfigOpAppend, "log.cleanup.policy", "compact", "delete,compact", "delete,compact"},
		{"1", kmsg.IncrementalAlterConfigOpSubtract, "log.cleanup.policy", "delete", "delete,compact", ""},
		{"", kmsg.IncrementalAlterConfigOpAppend, "log.retention.bytes", "5", "delete,compact", ""},
		{"1", kmsg.IncrementalAlterConfigOpSubtract, "log.retention.bytes", "5", "delete,compact", ""},
		{"1", kmsg.IncrementalAlterConfigOpAppend, "no.such.name", "5", "delete,compact", ""},
		{"1", kmsg.IncrementalAlterConfigOpDelete, "no.such.name", null, "delete,compact", ""},
		{"1", kmsg.IncrementalAlterConfigOpDelete, "num.partitions", null, "delete,compact", ""},
		{"1", kmsg.IncrementalAlterConfigOpSet, "log.retention.bytes", null, "delete,compact", ""},
		{"1", kmsg.IncrementalAlterConfigOpSet, "log.cleanup.policy", "what", "delete,compact", ""},
		{"", kmsg.IncrementalAlterConfigOpSet, "max.connections", "few", "delete,compact", ""},
		{"9", kmsg.IncrementalAlterConfigOpSet, "max.connections", "5", "delete,compact", ""},
		{"1", kmsg.IncrementalAlterConfigOpDelete, "log.cleanup.policy", null, "delete,compact", "delete,compact"},
		{"", kmsg.IncrementalAlterConfigOpDelete, "log.cleanup.policy", null, "", "delete"},
	} {
		setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		setting.Name, setting.Op = a.name, a.op
		if a.value != null {
			setting.Value = &a.value
		}
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: a.node,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{setting},
		}}
		resp, err := c.Broker(1).RetriableRequest(limited(t, time.Minute), req)
		require.NoError(t, err)
		answer := resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
		text := ""
		if answer.ErrorMessage != nil {
			text = strings.ToLower(*answer.ErrorMessage) // Kafka begins the reason with a capital
		}
		fmt.Fprintf(got, "%s %s=%s of node %q: %v %s\n", a.op, a.name, a.value, a.node, kerr.TypedErrorForCode(answer.ErrorCode), text)
		require.Eventually(t, func() bool { return policyOf(t, c) == a.all && policyOf(t, c, 1) == a.one }, time.Minute, 10*time.Millisecond,
			"%v: Kafka answers before its broker follows", a)
	}
}

// policyOf is what log.cleanup.policy is set to of all nodes, or is of some.
func policyOf(t *testing.T, c *kgo.Client, nodes ...int32) string {
	t.Helper()
	told, err := kadm.NewClient(c).DescribeBrokerConfigs(limited(t, time.Minute), nodes...)
	require.NoError(t, err)
	for _, config := range told[0].Configs {
		if config.Key == "log.cleanup.policy" {
			return config.MaybeValue()
		}
	}
	return ""
}
