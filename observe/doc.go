// Package observe turns the events of the rooms into Prometheus metrics, log lines and OpenTelemetry spans. There is one file
// for each room: a function that takes a registry and a logger and returns the room's Events. traces.go and spans.go wrap
// such Events to make spans.
//
// Names follow Prometheus' conventions: tidemark_, the room, the thing, the unit, _total for counters. A metric is
// registered when its function is called, so it is exported even while it is zero. Metrics whose number grows with topics
// or partitions say so in their help text.
//
// Only node imports this package. No state anywhere depends on it.
package observe
