// Package stream implements ordered streams on an object store.
//
// A stream is an ordered log of records, each of which covers a number of rows; offsets count rows. An [Engine] runs the
// streams of one node. It keeps no durable state on the machine: a node may lose its process, its memory and its disk
// without losing anything that was acknowledged.
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
// engine costs one PUT and nothing else. Acknowledgements come in the order in which the records were submitted, across
// all streams. Once an append is acknowledged its rows can be read. The offsets of a failed append are not reused, and
// its outcome is unknown: the next engine may recover it.
//
// Of all the processes that ever run under one node id, at most one acknowledges appends. [Open] begins a new epoch of
// the node in the catalog, writes a fence under the key of the older epoch's next WAL object, and commits what
// precedes it. The store's put-if-absent decides between the two epochs, not a clock or a lease.
//
// Package catalog, below this one, declares what the engine requires of metadata.
//
// # Starting points
//
// [Open], then [Engine.CreateStreams], [Engine.OpenStream], [Stream.Append], [Stream.Fetch]; see the examples. [Check]
// verifies metadata, objects and logs against each other. Rules are named as in the object stream specification: WAL-6
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
// All numbers are big-endian. Decoders accept untrusted bytes: they return errors, never panic, and allocate no more
// than a small multiple of the input. They do not copy: payloads alias the input. Their errors are a [*CorruptError],
// which matches [ErrCorrupt], or a [*VersionError] for intact bytes of a version that this code does not know. Both
// name the object and the position in it.
package stream
