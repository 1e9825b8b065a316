package broker

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one row of the table of APIs.
type api struct {
	key      int16
	name     string // Kafka's
	min, max int16  // as listed by ApiVersions
	served   int16  // the lowest version that is executed: min, except for Produce
	flexible int16  // the first version with compact strings and tagged fields
	shape    shape  // of the request

	// handle executes a request. It owns the request's bytes until it returns. It may block on the backend and on a log
	// that is full, but must not wait for what only other clients can bring about (a flush, new records): the answer it
	// returns does that. A nil answer means that the client expects none. An error closes the connection after the
	// answers to earlier requests.
	handle func(*call) (answer, error)
}

// apiTable lists every API that is served. The rows are in the files of their handlers; absent.md lists the others.
func apiTable() []api {
	return []api{
		produceAPI(),
		fetchAPI(),
		listOffsetsAPI(),
		metadataAPI(),
		offsetCommitAPI(),
		offsetFetchAPI(),
		findCoordinatorAPI(),
		joinGroupAPI(),
		heartbeatAPI(),
		leaveGroupAPI(),
		syncGroupAPI(),
		describeGroupsAPI(),
		listGroupsAPI(),
		apiVersionsAPI(),
		createTopicsAPI(),
		deleteTopicsAPI(),
		deleteRecordsAPI(),
		initProducerIDAPI(),
		offsetForLeaderEpochAPI(),
		describeConfigsAPI(),
		alterConfigsAPI(),
		describeLogDirsAPI(),
		createPartitionsAPI(),
		deleteGroupsAPI(),
		incrementalAlterConfigsAPI(),
		offsetDeleteAPI(),
		describeClusterAPI(),
		describeProducersAPI(),
		listConfigResourcesAPI(),
		describeTopicPartitionsAPI(),
	}
}

// supports reports whether a request of this version is executed.
func (a *api) supports(version int16) bool { return version >= a.served && version <= a.max }

// isFlexible reports whether requests and responses of this version have tagged fields.
func (a *api) isFlexible(version int16) bool { return version >= a.flexible }

// taggedResponseHeader reports whether the header of a response of this version has tagged fields. That of ApiVersions
// never has: its client cannot know yet which versions are spoken.
func (a *api) taggedResponseHeader(version int16) bool {
	return a.isFlexible(version) && a.key != apiVersionsKey
}

// call is one request in execution.
type call struct {
	requestHeader
	api     *api
	server  *Server
	conn    *conn
	arrived time.Time // when the last byte was read
	body    []byte    // the handler's until it returns
	details *details  // nil if no details are wanted
}

// decoding wraps a handler of decoded requests. Strings of the request are copies; byte slices alias the body.
func decoding[R kmsg.Request](fresh func() R, handle func(*call, R) (answer, error)) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		req := fresh()
		req.SetVersion(c.version)
		if err := req.ReadFrom(c.body); err != nil {
			return nil, unparsable(err)
		}
		c.details.names(req)
		return handle(c, req)
	}
}

// decodingAliased is [decoding] without copies: strings of the request, too, alias the body. A handler clones what it
// keeps.
func decodingAliased[R interface {
	kmsg.Request
	kmsg.UnsafeReadFrom
}](fresh func() R, handle func(*call, R) (answer, error)) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		req := fresh()
		req.SetVersion(c.version)
		if err := req.UnsafeReadFrom(c.body); err != nil {
			return nil, unparsable(err)
		}
		c.details.names(req)
		return handle(c, req)
	}
}

// hangUp is the error of a request that is answered by closing the connection.
type hangUp struct {
	reason CloseReason
	err    error
}

func (h *hangUp) Error() string { return fmt.Sprintf("%s: %v", h.reason, h.err) }

func (h *hangUp) Unwrap() error { return h.err }

func unparsable(err error) error {
	return &hangUp{ClosedRefused, fmt.Errorf("the body does not parse: %w", err)}
}
