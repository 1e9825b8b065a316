package kafkalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// inFlight sends batches of one producer, two records each.
type inFlight struct {
	t        *testing.T
	producer int64
	first    int32 // sequence of batch 0
	size     int
}

func (c inFlight) send(l *Log, i int32) (Appended, error) {
	d := data{records: 2, size: c.size, producer: c.producer, sequence: batch.IncrementSequence(c.first, 2*i)}
	return l.Append(d.build(c.t), AppendOptions{LeaderEpoch: -1})
}

// stopAndStart ends the log in one of the ways a server does and opens it again.
func stopAndStart(b *bench, l *Log, how string) *Log {
	require.NoError(b.t, l.Sync())
	o := Options{Config: l.ConfigSnapshot(), Clean: how == "clean"}
	if how != "power cut" {
		require.NoError(b.t, l.Close())
		return b.open(o)
	}
	crashed := makeBench(b.t, b.fs.(*memfs.FS).CrashClean())
	b.fs, b.env = crashed.fs, crashed.env
	return b.open(o)
}

func TestF16_BatchesUnderWayWhenTheServerStoppedAreKnownWhenTheyAreSentAgain(t *testing.T) {
	for _, how := range []string{"clean", "unclean", "power cut"} {
		for _, first := range []int32{0, 100, maxSequence - 9} {
			for size := 20; size <= 260; size += 60 { // the roll comes before each of the batches in turn
				b := makeBench(t, memfs.New())
				l := b.open(Options{Config: smallSegments()})
				var sent []Appended
				client := inFlight{t, 7, first, size}
				for i := range int32(9) {
					mustAppend(t, l, data{records: 1, producer: 8, sequence: i, size: 30})
					a, err := client.send(l, i)
					require.NoError(t, err)
					a.Duplicate = true
					sent = append(sent, a)
				}
				old := b.env
				l = stopAndStart(b, l, how)
				for i := int32(4); i < 9; i++ {
					again, err := client.send(l, i)
					require.NoError(t, err, "%s stop, batch %d of size %d", how, i, size)
					require.Equal(t, sent[i], again, "%s stop, batch %d of size %d", how, i, size)
				}
				_, err := client.send(l, 3)
				require.ErrorIs(t, err, ErrOutOfOrderSequence, "five are remembered")
				end := l.LogEnd()
				next, err := client.send(l, 9)
				require.NoError(t, err)
				require.Equal(t, end, next.BaseOffset)
				_, err = client.send(l, 11)
				require.ErrorIs(t, err, ErrOutOfOrderSequence)
				require.Empty(t, l.Check())
				require.NoError(t, b.env.Close())
				require.NoError(t, old.Close())
			}
		}
	}
}

func TestTheLogIsSearchedForForgottenBatchesOnceAfterAStart(t *testing.T) {
	fsys := &probeFS{FS: memfs.New()}
	b := newBenchOn(t, fsys)
	l := b.open(Options{})
	mustAppend(t, l, data{size: youngBytes})
	client := inFlight{t, 7, 50, 20}
	other := inFlight{t, 8, 50, 20}
	for i := range int32(8) {
		_, err := client.send(l, i)
		require.NoError(t, err)
		_, err = other.send(l, i)
		require.NoError(t, err)
	}
	l = b.reopen(l, Options{})
	mustAppend(t, l, data{}) // the first append asks how old the segment is
	reads := 0
	fsys.failWith(func(op, name string) error {
		if op == "read" {
			reads++
		}
		return nil
	})
	_, err := client.send(l, 9)
	require.ErrorIs(t, err, ErrOutOfOrderSequence, "a sequence that lies ahead")
	_, err = client.send(l, 7)
	require.NoError(t, err)
	require.Zero(t, reads, "what is known needs no search")

	_, err = client.send(l, 5)
	require.NoError(t, err)
	require.Positive(t, reads)
	reads = 0
	for i := range int32(8) {
		_, clientErr := client.send(l, i)
		_, otherErr := other.send(l, i)
		require.Equal(t, i < 3, clientErr != nil)
		require.Equal(t, i < 3, otherErr != nil, "the search was for all producers")
	}
	require.Zero(t, reads)
}

