package batch

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyBytes are null, empty, noise, or something that compresses and may be longer than a compression block.
func anyBytes() *rapid.Generator[[]byte] {
	return rapid.OneOf(
		rapid.Just([]byte(nil)),
		rapid.Just([]byte{}),
		rapid.SliceOfN(rapid.Byte(), 1, 300),
		rapid.Custom(func(t *rapid.T) []byte {
			unit := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "unit")
			return bytes.Repeat(unit, rapid.IntRange(1, 9000).Draw(t, "times"))
		}),
	)
}

func anyRecords() *rapid.Generator[[]Record] {
	return rapid.Custom(func(t *rapid.T) []Record {
		records := make([]Record, rapid.IntRange(1, 30).Draw(t, "count"))
		for i := range records {
			records[i] = Record{
				Offset:    int64(i),
				Timestamp: rapid.Int64().Draw(t, "timestamp"),
				Key:       anyBytes().Draw(t, "key"),
				Value:     anyBytes().Draw(t, "value"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				records[i].Headers = append(records[i].Headers, RecordHeader{
					Key:   rapid.StringN(0, 10, -1).Draw(t, "header key"),
					Value: anyBytes().Draw(t, "header value"),
				})
			}
		}
		return records
	})
}

func anyCodec() *rapid.Generator[Codec] {
	return rapid.Map(rapid.IntRange(int(None), int(Zstd)), func(n int) Codec { return Codec(n) })
}

func anyOptions() *rapid.Generator[BuilderOptions] {
	return rapid.Custom(func(t *rapid.T) BuilderOptions {
		o := BuilderOptions{
			Codec:       anyCodec().Draw(t, "codec"),
			BaseOffset:  rapid.Int64Range(0, math.MaxInt64-1<<33).Draw(t, "base offset"),
			LeaderEpoch: rapid.Int32().Draw(t, "leader epoch"),
		}
		if o.HasProducer = rapid.Bool().Draw(t, "has producer"); o.HasProducer {
			o.ProducerID = rapid.Int64Min(0).Draw(t, "producer id")
			o.ProducerEpoch = rapid.Int16Min(0).Draw(t, "producer epoch")
			o.BaseSequence = rapid.Int32Min(0).Draw(t, "base sequence")
			o.Transactional = rapid.Bool().Draw(t, "transactional")
		}
		return o
	})
}

func TestBuildThenReadGivesTheSameRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyOptions().Draw(t, "options")
		if o.HasDeleteHorizon = rapid.Bool().Draw(t, "has horizon"); o.HasDeleteHorizon {
			o.DeleteHorizon = rapid.Int64().Draw(t, "horizon")
		}
		records := anyRecords().Draw(t, "records")
		offset := o.BaseOffset
		builder := NewBuilder(o)
		largest := int64(-1)
		for i := range records {
			r := &records[i]
			offset += rapid.Int64Range(0, 5).Draw(t, "gap")
			r.Offset = offset
			offset++
			largest = max(largest, r.Timestamp)
			builder.AddAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers...)
		}
		b, err := builder.Build()
		require.NoError(t, err)
		require.NoError(t, b.VerifyCRC())
		require.NoError(t, b.Header().Check())
		next, rest, err := Next(b)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, b, next)
		require.Equal(t, largest, b.MaxTimestamp())
		require.Equal(t, records[len(records)-1].Offset, b.LastOffset())

		got, err := collect(b, Limits{})
		require.NoError(t, err)
		require.Equal(t, records, got)

		o.LastOffsetDelta = b.LastOffsetDelta()
		require.Equal(t, normal(o), b.Header().BuilderOptions())
	})
}

// normal returns options as they read back from a header.
func normal(o BuilderOptions) BuilderOptions {
	if !o.HasProducer {
		o.ProducerID, o.ProducerEpoch, o.BaseSequence = -1, -1, -1
	}
	return o
}

func TestValidateAcceptsWhatTheBuilderMakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyOptions().Draw(t, "options")
		o.BaseOffset = 0
		records := anyRecords().Draw(t, "records")
		builder := NewBuilder(o)
		for _, r := range records {
			builder.Add(r.Timestamp, r.Key, r.Value, r.Headers...)
		}
		b, err := builder.Build()
		require.NoError(t, err)

		rules := DefaultRules(0)
		rules.MaxMessageBytes, rules.AfterMaxMs = 0, math.MaxInt64
		rules.Inspect = Inspection(rapid.IntRange(0, 1).Draw(t, "inspect"))
		if rules.Recompress = rapid.Bool().Draw(t, "recompress"); rules.Recompress {
			rules.TargetCodec = anyCodec().Draw(t, "target")
		}
		before := slices.Clone(b)
		result, err := Validate(b, rules)
		require.NoError(t, err)
		require.Equal(t, rules.Recompress && rules.TargetCodec != o.Codec, result.Rebuilt)
		if !result.Rebuilt {
			require.Equal(t, before, result.Batch)
			return
		}
		require.NoError(t, result.Batch.VerifyCRC())
		got, err := collect(result.Batch, Limits{})
		require.NoError(t, err)
		require.Equal(t, records, got)
		want := before.Header()
		want.Length, want.CRC = result.Batch.Length(), result.Batch.CRC()
		want.Attributes = want.Attributes&^codecMask | Attributes(rules.TargetCodec)
		require.Equal(t, want, result.Batch.Header())
	})
}

func TestAnyBitFlipUnderTheChecksumIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyOptions().Draw(t, "options")
		builder := NewBuilder(o)
		for _, r := range anyRecords().Draw(t, "records") {
			builder.Add(r.Timestamp, r.Key, r.Value, r.Headers...)
		}
		b, err := builder.Build()
		require.NoError(t, err)
		at := rapid.IntRange(posCRC, len(b)-1).Draw(t, "byte")
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		require.Error(t, b.VerifyCRC())
	})
}
