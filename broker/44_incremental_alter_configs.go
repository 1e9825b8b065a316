package broker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # IncrementalAlterConfigs (44): versions 0-1
//
// Changes single settings of topics and nodes: for each resource all of them or none. Concurrent changes of other
// settings by other clients are kept. The answer is sent when the new settings are durable and in force in every affected
// log; no restart is needed. validate_only makes the same checks. For nodes, this one by its id or all of them by the
// empty name, node_configs.go lists what can be changed. Loggers, groups and client metrics have no settings.
//
//	op
//	 0  SET       the value; a null one is refused
//	 1  DELETE    back to the default; no error if it is at its default, or unknown
//	 2  APPEND    adds to a list what is not yet in it: to the list in force or, for nodes, the one that is set, or Kafka's
//	              default
//	 3  SUBTRACT  removes from a list
//
//	v1  flexible
//
// Errors of a resource, checked in this order: INVALID_REQUEST for a repeated resource or setting, a null value, an
// unknown type or operation, another node, a setting of a node that cannot be changed while it runs, or not to that value
// (Kafka has this code here and not INVALID_CONFIG: KAFKA-13609); INVALID_TOPIC_EXCEPTION; INVALID_CONFIG for an unknown
// name, an invalid value, APPEND and SUBTRACT on something that is not a list; UNKNOWN_TOPIC_OR_PARTITION;
// REQUEST_TIMED_OUT, after which the change may have been made.
func incrementalAlterConfigsAPI() api {
	return api{
		key: 44, name: "IncrementalAlterConfigs", min: 0, max: 1, served: 0, flexible: 1,
		shape: shape{
			list(500, fixed(1), text(), list(250, text(), fixed(1), text())), // type, name, settings: name, op, value
			fixed(1), // validate only
		},
		handle: decoding(kmsg.NewPtrIncrementalAlterConfigsRequest, (*call).incrementalAlterConfigs),
	}
}

// The operations on a setting.
const (
	opSet      int8 = 0
	opDelete   int8 = 1
	opAppend   int8 = 2
	opSubtract int8 = 3
)

func (c *call) incrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest) (answer, error) {
	changes := make([]configChange, len(req.Resources))
	for i, r := range req.Resources {
		changes[i] = increment(r)
	}
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Resources = make([]kmsg.IncrementalAlterConfigsResponseResource, len(changes))
	for i, err := range c.alterConfigs(changes, req.ValidateOnly) {
		resp.Resources[i] = kmsg.IncrementalAlterConfigsResponseResource{
			ErrorCode: codeByTopic(err, false), ErrorMessage: message(err),
			ResourceType: req.Resources[i].ResourceType, ResourceName: req.Resources[i].ResourceName,
		}
	}
	return c.reply(resp), nil
}

func increment(r kmsg.IncrementalAlterConfigsRequestResource) configChange {
	ch := configChange{resource: int8(r.ResourceType), name: r.ResourceName}
	var values []*string
	var null []string
	for _, s := range r.Configs {
		ch.keys = append(ch.keys, s.Name)
		values = append(values, s.Value)
		if s.Value == nil && int8(s.Op) != opDelete {
			null = append(null, s.Name)
		}
	}
	ch.checked = checkKeys(ch.keys, values)
	if ch.checked == nil && null != nil {
		ch.checked = nullValues(null)
	}
	ch.merge = func(overrides map[string]string, present presentList) (map[string]string, error) {
		for _, s := range r.Configs {
			if err := mergeSetting(overrides, present, s); err != nil {
				return nil, err
			}
		}
		return overrides, nil
	}
	return ch
}

// mergeSetting applies one operation to overrides.
func mergeSetting(overrides map[string]string, present presentList, s kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	switch int8(s.Op) {
	case opSet:
		overrides[s.Name] = *s.Value
		return nil
	case opDelete:
		delete(overrides, s.Name)
		return nil
	case opAppend, opSubtract:
		return mergeList(overrides, present, s)
	}
	return &codedError{codeInvalidRequest, fmt.Sprintf("Unknown operation %d on %s", s.Op, s.Name)}
}

func mergeList(overrides map[string]string, present presentList, s kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	value, err := present(s.Name, int8(s.Op))
	if err != nil {
		return err
	}
	items := listItems(value)
	for _, item := range listItems(*s.Value) {
		switch {
		case int8(s.Op) == opSubtract:
			items = slices.DeleteFunc(items, func(have string) bool { return have == item })
		case !slices.Contains(items, item):
			items = append(items, item)
		}
	}
	overrides[s.Name] = strings.Join(items, ",")
	return nil
}

// listItems splits a list at its commas.
func listItems(text string) []string {
	if text == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
