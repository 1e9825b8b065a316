package runner

import (
	"bytes"
	"iter"
	"maps"
	"slices"
)

// unknownRecords are the newest values of records whose types are not known here, by key, as compaction would leave them: a newer
// version wrote them, or a Kafka broker, and will want them back.
type unknownRecords map[string][]byte

// note takes in a record of the partition.
func (u *unknownRecords) note(e Entry) {
	if e.Value == nil {
		delete(*u, string(e.Key))
		return
	}
	if *u == nil {
		*u = unknownRecords{}
	}
	(*u)[string(e.Key)] = bytes.Clone(e.Value)
}

// pairs yields them in the order of the keys.
func (u unknownRecords) pairs() iter.Seq2[KeyValue, error] {
	return func(yield func(KeyValue, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(u)) {
			if !yield(KeyValue{[]byte(key), u[key]}, nil) {
				return
			}
		}
	}
}
