package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # DescribeConfigs (32): versions 1-4
//
// Returns settings of topics and of this node, all or the named ones: the value, its source, and its other possible
// sources. A name that does not exist is left out. A value that is Kafka's default counts as not set, so tools do not
// print it. A node's settings are read-only if they cannot be changed while it runs. Loggers, client metrics
// subscriptions and groups have no settings here.
//
//	type  resource        name
//	   2  topic           its name
//	   4  broker          this node's id; empty: only what was set for all nodes while they ran
//	   8  broker logger   this node's id
//	  16  client metrics  any but empty
//	  32  group           any but empty
//
//	v1  sources and synonyms
//	v3  types, documentation
//	v4  flexible
//
// Errors of a resource: UNKNOWN_TOPIC_OR_PARTITION; INVALID_TOPIC_EXCEPTION; INVALID_REQUEST for another node, an empty name
// and an unknown type.
func describeConfigsAPI() api {
	return api{
		key: 32, name: "DescribeConfigs", min: 1, max: 4, served: 1, flexible: 4,
		shape: shape{
			list(6<<10, fixed(1), text(), listOf(textCost, text())), // type, name, settings
			fixed(1), fixed(1).since(3), // synonyms, documentation
		},
		handle: decoding(kmsg.NewPtrDescribeConfigsRequest, (*call).describeConfigs),
	}
}

func (c *call) describeConfigs(req *kmsg.DescribeConfigsRequest) (answer, error) {
	topics := c.server.backend.Topics()
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Resources = make([]kmsg.DescribeConfigsResponseResource, len(req.Resources))
	for i, asked := range req.Resources {
		entries, err := c.describeResource(topics, asked)
		r := &resp.Resources[i]
		r.ResourceType, r.ResourceName = asked.ResourceType, asked.ResourceName
		if err != nil {
			r.ErrorCode, r.ErrorMessage = codeByTopic(err, false), message(err)
			continue
		}
		r.ErrorMessage = kmsg.StringPtr("") // as Kafka does; some clients take null for an error without a text
		for _, e := range entries {
			if len(asked.ConfigNames) == 0 || slices.Contains(asked.ConfigNames, e.name) {
				r.Configs = append(r.Configs, e.described(req))
			}
		}
	}
	return c.reply(resp), nil
}

// describeResource returns the settings of one resource.
func (c *call) describeResource(topics Topics, asked kmsg.DescribeConfigsRequestResource) ([]configEntry, error) {
	name := asked.ResourceName
	switch int8(asked.ResourceType) {
	case resourceTopic:
		if err := checkTopicName(name); err != nil {
			return nil, err
		}
		t, err := topicRef{name: name}.find(topics)
		if err != nil {
			return nil, err
		}
		return c.topicEntries(t)
	case resourceBroker:
		if name == "" {
			return c.server.backend.NodeConfigs().overrideEntries(), nil
		}
		if err := c.checkBrokerName(name); err != nil {
			return nil, err
		}
		return c.brokerEntries(), nil
	case resourceBrokerLogger:
		return nil, c.checkBrokerName(name)
	case resourceClientMetrics, resourceGroup:
		if name == "" {
			return nil, &codedError{codeInvalidRequest, "The name must not be empty."}
		}
		return nil, nil
	}
	return nil, &codedError{codeInvalidRequest, "Unknown resource type."}
}

// described converts a setting to the protocol's form.
func (e *configEntry) described(req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	d := kmsg.NewDescribeConfigsResponseResourceConfig()
	d.Name, d.Value, d.ReadOnly, d.IsSensitive = e.name, e.value, e.readOnly, e.secret
	d.Source, d.ConfigType = kmsg.ConfigSource(e.source), kmsg.ConfigType(e.kind)
	if e.secret {
		d.Value = nil
	}
	if req.IncludeDocumentation {
		d.Documentation = &e.doc
	}
	if !req.IncludeSynonyms {
		return d
	}
	for _, s := range e.synonyms {
		synonym := kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: s.name, Source: kmsg.ConfigSource(s.source)}
		if !e.secret {
			synonym.Value = &s.value
		}
		d.ConfigSynonyms = append(d.ConfigSynonyms, synonym)
	}
	return d
}
