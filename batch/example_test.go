package batch_test

import (
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/tidemark-io/tidemark/batch"
)

// Two records become one compressed batch at offset 42, and are read again.
func Example() {
	builder := batch.NewBuilder(batch.BuilderOptions{Codec: batch.LZ4, BaseOffset: 42})
	builder.Add(1700000000000, []byte("moon"), []byte("full"))
	builder.Add(1700000000005, nil, []byte("spring tide"), batch.RecordHeader{Key: "port", Value: []byte("Brest")})
	b, err := builder.Build()
	if err != nil {
		log.Fatal(err)
	}

	r := b.Records(batch.Limits{MaxRecordBytes: 1 << 20, MaxDecompressedBytes: 64 << 20})
	defer r.Close()
	for r.Next() {
		record := r.Record() // its bytes are valid until the next call of r.Next
		fmt.Printf("%d at %d: %q = %q, %d headers\n",
			record.Offset, record.Timestamp, record.Key, record.Value, len(record.Headers))
	}
	if err := r.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 42 at 1700000000000: "moon" = "full", 0 headers
	// 43 at 1700000000005: "" = "spring tide", 1 headers
}

// A log file is batches one after another; the last one may be torn.
func ExampleNext() {
	one := func(base int64) batch.Batch {
		builder := batch.NewBuilder(batch.BuilderOptions{BaseOffset: base})
		builder.Add(1700000000000, nil, []byte("a"))
		builder.Add(1700000000000, nil, []byte("b"))
		b, err := builder.Build()
		if err != nil {
			log.Fatal(err)
		}
		return b
	}
	file := append(one(0), one(2)...)
	file = append(file, one(4)[:30]...)

	for rest := []byte(file); ; {
		b, after, err := batch.Next(rest)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			fmt.Printf("%d bytes of a torn batch\n", len(after))
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if err := b.VerifyCRC(); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("offsets %d to %d in %d bytes\n", b.BaseOffset(), b.LastOffset(), b.Size())
		rest = after
	}
	// Output:
	// offsets 0 to 1 in 77 bytes
	// offsets 2 to 3 in 77 bytes
	// 30 bytes of a torn batch
}

// A leader holds what a client produced against the topic's rules, then stamps the batch where it lies.
func ExampleValidate() {
	builder := batch.NewBuilder(batch.BuilderOptions{Codec: batch.Zstd, LeaderEpoch: -1})
	builder.Add(1700000000000, nil, []byte("no key"))
	produced, err := builder.Build()
	if err != nil {
		log.Fatal(err)
	}

	rules := batch.DefaultRules(1700000000123)
	result, err := batch.Validate(produced, rules)
	if err != nil {
		log.Fatal(err)
	}
	result.Batch.SetBaseOffset(1000)
	result.Batch.SetLeaderEpoch(3)
	fmt.Println("accepted at offset", result.Batch.BaseOffset(), "rebuilt:", result.Rebuilt)

	produced.SetBaseOffset(0)
	rules.Compacted = true
	_, err = batch.Validate(produced, rules)
	var refusal *batch.ValidationError
	if errors.As(err, &refusal) {
		fmt.Println("refused:", refusal.Kind, refusal.RecordErrors)
	}
	// Output:
	// accepted at offset 1000 rebuilt: false
	// refused: invalid record [{0 a compacted topic does not accept a record without a key}]
}
