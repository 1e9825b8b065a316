package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// results are all measurements of a run.
type results struct {
	phase time.Duration
	warm  time.Duration
	rows  []*row
}

// row is all rounds of one phase of one workload on one server.
type row struct {
	workload string
	phase    string // produce or consume
	server   string
	phases   []phase
}

func (r *results) add(v *variant, w workload, partitions int, produced, consumed phase) {
	name := fmt.Sprintf("%s, %d partitions", w.name, partitions)
	if partitions == 1 {
		name = w.name + ", 1 partition"
	}
	r.addPhase(v, name, "produce", produced)
	if consumed.records > 0 {
		r.addPhase(v, name, "consume", consumed)
	}
}

func (r *results) addPhase(v *variant, workload, name string, p phase) {
	for _, row := range r.rows {
		if row.workload == workload && row.phase == name && row.server == v.title {
			row.phases = append(row.phases, p)
			return
		}
	}
	r.rows = append(r.rows, &row{workload: workload, phase: name, server: v.title, phases: []phase{p}})
}

// spread is a median with the least and the largest value.
type spread struct{ median, least, most float64 }

func spreadOf[T any](rounds []T, of func(T) float64) spread {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = of(r)
	}
	slices.Sort(values)
	middle := values[len(values)/2]
	if len(values)%2 == 0 {
		middle = (middle + values[len(values)/2-1]) / 2
	}
	return spread{median: middle, least: values[0], most: values[len(values)-1]}
}

func (s spread) format(f string) string {
	return fmt.Sprintf(f+" ("+f+" – "+f+")", s.median, s.least, s.most)
}

// thousands writes a count with a comma between groups of three digits.
func thousands(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func (s spread) counts() string {
	return fmt.Sprintf("%s (%s – %s)", thousands(s.median), thousands(s.least), thousands(s.most))
}

// table renders the results as Markdown.
func (r *results) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Throughput: %v a producing phase, Kafka (%s heap) warmed by %v of load, one franz-go client with acks=all and "+
		"idempotence, on the cores that the server uses too.\n\n", r.phase, kafkaHeap, r.warm)
	b.WriteString("| workload | phase | server | records/s | server CPU, µs/record | client CPU, µs/record | server's peak memory, MiB |\n|---|---|---|---:|---:|---:|---:|\n")
	rows := slices.Clone(r.rows)
	place := func(one *row) int { // of its workload and phase, in the order in which they were first measured
		return slices.IndexFunc(r.rows, func(other *row) bool {
			return other.workload == one.workload && other.phase == one.phase
		})
	}
	slices.SortStableFunc(rows, func(x, y *row) int { return place(x) - place(y) })
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", row.workload, row.phase, row.server,
			spreadOf(row.phases, phase.perSecond).counts(),
			spreadOf(row.phases, phase.cpuPerRecord).format("%.2f"),
			spreadOf(row.phases, phase.clientCPUPerRecord).format("%.2f"),
			spreadOf(row.phases, phase.peakMiB).format("%.0f"))
	}
	return b.String()
}

// machine describes what the run ran on.
func machine() string {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown")
	}
	java := "no Java"
	if out, err := exec.Command("java", "-version").CombinedOutput(); err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		java = strings.ReplaceAll(strings.TrimSpace(first), `"`, "")
	}
	return fmt.Sprintf("Run of %s on %d cores of %s, Linux %s, %s, %s.", time.Now().UTC().Format("2006-01-02"),
		runtime.NumCPU(), processor(), strings.TrimSpace(string(kernel)), runtime.Version(), java)
}

func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for _, line := range strings.Split(string(info), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}

// replaceSection puts text between the two lines of a Markdown file that mark the section of that name.
func replaceSection(path, name, section string) error {
	begin, end := "<!-- bench:"+name+" begin -->\n", "<!-- bench:"+name+" end -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	head, rest, ok := bytes.Cut(text, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("bench: %s lacks the lines %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	replaced := slices.Concat(head, []byte(begin), []byte("\n"+section+"\n"), []byte(end), tail)
	if err := os.WriteFile(path, replaced, 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}
