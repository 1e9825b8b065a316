package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ID identifies one record forever: the writer that made it and its number there, from 0.
type ID struct {
	Writer int
	Seq    int64
}

// String returns the text that is the record's key.
func (id ID) String() string { return fmt.Sprintf("w%d-%d", id.Writer, id.Seq) }

// ParseID parses the text of [ID.String].
func ParseID(key []byte) (ID, error) {
	var id ID
	if _, err := fmt.Sscanf(string(key), "w%d-%d", &id.Writer, &id.Seq); err != nil {
		return ID{}, fmt.Errorf("ledger: key %q is not one that a writer made: %w", key, err)
	}
	if id.String() != string(key) {
		return ID{}, fmt.Errorf("ledger: key %q is not one that a writer made", key)
	}
	return id, nil
}

// Digest is the SHA-256 of a record's key, value and headers, each with its length, so that null, empty and shifted
// bytes all differ.
type Digest [sha256.Size]byte

// DigestOf returns the digest of r's key, value and headers. It does not cover the timestamp, which a topic may be set
// to replace.
func DigestOf(r *kgo.Record) Digest {
	h := sha256.New()
	var size [8]byte
	add := func(b []byte) {
		n := int64(len(b))
		if b == nil {
			n = -1
		}
		binary.BigEndian.PutUint64(size[:], uint64(n))
		h.Write(size[:])
		h.Write(b)
	}
	add(r.Key)
	add(r.Value)
	for _, header := range r.Headers {
		add([]byte(header.Key))
		add(header.Value)
	}
	return Digest(h.Sum(nil))
}

// newRecord returns the record that id always has: its key is the id, its value is derived from the id alone and is
// between minBytes and maxBytes long, half of it noise and half of it compressible.
func newRecord(topic string, id ID, minBytes, maxBytes int) *kgo.Record {
	rng := rand.New(rand.NewPCG(uint64(id.Writer), uint64(id.Seq)))
	value := make([]byte, minBytes+rng.IntN(maxBytes-minBytes+1))
	for i := range value {
		value[i] = 'a' + byte(i%7)
	}
	for noise := value[:len(value)/2]; len(noise) >= 8; noise = noise[8:] {
		binary.LittleEndian.PutUint64(noise, rng.Uint64())
	}
	return &kgo.Record{
		Topic:   topic,
		Key:     []byte(id.String()),
		Value:   value,
		Headers: []kgo.RecordHeader{{Key: "writer", Value: fmt.Appendf(nil, "%d", id.Writer)}},
	}
}
