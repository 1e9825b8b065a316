package s3

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/server"
)

// TestTheStreamEngineRunsEndToEndInABucket runs the end-to-end test of the stream engine, which is in the other module, in
// a bucket of the real server. TIDEMARK_TEST_LIVES and TIDEMARK_TEST_SEED mean there what they always do.
func TestTheStreamEngineRunsEndToEndInABucket(t *testing.T) { runTheStreamEngine(t, newBucket(t)) }

// TestProcessesOfTheStreamEngineAreKilledOverABucket kills whole processes that append, read, trim, upload and compact there.
// TIDEMARK_TEST_KILLS says how often.
func TestProcessesOfTheStreamEngineAreKilledOverABucket(t *testing.T) {
	runStreamTest(t, "TestKilledProcessesLoseNothingInABucket", newBucket(t))
}

func runTheStreamEngine(t *testing.T, bucket string, env ...string) {
	t.Helper()
	runStreamTest(t, "TestEndToEndInABucket", bucket, env...)
}

func runStreamTest(t *testing.T, name, bucket string, env ...string) {
	t.Helper()
	in, err := server.Located()
	require.NoError(t, err)
	test := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run=^"+name+"$", "./stream")
	test.Dir = in.Root()
	test.Env = append(append(os.Environ(), "TIDEMARK_TEST_STORE="+bucket), env...) // the credentials are there already
	output, err := test.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "--- PASS: "+name)
	require.NotContains(t, string(output), "no bucket to run against")
}
