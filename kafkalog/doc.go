// Package kafkalog implements a log in Apache Kafka's own on-disk format: the files of one topic partition,
// written by one process and readable by Kafka and its tools.
//
// # Start here
//
// An [Env] holds what the logs of a process share. [Open] opens or creates one log in a directory of its own:
//
//	env := kafkalog.NewEnv(kafkalog.EnvOptions{})
//	defer env.Close()
//	l, err := kafkalog.Open(env, "orders-0", kafkalog.Options{})
//
// [Log.Append] takes one batch of package batch, assigns the next offset and writes it. [Log.Read] and [Log.ReadRaw]
// return batches from an offset onwards; [Log.ReadRegions] describes the same bytes as file ranges that can be sent
// to a socket without a copy. [Log.Sync] makes everything appended so far durable; nothing is guaranteed to be
// durable before that, unless the [Config] says so.
//
// # What is promised
//
//   - An append is all or nothing: if it fails, the log, its indexes and its producer state are unchanged.
//   - After a crash, [Open] keeps every batch of the unflushed tail up to the first that is torn or corrupt, and nothing
//     after it; with [Options].Contiguous also nothing after one that is missing. Flushed data is never shortened:
//     damage there is a [*CorruptionError] or [*ChecksumError] with the file and the position. What counts as flushed
//     is given by [Options].RecoveryPoint and the snapshots at segment bases. Above that, a bad batch followed by good
//     ones may be the result of a power cut that wrote them out of order, so the good ones are cut as well and no copy
//     is kept: Events.PartialBatch reports how many whole batches, bytes and offsets were lost. Pass the highest offset
//     known to be flushed, to keep that range short.
//   - A batch with a valid checksum is kept even if this package cannot decode it.
//   - A failed fsync, a write of records that the device failed, or an append that could not be rolled back, is final.
//     The log refuses appends from then on and must be reopened; reads continue. The next Open rewrites what it keeps
//     of the unflushed tail, since another fsync alone could report success without having written those pages. A write
//     that found no space is rolled back and fails only its own append; any other failure only to open or to write a
//     file is returned and may be retried: [ErrTryAgain].
//   - A read returns whole batches and never skips an offset. The first batch is returned even if it is larger than the
//     limit.
//
// # Concurrency
//
// All methods of [Log] are safe for concurrent use, and each is atomic by itself. Appends and all other changes to the
// log are serialised by one mutex. Readers take no lock: they work on an immutable list of segments and published ends,
// and hold references that keep files readable even after the log has dropped them. The mutex is not held over an fsync
// of record data. Lock order inside the package: syncMu, then mu, then the roll flusher's lock and the leaf locks.
//
// # Ownership of bytes
//
// An append reads the caller's batch until it returns and retains no reference. Owned appends ([Log.Append],
// [Log.AppendAt]) write offset, leader epoch and append time into the caller's bytes; verbatim ones change nothing.
// Bytes that a read returns belong to the caller.
//
// Sources: Apache Kafka's documented log format, and the rules in docs/design.md.
package kafkalog
