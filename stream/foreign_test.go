package stream

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// foreignBucket is a bucket that another implementation of the formats has written, and what the program that made it do
// so knows of it: testdata/foreign/README.md.
type foreignBucket struct {
	fs.FS
	sizes    map[string]int64 // of the objects, by key
	appended []Record
	logs     map[string]*foreignLog // by prefix
	holders  map[string]Reservation // by key
	sets     map[catalog.ObjectID]*foreignSet
	singles  map[catalog.ObjectID]foreignSingle
}

type foreignLog struct {
	prefix WALPrefix
	kind   string // of a log beside the node's own
	frames []foreignFrame
	trims  []int64
}

// foreignFrame is a record at its place in a log.
type foreignFrame struct {
	epoch, offset int64
	size          int
	record        Record
}

// foreignSet is an object of many streams.
type foreignSet struct {
	size   int64
	ranges []catalog.Range
}

// foreignSingle is an object of one stream. The size is that in metadata.
type foreignSingle struct {
	catalog.Range
	attributes catalog.Attributes
}

// foreignPayload is what the records hold: bytes that depend on stream, offset and position.
func foreignPayload(stream, base int64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		k := int64(i)
		b[i] = byte(stream*31 + base*7 + k*k + k)
	}
	return b
}

func foreignRecord(n []int64) Record {
	return Record{
		Stream: catalog.StreamID(n[0]), Epoch: n[1], Base: n[2], Count: int32(n[3]),
		Payload: foreignPayload(n[0], n[2], int(n[4])),
	}
}

func openForeign(t *testing.T, name string) foreignBucket {
	t.Helper()
	b := foreignBucket{
		FS: os.DirFS("testdata/foreign/" + name), sizes: map[string]int64{}, logs: map[string]*foreignLog{},
		holders: map[string]Reservation{}, sets: map[catalog.ObjectID]*foreignSet{}, singles: map[catalog.ObjectID]foreignSingle{},
	}
	text, err := fs.ReadFile(b, "written.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		numbers := make([]int64, len(fields))
		for i, f := range fields {
			numbers[i], _ = strconv.ParseInt(f, 10, 64) // words are not used as numbers
		}
		b.note(name, fields, numbers)
	}
	for _, l := range b.logs {
		slices.SortFunc(l.frames, func(x, y foreignFrame) int { return cmp.Compare(x.offset, y.offset) })
	}
	return b
}

// note takes a line of written.tsv.
func (b *foreignBucket) note(cluster string, fields []string, n []int64) {
	switch fields[0] {
	case "object":
		b.sizes[fields[1]] = n[2]
	case "reservation":
		key := fmt.Sprintf("reservation/_kafka_%s/%d", cluster, n[1])
		b.holders[key] = Reservation{Node: n[1], Epoch: n[2], Failover: fields[3] == "true"}
	case "append":
		b.appended = append(b.appended, foreignRecord(n[1:]))
	case "wal":
		l := b.log(cluster, catalog.NodeID(n[1]), fields[2])
		l.frames = append(l.frames, foreignFrame{epoch: n[3], offset: n[4], size: int(n[5]), record: foreignRecord(n[6:])})
	case "trim":
		l := b.log(cluster, catalog.NodeID(n[1]), fields[2])
		l.trims = append(l.trims, n[3])
	case "set":
		b.sets[catalog.ObjectID(n[1])] = &foreignSet{size: n[2]}
	case "range":
		s := b.sets[catalog.ObjectID(n[1])]
		s.ranges = append(s.ranges, catalog.Range{Stream: catalog.StreamID(n[2]), Start: n[3], End: n[4]})
	case "stream":
		b.singles[catalog.ObjectID(n[1])] = foreignSingle{
			Range: catalog.Range{Size: n[2], Stream: catalog.StreamID(n[3]), Start: n[4], End: n[5]},
		}
	case "merged":
		b.singles[catalog.ObjectID(n[1])] = foreignSingle{
			Range:      catalog.Range{Size: n[2], Stream: catalog.StreamID(n[3]), Start: n[4], End: n[5]},
			attributes: catalog.Attributes(n[6]),
		}
	}
}

// log returns the log of a node; kind "-" is its own.
func (b *foreignBucket) log(cluster string, node catalog.NodeID, kind string) *foreignLog {
	l := &foreignLog{prefix: WALPrefix{Cluster: cluster, Node: node}, kind: strings.Trim(kind, "-")}
	if b.logs[l.below()] == nil {
		b.logs[l.below()] = l
	}
	return b.logs[l.below()]
}

