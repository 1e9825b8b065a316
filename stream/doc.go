// Package stream is the engine of ordered streams on an object store.
//
// So far it exports the formats: what is written to a store and read back, byte for byte. Below them stands the writer of
// the write-ahead log, which the engine will own: walQueue decides which records go out together, in which window, and
// which are acknowledged; walWriter runs what it decides.
//
//	record       one append of one stream: [Record]
//	frame        a record in the write-ahead log: [Frame]
//	WAL object   a group of frames, one PUT: [WALHeader], [WALKey]
//	data object  blocks of records of one or many streams, with an index: [ObjectWriter], [IndexEntry], [Footer]
//	composite    an index over blocks of other objects: [CompositeObject]
//
// All numbers are big-endian. Rules are named as in the specification of object streams: REC-2 says what decoding a
// record rejects. Decoders take bytes from anybody: they return errors, never panic, and allocate no more than a small
// multiple of what they are given. They do not copy: payloads alias the input.
//
// An error of a decoder is a [*CorruptError], which matches [ErrCorrupt], or a [*VersionError] for bytes that are whole
// but of a version that this code does not know. Both name the object and the position in it.
package stream
