// Package config reads the server's configuration: flags over TIDEMARK_* environment over one YAML file over defaults.
//
// One table, [Definitions], has every key with its kind, default and meaning. Keys that Kafka has use Kafka's names; our
// own are written with dashes. [Load] collects all problems before it fails: an unknown key is an error that names the
// nearest one and where it came from. The result is a [Server] of plain values, and [Loaded.Print] shows every value with
// its source and with secrets hidden.
//
// Durations are written as 10s, 5m, 12h or 7d, or as Kafka's plain milliseconds; sizes as 64MiB or 1GB, or as plain bytes.
// Several addresses are separated by commas, given as a repeated flag, or as a list in the file. In the environment a key is
// written in capitals with _ for . and -: TIDEMARK_NUM_PARTITIONS. In the file a dotted key may be written flat or nested.
// Settings for topics that do not set them themselves are given with topic-default:
//
//	data-dir: /var/lib/tidemark
//	num.partitions: 6
//	connections.max.idle.ms: 10m
//	topic-default:
//	  retention.ms: 259200000
//	  cleanup.policy: compact
//
// and, in the file only, for topics whose names match a pattern. If several patterns match, the last one wins:
//
//	topic-patterns:
//	  - pattern: "audit-*"
//	    retention.ms: -1
//	  - pattern: "*-debug"
//	    retention.ms: 3600000
//	    tidemark.flush: os
package config
