package command

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// metaDump holds the requested tables of a metadata log.
type metaDump struct {
	found  *meta.Inspection
	state  *meta.State
	tables []metaTable
}

// metaTable is one table of a state.
type metaTable struct {
	name   string
	header []string
	rows   func(s *meta.State) []metaRow
}

// metaRow is one row: a struct with JSON for programs and cells for people.
type metaRow interface{ cells() []any }

func newMetaDumpOf(found *meta.Inspection, names []string) metaDump {
	d := metaDump{found: found, state: found.State}
	for _, t := range metaTables() {
		if len(names) == 0 || slices.Contains(names, t.name) {
			d.tables = append(d.tables, t)
		}
	}
	return d
}

func metaTables() []metaTable {
	return []metaTable{
		{"nodes", []string{"NODE", "EPOCH", "INCARNATION", "ADDRESS", "SLOTS", "WAL-EPOCH", "WAL-START", "LEVEL", "BUILD"}, nodeRows},
		{"topics", []string{"TOPIC", "ID", "PARTITIONS", "LEADER-EPOCHS", "CREATED", "VERSION", "SETTINGS"}, topicRows},
		{"keys", []string{"KEY", "VERSION", "BYTES", "VALUE"}, keyRows},
		{"streams", []string{"STREAM", "STATE", "EPOCH", "NODE", "START", "END", "EPOCHS"}, streamRows},
		{"transfers", []string{"STREAM", "FROM", "TO"}, transferRows},
		{"stream-sets", []string{"OBJECT", "NODE", "SIZE", "COMPOSITE", "COMMITTED", "DATA", "RANGES"}, setRows},
		{"stream-objects", []string{"OBJECT", "STREAM", "START", "END", "SIZE", "COMPOSITE", "DATA"}, objectRows},
		{"prepared", []string{"OBJECT", "UNTIL"}, preparedRows},
		{"destroyed", []string{"OBJECT", "OPERATION", "MARKED"}, destroyedRows},
		{"tables", []string{"TABLE", "NAME", "KIND", "PARTITIONS", "BUCKETS", "SCHEMA", "CREATED", "OPTIONS"}, tableRows},
		{"schemas", []string{"TABLE", "VERSION", "COLUMNS"}, schemaRows},
		{"partitions", []string{"TABLE", "PARTITION", "KEY"}, partitionRows},
		{"buckets", []string{"TABLE", "PARTITION", "BUCKET", "STREAM", "LEADER-EPOCH", "NODE"}, bucketRows},
		{"dropped", []string{"TABLE", "PARTITION", "BUCKET", "NAME", "STREAM", "DROPPED"}, droppedRows},
	}
}

type nodeRow struct {
	Node        int32  `json:"node"`
	Epoch       int64  `json:"epoch"`
	Incarnation string `json:"incarnation"`
	Address     string `json:"address"`
	Slots       uint32 `json:"slots"`
	WALEpoch    int64  `json:"wal_epoch"`
	WALStart    uint64 `json:"wal_start"`
	Level       uint32 `json:"level"`
	Build       string `json:"build"`
}

func (r nodeRow) cells() []any {
	return []any{r.Node, r.Epoch, r.Incarnation, dash(r.Address), r.Slots, r.WALEpoch, r.WALStart, r.Level, dash(r.Build)}
}

func nodeRows(s *meta.State) []metaRow {
	announced := map[int32]meta.NodeLevel{}
	for l := range s.NodeLevels() {
		announced[l.Node] = l
	}
	rows := []metaRow{}
	for n := range s.Nodes() {
		l := announced[n.ID]
		rows = append(rows, nodeRow{
			n.ID, n.Epoch, hex.EncodeToString(n.Incarnation[:]), n.Address, n.Slots, n.WALEpoch, n.WALStart, uint32(l.Level), l.Build,
		})
	}
	return rows
}

type topicRow struct {
	Topic        string            `json:"topic"`
	ID           string            `json:"id"`
	LeaderEpochs []int32           `json:"leader_epochs"`
	CreatedMs    int64             `json:"created_ms"`
	Version      uint64            `json:"config_version"`
	Settings     map[string]string `json:"settings"`
}

func (r topicRow) cells() []any {
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		settings = append(settings, name+"="+r.Settings[name])
	}
	return []any{
		r.Topic, r.ID, len(r.LeaderEpochs), epochRange(r.LeaderEpochs), moment(r.CreatedMs), r.Version,
		dash(strings.Join(settings, " ")),
	}
}

// epochRange summarizes the epochs of many partitions.
func epochRange(epochs []int32) string {
	low, high := slices.Min(epochs), slices.Max(epochs)
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

func topicRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for t := range s.Topics() {
		row := topicRow{Topic: t.Name, ID: t.ID.String(), CreatedMs: t.CreatedMs, Version: t.ConfigVersion, Settings: t.Configs()}
		for p := range t.Partitions() {
			row.LeaderEpochs = append(row.LeaderEpochs, t.LeaderEpoch(p))
		}
		rows = append(rows, row)
	}
	return rows
}

type keyRow struct {
	Key     string `json:"key"`
	Version uint64 `json:"version"`
	Value   []byte `json:"value"` // base64
}

