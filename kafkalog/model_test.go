package kafkalog

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// TestTheLogAgreesWithAPlainModel does random operations on a log and on a list of batches, with reopens, crashes and
// power cuts mixed in, and holds every answer against the list.
//
// A failing run prints a seed and a file. It is run again, shrunk already, with
//
//	go test ./kafkalog -run TheLogAgrees -rapid.failfile=testdata/rapid/.../....fail
//
// or from the start with -rapid.seed=SEED. More runs: -rapid.checks=10000.
func TestTheLogAgreesWithAPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		defer m.close()
		t.Repeat(map[string]func(*rapid.T){
			"":             m.check,
			"append":       m.appendOne,
			"group":        m.appendGroup,
			"appendAt":     m.appendAt,
			"duplicate":    m.appendDuplicate,
			"read":         m.read,
			"time":         m.lookUp,
			"truncate":     m.truncate,
			"trim":         m.trim,
			"setLogStart":  m.setLogStart,
			"reset":        m.reset,
			"tick":         m.tick,
			"maintain":     m.maintain,
			"roll":         m.roll,
			"config":       m.setConfig,
			"sync":         m.sync,
			"reopen":       m.reopen,
			"kill":         m.kill,
			"powerCut":     m.powerCut,
			"assignEpoch":  m.assignEpoch,
			"takeSnapshot": m.takeSnapshot,
			"transact":     m.transact,
			"endTxn":       m.endTransaction,
			"flushRolled":  m.flushRolled,
		})
	})
}

// modelBatch is a batch that the log holds.
type modelBatch struct {
	bytes batch.Batch
	ts    []int64 // of the records
}

func (b modelBatch) base() int64 { return b.bytes.BaseOffset() }
func (b modelBatch) last() int64 { return b.bytes.LastOffset() }

// model is the plain truth beside the log.
type model struct {
	t     *rapid.T
	fs    *memfs.FS
	bench *bench
	log   *Log
	conf  Config

	contiguous bool // the log has no holes and is opened as one that has none

	batches  []modelBatch
	start    int64
	end      int64
	synced   int64                   // what lies below survives a power cut
	durable  int64                   // so does a log start at least as high
	cut      bool                    // batches or segments were removed since the last sync, and may be back after a power cut
	written  map[int64][]modelBatch  // everything that ever stood at an offset
	sequence map[int64]int32         // the next one of each producer
	recent   map[int64][]batch.Batch // what each producer sent last, in order
	seed     int
}

const modelProducers = 3

func newModel(t *rapid.T) *model {
	m := &model{t: t, fs: memfs.New(), conf: smallSegments(), written: map[int64][]modelBatch{}}
	m.contiguous = rapid.Bool().Draw(t, "contiguous")
	m.forgetProducers()
	m.openOn(t, m.fs, Options{})
	return m
}

func (m *model) close() {
	if m.log != nil {
		_ = m.bench.env.Close() // the run has failed already, or check has seen everything
	}
}

// forgetProducers says that the log may know less of producers than the model did.
func (m *model) forgetProducers() {
	m.sequence = map[int64]int32{}
	m.recent = map[int64][]batch.Batch{}
}

// draw makes a batch. Its producer continues where it stands.
func (m *model) draw(t *rapid.T, client bool) (batch.Batch, []int64) {
	m.seed++
	d := data{
		records: rapid.IntRange(1, 4).Draw(t, "records"), size: rapid.IntRange(0, 150).Draw(t, "size"), seed: m.seed,
		ts:    epochMs + rapid.Int64Range(-20, 20).Draw(t, "ts") + int64(m.seed),
		codec: rapid.SampledFrom([]batch.Codec{batch.None, batch.None, batch.None, batch.Snappy, batch.Zstd}).Draw(t, "codec"),
	}
	if client && rapid.Bool().Draw(t, "idempotent") {
		d.producer = rapid.Int64Range(1, modelProducers).Draw(t, "producer")
		d.sequence = m.sequence[d.producer]
	}
	b := d.build(t)
	if d.producer > 0 {
		m.sequence[d.producer] += int32(d.records)
		m.recent[d.producer] = append(m.recent[d.producer], bytes.Clone(b))
	}
	stamps := make([]int64, d.records)
	for i := range stamps {
		stamps[i] = d.ts + int64(i)
	}
	return b, stamps
}

