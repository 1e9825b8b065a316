package batch

import (
	"encoding/binary"
	"fmt"
)

// A control batch has attributes control and transactional, no compression, and one record; it takes one offset and no
// sequence. All integers are big-endian.
//
//	key    +---------+---------+      value of an end marker  +---------+-------------------+
//	       | version | type    |                              | version | coordinator epoch |
//	       | int16 0 | int16   |                              | int16 0 | int32             |
//	       +---------+---------+                              +---------+-------------------+
//
// Readers accept higher versions and longer fields, and refuse a negative version or a shorter field. A whole marker
// batch has 78 bytes.
const (
	controlKeySize    = 4
	controlMarkerSize = 6
)

// ControlType is the kind of a control record. The numbers are part of the format. Types other than Abort and Commit
// occur in Kafka's own metadata log, or are unknown; they take an offset and change no transaction.
type ControlType int16

// The end markers of a transaction.
const (
	Abort  ControlType = 0
	Commit ControlType = 1
)

// String returns abort, commit or the number.
func (t ControlType) String() string {
	switch t {
	case Abort:
		return "abort"
	case Commit:
		return "commit"
	}
	return fmt.Sprintf("control(%d)", int16(t))
}

// ControlRecord is a decoded control record.
type ControlRecord struct {
	Type             ControlType
	CoordinatorEpoch int32 // of the transaction coordinator that wrote an end marker; -1 for other types
}

// EndsTransaction reports whether the record is an abort or commit marker.
func (c ControlRecord) EndsTransaction() bool { return c.Type == Abort || c.Type == Commit }

// ControlSizeError says that a part of a control record is too short.
type ControlSizeError struct {
	Part          string // "key" or "end marker value"
	Needed, Found int    // bytes
}

func (e *ControlSizeError) Error() string {
	return fmt.Sprintf("batch: the %s of a control record has %d bytes, want at least %d", e.Part, e.Found, e.Needed)
}

// ControlVersionError says that a part of a control record has a negative version.
type ControlVersionError struct {
	Part    string // "key" or "end marker value"
	Version int16
}

func (e *ControlVersionError) Error() string {
	return fmt.Sprintf("batch: the %s of a control record has version %d, want 0 or more", e.Part, e.Version)
}

// ParseControl decodes the key and value of a control record. The value is looked at only when the type is an end
// marker. Errors are [*ControlSizeError] and [*ControlVersionError].
func ParseControl(key, value []byte) (ControlRecord, error) {
	if err := checkControlPart("key", key, controlKeySize); err != nil {
		return ControlRecord{}, err
	}
	c := ControlRecord{Type: ControlType(binary.BigEndian.Uint16(key[2:])), CoordinatorEpoch: -1}
	if !c.EndsTransaction() {
		return c, nil
	}
	if err := checkControlPart("end marker value", value, controlMarkerSize); err != nil {
		return ControlRecord{}, err
	}
	c.CoordinatorEpoch = int32(binary.BigEndian.Uint32(value[2:]))
	return c, nil
}

func checkControlPart(part string, b []byte, needed int) error {
	if len(b) < needed {
		return &ControlSizeError{Part: part, Needed: needed, Found: len(b)}
	}
	if v := int16(binary.BigEndian.Uint16(b)); v < 0 {
		return &ControlVersionError{Part: part, Version: v}
	}
	return nil
}

// Control decodes the control record of a control batch. ok is false when the batch is not a control batch, or an empty
// one that compaction left. Errors are [*DecodeError] and those of [ParseControl].
func (b Batch) Control() (c ControlRecord, ok bool, err error) {
	if !b.Attributes().Control() || b.Count() == 0 {
		return ControlRecord{}, false, nil
	}
	var s recordScanner
	s.reset(b, Limits{MaxRecordBytes: maxControlRecord, MaxDecompressedBytes: maxControlRecord})
	defer s.close()
	if !s.next() {
		return ControlRecord{}, false, s.err
	}
	c, err = ParseControl(s.raw.key, s.raw.value)
	return c, err == nil, err
}

// maxControlRecord bounds a control record that someone compressed against the format's rule.
const maxControlRecord = 64 << 10

// EndMarkerOptions are the fields of a transaction's end marker.
type EndMarkerOptions struct {
	BaseOffset       int64
	LeaderEpoch      int32
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool // else abort
	CoordinatorEpoch int32
	Timestamp        int64 // ms
}

// EndMarker returns the control batch that ends a transaction. The batch belongs to the caller.
func EndMarker(o EndMarkerOptions) Batch {
	var key [controlKeySize]byte
	if o.Commit {
		binary.BigEndian.PutUint16(key[2:], uint16(Commit))
	}
	var value [controlMarkerSize]byte
	binary.BigEndian.PutUint32(value[2:], uint32(o.CoordinatorEpoch))

	size := bodySize(0, 0, key[:], value[:], nil)
	b := appendRecord(make([]byte, HeaderSize, HeaderSize+size+1), int32(size), 0, 0, key[:], value[:], nil)
	Header{
		BaseOffset:    o.BaseOffset,
		Length:        int32(len(b) - lengthOverhead),
		LeaderEpoch:   o.LeaderEpoch,
		Magic:         Magic,
		Attributes:    attrTransactional | attrControl,
		BaseTimestamp: o.Timestamp,
		MaxTimestamp:  o.Timestamp,
		ProducerID:    o.ProducerID,
		ProducerEpoch: o.ProducerEpoch,
		BaseSequence:  noSequence,
		Count:         1,
	}.Put(b)
	Batch(b).sealCRC()
	return b
}
