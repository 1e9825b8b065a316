package broker

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/partition"
)

// A Fetch response, encoded by hand because its records need not pass through this process. Everything else goes into one
// buffer; small sets of records are appended to it, large ones write themselves to the connection between two pieces of
// it. (vN: from version N on; "tags" is the section of tagged fields of v12+, one byte 0 when empty; lengths and counts
// are int32 until v11 and unsigned varints of the number plus one from v12 on.)
//
//	┌──────┬─────────────┬──────┬──────────┬──────────┬────────────┬────────┬──────┐
//	│ size │ correlation │ tags │ throttle │ error v7 │ session v7 │ topics │ tags │ 0: nodes v16
//	│ 4    │ 4           │      │ 4        │ 2        │ 4          │        │      │
//	└──────┴─────────────┴──────┴──────────┴──────────┴────────────┴───┬────┴──────┘
//	  ┌────────────────────────────────────────────────────────────────┘
//	  │ ┌───────┬─────────────────────────────────┬────────────┬──────┐
//	  └►│ count │ name (v13: 16 bytes of the id)  │ partitions │ tags │ … for each topic
//	    └───────┴─────────────────────────────────┴───┬────────┴──────┘
//	  ┌───────────────────────────────────────────────┘
//	  │ ┌───────┬───────┬───────┬──────┬─────┬──────────┬─────────┬───────────┬─────────┬──────┐
//	  └►│ count │ index │ error │ high │ lso │ start v5 │ aborted │ replica   │ records │ tags │ … for each partition
//	    │       │ 4     │ 2     │ 8    │ 8   │ 8        │         │ v11: 4    │         │      │ 0: diverging epoch
//	    └───────┴───────┴───────┴──────┴─────┴──────────┴────┬────┴───────────┴─────────┴──────┘ 1: leader
//	  ┌──────────────────────────────────────────────────────┘
//	  │ ┌───────────────────────┬─────────────┬──────────────┬──────┐
//	  └►│ count, -1 isolation 0 │ producer id │ first offset │ tags │ … for each aborted transaction
//	    │                       │ 8           │ 8            │      │
//	    └───────────────────────┴─────────────┴──────────────┴──────┘
const (
	// sendfileThreshold is the size in bytes from which records are written from their file instead of copied.
	// BenchmarkSendRecords, two cores, loopback, in processor time of both ends (least of five): 16 KiB 7.1 µs copied and
	// 10.4 sent, 64 KiB 21.5 and 26.0, 128 KiB 30.9 and 37.7, 512 KiB 115 and 101.
	sendfileThreshold = 256 << 10

	// maxCopied bounds how many bytes of records are copied into the buffer of one response; beyond it every partition
	// writes itself.
	maxCopied = 1 << 20
)

// fetchFrame is a response under construction.
type fetchFrame struct {
	buf      []byte
	flexible bool
	cuts     []fetchCut
	copied   int
	apart    int64 // bytes of records that are not in buf
}

// fetchCut is a position in the buffer at which records are written.
type fetchCut struct {
	at      int
	records partition.Records
}

// send encodes and writes the response.
func (f *fetchAnswer) send(w *answerWriter) error {
	frame := fetchFrame{
		buf:      frameStart(w.encoder(f.encodedSize()), f.correlation, f.version >= 12),
		flexible: f.version >= 12,
	}
	f.encode(&frame, w.server)
	frameEnd(frame.buf, frame.apart)
	err := frame.writeTo(w)
	w.keep(frame.buf)
	return err
}

// encodedSize estimates the size of the buffer.
func (f *fetchAnswer) encodedSize() int {
	n := 64
	for i := range f.items {
		it := &f.items[i]
		n += 64 + len(it.topic) + 17*len(it.found.aborted)
		if it.found.size < sendfileThreshold && n < maxCopied {
			n += int(it.found.size)
		}
	}
	return n
}

// writeTo writes the buffer and, at each cut, the records that belong there.
func (e *fetchFrame) writeTo(w *answerWriter) error {
	from := 0
	for _, cut := range e.cuts {
		if err := w.send(e.buf[from:cut.at]); err != nil {
			return err
		}
		from = cut.at
		n, err := cut.records.WriteTo(w.sink)
		w.sent += n
		if err != nil {
			return err
		}
		if n != cut.records.Len() {
			return fmt.Errorf("%d bytes of records were written, not %d", n, cut.records.Len())
		}
	}
	return w.send(e.buf[from:])
}

// encode appends the body of the response.
func (f *fetchAnswer) encode(e *fetchFrame, s *Server) {
	e.int32(0) // throttle
	if f.version >= 7 {
		e.int16(f.code)
		e.int32(f.sessionID)
	}
	e.arrayLen(f.countTopics())
	for from := 0; from < len(f.items); {
		to := f.topicEnd(from)
		f.encodeTopic(e, from, to)
		from = to
	}
	f.encodeNodes(e, s)
}

// topicEnd returns the end of the run of partitions of one topic that begins at from.
func (f *fetchAnswer) topicEnd(from int) int {
	to := from + 1
	for to < len(f.items) && f.sameTopic(&f.items[from], &f.items[to]) {
		to++
	}
	return to
}

func (f *fetchAnswer) sameTopic(a, b *fetchItem) bool {
	if f.byID() {
		return a.id == b.id
	}
	return a.topic == b.topic
}

