package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
)

// storedObject is an object in a store, read piece by piece: objects may be larger than memory.
type storedObject struct {
	store objstore.Store
	key   string
	size  int64
}

// read returns n bytes from off on, which must be inside the object.
func (o storedObject) read(ctx context.Context, off, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	p := make([]byte, n)
	return p, o.store.ReadRange(ctx, o.key, p, off)
}

// objectDump prints objects, as lines for people or as one JSON document a line.
type objectDump struct {
	out      io.Writer
	json     *json.Encoder // nil for people
	objects  int
	problems int
	walEnd   walEnd // of the object of a log that was printed last
}

// line is one part of an object: printed as text, or as JSON with its type.
type line interface {
	text() string
}

func (d *objectDump) print(l line) error {
	if d.json != nil {
		return d.json.Encode(l)
	}
	_, err := fmt.Fprintln(d.out, l.text())
	return err
}

// verdict returns the error of a dump that found something wrong.
func (d *objectDump) verdict() error {
	if d.problems == 0 {
		return nil
	}
	return fmt.Errorf("%s in %s, see above", plural(d.problems, "problem"), plural(d.objects, "object"))
}

// objectLine heads an object.
type objectLine struct {
	Type    string            `json:"type"` // "object"
	Key     string            `json:"key"`
	Kind    stream.ObjectKind `json:"kind"`
	Version int               `json:"version,omitempty"`
	Size    int64             `json:"size"`
}

func (l objectLine) text() string {
	if l.Kind == stream.WALKind {
		return fmt.Sprintf("%s  %s, version %d, %s", l.Key, l.Kind, l.Version, size(l.Size))
	}
	return fmt.Sprintf("%s  %s, %s", l.Key, l.Kind, size(l.Size))
}

// problemLine describes damage, where it occurs.
type problemLine struct {
	Type    string `json:"type"` // "problem"
	Problem string `json:"problem"`
}

func (l problemLine) text() string { return "  PROBLEM: " + l.Problem }

// problem prints damage and counts it; any other error ends the dump.
func (d *objectDump) problem(err error) error {
	var version *stream.VersionError
	if !errors.Is(err, stream.ErrCorrupt) && !errors.As(err, &version) && !errors.Is(err, stream.ErrOrdering) {
		return err
	}
	d.problems++
	return d.print(problemLine{Type: "problem", Problem: err.Error()})
}

// object prints an object of any kind.
func (d *objectDump) object(ctx context.Context, o storedObject) error {
	d.objects++
	kind, err := o.kind(ctx)
	if err != nil {
		return err
	}
	switch kind {
	case stream.WALKind:
		err = d.walObject(ctx, o)
	case stream.DataKind:
		err = d.dataObject(ctx, o)
	case stream.CompositeKind:
		err = d.composite(ctx, o)
	case stream.ReservationKind:
		err = d.reservation(ctx, o)
	case stream.RangeIndexKind:
		err = d.rangeIndex(ctx, o)
	default:
		return fmt.Errorf("%s is not an object of a known kind", o.key)
	}
	if err != nil {
		return d.problem(err)
	}
	return nil
}

// kind determines an object's kind by its ends.
func (o storedObject) kind(ctx context.Context) (stream.ObjectKind, error) {
	if o.size < stream.KindProbeSize {
		return stream.UnknownKind, nil
	}
	head, err := o.read(ctx, 0, stream.KindProbeSize)
	if err != nil {
		return "", err
	}
	tail, err := o.read(ctx, o.size-stream.KindProbeSize, stream.KindProbeSize)
	if err != nil {
		return "", err
	}
	return stream.KindOf(o.size, head, tail), nil
}

func (d *objectDump) reservation(ctx context.Context, o storedObject) error {
	b, err := o.read(ctx, 0, o.size)
	if err != nil {
		return err
	}
	r, err := stream.DecodeReservation(o.key, b)
	if err != nil {
		return err
	}
	if err := d.print(objectLine{Type: "object", Key: o.key, Kind: stream.ReservationKind, Size: o.size}); err != nil {
		return err
	}
	return d.print(reservationLine{Type: "reservation", Node: r.Node, Epoch: r.Epoch, Failover: r.Failover})
}

type reservationLine struct {
	Type     string `json:"type"`
	Node     int64  `json:"node"`
	Epoch    int64  `json:"epoch"`
	Failover bool   `json:"failover"`
}

func (l reservationLine) text() string {
	return fmt.Sprintf("  held by node %d in epoch %d, failover %t", l.Node, l.Epoch, l.Failover)
}

func (d *objectDump) rangeIndex(ctx context.Context, o storedObject) error {
	b, err := o.read(ctx, 0, o.size)
	if err != nil {
		return err
	}
	streams, err := stream.DecodeRangeIndex(o.key, b)
	if err != nil {
		// The kind was a guess: this does not show that an object of ours is damaged, hence not %w.
		return fmt.Errorf("%s is not an object of a known kind; read as a range index: %v", o.key, err)
	}
	if err := d.print(objectLine{Type: "object", Key: o.key, Kind: stream.RangeIndexKind, Size: o.size}); err != nil {
		return err
	}
	for _, s := range streams {
		for _, r := range s.Ranges {
			l := rangeLine{Type: "range", Stream: int64(s.Stream), Start: r.Start, End: r.End, Object: int64(r.Object)}
			if err := d.print(l); err != nil {
				return err
			}
		}
	}
	return nil
}

type rangeLine struct {
	Type   string `json:"type"`
	Stream int64  `json:"stream"`
	Start  int64  `json:"start"`
	End    int64  `json:"end"`
	Object int64  `json:"object"`
}

func (l rangeLine) text() string {
	return fmt.Sprintf("  stream %d  offsets %d to %d  in object %d", l.Stream, l.Start, l.End, l.Object)
}
