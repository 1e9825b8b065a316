package batch

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// produced returns a batch as a client sends it, and rules that accept it.
func produced(t testing.TB, codec Codec) (Batch, Rules) {
	return build(t, BuilderOptions{Codec: codec, LeaderEpoch: -1}, keyed()), DefaultRules(goldenTime)
}

// keyed are three records with keys within an hour of goldenTime.
func keyed() []Record {
	return []Record{
		{Offset: 0, Timestamp: goldenTime, Key: []byte("a"), Value: []byte("1")},
		{Offset: 1, Timestamp: goldenTime + 3600000, Key: []byte("b")},
		{Offset: 2, Timestamp: -1, Key: []byte{}, Value: []byte("3"), Headers: []RecordHeader{{Key: "h", Value: []byte("x")}}},
	}
}

// edit changes header fields of a copy of b and makes the checksum true again.
func edit(b Batch, change func(*Header)) Batch {
	h := b.Header()
	change(&h)
	out := slices.Clone(b)
	h.Put(out)
	out.sealCRC()
	return out
}

// requireRefused checks that Validate refuses the records with the kind, and leaves them as they are.
func requireRefused(t *testing.T, kind Kind, records []byte, rules Rules, name string) *ValidationError {
	t.Helper()
	before := slices.Clone(records)
	result, err := Validate(records, rules)
	var refusal *ValidationError
	require.ErrorAs(t, err, &refusal, name)
	require.Equal(t, kind, refusal.Kind, "%s: %v", name, err)
	require.Equal(t, Result{}, result, name)
	require.Equal(t, before, records, "%s: a refused batch is not touched", name)
	return refusal
}

func TestValidateAcceptsAndReturnsTheSameBytes(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		for _, inspect := range []Inspection{InspectAll, InspectHeaders} {
			b, rules := produced(t, codec)
			rules.Inspect = inspect
			before := slices.Clone(b)
			result, err := Validate(b, rules)
			require.NoError(t, err)
			require.Equal(t, Result{Batch: before}, result)
			require.Same(t, &b[0], &result.Batch[0], "verbatim: the caller's bytes")
		}
	}
}

func TestValidateCutsOffAPartialBatch(t *testing.T) {
	b, rules := produced(t, LZ4)
	for n := 1; n < len(b); n++ {
		result, err := Validate(slices.Concat(b, b[:n]), rules)
		require.NoError(t, err, "%d bytes behind the batch", n)
		require.Equal(t, b, result.Batch)
	}
}

func TestF49_FramingFaults(t *testing.T) {
	b, rules := produced(t, None)
	legacy := func(magic byte) []byte {
		out := make([]byte, 40)
		binary.BigEndian.PutUint32(out[posLength:], 28)
		out[posMagic] = magic
		return out
	}
	short := edit(b, func(h *Header) { h.Length = 48 })
	tiny := edit(b, func(h *Header) { h.Length = 13 })
	for name, c := range map[string]struct {
		kind    Kind
		records []byte
	}{
		"nothing":                       {InvalidRecord, nil},
		"a partial batch alone":         {InvalidRecord, b[:len(b)-1]},
		"a few bytes":                   {InvalidRecord, b[:16]},
		"version 0":                     {UnsupportedFormat, legacy(0)},
		"version 1":                     {UnsupportedFormat, legacy(1)},
		"version 3":                     {UnsupportedFormat, legacy(3)},
		"version -1":                    {UnsupportedFormat, legacy(0xff)},
		"two batches":                   {InvalidRecord, slices.Concat(b, b)},
		"a batch and an older one":      {InvalidRecord, slices.Concat(b, legacy(1))},
		"a batch and zeros":             {Corrupt, slices.Concat(b, make([]byte, 17))},
		"a batch and an unknown one":    {Corrupt, slices.Concat(b, legacy(3))},
		"a length less than the header": {Corrupt, short},
		"a length of nothing":           {Corrupt, tiny},
	} {
		requireRefused(t, c.kind, c.records, rules, name)
	}
}

