package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

// jobPeer is a program that is handed jobs in a file, and the address of the server; see peers/jobs.py. All jobs that go
// together are done by one process.
type jobPeer func(args ...string) *exec.Cmd

// jobOf is a job as the programs read it.
type jobOf struct {
	Op         string `json:"op"`
	Topic      string `json:"topic"`
	Codec      string `json:"codec"`
	Idempotent bool   `json:"idempotent"`
	MaxBytes   int    `json:"max_bytes"`
	Records    string `json:"records"`
	Count      int    `json:"count"`
	Output     string `json:"output"`
}

func (p jobPeer) write(t *testing.T, jobs []job) {
	t.Helper()
	p.run(t, "write", jobs)
}

func (p jobPeer) read(t *testing.T, jobs []job) map[string][]corpus.Record {
	t.Helper()
	got := map[string][]corpus.Record{}
	for _, j := range p.run(t, "read", jobs) {
		data, err := os.ReadFile(j.Output)
		require.NoError(t, err)
		var records []corpus.Record
		require.NoError(t, json.Unmarshal(data, &records))
		got[j.Topic] = records
	}
	return got
}

// admin lets the program make a topic, find it, and delete it.
func (p jobPeer) admin(t *testing.T, topic string) {
	t.Helper()
	p.run(t, "admin", []job{{Topic: topic}})
}

// run hands the jobs to the program and returns them with the names of their files.
func (p jobPeer) run(t *testing.T, op string, jobs []job) []jobOf {
	t.Helper()
	dir := t.TempDir()
	save := func(name string, v any) string {
		path := filepath.Join(dir, name)
		data, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o644))
		return path
	}
	var handed []jobOf
	for i, j := range jobs {
		handed = append(handed, jobOf{
			Op: op, Topic: j.Topic, Codec: j.Codec, Idempotent: j.Idempotent, MaxBytes: j.MaxBytes, Count: len(j.Records),
			Records: save(fmt.Sprintf("records-%d.json", i), j.Records),
			Output:  filepath.Join(dir, fmt.Sprintf("output-%d.json", i)),
		})
	}
	command := p(save("jobs.json", handed), shared.under.Addr())
	out, errs, err := bounded(t, command, 3*time.Minute)
	require.NoError(t, err, "%s\n%.6000s\n%.6000s", strings.Join(command.Args, " "), out, errs)
	return handed
}
