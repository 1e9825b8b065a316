package observe

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Node are the metrics of the process as a whole. The node sets them itself.
type Node struct {
	// Ready is 1 while clients are served.
	Ready prometheus.Gauge
	// LogsToOpen and LogsOpened are how far start-up is.
	LogsToOpen, LogsOpened prometheus.Gauge
	// UncleanStarts counts starts after a stop that was not in order, 0 or 1 in one process.
	UncleanStarts prometheus.Counter
	// StrayDirectories counts directories that were moved aside because no metadata knows them.
	StrayDirectories prometheus.Counter
	// CheckpointFailures counts checkpoints that could not be written. They are tried again.
	CheckpointFailures prometheus.Counter
}

// NewNode registers the metrics of the process, those of Go's runtime among them.
func NewNode(registry prometheus.Registerer, version string) Node {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, with what is running in the labels.",
	}, []string{"version", "goversion"})
	registry.MustRegister(build)
	build.WithLabelValues(version, runtime.Version()).Set(1)

	f := factory{registry, "node"}
	return Node{
		Ready:              f.gauge("ready", "1 while clients are served."),
		LogsToOpen:         f.gauge("logs_to_open", "Partitions that this start has to open."),
		LogsOpened:         f.gauge("logs_opened", "Partitions that this start has opened."),
		UncleanStarts:      f.counter("unclean_starts_total", "Starts after a stop that was not in order."),
		StrayDirectories:   f.counter("stray_directories_total", "Directories moved aside because no metadata knows them."),
		CheckpointFailures: f.counter("checkpoint_failures_total", "Checkpoints that could not be written. They are tried again."),
	}
}
