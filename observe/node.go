package observe

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Node holds the metrics of the process as a whole. The node sets them itself.
type Node struct {
	// Ready is 1 while clients are served.
	Ready prometheus.Gauge
	// LogsToOpen and LogsOpened show the progress of start-up.
	LogsToOpen, LogsOpened prometheus.Gauge
	// UncleanStarts counts starts after an unclean stop: 0 or 1 in one process.
	UncleanStarts prometheus.Counter
	// StrayDirectories counts directories that were moved aside because the metadata does not know them.
	StrayDirectories prometheus.Counter
	// FilesSetAside counts damaged files of the data directory that were kept aside and rebuilt.
	FilesSetAside prometheus.Counter
	// CheckpointFailures counts checkpoints that could not be written. They are retried.
	CheckpointFailures prometheus.Counter
	// PartitionsLimit is how many partitions the node may have; 0 is no limit.
	PartitionsLimit prometheus.Gauge
	// PartitionsRefused counts requests for partitions beyond the limit.
	PartitionsRefused prometheus.Counter
	// LowDisk is 1 while producers are refused because little space is left. LowDiskTimes counts how often that began.
	LowDisk      prometheus.Gauge
	LowDiskTimes prometheus.Counter
}

// NewNode registers the metrics of the process, those of Go's runtime among them.
func NewNode(registry prometheus.Registerer, version string) Node {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	factory{registry, ""}.gauges("build_info", "1, with what is running in the labels.", "version", "goversion").
		WithLabelValues(version, runtime.Version()).Set(1)

	f := factory{registry, "node"}
	return Node{
		Ready:              f.gauge("ready", "1 while clients are served."),
		LogsToOpen:         f.gauge("logs_to_open", "Partitions that this start has to open."),
		LogsOpened:         f.gauge("logs_opened", "Partitions that this start has opened."),
		UncleanStarts:      f.counter("unclean_starts_total", "Starts after an unclean stop."),
		StrayDirectories:   f.counter("stray_directories_total", "Directories moved aside because the metadata does not know them."),
		FilesSetAside:      f.counter("files_set_aside_total", "Damaged files of the data directory, and damaged partition.metadata files, that were kept in the quarantine and rebuilt."),
		CheckpointFailures: f.counter("checkpoint_failures_total", "Checkpoints that could not be written. They are retried."),
		PartitionsLimit:    f.gauge("partitions_limit", "Partitions that the node may have; 0: no limit."),
		PartitionsRefused:  f.counter("partitions_refused_total", "Times that partitions were not created because the node would have had too many."),
		LowDisk:            f.gauge("low_disk", "1 while producers are refused because less space is free than the reserve."),
		LowDiskTimes:       f.counter("low_disk_total", "Times that less space was free than the reserve."),
	}
}

// HostingState is what a node hosts.
type HostingState struct {
	Topics, Partitions int
	Failed             int // partitions that could not be opened, or accept no records because their disk failed
}

// Hosting observes what the node hosts. state is called at each scrape.
func Hosting(registry prometheus.Registerer, state func() HostingState) {
	f := factory{registry, "node"}
	f.gaugeFunc("topics", "Topics on this node.", func() float64 { return float64(state().Topics) })
	f.gaugeFunc("partitions", "Partitions on this node.", func() float64 { return float64(state().Partitions) })
	f.gaugeFunc("partitions_failed", "Partitions that could not be opened or accept no records because their disk failed.",
		func() float64 { return float64(state().Failed) })
}

// DiskState is the space on the file system of the data directory, in bytes.
type DiskState struct {
	Free, Total, Reserve int64
}

// Disk observes the free space. state is called at each scrape.
func Disk(registry prometheus.Registerer, state func() DiskState) {
	f := factory{registry, "disk"}
	d := &disk{
		state:   state,
		free:    f.describe(Gauge, "free_bytes", "Bytes that the server may still write on the file system of the data directory."),
		total:   f.describe(Gauge, "size_bytes", "Bytes of the file system of the data directory."),
		reserve: f.describe(Gauge, "reserve_bytes", "Free bytes below which producers are refused; 0: never."),
	}
	registry.MustRegister(d)
}

type disk struct {
	state                func() DiskState
	free, total, reserve *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (d *disk) Describe(out chan<- *prometheus.Desc) {
	out <- d.free
	out <- d.total
	out <- d.reserve
}

// Collect implements prometheus.Collector. Unknown values are not exported.
func (d *disk) Collect(out chan<- prometheus.Metric) {
	s := d.state()
	if s.Total > 0 {
		out <- prometheus.MustNewConstMetric(d.free, prometheus.GaugeValue, float64(s.Free))
		out <- prometheus.MustNewConstMetric(d.total, prometheus.GaugeValue, float64(s.Total))
	}
	out <- prometheus.MustNewConstMetric(d.reserve, prometheus.GaugeValue, float64(s.Reserve))
}
