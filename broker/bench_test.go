package broker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
)

// osRig is a rig on the real file system.
func osRig(t testing.TB) *rig {
	r := newRigOn(t, vfs.OS())
	r.backend.root = t.TempDir()
	r.server.buffers.poison = false
	return r
}

// BenchmarkProduceHandler measures what a Produce request costs from its bytes to the answer's, in time and allocations,
// on a log that follows the page cache.
func BenchmarkProduceHandler(b *testing.B) {
	for _, size := range []int{100, 16 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			r := osRig(b)
			topic := r.topic("t", 1, map[string]string{"tidemark.flush": "os"})
			pristine := produceTo(13, topic, 0, -1, records(string(bytes.Repeat([]byte{'x'}, size)))).AppendTo(nil)
			body := make([]byte, len(pristine))
			nc, _ := net.Pipe()
			c := newConn(r.server, nc, pipeAddr{}, 1)
			w := &answerWriter{server: r.server, ctx: context.Background(), sink: io.Discard}
			a := r.server.apis[produceKey]
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				copy(body, pristine)
				_, err := a.shape.cost(body, 13, true, 1<<30)
				require.NoError(b, err)
				answer, err := a.handle(&call{
					requestHeader: requestHeader{key: 0, version: 13, correlation: 1}, api: a,
					server: r.server, conn: c, arrived: time.Now(), body: body,
				})
				if err != nil {
					b.Fatal(err)
				}
				if err := answer.write(w); err != nil {
					b.Fatal(err)
				}
			}
			_ = nc.Close()
		})
	}
}

