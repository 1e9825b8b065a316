package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/vfs"
)

func newLogDump() *cobra.Command {
	var records bool
	c := &cobra.Command{
		Use:   "dump PATH",
		Short: "Print the batches of a partition, or the contents of one of its files",
		Long: `Print the batches of a partition's directory, or the contents of one file: .log, .index, .timeindex, .txnindex,
.snapshot or leader-epoch-checkpoint, written by Tidemark or by Apache Kafka. Nothing is opened for writing, so the command
is safe on the files of a running server.`,
		Example: `  tidemark log dump tidemark-data/orders-0
  tidemark log dump tidemark-data/orders-0/00000000000000000000.log --records
  tidemark log dump tidemark-data/orders-0/00000000000000000000.timeindex --output json`,
		Args: exactly("PATH"),
	}
	c.Flags().BoolVarP(&records, "records", "r", false, "print the records of each batch too")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
		d := &dumper{fs: vfs.OS(), out: out, json: json.NewEncoder(out), asJSON: asJSON, records: records}
		d.json.SetEscapeHTML(false)
		err = d.dump(args[0])
		if flushErr := out.Flush(); err == nil {
			err = flushErr
		}
		return err
	}
	return c
}

// dumper prints files, as lines for people or as one JSON document a line.
type dumper struct {
	fs      vfs.FS
	out     io.Writer
	json    *json.Encoder
	asJSON  bool
	records bool
}

func (d *dumper) dump(path string) error {
	info, err := d.fs.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; name a file of a log, or the directory of a partition", path)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return d.file(path)
	}
	entries, err := d.fs.List(path)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		found = found || isOfPartition(e)
		if strings.HasSuffix(e.Name(), ".log") {
			if err := d.file(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("%s holds no .log file; name a partition's directory, such as %s", path,
			filepath.Join(path, "TOPIC-0"))
	}
	return nil
}

// file prints one file in the format that its name implies.
func (d *dumper) file(path string) error {
	if !d.asJSON {
		fmt.Fprintln(d.out, path)
	}
	switch base := filepath.Base(path); {
	case strings.HasSuffix(base, ".log"):
		return kafkalog.ReadSegmentFile(d.fs, path, d.batch)
	case strings.HasSuffix(base, ".index"):
		entries, err := kafkalog.ReadOffsetIndexFile(d.fs, path)
		return dumpEntries(d, entries, err, func(e kafkalog.OffsetIndexEntry) string {
			return fmt.Sprintf("offset %d  position %d", e.Offset, e.Position)
		})
	case strings.HasSuffix(base, ".timeindex"):
		entries, err := kafkalog.ReadTimeIndexFile(d.fs, path)
		return dumpEntries(d, entries, err, func(e kafkalog.TimeIndexEntry) string {
			return fmt.Sprintf("timestamp %d  offset %d", e.Timestamp, e.Offset)
		})
	case strings.HasSuffix(base, ".txnindex"):
		entries, err := kafkalog.ReadTxnIndexFile(d.fs, path)
		return dumpEntries(d, entries, err, func(e kafkalog.AbortedTxn) string {
			return fmt.Sprintf("producer %d  aborted %d to %d  last stable %d", e.ProducerID, e.FirstOffset, e.LastOffset,
				e.LastStableOffset)
		})
	case strings.HasSuffix(base, ".snapshot"):
		entries, err := kafkalog.ReadSnapshotFile(d.fs, path)
		return dumpEntries(d, entries, err, func(e kafkalog.ProducerSnapshotEntry) string {
			return fmt.Sprintf("producer %d  epoch %d  last sequence %d  last offset %d  timestamp %d  open transaction from %d",
				e.ProducerID, e.ProducerEpoch, e.LastSequence, e.LastOffset, e.Timestamp, e.TxnFirstOffset)
		})
	case base == "leader-epoch-checkpoint":
		entries, err := kafkalog.ReadEpochFile(d.fs, path)
		return dumpEntries(d, entries, err, func(e kafkalog.EpochEntry) string {
			return fmt.Sprintf("epoch %d  from offset %d", e.Epoch, e.Start)
		})
	}
	return fmt.Errorf("%s cannot be dumped: only .log, .index, .timeindex, .txnindex and .snapshot files and "+
		"leader-epoch-checkpoint can", path)
}

