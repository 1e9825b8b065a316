package observe

import "github.com/prometheus/client_golang/prometheus"

// namespace begins every name.
const namespace = "tidemark"

// factory makes and registers the metrics of one room. Registering a name twice is a fault of the program and panics.
type factory struct {
	registry prometheus.Registerer
	room     string
}

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: f.room, Name: name, Help: help})
	f.registry.MustRegister(c)
	return c
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(
		prometheus.CounterOpts{Namespace: namespace, Subsystem: f.room, Name: name, Help: help}, labels)
	f.registry.MustRegister(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: f.room, Name: name, Help: help})
	f.registry.MustRegister(g)
	return g
}

func (f factory) gaugeFunc(name, help string, value func() float64) {
	f.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Namespace: namespace, Subsystem: f.room, Name: name, Help: help}, value))
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: f.room, Name: name, Help: help, Buckets: buckets,
	})
	f.registry.MustRegister(h)
	return h
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: f.room, Name: name, Help: help, Buckets: buckets,
	}, labels)
	f.registry.MustRegister(h)
	return h
}

// Buckets in seconds: a sync is between a fraction of a millisecond on flash and seconds on a disk in trouble; a request
// may also wait for records.
var (
	syncBuckets    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	requestBuckets = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	countBuckets   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)
