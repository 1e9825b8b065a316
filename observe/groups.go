package observe

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// GroupDetail is how detailed the metrics of consumer groups are, since every series costs storage.
type GroupDetail string

// The levels of detail.
const (
	GroupsOff     GroupDetail = "off"       // nothing
	GroupsByGroup GroupDetail = "group"     // a few series a group
	GroupsInFull  GroupDetail = "partition" // and one for each partition that the group has an offset for
)

// GroupState is the state of a consumer group.
type GroupState struct {
	Name    string
	State   string
	Members int
	// Rebalances are those that were completed since the coordinator loaded the group.
	Rebalances int64
	Lags       []PartitionLag // of the partitions with a committed offset
}

// PartitionLag is how many records of a partition, up to its high watermark, a group has not committed yet.
type PartitionLag struct {
	Topic     string
	Partition int32
	Records   int64
}

// Lag returns the sum of a group's lags and the largest.
func (g GroupState) Lag() (sum, most int64) {
	for _, l := range g.Lags {
		sum += l.Records
		most = max(most, l.Records)
	}
	return sum, most
}

// GroupDetails returns the levels of detail, from the least to the most.
func GroupDetails() []GroupDetail { return []GroupDetail{GroupsOff, GroupsByGroup, GroupsInFull} }

// DetailVar is a detail that can be changed while it is in use. The zero value is [GroupsByGroup]; it is safe for concurrent
// use.
type DetailVar struct{ set atomic.Pointer[GroupDetail] }

// Get returns the detail.
func (v *DetailVar) Get() GroupDetail {
	if d := v.set.Load(); d != nil {
		return *d
	}
	return GroupsByGroup
}

// Set changes the detail, which is one of [GroupDetails], from the next scrape on.
func (v *DetailVar) Set(d GroupDetail) { v.set.Store(&d) }

// Groups observes the consumer groups, in as much detail as detail says. states is called at each scrape.
func Groups(registry prometheus.Registerer, detail *DetailVar, states func() []GroupState) {
	f := factory{registry, "group"}
	g := &groups{
		detail: detail, states: states,
		lag: f.describe(Gauge, "lag_records", "Records that the group is behind the high watermarks, over all partitions with a committed offset. Grows with the groups.",
			"group"),
		most:    f.describe(Gauge, "max_lag_records", "Lag of the partition that the group is furthest behind in. Grows with the groups.", "group"),
		members: f.describe(Gauge, "members", "Members of the group, by its state. Grows with the groups.", "group", "state"),
		rebalances: f.describe(Counter, "rebalances_total", "Rebalances of the group that were completed since its coordinator was loaded. Grows with the groups.",
			"group"),
		partition: f.describe(Gauge, "partition_lag_records", "Lag of each partition; only with group-metrics=partition. Grows with groups times partitions.",
			"group", "topic", "partition"),
	}
	registry.MustRegister(g)
}

type groups struct {
	detail                                    *DetailVar
	states                                    func() []GroupState
	lag, most, members, rebalances, partition *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (g *groups) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.lag, g.most, g.members, g.rebalances, g.partition} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (g *groups) Collect(out chan<- prometheus.Metric) {
	detail := g.detail.Get()
	if detail == GroupsOff {
		return
	}
	send := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	for _, s := range g.states() {
		sum, most := s.Lag()
		send(g.lag, sum, s.Name)
		send(g.most, most, s.Name)
		send(g.members, int64(s.Members), s.Name, s.State)
		out <- prometheus.MustNewConstMetric(g.rebalances, prometheus.CounterValue, float64(s.Rebalances), s.Name)
		if detail != GroupsInFull {
			continue
		}
		for _, l := range s.Lags {
			send(g.partition, l.Records, s.Name, l.Topic, strconv.Itoa(int(l.Partition)))
		}
	}
}
