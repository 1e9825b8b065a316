package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # ListConfigResources (74): versions 0-1
//
// Lists the resources that have settings: topics, nodes and their loggers. Version 0 asks for client metrics
// subscriptions; there are none, and no settings of groups either.
//
//	v1  the types to list; none asks for all
//
// Errors: UNSUPPORTED_VERSION for a type that Kafka does not know, which is what its clients expect of an older server.
func listConfigResourcesAPI() api {
	return api{
		key: 74, name: "ListConfigResources", min: 0, max: 1, served: 0, flexible: 0,
		shape:  shape{listOf(1, fixed(1)).since(1)},
		handle: decoding(kmsg.NewPtrListConfigResourcesRequest, (*call).listConfigResources),
	}
}

func (c *call) listConfigResources(req *kmsg.ListConfigResourcesRequest) (answer, error) {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	types := req.ResourceTypes
	switch {
	case c.version == 0:
		types = []int8{resourceClientMetrics}
	case len(types) == 0:
		types = allResources
	}
	for _, asked := range types {
		if !slices.Contains(allResources, asked) {
			resp.ErrorCode = codeUnsupportedVersion
			return c.reply(resp), nil
		}
	}
	add := func(name string, resource int8) {
		resp.ConfigResources = append(resp.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: resource})
	}
	for _, resource := range []int8{resourceBrokerLogger, resourceBroker} {
		if slices.Contains(types, resource) {
			for _, n := range c.server.backend.Nodes(c.conn.info.Via) {
				add(strconv.Itoa(int(n.ID)), resource)
			}
		}
	}
	if slices.Contains(types, resourceTopic) {
		for t := range c.server.backend.Topics().All() {
			add(t.Name, resourceTopic)
		}
	}
	return c.reply(resp), nil
}
