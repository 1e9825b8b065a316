package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// # AlterConfigs (33): versions 0-2
//
// Replaces all of a topic's own settings, or all settings that were made for nodes while they ran: those that are not
// named return to their defaults. The answer is sent when the new settings are durable and in force in every affected
// log. validate_only makes the same checks. Clients should use IncrementalAlterConfigs; since 4.0 the Java client has
// only that.
//
//	v2  flexible
//
// Errors of a resource: as for IncrementalAlterConfigs; loggers cannot be altered with it.
func alterConfigsAPI() api {
	return api{
		key: 33, name: "AlterConfigs", min: 0, max: 2, served: 0, flexible: 2,
		shape: shape{
			list(500, fixed(1), text(), list(250, text(), text())), // type, name, settings: name, value
			fixed(1), // validate only
		},
		handle: decoding(kmsg.NewPtrAlterConfigsRequest, (*call).replaceConfigs),
	}
}

func (c *call) replaceConfigs(req *kmsg.AlterConfigsRequest) (answer, error) {
	changes := make([]configChange, len(req.Resources))
	for i, r := range req.Resources {
		changes[i] = replacement(r)
	}
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.Resources = make([]kmsg.AlterConfigsResponseResource, len(changes))
	for i, err := range c.alterConfigs(changes, req.ValidateOnly) {
		resp.Resources[i] = kmsg.AlterConfigsResponseResource{
			ErrorCode: codeByTopic(err, false), ErrorMessage: message(err),
			ResourceType: req.Resources[i].ResourceType, ResourceName: req.Resources[i].ResourceName,
		}
	}
	return c.reply(resp), nil
}

func replacement(r kmsg.AlterConfigsRequestResource) configChange {
	ch := configChange{resource: int8(r.ResourceType), name: r.ResourceName}
	var values []*string
	var null []string
	overrides := map[string]string{}
	for _, s := range r.Configs {
		ch.keys = append(ch.keys, s.Name)
		values = append(values, s.Value)
		if s.Value == nil {
			null = append(null, s.Name)
			continue
		}
		overrides[s.Name] = *s.Value
	}
	ch.checked = checkKeys(ch.keys, values)
	switch {
	case ch.resource == resourceBrokerLogger:
		ch.checked = &codedError{codeInvalidRequest, "Unknown resource type 8"}
	case ch.checked == nil && null != nil:
		ch.checked = nullValues(null)
	}
	ch.merge = func(map[string]string, presentList) (map[string]string, error) { return overrides, nil }
	return ch
}
