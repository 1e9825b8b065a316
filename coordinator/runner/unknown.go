package runner

import (
	"bytes"
	"iter"
	"maps"
	"slices"
)

// unknownRecords are the newest values of records of unknown types, by key, as compaction would keep them: a newer
// version or a Kafka broker wrote them, and will need them again.
type unknownRecords map[string]unknownRecord

type unknownRecord struct {
	value []byte
	at    int64 // its offset, or a lower one from which starts read too
}

// note adds a record of the partition.
func (u *unknownRecords) note(e Entry) {
	if e.Value == nil {
		delete(*u, string(e.Key))
		return
	}
	if *u == nil {
		*u = unknownRecords{}
	}
	(*u)[string(e.Key)] = unknownRecord{bytes.Clone(e.Value), e.Offset}
}

// pairs yields the records in the order of their keys.
func (u unknownRecords) pairs() iter.Seq2[KeyValue, error] {
	return func(yield func(KeyValue, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(u)) {
			if !yield(KeyValue{[]byte(key), u[key].value}, nil) {
				return
			}
		}
	}
}

// movedTo says that those that were carried, all but the ones that stay, are at an offset or above.
func (u unknownRecords) movedTo(offset int64, stay map[string]bool) {
	for key, r := range u {
		if !stay[key] {
			u[key] = unknownRecord{r.value, offset}
		}
	}
}