func TestF49_HeaderFaults(t *testing.T) {
	b, rules := produced(t, None)
	producer := func(h *Header) { h.ProducerID, h.ProducerEpoch, h.BaseSequence = 5, 0, 0 }
	with := func(changes ...func(*Header)) Batch {
		return edit(b, func(h *Header) {
			for _, change := range changes {
				change(h)
			}
		})
	}
	for name, c := range map[string]struct {
		kind Kind
		b    Batch
	}{
		"base offset":                     {InvalidRecord, with(func(h *Header) { h.BaseOffset = 1 })},
		"negative base offset":            {InvalidRecord, with(func(h *Header) { h.BaseOffset = -1 })},
		"count 0":                         {InvalidRecord, with(func(h *Header) { h.Count = 0 })},
		"count 0 and delta -1":            {InvalidRecord, with(func(h *Header) { h.Count, h.LastOffsetDelta = 0, -1 })},
		"count negative":                  {InvalidRecord, with(func(h *Header) { h.Count = -3 })},
		"count too small":                 {InvalidRecord, with(func(h *Header) { h.Count = 2 })},
		"count too large":                 {InvalidRecord, with(func(h *Header) { h.Count = 4 })},
		"delta too small":                 {InvalidRecord, with(func(h *Header) { h.LastOffsetDelta = 1 })},
		"delta of the largest int":        {InvalidRecord, with(func(h *Header) { h.LastOffsetDelta = math.MaxInt32 })},
		"count and delta too large":       {InvalidRecord, with(func(h *Header) { h.Count, h.LastOffsetDelta = 4, 3 })},
		"count and delta too small":       {InvalidRecord, with(func(h *Header) { h.Count, h.LastOffsetDelta = 2, 1 })},
		"control":                         {InvalidRecord, with(func(h *Header) { h.Attributes |= attrControl })},
		"delete horizon":                  {InvalidRecord, with(func(h *Header) { h.Attributes |= attrDeleteHorizon })},
		"attribute bit 7":                 {InvalidRecord, with(func(h *Header) { h.Attributes |= 1 << 7 })},
		"attribute bit 15":                {InvalidRecord, with(func(h *Header) { h.Attributes |= -1 << 15 })},
		"codec 5":                         {UnsupportedCompression, with(func(h *Header) { h.Attributes |= 5 })},
		"codec 7":                         {UnsupportedCompression, with(func(h *Header) { h.Attributes |= 7 })},
		"codec that it is not":            {InvalidRecord, with(func(h *Header) { h.Attributes |= Attributes(Gzip) })},
		"log append time":                 {InvalidTimestamp, with(func(h *Header) { h.Attributes |= attrLogAppendTime })},
		"producer without sequence":       {InvalidRecord, with(producer, func(h *Header) { h.BaseSequence = -1 })},
		"producer without epoch":          {InvalidRecord, with(producer, func(h *Header) { h.ProducerEpoch = -1 })},
		"transactional without producer":  {InvalidRecord, with(func(h *Header) { h.Attributes |= attrTransactional })},
		"a checksum that is not its own":  {Corrupt, func() Batch { c := slices.Clone(b); c[posCRC] ^= 1; return c }()},
		"a payload that is not its own":   {Corrupt, func() Batch { c := slices.Clone(b); c[posRecords+3] ^= 1; return c }()},
		"a damaged count before all else": {Corrupt, func() Batch { c := slices.Clone(b); c[posCount] ^= 1; return c }()},
	} {
		requireRefused(t, c.kind, c.b, rules, name)
	}

	for name, ok := range map[string]Batch{
		"a producer":                  with(producer),
		"a transaction":               with(producer, func(h *Header) { h.Attributes |= attrTransactional }),
		"a producer at the wrap":      with(producer, func(h *Header) { h.BaseSequence = math.MaxInt32 }),
		"a sequence but no producer":  with(func(h *Header) { h.ProducerEpoch, h.BaseSequence = 0, 0 }),
		"a leader epoch of its own":   with(func(h *Header) { h.LeaderEpoch = 17 }),
		"a base timestamp of another": with(func(h *Header) { h.BaseTimestamp -= 9 }),
	} {
		_, err := Validate(ok, rules)
		require.NoError(t, err, name)
	}
}

func TestF49_ZstdNeedsProduceVersion7(t *testing.T) {
	b, rules := produced(t, Zstd)
	rules.ProduceVersion = 6
	requireRefused(t, UnsupportedCompression, b, rules, "zstd in version 6")
	rules.ProduceVersion = 7
	_, err := Validate(b, rules)
	require.NoError(t, err)
}

func TestF49_PayloadFaults(t *testing.T) {
	for codec := Gzip; codec <= Zstd; codec++ {
		b, rules := produced(t, codec)
		for cut := range b.Payload() {
			requireRefused(t, InvalidRecord, withPayload(b.Header(), b.Payload()[:cut]), rules, codec.String())
		}
		requireRefused(t, InvalidRecord, withPayload(b.Header(), append(b.Payload(), 7)), rules, codec.String())
		requireRefused(t, InvalidRecord, withPayload(b.Header(), rawRecords(t, keyed())), rules, codec.String())
	}
	b, rules := produced(t, None)
	for cut := range b.Payload() {
		requireRefused(t, InvalidRecord, withPayload(b.Header(), b.Payload()[:cut]), rules, "truncated")
	}
}

