package broker

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/internal/lazymem"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// without address space a request's buffer grows as its bytes arrive.
func withoutAddressSpace(r *rig) { r.server.bodies = &lazymem.Pool{} }

// span is where some bytes are in memory.
type span struct{ from, to uintptr }

func spanOf(b []byte) span {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return span{from, from + uintptr(len(b))}
}

// shared is how many bytes of s are in one of the others, which do not overlap.
func (s span) shared(others []span) (n int) {
	for _, o := range others {
		if from, to := max(s.from, o.from), min(s.to, o.to); from < to {
			n += int(to - from)
		}
	}
	return n
}

// tracker sees where the server reads bytes of connections to, and from where the logs write.
type tracker struct {
	vfs.FS
	mu    sync.Mutex
	read  []span
	wrote []span
}

// next forgets what was seen and returns how many bytes were written, and how many of those from where they were not read to.
func (tr *tracker) next() (wrote, copied int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, w := range tr.wrote {
		n := int(w.to - w.from)
		wrote += n
		copied += n - w.shared(tr.read)
	}
	tr.read, tr.wrote = nil, nil
	return wrote, copied
}

func (tr *tracker) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := tr.FS.Open(name, mode)
	if err == nil && strings.HasSuffix(name, ".log") {
		f = &trackedFile{f, tr}
	}
	return f, err
}

type trackedFile struct {
	vfs.File
	tracker *tracker
}

func (f *trackedFile) WriteAt(b []byte, off int64) (int, error) {
	f.tracker.mu.Lock()
	f.tracker.wrote = append(f.tracker.wrote, spanOf(b))
	f.tracker.mu.Unlock()
	return f.File.WriteAt(b, off)
}

type trackedConn struct {
	net.Conn
	tracker *tracker
}

func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.tracker.mu.Lock()
	c.tracker.read = append(c.tracker.read, spanOf(b[:n]))
	c.tracker.mu.Unlock()
	return n, err
}

// dialTracked connects to the server by a connection whose reads the tracker sees.
func (r *rig) dialTracked(tr *tracker) *client {
	r.t.Helper()
	ours, theirs := net.Pipe()
	r.listener.conns <- &trackedConn{theirs, tr}
	r.clients = append(r.clients, ours)
	return &client{t: r.t, conn: ours}
}

func TestTheBytesOfAProduceAreWrittenFromWhereTheyWereReadTo(t *testing.T) {
	tr := &tracker{FS: memfs.New()}
	r := newRigOn(t, tr)
	topic := r.topic("t", 1, map[string]string{"max.message.bytes": "20000000"})
	c := r.dialTracked(tr)
	for _, size := range []int{100, 3000, 16 << 10, 256 << 10, 1 << 20, 9 << 20} {
		for round := range 2 { // in a new place, and in one that was used before
			t.Run(fmt.Sprintf("bytes=%d/round=%d", size, round), func(t *testing.T) {
				one := records(strings.Repeat("x", size))
				c.mustProduce(topic, 0, one)
				wrote, copied := tr.next()
				require.Equal(t, len(one), wrote)
				if size < readBuffer {
					require.Zero(t, copied, "a request that fits the connection's buffer is used where it is")
					return
				}
				head := bytes.Index(frameOf(produceTo(13, topic, 0, -1, one), 1)[sizeBytes:], one)
				require.Equal(t, readBuffer-head, copied, "what came along with the size is copied once, and nothing else is")
			})
		}
	}
}

func TestWithoutAddressSpaceTheBufferOfARequestGrows(t *testing.T) {
	tr := &tracker{FS: memfs.New()}
	r := newRigOn(t, tr)
	withoutAddressSpace(r)
	topic := r.topic("t", 1, nil)
	one := records(strings.Repeat("x", 256<<10))
	r.dialTracked(tr).mustProduce(topic, 0, one)
	wrote, copied := tr.next()
	require.Equal(t, len(one), wrote)
	require.Positive(t, copied)
	require.Less(t, copied, len(one)*2/3, "128 KiB of it, and what came along with the size")
}

