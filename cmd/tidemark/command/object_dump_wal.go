package command

import (
	"context"
	"fmt"
	"path"

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

// frames prints frames up to the object's end or the first damaged one: after it the next position is not known. Of other
// writers, a frame may begin in one object and end in the next.
func (d *objectDump) frames(ctx context.Context, o storedObject, h stream.WALHeader) error {
	position, offset := int64(h.Size()), h.Start
	if h.Sticky > 0 {
		rest := min(h.Sticky, o.size-position)
		d.walEnd.missing = h.Sticky - rest
		if err := d.print(frameRestLine{Type: "frame rest", Offset: offset, Size: rest, Left: h.Sticky - rest}); err != nil {
			return err
		}
		position, offset = position+rest, offset+rest
	}
	for position < o.size {
		b, size, err := o.frame(ctx, position, offset)
		if err != nil {
			return err
		}
		if have := int64(len(b)); have < size && (h.Version == 0 || o.mayCutFrames()) {
			d.walEnd.missing = size - have
			return d.print(cutFrameLine{Type: "cut frame", Offset: offset, Size: have, Left: size - have})
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

// mayCutFrames reports whether the name of an object of version 1 is one by writers that cut frames: its end is not that
// of a window.
func (o storedObject) mayCutFrames() bool {
	s, ok := parseWALSpan(path.Base(o.key))
	return ok && !s.endsWindow()
}

// frame reads the frame at a position, or the part of it that the object has, and tells the size of the whole.
func (o storedObject) frame(ctx context.Context, position, offset int64) (b []byte, size int64, err error) {
	rest := o.size - position
	header, err := o.read(ctx, position, min(stream.FrameHeaderSize, rest))
	if err != nil {
		return nil, 0, err
	}
	if size, err = stream.DecodeFrameLen(o.key, offset, header); err != nil {
		return nil, 0, err
	}
	b, err = o.read(ctx, position, min(size, rest))
	return b, size, err
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
	Left   int64  `json:"left"`
}

func (l cutFrameLine) text() string {
	return fmt.Sprintf("  frame %d  its first %d B, %d B are in the next object", l.Offset, l.Size, l.Left)
}

// frameRestLine is the rest of a frame that began in an object before, or a part of it.
type frameRestLine struct {
	Type   string `json:"type"` // "frame rest"
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
	Left   int64  `json:"left"`
}

func (l frameRestLine) text() string {
	if l.Left > 0 {
		return fmt.Sprintf("  %d B of a frame that began before, %d B are in the next object", l.Size, l.Left)
	}
	return fmt.Sprintf("  %d B of a frame that began in the object before", l.Size)
}
