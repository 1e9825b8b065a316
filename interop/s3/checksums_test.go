package s3

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
)

// oldStore stands in front of the server and knows nothing of S3's checksum headers and trailers, as many stores that speak
// like S3 do not: it answers 501 to them.
type oldStore struct {
	*httptest.Server
	refused, deletes, deletesOfMany atomic.Int64
}

func newOldStore(t *testing.T) *oldStore {
	s := &oldStore{}
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", shared.addr
		r.Out.Host = r.In.Host // which is signed
	}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asksForChecksums(r.Header) {
			s.refused.Add(1)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = w.Write([]byte("<Error><Code>NotImplemented</Code><Message>A header you provided is not known</Message></Error>"))
			return
		}
		switch {
		case r.Method == http.MethodDelete:
			s.deletes.Add(1)
		case r.Method == http.MethodPost && r.URL.Query().Has("delete"):
			s.deletesOfMany.Add(1)
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func asksForChecksums(h http.Header) bool {
	for name, values := range h {
		name = strings.ToLower(name)
		switch {
		case strings.HasPrefix(name, "x-amz-checksum-"), strings.HasPrefix(name, "x-amz-sdk-checksum"), name == "x-amz-trailer":
			return true
		case name == "x-amz-content-sha256" && strings.HasPrefix(values[0], "STREAMING-"):
			return true // the body would end with a trailer
		}
	}
	return false
}

// through is a bucket as it is reached through the old store.
func (s *oldStore) through(t *testing.T, bucket string) string {
	t.Helper()
	u, err := url.Parse(bucket)
	require.NoError(t, err)
	query := u.Query()
	query.Set("endpoint", s.URL)
	u.RawQuery = query.Encode()
	return u.String()
}

func TestF61_EverythingWorksInAStoreThatKnowsNoChecksumHeaders(t *testing.T) {
	old := newOldStore(t)
	t.Run("the suite", func(t *testing.T) {
		objstoretest.Run(t, func(t *testing.T) objstoretest.Opener {
			bucket := old.through(t, newBucket(t))
			return func(t *testing.T) objstore.Store { return open(t, bucket) }
		})
	})
	t.Run("the stream engine", func(t *testing.T) {
		runTheStreamEngine(t, old.through(t, newBucket(t)), "TIDEMARK_TEST_LIVES=1")
	})
	require.Zero(t, old.refused.Load(), "nothing was asked for that it does not know")
}

func TestF61_TheProbeNamesTheSettingForAStoreThatKnowsNoChecksumHeaders(t *testing.T) {
	old := newOldStore(t)
	s := open(t, old.through(t, newBucket(t))+"&request_checksum_calculation=when_supported")
	defer s.Close()
	err := objstore.Probe(t.Context(), s)
	var lack *objstore.ProbeError
	require.ErrorAs(t, err, &lack)
	require.Equal(t, objstore.FeaturePut, lack.Feature)
	require.ErrorContains(t, err, "request_checksum_calculation=when_required")
	require.False(t, objstore.Retriable(err), "waiting does not help")
	require.Positive(t, old.refused.Load())
}

func TestARealS3ServerDeletesManyKeysInOneRequest(t *testing.T) {
	old := newOldStore(t)
	s := open(t, old.through(t, newBucket(t)))
	defer s.Close()
	var keys []string
	for i := range 1500 {
		key := fmt.Sprintf("many/%d", i)
		if i%100 == 0 {
			require.NoError(t, s.Put(t.Context(), key, []byte("x")))
		}
		keys = append(keys, key)
	}
	require.NoError(t, s.Put(t.Context(), "kept", []byte("x")))
	require.NoError(t, s.Delete(t.Context(), keys...))
	require.Equal(t, [2]int64{2, 0}, [2]int64{old.deletesOfMany.Load(), old.deletes.Load()})
	page, err := s.List(t.Context(), objstore.ListRequest{})
	require.NoError(t, err)
	require.Len(t, page.Objects, 1)
}