// dumpEntries prints entries one a line, including those before an error.
func dumpEntries[E any](d *dumper, entries []E, err error, line func(E) string) error {
	for _, e := range entries {
		if d.asJSON {
			if err := d.json.Encode(e); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(d.out, "  "+line(e))
	}
	return err
}

// dumpedBatch is a batch in JSON.
type dumpedBatch struct {
	Position      int64          `json:"position"`
	Size          int            `json:"size"`
	BaseOffset    int64          `json:"base_offset"`
	LastOffset    int64          `json:"last_offset"`
	Records       int32          `json:"records"`
	LeaderEpoch   int32          `json:"leader_epoch"`
	Codec         string         `json:"codec"`
	TimestampType string         `json:"timestamp_type"`
	BaseTimestamp int64          `json:"base_timestamp"`
	MaxTimestamp  int64          `json:"max_timestamp"`
	ProducerID    int64          `json:"producer_id"`
	ProducerEpoch int16          `json:"producer_epoch"`
	BaseSequence  int32          `json:"base_sequence"`
	Transactional bool           `json:"transactional"`
	Control       bool           `json:"control"`
	CRC           string         `json:"crc"`
	Problem       string         `json:"problem,omitempty"`
	Contents      []dumpedRecord `json:"contents,omitempty"`
}

// dumpedRecord is a record in JSON, with text and bytes as in `tidemark consume`.
type dumpedRecord struct {
	Offset    int64   `json:"offset"`
	Timestamp int64   `json:"timestamp"`
	Key       *string `json:"key"`
	KeyBytes  []byte  `json:"key_base64,omitempty"`
	Value     *string `json:"value"`
	Bytes     []byte  `json:"value_base64,omitempty"`
	Headers   int     `json:"headers"`
}

func describeBatch(position int64, b batch.Batch) dumpedBatch {
	h := b.Header()
	d := dumpedBatch{
		Position: position, Size: h.Size(), BaseOffset: h.BaseOffset, LastOffset: h.LastOffset(), Records: h.Count,
		LeaderEpoch: h.LeaderEpoch, Codec: h.Attributes.Codec().String(), TimestampType: "CreateTime",
		BaseTimestamp: h.BaseTimestamp, MaxTimestamp: h.MaxTimestamp, ProducerID: h.ProducerID,
		ProducerEpoch: h.ProducerEpoch, BaseSequence: h.BaseSequence, Transactional: h.Attributes.Transactional(),
		Control: h.Attributes.Control(), CRC: fmt.Sprintf("%08x", h.CRC),
	}
	if h.Attributes.LogAppendTime() {
		d.TimestampType = "LogAppendTime"
	}
	return d
}

// batch prints one batch of a segment. A damaged batch is shown with the problem, and the walk continues.
func (d *dumper) batch(position int64, b batch.Batch) error {
	described := describeBatch(position, b)
	if b.Magic() != batch.Magic {
		described.Problem = fmt.Sprintf("format version %d, which Kafka wrote before 0.11", b.Magic())
	} else if err := b.VerifyCRC(); err != nil {
		described.Problem = err.Error()
	} else if d.records {
		described.Contents, described.Problem = describeRecords(b)
	}
	if d.asJSON {
		return d.json.Encode(described)
	}
	described.print(d.out)
	return nil
}

func describeRecords(b batch.Batch) (records []dumpedRecord, problem string) {
	r := b.Records(batch.Limits{})
	defer r.Close()
	for r.Next() {
		record := r.Record()
		d := dumpedRecord{Offset: record.Offset, Timestamp: record.Timestamp, Headers: len(record.Headers)}
		d.Key, d.KeyBytes = copyTextOrBytes(record.Key)
		d.Value, d.Bytes = copyTextOrBytes(record.Value)
		records = append(records, d)
	}
	if err := r.Err(); err != nil {
		problem = err.Error()
	}
	return records, problem
}

// copyTextOrBytes is textOrBytes for a buffer that is reused.
func copyTextOrBytes(b []byte) (*string, []byte) {
	text, raw := textOrBytes(b)
	return text, append([]byte(nil), raw...)
}

func (d dumpedBatch) print(w io.Writer) {
	fmt.Fprintf(w, "  %d..%d  position %d  %d B  %s  epoch %d  %s  %s %d", d.BaseOffset, d.LastOffset, d.Position, d.Size,
		plural(d.Records, "record"), d.LeaderEpoch, d.Codec, d.TimestampType, d.MaxTimestamp)
	if d.ProducerID >= 0 {
		fmt.Fprintf(w, "  producer %d/%d sequence %d", d.ProducerID, d.ProducerEpoch, d.BaseSequence)
	}
	if d.Transactional {
		fmt.Fprint(w, "  transactional")
	}
	if d.Control {
		fmt.Fprint(w, "  control")
	}
	if d.Problem != "" {
		fmt.Fprintf(w, "  PROBLEM: %s", d.Problem)
	}
	fmt.Fprintln(w)
	for _, r := range d.Contents {
		fmt.Fprintf(w, "    %d  time %d  key %s  value %s  %s\n", r.Offset, r.Timestamp, shown(r.Key, r.KeyBytes),
			shown(r.Value, r.Bytes), plural(r.Headers, "header"))
	}
}

// shown formats a key or value on a line: quoted text, hexadecimal bytes or null.
func shown(text *string, raw []byte) string {
	switch {
	case text != nil:
		return fmt.Sprintf("%q", *text)
	case raw != nil:
		return fmt.Sprintf("0x%x", raw)
	}
	return "null"
}
