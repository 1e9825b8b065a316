// Package runner runs the shards of a group coordinator. A shard is a partition of __consumer_offsets: one goroutine reads
// it when it starts, then takes requests and the time, appends what package coordinator asks for, and gives answers out
// when everything they rest on is durable.
//
// [Runner] finds the shard of a request and starts it when it is first needed. A [Log] is what it needs of a partition;
// whoever composes the server puts one over the partition's log.
//
// # What a start costs
//
// A shard reads its partition from the log start. Nothing compacts the partition yet, so the shard does it in its own way:
// when so much was appended since the last time that reading it all would take long (Options.CheckpointBytes, or twice
// what the shard holds), it appends everything it holds once more and moves the log start up to there. A start therefore
// reads about that much and no more. Readers of the topic see what they would see of a compacted one: the last record of
// each key.
package runner