func (r keyRow) cells() []any { return []any{r.Key, r.Version, len(r.Value), shortValue(r.Value)} }

// shortValue returns the beginning of a value, as text if possible.
func shortValue(value []byte) string {
	const most = 48
	text := string(value)
	if !utf8.Valid(value) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		text = hex.EncodeToString(value[:min(len(value), most)])
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return dash(text)
}

func keyRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for key, v := range s.List("") {
		rows = append(rows, keyRow{key, v.Version, v.Value})
	}
	return rows
}

type streamRow struct {
	Stream catalog.StreamID     `json:"stream"`
	Opened bool                 `json:"opened"`
	Epoch  int64                `json:"epoch"`
	Node   catalog.NodeID       `json:"node"`
	Start  int64                `json:"start_offset"`
	End    int64                `json:"end_offset"`
	Epochs []catalog.EpochStart `json:"epochs"`
}

func (r streamRow) cells() []any {
	state := "closed"
	if r.Opened {
		state = "open"
	}
	var epochs []string
	for _, e := range r.Epochs {
		epochs = append(epochs, fmt.Sprintf("%d from %d", e.Epoch, e.Start))
	}
	return []any{r.Stream, state, r.Epoch, r.Node, r.Start, r.End, dash(strings.Join(epochs, ", "))}
}

func streamRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for t := range s.Streams() {
		rows = append(rows, streamRow{t.ID, t.Opened, t.Epoch, t.Node, t.Start, t.End, append([]catalog.EpochStart{}, t.Epochs...)})
	}
	return rows
}

type transferRow struct {
	Stream catalog.StreamID `json:"stream"`
	From   catalog.NodeID   `json:"from"`
	To     catalog.NodeID   `json:"to"`
}

func (r transferRow) cells() []any { return []any{r.Stream, r.From, r.To} }

func transferRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for id, transfer := range s.Transfers() {
		rows = append(rows, transferRow{id, transfer.From, transfer.To})
	}
	return rows
}

type setRow struct {
	Object      catalog.ObjectID `json:"object"`
	Node        catalog.NodeID   `json:"node"`
	Size        int64            `json:"size"`
	Composite   bool             `json:"composite"`
	CommittedMs int64            `json:"committed_ms"`
	DataMs      int64            `json:"data_ms"`
	Ranges      []catalog.Range  `json:"ranges"`
}

func (r setRow) cells() []any {
	var ranges []string
	for _, part := range r.Ranges[:min(len(r.Ranges), 4)] {
		ranges = append(ranges, fmt.Sprintf("%d:%d-%d", part.Stream, part.Start, part.End))
	}
	if n := len(r.Ranges) - len(ranges); n > 0 {
		ranges = append(ranges, fmt.Sprintf("and %d more", n))
	}
	return []any{
		r.Object, r.Node, size(r.Size), yesNo(r.Composite), moment(r.CommittedMs), moment(r.DataMs), strings.Join(ranges, " "),
	}
}

func setRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for o := range s.StreamSets() {
		rows = append(rows, setRow{o.Object, o.Node, o.Size, o.Attributes.IsComposite(), o.CommittedMs, o.DataMs, o.Ranges})
	}
	return rows
}

type objectRow struct {
	Object    catalog.ObjectID `json:"object"`
	Stream    catalog.StreamID `json:"stream"`
	Start     int64            `json:"start_offset"`
	End       int64            `json:"end_offset"`
	Size      int64            `json:"size"`
	Composite bool             `json:"composite"`
	DataMs    int64            `json:"data_ms"`
}

func (r objectRow) cells() []any {
	return []any{r.Object, r.Stream, r.Start, r.End, size(r.Size), yesNo(r.Composite), moment(r.DataMs)}
}

func objectRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for t := range s.Streams() {
		for _, o := range s.StreamObjects(t.ID) {
			rows = append(rows, objectRow{o.Object, o.Stream, o.Start, o.End, o.Size, o.Attributes.IsComposite(), o.DataMs})
		}
	}
	return rows
}

type preparedRow struct {
	Object  catalog.ObjectID `json:"object"`
	UntilMs int64            `json:"until_ms"`
}

func (r preparedRow) cells() []any { return []any{r.Object, moment(r.UntilMs)} }

func preparedRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for id, until := range s.Prepared() {
		rows = append(rows, preparedRow{id, until})
	}
	return rows
}

type destroyedRow struct {
	Object    catalog.ObjectID `json:"object"`
	Operation string           `json:"operation"`
	MarkedMs  int64            `json:"marked_ms"`
}

func (r destroyedRow) cells() []any { return []any{r.Object, r.Operation, moment(r.MarkedMs)} }

func destroyedRows(s *meta.State) []metaRow {
	rows := []metaRow{}
	for _, d := range s.Destroyed(s.DestroyedCount()) {
		operation := "delete"
		if d.Operation == catalog.DeepDelete {
			operation = "delete with components"
		}
		rows = append(rows, destroyedRow{d.Object, operation, d.MarkedMs})
	}
	return rows
}

// moment formats a time of the log's clock.
func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