func (f *fetchAnswer) countTopics() int {
	n := 0
	for from := 0; from < len(f.items); from = f.topicEnd(from) {
		n++
	}
	return n
}

func (f *fetchAnswer) encodeTopic(e *fetchFrame, from, to int) {
	if f.byID() {
		e.buf = append(e.buf, f.items[from].id[:]...)
	} else {
		e.string(f.items[from].topic)
	}
	e.arrayLen(to - from)
	for i := from; i < to; i++ {
		f.encodePartition(e, &f.items[i])
	}
	e.noTags()
}

func (f *fetchAnswer) encodePartition(e *fetchFrame, it *fetchItem) {
	start := len(e.buf)
	f.encodePositions(e, it)
	if err := e.records(it.found.records, it.found.size); err != nil {
		// The disk failed under records that were found a moment ago. Nothing of the response has been written yet.
		e.buf = e.buf[:start]
		it.found.records.Release()
		it.found = f.failed(&partition.StorageError{Topic: it.topic, Partition: it.index, Doing: "read", Err: err})
		f.encodePositions(e, it)
		e.bytesLen(0)
	}
	f.encodePartitionTags(e, it)
}

func (f *fetchAnswer) encodePositions(e *fetchFrame, it *fetchItem) {
	r := &it.found
	e.int32(it.index)
	e.int16(r.code)
	e.int64(r.highWatermark)
	e.int64(r.lastStable)
	if f.version >= 5 {
		e.int64(r.logStart)
	}
	if f.isolation == partition.ReadCommitted && r.code == codeNone {
		e.arrayLen(len(r.aborted))
		for _, a := range r.aborted {
			e.int64(a.ProducerID)
			e.int64(a.FirstOffset)
			e.noTags()
		}
	} else {
		e.nullArray()
	}
	if f.version >= 11 {
		e.int32(-1) // preferred read replica
	}
}

// encodePartitionTags appends the tagged fields that differ from their defaults.
func (f *fetchAnswer) encodePartitionTags(e *fetchFrame, it *fetchItem) {
	if !e.flexible {
		return
	}
	r := &it.found
	leader := r.namesLeader && f.version >= 16 && it.leader >= 0
	diverging := r.diverging.epoch >= 0
	switch {
	case leader && diverging:
		e.uvarint(2)
	case leader || diverging:
		e.uvarint(1)
	default:
		e.uvarint(0)
	}
	if diverging {
		e.uvarint(0)
		e.uvarint(4 + 8 + 1)
		e.int32(r.diverging.epoch)
		e.int64(r.diverging.end)
		e.noTags()
	}
	if leader {
		e.uvarint(1)
		e.uvarint(4 + 4 + 1)
		e.int32(it.leader)
		e.int32(it.leaderEpoch)
		e.noTags()
	}
}

// encodeNodes appends the last tagged fields: the addresses of the named leaders.
func (f *fetchAnswer) encodeNodes(e *fetchFrame, s *Server) {
	if !e.flexible {
		return
	}
	nodes := s.endpoints(f.via, f.namedLeaders())
	if len(nodes) == 0 {
		e.uvarint(0)
		return
	}
	inner := fetchFrame{flexible: true}
	inner.arrayLen(len(nodes))
	for _, n := range nodes {
		inner.int32(n.ID)
		inner.string(n.Host)
		inner.int32(n.Port)
		if n.Rack == "" {
			inner.uvarint(0)
		} else {
			inner.string(n.Rack)
		}
		inner.noTags()
	}
	e.uvarint(1)
	e.uvarint(0)
	e.uvarint(uint64(len(inner.buf)))
	e.buf = append(e.buf, inner.buf...)
}

func (f *fetchAnswer) namedLeaders() []int32 {
	if f.version < 16 {
		return nil
	}
	var ids []int32
	for i := range f.items {
		if it := &f.items[i]; it.found.namesLeader && it.leader >= 0 {
			ids = append(ids, it.leader)
		}
	}
	return ids
}

var errShortRecords = errors.New("the records were shorter than they said")

// records appends records, or marks where they are to be written.
func (e *fetchFrame) records(r partition.Records, size int64) error {
	e.bytesLen(size)
	if size == 0 {
		return nil
	}
	if size >= sendfileThreshold || e.copied >= maxCopied {
		e.cuts = append(e.cuts, fetchCut{at: len(e.buf), records: r})
		e.apart += size
		return nil
	}
	before := len(e.buf)
	buf, err := r.AppendTo(e.buf)
	if err == nil && int64(len(buf)-before) != size {
		err = errShortRecords
	}
	if err != nil {
		return err
	}
	e.buf = buf
	e.copied += int(size)
	return nil
}

func (e *fetchFrame) int16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }

func (e *fetchFrame) int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }

func (e *fetchFrame) int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

func (e *fetchFrame) uvarint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }

func (e *fetchFrame) string(s string) {
	if e.flexible {
		e.uvarint(uint64(len(s)) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

func (e *fetchFrame) arrayLen(n int) { e.bytesLen(int64(n)) }

func (e *fetchFrame) bytesLen(n int64) {
	if e.flexible {
		e.uvarint(uint64(n) + 1)
	} else {
		e.int32(int32(n))
	}
}

func (e *fetchFrame) nullArray() {
	if e.flexible {
		e.uvarint(0)
	} else {
		e.int32(-1)
	}
}

func (e *fetchFrame) noTags() {
	if e.flexible {
		e.buf = append(e.buf, 0)
	}
}
