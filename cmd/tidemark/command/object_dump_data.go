package command

import (
	"context"
	"fmt"

	"github.com/tidemark-io/tidemark/stream"
)

// dataObject prints the blocks of a data object, by the entries of its index, and its footer. A damaged block is shown as
// such and the next entry follows.
func (d *objectDump) dataObject(ctx context.Context, o storedObject) error {
	if err := d.print(objectLine{Type: "object", Key: o.key, Kind: stream.DataKind, Size: o.size}); err != nil {
		return err
	}
	footer, err := o.footer(ctx)
	if err != nil {
		return err
	}
	index, err := o.index(ctx, footer)
	if err != nil {
		return err
	}
	for _, e := range index {
		if err := d.print(describeEntry(e)); err != nil {
			return err
		}
		if err := d.blocks(ctx, o, e); err != nil {
			if err := d.problem(err); err != nil {
				return err
			}
		}
	}
	return d.print(describeFooter(o, footer, len(index)))
}

func (o storedObject) footer(ctx context.Context) (stream.Footer, error) {
	n := min(o.size, stream.FooterSize)
	tail, err := o.read(ctx, o.size-n, n)
	if err != nil {
		return stream.Footer{}, err
	}
	return stream.DecodeFooter(o.key, o.size, tail)
}

func (o storedObject) index(ctx context.Context, f stream.Footer) (stream.Index, error) {
	b, err := o.read(ctx, f.IndexPosition, int64(f.IndexLen))
	if err != nil {
		return nil, err
	}
	return stream.DecodeIndex(o.key, f, b)
}

// blocks prints the blocks and records of an index entry, one block in memory at a time.
func (d *objectDump) blocks(ctx context.Context, o storedObject, e stream.IndexEntry) error {
	position, end, records := e.Position, e.Position+int64(e.Size), 0
	for position < end {
		block, err := o.block(ctx, position, end)
		if err != nil {
			return err
		}
		decoded, _, err := stream.DecodeBlock(o.key, position, block)
		if err != nil {
			return err
		}
		if err := d.printBlock(position, len(block), decoded); err != nil {
			return err
		}
		position, records = position+int64(len(block)), records+len(decoded)
	}
	if records != int(e.Records) {
		return &stream.CorruptError{
			Object: o.key, Position: e.Position, What: "records of an index entry", Want: fmt.Sprint(e.Records), Got: fmt.Sprint(records),
		}
	}
	return nil
}

// block reads the block at a position; its header gives its length, and it ends at end or before.
func (o storedObject) block(ctx context.Context, position, end int64) ([]byte, error) {
	header, err := o.read(ctx, position, min(stream.BlockHeaderSize, end-position))
	if err != nil {
		return nil, err
	}
	length, ok := stream.DecodeBlockLen(header)
	if !ok || length > end-position {
		return header, nil // decoding reports what is wrong
	}
	return o.read(ctx, position, length)
}

func (d *objectDump) printBlock(position int64, length int, records []stream.Record) error {
	if err := d.print(blockLine{Type: "block", Position: position, Size: length, Records: len(records)}); err != nil {
		return err
	}
	for _, r := range records {
		if err := d.print(describeRecord("record", r)); err != nil {
			return err
		}
	}
	return nil
}

type blockLine struct {
	Type     string `json:"type"` // "block"
	Position int64  `json:"position"`
	Size     int    `json:"size"`
	Records  int    `json:"records"`
}

func (l blockLine) text() string {
	return fmt.Sprintf("    block at %d  %d B  %s", l.Position, l.Size, plural(l.Records, "record"))
}

// entryLine is an index entry.
type entryLine struct {
	Type     string `json:"type"` // "entry"
	Stream   int64  `json:"stream"`
	Start    int64  `json:"start"`
	End      int64  `json:"end"`
	Records  int32  `json:"records"`
	Position int64  `json:"position"`
	Size     int32  `json:"size"`
}

func describeEntry(e stream.IndexEntry) entryLine {
	return entryLine{
		Type: "entry", Stream: int64(e.Stream), Start: e.Start, End: e.End(), Records: e.Records, Position: e.Position,
		Size: e.Size,
	}
}

func (l entryLine) text() string {
	return fmt.Sprintf("  index entry  stream %d  offsets %d to %d  %s  at %d  %d B", l.Stream, l.Start, l.End,
		plural(l.Records, "record"), l.Position, l.Size)
}

// recordLine is a record without its payload, which streams do not interpret.
type recordLine struct {
	Type    string `json:"type"` // "record"
	Stream  int64  `json:"stream"`
	Epoch   int64  `json:"epoch"`
	Start   int64  `json:"start"`
	End     int64  `json:"end"`
	Payload int    `json:"payload"`
}

func describeRecord(kind string, r stream.Record) recordLine {
	return recordLine{
		Type: kind, Stream: int64(r.Stream), Epoch: r.Epoch, Start: r.Base, End: r.End(), Payload: len(r.Payload),
	}
}

func (l recordLine) text() string {
	return fmt.Sprintf("      stream %d  epoch %d  offsets %d to %d  payload %d B", l.Stream, l.Epoch, l.Start, l.End, l.Payload)
}

type footerLine struct {
	Type          string `json:"type"` // "footer"
	Position      int64  `json:"position"`
	IndexPosition int64  `json:"index_position"`
	IndexLen      int32  `json:"index_len"`
	Entries       int    `json:"entries"`
}

func describeFooter(o storedObject, f stream.Footer, entries int) footerLine {
	return footerLine{
		Type: "footer", Position: o.size - stream.FooterSize, IndexPosition: f.IndexPosition, IndexLen: f.IndexLen,
		Entries: entries,
	}
}

func (l footerLine) text() string {
	return fmt.Sprintf("  footer at %d  index at %d  %d B  %d entries", l.Position, l.IndexPosition, l.IndexLen, l.Entries)
}

// maxComposite is the largest composite that is read: it holds no data, only some dozen bytes for each linked block.
const maxComposite = 1 << 30

func (d *objectDump) composite(ctx context.Context, o storedObject) error {
	if o.size > maxComposite {
		return fmt.Errorf("%s is a composite of %s, which is too large to be one", o.key, size(o.size))
	}
	if err := d.print(objectLine{Type: "object", Key: o.key, Kind: stream.CompositeKind, Size: o.size}); err != nil {
		return err
	}
	b, err := o.read(ctx, 0, o.size)
	if err != nil {
		return err
	}
	c, err := stream.DecodeComposite(o.key, b)
	if err != nil {
		return err
	}
	for i, component := range c.Components {
		l := componentLine{
			Type: "component", Object: int64(component.Object), FirstBlock: component.FirstBlock, Bucket: component.Bucket,
		}
		if err := d.print(l); err != nil {
			return err
		}
		for _, e := range c.EntriesOf(i) {
			if err := d.print(describeEntry(e)); err != nil {
				return err
			}
		}
	}
	footer, err := stream.DecodeFooter(o.key, o.size, b)
	if err != nil {
		return err
	}
	return d.print(describeFooter(o, footer, len(c.Entries)))
}

// componentLine is an object whose blocks a composite links; the entries after it are positions in that object.
type componentLine struct {
	Type       string `json:"type"` // "component"
	Object     int64  `json:"object"`
	FirstBlock int32  `json:"first_block"`
	Bucket     int16  `json:"bucket"`
}

func (l componentLine) text() string {
	return fmt.Sprintf("  component  object %d  from entry %d on  bucket %d", l.Object, l.FirstBlock, l.Bucket)
}
