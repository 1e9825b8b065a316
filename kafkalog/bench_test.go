package kafkalog

import (
	"io"
	"math"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

// benchLog opens a log on the real file system.
func benchLog(b *testing.B) *Log {
	env := NewEnv(EnvOptions{})
	c := DefaultConfig()
	c.SegmentBytes = 256 << 20
	l, err := Open(env, b.TempDir(), Options{Config: c})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, env.Close()) })
	return l
}

func benchAppend(b *testing.B, d data, appendTo func(*Log, []byte) error) {
	l := benchLog(b)
	one := d.build(b)
	b.SetBytes(int64(len(one)))
	b.ReportAllocs()
	for b.Loop() {
		if err := appendTo(l, one); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend is one batch an append, without a flush.
func BenchmarkAppend(b *testing.B) {
	owned := func(l *Log, one []byte) error {
		_, err := l.Append(one, AppendOptions{Origin: Replication})
		return err
	}
	verbatim := func(l *Log, one []byte) error {
		_, err := l.AppendVerbatim(one, AppendOptions{Origin: Replication})
		return err
	}
	b.Run("bytes=1KiB/owned", func(b *testing.B) { benchAppend(b, data{size: 940}, owned) })
	b.Run("bytes=1KiB/verbatim", func(b *testing.B) { benchAppend(b, data{size: 940}, verbatim) })
	b.Run("bytes=16KiB/verbatim", func(b *testing.B) { benchAppend(b, data{records: 16, size: 1000}, verbatim) })
	b.Run("bytes=1KiB/idempotent", func(b *testing.B) {
		benchAppend(b, data{size: 940, producer: 5}, func(l *Log, one []byte) error {
			_, err := l.Append(one, AppendOptions{Origin: Replication})
			return err
		})
	})
	b.Run("bytes=1KiB/group=16", func(b *testing.B) {
		items := make([]GroupItem, 16)
		benchAppend(b, data{size: 940}, func(l *Log, one []byte) error {
			for i := range items {
				items[i] = GroupItem{Batch: one, Options: AppendOptions{Origin: Replication}, At: NextOffset, Verbatim: true}
			}
			l.AppendGroup(items)
			return items[15].Err
		})
		b.SetBytes(16 * 1024)
	})
}

// BenchmarkAppendSync is one append and the fsync that covers it.
func BenchmarkAppendSync(b *testing.B) {
	benchAppend(b, data{records: 16, size: 1000}, func(l *Log, one []byte) error {
		if _, err := l.AppendVerbatim(one, AppendOptions{Origin: Replication}); err != nil {
			return err
		}
		_, err := l.SyncTo()
		return err
	})
}

// benchFilled returns a log of about 64 MiB in batches of 1 KiB.
func benchFilled(b *testing.B) *Log {
	l := benchLog(b)
	one := data{size: 940}.build(b)
	for l.Size() < 64<<20 {
		if _, err := l.Append(one, AppendOptions{Origin: Replication}); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

// BenchmarkRead reads 1 MiB, or one batch near the end, from the page cache.
func BenchmarkRead(b *testing.B) {
	l := benchFilled(b)
	end := l.LogEnd()
	next := int64(0)
	step := func(size int) int64 {
		if next += int64(size / 1024); next >= end-2000 {
			next = 0
		}
		return next
	}
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := l.PlanRead(step(1<<20), math.MaxInt64, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			p.Release()
		}
	})
	b.Run("bytes=1MiB/raw", func(b *testing.B) {
		b.SetBytes(1 << 20)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.ReadRaw(step(1<<20), math.MaxInt64, 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bytes=1MiB/regions", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := l.ReadRegions(step(1<<20), math.MaxInt64, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			r.Release()
		}
	})
	b.Run("bytes=1KiB/tail", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.ReadRaw(end-1, math.MaxInt64, 1024); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSend sends 1 MiB to a TCP connection on the loopback interface, by sendfile and by copying.
func BenchmarkSend(b *testing.B) {
	l := benchFilled(b)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c) // until the sender has closed it
			c.Close()
		}
	}()
	b.Cleanup(func() { listener.Close(); <-done })
	send := func(b *testing.B, wrap func(net.Conn) io.Writer) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(b, err)
		defer conn.Close()
		w := wrap(conn)
		b.SetBytes(1 << 20)
		for b.Loop() {
			r, err := l.ReadRegions(1000, math.MaxInt64, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := r.WriteTo(w); err != nil {
				b.Fatal(err)
			}
			r.Release()
		}
	}
	b.Run("sendfile", func(b *testing.B) { send(b, func(c net.Conn) io.Writer { return c }) })
	b.Run("copy", func(b *testing.B) { send(b, func(c net.Conn) io.Writer { return struct{ io.Writer }{c} }) })
}

// BenchmarkOpen opens a log of 64 MiB in one segment.
func BenchmarkOpen(b *testing.B) {
	for _, clean := range []bool{true, false} {
		name := "unclean"
		if clean {
			name = "clean"
		}
		b.Run(name, func(b *testing.B) {
			l := benchFilled(b)
			dir := l.Dir()
			require.NoError(b, l.Sync())
			require.NoError(b, l.Close())
			env := NewEnv(EnvOptions{FS: vfs.OS()})
			defer env.Close()
			for b.Loop() {
				l, err := Open(env, dir, Options{Clean: clean})
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
