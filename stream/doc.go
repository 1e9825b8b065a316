// Package stream is the engine of ordered streams on an object store.
//
// A stream is an ordered log of records, each of which covers a number of rows; offsets count rows. An [Engine] runs the
// streams of one node. It keeps nothing on the machine: a node may lose its process, its memory and its disk, and nothing
// that was acknowledged is lost.
//
//	           append                                                     in the background
//	Stream.Append --> gate --> WAL object --> log cache --> ack     log cache --> data objects --> catalog
//	                           one PUT for                          then the WAL objects are deleted
//	                           all that came
//	           read                                                 compaction makes few objects of many,
//	Stream.Fetch <-- log cache, block cache, data objects           the cleaner removes what is replaced
//
// # What is promised
//
// An append is acknowledged when the WAL object that holds it, and every one before it, is stored; a lone append on an idle
// engine costs one PUT and nothing else. Acknowledgements come in the order in which the records were submitted, over all
// streams. Who has one can read the rows. Offsets of a failed append are spent, and its outcome is unknown: the next engine
// may find it.
//
// Of all processes that ever run under one node's number at most one acknowledges. [Open] begins a new epoch of the node in
// the catalog, puts a fence where the older epoch's next WAL object would lie, and commits what stands below it. The store's
// put-if-absent decides between the two, not a clock or a lease.
//
// What the engine asks of metadata is package catalog, below this one.
//
// # Starting points
//
// [Open], then [Engine.CreateStreams], [Engine.OpenStream], [Stream.Append], [Stream.Fetch]; see the examples. [Check]
// holds metadata, objects and logs against each other. Rules are named as in the specification of object streams: WAL-6
// says when a group is acknowledged.
//
// # Formats
//
//	record       one append of one stream: [Record]
//	frame        a record in the write-ahead log: [Frame]
//	WAL object   a group of frames, one PUT: [WALHeader], [WALKey]
//	data object  blocks of records of one or many streams, with an index: [ObjectWriter], [IndexEntry], [Footer]
//	composite    an index over blocks of other objects: [CompositeObject]
//
// All numbers are big-endian. Decoders take bytes from anybody: they return errors, never panic, and allocate no more than
// a small multiple of what they are given. They do not copy: payloads alias the input. Their errors are a [*CorruptError],
// which matches [ErrCorrupt], or a [*VersionError] for bytes that are whole but of a version that this code does not know.
// Both name the object and the position in it.
package stream
