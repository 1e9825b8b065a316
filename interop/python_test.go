package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

func TestConfluentKafka(t *testing.T) {
	exchange(t, pythonPeer{"confluent_peer.py"}, traits{idempotent: true})
}

func TestKafkaPython(t *testing.T) {
	exchange(t, pythonPeer{"kafka_python_peer.py"}, traits{
		writes:     corpus.Abilities{NoBareNulls: true, NoHeaderNulls: true},
		idempotent: true,
	})
}

func TestPythonClientsCreateListAndDeleteTopics(t *testing.T) {
	for _, script := range []string{"confluent_peer.py", "kafka_python_peer.py"} {
		t.Run(script, func(t *testing.T) {
			pythonPeer{script}.run(t, "admin", []job{{Topic: "made-by-" + script}})
			topics, err := kadm.NewClient(client(t)).ListTopics(limited(t, time.Minute))
			require.NoError(t, err)
			require.False(t, topics.Has("made-by-"+script), "it was not deleted")
		})
	}
}

// pythonPeer is a script in peers/ that carries out jobs; see peers/jobs.py.
type pythonPeer struct{ script string }

type pythonJob struct {
	Op         string `json:"op"`
	Topic      string `json:"topic"`
	Codec      string `json:"codec"`
	Idempotent bool   `json:"idempotent"`
	MaxBytes   int    `json:"max_bytes"`
	Records    string `json:"records"`
	Count      int    `json:"count"`
	Output     string `json:"output"`
}

func (p pythonPeer) write(t *testing.T, jobs []job) {
	t.Helper()
	p.run(t, "write", jobs)
}

func (p pythonPeer) read(t *testing.T, jobs []job) map[string][]corpus.Record {
	t.Helper()
	got := map[string][]corpus.Record{}
	for _, job := range p.run(t, "read", jobs) {
		data, err := os.ReadFile(job.Output)
		require.NoError(t, err)
		var records []corpus.Record
		require.NoError(t, json.Unmarshal(data, &records))
		got[job.Topic] = records
	}
	return got
}

// run hands the jobs to the script, all in one process, and returns them with the names of their files.
func (p pythonPeer) run(t *testing.T, op string, jobs []job) []pythonJob {
	t.Helper()
	dir := t.TempDir()
	save := func(name string, v any) string {
		path := filepath.Join(dir, name)
		data, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o644))
		return path
	}
	var handed []pythonJob
	for i, j := range jobs {
		handed = append(handed, pythonJob{
			Op: op, Topic: j.Topic, Codec: j.Codec, Idempotent: j.Idempotent, MaxBytes: j.MaxBytes, Count: len(j.Records),
			Records: save(fmt.Sprintf("records-%d.json", i), j.Records),
			Output:  filepath.Join(dir, fmt.Sprintf("output-%d.json", i)),
		})
	}
	command := shared.install.Python(p.script, save("jobs.json", handed), shared.under.Addr())
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", p.script, out)
	return handed
}
