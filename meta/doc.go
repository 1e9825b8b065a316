// Package meta is the metadata log: one ordered list of command batches that every node applies to the same
// deterministic state. Topics, their settings and leader epochs, node epochs, producer ids, small key-value pairs, streams
// and the objects that hold them, tables with their schemas, partitions and buckets change nowhere else.
//
// [Open] reads what a [Backend] holds and returns a [Log]. [Log.Propose] appends commands and answers once they are
// durable and applied here, so a caller reads its own writes. [Log.View] is an immutable [State] that costs nothing to
// take and never changes under its reader. [NewCatalog] is the log as the stream engine asks for it,
// and [NewTables] as whoever keeps tables does. Package meta/embedded
// is the backend for one node, a bbolt file, and meta/etcd that for many; package meta/metatest has one in memory that can be crashed, one that loses replies, and the suite that every backend passes.
//
// # Rules
//
// Applying is pure: no clock, no I/O, no randomness. Time enters with the entry, and the state's clock never goes
// back. A command that cannot be done is rejected: it changes nothing, it is a [Result] with a [Code], and the rest of
// the entry goes on. Equal histories give equal snapshot bytes on every node.
//
// An entry or snapshot that is damaged, or that a newer version wrote, stops the log with an error that names the
// backend's file and the index. It is never skipped and never read as "nothing there": whoever deletes what the
// metadata does not mention would delete good data. One thing is made up for: a newest snapshot whose checksum fails is made
// again from the older one, if every entry since is there.
//
// New kinds of commands come with a new [Level]. They are proposed only when every node that lives has announced that it
// understands them; a build that does not understand a log's level refuses it and names both.
//
// # What waits
//
// One goroutine of a log applies and appends. While it appends an entry, nobody else's is appended; callers that come meanwhile
// share the next entry. Views are taken without waiting. A snapshot of less than 8 MiB is encoded and stored between two
// entries. A larger one is encoded on a goroutine of its own from the state as it was, and stored from there, while entries go
// on; only the truncation afterwards comes between two entries. A backend that has one writer, such as the bbolt file, makes
// appends wait while it stores a snapshot of whatever size, and [Log.Close] waits for what is being stored.
//
// # Command numbers
//
// The number is the first byte of a command in an entry and never changes its meaning. Ranges are set aside so that
// rooms to come do not collide; a number without a command here is refused as written by a newer version.
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