// add takes a stored batch into the model.
func (m *model) add(given batch.Batch, stamps []int64, base int64, epoch int32) {
	stored := bytes.Clone(given)
	batch.Batch(stored).SetBaseOffset(base)
	batch.Batch(stored).SetLeaderEpoch(epoch)
	b := modelBatch{bytes: stored, ts: stamps}
	m.batches = append(m.batches, b)
	m.written[base] = append(m.written[base], b)
	m.end = b.last() + 1
}

func (m *model) epoch(t *rapid.T) int32 {
	latest, _ := m.log.LatestEpoch()
	return latest + int32(rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "epoch step"))
}

func (m *model) appendOne(t *rapid.T) {
	b, stamps := m.draw(t, true)
	o := AppendOptions{LeaderEpoch: m.epoch(t)}
	var a Appended
	var err error
	if rapid.Bool().Draw(t, "verbatim") {
		a, err = m.log.AppendVerbatim(b, o)
	} else {
		a, err = m.log.Append(b, o)
	}
	require.NoError(t, err)
	require.Equal(t, Appended{BaseOffset: m.end, LastOffset: m.end + int64(len(stamps)) - 1, AppendTime: -1}, a)
	m.add(b, stamps, a.BaseOffset, o.LeaderEpoch)
}

func (m *model) appendGroup(t *rapid.T) {
	var items []GroupItem
	var stamps [][]int64
	for range rapid.IntRange(1, 6).Draw(t, "items") {
		b, ts := m.draw(t, true)
		items = append(items, GroupItem{
			Batch: b, Options: AppendOptions{LeaderEpoch: m.epoch(t)}, At: NextOffset, Verbatim: rapid.Bool().Draw(t, "verbatim"),
		})
		stamps = append(stamps, ts)
	}
	m.log.AppendGroup(items)
	for i := range items {
		require.NoError(t, items[i].Err)
		require.Equal(t, m.end, items[i].Result.BaseOffset)
		m.add(items[i].Batch, stamps[i], m.end, items[i].Options.LeaderEpoch)
	}
}

func (m *model) appendAt(t *rapid.T) {
	b, stamps := m.draw(t, false)
	hole := int64(5)
	if m.contiguous {
		hole = 0
	}
	at := m.end + rapid.Int64Range(-2, hole).Draw(t, "hole")
	epoch, found := m.log.LatestEpoch()
	if !found {
		epoch = -1
	}
	b.SetLeaderEpoch(epoch)
	var a Appended
	var err error
	if rapid.Bool().Draw(t, "verbatim") {
		a, err = m.log.AppendVerbatimAt(b, at)
	} else {
		a, err = m.log.AppendAt(b, at)
	}
	if at < m.end {
		require.Equal(t, &OffsetMismatchError{Expected: m.end, Actual: at}, err)
		return
	}
	require.NoError(t, err)
	require.Equal(t, at, a.BaseOffset)
	m.add(b, stamps, at, epoch)
}

func (m *model) appendDuplicate(t *rapid.T) {
	producer := rapid.Int64Range(1, modelProducers).Draw(t, "producer")
	sent := m.recent[producer]
	if len(sent) == 0 {
		return
	}
	again := rapid.SampledFrom(sent[max(0, len(sent)-maxRetainedBatches):]).Draw(t, "batch")
	a, err := m.log.AppendVerbatim(again, AppendOptions{LeaderEpoch: -1})
	require.NoError(t, err)
	require.True(t, a.Duplicate)
	for _, b := range m.batches {
		if b.base() == a.BaseOffset {
			require.Equal(t, again.Payload(), b.bytes.Payload())
			require.Equal(t, b.last(), a.LastOffset)
		}
	}
}

