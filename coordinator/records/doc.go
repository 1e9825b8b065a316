// Package records has the bytes of the records of __consumer_offsets, which are Kafka's own: a partition written by Kafka
// is read here, and Kafka's tools print one that was written here.
//
// [Encode] and [Decode] are the whole package. A key begins with its type and a value with its version; what follows
// depends on both. A record whose key type is not known is of a later Kafka or of a group type that is not served here:
// Decode says [ErrUnknownType] and its reader goes on. A value of a version that is not known cannot be gone past, since
// what it says would be lost: [*VersionError].
package records
