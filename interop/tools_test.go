package interop

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// update writes what the tools print to the files that they are compared with. It is for INTEROP_SERVER=kafka: the files
// are what Apache Kafka's own broker makes them print.
var update = flag.Bool("update", false, "write testdata/tools instead of comparing with it")

// Main classes of Apache Kafka's command line tools.
const (
	topicsTool        = "org.apache.kafka.tools.TopicCommand"
	configsTool       = "org.apache.kafka.tools.ConfigCommand"
	deleteRecordsTool = "org.apache.kafka.tools.DeleteRecordsCommand"
	getOffsetsTool    = "org.apache.kafka.tools.GetOffsetShell"
	logDirsTool       = "org.apache.kafka.tools.LogDirsCommand"
	clusterTool       = "org.apache.kafka.tools.ClusterTool"
	transactionsTool  = "org.apache.kafka.tools.TransactionsCommand"
	featuresTool      = "org.apache.kafka.tools.FeatureCommand"
	quorumTool        = "org.apache.kafka.tools.MetadataQuorumCommand"
)

// commandFirst are the tools that want the server before the command.
var commandFirst = []string{transactionsTool, featuresTool, quorumTool}

// toolRun is one run of a tool.
type toolRun struct {
	main string
	args []string
	code int
	out  string
}

// runTools runs tools one after the other, in one JVM.
func runTools(t *testing.T, runs []toolRun) []toolRun {
	t.Helper()
	var lines bytes.Buffer
	for _, r := range runs {
		args := r.args
		if slices.Contains(commandFirst, r.main) {
			args = append([]string{"--bootstrap-server", shared.under.Addr()}, args...)
		} else {
			args = append(slices.Clone(args), "--bootstrap-server", shared.under.Addr())
		}
		fmt.Fprintln(&lines, strings.Join(append([]string{r.main}, args...), "\t"))
	}
	command := shared.install.Java(filepath.Join("peers", "Tools.java"))
	command.Stdin = &lines
	out, errs, err := bounded(t, command, 3*time.Minute)
	require.NoError(t, err, "%.3000s", errs)
	for i := range runs {
		var size int
		_, err := fmt.Sscanf(string(out), "exit %d %d\n", &runs[i].code, &size)
		require.NoError(t, err, "%.300s\n%.3000s", out, errs)
		out = out[bytes.IndexByte(out, '\n')+1:]
		runs[i].out, out = string(out[:size]), out[size:]
	}
	return runs
}

func TestKafkasAdminToolsPrintWhatTheyPrintOfKafkasBroker(t *testing.T) {
	createTopics(t, map[string]string{"segment.ms": "1000000"}, "tools")
	createTopics(t, nil, "tools-compact")
	c := client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 10 {
		record := &kgo.Record{Topic: "tools", Value: fmt.Appendf(nil, "%d", i), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}
		require.NoError(t, c.ProduceSync(limited(t, time.Minute), record).FirstErr())
	}
	offsets := filepath.Join(t.TempDir(), "offsets.json")
	wrong := filepath.Join(t.TempDir(), "wrong.json")
	require.NoError(t, os.WriteFile(offsets, []byte(`{"partitions": [{"topic": "tools", "partition": 0, "offset": 4}], "version": 1}`), 0o600))
	require.NoError(t, os.WriteFile(wrong, []byte(`{"partitions": [{"topic": "tools", "partition": 0, "offset": 99}], "version": 1}`), 0o600))

	topic := func(name string, more ...string) []string { return append([]string{"--topic", name}, more...) }
	config := func(more ...string) []string { return append([]string{"--topic", "tools"}, more...) }
	runs := []toolRun{
		{main: topicsTool, args: topic("tools", "--describe")},
		{main: topicsTool, args: topic("tools", "--alter", "--partitions", "3")},
		{main: topicsTool, args: topic("tools", "--describe")},
		{main: topicsTool, args: topic("tools", "--alter", "--partitions", "2")},
		{main: topicsTool, args: topic("tools-nowhere", "--describe")},
		{main: topicsTool, args: topic("tools.*", "--list")},
		{main: configsTool, args: config("--describe")},
		{main: configsTool, args: config("--describe", "--all")},
		{main: configsTool, args: config("--alter", "--add-config", "max.message.bytes=2000,cleanup.policy=[compact,delete]")},
		{main: configsTool, args: config("--describe")},
		{main: configsTool, args: config("--alter", "--delete-config", "segment.ms,max.message.bytes")},
		{main: configsTool, args: config("--describe")},
		{main: configsTool, args: config("--alter", "--add-config", "retention.ms=soon")},
		{main: configsTool, args: config("--alter", "--add-config", "no.such.name=1")},
		{main: configsTool, args: []string{"--alter", "--broker", "1", "--add-config", "num.partitions=3"}},
		{main: getOffsetsTool, args: topic("tools", "--time", "-1")},
		{main: getOffsetsTool, args: topic("tools", "--time", "-3")},
		{main: getOffsetsTool, args: topic("tools", "--time", "1700000000005")},
		{main: deleteRecordsTool, args: []string{"--offset-json-file", offsets}},
		{main: deleteRecordsTool, args: []string{"--offset-json-file", wrong}},
		{main: getOffsetsTool, args: topic("tools", "--time", "-2")},
		{main: getOffsetsTool, args: topic("tools", "--time", "-4")},
		{main: getOffsetsTool, args: topic("tools", "--time", "-5")},
		{main: logDirsTool, args: []string{"--describe", "--topic-list", "tools"}},
		{main: clusterTool, args: []string{"cluster-id"}},
		{main: clusterTool, args: []string{"list-endpoints"}},
		{main: transactionsTool, args: []string{"describe-producers", "--topic", "tools", "--partition", "0"}},
	}
	var got strings.Builder
	for _, r := range runTools(t, runs) {
		name := r.main[strings.LastIndexByte(r.main, '.')+1:]
		shown := strings.ReplaceAll(strings.ReplaceAll(strings.Join(r.args, " "), offsets, "OFFSETS"), wrong, "WRONG")
		fmt.Fprintf(&got, "$ %s %s\n%sexit %d\n\n", name, shown, comparable(t, r), r.code)
	}
	compareWithKafkas(t, "admin.txt", got.String())
}