// Producers of transactions; they begin where the log says they stand.
const firstTransactional, lastTransactional = 11, 13

func (m *model) transact(t *rapid.T) {
	m.seed++
	d := data{
		records: 1, size: rapid.IntRange(0, 100).Draw(t, "size"), seed: m.seed, ts: epochMs + int64(m.seed), txn: true,
		producer: rapid.Int64Range(firstTransactional, lastTransactional).Draw(t, "producer"),
	}
	if entry, found := m.log.ProducerStateEntry(d.producer); found {
		d.sequence = entry.LastSequence + 1
	}
	o := AppendOptions{LeaderEpoch: m.epoch(t)}
	b := d.build(t)
	_, err := m.log.AppendVerbatim(b, o)
	require.NoError(t, err)
	m.add(b, []int64{d.ts}, m.end, o.LeaderEpoch)
}

func (m *model) endTransaction(t *rapid.T) {
	producer := rapid.Int64Range(firstTransactional, lastTransactional).Draw(t, "producer")
	b := marker(producer, 0, rapid.Bool().Draw(t, "commit"))
	o := AppendOptions{LeaderEpoch: m.epoch(t), Origin: Coordinator}
	_, err := m.log.Append(b, o)
	require.NoError(t, err)
	m.add(b, []int64{epochMs}, m.end, o.LeaderEpoch)
}

// checkTransactions replays the batches, if none of them is gone.
func (m *model) checkTransactions(t *rapid.T) {
	if m.start > 0 || m.log.FirstSegmentBase() > 0 {
		return
	}
	open := map[int64]int64{}
	var aborted []AbortedTxn
	for _, b := range m.batches {
		h := b.bytes.Header()
		control, isControl, err := b.bytes.Control()
		require.NoError(t, err)
		first, isOpen := open[h.ProducerID]
		switch {
		case isControl && isOpen:
			delete(open, h.ProducerID)
			if control.Type == batch.Abort {
				stable := h.BaseOffset + 1
				for _, other := range open {
					stable = min(stable, other)
				}
				aborted = append(aborted, AbortedTxn{
					ProducerID: h.ProducerID, FirstOffset: first, LastOffset: h.BaseOffset, LastStableOffset: stable,
				})
			}
		case !isControl && h.IsTransactional() && !isOpen:
			open[h.ProducerID] = h.BaseOffset
		}
	}
	stable := m.end
	for _, first := range open {
		stable = min(stable, first)
	}
	require.Equal(t, stable, m.log.LastStable(m.end))
	got, err := m.log.AbortedInRange(0, m.end)
	require.NoError(t, err)
	require.Equal(t, aborted, got)
}

// selected is what a raw read has to return.
func (m *model) selected(fetch, limit int64, max int) (want []byte, first, last int64) {
	first, last = fetch, fetch-1
	for _, b := range m.batches {
		if b.last() < fetch {
			continue
		}
		if fetch >= limit || b.base() >= limit || len(want) > 0 && len(want)+len(b.bytes) > max {
			break
		}
		if len(want) == 0 {
			first = b.base()
		}
		want, last = append(want, b.bytes...), b.last()
	}
	return want, first, last
}

func (m *model) read(t *rapid.T) {
	fetch := rapid.Int64Range(m.start, m.end+2).Draw(t, "fetch")
	limit := rapid.Int64Range(m.start, m.end+2).Draw(t, "limit")
	size := rapid.SampledFrom([]int{0, 1, 100, 500, 5000, 1 << 20}).Draw(t, "max")
	want, first, last := m.selected(fetch, limit, size)
	if fetch >= m.end {
		want, first, last = nil, fetch, fetch-1
	}
	raw, err := m.log.ReadRaw(fetch, limit, size)
	require.NoError(t, err)
	require.Equal(t, RawRead{StartOffset: first, LastOffset: last, Bytes: append([]byte{}, want...)}, raw)
	regions, err := m.log.ReadRegions(fetch, limit, size)
	require.NoError(t, err)
	var written bytes.Buffer
	_, err = regions.WriteTo(&written)
	regions.Release()
	require.NoError(t, err)
	require.Equal(t, raw.Bytes, append([]byte{}, written.Bytes()...))
	read, err := m.log.Read(fetch, size)
	require.NoError(t, err)
	want, _, _ = m.selected(fetch, m.end, size)
	require.Equal(t, append([]byte{}, want...), joined(read.Batches))
	if m.start > 0 {
		_, err = m.log.ReadRaw(m.start-1, limit, size)
		require.ErrorIs(t, err, ErrOffsetOutOfRange)
	}
}

