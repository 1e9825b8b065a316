package meta

import (
	"testing"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// manyObjects is a state of a thousand streams with a thousand stream objects each.
func manyObjects(b *testing.B, objects int) *State {
	b.Helper()
	const streams = 1000
	s := Empty()
	index := uint64(0)
	apply := func(commands ...Command) {
		index++
		var results []Result
		s, results = s.Apply(index, Entry{NowMs: 1, Commands: commands})
		for _, r := range results {
			if err := r.Err(); err != nil {
				b.Fatal(err)
			}
		}
	}
	apply(RegisterNode{Node: 1, ExpectedEpoch: -1, Incarnation: [16]byte{1}}, CreateStreams{Node: 1, NodeEpoch: 1, Count: streams})
	for id := range catalog.StreamID(streams) {
		apply(OpenStream{Node: 1, NodeEpoch: 1, Stream: id, Epoch: 1})
	}
	for round := range int64(objects / streams) {
		apply(PrepareObjects{Node: 1, NodeEpoch: 1, Count: streams, TTLMs: 1000})
		first := s.NextObject() - streams
		c := CommitObjects{Node: 1, NodeEpoch: 1, Commit: catalog.Commit{Object: catalog.NoObject}}
		for id := range catalog.StreamID(streams) {
			c.StreamObjects = append(c.StreamObjects, catalog.StreamObject{
				Object: first + catalog.ObjectID(id), Size: 1 << 20, Stream: id, Epoch: 1, Start: 100 * round, End: 100*round + 100,
			})
		}
		apply(c)
	}
	return s
}

// upload is the next commit of a block: a stream-set object of as many streams as given.
func upload(s *State, streams int) (prepare, commit Command) {
	c := CommitObjects{Node: 1, NodeEpoch: 1, Commit: catalog.Commit{Object: s.NextObject(), Size: 100 << 20}}
	for id := range catalog.StreamID(streams) {
		row, _ := s.Stream(id)
		c.Ranges = append(c.Ranges, catalog.Range{Stream: id, Epoch: 1, Start: row.End, End: row.End + 10, Size: 1 << 20})
	}
	return PrepareObjects{Node: 1, NodeEpoch: 1, Count: 1, TTLMs: 1000}, c
}

const million = 1_000_000

func BenchmarkApplyUpload(b *testing.B) {
	s := manyObjects(b, million)
	for name, streams := range map[string]int{"1 stream": 1, "1000 streams": 1000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			prepare, commit := upload(s, streams)
			for b.Loop() {
				if _, results := s.Apply(s.index+1, Entry{Commands: []Command{prepare, commit}}); results[1].Code != OK {
					b.Fatal(results[1])
				}
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	s := manyObjects(b, million)
	b.ReportAllocs()
	for b.Loop() {
		s.Objects(500, 50_000, 50_400, 4)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s := manyObjects(b, million)
	data := s.EncodeSnapshot()
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			s.EncodeSnapshot()
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := DecodeSnapshot(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
