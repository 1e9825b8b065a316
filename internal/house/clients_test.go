package house

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// versionOf finds the one version that a file of the interop tests installs.
func versionOf(t *testing.T, file, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(readFile(t, "interop/"+file))
	require.NotNil(t, found, "%s has no %s", file, pattern)
	return found[1]
}

func TestU17_ThePageOfClientsNamesTheVersionsThatAreRun(t *testing.T) {
	kafka := versionOf(t, "kafka/pom.xml", `<kafka\.version>(\S+)</kafka\.version>`)
	want := map[string]string{
		"Apache Kafka, Java clients":       kafka,
		"Apache Kafka, command line tools": kafka,
		"Apache Kafka, broker":             kafka,
		"franz-go":                         versionOf(t, "go.mod", `github\.com/twmb/franz-go (v\S+)`),
		"sarama":                           versionOf(t, "go.mod", `github\.com/IBM/sarama (v\S+)`),
		"kafka-go":                         versionOf(t, "go.mod", `github\.com/segmentio/kafka-go (v\S+)`),
		"confluent-kafka (librdkafka)":     versionOf(t, "peers/requirements.txt", `confluent-kafka==(\S+)`),
		"kafka-python":                     versionOf(t, "peers/requirements.txt", `kafka-python==(\S+)`),
		"aiokafka":                         versionOf(t, "peers/requirements.txt", `aiokafka==(\S+)`),
		"kafkajs":                          versionOf(t, "peers/package.json", `"kafkajs": "(\S+)"`),
		"kcat (an old librdkafka)":         "Debian's",
	}
	got := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| [^|]+ \| ([^|]+) \|$`).FindAllStringSubmatch(readFile(t, "docs/clients.md"), -1) {
		if row[1] == "client" {
			continue
		}
		got[row[1]] = row[2]
		for _, file := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[3], -1) {
			if strings.HasSuffix(file[1], ".go") {
				require.NotEmpty(t, readFile(t, "interop/"+file[1]))
			}
		}
	}
	require.Equal(t, want, got)
	require.Contains(t, readFile(t, ".ci/run"), "make interop")
}

func TestF63_ThePageOfClientsNamesTheOlderVersionsThatAreRun(t *testing.T) {
	want := []string{}
	for _, version := range strings.Fields(readFile(t, "interop/kafka/clients.txt")) {
		want = append(want, "Apache Kafka, Java client "+version)
	}
	want = append(want,
		"confluent-kafka-go (librdkafka 1.4.2) "+versionOf(t, "older/go.mod", `confluentinc/confluent-kafka-go (v\S+)`),
		"sarama, as of Kafka 1.0 (its default) and 2.5 "+versionOf(t, "older/go.mod", `Shopify/sarama (v\S+)`),
		"kafka-go "+versionOf(t, "older/go.mod", `segmentio/kafka-go (v\S+)`),
		"kafka-python "+versionOf(t, "peers/requirements-older.txt", `kafka-python==(\S+)`),
		"aiokafka "+versionOf(t, "peers/requirements-older.txt", `aiokafka==(\S+)`),
		"kafkajs "+versionOf(t, "peers/older/package.json", `"kafkajs": "(\S+)"`),
	)
	var got []string
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| (v?\d[^|]+) \| \d{4} \| [^|]+ \| [^|]+ \| yes \|$`)
	for _, row := range rows.FindAllStringSubmatch(readFile(t, "docs/clients.md"), -1) {
		got = append(got, row[1]+" "+row[2])
	}
	require.Equal(t, want, got)
}
