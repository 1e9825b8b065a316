// Package coordinator implements Kafka's consumer groups: who is a member, which generation a group is in, what each
// member was assigned, and how far a group has read each partition.
//
// It is a state machine and nothing else. [Shard] holds the groups of one partition of __consumer_offsets. A request and
// the time go in; an [Output] comes out: records to append to that partition, and replies to send once everything
// appended so far is durable. There is no clock, no goroutine, no file and no message format here; package
// coordinator/records encodes the records, package coordinator/runner drives shards, and a listener translates requests
// and answers.
//
//	s := coordinator.NewShard(coordinator.Config{NewID: …})
//	for … { s.Replay(entry) }             // what the partition holds
//	s.Loaded(now)                         // sessions start afresh
//	out := s.Handle(now, ticket, request)
//	… append out.Records …
//	send(out.Settle(err))                 // when durable
//	at, ok := s.Next()                    // when to call Tick
//
// # Rules
//
// A reply may only be sent when everything appended before it is durable, because it may reveal state that depends on
// that. No recorded state changes in memory before its record is in the log: [Output.Settle] applies it, or, when the
// append failed, does what Kafka does. Replies to JoinGroup and SyncGroup may come with the output of a much later call.
//
// The protocol is Kafka's classic one (JoinGroup, SyncGroup), with static members (KIP-345), member ids that must be
// known (KIP-394) and cooperative rebalancing, which is up to the clients: subscriptions and assignments are opaque bytes
// here.
package coordinator
