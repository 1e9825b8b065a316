package batch

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// goldenNames are the batches in testdata, the seeds of every fuzz target here.
func goldenNames() []string {
	return []string{
		"two-records", "abort-marker", "empty-retained", "tombstone-horizon",
		"java-gzip", "java-snappy", "bare-snappy", "java-lz4", "java-zstd",
	}
}

func FuzzNext(f *testing.F) {
	for _, name := range goldenNames() {
		b := golden(f, name)
		f.Add([]byte(b))
		f.Add([]byte(slices.Concat(b, golden(f, "two-records"), b[:40])))
	}
	f.Fuzz(func(t *testing.T, buf []byte) {
		for rest := buf; ; {
			b, after, err := Next(rest)
			h, headerErr := ParseHeader(rest)
			if err == nil {
				require.NoError(t, headerErr)
				require.Equal(t, h, b.Header())
				require.Equal(t, h.Size(), len(b))
				require.True(t, bytes.Equal(rest, slices.Concat(b, after)))
				put := slices.Clone(b)
				h.Put(put)
				require.Equal(t, b, put)
				_, _ = b.VerifyCRC(), h.Check()
				rest = after
				continue
			}
			require.Nil(t, b)
			require.LessOrEqual(t, len(after), len(rest))
			var magic *MagicError
			var format *FormatError
			require.True(t, err == io.EOF || err == io.ErrUnexpectedEOF || errors.As(err, &magic) || errors.As(err, &format))
			return
		}
	})
}

func FuzzRecordsUncompressed(f *testing.F) { fuzzRecords(f, None) }
func FuzzRecordsGzip(f *testing.F)         { fuzzRecords(f, Gzip) }
func FuzzRecordsSnappy(f *testing.F)       { fuzzRecords(f, Snappy) }
func FuzzRecordsLZ4(f *testing.F)          { fuzzRecords(f, LZ4) }
func FuzzRecordsZstd(f *testing.F)         { fuzzRecords(f, Zstd) }

func fuzzRecords(f *testing.F, codec Codec) {
	for _, name := range goldenNames() {
		if b := golden(f, name); b.Attributes().Codec() == codec {
			f.Add(b.Count(), b.Payload())
		}
	}
	f.Add(int32(5), compressed(f, codec, sample()))
	for _, payload := range dialects(f)[codec] {
		f.Add(int32(5), payload)
	}
	const limit = 1 << 20
	franz := kgo.DefaultDecompressor()
	f.Fuzz(func(t *testing.T, count int32, payload []byte) {
		b := withPayload(Header{Attributes: Attributes(codec), Count: count, BaseTimestamp: 5, MaxTimestamp: 7}, payload)
		requireAgreement(t, franz, codec, payload, limit)
		records, err := collect(b, Limits{MaxRecordBytes: limit, MaxDecompressedBytes: limit})
		if err != nil {
			var decode *DecodeError
			require.ErrorAs(t, err, &decode)
			require.Len(t, records, int(decode.Index))
			return
		}
		if len(payload) > 0 {
			require.Len(t, records, int(count))
		}
		_, _, err = b.Control()
		require.NoError(t, err, "not a control batch")
		requireReadsBack(t, records)
	})
}

// requireAgreement checks that a payload which both we and franz-go decompress gives both the same bytes.
func requireAgreement(t *testing.T, franz kgo.Decompressor, codec Codec, payload []byte, limit int64) {
	if codec == None {
		return
	}
	ours, err := decompress(codec, payload, limit)
	if err != nil {
		return
	}
	theirs, err := franz.Decompress(payload, kgo.CompressionCodecType(codec))
	require.True(t, err != nil || bytes.Equal(ours, theirs))
}

func decompress(codec Codec, payload []byte, limit int64) ([]byte, error) {
	src, err := newSource(codec, payload, limit)
	if err != nil {
		return nil, err
	}
	defer src.release()
	var all, win []byte
	for {
		if win, err = src.fill(win[len(win):]); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, win...)
	}
}

