package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// replace sets all settings of a resource; pairs of a name and a value, "-" is null.
func replace(version int16, resource int8, name string, pairs ...string) *kmsg.AlterConfigsRequest {
	req := at(version, kmsg.NewPtrAlterConfigsRequest())
	r := kmsg.AlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceType(resource), ResourceName: name}
	for i := 0; i < len(pairs); i += 2 {
		c := kmsg.AlterConfigsRequestResourceConfig{Name: pairs[i]}
		if pairs[i+1] != "-" {
			c.Value = &pairs[i+1]
		}
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return req
}

func TestAlterConfigsReplacesAllSettingsInEveryVersion(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1, map[string]string{"flush.ms": "5"})
	c := r.dial()
	for version, want := range []map[string]string{{"retention.ms": "7"}, {"segment.ms": "8"}, {}} {
		var pairs []string
		for name, value := range want {
			pairs = append(pairs, name, value)
		}
		resp := do[*kmsg.AlterConfigsResponse](c, replace(int16(version), resourceTopic, "t", pairs...))
		require.Equal(t, []kmsg.AlterConfigsResponseResource{
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"},
		}, resp.Resources)
		require.Equal(t, want, r.overrides("t"))
	}
	req := replace(2, resourceTopic, "t", "retention.ms", "7")
	req.ValidateOnly = true
	require.Equal(t, codeNone, do[*kmsg.AlterConfigsResponse](c, req).Resources[0].ErrorCode)
	require.Empty(t, r.overrides("t"))
}

func TestAlterConfigsErrors(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1, map[string]string{"flush.ms": "5"})
	c := r.dial()
	for _, test := range []struct {
		req  *kmsg.AlterConfigsRequest
		want int16
	}{
		{replace(2, resourceTopic, "t", "retention.ms", "-"), codeInvalidRequest},
		{replace(2, resourceTopic, "t", "retention.ms", "1", "retention.ms", "2"), codeInvalidRequest},
		{replace(2, resourceTopic, "t", "no.such", "1"), codeInvalidConfig},
		{replace(2, resourceTopic, "nowhere", "retention.ms", "1"), codeUnknownTopicOrPartition},
		{replace(2, resourceTopic, "a b", "retention.ms", "1"), codeInvalidTopicException},
		{replace(2, resourceBrokerLogger, "7", "root", "INFO"), codeInvalidRequest},
		{replace(2, resourceBroker, "7", "num.partitions", "3"), codeInvalidRequest},
		{replace(2, 77, "7", "num.partitions", "3"), codeInvalidRequest},
	} {
		resp := do[*kmsg.AlterConfigsResponse](c, test.req)
		require.Equal(t, test.want, resp.Resources[0].ErrorCode, "%v", test.req.Resources)
		require.NotEmpty(t, *resp.Resources[0].ErrorMessage)
		require.Equal(t, map[string]string{"flush.ms": "5"}, r.overrides("t"))
	}
}
