package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// payloads are the two extremes of what producers send: letters at random, as Kafka's own benchmark does, and JSON.
func payloads(kind string, n, size int) [][]byte {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	out := make([][]byte, n)
	for i := range out {
		if kind == "json" {
			out[i] = fmt.Appendf(nil, `{"id":%d,"user":"user-%d","action":"click","amount":%d.%02d,"ok":true,"tags":["a","b"],"at":"`,
				rng.IntN(1e9), rng.IntN(1e4), rng.IntN(1000), rng.IntN(100))
		}
		for len(out[i]) < size {
			out[i] = append(out[i], byte('A'+rng.IntN(26)))
		}
		out[i] = out[i][:size]
	}
	return out
}

func benchBatch(tb testing.TB, codec Codec, kind string, n, size int) Batch {
	builder := NewBuilder(BuilderOptions{Codec: codec})
	for i, value := range payloads(kind, n, size) {
		builder.Add(goldenTime+int64(i), nil, value)
	}
	b, err := builder.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// benchRules are a topic with default settings.
func benchRules() Rules { return DefaultRules(goldenTime) }

func BenchmarkValidate(b *testing.B) {
	shapes := []struct {
		kind    string
		n, size int
	}{{"letters", 16, 1024}, {"json", 16, 1024}, {"letters", 160, 100}, {"json", 160, 100}, {"json", 2000, 100}}
	for _, s := range shapes {
		for codec := None; codec <= Zstd; codec++ {
			batch := benchBatch(b, codec, s.kind, s.n, s.size)
			for _, inspect := range []Inspection{InspectAll, InspectHeaders} {
				name := fmt.Sprintf("codec=%v/data=%s-%dx%d/inspect=%v", codec, s.kind, s.n, s.size, inspect == InspectAll)
				b.Run(name, func(b *testing.B) {
					rules := benchRules()
					rules.Inspect = inspect
					b.ReportAllocs()
					for b.Loop() {
						if _, err := Validate(batch, rules); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.n), "ns/record")
					b.ReportMetric(float64(len(batch)), "bytes/batch")
				})
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for codec := None; codec <= Zstd; codec++ {
		batch := benchBatch(b, codec, "json", 160, 100)
		b.Run(fmt.Sprintf("codec=%v", codec), func(b *testing.B) {
			b.ReportAllocs()
			var r RecordReader
			for b.Loop() {
				r.Reset(batch, Limits{})
				for r.Next() {
				}
				if r.Err() != nil {
					b.Fatal(r.Err())
				}
			}
			r.Close()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/160, "ns/record")
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for codec := None; codec <= Zstd; codec++ {
		values := payloads("json", 160, 100)
		b.Run(fmt.Sprintf("codec=%v", codec), func(b *testing.B) {
			b.ReportAllocs()
			builder := new(Builder)
			var dst []byte
			for b.Loop() {
				builder.Reset(BuilderOptions{Codec: codec})
				for i, value := range values {
					builder.Add(goldenTime+int64(i), nil, value)
				}
				out, err := builder.AppendTo(dst[:0])
				if err != nil {
					b.Fatal(err)
				}
				dst = out
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/160, "ns/record")
		})
	}
}

func BenchmarkNext(b *testing.B) {
	var log []byte
	one := benchBatch(b, None, "letters", 16, 1024)
	for range 64 {
		log = append(log, one...)
	}
	b.ReportAllocs()
	for b.Loop() {
		for rest := log; len(rest) > 0; {
			var err error
			if _, rest, err = Next(rest); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/batch")
}

func BenchmarkStampAppendTime(b *testing.B) {
	batch := benchBatch(b, None, "letters", 16, 1024)
	b.ReportAllocs()
	ms := int64(0)
	for b.Loop() {
		ms++
		batch.StampAppendTime(ms & math.MaxInt32)
	}
}