// dialects are the sample records in forms that our own encoders do not write.
func dialects(t testing.TB) map[Codec][][]byte {
	raw := rawRecords(t, sample())
	return map[Codec][][]byte{
		Snappy: {
			s2.EncodeSnappy(nil, raw),
			slices.Concat(xerial(1, 1), xerialBlock(raw[:7]), xerial(1, 1), xerialBlock(raw[7:])),
		},
		LZ4: {
			lz4Frame(t, raw, lz4.BlockChecksumOption(true)),
			lz4Frame(t, raw, lz4.SizeOption(uint64(len(raw)))),
		},
		Zstd: {zstdStream(t, raw), zstdFrame(t, raw, zstd.WithSingleSegment(true))},
	}
}

// requireReadsBack builds a batch of the records, as far as a builder accepts their offsets, and reads it again.
func requireReadsBack(t *testing.T, records []Record) {
	builder := NewBuilder(BuilderOptions{})
	for i := range records {
		r := &records[i]
		r.Offset = int64(i)
		builder.Add(r.Timestamp, r.Key, r.Value, r.Headers...)
	}
	b, err := builder.Build()
	if len(records) == 0 {
		require.Equal(t, ErrEmpty, err)
		return
	}
	require.NoError(t, err)
	again, err := collect(b, Limits{})
	require.NoError(t, err)
	require.Equal(t, records, again)
}

func FuzzValidate(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		b, _ := produced(f, codec)
		f.Add([]byte(b), true, uint8(0), uint8(codec))
		f.Add([]byte(slices.Concat(b, b[:30])), true, uint8(7), uint8(LZ4))
	}
	for _, name := range goldenNames() {
		b := slices.Clone(golden(f, name))
		b.SetBaseOffset(0)
		f.Add([]byte(b), true, uint8(0), uint8(0))
	}
	f.Fuzz(func(t *testing.T, records []byte, seal bool, flags, target uint8) {
		if b := Batch(records); seal && len(b) >= HeaderSize {
			b.sealCRC()
		}
		rules := DefaultRules(goldenTime)
		rules.MaxRecordBytes, rules.MaxDecompressedBytes = 1<<20, 1<<21
		rules.Compacted = flags&1 != 0
		rules.Recompress, rules.TargetCodec = flags&2 != 0, Codec(target%8)
		rules.TimestampType = TimestampType(flags >> 2 & 1)
		before := slices.Clone(records)
		result, err := Validate(records, rules)
		if err != nil {
			var refusal *ValidationError
			require.ErrorAs(t, err, &refusal)
			require.LessOrEqual(t, len(refusal.RecordErrors), MaxRecordErrors)
			require.True(t, bytes.Equal(before, records))
			return
		}
		requireAcceptable(t, result.Batch, rules)
	})
}

// requireAcceptable checks what every batch that Validate returns must satisfy.
func requireAcceptable(t *testing.T, b Batch, rules Rules) {
	require.NoError(t, b.VerifyCRC())
	h := b.Header()
	require.NoError(t, h.Check())
	records, err := collect(b, Limits{})
	require.NoError(t, err)
	require.Len(t, records, int(h.Count))
	largest := int64(-1)
	for i, r := range records {
		require.Equal(t, int64(i), r.Offset)
		require.False(t, rules.Compacted && r.Key == nil)
		largest = max(largest, r.Timestamp)
	}
	if rules.TimestampType == CreateTime {
		require.Equal(t, largest, h.MaxTimestamp)
	}
	again, err := Validate(slices.Clone(b), rules)
	require.NoError(t, err)
	require.Equal(t, Result{Batch: b}, again, "what was accepted once is accepted as it is")
}

func FuzzParseControl(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 7})
	f.Add([]byte{0, 0, 3, 0xe8}, []byte{})
	f.Add([]byte{0xff, 0xff, 0, 0}, []byte{0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		c, err := ParseControl(key, value)
		if err != nil {
			var size *ControlSizeError
			var version *ControlVersionError
			require.True(t, errors.As(err, &size) || errors.As(err, &version))
			return
		}
		require.GreaterOrEqual(t, len(key), controlKeySize)
		if c.EndsTransaction() {
			b := EndMarker(EndMarkerOptions{Commit: c.Type == Commit, CoordinatorEpoch: c.CoordinatorEpoch})
			again, ok, err := b.Control()
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, c, again)
		}
	})
}
