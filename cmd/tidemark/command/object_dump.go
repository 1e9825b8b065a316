package command

import (
	"context"
	"encoding/binary"
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
	Type    string `json:"type"` // "object"
	Key     string `json:"key"`
	Kind    string `json:"kind"`
	Version int    `json:"version,omitempty"`
	Size    int64  `json:"size"`
}

func (l objectLine) text() string {
	if l.Kind == kindWAL {
		return fmt.Sprintf("%s  %s, version %d, %s", l.Key, l.Kind, l.Version, size(l.Size))
	}
	return fmt.Sprintf("%s  %s, %s", l.Key, l.Kind, size(l.Size))
}

// Kinds of objects.
const (
	kindWAL         = "write-ahead log object"
	kindData        = "data object"
	kindComposite   = "composite object"
	kindRangeIndex  = "range index"
	kindReservation = "reservation"
	kindUnknown     = "unknown object"
)

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
	case kindWAL:
		err = d.walObject(ctx, o)
	case kindData:
		err = d.dataObject(ctx, o)
	case kindComposite:
		err = d.composite(ctx, o)
	case kindReservation:
		err = d.reservation(ctx, o)
	case kindRangeIndex:
		err = d.rangeIndex(ctx, o)
	default:
		return fmt.Errorf("%s is not an object of a kind that is known here", o.key)
	}
	if err != nil {
		return d.problem(err)
	}
	return nil
}

// Marks by which an object is known: the first four bytes, or the last eight without the very last.
const (
	firstWALv0, firstWALv1 = 0x12345678, 0xEDCBA987
	lastDataFamily         = 0x88E241B785F4CF
	lastComposite          = 0x88E241B785F4CFF8
	reservationSize        = 21
	maxRangeIndex          = 64 << 20
)

// kind tells by an object's ends what it is.
func (o storedObject) kind(ctx context.Context) (string, error) {
	if o.size < 8 {
		return kindUnknown, nil
	}
	head, err := o.read(ctx, 0, 8)
	if err != nil {
		return "", err
	}
	tail, err := o.read(ctx, o.size-8, 8)
	if err != nil {
		return "", err
	}
	first, last := binary.BigEndian.Uint32(head), binary.BigEndian.Uint64(tail)
	switch {
	case last == lastComposite:
		return kindComposite, nil
	case last>>8 == lastDataFamily:
		return kindData, nil
	case first == firstWALv0 && o.size == reservationSize:
		return kindReservation, nil
	case first == firstWALv0, first == firstWALv1:
		return kindWAL, nil
	case binary.BigEndian.Uint16(head) == 0 && o.size <= maxRangeIndex:
		return kindRangeIndex, nil
	}
	return kindUnknown, nil
}

// reservation prints which writer holds a node's log, in stores without put-if-absent: magic u32, node i64, epoch i64,
// failover u8.
func (d *objectDump) reservation(ctx context.Context, o storedObject) error {
	b, err := o.read(ctx, 0, o.size)
	if err != nil {
		return err
	}
	if err := d.print(objectLine{Type: "object", Key: o.key, Kind: kindReservation, Size: o.size}); err != nil {
		return err
	}
	return d.print(reservationLine{
		Type: "reservation", Node: int64(binary.BigEndian.Uint64(b[4:])), Epoch: int64(binary.BigEndian.Uint64(b[12:])),
		Failover: b[20] != 0,
	})
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
		// That it is one was a guess: this is no damage to an object of ours, hence not %w.
		return fmt.Errorf("%s is not an object of a kind that is known here; read as a range index: %v", o.key, err)
	}
	if err := d.print(objectLine{Type: "object", Key: o.key, Kind: kindRangeIndex, Size: o.size}); err != nil {
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
