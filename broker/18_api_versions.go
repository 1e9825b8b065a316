package broker

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// # ApiVersions (18): versions 0-5
//
// Lists the APIs and versions that are served. Clients send it first on every connection.
//
// This is the one API that answers an unsupported version: with error 35, in the layout of version 0, and one key, {18, 0, 5},
// which tells the client what to try next. The body of such a request is not parsed, because its layout is unknown.
// The header of a response never has tagged fields. Produce is listed from version 0 although 0-2 are refused: librdkafka
// up to 2.11.0 compresses only if version 0 is listed.
//
//	v1  throttle time at the end
//	v3  flexible; client software name and version; features as tagged fields
//	v4  supported features may have minimum 0
//	v5  cluster id and node id that the client expects to meet (KIP-1242)
//
// Errors: UNSUPPORTED_VERSION; INVALID_REQUEST for a software name or version outside of [a-zA-Z0-9.-] or with a dot or
// dash at an end; REBOOTSTRAP_REQUIRED, without keys, when the client expects another cluster or node.
func apiVersionsAPI() api {
	return api{
		key: apiVersionsKey, name: "ApiVersions", min: 0, max: 5, served: 0, flexible: 3,
		shape: shape{
			text().since(3), text().since(3), text().since(5), fixed(4).since(5), // software, cluster id, node id
		},
		handle: (*call).apiVersions,
	}
}

const apiVersionsKey = 18

// Levels of Kafka's metadata.version feature, which tools print: 33 is 4.4-IV2.
const (
	oldestMetadataVersion = 7
	newestMetadataVersion = 33
)

func (c *call) apiVersions() (answer, error) {
	if !c.api.supports(c.version) {
		return c.unsupportedAPIVersions(), nil
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(c.version)
	if err := req.ReadFrom(c.body); err != nil {
		return nil, unparsable(err)
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	switch {
	case c.version >= 3 && !(validSoftwareName(req.ClientSoftwareName) && validSoftwareName(req.ClientSoftwareVersion)):
		resp.ErrorCode = codeInvalidRequest
	case c.version >= 5 && c.expectsAnother(req):
		resp.ErrorCode = codeRebootstrapRequired
	default:
		resp.ApiKeys = c.server.advertised()
		resp.FinalizedFeaturesEpoch = 0
		resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{
			{Name: "metadata.version", MinVersion: oldestMetadataVersion, MaxVersion: newestMetadataVersion},
		}
		resp.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{
			{Name: "metadata.version", MinVersionLevel: newestMetadataVersion, MaxVersionLevel: newestMetadataVersion},
		}
	}
	return c.reply(resp), nil
}

// unsupportedAPIVersions answers in version 0, which every client reads.
func (c *call) unsupportedAPIVersions() answer {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = codeUnsupportedVersion
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: apiVersionsKey, MinVersion: c.api.min, MaxVersion: c.api.max}}
	asked := c.version
	c.version = 0
	defer func() { c.version = asked }()
	return c.reply(resp)
}

// expectsAnother reports whether the client expects another cluster or node.
func (c *call) expectsAnother(req *kmsg.ApiVersionsRequest) bool {
	if req.ClusterID == nil {
		return false
	}
	return *req.ClusterID != c.server.backend.ClusterID() || req.NodeID >= 0 && req.NodeID != c.server.backend.NodeID()
}

// advertised lists the APIs in the order of their keys.
func (s *Server) advertised() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(s.apis))
	for a := range maps.Values(s.apis) {
		keys = append(keys, kmsg.ApiVersionsResponseApiKey{ApiKey: a.key, MinVersion: a.min, MaxVersion: a.max})
	}
	slices.SortFunc(keys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return keys
}

// validSoftwareName is Kafka's rule for software names and versions: letters, digits, and, but for the ends, '.' and '-'.
func validSoftwareName(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		b := s[i]
		alphanumeric := b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
		if !alphanumeric && (b != '.' && b != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return true
}
