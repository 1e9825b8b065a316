// Package batch reads, builds and validates Kafka record batches of format version 2, as views over bytes.
//
// A [Batch] is a byte slice that holds exactly one whole batch. Its methods read and patch header fields in place;
// nothing is copied or allocated. [Next] cuts the first batch from a buffer of several, [Batch.VerifyCRC] compares the
// checksum, [Batch.Records] walks the records and decompresses them as they are read, within the [Limits] of the caller.
// [Builder] makes batches, [EndMarker] makes transaction markers, and [Validate] checks what a client sent against the
// rules that a leader must apply before it appends.
//
// The bytes are drawn in format.go. All integers in a batch are big-endian; all timestamps are milliseconds since the
// Unix epoch, -1 for none; all sizes are bytes.
//
// # What can go wrong
//
//   - [*FormatError]: the bytes are no batch, or a header field contradicts another.
//   - [*MagicError]: a whole batch of another format version (0 and 1 are Kafka before 0.11).
//   - [*CRCError]: the batch is damaged.
//   - [*DecodeError]: the records do not decompress or do not parse. It wraps [*RecordTooLargeError],
//     [*DecompressedTooLargeError], [*UnknownCodecError], [*PayloadError] or a description.
//   - [*ControlSizeError], [*ControlVersionError]: a control record that cannot be understood.
//   - [*ValidationError]: a client's batch was refused; its Kind determines the client's error code.
//
// A batch that does not decode can still be intact: its size and checksum do not depend on its records. A log must keep
// such a batch and serve its bytes; only a reader of the records gets the error.
//
// # Memory
//
// Keys, values and header values that a [RecordReader] hands out point into the batch or into the reader's
// decompression buffer. They are valid until the reader's next call. Decompression buffers and codecs are pooled inside
// the package; no pooled byte is ever reachable after the call that released it, and in builds with the race detector
// released buffers are overwritten so that a breach shows.
//
// The package imports only the standard library and the compression codecs: it uses no file, no network and no clock.
package batch