// below returns what the keys of a log begin with.
func (l *foreignLog) below() string {
	if l.kind == "" {
		return l.prefix.String()
	}
	return strings.TrimSuffix(l.prefix.String(), "/") + "_" + l.kind + "/"
}

func (b *foreignBucket) read(t *testing.T, key string) []byte {
	t.Helper()
	data, err := fs.ReadFile(b, key)
	require.NoError(t, err)
	require.Len(t, data, int(b.sizes[key]), key)
	return data
}

// within returns the records that were appended to a range.
func (b *foreignBucket) within(r catalog.Range) []Record {
	var found []Record
	for _, one := range b.appended {
		if one.Stream == r.Stream && one.Base >= r.Start && one.End() <= r.End {
			found = append(found, one)
		}
	}
	return found
}

// TestObjectsThatOthersWroteAreReadInFull compares every object of every bucket with what was written there. Each is also
// encoded again from what was decoded, which must be the same bytes.
func TestObjectsThatOthersWroteAreReadInFull(t *testing.T) {
	found, err := fs.Glob(os.DirFS("testdata/foreign"), "*/written.tsv")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, f := range found {
		name := path.Dir(f)
		t.Run(name, func(t *testing.T) {
			b := openForeign(t, name)
			seen := map[string]bool{}
			for _, l := range b.logs {
				b.compareLog(t, l, seen)
			}
			for id, s := range b.sets {
				b.compareSet(t, id, *s, seen)
			}
			for id, s := range b.singles {
				b.compareSingle(t, id, s, seen)
			}
			b.compareRangeIndex(t, seen)
			for key, want := range b.holders {
				got, err := DecodeReservation(key, b.read(t, key))
				require.NoError(t, err)
				require.Equal(t, want, got)
				seen[key] = true
			}
			for key := range b.sizes {
				require.True(t, seen[key], "%s was compared with nothing", key)
			}
		})
	}
}

// foreignKey is the key of an object of a log.
type foreignKey struct {
	key string
	WALKey
	windowed bool // it ends with a window
}

// keys returns the keys of a log's objects in order.
func (b *foreignBucket) keys(t *testing.T, l *foreignLog) []foreignKey {
	t.Helper()
	var keys []foreignKey
	for key := range b.sizes {
		rest, ok := strings.CutPrefix(key, l.below())
		if !ok {
			continue
		}
		k := foreignKey{key: key}
		_, err := fmt.Sscanf(rest, "%d/wal/%d", &k.Epoch, &k.Start)
		require.NoError(t, err)
		k.windowed = strings.HasSuffix(key, fmt.Sprintf("/%d-%d", k.Start, k.Start+Window))
		if l.kind == "" && k.windowed {
			require.Equal(t, key, l.prefix.Key(k.WALKey))
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y foreignKey) int { return x.Compare(y.WALKey) })
	return keys
}

// compareLog reads a log from object to object. A frame may begin in one and end in the next, which then says so.
func (b *foreignBucket) compareLog(t *testing.T, want *foreignLog, seen map[string]bool) {
	t.Helper()
	var got foreignLog
	var bytes []byte // from offset on: after each object, the beginning of a frame that is not whole
	var offset int64
	sentinels, trim := 0, int64(-1)
	for _, k := range b.keys(t, want) {
		data := b.read(t, k.key)
		seen[k.key] = true
		h, err := DecodeWALHeader(k.key, int64(len(data)), data)
		require.NoError(t, err)
		require.Equal(t, WALHeader{
			Version: h.Version, Start: k.Start, BodyLen: int64(len(data) - h.Size()), Sticky: missing(t, k.key, offset, bytes),
			Node: want.prefix.Node, Epoch: k.Epoch, Trim: h.Trim,
		}, h, k.key)
		require.Equal(t, data[:h.Size()], h.AppendTo(nil))
		if k.windowed {
			require.NoError(t, h.Check(k.key, want.prefix.Node, k.WALKey, int64(len(data))))
		}
		if h.Trim != trim {
			trim = h.Trim
			got.trims = append(got.trims, trim)
		}
		if len(bytes) == 0 {
			offset = h.Start
		}
		bytes = append(bytes, data[h.Size():]...)
		for missing(t, k.key, offset, bytes) == 0 && len(bytes) > 0 {
			f, rest, err := DecodeFrame(k.key, offset, bytes)
			require.NoError(t, err)
			require.Equal(t, bytes[:f.Size], AppendFrame(nil, offset, f.Record))
			if f.Record.IsSentinel() {
				sentinels++
			} else {
				got.frames = append(got.frames, foreignFrame{epoch: k.Epoch, offset: offset, size: f.Size, record: f.Record})
			}
			bytes, offset = rest, offset+int64(f.Size)
		}
		require.True(t, len(bytes) == 0 || !k.windowed, "%s: a window ends with a whole frame", k.key)
		if h.Version == 0 {
			trim, got.trims = -1, want.trims // it has no place for them
		} else if k.windowed {
			require.Len(t, got.trims, sentinels, "one is put for each trim")
		}
	}
	require.Empty(t, bytes)
	require.Equal(t, want.frames, got.frames)
	require.Equal(t, want.trims, got.trims)
}

