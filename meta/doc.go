// Package meta is the metadata log: one ordered list of command batches that every node applies to the same
// deterministic state. Topics, their settings and leader epochs, node epochs, producer ids, small key-value pairs,
// streams and the objects that hold them, tables with their schemas, partitions and buckets are changed only here.
//
// [Open] reads what a [Backend] holds and returns a [Log]. [Log.Propose] appends commands and returns once they are
// durable and applied here, so a caller reads its own writes. [Log.View] is an immutable [State] that costs nothing to
// take and never changes under its reader. [NewCatalog] adapts the log for the stream engine, and [NewTables] for users
// of tables. Package meta/embedded is the backend for one node, a bbolt file, and meta/etcd that for many; package
// meta/metatest has one in memory that can be crashed, one that loses replies, and the suite that every backend passes.
//
// # Rules
//
// Applying is pure: no clock, no I/O, no randomness. Time comes with the entry, and the state's clock never goes back.
// A command that cannot be carried out is rejected: it changes nothing, its [Result] has a [Code], and the rest of the
// entry is applied. Equal histories give equal snapshot bytes on every node.
//
// An entry or snapshot that is damaged, or that a newer version wrote, stops the log with an error that names the
// backend's file and the index. It is never skipped and never treated as absent: whoever deletes what the metadata does
// not mention would delete good data. There is one exception: a newest snapshot whose checksum fails is rebuilt from
// the older one, if all entries since then exist.
//
// One process looks after the cluster: it holds the key [LeaseKey], and from [LevelTables] on is the coordinator that the
// log names. A [Member] sees to both. Whoever does such work asks [Log.Leads] before each step, [Log.ConfirmLead] before it
// begins something on behalf of another node, and does it in the context of [Log.WhileLeading].
//
// New kinds of commands come with a new [Level]. They are proposed only when every live node has announced that it
// understands them; a build that does not understand a log's level refuses it and names both.
//
// # What waits
//
// One goroutine of a log applies and appends. While it appends an entry, no other is appended; callers that arrive
// meanwhile share the next entry. Taking a view never waits. A snapshot of less than 8 MiB is encoded and stored
// between two entries. A larger one is encoded and stored by a goroutine of its own, from the state at that point,
// while entries are still being appended; only the truncation afterwards happens between two entries. A backend with a
// single writer, such as the bbolt file, makes appends wait while it stores a snapshot of any size, and [Log.Close]
// waits for a snapshot that is being stored.
//
// # Command numbers
//
// The number is the first byte of a command in an entry and never changes its meaning. Ranges are reserved so that
// future packages do not collide; a number without a command here is refused as written by a newer version.
//
//	  1 -   9   OpenStream 2, TrimStream 3, CloseStream 4, DeleteStream 5, PrepareObjects 6, CommitObjects 7,
//	            CompactStream 8, ExpirePrepared 9
//	 10         RegisterNode
//	 11         CleanDestroyed
//	 12 -  14   PutKv, PutKvIfAbsent, DeleteKv
//	 15 -  18   TransferStream 15, CompleteTransfer 16, CreateStreams 17, PlaceStream 18
//	 19         DeleteKvIfMatches
//	 20         AllocateProducerIDs
//	 21         CasKv
//	 22 -  29   OpenWAL 22, CloseWAL 23
//	 30 -  45   CreateTable 30, DropTable 31, AddSchema 32, CreatePartition 33, DropPartition 34, AddBuckets 35,
//	            LeadBucket 38, RegisterCoordinator 43
//	 46 -  48   consumer group offsets
//	 50 -  59   topics: CreateTopic 50, DeleteTopic 51, CreatePartitions 52, AdoptTopic 53
//	 60 -  69   configs: SetTopicConfigs 60
//	 70 -  79   leader epochs: RaiseLeaderEpochs 70
//	 80 -  89   users and their credentials
//	 90 -  99   ACLs
//	100 - 109   quotas
//	110 - 119   cluster features and in-sync sets: AnnounceLevel 110, RaiseLevel 111
//	120         RaiseProducerIDs
//	121 - 255   free
package meta
