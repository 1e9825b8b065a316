package importer

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/vfs"
)

// metadataTopic is the topic of Kafka's metadata log; it has one partition.
const metadataTopic = "__cluster_metadata"

// checkpointSuffix ends the name of a snapshot of the metadata log: the offset that it covers, in 20 digits, a dash, the
// epoch in 10 digits. It is a file of ordinary batches, the first of which is a control batch that begins it and the last
// one that ends it; what lies between says what the metadata was.
const checkpointSuffix = ".checkpoint"

// Control records of the metadata log, by the type in their keys.
const snapshotFooter = 4

// readImage reads the newest snapshot and the records after it.
func readImage(fsys vfs.FS, dir string) (*image, error) {
	list, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var segments, snapshots []string
	for _, e := range list {
		switch {
		case e.IsDir():
		case strings.HasSuffix(e.Name(), ".log"):
			segments = append(segments, e.Name())
		case strings.HasSuffix(e.Name(), checkpointSuffix):
			snapshots = append(snapshots, e.Name())
		}
	}
	m, from, err := newestSnapshot(fsys, dir, snapshots)
	if err != nil {
		return nil, err
	}
	return m, replaySegments(fsys, dir, segments, m, from)
}

// newestSnapshot reads the newest complete snapshot, and returns the offset at which the log continues. Kafka writes a
// snapshot under another name until it is complete, so an incomplete one is skipped.
func newestSnapshot(fsys vfs.FS, dir string, names []string) (m *image, from int64, err error) {
	for _, name := range slices.Backward(names) {
		text, _, _ := strings.Cut(strings.TrimSuffix(name, checkpointSuffix), "-")
		offset, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		m, whole, err := readSnapshot(fsys, path.Join(dir, name))
		if err != nil {
			return nil, 0, err
		}
		if whole {
			return m, offset, nil
		}
	}
	return newImage(), 0, nil
}

func readSnapshot(fsys vfs.FS, name string) (m *image, whole bool, err error) {
	m = newImage()
	err = kafkalog.ReadSegmentFile(fsys, name, func(_ int64, b batch.Batch) error {
		if err := b.VerifyCRC(); err != nil {
			return err
		}
		if b.Attributes().Control() {
			last, err := endsSnapshot(b)
			whole = whole || last
			return err
		}
		return m.applyBatch(b, 0)
	})
	var damage *kafkalog.CorruptionError
	if errors.As(err, &damage) {
		return m, false, nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return m, whole, err
}

// endsSnapshot reports whether a control batch is the one that ends a snapshot.
func endsSnapshot(b batch.Batch) (bool, error) {
	records := b.Records(batch.Limits{})
	defer records.Close()
	last := false
	for records.Next() {
		key := records.Record().Key
		last = last || len(key) >= 4 && key[2] == 0 && key[3] == snapshotFooter
	}
	return last, records.Err()
}

// replaySegments applies the log's segments from an offset on. A torn or damaged batch in the last segment ends the log,
// as it does for Kafka; in any other segment it is an error, and so are missing offsets.
func replaySegments(fsys vfs.FS, dir string, names []string, m *image, from int64) error {
	next := from
	for i, name := range names {
		file := path.Join(dir, name)
		last := i+1 == len(names)
		torn := errors.New("the batch is damaged")
		err := kafkalog.ReadSegmentFile(fsys, file, func(position int64, b batch.Batch) error {
			if b.NextOffset() <= next {
				return nil
			}
			if b.VerifyCRC() != nil {
				return torn
			}
			if b.BaseOffset() > next {
				return fmt.Errorf("%s, position %d: offset %d follows %d: the metadata in between is missing", file, position,
					b.BaseOffset(), next)
			}
			if !b.Attributes().Control() {
				if err := m.applyBatch(b, next); err != nil {
					return fmt.Errorf("%s, position %d: %w", file, position, err)
				}
			}
			next = b.NextOffset()
			return nil
		})
		var damage *kafkalog.CorruptionError
		switch {
		case err == nil:
		case last && (err == torn || errors.As(err, &damage)):
		case err == torn:
			return fmt.Errorf("%s: %w", file, err)
		default:
			return err
		}
	}
	return nil
}

// applyBatch applies the records of a batch from an offset on.
func (m *image) applyBatch(b batch.Batch, from int64) error {
	records := b.Records(batch.Limits{})
	defer records.Close()
	for records.Next() {
		r := records.Record()
		if r.Offset < from {
			continue
		}
		if err := m.apply(r.Value); err != nil {
			return fmt.Errorf("offset %d: %w", r.Offset, err)
		}
	}
	return records.Err()
}