func TestValidateOrderOfChecks(t *testing.T) {
	b, rules := produced(t, None)
	small := rules
	small.MaxMessageBytes, small.SegmentBytes = len(b)-1, 10
	faults := []struct {
		kind  Kind
		spoil func(Batch)
	}{
		{InvalidTimestamp, func(b Batch) { b[posAttributes+1] |= attrLogAppendTime; b.sealCRC() }},
		{UnsupportedCompression, func(b Batch) { b[posAttributes+1] |= 5; b.sealCRC() }},
		{InvalidRecord, func(b Batch) { b[posCount+3]++; b.sealCRC() }},
		{Corrupt, func(b Batch) { b[posCRC] ^= 1 }},
		{InvalidRecord, func(b Batch) { b[posBaseOffset+7] = 1 }},
		{UnsupportedFormat, func(b Batch) { b[posMagic] = 1 }},
	}
	for _, fault := range faults {
		fault.spoil(b)
		requireRefused(t, fault.kind, b, rules, "each fault hides those found later")
	}
	b, _ = produced(t, None)
	requireRefused(t, TooLarge, b, small, "the message limit comes before the segment")
	b[posCRC] ^= 1
	requireRefused(t, TooLarge, b, small, "and before the checksum")
}

func TestValidateSizes(t *testing.T) {
	b, rules := produced(t, Gzip)
	rules.MaxMessageBytes, rules.SegmentBytes = len(b), int64(len(b))
	_, err := Validate(b, rules)
	require.NoError(t, err)
	rules.SegmentBytes--
	requireRefused(t, ListTooLarge, b, rules, "larger than a segment")
	rules.MaxMessageBytes--
	requireRefused(t, TooLarge, b, rules, "larger than a message")
	rules.MaxMessageBytes, rules.SegmentBytes = 0, 0
	_, err = Validate(b, rules)
	require.NoError(t, err, "0 is no limit")
}

func TestValidateKeysOfACompactedTopic(t *testing.T) {
	records := keyed()
	records[0].Key, records[2].Key = nil, nil
	for codec := None; codec <= Zstd; codec++ {
		b := build(t, BuilderOptions{Codec: codec}, records)
		rules := DefaultRules(goldenTime)
		rules.Inspect = InspectHeaders
		_, err := Validate(b, rules)
		require.NoError(t, err)

		rules.Compacted = true
		refusal := requireRefused(t, InvalidRecord, b, rules, codec.String())
		const message = "a compacted topic does not accept a record without a key"
		require.Equal(t, []RecordError{{0, message}, {2, message}}, refusal.RecordErrors)
	}
}

func TestValidateTimestamps(t *testing.T) {
	const now = goldenTime
	rules := DefaultRules(now)
	rules.BeforeMaxMs, rules.AfterMaxMs = 1000, 500
	batchAt := func(ts ...int64) Batch {
		builder := NewBuilder(BuilderOptions{Codec: LZ4})
		for _, ms := range ts {
			builder.Add(ms, nil, nil)
		}
		b, err := builder.Build()
		require.NoError(t, err)
		return b
	}
	_, err := Validate(batchAt(now-1000, now+500, -1), rules)
	require.NoError(t, err)

	refusal := requireRefused(t, InvalidTimestamp, batchAt(now, now-1001, now, now+501, -2), rules, "out of range")
	require.Len(t, refusal.RecordErrors, 3)
	require.Equal(t, RecordError{1, "timestamp 1699999998999 is out of range: at most 1000 ms before and 500 ms after the broker's clock 1700000000000"}, refusal.RecordErrors[0])
	require.Equal(t, int32(3), refusal.RecordErrors[1].Index)
	require.Equal(t, int32(4), refusal.RecordErrors[2].Index)

	rules.BeforeMaxMs, rules.AfterMaxMs = math.MaxInt64, math.MaxInt64
	_, err = Validate(batchAt(math.MinInt64+now, -2, math.MaxInt64), rules)
	require.NoError(t, err, "no limit at all")
	rules.AfterMaxMs = 1 << 62
	requireRefused(t, InvalidTimestamp, batchAt(math.MinInt64), rules, "a difference that an int64 does not hold, as in Kafka")

	rules.TimestampType = LogAppendTime
	_, err = Validate(batchAt(math.MinInt64, 7), rules)
	require.NoError(t, err, "under LogAppendTime timestamps are not looked at")
	stamped := batchAt(7)
	stamped.StampAppendTime(now)
	requireRefused(t, InvalidTimestamp, stamped, rules, "but the flag is")
}

