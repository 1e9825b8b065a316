package cloud_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
)

// storesVariable has the URLs of buckets, without a path and separated by spaces, that are there for this test to write to.
const storesVariable = "TIDEMARK_TEST_STORES"

// TestStoresOfTheEnvironmentPassTheSuite runs against any store that the environment names and has credentials for. That is
// how Google's and Azure's, and their emulators, are tried; see docs/proofs.md.
func TestStoresOfTheEnvironmentPassTheSuite(t *testing.T) {
	urls := strings.Fields(os.Getenv(storesVariable))
	if len(urls) == 0 {
		t.Logf("%s is not set: no bucket to run against", storesVariable)
	}
	for _, url := range urls {
		scheme, _, _ := strings.Cut(url, ":")
		bucket, query, _ := strings.Cut(url, "?")
		var prefixes atomic.Int64
		run := time.Now().UnixNano()
		t.Run(scheme, func(t *testing.T) {
			objstoretest.Run(t, func(t *testing.T) objstoretest.Opener {
				prefix := fmt.Sprintf("%s/tidemark-suite/%d-%d?%s", bucket, run, prefixes.Add(1), query)
				return func(t *testing.T) objstore.Store {
					s, err := cloud.Open(t.Context(), prefix, cloud.Options{PartBytes: cloud.MinPartBytes})
					require.NoError(t, err)
					return s
				}
			})
		})
	}
}
