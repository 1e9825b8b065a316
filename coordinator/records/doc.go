// Package records encodes and decodes the records of __consumer_offsets. The format is Kafka's own: a partition written
// by Kafka can be read here, and Kafka's tools print one that was written here.
//
// [Encode] and [Decode] are the whole package. A key begins with its type and a value with its version; what follows
// depends on both. A record of an unknown key type belongs to a later Kafka or to a group type that is not supported
// here: Decode returns [ErrUnknownType] and its reader continues. A value of an unknown version cannot be skipped, since
// what it says would be lost: [*VersionError].
package records