func TestASearchThatFailsIsNoAnswer(t *testing.T) {
	fsys := &probeFS{FS: memfs.New()}
	b := newBenchOn(t, fsys)
	l := b.open(Options{})
	mustAppend(t, l, data{size: youngBytes})
	client := inFlight{t, 7, 50, 20}
	for i := range int32(3) {
		_, err := client.send(l, i)
		require.NoError(t, err)
	}
	l = b.reopen(l, Options{})
	mustAppend(t, l, data{})
	fsys.failOnce("read")
	_, err := client.send(l, 0)
	require.ErrorIs(t, err, errInjected)
	require.NotErrorIs(t, err, ErrOutOfOrderSequence)
	again, err := client.send(l, 0)
	require.NoError(t, err)
	require.True(t, again.Duplicate)
}

func TestWindowsAreWidenedOnlyByBatchesThatLeadUpToThem(t *testing.T) {
	window := func(p *producerState) (sequences []int32) {
		for _, b := range p.producers[7].window() {
			sequences = append(sequences, b.lastSequence)
		}
		return sequences
	}
	for name, test := range map[string]struct {
		log  []*batch.Header // before the remembered batch, which is sequence 10 to 19 of epoch 2 at offset 100
		want []int32
	}{
		"nothing":          {nil, []int32{19}},
		"the one before":   {[]*batch.Header{dataHeader(7, 2, 0, 50, 10)}, []int32{9, 19}},
		"a gap":            {[]*batch.Header{dataHeader(7, 2, 0, 50, 9)}, []int32{19}},
		"another epoch":    {[]*batch.Header{dataHeader(7, 1, 0, 50, 10)}, []int32{19}},
		"another producer": {[]*batch.Header{dataHeader(8, 2, 0, 50, 10)}, []int32{19}},
		"no sequences":     {[]*batch.Header{dataHeader(7, 2, -1, 50, 10)}, []int32{19}},
		"the batch itself": {[]*batch.Header{dataHeader(7, 2, 10, 100, 10)}, []int32{19}},
		"behind a gap":     {[]*batch.Header{dataHeader(7, 2, 0, 40, 2), dataHeader(7, 2, 5, 50, 5)}, []int32{9, 19}},
		"more than fit": {[]*batch.Header{
			dataHeader(7, 2, 0, 10, 2), dataHeader(7, 2, 2, 20, 2), dataHeader(7, 2, 4, 30, 2), dataHeader(7, 2, 6, 40, 2),
			dataHeader(7, 2, 8, 50, 1), dataHeader(7, 2, 9, 60, 1),
		}, []int32{5, 7, 8, 9, 19}},
	} {
		p := newProducerState()
		p.load([]ProducerSnapshotEntry{{
			ProducerID: 7, ProducerEpoch: 2, LastSequence: 19, LastOffset: 109, OffsetDelta: 9, TxnFirstOffset: -1,
		}}, 0, never)
		before := p.snapshotEntries()
		narrow := p.narrowWindows()
		for _, h := range test.log {
			if w := narrow[h.ProducerID]; w != nil {
				w.add(h)
			}
		}
		p.widen(narrow)
		require.Equal(t, test.want, window(p), name)
		require.Equal(t, before, p.snapshotEntries(), "%s: what the producer did last stays", name)
		require.True(t, p.widened)
	}
}

func TestF10_AnUndoneAppendLetsTheLogBeSearchedAgain(t *testing.T) {
	p := newProducerState()
	undo := mustTake(t, p, dataHeader(7, 0, 10, 100, 10))
	p.widen(p.narrowWindows())
	require.True(t, p.widened)
	p.undo(undo)
	require.False(t, p.widened)
}