// BenchmarkProduceOverTCP compares requests that are read to where they stay with those whose buffer grows, from the
// client's socket to the page cache. The processor time has the client's share in it, which is the same either way.
func BenchmarkProduceOverTCP(b *testing.B) {
	for _, size := range []int{16 << 10, 256 << 10, 1 << 20, 4 << 20} {
		for way, prepare := range map[string]func(*rig){"placed": func(*rig) {}, "grown": withoutAddressSpace} {
			b.Run(fmt.Sprintf("bytes=%d/way=%s", size, way), func(b *testing.B) {
				r := osRig(b)
				prepare(r)
				topic := r.topic("t", 1, map[string]string{"tidemark.flush": "os", "max.message.bytes": "20000000"})
				nc, err := net.Dial("tcp", r.listen())
				require.NoError(b, err)
				defer nc.Close()
				frame := frameOf(produceTo(13, topic, 0, -1, records(string(bytes.Repeat([]byte{'x'}, size)))), 1)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					if _, err := nc.Write(frame); err != nil {
						b.Fatal(err)
					}
					readFrame(b, nc)
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// BenchmarkFetchHandler measures what a Fetch request costs from its bytes to the answer's.
func BenchmarkFetchHandler(b *testing.B) {
	for _, partitions := range []int32{1, 100} {
		for _, data := range []bool{false, true} {
			b.Run(fmt.Sprintf("partitions=%d/data=%v", partitions, data), func(b *testing.B) {
				r := osRig(b)
				topic := r.topic("t", partitions, nil)
				producer := r.dial()
				req := sessionFetch(18, 0, -1, topic)
				full := fetchFrom(18, topic, 0, 0)
				p := full.Topics[0].Partitions[0]
				full.Topics[0].Partitions = nil
				for index := range partitions {
					if data {
						producer.mustProduce(topic, index, records("hello"))
					}
					p.Partition = index
					full.Topics[0].Partitions = append(full.Topics[0].Partitions, p)
				}
				req.Topics = full.Topics
				body := req.AppendTo(nil)
				nc, _ := net.Pipe()
				c := newConn(r.server, nc, pipeAddr{}, 1)
				w := &answerWriter{server: r.server, ctx: context.Background(), sink: io.Discard}
				a := r.server.apis[1]
				b.ReportAllocs()
				for b.Loop() {
					_, err := a.shape.cost(body, 18, true, 1<<30)
					require.NoError(b, err)
					answer, err := a.handle(&call{
						requestHeader: requestHeader{key: 1, version: 18, correlation: 1}, api: a,
						server: r.server, conn: c, arrived: time.Now(), body: body,
					})
					if err != nil {
						b.Fatal(err)
					}
					if err := answer.write(w); err != nil {
						b.Fatal(err)
					}
				}
				_ = nc.Close()
			})
		}
	}
}

// BenchmarkEncodeFetch compares the encoding of a response of 100 partitions with kmsg's.
func BenchmarkEncodeFetch(b *testing.B) {
	r := osRig(b)
	some := someRecords(b, r, "t", 1000)
	defer some.Release()
	f := &fetchAnswer{version: 18}
	for i := range 100 {
		f.items = append(f.items, fetchItem{
			id: TopicID{1}, index: int32(i),
			found: fetched{records: some, size: some.Len(), diverging: epochEnd{noEpoch, -1}},
		})
	}
	w := &answerWriter{server: r.server, ctx: context.Background(), sink: io.Discard}
	b.Run("impl=tidemark", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := f.send(w); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("impl=kmsg", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			expected(b, r.server, f)
		}
	})
}

// BenchmarkSendRecords compares records that are copied into the response with records that are sent from their file, over
// TCP. sendfileThreshold is where the second wins.
func BenchmarkSendRecords(b *testing.B) {
	r := osRig(b)
	addr, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer addr.Close()
	for _, size := range []int{1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 512 << 10} {
		topic := r.topic(fmt.Sprintf("t%d", size), 1, nil)
		r.dial().mustProduce(topic, 0, records(string(bytes.Repeat([]byte{'x'}, size-80))))
		for _, way := range []string{"copy", "sendfile"} {
			b.Run(fmt.Sprintf("bytes=%d/way=%s", size, way), func(b *testing.B) {
				drained := make(chan struct{})
				go func() {
					nc, err := addr.Accept()
					if err == nil {
						_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{nc}, make([]byte, 1<<20))
						_ = nc.Close()
					}
					close(drained)
				}()
				nc, err := net.Dial("tcp", addr.Addr().String())
				require.NoError(b, err)
				w := &answerWriter{server: r.server, ctx: context.Background(), sink: newSink(nc, time.Minute)}
				log := r.log(topic, 0)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					if err := sendOne(w, log, way == "copy"); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
				_ = nc.Close()
				<-drained
			})
		}
	}
}

// cpuTime is the processor time of this process, which a busy machine distorts less than the time that passes. It has the
// receiver's share in it, which is the same either way.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// sendOne reads one partition and sends its records one way or the other.
func sendOne(w *answerWriter, log *partition.Log, copied bool) error {
	read, err := log.Read(0, partition.ReadUncommitted, 1<<20, true)
	if err != nil {
		return err
	}
	defer read.Records.Release()
	frame := fetchFrame{buf: append(w.encoder(60+int(read.Records.Len())), make([]byte, 60)...)}
	if copied {
		if frame.buf, err = read.Records.AppendTo(frame.buf); err != nil {
			return err
		}
	} else {
		frame.cuts = append(frame.cuts, fetchCut{at: len(frame.buf), records: read.Records})
	}
	defer func() { w.keep(frame.buf) }()
	return frame.writeTo(w)
}

// BenchmarkRoundTrip measures a request and its response over TCP.
func BenchmarkRoundTrip(b *testing.B) {
	r := osRig(b)
	topic := r.topic("t", 1, map[string]string{"tidemark.flush": "os"})
	nc, err := net.Dial("tcp", r.listen())
	require.NoError(b, err)
	defer nc.Close()
	for name, req := range map[string]kmsg.Request{
		"api=Metadata": metadataOf(13, false, "t"),
		"api=Produce":  produceTo(13, topic, 0, -1, records("x")),
		"api=Fetch":    fetchFrom(18, topic, 0, 0),
	} {
		b.Run(name, func(b *testing.B) {
			frame := frameOf(req, 1)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := nc.Write(frame); err != nil {
					b.Fatal(err)
				}
				readFrame(b, nc)
			}
		})
	}
}

// BenchmarkIdleConnection measures what a connection costs in memory once it has been used and is idle.
func BenchmarkIdleConnection(b *testing.B) {
	r := osRig(b)
	addr := r.listen()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	conns := make([]net.Conn, 0, b.N)
	for range b.N {
		nc, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		do[*kmsg.MetadataResponse](&client{t: b, conn: nc}, metadataOf(13, false))
		conns = append(conns, nc)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// The client's end of the connection is in it, which is small: net.Conn has no buffers.
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(b.N), "bytes/conn")
	for _, nc := range conns {
		_ = nc.Close()
	}
}
