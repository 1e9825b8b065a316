package node_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-io/tidemark/node/nodetest"
)

// spanNames is a collector that counts the spans of each name.
type spanNames struct {
	mu    sync.Mutex
	count map[string]int
}

func (s *spanNames) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(req.Body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &sent)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range sent.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, span := range ss.Spans {
				s.count[span.Name]++
			}
		}
	}
}

func TestWhatANodeDoesIsTracedToTheLastRequest(t *testing.T) {
	to := &spanNames{count: map[string]int{}}
	receiver := httptest.NewServer(to)
	defer receiver.Close()
	m := machine(t)
	m.Config.TraceEndpoint, m.Config.TraceSampleRatio = receiver.URL, 1
	m.Start()
	c := client(t, m)
	createTopic(t, c, 2, nil, "orders")
	produce(t, c, "orders", 0, "a")
	c.Close()
	m.Stop()
	require.Zero(t, to.of("recover log"))
	for _, name := range []string{"start", "opening partitions", "create topic", "CreateTopics", "Produce", "flush"} {
		require.Positive(t, to.of(name), name)
	}
	m.Start()
	m.CutPower(nodetest.Cut{Keep: 1})
	m.Start()
	m.Stop()
	require.Equal(t, 2, to.of("recover log"))
}

// of is how many spans of a name came.
func (s *spanNames) of(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[name]
}