func joined(batches []batch.Batch) []byte {
	all := []byte{}
	for _, b := range batches {
		all = append(all, b...)
	}
	return all
}

func (m *model) lookUp(t *rapid.T) {
	ask := epochMs + rapid.Int64Range(-25, int64(m.seed)+25).Draw(t, "ask")
	var want TimestampOffset
	hit := false
	for _, b := range m.batches {
		for i, ts := range b.ts {
			if offset := b.base() + int64(i); !hit && ts >= ask && offset >= m.start {
				want, hit = TimestampOffset{Offset: offset, Timestamp: ts}, true
			}
		}
	}
	got, found, err := m.log.OffsetForTimestamp(ask)
	require.NoError(t, err)
	require.Equal(t, hit, found)
	require.Equal(t, want, got)
}

func (m *model) truncate(t *rapid.T) {
	to := rapid.Int64Range(0, m.end+1).Draw(t, "to")
	if m.contiguous && to < m.end { // not inside a batch, also of those that the log start hides, which would leave a hole
		to = m.end
		if i := slices.IndexFunc(m.batches, func(b modelBatch) bool { return b.last() >= m.start }); i >= 0 {
			to = rapid.SampledFrom(m.batches[i:]).Draw(t, "batch").base()
		}
	}
	require.NoError(t, m.log.TruncateTo(to))
	if to >= m.end {
		return
	}
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.last() >= to })
	m.end = to
	m.start = min(m.start, to)
	m.synced, m.durable = min(m.synced, to), min(m.durable, to)
	m.cut = true
	m.forgetProducers()
	m.resume()
}

// resume lets the producers continue where the log says they stand.
func (m *model) resume() {
	for _, p := range m.log.ActiveProducers() {
		m.sequence[p.ProducerID] = p.LastSequence + 1
	}
}

// dropBelow forgets the batches that a raised start hides.
func (m *model) dropBelow(start int64) {
	m.start = start
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.last() < start && b.last() < m.log.FirstSegmentBase() })
}

func (m *model) trim(t *rapid.T) {
	to := rapid.Int64Range(0, m.end+1).Draw(t, "to")
	start, err := m.log.TrimTo(to)
	require.NoError(t, err)
	require.Equal(t, max(m.start, min(to, m.end)), start)
	if start > m.start {
		m.durable = start
	}
	m.dropBelow(start)
}

func (m *model) setLogStart(t *rapid.T) {
	to := rapid.Int64Range(m.start, m.end).Draw(t, "to")
	require.NoError(t, m.log.SetLogStart(to))
	if to > m.start {
		m.durable = to
	}
	m.dropBelow(to)
}

func (m *model) reset(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		return
	}
	to := rapid.Int64Range(0, m.end+10).Draw(t, "to")
	require.NoError(t, m.log.ResetTo(to))
	m.batches, m.start, m.end, m.synced, m.durable, m.cut = nil, to, to, to, 0, true
	m.forgetProducers()
}

func (m *model) tick(t *rapid.T) {
	c := m.conf
	c.RetentionBytes = rapid.Int64Range(0, 3000).Draw(t, "keep")
	m.log.SetConfig(c)
	hw := rapid.Int64Range(m.start, m.end).Draw(t, "hw")
	require.NoError(t, m.log.Tick(m.bench.now(), hw))
	m.log.SetConfig(m.conf)
	start := m.log.LogStart()
	require.LessOrEqual(t, start, max(hw, m.start))
	require.GreaterOrEqual(t, start, m.start)
	m.dropBelow(start)
	m.cut = true
}

