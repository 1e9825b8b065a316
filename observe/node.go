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
	// FilesSetAside counts files of the data directory that were damaged, kept aside and made again.
	FilesSetAside prometheus.Counter
	// CheckpointFailures counts checkpoints that could not be written. They are tried again.
	CheckpointFailures prometheus.Counter
	// PartitionsLimit is how many partitions the node may have; 0: as many as one likes.
	PartitionsLimit prometheus.Gauge
	// PartitionsRefused counts requests for partitions that would have been too many.
	PartitionsRefused prometheus.Counter
	// LowDisk is 1 while produce is refused because little space is left, and LowDiskTimes counts how often that began.
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
		UncleanStarts:      f.counter("unclean_starts_total", "Starts after a stop that was not in order."),
		StrayDirectories:   f.counter("stray_directories_total", "Directories moved aside because no metadata knows them."),
		FilesSetAside:      f.counter("files_set_aside_total", "Files of the data directory, and partition.metadata files, that were damaged: they were kept in the quarantine and made again."),
		CheckpointFailures: f.counter("checkpoint_failures_total", "Checkpoints that could not be written. They are tried again."),
		PartitionsLimit:    f.gauge("partitions_limit", "Partitions that the node may have; 0: as many as one likes."),
		PartitionsRefused:  f.counter("partitions_refused_total", "Times that partitions were not made because the node would have too many."),
		LowDisk:            f.gauge("low_disk", "1 while produce is refused because less space is free than the reserve."),
		LowDiskTimes:       f.counter("low_disk_total", "Times that less space was free than the reserve."),
	}
}

// HostingState is what a node holds.
type HostingState struct {
	Topics, Partitions int
	Failed             int // partitions that could not be opened, or take no records because their disk failed
}

// Hosting observes what the node holds. It is asked at each scrape.
func Hosting(registry prometheus.Registerer, state func() HostingState) {
	f := factory{registry, "node"}
	f.gaugeFunc("topics", "Topics that are here.", func() float64 { return float64(state().Topics) })
	f.gaugeFunc("partitions", "Partitions that are here.", func() float64 { return float64(state().Partitions) })
	f.gaugeFunc("partitions_failed", "Partitions that could not be opened or take no records because their disk failed.",
		func() float64 { return float64(state().Failed) })
}

// DiskState is the space on the file system of the data directory, in bytes.
type DiskState struct {
	Free, Total, Reserve int64
}

// Disk observes the space that is left. It is asked at each scrape.
func Disk(registry prometheus.Registerer, state func() DiskState) {
	f := factory{registry, "disk"}
	d := &disk{
		state:   state,
		free:    f.describe(Gauge, "free_bytes", "Bytes that the server may still write on the file system of the data directory."),
		total:   f.describe(Gauge, "size_bytes", "Bytes of the file system of the data directory."),
		reserve: f.describe(Gauge, "reserve_bytes", "Free bytes below which produce is refused; 0: never."),
	}
	registry.MustRegister(d)
}

type disk struct {
	state                func() DiskState
	free, total, reserve *prometheus.Desc
}

// Describe is for the registry.
func (d *disk) Describe(out chan<- *prometheus.Desc) {
	out <- d.free
	out <- d.total
	out <- d.reserve
}

// Collect is for the registry. What cannot be known is not told.
func (d *disk) Collect(out chan<- prometheus.Metric) {
	s := d.state()
	if s.Total > 0 {
		out <- prometheus.MustNewConstMetric(d.free, prometheus.GaugeValue, float64(s.Free))
		out <- prometheus.MustNewConstMetric(d.total, prometheus.GaugeValue, float64(s.Total))
	}
	out <- prometheus.MustNewConstMetric(d.reserve, prometheus.GaugeValue, float64(s.Reserve))
}