// What differs from server to server, and what stands for it.
var (
	topicIDs   = regexp.MustCompile(`TopicId: [A-Za-z0-9_-]{22}`)
	clusterIDs = regexp.MustCompile(`Cluster ID: [A-Za-z0-9_-]{22}`)
	configList = regexp.MustCompile(`Configs: .*`)
	// Log lines and stacks; what they say is in the lines before them.
	logLines   = regexp.MustCompile(`(?m)^(\tat |\t\.\.\. |Caused by: |\[[0-9-]+ [0-9:,]+\] |[0-9-]+T[0-9:.]+Z ).*\n`)
	exceptions = regexp.MustCompile(`(?m)^(java|org)\..*$`)
	hints      = regexp.MustCompile(` \((did you mean|gone since)[^)]*\)`)
	producers  = regexp.MustCompile(`(?m)^[0-9]+(\s+[0-9]+\s+-1\s)`)
	blanks     = regexp.MustCompile(`[ \t]+`)
)

// comparable is what a tool printed without what differs from server to server: addresses, ids, directories, the order of
// settings, and the settings that only one of the two has.
func comparable(t *testing.T, r toolRun) string {
	t.Helper()
	out := strings.ReplaceAll(r.out, shared.under.Addr(), "HOST:PORT")
	_, port, _ := strings.Cut(shared.under.Addr(), ":")
	out = strings.ReplaceAll(out, port, "PORT")
	out = topicIDs.ReplaceAllString(out, "TopicId: ID")
	out = clusterIDs.ReplaceAllString(out, "Cluster ID: ID")
	out = logLines.ReplaceAllString(out, "")
	out = hints.ReplaceAllString(out, "")
	out = exceptions.ReplaceAllStringFunc(out, strings.ToLower) // Kafka begins the reason with a capital
	out = configList.ReplaceAllStringFunc(out, sortedConfigs)
	switch r.main {
	case logDirsTool:
		out = comparableLogDirs(t, out)
	case transactionsTool:
		out = producers.ReplaceAllString(out, "ID${1}")
	}
	var lines []string
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if strings.Contains(line, "tidemark.") {
			continue
		}
		// The default of min.insync.replicas is a setting of the cluster in a new Kafka.
		line = strings.ReplaceAll(line, "DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1, ", "")
		lines = append(lines, strings.TrimSpace(blanks.ReplaceAllString(line, " ")))
	}
	return strings.Join(lines, "\n") + "\n"
}

func sortedConfigs(list string) string {
	text, _ := strings.CutPrefix(list, "Configs: ")
	settings := strings.Split(strings.TrimSpace(text), ",")
	settings = slices.DeleteFunc(settings, func(s string) bool { return s == "min.insync.replicas=1" })
	slices.Sort(settings)
	return "Configs: " + strings.Join(settings, ",")
}

// comparableLogDirs sorts the partitions of kafka-log-dirs' JSON.
func comparableLogDirs(t *testing.T, out string) string {
	t.Helper()
	at := strings.IndexByte(out, '{')
	require.GreaterOrEqual(t, at, 0, out)
	var told map[string]any
	require.NoError(t, json.Unmarshal([]byte(out[at:]), &told), out)
	for _, broker := range told["brokers"].([]any) {
		for _, d := range broker.(map[string]any)["logDirs"].([]any) {
			dir := d.(map[string]any)
			require.True(t, filepath.IsAbs(dir["logDir"].(string)))
			dir["logDir"] = "DIR"
			slices.SortFunc(dir["partitions"].([]any), func(a, b any) int {
				return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
			})
		}
	}
	text, err := json.Marshal(told)
	require.NoError(t, err)
	return out[:at] + string(text) + "\n"
}
