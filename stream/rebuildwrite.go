package stream

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// SalvagedPrefix is the key prefix under which [Rebuilt.Write] keeps the objects of damaged logs, in the store of the
// WAL: their own keys follow. Nothing reads them. They stay until somebody drops them: [SalvagedLogs].
const SalvagedPrefix = "tidemark-salvaged/"

// salvagedLog is a damaged log whose readable records are copied.
type salvagedLog struct {
	prefix WALPrefix
	keys   []string // of all its objects
	run    []walObject
	trim   int64
	first  catalog.ObjectID // the first id of the objects that are made
	want   map[catalog.StreamID]salvagedRun
}

// salvagedRun is a range of a stream to be copied: records of an epoch, from from to to.
type salvagedRun struct{ epoch, from, to int64 }

// salvageFrom marks the records of a stream to be copied from the damaged log that holds them.
func (b *rebuilder) salvageFrom(s *foundStream) {
	for _, l := range b.made.salvaged {
		if l.prefix.Node == s.log.node {
			l.want[s.id] = salvagedRun{s.log.epoch, s.end, s.log.to}
		}
	}
}

// Write writes the objects in [Rebuilt.Copies] from their sources, and objects with the records copied from damaged
// logs. The objects of those logs are kept under [SalvagedPrefix], since [Open] removes the logs. Afterwards the
// metadata matches the bucket. If the process ends before the metadata is created, the next rebuild finds these objects
// as never committed.
func (r *Rebuilt) Write(ctx context.Context, o RebuildOptions) error {
	namespace := cmp.Or(o.Namespace, DefaultNamespace)
	if err := r.writeCopies(ctx, o, namespace); err != nil {
		return err
	}
	for _, l := range r.salvaged {
		if err := l.keep(ctx, o.WAL); err != nil {
			return err
		}
	}
	for _, l := range r.salvaged {
		if len(l.want) == 0 {
			continue
		}
		next := l.first
		err := readWALAhead(ctx, o.WAL, l.run, rebuildAhead, func(from walObject, data []byte) error {
			next++
			return r.writeSalvaged(ctx, o, DataKey(namespace, next-1), l, from, data, next-1)
		})
		if err != nil {
			return err
		}
	}
	r.salvaged = nil
	return nil
}

// keep copies all objects of the log to where nothing removes them.
func (l *salvagedLog) keep(ctx context.Context, store objstore.Store) error {
	for _, key := range l.keys {
		err := retry(ctx, func() error {
			b, err := store.Get(ctx, key)
			if err != nil {
				return err
			}
			return store.Put(ctx, SalvagedPrefix+key, b)
		})
		if err != nil {
			return fmt.Errorf("a damaged log cannot be kept: %w", err)
		}
	}
	return nil
}

// writeSalvaged writes an object with the wanted records of a log's object, in whose order they are (WAL-4).
func (r *Rebuilt) writeSalvaged(
	ctx context.Context, o RebuildOptions, key string, l *salvagedLog, from walObject, data []byte, id catalog.ObjectID,
) error {
	h, frames, err := DecodeWALObject(from.key, data)
	if err != nil || h != from.header {
		return nil // this is the damaged object
	}
	var records []Record
	for _, f := range frames {
		want, wanted := l.want[f.Record.Stream]
		if wanted && !f.Padding && f.Offset > l.trim && f.Record.Epoch == want.epoch && f.Record.Base >= want.from &&
			f.Record.End() <= want.to {
			records = append(records, f.Record)
		}
	}
	if len(records) == 0 {
		return nil
	}
	slices.SortStableFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Base, b.Base))
	})
	var b bytes.Buffer
	w := NewObjectWriter(&b, DefaultConfig().ObjectBlockSize)
	for _, record := range records {
		if err := w.Add(record); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := retry(ctx, func() error { return putData(ctx, o.Data, key, b.Bytes()) }); err != nil {
		return err
	}
	r.addSalvaged(id, w.Size(), w.Index().runs(), o.Node)
	return nil
}

// addSalvaged adds an object to the metadata.
func (r *Rebuilt) addSalvaged(id catalog.ObjectID, size int64, runs []catalog.Range, node catalog.NodeID) {
	now := time.Now().UnixMilli()
	if len(runs) == 1 {
		r.Objects = append(r.Objects, catalog.StreamObjectState{DataMs: now, StreamObject: catalog.StreamObject{
			Object: id, Size: size, Stream: runs[0].Stream, Epoch: -1, Start: runs[0].Start, End: runs[0].End,
		}})
	} else {
		r.Sets = append(r.Sets, catalog.StreamSetState{
			Object: id, Node: node, Size: size, CommittedMs: now, DataMs: now, Ranges: runs,
		})
	}
	for _, run := range runs {
		i, _ := slices.BinarySearchFunc(r.Streams, run.Stream, func(s catalog.Stream, id catalog.StreamID) int {
			return cmp.Compare(s.ID, id)
		})
		r.Streams[i].End = max(r.Streams[i].End, run.End)
	}
}

// writeCopies writes parts of objects.
func (r *Rebuilt) writeCopies(ctx context.Context, o RebuildOptions, namespace string) error {
	copier := &compactor{
		compactorOptions: compactorOptions{data: o.Data, namespace: namespace}, config: DefaultConfig().compaction(),
		throttle: newThrottle(0),
	}
	for i := range r.Copies {
		one := &r.Copies[i]
		key := DataKey(namespace, one.From)
		info, err := o.Data.Head(ctx, key)
		if err != nil {
			return err
		}
		index, err := loadIndex(ctx, o.Data, key, info.Size)
		if err != nil {
			return err
		}
		var blocks []planBlock
		for _, e := range index {
			if slices.ContainsFunc(one.Ranges, func(r catalog.Range) bool {
				return r.Stream == e.Stream && r.Start <= e.Start && e.End() <= r.End
			}) {
				blocks = append(blocks, planBlock{object: one.From, IndexEntry: e})
			}
		}
		if one.Size, err = copier.copyBlocks(ctx, one.To, blocks); err != nil {
			return err
		}
		r.setSize(one.To, one.Size)
	}
	return nil
}

func (r *Rebuilt) setSize(id catalog.ObjectID, size int64) {
	for i := range r.Objects {
		if r.Objects[i].Object == id {
			r.Objects[i].Size = size
		}
	}
	for i := range r.Sets {
		if r.Sets[i].Object == id {
			r.Sets[i].Size = size
		}
	}
}
