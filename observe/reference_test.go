package observe

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

func TestThePageOfMetricsIsCurrent(t *testing.T) {
	const page = "../docs/metrics.md"
	var made bytes.Buffer
	require.NoError(t, WriteReference(&made))
	if *update {
		require.NoError(t, os.WriteFile(page, made.Bytes(), 0o644))
	}
	kept, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, made.String(), string(kept), "make it anew with: go test ./observe -update")
}

func TestTheReferenceSaysWhatIsRegistered(t *testing.T) {
	listed := map[string]Metric{}
	for _, m := range Reference() {
		require.NotContains(t, listed, m.Name)
		require.NotEmpty(t, m.Help, m.Name)
		listed[m.Name] = m
	}
	registry := prometheus.NewRegistry()
	NewNode(registry, "v1.2.3")
	Disk(registry, func() DiskState { return DiskState{Free: 1, Total: 2, Reserve: 1} })
	Meta(registry, slog.New(slog.DiscardHandler))
	families, err := registry.Gather()
	require.NoError(t, err)
	kinds := map[dto.MetricType]Kind{
		dto.MetricType_COUNTER: Counter, dto.MetricType_GAUGE: Gauge, dto.MetricType_HISTOGRAM: Histogram,
	}
	found := 0
	for _, f := range families {
		if m, ok := listed[f.GetName()]; ok {
			require.Equal(t, m.Kind, kinds[f.GetType()], m.Name)
			require.Equal(t, m.Help, f.GetHelp(), m.Name)
			found++
		}
	}
	require.Greater(t, found, 15)
}
