package batch

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// Result is a batch that may be appended.
type Result struct {
	// Batch is the produced batch, a view of the caller's bytes, or a rebuilt one of its own.
	Batch Batch

	// Rebuilt says that Batch was encoded anew: for another codec, or because its offsets were irregular.
	Rebuilt bool
}

// Validate applies the rules that a leader has for the records of one partition of a Produce request, in Kafka's order,
// and returns the batch to append. It is for what clients send: batches that a coordinator or another replica writes
// obey other rules.
//
// The result aliases records, unless it was rebuilt. The header in records is patched in place in one case: when a
// CreateTime batch states a max timestamp that is not its records', the true one is written and the checksum recomputed.
// A partial batch after the first is cut off.
//
// The error is always a [*ValidationError]; see [Kind] for the client's error code. Accepting a batch as it is allocates
// nothing.
//
// It refuses more than Kafka does in these points, for which no client has a reason: attribute bits that only the log
// sets or that the format does not define, a producer id without an epoch, a transaction without a producer id, and
// compressed records that do not parse where Kafka only looks at their offsets and timestamps. They would fail every
// reader.
func Validate(records []byte, rules Rules) (Result, error) {
	b, err := cutProduced(records)
	if err != nil {
		return Result{}, err
	}
	h := b.Header()
	if err := checkHeader(b, &h, &rules); err != nil {
		return Result{}, err
	}
	if rules.mayTrust(&h) {
		return trust(b, &h, &rules)
	}
	found, err := inspect(b, &rules)
	if err != nil {
		return Result{}, err
	}
	if found.irregular || rules.mustRecompress(&h) {
		return rebuildBatch(b, &h, &rules)
	}
	if err := checkSegment(b, &rules); err != nil {
		return Result{}, err
	}
	if rules.TimestampType == CreateTime {
		b.StampMaxTimestamp(found.maxTimestamp)
	}
	return Result{Batch: b}, nil
}

// trust makes the checks that remain when the records are not read.
func trust(b Batch, h *Header, rules *Rules) (Result, error) {
	if rules.TimestampType == CreateTime && !rules.timestampAllowed(h.MaxTimestamp) {
		return Result{}, refuse(InvalidTimestamp, errTimestampRange)
	}
	if err := checkSegment(b, rules); err != nil {
		return Result{}, err
	}
	return Result{Batch: b}, nil
}

func refuse(kind Kind, err error) error { return &ValidationError{Kind: kind, Err: err} }

var (
	errNoBatch         = errors.New("there is no whole record batch")
	errSeveralBatches  = errors.New("there is more than one record batch")
	errTimestampRange  = errors.New("a timestamp is too far from the broker's clock")
	errClientControl   = errors.New("clients may not write control batches")
	errClientHorizon   = errors.New("clients may not set a delete horizon")
	errClientLAT       = errors.New("clients may not set the log append time flag")
	errProducerEpoch   = errors.New("there is a producer id but no producer epoch")
	errProducerSeq     = errors.New("there is a producer id but no base sequence")
	errTransactionalID = errors.New("the batch is transactional but has no producer id")
	errZstdVersion     = errors.New("zstd needs version 7 of the Produce request")
)

// cutProduced finds the one batch in what a client sent for a partition.
func cutProduced(records []byte) (Batch, error) {
	b, rest, err := Next(records)
	if err != nil {
		return nil, refuseFraming(err)
	}
	_, _, err = Next(rest)
	switch err.(type) {
	case nil, *MagicError:
		return nil, refuse(InvalidRecord, errSeveralBatches)
	case *FormatError:
		return nil, refuse(Corrupt, err)
	}
	return b, nil // nothing more, or an incomplete batch
}

func refuseFraming(err error) error {
	switch {
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return refuse(InvalidRecord, errNoBatch)
	case isMagic(err):
		return refuse(UnsupportedFormat, err)
	}
	return refuse(Corrupt, err)
}

func isMagic(err error) bool {
	var magic *MagicError
	return errors.As(err, &magic)
}

// checkHeader applies every rule that needs the header alone, and the checksum, which must come between them.
func checkHeader(b Batch, h *Header, rules *Rules) error {
	codec := h.Attributes.Codec()
	switch {
	case codec == Zstd && rules.ProduceVersion < 7:
		return refuse(UnsupportedCompression, errZstdVersion)
	case h.BaseOffset != 0:
		return refuse(InvalidRecord, &FormatError{Field: "base offset", Found: h.BaseOffset, Want: "0 from a client"})
	case rules.MaxMessageBytes > 0 && len(b) > rules.MaxMessageBytes:
		return refuse(TooLarge, sizeError(len(b), int64(rules.MaxMessageBytes)))
	}
	if err := b.VerifyCRC(); err != nil {
		return refuse(Corrupt, err)
	}
	if err := checkFields(h); err != nil {
		return refuse(InvalidRecord, err)
	}
	switch {
	case !codec.Valid():
		return refuse(UnsupportedCompression, &UnknownCodecError{ID: codec})
	case h.Attributes.LogAppendTime():
		return refuse(InvalidTimestamp, errClientLAT)
	}
	return nil
}

func checkFields(h *Header) error {
	switch {
	case h.Count < 1:
		return &FormatError{Field: "record count", Found: int64(h.Count), Want: "1 or more"}
	case int64(h.LastOffsetDelta)+1 != int64(h.Count):
		return &FormatError{Field: "last offset delta", Found: int64(h.LastOffsetDelta), Want: "the record count less 1"}
	case h.IsControl():
		return errClientControl
	case h.HasProducer() && h.BaseSequence < 0:
		return errProducerSeq
	case h.HasProducer() && h.ProducerEpoch < 0:
		return errProducerEpoch
	case h.IsTransactional() && !h.HasProducer():
		return errTransactionalID
	case h.Attributes.HasDeleteHorizon():
		return errClientHorizon
	case h.Attributes.unknown() != 0:
		return &FormatError{Field: "attributes", Found: int64(uint16(h.Attributes)), Want: "none but the defined bits"}
	}
	return nil
}

func checkSegment(b Batch, rules *Rules) error {
	if rules.SegmentBytes > 0 && int64(len(b)) > rules.SegmentBytes {
		return refuse(ListTooLarge, sizeError(len(b), rules.SegmentBytes))
	}
	return nil
}

func sizeError(size int, limit int64) error {
	return fmt.Errorf("the batch has %d bytes, the limit is %d", size, limit)
}

// mustRecompress reports whether the topic wants another codec than the batch has.
func (r *Rules) mustRecompress(h *Header) bool {
	return r.Recompress && r.TargetCodec != h.Attributes.Codec()
}

// mayTrust reports whether the records of a batch need not be read; see [InspectHeaders].
func (r *Rules) mayTrust(h *Header) bool {
	return r.Inspect == InspectHeaders && h.Attributes.Codec() != None && !r.Compacted && !r.mustRecompress(h) &&
		(r.TimestampType == LogAppendTime || r.BeforeMaxMs == math.MaxInt64)
}
