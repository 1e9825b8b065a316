// Package runner runs the shards of a group coordinator. A shard is a partition of __consumer_offsets: one goroutine
// reads it when it starts, then handles requests and timers, appends what package coordinator asks for, and releases
// answers when everything they depend on is durable.
//
// [Runner] finds the shard of a request and starts it when it is first needed. A [Log] is what it needs of a partition;
// the server implements one over the partition's log.
//
// # What a start costs
//
// A shard reads its partition from the log start. Nothing compacts the partition yet, so the shard does it in its own
// way: when reading everything appended since the last time would take long (more than Options.CheckpointBytes, or twice
// the shard's state), it appends its whole state once more and moves the log start up to there. A start therefore reads
// about that much and no more. Readers of the topic see what they would see of a compacted one: the last record of each
// key.
package runner