func (m *model) maintain(t *rapid.T) {
	now := m.bench.advance(time.Duration(rapid.IntRange(0, 70).Draw(t, "seconds")) * time.Second)
	require.NoError(t, m.log.Maintain(now))
}

func (m *model) roll(t *rapid.T) {
	_, err := m.log.Roll()
	require.NoError(t, err)
}

func (m *model) setConfig(t *rapid.T) {
	m.conf.SegmentBytes = rapid.Int64Range(100, 2000).Draw(t, "segment")
	m.conf.IndexIntervalBytes = rapid.Int64Range(0, 300).Draw(t, "interval")
	m.conf.SegmentIndexBytes = rapid.SampledFrom([]int64{24, 48, 10 << 20}).Draw(t, "index")
	m.conf.FileDeleteDelayMs = rapid.SampledFrom([]int64{0, 1000}).Draw(t, "delay")
	m.log.SetConfig(m.conf)
}

func (m *model) sync(t *rapid.T) {
	if rapid.Bool().Draw(t, "indexes") {
		require.NoError(t, m.log.Sync())
		m.durable = m.start
	} else {
		to, err := m.log.SyncTo()
		require.NoError(t, err)
		require.Equal(t, m.end, to)
	}
	m.synced, m.cut = m.end, false
}

// flushRolled lets the background flush do its work; it does none by itself here.
func (m *model) flushRolled(t *rapid.T) { require.NoError(t, m.bench.env.roll.drain(&m.log.rollJobs)) }

func (m *model) assignEpoch(t *rapid.T) {
	require.NoError(t, m.log.AssignEpoch(m.epoch(t), m.end))
}

func (m *model) takeSnapshot(t *rapid.T) { require.NoError(t, m.log.TakeProducerSnapshot()) }

func (m *model) reopen(t *rapid.T) {
	require.NoError(t, m.log.Sync())
	m.synced, m.durable, m.cut = m.end, m.start, false
	producers := m.liveProducers()
	require.NoError(t, m.bench.env.Close())
	o := Options{Clean: rapid.Bool().Draw(t, "clean"), RecoveryPoint: m.synced}
	if s, ok := m.log.Summary(); ok && rapid.Bool().Draw(t, "summary") {
		o.Summary = s
	}
	m.openOn(t, m.fs, o)
	m.endsWithLastBatch()
	m.synced = min(m.synced, m.end)
	require.Equal(t, m.end, m.log.LogEnd())
	require.Equal(t, producers, m.liveProducers())
	m.forgetProducers() // only the last batch of each is remembered
	m.resume()
}

// liveProducers are those whose last batch was not deleted; the log may forget the others.
func (m *model) liveProducers() []ProducerSnapshotEntry {
	live := slices.DeleteFunc(m.log.ProducerStateSnapshot(), func(p ProducerSnapshotEntry) bool { return p.LastOffset < m.start })
	for i := range live {
		if m.start > 0 {
			live[i].CoordinatorEpoch, live[i].TxnFirstOffset = -1, -1 // the marker, or the first batch, may be deleted
		}
	}
	return live
}

// endsWithLastBatch is what a reopen makes of a log that was truncated inside a batch, or not written to since.
func (m *model) endsWithLastBatch() {
	end := m.log.FirstSegmentBase()
	if bases := m.log.view.Load().bases(); len(bases) > 0 {
		end = bases[len(bases)-1]
	}
	if n := len(m.batches); n > 0 {
		end = max(end, m.batches[n-1].last()+1)
	}
	m.end = max(end, m.start)
}

// kill ends the process; the machine runs on.
func (m *model) kill(t *rapid.T) { m.crash(t, memfs.CrashOptions{KeepUnsynced: 1}) }

