package partition

import (
	"errors"
	"io"

	"github.com/tidemark-io/tidemark/kafkalog"
)

// Isolation says how far a reader may see.
type Isolation int8

// The isolation levels, with Kafka's numbers.
const (
	ReadUncommitted Isolation = 0 // up to the high watermark
	ReadCommitted   Isolation = 1 // up to the last stable offset
)

// Records are whole batches as they are in the log, perhaps still on disk. The zero value is no records. The receiver
// releases them.
type Records struct {
	regions *kafkalog.Regions
	log     *Log // that they are of
}

// Len is the number of bytes.
func (r Records) Len() int64 {
	if r.regions == nil {
		return 0
	}
	return r.regions.Len()
}

// WriteTo writes the batches to w. When w can take them from a file, as a TCP connection can, they are not copied through
// this process. It blocks on w and on the disk.
func (r Records) WriteTo(w io.Writer) (int64, error) {
	if r.regions == nil {
		return 0, nil
	}
	n, err := r.regions.WriteTo(w)
	return n, r.failed(err)
}

// AppendTo appends the batches to b, as append does.
func (r Records) AppendTo(b []byte) ([]byte, error) {
	if r.regions == nil {
		return b, nil
	}
	b, err := r.regions.AppendTo(b)
	return b, r.failed(err)
}

// failed reports an error of the disk.
func (r Records) failed(err error) error {
	if errors.Is(err, kafkalog.ErrStorage) {
		r.log.readFailed(r.regions.StartOffset, err)
	}
	return err
}

// Release releases the files. The records must not be used afterwards. Releasing twice does nothing.
func (r Records) Release() {
	if r.regions != nil {
		r.regions.Release()
	}
}

// AbortedTxn is an aborted transaction whose records are among those that were read.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// Read is what [Log.Read] found, and the positions at the time.
type Read struct {
	Records Records
	Offsets Offsets
	Aborted []AbortedTxn // in the order of their markers; nil unless the isolation is ReadCommitted
}

// Read returns whole batches from the one that holds the offset fetch on, as far as iso allows and up to about maxBytes.
// If minOne is true the first batch is returned whole even if it exceeds maxBytes; otherwise nothing is returned in
// that case. A fetch of offsets that iso does not show yet, up to the log end, returns no records and no error. The
// caller releases the records.
//
// Errors: [ErrOffsetOutOfRange] below the log start and above the log end, [ErrStorage], [ErrClosed], [ErrDeleted].
func (l *Log) Read(fetch int64, iso Isolation, maxBytes int, minOne bool) (Read, error) {
	if err := l.unreadable(); err != nil {
		return Read{}, err
	}
	o := l.Offsets()
	if fetch < o.LogStart || fetch > o.LogEnd {
		return Read{Offsets: o}, &OffsetError{Offset: fetch, Start: o.LogStart, End: o.LogEnd}
	}
	bound := o.bound(iso)
	if fetch >= bound || (maxBytes <= 0 && !minOne) {
		return Read{Offsets: o}, nil
	}
	regions, err := l.store.ReadRegions(fetch, bound, maxBytes)
	if err != nil {
		return Read{Offsets: o}, l.readError(fetch, err)
	}
	if !minOne && regions.Len() > int64(maxBytes) {
		regions.Release()
		return Read{Offsets: o}, nil
	}
	read := Read{Records: Records{regions: regions, log: l}, Offsets: o}
	if iso == ReadCommitted {
		if read.Aborted, err = l.aborted(fetch, regions.LastOffset+1); err != nil {
			regions.Release()
			return Read{Offsets: o}, err
		}
	}
	return read, nil
}

// aborted lists the aborted transactions among records of the given range.
func (l *Log) aborted(from, to int64) ([]AbortedTxn, error) {
	found, err := l.store.AbortedInRange(from, to)
	if err != nil {
		return nil, l.readError(from, err)
	}
	aborted := make([]AbortedTxn, 0, len(found))
	for _, t := range found {
		aborted = append(aborted, AbortedTxn{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
	}
	return aborted, nil
}

// bound is the offset at which a reader stops.
func (o Offsets) bound(iso Isolation) int64 {
	if iso == ReadCommitted {
		return o.LastStable
	}
	return o.HighWatermark
}

// unreadable returns why the log cannot be read, or nil. A fenced or failed log can be.
func (l *Log) unreadable() error {
	if err := l.ended(); err != nil && !errors.Is(err, ErrNotLeader) {
		return err
	}
	return nil
}

// readError turns an error of the log under this one into one of ours.
func (l *Log) readError(offset int64, err error) error {
	switch {
	case errors.Is(err, kafkalog.ErrOffsetOutOfRange):
		o := l.Offsets()
		return &OffsetError{Offset: offset, Start: o.LogStart, End: o.LogEnd}
	case errors.Is(err, kafkalog.ErrClosed):
		if ended := l.unreadable(); ended != nil {
			return ended
		}
		return ErrClosed
	}
	err = l.storageError("read", err, false)
	l.readFailed(offset, err)
	return err
}

func (l *Log) readFailed(offset int64, err error) {
	l.events.ReadFailed(ReadFailed{Topic: l.topic, Partition: l.index, Offset: offset, Err: err})
}