func TestARequestIsReadWholeWhateverItsSizeAndPace(t *testing.T) {
	sizes := []int{60, 3 << 20} // the least there is, and one of the others' room
	for _, border := range []int{readBuffer, firstShare, firstShare * bodyGrowth, firstShare*bodyGrowth + mostAhead} {
		sizes = append(sizes, border-1, border, border+1)
	}
	for name, prepare := range map[string]func(*rig){"placed": func(*rig) {}, "grown": withoutAddressSpace} {
		for piece, pieces := range map[string]int{"at once": 1, "in two": 2, "in ninety-seven": 97} {
			t.Run(name+" "+piece, func(t *testing.T) {
				r := newRig(t)
				prepare(r)
				topic := r.topic("t", 1, map[string]string{"max.message.bytes": "20000000"})
				c := r.dial()
				var want []string
				for _, size := range sizes {
					value := ofFrame(topic, size, byte('a'+len(want)%26))
					want = append(want, value)
					c.sendInPieces(frameOf(produceTo(13, topic, 0, -1, records(value)), 1), pieces)
					readFrame(t, c.conn)
				}
				require.Equal(t, want, storedValues(t, r.log(topic, 0)))
			})
		}
	}
}

// ofFrame is a value that makes a Produce request of a frame of the given size, without its size prefix; at least of the
// smallest there is.
func ofFrame(topic *Topic, size int, fill byte) string {
	n := size
	for {
		value := string(bytes.Repeat([]byte{fill}, max(n, 0)))
		surplus := len(frameOf(produceTo(13, topic, 0, -1, records(value)), 1)) - sizeBytes - size
		if surplus <= 0 || n <= 0 {
			return value
		}
		n -= surplus
	}
}

// sendInPieces writes a frame in so many writes.
func (c *client) sendInPieces(frame []byte, pieces int) {
	c.t.Helper()
	for piece := range pieces {
		from, to := len(frame)*piece/pieces, len(frame)*(piece+1)/pieces
		_, err := c.conn.Write(frame[from:to])
		require.NoError(c.t, err)
	}
}

// storedValues reads the values of all records of a log.
func storedValues(t testing.TB, l *partition.Log) []string {
	t.Helper()
	out := []string{}
	for next := int64(0); next < l.Offsets().HighWatermark; next = int64(len(out)) {
		read, err := l.Read(next, partition.ReadUncommitted, 1<<20, true)
		require.NoError(t, err)
		b, err := read.Records.AppendTo(nil)
		require.NoError(t, err)
		read.Records.Release()
		out = append(out, values(t, b)...)
	}
	return out
}

func TestRequestsThatFollowEachOtherInOnePieceAreToldApart(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	var stream []byte
	var want []string
	for i, size := range []int{10, 5000, 100, 100, 70_000, 3900, 40_000, 1} {
		want = append(want, strings.Repeat(string(rune('a'+i)), size))
		stream = append(stream, frameOf(produceTo(13, topic, 0, -1, records(want[i])), int32(i))...)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.conn.Write(stream)
		sent <- err
	}()
	for range want {
		readFrame(t, c.conn)
	}
	require.NoError(t, <-sent)
	require.Equal(t, want, storedValues(t, r.log(topic, 0)))
}

func TestASilentPeerGivesBackWhatItsPlaceHadFromItsLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		value := strings.Repeat("x", 900_000)
		r.dial().mustProduce(topic, 0, records(value))
		frame := frameOf(produceTo(13, topic, 0, -1, records(value)), 1)

		ours, theirs := net.Pipe()
		c := newConn(r.server, theirs, pipeAddr{}, 1000)
		go func() { _, _ = ours.Write(frame[:10_000]) }()
		_, err := io.CopyN(io.Discard, c.in, sizeBytes)
		require.NoError(t, err)
		b := bodyReader{conn: c, share: share{intake: r.server.produce.bytes}, size: len(frame) - sizeBytes}
		read := make(chan error, 1)
		go func() { read <- b.read() }()
		synctest.Wait()
		require.NotNil(t, b.place)
		behind := func() []byte { return b.place.Bytes()[64<<10 : 128<<10] }
		require.Equal(t, bytes.Repeat([]byte{0xDB}, 64<<10), behind(), "it was in use before, and spoilt")
		pass(2*time.Second + time.Millisecond)
		require.Equal(t, make([]byte, 64<<10), behind())
		_ = ours.Close()
		require.ErrorIs(t, <-read, errEnded)
		b.close()
		_ = theirs.Close()
		r.stop()
	})
}
