// Package observe turns what the rooms say happens into Prometheus metrics and log lines. There is one file for each
// room: a function that takes a registry and a logger and returns the room's Events.
//
// Names follow Prometheus' conventions: tidemark_, the room, the thing, the unit, _total for counters. A metric is
// registered when its function is called, so one that never moved reads zero and not nothing. What grows with the number
// of topics or partitions says so in its help text.
//
// Only node imports this package. No state anywhere depends on it.
package observe
