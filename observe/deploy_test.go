package observe

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// foreign are metrics that are not ours: of the Go and process collectors, and Prometheus' own.
var foreign = []string{
	"up", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
	"process_start_time_seconds", "go_memstats_heap_inuse_bytes", "go_goroutines",
}

// outer are labels that Prometheus adds to every series of a server.
var outer = []string{"job", "instance", "le"}

// Parts of a query that hold no name of a metric.
var (
	promText     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	promRange    = regexp.MustCompile(`\[[^\]]*\]`)
	promGrouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	promSelector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	promName     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	promLabel    = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)`)
)

// query is what a PromQL expression asks for.
type query struct {
	names  []string            // of metrics
	labels map[string][]string // that selectors name, by metric
	groups []string            // labels that it groups by
}

// parseQuery finds the names in a query without knowing the language: a word that is neither a function (a parenthesis
// follows), nor an operator, nor inside a selector, a range or a grouping is a metric's.
func parseQuery(text string) query {
	q := query{labels: map[string][]string{}}
	text = promText.ReplaceAllString(text, `""`)
	text = promRange.ReplaceAllString(text, "")
	for _, m := range promGrouping.FindAllStringSubmatch(text, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			q.groups = append(q.groups, strings.TrimSpace(label))
		}
	}
	text = promGrouping.ReplaceAllString(text, "")
	for _, m := range promSelector.FindAllStringSubmatch(text, -1) {
		for _, label := range promLabel.FindAllStringSubmatch(m[2], -1) {
			q.labels[m[1]] = append(q.labels[m[1]], label[1])
		}
	}
	text = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(text, "")
	for _, word := range promName.FindAllString(text, -1) {
		if strings.HasSuffix(word, "(") || slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, strings.TrimSpace(word)) {
			continue
		}
		q.names = append(q.names, strings.TrimSpace(word))
	}
	return q
}

func TestQueriesAreTakenApart(t *testing.T) {
	got := parseQuery(`histogram_quantile(0.99, sum by (le, api) (rate(a_bucket{api="x{y}", job=~"$job"}[5m]))) > 0.5 and b_total or (c - d{})`)
	require.Equal(t, query{
		names:  []string{"a_bucket", "b_total", "c", "d"},
		labels: map[string][]string{"a_bucket": {"api", "job"}},
		groups: []string{"le", "api"},
	}, got)
}

// checkQuery holds a query against what there is.
func checkQuery(t *testing.T, where, text string) {
	t.Helper()
	q := parseQuery(text)
	require.NotEmpty(t, q.names, "%s: %s", where, text)
	var known []string
	for _, name := range q.names {
		labels, ok := labelsOf(name)
		require.True(t, ok, "%s: there is no metric %s\n%s", where, name, text)
		known = append(known, labels...)
		for _, label := range q.labels[name] {
			require.Contains(t, append(labels, outer...), label, "%s: %s has no such label\n%s", where, name, text)
		}
	}
	for _, label := range q.groups {
		require.Contains(t, append(known, outer...), label, "%s: nothing has such a label\n%s", where, text)
	}
}

// labelsOf returns the labels of a metric, under any of the names that its samples have.
func labelsOf(name string) (labels []string, ok bool) {
	if slices.Contains(foreign, name) {
		return nil, true
	}
	for _, m := range Reference() {
		samples := []string{m.Name}
		if m.Kind == Histogram {
			samples = []string{m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}
		}
		if slices.Contains(samples, name) {
			return slices.Clone(m.Labels), true
		}
	}
	return nil, false
}

func TestEveryQueryOfTheBoardNamesARealMetric(t *testing.T) {
	type target struct{ Expr, LegendFormat string }
	var board struct {
		Annotations struct{ List []target }
		Panels      []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []target
		}
		Templating struct {
			List []struct {
				Name  string
				Query json.RawMessage
			}
		}
	}
	text, err := os.ReadFile("../deploy/grafana/tidemark.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &board))
	queries, ids := 0, map[int]bool{}
	for _, p := range board.Panels {
		require.False(t, ids[p.ID], "panel %q has the id of another", p.Title)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, q := range p.Targets {
			checkQuery(t, p.Title, q.Expr)
			queries++
		}
	}
	for _, a := range board.Annotations.List {
		checkQuery(t, "annotation", a.Expr)
	}
	require.Contains(t, string(board.Templating.List[1].Query), "tidemark_build_info")
	require.Greater(t, queries, 40)
}

func TestEveryAlertNamesARealMetricAndARunbook(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Expr        string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile("../deploy/grafana/alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &rules))
	runbooks := headings(t, "../docs/operations.md")
	require.Greater(t, len(rules.Groups[0].Rules), 10)
	for _, r := range rules.Groups[0].Rules {
		checkQuery(t, r.Alert, r.Expr)
		require.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		anchor, ok := strings.CutPrefix(r.Annotations["runbook"], "docs/operations.md#")
		require.True(t, ok, r.Alert)
		require.Contains(t, runbooks, anchor, r.Alert)
	}
}

// headings returns the anchors of a page's headings.
func headings(t *testing.T, page string) (anchors []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			clean := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors = append(anchors, strings.ReplaceAll(clean, " ", "-"))
		}
	}
	return anchors
}