func TestInvalidTimestampOutranksInvalidRecord(t *testing.T) {
	records := keyed()
	records[0].Key = nil
	records[1].Timestamp = 5
	rules := DefaultRules(goldenTime)
	rules.BeforeMaxMs = 1000
	rules.Compacted = true
	refusal := requireRefused(t, InvalidTimestamp, build(t, BuilderOptions{}, records), rules, "both")
	require.Equal(t, int32(0), refusal.RecordErrors[0].Index)
	require.Equal(t, int32(1), refusal.RecordErrors[1].Index)
}

func TestRecordErrorsAreBounded(t *testing.T) {
	builder := NewBuilder(BuilderOptions{Codec: Zstd})
	for range 5000 {
		builder.Add(goldenTime, nil, nil)
	}
	b, err := builder.Build()
	require.NoError(t, err)
	rules := DefaultRules(goldenTime)
	rules.Compacted = true
	refusal := requireRefused(t, InvalidRecord, b, rules, "5000 records without keys")
	require.Len(t, refusal.RecordErrors, MaxRecordErrors)
	require.EqualError(t, refusal, "batch: invalid record: 5000 of the records are invalid, the first because a compacted topic does not accept a record without a key")
}

func TestValidateCorrectsTheMaxTimestamp(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b, rules := produced(t, codec)
		want := slices.Clone(b)
		for _, claimed := range []int64{0, -1, math.MaxInt64} {
			wrong := edit(b, func(h *Header) { h.MaxTimestamp = claimed })
			result, err := Validate(wrong, rules)
			require.NoError(t, err)
			require.Equal(t, Result{Batch: want}, result)
			require.NoError(t, result.Batch.VerifyCRC())
		}
	}
}

func TestValidateRebuildsIrregularOffsets(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		builder := NewBuilder(BuilderOptions{Codec: codec, HasProducer: true, ProducerID: 8, ProducerEpoch: 1, BaseSequence: 3, LeaderEpoch: -1})
		records := keyed()
		records[2].Offset = 4
		for _, r := range records {
			builder.AddAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers...)
		}
		b, err := builder.Build()
		require.NoError(t, err)
		b = edit(b, func(h *Header) { h.LastOffsetDelta = 2 })

		result, err := Validate(b, DefaultRules(goldenTime))
		require.NoError(t, err)
		require.True(t, result.Rebuilt)
		require.NoError(t, result.Batch.VerifyCRC())
		require.Equal(t, keyed(), all(t, result.Batch, Limits{}))
		want := b.Header()
		want.Length, want.CRC = result.Batch.Length(), result.Batch.CRC()
		require.Equal(t, want, result.Batch.Header())
	}
}

func TestValidateRecompresses(t *testing.T) {
	for from := None; from <= Zstd; from++ {
		for to := None; to <= Zstd; to++ {
			b, rules := produced(t, from)
			rules.Recompress, rules.TargetCodec = true, to
			rules.Inspect = InspectHeaders
			result, err := Validate(b, rules)
			require.NoError(t, err)
			require.Equal(t, from != to, result.Rebuilt, "%v to %v", from, to)
			require.Equal(t, to, result.Batch.Attributes().Codec())
			require.NoError(t, result.Batch.VerifyCRC())
			require.Equal(t, keyed(), all(t, result.Batch, Limits{}))
		}
	}
}

func TestValidateChecksSizesAgainAfterARebuild(t *testing.T) {
	builder := NewBuilder(BuilderOptions{Codec: Zstd})
	for range 100 {
		builder.Add(goldenTime, nil, make([]byte, 10000))
	}
	b, err := builder.Build()
	require.NoError(t, err)
	rules := DefaultRules(goldenTime)
	rules.Recompress, rules.TargetCodec = true, None
	rules.MaxMessageBytes = 500000
	requireRefused(t, TooLarge, b, rules, "uncompressed it is larger than a message")
	rules.MaxMessageBytes, rules.SegmentBytes = 2000000, 500000
	requireRefused(t, ListTooLarge, b, rules, "uncompressed it is larger than a segment")
	rules.TargetLevel = 5
	requireRefused(t, InvalidRecord, b, rules, "a level that the codec does not have")
}

