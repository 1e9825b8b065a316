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

	"github.com/tidemark-io/tidemark/stream/catalog"
)

type streamID = catalog.StreamID

// latencies are single measurements.
type latencies []time.Duration

func (l *latencies) add(d time.Duration) { *l = append(*l, d) }

func (l *latencies) merge(other latencies) { *l = append(*l, other...) }

// at returns a quantile, 0 to 1.
func (l latencies) at(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// loadResult is one load.
type loadResult struct {
	store     string
	streams   int
	load      load
	latencies latencies
	bare      latencies
	took      time.Duration
	bill      bill
}

// report gathers results and renders them.
type report struct {
	command string
	began   time.Time
	singles [][]string
	loads   []loadResult
}

func newReport(command string) *report { return &report{command: command, began: time.Now()} }

func (r *report) single(store, what, result, aim string) {
	fmt.Fprintf(os.Stderr, "  %s: %s\n", what, result)
	r.singles = append(r.singles, []string{store, what, result, aim})
}

func (r *report) lone(store string, bare, appends latencies, requests float64) {
	r.single(store, "append on an idle bucket, p50", fmt.Sprintf("%s, %.2f times a bare PUT (%s); %.2f requests each",
		short(appends.at(0.5)), ratio(appends.at(0.5), bare.at(0.5)), short(bare.at(0.5)), requests), "at most 1.15 times, 1 request")
}

func (r *report) load(l loadResult) {
	r.loads = append(r.loads, l)
	fmt.Fprintf(os.Stderr, "  %s, %d streams: %.0f/s\n", l.load.name, l.streams, float64(len(l.latencies))/l.took.Seconds())
}

func (r *report) tail(store string, records int, requests int64, l latencies) {
	r.single(store, "read of what was just acknowledged", fmt.Sprintf("%d requests for %d reads, p50 %s", requests, records,
		short(l.at(0.5))), "no request")
}

func (r *report) scan(store string, scans, bare []float64) {
	s, b := median(scans), median(bare)
	r.single(store, "cold scan of one stream", fmt.Sprintf("%.0f MB/s (%.0f to %.0f), %.0f%% of parallel range GETs (%.0f MB/s, %.0f to %.0f)",
		s/1e6, slices.Min(scans)/1e6, slices.Max(scans)/1e6, 100*s/b, b/1e6, slices.Min(bare)/1e6, slices.Max(bare)/1e6), "90%")
}

// median is the middle one of some numbers.
func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}

// reading is the cost of one scan's requests, including those that open the engine. The minimum is one GET for each MiB,
// as the bare reads do it.
func (r *report) reading(store string, size int64, cost bill) {
	gib := float64(size) / (1 << 30)
	r.single(store, "requests of that scan", fmt.Sprintf("%.0f GET or HEAD and %.0f PUT, POST or LIST a GiB, $%.5f a GiB, %.2f times a GET for each MiB",
		float64(cost.reads)/gib, float64(cost.writes)/gib, cost.price()/gib, cost.price()/(float64(size>>20)*readPrice)), "")
}

func (r *report) recovery(store string, size int64, took, bare time.Duration) {
	r.single(store, "recovery after a crash", fmt.Sprintf("%s for %d MiB of log, %s a GiB; %.2f times a bare upload of as much (%s)", short(took),
		size>>20, short(time.Duration(float64(took)*float64(1<<30)/float64(size))), ratio(took, bare), short(bare)), "the store's own time")
}

func (r *report) memory(store string, peak, caches int64) {
	r.single(store, fmt.Sprintf("heap with %d streams under load", manyStreams), fmt.Sprintf("%d MiB; its caches and what may be on its way "+
		"are set to %d MiB", peak>>20, caches>>20), "64 MiB above the caches")
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// minimum is the lowest possible price with group commit: an object of the log for each 8 MiB or interval, whichever is
// more often, and the data once more in parts of 16 MiB.
func (l loadResult) minimum() float64 {
	groups := float64(l.bill.written/2) / (8 << 20)
	if l.load.interval > 0 {
		groups = max(groups, l.took.Seconds()/l.load.interval.Seconds())
	}
	return (groups + float64(l.bill.written/2)/(16<<20)) * writePrice
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, %s, %s.\n\n", r.command, r.began.UTC().Format("2006-01-02"), machine())
	fmt.Fprintln(&b, "| store | what | measured | aim |\n|---|---|---|---|")
	for _, s := range r.singles {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(s, " | "))
	}
	fmt.Fprintf(&b, "\nAppends of 1 KiB by %d clients. The bare PUTs are of objects as large as the log's were on average, one after "+
		"the other. Times PUT is p99 less the interval, over the bare PUT's p99. Without an interval a group goes out "+
		"when the one before it is stored and those who were answered have come again, so each round trip is an object.\n\n", loadClients)
	fmt.Fprintln(&b, "| store | load | streams | appends/s | MB/s | p50 | p99 | bare PUT p50 | p99 | times PUT | PUT, POST, LIST a GiB | $ a GiB | times the least |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, l := range r.loads {
		gib := float64(len(l.latencies)) * 1024 / (1 << 30)
		least := "–" // without an interval nothing waits, and each round trip is an object
		if l.load.interval > 0 {
			least = fmt.Sprintf("%.2f", l.bill.price()/l.minimum())
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %.0f | %.1f | %s | %s | %s | %s | %.1f | %.0f | %.4f | %s |\n", l.store, l.load.name, l.streams,
			float64(len(l.latencies))/l.took.Seconds(), float64(len(l.latencies))*1024/l.took.Seconds()/1e6,
			short(l.latencies.at(0.5)), short(l.latencies.at(0.99)), short(l.bare.at(0.5)), short(l.bare.at(0.99)),
			ratio(max(l.latencies.at(0.99)-l.load.interval, 0), l.bare.at(0.99)), float64(l.bill.writes)/gib, l.bill.price()/gib,
			least)
	}
	return b.String()
}

// machine describes the machine of the measurements.
func machine() string {
	model := "unknown processor"
	if out, err := exec.Command("sh", "-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2").Output(); err == nil {
		model = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%d cores of %s, %s", runtime.NumCPU(), model, runtime.Version())
}

const (
	sectionBegin = "<!-- bench:streams begin -->"
	sectionEnd   = "<!-- bench:streams end -->"
)

// replaceSection puts text between the markers of a file.
func replaceSection(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(sectionBegin))
	_, after, closed := bytes.Cut(rest, []byte(sectionEnd))
	if !ok || !closed {
		return fmt.Errorf("%s has no %s and %s", path, sectionBegin, sectionEnd)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%s%s\n\n%s\n%s%s", before, sectionBegin, text, sectionEnd, after), 0o644)
}