// missing returns how many bytes follow of the first frame in b.
func missing(t *testing.T, key string, offset int64, b []byte) int64 {
	t.Helper()
	if len(b) == 0 {
		return 0
	}
	size, err := DecodeFrameLen(key, offset, b)
	require.NoError(t, err)
	return max(size-int64(len(b)), 0)
}

// decodeForeign decodes a whole plain object, and encodes it again.
func decodeForeign(t *testing.T, key string, data []byte) (Index, []Record) {
	t.Helper()
	footer, err := DecodeFooter(key, int64(len(data)), data)
	require.NoError(t, err)
	index, err := DecodeIndex(key, footer, data[footer.IndexPosition:][:footer.IndexLen])
	require.NoError(t, err)
	var records []Record
	var again []byte
	for _, e := range index {
		blocks := data[e.Position:][:e.Size]
		all, err := DecodeBlocks(key, e, blocks)
		require.NoError(t, err)
		records = append(records, all...)
		for len(blocks) > 0 {
			var one []Record
			one, blocks, err = DecodeBlock(key, 0, blocks)
			require.NoError(t, err)
			again = AppendBlock(again, one)
		}
	}
	for _, e := range index {
		again = e.appendTo(again)
	}
	require.Equal(t, data, footer.appendTo(again), key)
	return index, records
}

func (b *foreignBucket) compareSet(t *testing.T, id catalog.ObjectID, s foreignSet, seen map[string]bool) {
	t.Helper()
	key := DataKey(DefaultNamespace, id)
	data := b.read(t, key)
	seen[key] = true
	index, got := decodeForeign(t, key, data)
	require.Len(t, data, int(s.size))
	var want []Record
	for _, r := range s.ranges {
		want = append(want, b.within(r)...)
	}
	require.Equal(t, want, got, key)
	runs := index.runs()
	for i := range runs {
		runs[i].Epoch, runs[i].Size = 0, 0 // the index has no epoch, and the sizes were not told
	}
	require.Equal(t, s.ranges, runs, key)
}

func (b *foreignBucket) compareSingle(t *testing.T, id catalog.ObjectID, s foreignSingle, seen map[string]bool) {
	t.Helper()
	key := DataKey(DefaultNamespace, id)
	data := b.read(t, key)
	seen[key] = true
	if !s.attributes.IsComposite() {
		_, got := decodeForeign(t, key, data)
		require.Len(t, data, int(s.Size))
		require.Equal(t, b.within(s.Range), got, key)
		return
	}
	c, err := DecodeComposite(key, data)
	require.NoError(t, err)
	again, err := c.Encode()
	require.NoError(t, err)
	require.Equal(t, data, again)
	require.Equal(t, s.Size, c.LinkedBytes())
	var got []Record
	for i, component := range c.Components {
		in := DataKey(DefaultNamespace, component.Object)
		for _, e := range c.EntriesOf(i) {
			records, err := DecodeBlocks(in, e, b.read(t, in)[e.Position:][:e.Size])
			require.NoError(t, err)
			got = append(got, records...)
		}
	}
	require.Equal(t, b.within(s.Range), got, key)
}

// compareRangeIndex expects in the index of a node what the newest object of many streams has, into which all earlier ones
// were compacted.
func (b *foreignBucket) compareRangeIndex(t *testing.T, seen map[string]bool) {
	t.Helper()
	key := RangeIndexKey(DefaultNamespace, 5)
	if _, exists := b.sizes[key]; !exists {
		return
	}
	data := b.read(t, key)
	seen[key] = true
	got, err := DecodeRangeIndex(key, data)
	require.NoError(t, err)
	require.Equal(t, data, EncodeRangeIndex(got))
	newest := slices.Max(slices.Collect(maps.Keys(b.sets)))
	var want []StreamRanges
	for _, r := range b.sets[newest].ranges {
		want = append(want, StreamRanges{
			Stream: r.Stream, Ranges: []IndexedRange{{Start: r.Start, End: r.End, Object: newest}},
		})
	}
	require.Equal(t, want, got)
}
