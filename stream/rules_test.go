package stream

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
)

// The tests of this file are of rules of the specification that no other test comes across.

func TestREC2_ARecordWhosePayloadLengthIsWrong(t *testing.T) {
	for name, length := range map[string]uint32{"negative": math.MaxUint32, "one too many": 5, "very long": math.MaxInt32} {
		b := golden(t, "record")
		binary.BigEndian.PutUint32(b[29:], length)
		_, _, err := DecodeRecord("k", 100, b)
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, name)
		require.Equal(t, []any{"k", int64(129)}, []any{corrupt.Object, corrupt.Position}, name)
		require.ErrorContains(t, err, "record's payload", name)
	}
}

// bodyFrame is a frame, whole by its checksums, around any body.
func bodyFrame(magic uint32, offset int64, body []byte) []byte {
	header := make([]byte, frameHeaderSize)
	binary.BigEndian.PutUint32(header, magic)
	binary.BigEndian.PutUint32(header[4:], uint32(len(body)))
	binary.BigEndian.PutUint64(header[8:], uint64(offset+frameHeaderSize))
	if magic == frameMagic {
		binary.BigEndian.PutUint32(header[16:], crc31(body))
	}
	binary.BigEndian.PutUint32(header[20:], crc31(header[:20]))
	return append(header, body...)
}

func TestFRM1_AFrameHoldsOneRecordAndNoMore(t *testing.T) {
	record := golden(t, "record")
	_, _, err := DecodeFrame("k", 0, bodyFrame(frameMagic, 0, record))
	require.NoError(t, err)
	for name, body := range map[string][]byte{
		"a byte behind it": append(golden(t, "record"), 0), "two records": append(golden(t, "record"), record...), "none": {},
	} {
		_, _, err := DecodeFrame("k", 0, bodyFrame(frameMagic, 0, body))
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
}

func TestFRM3_PaddingIsPassedOverByRecovery(t *testing.T) {
	runCluster(t, func(c *cluster) {
		p := c.start(5)
		s := p.stream()
		p.kill()
		at := func(base int64) Record {
			return Record{Stream: s.ID(), Epoch: s.Epoch(), Base: base, Count: 1, Payload: []byte(named(s, base, base+1)[0])}
		}
		var frames []byte
		frames = AppendFrame(frames, 0, at(0))
		frames = append(frames, bodyFrame(paddingMagic, int64(len(frames)), make([]byte, 100))...)
		frames = AppendFrame(frames, int64(len(frames)), at(1))
		frames = append(frames, bodyFrame(paddingMagic, int64(len(frames)), nil)...)
		h := WALHeader{Version: 1, Start: 0, BodyLen: int64(len(frames)), Node: 5, Epoch: 1, Trim: -1}
		require.NoError(c, c.wal.Open().Put(c.Context(), walKey(5, 1, 0), append(h.AppendTo(nil), frames...)))
		next := c.start(5)
		require.Equal(c, 2, next.events.recovered().Records)
		require.Equal(c, named(s, 0, 2), c.rows(next.reopen(s.ID())))
		next.close()
	})
}

func TestOBJ3_AnIndexLongerThanTheTailIsReadInTwoRequests(t *testing.T) {
	var records []Record
	for base := range int64(indexTail/indexEntrySize + 10) {
		records = append(records, Record{Stream: 1, Base: base, Count: 1, Payload: []byte("x")})
	}
	b, index := writeObject(t, 1, records...)
	require.Len(t, index, len(records), "each record is a block")
	store := faultstore.New(mem.New(), nil)
	require.NoError(t, store.Put(t.Context(), "k", b))
	got, err := loadIndex(t.Context(), store, "k", int64(len(b)))
	require.NoError(t, err)
	require.Equal(t, index, got)
	require.Equal(t, 2, store.Count(objstore.OpReadRange))
}

// TestTheDelaysBetweenTwoTries are those of 3.5: from a second to a minute, and up to a second more at random.
func TestTheDelaysBetweenTwoTries(t *testing.T) {
	for try, least := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		seen := map[time.Duration]bool{}
		for range 50 {
			d := retryDelay(try)
			require.GreaterOrEqual(t, d, least*time.Second)
			require.Less(t, d, (least+1)*time.Second)
			seen[d] = true
		}
		require.Greater(t, len(seen), 10, "they differ")
	}
	require.Less(t, retryDelay(1_000_000), 61*time.Second)
}
