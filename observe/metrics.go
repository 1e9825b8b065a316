package observe

import "github.com/prometheus/client_golang/prometheus"

// namespace is the prefix of every name.
const namespace = "tidemark"

// factory creates and registers the metrics of one room. Registering a name twice is a bug and panics.
type factory struct {
	registry prometheus.Registerer
	room     string // "" for metrics of the whole process
}

// note records a metric in a registry that keeps a list, as that of [Reference] does.
func (f factory) note(kind Kind, name, help string, labels []string) {
	if list, ok := f.registry.(interface{ note(Metric) }); ok {
		list.note(Metric{Name: prometheus.BuildFQName(namespace, f.room, name), Kind: kind, Help: help, Labels: labels})
	}
}

func (f factory) options(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: namespace, Subsystem: f.room, Name: name, Help: help}
}

func (f factory) counter(name, help string) prometheus.Counter {
	f.note(Counter, name, help, nil)
	c := prometheus.NewCounter(prometheus.CounterOpts(f.options(name, help)))
	f.registry.MustRegister(c)
	return c
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	f.note(Counter, name, help, labels)
	c := prometheus.NewCounterVec(prometheus.CounterOpts(f.options(name, help)), labels)
	f.registry.MustRegister(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	f.note(Gauge, name, help, nil)
	g := prometheus.NewGauge(prometheus.GaugeOpts(f.options(name, help)))
	f.registry.MustRegister(g)
	return g
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	f.note(Gauge, name, help, labels)
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts(f.options(name, help)), labels)
	f.registry.MustRegister(g)
	return g
}

func (f factory) gaugeFunc(name, help string, value func() float64) {
	f.note(Gauge, name, help, nil)
	f.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts(f.options(name, help)), value))
}

func (f factory) counterFunc(name, help string, value func() float64) {
	f.note(Counter, name, help, nil)
	f.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts(f.options(name, help)), value))
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	f.note(Histogram, name, help, nil)
	h := prometheus.NewHistogram(f.buckets(name, help, buckets))
	f.registry.MustRegister(h)
	return h
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	f.note(Histogram, name, help, labels)
	h := prometheus.NewHistogramVec(f.buckets(name, help, buckets), labels)
	f.registry.MustRegister(h)
	return h
}

func (f factory) buckets(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: namespace, Subsystem: f.room, Name: name, Help: help, Buckets: buckets}
}

// describe creates the descriptor that a collector of our own needs to send samples. The caller registers the collector.
func (f factory) describe(kind Kind, name, help string, labels ...string) *prometheus.Desc {
	f.note(kind, name, help, labels)
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, f.room, name), help, labels, nil)
}

// Buckets in seconds: a sync is between a fraction of a millisecond on flash and seconds on a disk in trouble; a request
// may also wait for records.
var (
	syncBuckets    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	requestBuckets = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	countBuckets   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)
