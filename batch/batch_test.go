package batch

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChecksumFindsEveryBitFlip(t *testing.T) {
	for _, name := range []string{"two-records", "abort-marker", "empty-retained", "tombstone-horizon"} {
		b := golden(t, name)
		for i := posCRC; i < len(b); i++ {
			for bit := range 8 {
				b[i] ^= 1 << bit
				var crc *CRCError
				require.ErrorAs(t, b.VerifyCRC(), &crc, "%s: bit %d of byte %d", name, bit, i)
				require.NotEqual(t, crc.Stored, crc.Computed)
				b[i] ^= 1 << bit
			}
		}
		require.NoError(t, b.VerifyCRC())
	}
}

func TestF25_StampAppendTimeKeepsTheChecksumTrue(t *testing.T) {
	b := golden(t, "two-records")
	before := slices.Clone(b)
	b.StampAppendTime(goldenTime + 777)
	require.NoError(t, b.VerifyCRC())

	want := before.Header()
	want.Attributes |= attrLogAppendTime
	want.MaxTimestamp = goldenTime + 777
	want.CRC = b.CRC()
	require.Equal(t, want, b.Header())
	require.Equal(t, before.Payload(), b.Payload())
	require.Equal(t, LogAppendTime, b.Attributes().TimestampType())
	for _, record := range all(t, b, Limits{}) {
		require.Equal(t, int64(goldenTime+777), record.Timestamp)
	}

	b.StampMaxTimestamp(goldenTime + 5)
	require.Equal(t, before, b, "back to create time")
}

func TestF25_NothingButAStampComputesAChecksum(t *testing.T) {
	b := golden(t, "two-records")
	b[len(b)-1] ^= 1
	damaged := b.CRC()
	b.SetBaseOffset(7)
	b.SetLeaderEpoch(8)
	b.StampMaxTimestamp(b.MaxTimestamp()) // says what is there: nothing to write
	require.Equal(t, damaged, b.CRC())
	require.Error(t, b.VerifyCRC())
}

func TestStampDropsUnknownAttributes(t *testing.T) {
	h := golden(t, "two-records").Header()
	h.Attributes = 0x7f00 | attrTransactional
	b := withPayload(h, nil)
	b.StampAppendTime(1)
	require.Equal(t, Attributes(attrTransactional|attrLogAppendTime), b.Attributes())
	require.NoError(t, b.VerifyCRC())
}

func TestAttributes(t *testing.T) {
	a := Attributes(0x5c)
	require.Equal(t, Zstd, a.Codec())
	require.True(t, a.LogAppendTime())
	require.True(t, a.Transactional())
	require.False(t, a.Control())
	require.True(t, a.HasDeleteHorizon())
	require.Equal(t, Codec(7), Attributes(7).Codec())
	require.False(t, Attributes(7).Codec().Valid())
}

func TestCodecNames(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		parsed, err := ParseCodec(codec.String())
		require.NoError(t, err)
		require.Equal(t, codec, parsed)
	}
	parsed, err := ParseCodec("uncompressed")
	require.NoError(t, err)
	require.Equal(t, None, parsed)
	_, err = ParseCodec("producer")
	require.Equal(t, &UnknownCodecError{Name: "producer"}, err)
}

// withPayload returns a batch with h's fields, the given bytes behind the header, and a true length and checksum.
func withPayload(h Header, payload []byte) Batch {
	h.Magic = Magic
	h.Length = int32(minLength + len(payload))
	b := make(Batch, HeaderSize, HeaderSize+len(payload))
	h.Put(b)
	b = append(b, payload...)
	b.sealCRC()
	return b
}