// powerCut ends the machine.
func (m *model) powerCut(t *rapid.T) {
	m.crash(t, memfs.CrashOptions{
		Seed:         rapid.Uint64().Draw(t, "seed"),
		KeepUnsynced: rapid.SampledFrom([]float64{0, 0.5, 0.9}).Draw(t, "keep"), Torn: rapid.Bool().Draw(t, "torn"),
	})
}

func (m *model) crash(t *rapid.T, o memfs.CrashOptions) {
	left := m.fs.Crash(o)
	recoveryPoint := m.log.RecoveryPoint()
	require.NoError(t, m.bench.env.Close())
	m.fs = left
	m.openOn(t, left, Options{RecoveryPoint: rapid.SampledFrom([]int64{0, recoveryPoint}).Draw(t, "recovery point")})
	m.adopt(t, o.KeepUnsynced == 1)
}

func (m *model) openOn(t *rapid.T, fsys *memfs.FS, o Options) {
	now := epochMs
	if m.bench != nil {
		now = m.bench.ms.Load()
	}
	m.bench = makeBench(t, fsys)
	m.bench.ms.Store(now)
	m.bench.env.roll.manual = true
	o.Config, o.Contiguous = m.conf, m.contiguous
	m.log = m.bench.open(o)
}

// adopt holds what is left after a crash against the model, and makes it the model. everything says that nothing was
// lost.
func (m *model) adopt(t *rapid.T, everything bool) {
	require.GreaterOrEqual(t, m.log.LogStart(), m.durable)
	if !m.cut {
		require.LessOrEqual(t, m.log.LogStart(), m.start)
	}
	read, err := m.log.Read(m.log.LogStart(), 1<<30)
	require.NoError(t, err)
	stored := map[int64]batch.Batch{}
	var left []modelBatch
	for _, b := range read.Batches {
		stored[b.BaseOffset()] = b
		known := slices.IndexFunc(m.written[b.BaseOffset()], func(w modelBatch) bool { return bytes.Equal(w.bytes, b) })
		require.GreaterOrEqual(t, known, 0, "a batch at %d that nobody wrote", b.BaseOffset())
		left = append(left, m.written[b.BaseOffset()][known])
	}
	for _, b := range m.batches {
		if b.base() >= m.log.LogStart() && (b.last() < m.synced || everything) {
			require.Equal(t, b.bytes, stored[b.base()], "offset %d was synced", b.base())
		}
	}
	if m.contiguous && len(left) > 0 {
		for i, b := range left[1:] {
			require.Equal(t, left[i].last()+1, b.base(), "a hole")
		}
		require.Equal(t, left[len(left)-1].last()+1, m.log.LogEnd(), "a hole before the log end")
	}
	m.batches, m.start, m.end = left, m.log.LogStart(), m.log.LogEnd()
	m.synced, m.durable, m.cut = m.end, min(m.durable, m.start), false
	m.forgetProducers()
	m.resume()
}

// check runs after every operation.
func (m *model) check(t *rapid.T) {
	require.Equal(t, m.start, m.log.LogStart())
	require.Equal(t, m.end, m.log.LogEnd())
	require.Empty(t, m.log.Check(), "%s", m.log)
	require.Empty(t, eventsOf[FailedEvent](m.bench))
	m.checkTransactions(t)
	last := map[int64]modelBatch{}
	for _, b := range m.batches {
		if id := b.bytes.ProducerID(); id >= 0 && id < firstTransactional && b.base() >= m.start {
			last[b.bytes.ProducerID()] = b
		}
	}
	for id, b := range last {
		entry, found := m.log.ProducerStateEntry(id)
		require.True(t, found)
		require.Equal(t, ProducerSnapshotEntry{
			ProducerID: id, LastSequence: b.bytes.LastSequence(), LastOffset: b.last(), OffsetDelta: b.bytes.LastOffsetDelta(),
			Timestamp: b.bytes.MaxTimestamp(), CoordinatorEpoch: -1, TxnFirstOffset: -1,
		}, entry, fmt.Sprintf("producer %d", id))
	}
}
