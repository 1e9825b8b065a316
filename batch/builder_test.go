package batch

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuilderWritesEveryHeaderField(t *testing.T) {
	o := BuilderOptions{
		Codec: LZ4, BaseOffset: 100, LeaderEpoch: 3,
		HasProducer: true, ProducerID: 0, ProducerEpoch: 2, BaseSequence: 9,
		Transactional: true, Control: true,
		HasDeleteHorizon: true, DeleteHorizon: 5000, LastOffsetDelta: 20,
	}
	builder := NewBuilder(o)
	builder.AddAt(102, 10, []byte("a"), nil)
	builder.AddAt(110, 30, []byte("b"), nil)
	builder.Add(20, []byte("c"), nil)
	require.Equal(t, 3, builder.Count())
	b, err := builder.Build()
	require.NoError(t, err)
	require.NoError(t, b.VerifyCRC())
	require.Equal(t, Header{
		BaseOffset: 100, Length: b.Length(), LeaderEpoch: 3, Magic: 2, CRC: b.CRC(),
		Attributes:      Attributes(LZ4) | attrTransactional | attrControl | attrDeleteHorizon,
		LastOffsetDelta: 20, BaseTimestamp: 5000, MaxTimestamp: 30,
		ProducerID: 0, ProducerEpoch: 2, BaseSequence: 9, Count: 3,
	}, b.Header())
	require.Equal(t, o, b.Header().BuilderOptions())
	require.Equal(t, []Record{
		{Offset: 102, Timestamp: 10, Key: []byte("a")},
		{Offset: 110, Timestamp: 30, Key: []byte("b")},
		{Offset: 111, Timestamp: 20, Key: []byte("c")},
	}, all(t, b, Limits{}))
}

func TestBuilderKeepsAppendTimeAcrossARewrite(t *testing.T) {
	b := build(t, BuilderOptions{TimestampType: LogAppendTime, AppendTime: 77}, sample())
	again := build(t, b.Header().BuilderOptions(), all(t, b, Limits{})[:2])
	require.Equal(t, int64(77), again.MaxTimestamp())
	require.Equal(t, b.LastOffset(), again.LastOffset())
}

func TestBuilderReportsTheFirstFault(t *testing.T) {
	for name, c := range map[string]struct {
		options BuilderOptions
		add     func(*Builder)
		err     string
	}{
		"no record": {BuilderOptions{}, func(*Builder) {}, ErrEmpty.Error()},
		"an offset twice": {BuilderOptions{BaseOffset: 7}, func(b *Builder) {
			b.AddAt(9, 0, nil, nil)
			b.AddAt(9, 0, nil, nil)
			b.AddAt(3, 0, nil, nil)
		}, "batch: record at offset 9 added after offset 9"},
		"an offset below the base": {BuilderOptions{BaseOffset: 7}, func(b *Builder) {
			b.AddAt(6, 0, nil, nil)
		}, "batch: record at offset 6 added after offset 6"},
		"an offset too far": {BuilderOptions{}, func(b *Builder) {
			b.AddAt(math.MaxInt32+1, 0, nil, nil)
		}, "batch: offset 2147483648 is too far from base offset 0"},
		"an unknown codec":   {BuilderOptions{Codec: 5}, func(b *Builder) { b.Add(0, nil, nil) }, "batch: unknown compression codec 5, want 0 to 4"},
		"a level too high":   {BuilderOptions{Codec: Gzip, Level: 10}, func(b *Builder) { b.Add(0, nil, nil) }, "batch: gzip has no compression level 10"},
		"a level for snappy": {BuilderOptions{Codec: Snappy, Level: 1}, func(b *Builder) { b.Add(0, nil, nil) }, "batch: snappy has no compression level 1"},
	} {
		b := NewBuilder(c.options)
		c.add(b)
		_, err := b.Build()
		require.EqualError(t, err, c.err, name)
	}
}

func TestBuilderIsUsedOncePerReset(t *testing.T) {
	b := NewBuilder(BuilderOptions{})
	b.Add(1, nil, []byte("one"))
	first, err := b.Build()
	require.NoError(t, err)
	kept := slices.Clone(first)

	b.Add(2, nil, []byte("two"))
	_, err = b.Build()
	require.Equal(t, ErrBuilt, err)

	b.Reset(BuilderOptions{BaseOffset: 5})
	b.Add(3, nil, []byte("three"))
	second, err := b.AppendTo([]byte("before"))
	require.NoError(t, err)
	require.Equal(t, []Record{{Offset: 5, Timestamp: 3, Value: []byte("three")}}, all(t, second, Limits{}))
	require.Equal(t, kept, first, "what was built does not change")
}

func TestCompressionLevels(t *testing.T) {
	for codec, levels := range map[Codec][]int{
		None: {0}, Snappy: {0}, Gzip: {-1, 0, 1, 6, 9}, LZ4: {0, 1, 3, 9, 10, 17}, Zstd: {-131072, -1, 0, 1, 3, 9, 22},
	} {
		for _, level := range levels {
			require.NoError(t, CheckLevel(codec, level))
			b := build(t, BuilderOptions{Codec: codec, Level: level}, sample())
			require.Equal(t, sample(), all(t, b, Limits{}), "%v at level %d", codec, level)
		}
	}
	for codec, levels := range map[Codec][]int{
		None: {1}, Snappy: {-1}, Gzip: {-2, 10}, LZ4: {-1, 18}, Zstd: {-131073, 23},
	} {
		for _, level := range levels {
			require.Equal(t, &LevelError{Codec: codec, Level: level}, CheckLevel(codec, level))
		}
	}
	require.Equal(t, &UnknownCodecError{ID: 6}, CheckLevel(6, 0))
}

func TestLargeBatchesSpanBlocks(t *testing.T) {
	var records []Record
	for i, value := range payloads("json", 3000, 1000) {
		records = append(records, Record{Offset: int64(i), Timestamp: int64(i), Key: value[:9], Value: value})
	}
	records = append(records, Record{Offset: 3000, Timestamp: 1, Value: bytes.Repeat([]byte("tide"), 1<<20)})
	raw := len(rawRecords(t, records))
	for codec := Gzip; codec <= Zstd; codec++ {
		builder := NewBuilder(BuilderOptions{Codec: codec})
		for _, r := range records {
			builder.Add(r.Timestamp, r.Key, r.Value)
			require.Less(t, builder.Size(), raw, codec)
		}
		b, err := builder.Build()
		require.NoError(t, err)
		require.Less(t, len(b), raw/2)
		got := all(t, b, Limits{})
		require.Equal(t, records, got, codec)
	}
}
