package kafkalog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
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

// TestAReadThatTheDeviceFailsNamesFileAndPosition: of three reads one fails, whichever way the bytes go; the others do not.
func TestAReadThatTheDeviceFailsNamesFileAndPosition(t *testing.T) {
	disk := faultfs.New(vfs.OS(), nil)
	b := newBenchOn(t, disk)
	dir := filepath.Join(t.TempDir(), "orders-0")
	c := smallSegments()
	c.SegmentBytes = 100 << 10
	l, err := Open(b.env, dir, Options{Config: c})
	require.NoError(t, err)
	for i := range 30 {
		mustAppend(t, l, data{size: 10_000, seed: i})
	}
	bases := []int64{}
	for _, s := range l.view.Load().segments {
		bases = append(bases, s.base)
	}
	require.Greater(t, len(bases), 2)
	bad := filepath.Join(dir, filepath.Base(logPath(bases[1])))
	behind := int64(0) // the second batch of that segment
	for rest := allBytes(t, l); ; {
		var first batch.Batch
		first, rest, err = batch.Next(rest)
		require.NoError(t, err)
		if first.BaseOffset() == bases[1] {
			behind = int64(len(first))
			break
		}
	}

	requireNamed := func(err error, position int64) {
		t.Helper()
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorIs(t, err, syscall.EIO)
		var failed *ReadError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, bad, failed.Path)
		require.Equal(t, position, failed.Position)
		require.ErrorContains(t, err, fmt.Sprintf("kafkalog: read %s at position %d: ", bad, position))
	}
	fail := func(kind faultfs.Kind, from int64) {
		disk.SetInjector(func(op faultfs.Op) faultfs.Fault {
			if op.Kind != kind || op.Name != bad || op.Off < from {
				return faultfs.Fault{}
			}
			return faultfs.Fault{Err: syscall.EIO}
		})
	}
	regions, err := l.ReadRegions(bases[1]+1, bases[1]+2, 1<<20)
	require.NoError(t, err)
	defer regions.Release()
	fail(faultfs.OpReadAt, behind)
	_, err = regions.AppendTo(nil)
	requireNamed(err, behind)
	_, err = regions.WriteTo(io.Discard)
	requireNamed(err, behind)
	fail(faultfs.OpReadAt, 0)
	_, err = l.Read(bases[1], 1)
	requireNamed(err, 0)
	for _, other := range []int64{0, bases[2], l.LogEnd() - 1} {
		_, err := l.Read(other, 1)
		require.NoError(t, err, "what lies in other files is read")
	}
	mustAppend(t, l, data{size: 10_000})
	if runtime.GOOS == "linux" { // where files go to sockets by themselves
		fail(faultfs.OpSendTo, 0)
		received(t, func(conn net.Conn) {
			_, err := regions.WriteTo(conn)
			requireNamed(err, behind)
		})
	}
	disk.SetInjector(nil)
	received(t, func(conn net.Conn) {
		_, err := regions.WriteTo(conn)
		require.NoError(t, err, "it may be tried again")
	})
	require.NoError(t, l.Close())
}
