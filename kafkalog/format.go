package kafkalog

// A partition directory. Files that share a number in front are one segment: the number is its base offset, at or below
// the offset of its first record and above every offset of the segments before.
//
//	orders-0/
//	├── 00000000000000000000.log         sealed segment: batches, one after another
//	├── 00000000000000000000.index       where to find an offset in it            index.go
//	├── 00000000000000000000.timeindex   up to where no record reaches a time     timeindex.go
//	├── 00000000000000000000.txnindex    transactions aborted in it, if any       txnindex.go
//	├── 00000000000000004711.log         active segment: takes the appends
//	├── 00000000000000004711.index       its index files lag behind memory until the segment is sealed or synced
//	├── 00000000000000004711.timeindex
//	├── 00000000000000004711.snapshot    producers below offset 4711; proves that  snapshot.go
//	│                                    everything below 4711 is on disk
//	├── 00000000000000005000.snapshot    producers at the log end, from Close
//	├── leader-epoch-checkpoint          which leader epoch began at which offset  epochs.go
//	├── log-start-offset-checkpoint      the log start, once somebody moved it     checkpointfile.go
//	├── partition.metadata               topic id; belongs to the caller
//	├── *.deleted                        left the log, unlinked after a delay
//	├── *.cleaned, *.swap                replacements under way, see loader.clean and split.go
//	└── *.tmp                            new side of an atomic replace
//
// A log that never held more than a few KiB is its first record file alone: what the others would say is then made from it,
// or taken from its Summary, see young.go.
//
// A record file holds whole batches and nothing else (format.go of package batch draws one):
//
//	0               size(1)          size(1)+size(2)                    length of the file
//	+---------------+----------------+----------...--+- - - - - - - - - -+
//	| batch         | batch          |               | not part of the   |
//	| base >= name  | base > last(1) |               | log: see below    |
//	+---------------+----------------+----------...--+- - - - - - - - - -+
//
// The base offset of a batch is above the last offset of the one before; offsets in between belong to nobody, which is
// what compaction, truncation inside a batch and appends at a given offset leave. All offsets of a segment lie within
// 2^31-1 of its base, because the indexes hold them relative to it in 32 bits; positions are below 2^31 likewise.
//
// What stands behind the last batch is not read: a batch that is being written, the rest of one that a crash cut, or
// zeros that a Kafka broker reserved. In an open log the length that counts is in memory. When a log is opened it is
// found again: after a clean stop by the log's Summary, or the headers behind the last index entry, otherwise by the
// checksums.
//
// Recovery reads from the highest base on that has a readable snapshot. The order that makes this right:
//
//	roll          new files ► seal indexes of the old segment ► readers see the new one
//	background    fsync .log .index .timeindex .txnindex ► fsync directory ► write <new base>.snapshot ► recovery point
//	recovery      read and cut a segment ► write again what may not be flushed ► fsync it ► write the snapshot at the next base ► next segment
//	truncation    rename newer segments, the newest first ► cut the file ► epochs, producers ► fsync directory
//	log start     write the log start file ► move the start ► drop segments
