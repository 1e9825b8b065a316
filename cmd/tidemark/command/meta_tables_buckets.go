package command

import (
	"strings"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

type tableRow struct {
	Table       meta.TableID `json:"table"`
	Name        string       `json:"name"`
	Kind        string       `json:"kind"`
	Partitioned bool         `json:"partitioned"`
	Partitions  int          `json:"partitions"`
	Buckets     int32        `json:"buckets"`
	Schema      int16        `json:"schema"`
	CreatedMs   int64        `json:"created_ms"`
	Options     string       `json:"options"`
}

func (r tableRow) cells() []any {
	partitions := any("-")
	if r.Partitioned {
		partitions = r.Partitions
	}
	return []any{
		r.Table, r.Name, r.Kind, partitions, r.Buckets, r.Schema, moment(r.CreatedMs), dash(shortValue([]byte(r.Options))),
	}
}

func tableRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for t := range s.Tables() {
		row := tableRow{
			Table: t.ID, Name: t.Name, Kind: t.Kind.String(), Partitioned: t.Partitioned, Buckets: t.Buckets,
			Schema: t.NewestSchema(), CreatedMs: t.CreatedMs, Options: string(t.Options),
		}
		if t.Partitioned {
			row.Partitions = t.PartitionCount()
		}
		rows = append(rows, row)
	}
	return rows
}

type schemaRow struct {
	Table   meta.TableID `json:"table"`
	Version int16        `json:"version"`
	Columns []columnRow  `json:"columns"`
	Message []byte       `json:"message"` // base64 of the Arrow message
}

type columnRow struct {
	ID       int32  `json:"id"`
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`

	text string
}

func (r schemaRow) cells() []any {
	columns := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		columns[i] = c.text
	}
	return []any{r.Table, r.Version, strings.Join(columns, ", ")}
}

func schemaRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for t := range s.Tables() {
		for version := range int(t.NewestSchema()) + 1 {
			row := schemaRow{Table: t.ID, Version: int16(version)}
			row.Message, _ = t.Schema(row.Version)
			columns, _ := t.Columns(row.Version)
			for _, c := range columns {
				row.Columns = append(row.Columns, columnRow{c.ID, c.Name, c.Type.String(), c.Nullable, c.String()})
			}
			rows = append(rows, row)
		}
	}
	return rows
}

type partitionRow struct {
	Table     meta.TableID     `json:"table"`
	Partition meta.PartitionID `json:"partition"`
	Key       string           `json:"key"`
}

func (r partitionRow) cells() []any { return []any{r.Table, r.Partition, r.Key} }

func partitionRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for t := range s.Tables() {
		for p := range t.Partitions() {
			if t.Partitioned {
				rows = append(rows, partitionRow{t.ID, p.ID, p.Key})
			}
		}
	}
	return rows
}

type bucketRow struct {
	Table       meta.TableID     `json:"table"`
	Partition   meta.PartitionID `json:"partition"` // -1 for none
	Bucket      int32            `json:"bucket"`
	Stream      catalog.StreamID `json:"stream"`
	LeaderEpoch int64            `json:"leader_epoch"`
	Node        int32            `json:"node"`
}

func (r bucketRow) cells() []any {
	if r.LeaderEpoch < 0 {
		return []any{r.Table, orNone(r.Partition), r.Bucket, r.Stream, "-", "-"}
	}
	return []any{r.Table, orNone(r.Partition), r.Bucket, r.Stream, r.LeaderEpoch, r.Node}
}

// orNone formats a partition as a cell.
func orNone(p meta.PartitionID) any {
	if p == meta.NoPartition {
		return "-"
	}
	return p
}

func bucketRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for t := range s.Tables() {
		for p := range t.Partitions() {
			for n, b := range p.Buckets() {
				rows = append(rows, bucketRow{t.ID, p.ID, n, b.Stream, b.LeaderEpoch, b.Node})
			}
		}
	}
	return rows
}

type droppedRow struct {
	Table     meta.TableID     `json:"table"`
	Partition meta.PartitionID `json:"partition"` // -1 for none
	Bucket    int32            `json:"bucket"`
	Name      string           `json:"name"`
	Stream    catalog.StreamID `json:"stream"`
	DroppedMs int64            `json:"dropped_ms"`
}

func (r droppedRow) cells() []any {
	return []any{r.Table, orNone(r.Partition), r.Bucket, r.Name, r.Stream, moment(r.DroppedMs)}
}

func droppedRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for d := range s.Dropped() {
		rows = append(rows, droppedRow{d.Table, d.Partition, d.Bucket, d.Name, d.Stream, d.DroppedMs})
	}
	return rows
}
