package batch

import (
	"fmt"
	"strings"
)

// FormatError says that bytes are not a batch, or that a header contradicts itself.
type FormatError struct {
	Field string // the field of format.go that is wrong
	Found int64  // its value
	Want  string // what it must be, for people
	Err   error  // a more specific error, or nil
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("batch: %s is %d, want %s", e.Field, e.Found, e.Want)
}

// Unwrap returns the more specific error: a [*MagicError] when the version is the one thing wrong.
func (e *FormatError) Unwrap() error { return e.Err }

// MagicError says that a batch is of a format version other than 2. Versions 0 and 1 were written by Kafka before 0.11
// and can be walked by their length; no other version ever existed.
type MagicError struct {
	Magic int8
}

func (e *MagicError) Error() string {
	return fmt.Sprintf("batch: format version is %d, only %d is supported", e.Magic, Magic)
}

// CRCError says that the bytes of a batch do not match its checksum.
type CRCError struct {
	Stored   uint32 // in the header
	Computed uint32 // from the bytes
}

func (e *CRCError) Error() string {
	return fmt.Sprintf("batch: checksum is %08x, the bytes give %08x", e.Stored, e.Computed)
}

// DecodeError says that the records of a batch cannot be read from Index on. The batch itself may be exactly what its
// producer sent: its checksum covers the compressed bytes.
type DecodeError struct {
	BaseOffset int64 // of the batch
	Index      int32 // of the record that failed, from 0; the record count when something follows the last record
	Err        error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("batch: base offset %d, record %d: %s", e.BaseOffset, e.Index, inner(e.Err))
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// RecordTooLargeError says that a record of a compressed batch declares more bytes than [Limits.MaxRecordBytes]. Nothing
// was allocated for it.
type RecordTooLargeError struct {
	Size  int64 // declared bytes of the record
	Limit int64
}

func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("batch: a decompressed record has %d bytes, the limit is %d", e.Size, e.Limit)
}

// DecompressedTooLargeError says that the records of a batch decompress to more than [Limits.MaxDecompressedBytes] in
// all.
type DecompressedTooLargeError struct {
	Limit int64
}

func (e *DecompressedTooLargeError) Error() string {
	return fmt.Sprintf("batch: the records decompress to more than the limit of %d bytes", e.Limit)
}

// UnknownCodecError says that a codec does not exist: by ID in a batch, or by Name in a setting.
type UnknownCodecError struct {
	ID   Codec
	Name string
}

func (e *UnknownCodecError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("batch: unknown compression %q, want none, gzip, snappy, lz4 or zstd", e.Name)
	}
	return fmt.Sprintf("batch: unknown compression codec %d, want 0 to 4", int8(e.ID))
}

// inner returns the text of an error that is nested in another of this package, without repeating the package's name.
func inner(err error) string { return strings.TrimPrefix(err.Error(), "batch: ") }
