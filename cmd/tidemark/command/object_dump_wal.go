package command

import (
	"context"
	"fmt"

	"github.com/tidemark-io/tidemark/stream"
)

// walObject prints the header and the frames of an object of the write-ahead log, one frame in memory at a time.
func (d *objectDump) walObject(ctx context.Context, o storedObject) error {
	b, err := o.read(ctx, 0, min(o.size, stream.WALHeaderSize))
	if err != nil {
		return err
	}
	h, err := stream.DecodeWALHeader(o.key, o.size, b)
	if err != nil {
		if err := d.print(objectLine{Type: "object", Key: o.key, Kind: stream.WALKind, Size: o.size}); err != nil {
			return err
		}
		return err
	}
	if err := d.print(objectLine{Type: "object", Key: o.key, Kind: stream.WALKind, Version: h.Version, Size: o.size}); err != nil {
		return err
	}
	if err := d.print(describeWALHeader(h)); err != nil {
		return err
	}
	if h.BodyLen != o.size-int64(h.Size()) {
		err := &stream.CorruptError{
			Object: o.key, Position: 12, What: "length of the frames", Want: fmt.Sprint(o.size - int64(h.Size())),
			Got: fmt.Sprint(h.BodyLen),
		}
		if err := d.problem(err); err != nil {
			return err
		}
	}
	return d.frames(ctx, o, h)
}

type walHeaderLine struct {
	Type  string `json:"type"` // "header"
	Start int64  `json:"start"`
	Body  int64  `json:"body"`
	Node  int32  `json:"node"`
	Epoch int64  `json:"epoch"`
	Trim  int64  `json:"trim"`
}

func describeWALHeader(h stream.WALHeader) walHeaderLine {
	return walHeaderLine{
		Type: "header", Start: h.Start, Body: h.BodyLen, Node: int32(h.Node), Epoch: h.Epoch, Trim: h.Trim,
	}
}

func (l walHeaderLine) text() string {
	trim := fmt.Sprint(l.Trim)
	if l.Trim < 0 {
		trim = "none"
	}
	return fmt.Sprintf("  header  start %d  frames %d B  node %d  epoch %d  trim %s", l.Start, l.Body, l.Node, l.Epoch, trim)
}

// frames prints frames up to the object's end or the first damaged one: after it the next position is not known. In
// version 0 a frame may begin in one object and end in the next.
func (d *objectDump) frames(ctx context.Context, o storedObject, h stream.WALHeader) error {
	position, offset := int64(h.Size()), h.Start
	for position < o.size {
		b, whole, err := o.frame(ctx, position)
		if err != nil {
			return err
		}
		if !whole && h.Version == 0 {
			return d.print(cutFrameLine{Type: "cut frame", Offset: offset, Size: o.size - position})
		}
		f, _, err := stream.DecodeFrame(o.key, offset, b)
		if err != nil {
			return err
		}
		if err := d.print(describeFrame(f)); err != nil {
			return err
		}
		position, offset = position+int64(f.Size), offset+int64(f.Size)
	}
	return nil
}

// frame reads the frame at a position, or the part of it that the object has.
func (o storedObject) frame(ctx context.Context, position int64) (b []byte, whole bool, err error) {
	rest := o.size - position
	header, err := o.read(ctx, position, min(stream.FrameHeaderSize, rest))
	if err != nil {
		return nil, false, err
	}
	length, ok := stream.DecodeFrameLen(header)
	if !ok || length > rest {
		return header, false, nil
	}
	b, err = o.read(ctx, position, length)
	return b, true, err
}

// frameLine is a frame with its record.
type frameLine struct {
	Type           string      `json:"type"` // "frame"
	Offset         int64       `json:"offset"`
	Size           int         `json:"size"`
	HeaderChecksum string      `json:"header_checksum"`
	BodyChecksum   string      `json:"body_checksum"`
	Padding        bool        `json:"padding,omitempty"`
	Sentinel       bool        `json:"sentinel,omitempty"`
	Mark           bool        `json:"mark,omitempty"` // the record's start says how far the log was acknowledged
	Record         *recordLine `json:"record,omitempty"`
}

func describeFrame(f stream.Frame) frameLine {
	l := frameLine{
		Type: "frame", Offset: f.Offset, Size: f.Size, HeaderChecksum: fmt.Sprintf("%08x", f.HeaderChecksum),
		BodyChecksum: fmt.Sprintf("%08x", f.BodyChecksum), Padding: f.Padding,
	}
	if !f.Padding {
		l.Sentinel, l.Mark = f.Record.IsSentinel(), f.Record.IsMark()
		r := describeRecord("record", f.Record)
		l.Record = &r
	}
	return l
}

func (l frameLine) text() string {
	at := fmt.Sprintf("  frame %d  %d B  checksums %s %s", l.Offset, l.Size, l.HeaderChecksum, l.BodyChecksum)
	switch r := l.Record; {
	case l.Padding:
		return at + "  padding"
	case l.Sentinel:
		return at + "  sentinel"
	case l.Mark:
		return at + fmt.Sprintf("  mark: acknowledged below %d", r.Start)
	default:
		return at + fmt.Sprintf("  stream %d  epoch %d  offsets %d to %d  payload %d B", r.Stream, r.Epoch, r.Start, r.End,
			r.Payload)
	}
}

// cutFrameLine is the beginning of a frame that continues in the next object.
type cutFrameLine struct {
	Type   string `json:"type"` // "cut frame"
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

func (l cutFrameLine) text() string {
	return fmt.Sprintf("  frame %d  its first %d B, the rest is in the next object", l.Offset, l.Size)
}
