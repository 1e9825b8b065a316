package interop

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of the tests in franz-go's own suite 39 talk to a broker; all others pass whatever a broker does, so only these are
// worth counting, and by their names.
var (
	// suiteMustPass is what a broker with classic groups but without transactions and SASL has to pass.
	suiteMustPass = []string{
		"TestAddRemovePartitions",
		"TestClient_Produce",
		"TestClient_ProduceLargeMessages",
		"TestConsumeMaxDecompressBatchBytes",
		"TestConsumeRegex",
		"TestConsumeTopicRetrieval",
		"TestConsumeTopicRetrieval_Many",
		"TestDirectPartitionPurge",
		"TestGroupETL",
		"TestGroupSimple",
		"TestHookPollStart",
		"TestIssue1034",
		"TestIssue325",
		"TestIssue337",
		"TestIssue434",
		"TestIssue523",
		"TestIssue648",
		"TestIssue769",
		"TestIssue810",
		"TestIssue831",
		"TestIssue865",
		"TestIssueFetchLargerThanBrokerMaxReadBytes",
		"TestIssueProduceSyncManualPartitionNegativeDoesNotPanic",
		"TestPauseIssue489",
		"TestPauseIssueOct2023",
		"TestPing",
		"TestPooling",
		"TestUnknownGroupOffsetFetchPinned",
	}
	// suiteMaySkip is what skips itself: it looks for an API that is not there, or for credentials that nobody gave it.
	suiteMaySkip = []string{
		"Test848RegexBrokerResolves",
		"TestConsumeRegexShareSkipsInternal",
		"TestIssueProduceBrokerTooOldFailsRecords", // skips where Produce is offered from version 0, as every Kafka 4 does
		"TestOAuthAuth",
		"TestSCRAMAuth",
		"TestSCRAMAuthBadCredentials",
		"TestShareGroup",
		"TestShareGroupAckOnClose",
		"TestShareGroupETL",
		"TestShareGroupOffsetsAdmin",
	}
	// suiteNotYet needs transactions and is not run.
	suiteNotYet = []string{"TestTxnEtl"}
)

var suiteOutcome = regexp.MustCompile(`(?m)^--- (PASS|SKIP|FAIL): (\w+)`)

func TestFranzGosOwnSuitePassesWithoutTransactions(t *testing.T) {
	require.Len(t, append(append(suiteMustPass, suiteMaySkip...), suiteNotYet...), 39)
	binary := filepath.Join(t.TempDir(), "kgo.test")
	build := exec.Command("go", "test", "-c", "-o", binary, "github.com/twmb/franz-go/pkg/kgo")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	where, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/twmb/franz-go/pkg/kgo").Output()
	require.NoError(t, err)

	ctx := limited(t, 6*time.Minute)
	s, err := shared.maker.New(t.TempDir()) // of its own: some of the tests look at every topic that there is
	require.NoError(t, err)
	defer s.Kill()
	require.NoError(t, s.Start(ctx))

	command := exec.CommandContext(ctx, binary, "-test.v", "-test.count=1", "-test.parallel=16",
		"-test.timeout=5m", "-test.skip", "^("+strings.Join(suiteNotYet, "|")+")$")
	command.Dir = strings.TrimSpace(string(where)) // one of its tests reads the sources
	command.Env = append(os.Environ(), "KGO_SEEDS="+s.Addr(), "KGO_TEST_RF=1", "KGO_LOG_LEVEL=none",
		"KGO_TEST_RECORDS=50000")
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err = command.Run()

	outcome := map[string]string{}
	for _, m := range suiteOutcome.FindAllStringSubmatch(output.String(), -1) {
		outcome[m[2]] = m[1]
	}
	for _, name := range suiteMustPass {
		require.Equal(t, "PASS", outcome[name], "%s\n%s", name, suiteReport(output.String(), name))
	}
	for name, got := range outcome {
		require.NotEqual(t, "FAIL", got, "%s\n%s", name, suiteReport(output.String(), name))
		if got == "SKIP" {
			require.Contains(t, suiteMaySkip, name, "%s skipped itself", name)
		}
	}
	require.NoError(t, err, "%s", lastLines(output.String(), 40))
	require.NoError(t, s.Stop(ctx))
	t.Logf("%d tests talked to the server and passed", len(suiteMustPass))
}

// suiteReport returns what the suite printed of one test, or the end of its output when it printed nothing of it.
func suiteReport(output, name string) string {
	var lines []string
	inside := false
	for _, line := range strings.Split(output, "\n") {
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			inside = strings.HasSuffix(line, " "+name) || strings.Contains(line, ": "+name+" ")
		}
		if inside {
			lines = append(lines, line)
		}
	}
	if lines == nil {
		return lastLines(output, 40)
	}
	return lastLines(strings.Join(lines, "\n"), 60)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
