package batch

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franzCodecs are franz-go's compressors by our codec.
func franzCodecs() map[Codec]kgo.CompressionCodec {
	return map[Codec]kgo.CompressionCodec{
		Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression(),
	}
}

// large are records that fill several compression blocks.
func large() []Record {
	records := sample()
	for i, value := range payloads("json", 500, 1000) {
		records = append(records, Record{Offset: int64(5 + i), Timestamp: goldenTime, Key: value[:7], Value: value})
	}
	return records
}

func TestF68_WeReadWhatFranzGoCompresses(t *testing.T) {
	records := large()
	raw := rawRecords(t, records)
	for codec, theirs := range franzCodecs() {
		c, err := kgo.DefaultCompressor(theirs)
		require.NoError(t, err)
		payload, used := c.Compress(new(bytes.Buffer), raw)
		require.Equal(t, int8(codec), int8(used))
		h := build(t, BuilderOptions{Codec: codec}, records).Header()
		b := withPayload(h, payload)
		require.Equal(t, records, all(t, b, Limits{}), codec)

		rules := DefaultRules(goldenTime)
		result, err := Validate(b, rules)
		require.NoError(t, err)
		require.Equal(t, Result{Batch: b}, result)
	}
}

func TestF68_FranzGoDecompressesWhatWeWrite(t *testing.T) {
	records := large()
	raw := rawRecords(t, records)
	for codec := range franzCodecs() {
		payload := build(t, BuilderOptions{Codec: codec}, records).Payload()
		got, err := kgo.DefaultDecompressor().Decompress(payload, kgo.CompressionCodecType(codec))
		require.NoError(t, err, codec)
		require.True(t, bytes.Equal(raw, got), codec)
	}
}

func TestHeadersAreThoseOfTheGeneratedMessages(t *testing.T) {
	for _, name := range goldenNames() {
		b := golden(t, name)
		var m kmsg.RecordBatch
		require.NoError(t, m.ReadFrom(b), name)
		h := b.Header()
		require.Equal(t, kmsg.RecordBatch{
			FirstOffset: h.BaseOffset, Length: h.Length, PartitionLeaderEpoch: h.LeaderEpoch, Magic: h.Magic, CRC: int32(h.CRC),
			Attributes: int16(h.Attributes), LastOffsetDelta: h.LastOffsetDelta, FirstTimestamp: h.BaseTimestamp,
			MaxTimestamp: h.MaxTimestamp, ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch,
			FirstSequence: h.BaseSequence, NumRecords: h.Count, Records: b.Payload(),
		}, m, name)
		require.Equal(t, []byte(b), m.AppendTo(nil), name)
	}
}

func TestFranzGoConsumesOurBatches(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		records := large()
		for i := range records {
			records[i].Offset += 1000
		}
		b := build(t, BuilderOptions{Codec: codec, BaseOffset: 1000, LeaderEpoch: 4}, records)
		partition, _ := kgo.ProcessFetchPartition(
			kgo.ProcessFetchPartitionOpts{Offset: 1000},
			&kmsg.FetchResponseTopicPartition{HighWatermark: 1 << 40, RecordBatches: b},
			kgo.DefaultDecompressor(), nil)
		require.NoError(t, partition.Err)
		require.Len(t, partition.Records, len(records))
		for i, theirs := range partition.Records {
			got := Record{Offset: theirs.Offset, Timestamp: theirs.Timestamp.UnixMilli(), Key: theirs.Key, Value: theirs.Value}
			for _, h := range theirs.Headers {
				got.Headers = append(got.Headers, RecordHeader{Key: h.Key, Value: h.Value})
			}
			require.Equal(t, records[i], got)
			require.Equal(t, int32(4), theirs.LeaderEpoch)
		}
	}
}

func TestFranzGoUnderstandsOurMarkers(t *testing.T) {
	b := EndMarker(EndMarkerOptions{BaseOffset: 9, ProducerID: 3, ProducerEpoch: 1, Commit: true, CoordinatorEpoch: 8, Timestamp: 5})
	partition, _ := kgo.ProcessFetchPartition(
		kgo.ProcessFetchPartitionOpts{Offset: 9, KeepControlRecords: true},
		&kmsg.FetchResponseTopicPartition{HighWatermark: 10, RecordBatches: b},
		kgo.DefaultDecompressor(), nil)
	require.NoError(t, partition.Err)
	require.Len(t, partition.Records, 1)
	marker := partition.Records[0]
	require.True(t, marker.Attrs.IsControl())
	require.True(t, marker.Attrs.IsTransactional())
	var key kmsg.ControlRecordKey
	require.NoError(t, key.ReadFrom(marker.Key))
	require.Equal(t, kmsg.ControlRecordKeyTypeCommit, key.Type)
	var value kmsg.EndTxnMarker
	require.NoError(t, value.ReadFrom(marker.Value))
	require.Equal(t, kmsg.EndTxnMarker{CoordinatorEpoch: 8}, value)
}
