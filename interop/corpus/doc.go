// Package corpus generates the records that every interop peer writes and reads, and compares them: nulls, empty values,
// binary bytes, headers of every shape, and values large enough to exercise a codec.
//
// Records travel to and from peers that are not written in Go as JSON, with bytes in base64 and null for null.
package corpus
