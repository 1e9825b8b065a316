// Package logdir manages one data directory: a disk's share of the partition logs, and the small files that these
// logs share. Its names and formats are Apache Kafka's, so that a directory can be taken over from a Kafka broker and
// handed back.
//
//	data/
//	├── .lock                              held while a process owns the directory ([Open], [Dir.Close])
//	├── meta.properties                    who owns it: cluster, node, directory ([Meta])
//	├── .kafka_cleanshutdown               there only after a clean shutdown ([Dir.TakeCleanShutdown])
//	├── tidemark.closed-logs               beside the marker: what the logs were ([Dir.ClosedLogs]); not Kafka's
//	├── recovery-point-offset-checkpoint   partition → first offset not known to be on the device ─┐
//	├── log-start-offset-checkpoint        partition → first offset that may be read               │ [Offsets]
//	├── replication-offset-checkpoint      partition → high watermark                              │
//	├── cleaner-offset-checkpoint          partition → first offset not compacted                  │
//	├── tidemark.page-cached               partitions whose high watermark may not be on the device┘ not Kafka's
//	├── remote-log-index-cache/            not a partition
//	├── orders-0/                          a partition log; partition.metadata holds its topic id ([Metadata])
//	├── orders-1.9c…3f-delete/             a deleted one, to be removed in the background
//	├── orders-2.41…07-future/             a copy on its way from another data directory
//	└── orders-3.d0…e8-stray/              one that does not belong to this node any more
//
// A process opens a directory, takes the clean-shutdown marker, loads the logs that [Dir.Scan] finds, and calls
// [Dir.MarkLoaded]. When it stops it closes the logs, writes the checkpoints and what it knows of the closed logs, then
// the marker, and closes the directory. A process that does not get that far leaves no marker, and the next one recovers.
//
// Every file is replaced by means of a temporary file, a sync, a rename and a sync of the directory: after a crash it
// is the old or the new one, and what a method has written is durable when it returns. Only [Dir.Create] of very many
// partitions leaves partition.metadata in part if it does not return, beside no record. An unknown format version is a
// [*VersionError] and damage a [*FormatError]; both name the file, and neither is ever taken for an empty file.
package logdir