func TestValidateBoundsWhatARebuildHolds(t *testing.T) {
	builder := NewBuilder(BuilderOptions{Codec: Zstd})
	for range 64 {
		builder.Add(goldenTime, nil, make([]byte, 1<<20))
	}
	b, err := builder.Build()
	require.NoError(t, err)
	rules := DefaultRules(goldenTime)
	rules.Recompress, rules.TargetCodec = true, LZ4
	result, err := Validate(b, rules)
	require.NoError(t, err, "64 MiB of zeros are a small batch in LZ4 too")
	require.Less(t, len(result.Batch), 1<<20)
	require.Equal(t, int32(64), result.Batch.Count())
}

func TestValidateRefusesBombs(t *testing.T) {
	builder := NewBuilder(BuilderOptions{Codec: Zstd})
	for range 40 {
		builder.Add(goldenTime, nil, make([]byte, 8<<20))
	}
	b, err := builder.Build()
	require.NoError(t, err)
	require.Less(t, len(b), 100<<10)
	rules := DefaultRules(goldenTime)
	refusal := requireRefused(t, InvalidRecord, b, rules, "320 MiB of zeros")
	var large *DecompressedTooLargeError
	require.ErrorAs(t, refusal, &large)
	require.Equal(t, int64(DefaultMaxDecompressedBytes), large.Limit)

	rules.MaxRecordBytes = 1 << 20
	refusal = requireRefused(t, InvalidRecord, b, rules, "a record of 8 MiB")
	var record *RecordTooLargeError
	require.ErrorAs(t, refusal, &record)

	rules.MaxRecordBytes, rules.MaxDecompressedBytes = 0, -1
	_, err = Validate(b, rules)
	require.NoError(t, err, "without a limit it costs time only")
}

func TestInspectHeadersTrustsOnlyWhatItMay(t *testing.T) {
	b, rules := produced(t, LZ4)
	b = withPayload(b.Header(), []byte("not lz4 at all"))
	rules.Inspect = InspectHeaders
	_, err := Validate(b, rules)
	require.NoError(t, err, "the payload is not looked at")

	late := edit(b, func(h *Header) { h.MaxTimestamp = goldenTime + 3600001 })
	requireRefused(t, InvalidTimestamp, late, rules, "the header's max timestamp is held against the clock")
	rules.TimestampType = LogAppendTime
	_, err = Validate(late, rules)
	require.NoError(t, err)
	rules.TimestampType = CreateTime

	for name, strict := range map[string]func(*Rules){
		"inspect all":     func(r *Rules) { r.Inspect = InspectAll },
		"compacted":       func(r *Rules) { r.Compacted = true },
		"another codec":   func(r *Rules) { r.Recompress, r.TargetCodec = true, Gzip },
		"a bound on ages": func(r *Rules) { r.BeforeMaxMs = 1 << 40 },
	} {
		r := rules
		strict(&r)
		requireRefused(t, InvalidRecord, b, r, name)
	}
	plain, _ := produced(t, None)
	requireRefused(t, InvalidRecord, withPayload(plain.Header(), []byte("no records")), rules, "uncompressed records are always read")
}

func TestARecordMarkedAsCompressedInACompressedBatch(t *testing.T) {
	raw := rawRecords(t, keyed())
	raw[1] = 1 // the first record's attributes
	b, rules := produced(t, None)
	_, err := Validate(withPayload(b.Header(), raw), rules)
	require.NoError(t, err, "in an uncompressed batch the attributes of records mean nothing")

	enc, err := newEncoder(LZ4, 0)
	require.NoError(t, err)
	payload, err := enc.finish(nil, raw)
	require.NoError(t, err)
	z, _ := produced(t, LZ4)
	refusal := requireRefused(t, InvalidRecord, withPayload(z.Header(), payload), rules, "in a compressed one they must not name a codec")
	require.Equal(t, []RecordError{{0, "a record of a compressed batch is marked as compressed itself"}}, refusal.RecordErrors)
}

func TestValidationErrorsSayWhatIsWrong(t *testing.T) {
	b, rules := produced(t, None)
	rules.MaxMessageBytes = 10
	_, err := Validate(b, rules)
	require.EqualError(t, err, "batch: too large: the batch has 98 bytes, the limit is 10")
	_, err = Validate(edit(b, func(h *Header) { h.Count = 9 }), DefaultRules(goldenTime))
	require.EqualError(t, err, "batch: invalid record: last offset delta is 2, want the record count less 1")
}
