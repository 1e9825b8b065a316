// Package kafkalog is a log in Apache Kafka's own on-disk format: the files of one topic partition, written by one
// process and readable by Kafka's tools, and by Kafka.
//
// # Start here
//
// An [Env] holds what all logs of a process share. [Open] opens or creates one log in a directory of its own:
//
//	env := kafkalog.NewEnv(kafkalog.EnvOptions{})
//	defer env.Close()
//	l, err := kafkalog.Open(env, "orders-0", kafkalog.Options{})
//
// [Log.Append] takes one batch of package batch, gives it the next offset and writes it. [Log.Read] and [Log.ReadRaw]
// return batches from an offset on, [Log.ReadRegions] describes the same bytes as file ranges that can go to a socket
// without being copied. [Log.Sync] makes what was appended durable; nothing before it does, unless the [Config] says so.
//
// # What is promised
//
//   - An append is all or nothing: if it fails, the log, its indexes and its producers are as before the call.
//   - After a crash, [Open] keeps every batch of the unflushed tail up to the first that is torn or corrupt, and nothing
//     after it; with [Options].Contiguous also nothing after one that is missing. What was flushed is never shortened:
//     damage there is a [*CorruptionError] or [*ChecksumError] with the file and the position.
//     What was flushed is what [Options].RecoveryPoint and the snapshots at segment bases say. Above that, a bad batch with
//     good ones behind it may be a power cut that wrote them in another order, so they are cut as well, and not kept
//     beside the log: Events.PartialBatch tells how many whole batches, bytes and offsets went. Pass the greatest offset
//     that is known to be flushed, to keep that stretch short.
//   - A batch with a right checksum is kept even if nobody here can decode it.
//   - A failed fsync, a write of records that the device failed, or an append that could not be taken back, is final. The log
//     refuses appends from then on and must be opened again; reads go on. That Open writes once more what it keeps of the
//     unflushed tail, for the next fsync alone would succeed without it. A write that found no space is taken back and refuses
//     its append only; what else could only not be opened or written is refused and tried again: [ErrTryAgain].
//   - A read returns whole batches and never jumps over an offset. The first batch comes even if it is larger than asked.
//
// # Concurrency
//
// All methods of [Log] are safe for concurrent use, and each is atomic by itself. Appends and everything that changes
// the log serialise on one mutex. Readers take none: they work on an immutable list of segments and published ends, and
// hold references that keep files readable even after the log dropped them. The mutex is not held over an fsync of
// record data. Lock order inside the package: syncMu, then mu, then the roll flusher's and the leaf locks.
//
// # Ownership of bytes
//
// An append reads the caller's batch until it returns and keeps no reference. Owned appends ([Log.Append],
// [Log.AppendAt]) write offset, leader epoch and append time into the caller's bytes; verbatim ones change nothing.
// Bytes that a read returns belong to the caller.
//
// Sources: Apache Kafka's documented log format, and the rules in docs/design.md.
package kafkalog
