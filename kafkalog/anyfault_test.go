package kafkalog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// mixed is a log under random operations, calls of the disk that fail now and then, and power cuts, and what has to be in it.
type mixed struct {
	t       *testing.T
	rand    *rand.Rand
	disk    *memfs.FS
	faults  *faultfs.FS
	bench   *bench
	log     *Log
	history []string

	seed    int
	must    map[int64]batch.Batch     // synced, and nobody asked for its removal since
	pending map[int64]batch.Batch     // appended since the last sync
	ever    map[int64]map[string]bool // everything that was ever appended at an offset
	sent    map[int64]sentBatch       // the last batch of each producer that the log took, and has
	aborted []abortedPair
	likely  int // one call in so many fails; 0: none
}

// sentBatch is a batch of an idempotent producer and where it is.
type sentBatch struct {
	batch batch.Batch
	base  int64
}

// next is the sequence that a producer continues with.
func (m *mixed) next(producer int64) int32 {
	if e, found := m.log.ProducerStateEntry(producer); found {
		return e.LastSequence + 1
	}
	return 0
}

// sendAgain sends the last batch of a producer once more, as a client does that got no answer.
func (m *mixed) sendAgain(producer int64) {
	s, found := m.sent[producer]
	if !found {
		return
	}
	a, err := m.log.AppendVerbatim(s.batch, AppendOptions{LeaderEpoch: -1})
	m.note("again, producer %d at %d: %+v, %v", producer, s.base, a, err)
	if err != nil {
		require.ErrorIs(m.t, err, ErrStorage)
		return
	}
	require.True(m.t, a.Duplicate, "producer %d was forgotten", producer)
	require.Equal(m.t, s.base, a.BaseOffset)
}

// abortedPair is a transaction that was aborted: its first batch and its marker.
type abortedPair struct{ first, marker sentBatch }

const transactionalProducer = 11

// transact goes on with a transaction, or aborts it.
func (m *mixed) transact() {
	m.seed++
	e, known := m.log.ProducerStateEntry(transactionalProducer)
	open := known && e.TxnFirstOffset >= 0
	b, o := marker(transactionalProducer, 0, false), AppendOptions{LeaderEpoch: -1, Origin: Coordinator}
	abort := open && m.rand.IntN(2) == 0
	if !abort {
		b = data{producer: transactionalProducer, sequence: m.next(transactionalProducer), txn: true, size: m.rand.IntN(90), seed: m.seed}.build(m.t)
		o.Origin = Client
	}
	end := m.log.LogEnd()
	a, err := m.log.AppendVerbatim(b, o)
	m.note("transact, abort %v of %d: %d, %v", abort, e.TxnFirstOffset, a.BaseOffset, err)
	m.written(max(end, a.BaseOffset), b)
	if err != nil {
		return
	}
	m.pending[a.BaseOffset] = b
	// After a truncation that failed the first batch may be gone, and what is known of it goes with the next append.
	if first, there := m.held(e.TxnFirstOffset); abort && there && e.TxnFirstOffset < end {
		m.aborted = append(m.aborted, abortedPair{sentBatch{first, e.TxnFirstOffset}, sentBatch{b, a.BaseOffset}})
	}
}

// held is the batch that has to be at an offset.
func (m *mixed) held(base int64) (batch.Batch, bool) {
	b, there := m.must[base]
	if !there {
		b, there = m.pending[base]
	}
	return b, there
}

// checkAborted looks whether what was aborted is known to be.
func (m *mixed) checkAborted(what string) {
	has := func(s sentBatch) bool {
		b, there := m.must[s.base]
		return there && bytes.Equal(b.Payload(), s.batch.Payload())
	}
	for _, a := range m.aborted {
		if !has(a.first) || !has(a.marker) {
			continue
		}
		found, err := m.log.AbortedInRange(a.first.base, a.marker.base+1)
		require.NoError(m.t, err, what)
		known := false
		for _, f := range found {
			known = known || f.FirstOffset <= a.first.base && f.LastOffset == a.marker.base
		}
		require.True(m.t, known, "%s: what was aborted from %d to %d is not known to be: %v", what, a.first.base, a.marker.base, found)
	}
}

// forgetSent forgets what producers sent and is not in the log any more.
func (m *mixed) forgetSent() {
	for producer, s := range m.sent {
		b, there := m.must[s.base]
		if !there {
			b, there = m.pending[s.base]
		}
		if !there || !bytes.Equal(b.Payload(), s.batch.Payload()) {
			delete(m.sent, producer)
		}
	}
}

