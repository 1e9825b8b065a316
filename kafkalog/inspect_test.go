package kafkalog_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// segmentBytes is two batches of one record each, at offsets 0 and 1.
func segmentBytes(t *testing.T) []byte {
	t.Helper()
	var data []byte
	for offset := range int64(2) {
		b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: offset})
		b.Add(1000+offset, []byte("k"), []byte("v"))
		built, err := b.Build()
		require.NoError(t, err)
		data = append(data, built...)
	}
	return data
}

func readSegment(t *testing.T, data []byte) (positions []int64, err error) {
	t.Helper()
	fsys := memfs.New()
	require.NoError(t, vfs.WriteFileAtomic(fsys, "00000000000000000000.log", data))
	err = kafkalog.ReadSegmentFile(fsys, "00000000000000000000.log", func(position int64, b batch.Batch) error {
		require.NoError(t, b.VerifyCRC())
		positions = append(positions, position)
		return nil
	})
	return positions, err
}

func TestASegmentFileIsReadBatchByBatch(t *testing.T) {
	data := segmentBytes(t)
	half := int64(len(data) / 2)

	positions, err := readSegment(t, data)
	require.NoError(t, err)
	require.Equal(t, []int64{0, half}, positions)

	positions, err = readSegment(t, append(data, make([]byte, 4096)...))
	require.NoError(t, err, "reserved space is the end")
	require.Equal(t, []int64{0, half}, positions)

	positions, err = readSegment(t, data[:len(data)-1])
	var corrupt *kafkalog.CorruptionError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, half, corrupt.Position)
	require.Equal(t, []int64{0}, positions, "what is whole was read")
}

func TestAVisitorsErrorEndsTheWalk(t *testing.T) {
	fsys := memfs.New()
	require.NoError(t, vfs.WriteFileAtomic(fsys, "00000000000000000000.log", segmentBytes(t)))
	stop := errors.New("stop")
	calls := 0
	err := kafkalog.ReadSegmentFile(fsys, "00000000000000000000.log", func(int64, batch.Batch) error {
		calls++
		return stop
	})
	require.Equal(t, stop, err)
	require.Equal(t, 1, calls)
}

func TestIndexFilesAreReadUpToReservedSpace(t *testing.T) {
	fsys := memfs.New()
	index := append([]byte{0, 0, 0, 0x2b, 0, 0, 0x10, 0x68}, make([]byte, 80)...)
	require.NoError(t, vfs.WriteFileAtomic(fsys, "00000000000000000100.index", index))
	entries, err := kafkalog.ReadOffsetIndexFile(fsys, "00000000000000000100.index")
	require.NoError(t, err)
	require.Equal(t, []kafkalog.OffsetIndexEntry{{Offset: 143, Position: 4200}}, entries)

	times := []byte{0, 0, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x05, 0, 0, 0, 0x2b}
	require.NoError(t, vfs.WriteFileAtomic(fsys, "00000000000000000000.timeindex", append(times, 1)))
	stamps, err := kafkalog.ReadTimeIndexFile(fsys, "00000000000000000000.timeindex")
	var corrupt *kafkalog.CorruptionError
	require.ErrorAs(t, err, &corrupt, "a part of an entry follows")
	require.Equal(t, int64(12), corrupt.Position)
	require.Equal(t, []kafkalog.TimeIndexEntry{{Timestamp: 1700000000005, Offset: 43}}, stamps)

	_, err = kafkalog.ReadOffsetIndexFile(fsys, "nonsense.index")
	require.ErrorAs(t, err, &corrupt)
}
