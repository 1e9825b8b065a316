//go:build !race

package batch

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The race detector makes pools drop what they hold at random, so these tests are not for it.

func TestValidateAllocatesNothingOnTheVerbatimPath(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := benchBatch(t, codec, "json", 160, 100)
		for _, inspect := range []Inspection{InspectAll, InspectHeaders} {
			rules := benchRules()
			rules.Inspect = inspect
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if result, err := Validate(b, rules); err != nil || result.Rebuilt {
					t.Error(result, err)
				}
			}), "%v, inspection %d", codec, inspect)
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := benchBatch(t, codec, "json", 160, 100)
		var r RecordReader
		require.Zero(t, testing.AllocsPerRun(100, func() {
			n := 0
			for r.Reset(b, Limits{MaxRecordBytes: 1 << 20, MaxDecompressedBytes: 1 << 20}); r.Next(); {
				n++
			}
			if n != 160 || r.Err() != nil {
				t.Error(n, r.Err())
			}
		}), codec)
		r.Close()
	}
}

func TestTheViewAllocatesNothing(t *testing.T) {
	b := golden(t, "two-records")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		next, _, err := Next(b)
		if err != nil || next.VerifyCRC() != nil || next.Header().Check() != nil {
			t.Error(err)
		}
		next.SetBaseOffset(next.NextOffset())
		next.SetLeaderEpoch(next.LeaderEpoch() + 1)
		next.StampAppendTime(next.MaxTimestamp() + 1)
	}))
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestBombsTakeLittleMemory(t *testing.T) {
	for codec := Gzip; codec <= Zstd; codec++ {
		builder := NewBuilder(BuilderOptions{Codec: codec})
		for range 6400 {
			builder.Add(goldenTime, nil, make([]byte, 10<<10))
		}
		b, err := builder.Build()
		require.NoError(t, err)
		rules := DefaultRules(goldenTime)
		rules.MaxMessageBytes = 8 << 20
		target := LZ4
		if codec == LZ4 {
			target = Zstd
		}
		for name, f := range map[string]func(){
			"walk": func() { _, err = Validate(b, rules) },
			"rebuild": func() {
				rules := rules
				rules.Recompress, rules.TargetCodec = true, target
				_, err = Validate(b, rules)
			},
		} {
			used := allocated(f)
			require.NoError(t, err)
			require.Less(t, used, uint64(16<<20), "%v, %s: 64 MiB of zeros", codec, name)
		}
	}
}

func TestDeclaredSizesTakeNoMemory(t *testing.T) {
	raw := rawRecords(t, sample())
	for name, b := range map[string]Batch{
		"a zstd window of 128 MiB": withPayload(sampleHeader(Zstd), zstdStream(t, raw[:900])),
		"a snappy block of 4 GiB":  withPayload(sampleHeader(Snappy), []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}),
		"an lz4 block of 4 MiB":    withPayload(sampleHeader(LZ4), lz4Tiny()),
		"a record of 2 GiB":        withPayload(sampleHeader(None), []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0}),
		"two billion records":      withPayload(Header{Count: 1<<31 - 1, LastOffsetDelta: 1<<31 - 2}, raw),
		"two billion headers":      withPayload(sampleHeader(None), []byte{20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f}),
	} {
		var err error
		used := allocated(func() { _, err = collect(b, Limits{}) })
		require.Error(t, err, name)
		require.Less(t, used, uint64(2<<20), name)
	}
}

// lz4Tiny is a frame of 4 MiB blocks whose one block holds a byte.
func lz4Tiny() []byte {
	frame := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0, 2, 0, 0, 0, 0x10, 'a', 0, 0, 0, 0}
	frame[6] = byte(xxhash32(frame[4:6]) >> 8)
	return frame
}