func (m *mixed) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *mixed) fault(op faultfs.Op) faultfs.Fault {
	if m.likely == 0 || op.Kind == faultfs.OpClose || m.rand.IntN(m.likely) > 0 {
		return faultfs.Fault{}
	}
	f := faultfs.Fault{Err: []error{syscall.EIO, syscall.ENOSPC, syscall.EMFILE}[m.rand.IntN(3)]}
	switch m.rand.IntN(3) {
	case 0:
		f.After = true
	case 1:
		if op.Len > 1 {
			f.Short = m.rand.Int64N(op.Len)
		}
	}
	if op.Kind == faultfs.OpSync {
		f = faultfs.Fault{Err: syscall.EIO, Drop: m.rand.IntN(2) == 0}
	}
	m.note("    fault: %s: %v, after %v, short %d, drop %v", op, f.Err, f.After, f.Short, f.Drop)
	return f
}

func (m *mixed) open(o Options) {
	likely := m.likely
	m.likely = 0
	defer func() { m.likely = likely }()
	m.faults = faultfs.New(m.disk, m.fault)
	m.bench = makeBench(m.t, m.faults)
	m.bench.env.roll.manual = true
	o.Config = smallSegments()
	l, err := Open(m.bench.env, testDir, o)
	require.NoError(m.t, err)
	m.log = l
}

// check holds the log against what has to be in it.
func (m *mixed) check(what string) {
	m.note("  %s: %s", what, m.log)
	likely := m.likely
	m.likely = 0
	defer func() { m.likely = likely }()
	read, err := m.log.Read(m.log.LogStart(), 1<<30)
	require.NoError(m.t, err, what)
	stored := map[int64]batch.Batch{}
	last := int64(-1)
	for _, b := range read.Batches {
		require.Greater(m.t, b.BaseOffset(), last, what)
		last = b.LastOffset()
		stored[b.BaseOffset()] = b
		require.True(m.t, m.ever[b.BaseOffset()][string(b.Payload())], "%s: offset %d holds what nobody appended there", what, b.BaseOffset())
	}
	for offset, b := range m.must {
		require.Contains(m.t, stored, offset, "%s: offset %d is gone", what, offset)
		require.True(m.t, bytes.Equal(b.Payload(), stored[offset].Payload()), "%s: offset %d", what, offset)
	}
	m.checkAborted(what)
}

func (m *mixed) append(n int, group bool) {
	var items []GroupItem
	end := m.log.LogEnd()
	for range n {
		m.seed++
		d := data{records: 1 + m.rand.IntN(3), size: m.rand.IntN(150), seed: m.seed}
		if !group && n == 1 && m.rand.IntN(2) == 0 {
			d.producer = 1 + m.rand.Int64N(3)
			d.sequence = m.next(d.producer)
		}
		b := d.build(m.t)
		items = append(items, GroupItem{Batch: b, At: NextOffset, Verbatim: m.rand.IntN(2) == 0, Options: AppendOptions{LeaderEpoch: int32(m.seed / 20)}})
	}
	if group {
		m.log.AppendGroup(items)
	} else {
		for i := range items {
			if items[i].Verbatim {
				items[i].Result, items[i].Err = m.log.AppendVerbatim(items[i].Batch, items[i].Options)
			} else {
				items[i].Result, items[i].Err = m.log.Append(items[i].Batch, items[i].Options)
			}
		}
	}
	for _, it := range items {
		base := it.Result.BaseOffset
		m.note("append: %d, %v", base, it.Err)
		if it.Err != nil {
			// It was taken back, but nothing of that was synced.
			for at := end; at < end+20; at++ {
				m.written(at, it.Batch)
			}
			continue
		}
		m.written(base, it.Batch)
		m.pending[base] = it.Batch
		if id := it.Batch.ProducerID(); id >= 0 {
			m.sent[id] = sentBatch{batch: bytes.Clone(it.Batch), base: base}
		}
	}
}

func (m *mixed) written(at int64, b batch.Batch) {
	if m.ever[at] == nil {
		m.ever[at] = map[string]bool{}
	}
	m.ever[at][string(b.Payload())] = true
}

func (m *mixed) drop(gone func(base, last int64) bool) {
	for _, each := range []map[int64]batch.Batch{m.must, m.pending} {
		for base, b := range each {
			if gone(base, base+int64(b.LastOffsetDelta())) {
				delete(each, base)
			}
		}
	}
	m.forgetSent()
}

