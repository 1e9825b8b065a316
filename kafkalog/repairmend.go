package kafkalog

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// A segment whose end is no batch is cut in place. One that loses something else is written anew without that, and takes
// the old one's place as any replacement does (swap.go): whatever a crash leaves of it, the next opening settles.
//
// In the place of offsets that are lost stands an empty batch that covers them, as compaction leaves one. So the offsets
// have no gap which a later recovery would take for the work of a power cut, and clients step over them in one fetch.

// mend brings the segment to what was planned. It is durable on return.
func (s *repairSegment) mend() error {
	if len(s.regions) == 0 && s.fillTo == 0 {
		return nil
	}
	if len(s.regions) == 1 && s.regions[0].to == s.size && s.fillTo == 0 && !s.regions[0].isPutRight() {
		return s.cut(s.regions[0].from)
	}
	if err := s.writeAnew(); err != nil {
		return err
	}
	_, err := s.repair.loader().clean()
	return err
}

// cut cuts the file. Its indexes go first, since they may speak of what is cut.
func (s *repairSegment) cut(size int64) (err error) {
	r := s.repair
	for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
		if err := r.loader().remove(fileName(s.base, suffix)); err != nil {
			return err
		}
	}
	name := path.Join(r.Dir, s.name)
	if err := r.fs.SyncDir(r.Dir); err != nil {
		return &IOError{Op: opSyncDir, Path: r.Dir, Err: err}
	}
	f, err := r.fs.Open(name, vfs.ReadWrite)
	if err != nil {
		return &IOError{Op: "open", Path: name, Err: err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(size); err != nil {
		return &IOError{Op: "truncate", Path: name, Err: err}
	}
	if err := f.Sync(); err != nil {
		return &IOError{Op: opSync, Path: name, Err: err}
	}
	return nil
}

// writeAnew writes what takes the segment's place, up to the moment from which on it does.
func (s *repairSegment) writeAnew() error {
	r := s.repair
	name := path.Join(r.Dir, s.name)
	info, err := r.fs.Stat(name)
	if err != nil {
		return &IOError{Op: "stat", Path: name, Err: err}
	}
	ready := []string{name}
	txns := filePath(r.Dir, s.base, txnIndexSuffix)
	if data, err := readFile(r.fs, txns); err == nil {
		// Its entries are of offsets, and true whatever else is lost.
		if err := writeSynced(r.fs, txns+cleanedSuffix, data); err != nil {
			return err
		}
		ready = []string{txns, name}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.writeRecords(name, name+cleanedSuffix); err != nil {
		return err
	}
	if err := r.fs.Chtimes(name+cleanedSuffix, info.ModTime()); err != nil {
		return &IOError{Op: "set the time of", Path: name + cleanedSuffix, Err: err}
	}
	if err := r.fs.SyncDir(r.Dir); err != nil {
		return &IOError{Op: opSyncDir, Path: r.Dir, Err: err}
	}
	for _, each := range ready {
		if err := r.fs.Rename(each+cleanedSuffix, each+swapSuffix); err != nil {
			return &IOError{Op: "rename to", Path: each + swapSuffix, Err: err}
		}
	}
	if err := r.fs.SyncDir(r.Dir); err != nil {
		return &IOError{Op: opSyncDir, Path: r.Dir, Err: err}
	}
	return nil
}

// writeRecords copies the file without its regions, with empty batches for the offsets that are lost.
func (s *repairSegment) writeRecords(from, to string) (err error) {
	source, size, err := openForReading(s.repair.fs, from)
	if err != nil {
		return err
	}
	defer source.Close()
	if size != s.size {
		return &CorruptionError{Path: from, Position: size, Reason: "the file has changed since it was read"}
	}
	target, err := s.repair.fs.Open(to, vfs.CreateTruncate)
	if err != nil {
		return &IOError{Op: "create", Path: to, Err: err}
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	w := &repairWriter{source: source, from: from, target: target, to: to, buf: make([]byte, scanSize)}
	at := int64(0)
	for _, g := range s.regions {
		if err := w.copy(at, g.from); err != nil {
			return err
		}
		switch {
		case g.whole != nil:
			err = w.write(g.whole)
		case g.misplaced:
			err = w.move(g.from, g.to, g.first)
		default:
			err = w.fill(g.first, g.next, g.epoch, g.markers)
		}
		if err != nil {
			return err
		}
		at = g.to
	}
	if err := w.copy(at, s.size); err != nil {
		return err
	}
	if s.fillsBehind() {
		if err := w.fill(s.end, s.fillTo, s.epoch, s.fillMarkers); err != nil {
			return err
		}
	}
	if err := target.Sync(); err != nil {
		return &IOError{Op: opSync, Path: to, Err: err}
	}
	return nil
}

// repairWriter writes a file of records from another one.
type repairWriter struct {
	source   vfs.File
	from     string
	target   vfs.File
	to       string
	position int64
	buf      []byte
}

func (w *repairWriter) copy(from, to int64) error {
	for from < to {
		b := w.buf[:min(int64(len(w.buf)), to-from)]
		if err := readFull(w.source, w.from, b, from); err != nil {
			return err
		}
		if err := w.write(b); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}

// move copies a batch and gives it another base offset, of which its checksum says nothing.
func (w *repairWriter) move(from, to, offset int64) error {
	b := make(batch.Batch, to-from)
	if err := readFull(w.source, w.from, b, from); err != nil {
		return err
	}
	b.SetBaseOffset(offset)
	return w.write(b)
}

func (w *repairWriter) write(b []byte) error {
	if _, err := w.target.WriteAt(b, w.position); err != nil {
		return &IOError{Op: "write", Path: w.to, Err: err}
	}
	w.position += int64(len(b))
	return nil
}

// fill writes the markers, and empty batches for the other offsets from first up to next.
func (w *repairWriter) fill(first, next int64, epoch int32, markers []batch.EndMarkerOptions) error {
	for _, m := range markers {
		if err := w.empty(first, m.BaseOffset, epoch); err != nil {
			return err
		}
		if err := w.write(batch.EndMarker(m)); err != nil {
			return err
		}
		first = m.BaseOffset + 1
	}
	return w.empty(first, next, epoch)
}

// empty writes empty batches for the offsets from first up to next.
func (w *repairWriter) empty(first, next int64, epoch int32) error {
	for first < next {
		covered := min(next-first, math.MaxInt32)
		empty := batch.RetainEmpty(batch.Header{
			BaseOffset: first, LeaderEpoch: epoch, LastOffsetDelta: int32(covered - 1), MaxTimestamp: -1,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		})
		if err := w.write(empty); err != nil {
			return err
		}
		first += covered
	}
	return nil
}

// isTxnIndexName reports whether the name is that of an index of aborted transactions.
func isTxnIndexName(name string) bool { return strings.HasSuffix(name, txnIndexSuffix) }
