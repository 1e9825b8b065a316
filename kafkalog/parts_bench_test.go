package kafkalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

func BenchmarkHandleAcquire(b *testing.B) {
	_, _, handles := handleFiles(b, 8, 8)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h := handles[i%len(handles)]
		if _, err := h.acquire(); err != nil {
			b.Fatal(err)
		}
		h.release()
	}
}

func BenchmarkHandleAcquireParallel(b *testing.B) {
	_, _, handles := handleFiles(b, 8, 8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			h := handles[i%len(handles)]
			if _, err := h.acquire(); err != nil {
				b.Error(err)
				return
			}
			h.release()
		}
	})
}

// BenchmarkIndexLookup looks up offsets in the index of a full segment of 1 GiB.
func BenchmarkIndexLookup(b *testing.B) {
	const entries = 1 << 18
	dir := b.TempDir()
	fsys := vfs.OS()
	c := newHandleCache(fsys, 4)
	file, err := c.create(dir+"/00000000000000001000.index", vfs.CreateNew)
	require.NoError(b, err)
	x := newOffsetIndex(file, 1000, roomyIndex)
	fillIndex(b, x, 0, entries)
	for _, place := range []string{"recent", "sealed"} {
		if place == "sealed" {
			require.NoError(b, x.seal())
		}
		b.Run("in="+place, func(b *testing.B) {
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i += 7919 {
				offset := 1000 + i%entries*10
				if place == "recent" {
					offset = 1000 + (entries-1-i%32)*10
				}
				if _, err := x.lookup(offset); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkProducerAppend(b *testing.B) {
	p := newProducerState()
	for pid := range int64(1000) {
		mustTake(b, p, dataHeader(pid, 0, 0, pid, 1))
	}
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		h := dataHeader(i%1000, 0, int32(1+i/1000), 1000+i, 1)
		if _, _, err := p.check(h, Client); err != nil {
			b.Fatal(err)
		}
		if _, err := p.append(h); err != nil {
			b.Fatal(err)
		}
	}
}