func (m *mixed) step() {
	l := m.log
	end, start := l.LogEnd(), l.LogStart()
	somewhere := start + m.rand.Int64N(end-start+1)
	switch m.rand.IntN(25) {
	case 0, 1, 2, 3, 4:
		m.append(1+m.rand.IntN(3), false)
	case 5, 6:
		m.append(1+m.rand.IntN(5), true)
	case 7, 8, 9:
		synced, err := l.SyncTo()
		if m.rand.IntN(3) == 0 && err == nil {
			err = l.Sync()
		}
		m.note("sync: %d, %v", synced, err)
		if err == nil {
			for base, b := range m.pending {
				m.must[base] = b
			}
			clear(m.pending)
		}
	case 10:
		_, err := l.Roll()
		m.note("roll: %v", err)
	case 11:
		at := []int64{somewhere, somewhere, max(start-3, 0)}[m.rand.IntN(3)]
		err := l.TruncateTo(at)
		m.note("truncate to %d: %v", at, err)
		m.drop(func(_, last int64) bool { return last >= at })
	case 12:
		at, err := l.TrimTo(somewhere)
		m.note("trim to %d: %d, %v", somewhere, at, err)
		m.drop(func(base, _ int64) bool { return base < somewhere })
	case 13:
		err := l.SetLogStart(somewhere)
		m.note("set log start %d: %v", somewhere, err)
		m.drop(func(base, _ int64) bool { return base < somewhere })
	case 14:
		if m.rand.IntN(4) == 0 {
			at := max(end-10+m.rand.Int64N(20), 0)
			err := l.ResetTo(at)
			m.note("reset to %d: %v", at, err)
			m.drop(func(int64, int64) bool { return true })
		}
	case 15:
		c := smallSegments()
		c.RetentionBytes = m.rand.Int64N(2000)
		l.SetConfig(c)
		err := l.Tick(m.bench.now(), somewhere)
		m.note("tick up to %d: %v", somewhere, err)
		l.SetConfig(smallSegments())
		m.drop(func(base, _ int64) bool { return base < somewhere })
	case 16:
		m.note("maintain: %v", l.Maintain(m.bench.advance(time.Duration(m.rand.IntN(3000))*time.Millisecond)))
	case 17:
		m.note("snapshot: %v", l.TakeProducerSnapshot())
	case 18:
		m.note("drain: %v", m.bench.env.roll.drain(&l.rollJobs))
	case 19:
		m.end()
	case 22, 23, 24:
		m.transact()
	case 20, 21:
		m.sendAgain(1 + m.rand.Int64N(3))
	}
	if m.log.failure() != nil {
		m.note("failed: %v", m.log.failure())
		m.end()
	}
}

// end closes the log, or cuts the power, and opens it again.
func (m *mixed) end() {
	synced := m.log.RecoveryPoint()
	clean := false
	switch how := m.rand.IntN(4); how {
	case 0:
		err := m.log.Sync()
		if err == nil {
			for base, b := range m.pending {
				m.must[base] = b
			}
		}
		clean = err == nil
		fallthrough
	case 1:
		m.note("close, clean %v: %v", clean, m.log.Close())
		_ = m.bench.env.Close()
	default:
		left := m.disk.Crash(memfs.CrashOptions{Seed: m.rand.Uint64(), KeepUnsynced: []float64{0, 0.5, 0.9, 1}[m.rand.IntN(4)], Torn: true})
		m.note("power cut")
		m.likely = 0
		_ = m.bench.env.Close()
		m.disk = left
	}
	clear(m.pending)
	m.open(Options{Clean: clean, RecoveryPoint: synced})
	m.check("after the open")
	m.likely = 0
	read, err := m.log.Read(m.log.LogStart(), 1<<30)
	require.NoError(m.t, err)
	for _, b := range read.Batches {
		m.must[b.BaseOffset()] = b // an open makes it so
	}
	m.forgetSent()
	m.likely = []int{0, 20, 60}[m.rand.IntN(3)]
}

// TestF10_WhatWasSyncedIsThereAfterAnyFailuresAndPowerCuts does random things to logs on disks of which some calls fail. More of them:
// LOG_FAULT_RUNS; others: LOG_FAULT_SEED.
func TestF10_WhatWasSyncedIsThereAfterAnyFailuresAndPowerCuts(t *testing.T) {
	runs, first := numberOf(t, "LOG_FAULT_RUNS", 100), numberOf(t, "LOG_FAULT_SEED", 0)
	for seed := first; seed < first+runs; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &mixed{
				t: t, rand: rand.New(rand.NewPCG(uint64(seed), 0)), disk: memfs.New(), must: map[int64]batch.Batch{},
				pending: map[int64]batch.Batch{}, ever: map[int64]map[string]bool{}, sent: map[int64]sentBatch{},
			}
			defer m.tell()
			m.open(Options{})
			m.likely = 40
			for range 80 {
				m.step()
				m.check("then")
			}
			m.likely = 0
			_ = m.bench.env.Close() // a failed log has said so
		})
	}
}

// tell prints what led to a failure.
func (m *mixed) tell() {
	for _, line := range m.history {
		if m.t.Failed() {
			m.t.Log(line)
		}
	}
}

// numberOf returns the number in the environment variable, or the value for when it is not set.
func numberOf(t *testing.T, name string, unset int) int {
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}
