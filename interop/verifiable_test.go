package interop

import (
	"regexp"
	"strings"
	"testing"
)

// TestKafkasVerifiableClientsPrintWhatTheyPrintOfKafkasBroker has Kafka's own system test clients write and read a topic:
// every record's partition and offset, the assignment and what is committed are those of Kafka's broker.
func TestKafkasVerifiableClientsPrintWhatTheyPrintOfKafkasBroker(t *testing.T) {
	createTopics(t, nil, "verified")
	written := java(t, nil, verifiableProducer, "--bootstrap-server", shared.under.Addr(), "--topic", "verified",
		"--max-messages", "20", "--throughput", "-1", "--acks", "-1", "--value-prefix", "7", "--repeating-keys", "3")
	read := java(t, nil, verifiableConsumer, "--bootstrap-server", shared.under.Addr(), "--topic", "verified",
		"--group-id", "verified", "--max-messages", "20", "--reset-policy", "earliest", "--verbose")
	compareWithKafkas(t, "verifiable.txt", withoutMoments(written)+"\n"+withoutMoments(read))
}

// moments are what differs from run to run in the lines of the verifiable clients.
var moments = regexp.MustCompile(`"(timestamp|avg_throughput|target_throughput)":(-?[0-9.]+(E[0-9]+)?|"[^"]*"),?`)

// withoutMoments keeps the clients' lines, which are JSON objects, and drops what the logger says between them.
func withoutMoments(out []byte) string {
	var kept strings.Builder
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "{") {
			kept.WriteString(moments.ReplaceAllString(line, ""))
		}
	}
	return kept.String()
}
