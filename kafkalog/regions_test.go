package kafkalog

import (
	"errors"
	"io"
	"math"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

// received runs send with a TCP connection and returns what arrived at the other end.
func received(t *testing.T, send func(conn net.Conn)) []byte {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	var got []byte
	var readErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			readErr = err
			return
		}
		defer conn.Close()
		got, readErr = io.ReadAll(conn)
	})
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	send(conn)
	require.NoError(t, conn.Close())
	wg.Wait()
	require.NoError(t, readErr)
	return got
}

func TestRegionsGoFromRealFilesToASocketAlsoAfterTheLogDroppedThem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	b := newBenchOn(t, vfs.OS())
	c := smallSegments()
	c.SegmentBytes, c.FileDeleteDelayMs = 100<<10, 0
	l, err := Open(b.env, dir, Options{Config: c})
	require.NoError(t, err)
	for i := range 100 {
		mustAppend(t, l, data{size: 5000, seed: i})
	}
	want := allBytes(t, l)
	regions, err := l.ReadRegions(0, math.MaxInt64, 1<<30)
	require.NoError(t, err)
	defer regions.Release()
	require.Greater(t, len(regions.parts), 3)
	_, err = l.TrimTo(l.LogEnd())
	require.NoError(t, err)
	for range 2 { // by position, so any number of times
		got := received(t, func(conn net.Conn) {
			n, err := regions.WriteTo(conn)
			require.NoError(t, err)
			require.Equal(t, regions.Len(), n)
		})
		require.Equal(t, want, got)
	}
	copied, err := regions.AppendTo([]byte("before "))
	require.NoError(t, err)
	require.Equal(t, append([]byte("before "), want...), copied)
	regions.Release()
	_, err = regions.WriteTo(io.Discard)
	require.ErrorIs(t, err, ErrClosed)
	var none *Regions
	require.Zero(t, none.Len())
	none.Release()
}

// TestReadersBesideTruncationsOnlySeeWholeBatches truncates and appends while readers check every checksum.
func TestReadersBesideTruncationsOnlySeeWholeBatches(t *testing.T) {
	b := newBench(t)
	c := smallSegments()
	c.FileDeleteDelayMs = 0
	l := b.open(Options{Config: c})
	fill(t, l, 10)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				var err error
				switch r {
				case 0:
					_, err = l.Read(l.LogStart(), 1000)
				case 1:
					_, _, err = l.OffsetForTimestamp(epochMs)
				default:
					var raw RawRead
					if raw, err = l.ReadRaw(l.LogStart(), math.MaxInt64, 1000); err == nil {
						err = wholeBatches(raw.Bytes)
					}
				}
				if err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
					t.Errorf("reader %d: %v", r, err)
					return
				}
			}
		})
	}
	for i := range 300 {
		require.NoError(t, l.TruncateTo(max(0, l.LogEnd()-int64(i%11))))
		for j := range i % 5 {
			mustAppend(t, l, data{records: 1 + j, size: i % 90, seed: i})
		}
	}
	close(done)
	readers.Wait()
}

// wholeBatches returns what is wrong with some bytes as a run of batches.
func wholeBatches(data []byte) error {
	var r ReadResult
	return r.split(data, &region{reader: segmentReader{segment: &segment{}}})
}

func TestForeignSnapshotsProveNothing(t *testing.T) {
	source := newBench(t)
	l := source.open(Options{Config: smallSegments()})
	fill(t, l, 14)
	require.NoError(t, l.Sync())
	bases := segmentBases(t, source.fs)
	require.NoError(t, l.Close())
	// A Kafka broker writes snapshots before the records below them are on disk.
	fsys := copyDir(t, source.fs)
	edit(t, fsys, logPath(bases[1]), flip(100))
	b := newBenchOn(t, fsys)
	l = b.open(Options{Config: smallSegments(), Foreign: true, RecoveryPoint: bases[1]})
	require.Equal(t, bases[1], l.LogEnd(), "cut at the first bad batch that was not flushed")
	require.Len(t, eventsOf[PartialBatchEvent](b), 1)
	require.Equal(t, bases[1], mustAppend(t, l, data{}))
}
