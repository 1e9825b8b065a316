package kafkalog

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// kafkaPartition is a partition directory that Apache Kafka 4.4.0 wrote, see testdata/apache-kafka-4.4.0/README.md.
type kafkaPartition struct {
	name    string
	fs      *memfs.FS // the files are in partsDir
	stopped bool      // cleanly; else killed
	bases   []int64
	names   []string
}

// eachKafkaPartition runs a test for every partition directory of both copies.
func eachKafkaPartition(t *testing.T, test func(t *testing.T, p *kafkaPartition)) {
	for _, state := range []string{"stopped", "killed"} {
		dirs, err := filepath.Glob(filepath.Join("testdata", "apache-kafka-4.4.0", state, "*-0"))
		require.NoError(t, err)
		require.NotEmpty(t, dirs)
		for _, dir := range dirs {
			t.Run(state+"/"+filepath.Base(dir), func(t *testing.T) {
				p := &kafkaPartition{name: filepath.Base(dir), fs: newPartsFS(t), stopped: state == "stopped"}
				p.load(t, dir)
				test(t, p)
			})
		}
	}
}

func (p *kafkaPartition) load(t *testing.T, dir string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		storeFile(t, p.fs, partsDir+"/"+e.Name(), content)
		p.names = append(p.names, e.Name())
		if isLogName(e.Name()) {
			base, err := parseLogName(e.Name())
			require.NoError(t, err)
			p.bases = append(p.bases, base)
		}
	}
	require.NotEmpty(t, p.bases)
}

// limits returns what the indexes of the i-th segment may say.
func (p *kafkaPartition) limits(t *testing.T, i int) indexLimits {
	limits := indexLimits{end: math.MaxInt64, size: int64(len(p.records(t, p.bases[i])))}
	if i+1 < len(p.bases) {
		limits.end = p.bases[i+1]
	}
	return limits
}

func (p *kafkaPartition) records(t *testing.T, base int64) []byte {
	return storedFile(t, p.fs, filePath(partsDir, base, logSuffix))
}

// storedBatch is a batch and where it is in its segment.
type storedBatch struct {
	batch.Batch
	position int64
}

// batches returns the batches of one segment.
func (p *kafkaPartition) batches(t *testing.T, base int64) []storedBatch {
	var all []storedBatch
	data := p.records(t, base)
	for rest := data; len(rest) > 0; {
		b, after, err := batch.Next(rest)
		require.NoError(t, err)
		require.NoError(t, b.VerifyCRC())
		all = append(all, storedBatch{b, int64(len(data) - len(rest))})
		rest = after
	}
	return all
}

// contentsOf returns the content of the files with a suffix, by offset.
func (p *kafkaPartition) contentsOf(t *testing.T, suffix string) map[int64][]byte {
	contents := make(map[int64][]byte)
	for _, name := range p.names {
		if offset, ok := parseOffset(name); ok && name == fileName(offset, suffix) {
			contents[offset] = storedFile(t, p.fs, partsDir+"/"+name)
		}
	}
	return contents
}

func TestKafkasSnapshotsAreReadAndWrittenByteForByte(t *testing.T) {
	count := 0
	eachKafkaPartition(t, func(t *testing.T, p *kafkaPartition) {
		for offset, data := range p.contentsOf(t, snapshotSuffix) {
			entries, err := decodeSnapshot("x", data)
			require.NoError(t, err)
			require.Equal(t, data, encodeSnapshot(entries), "snapshot %d", offset)
			count++
		}
	})
	require.Greater(t, count, 10)
}

func TestKafkasEpochFilesAreReadAndWrittenByteForByte(t *testing.T) {
	eachKafkaPartition(t, func(t *testing.T, p *kafkaPartition) {
		data := storedFile(t, p.fs, epochPath)
		entries, err := parseEpochs("x", data)
		require.NoError(t, err)
		require.Equal(t, string(data), string(formatEpochs(entries)))
	})
}

func TestKafkasEpochsAreThoseOfItsBatches(t *testing.T) {
	eachKafkaPartition(t, func(t *testing.T, p *kafkaPartition) {
		stored, _, err := loadEpochCache(p.fs, partsDir)
		require.NoError(t, err)
		rebuilt := newEpochCache(p.fs, partsDir)
		for _, base := range p.bases {
			for _, b := range p.batches(t, base) {
				rebuilt.replay(b.LeaderEpoch(), b.BaseOffset())
				epoch, found := stored.epochFor(b.LastOffset())
				if found {
					require.Equal(t, b.LeaderEpoch(), epoch, "offset %d", b.LastOffset())
				}
			}
		}
		earliest, _ := stored.earliest()
		fromThere, _ := cutEpochsBelow(slices.Clone(rebuilt.entries()), earliest.Start)
		// A leader notes its epoch before it writes; epochs without records are in the file alone.
		for _, e := range fromThere {
			require.Contains(t, stored.entries(), e)
		}
	})
}

func TestKafkasTransactionIndexesAreReadAndWrittenByteForByte(t *testing.T) {
	count := 0
	eachKafkaPartition(t, func(t *testing.T, p *kafkaPartition) {
		for base, data := range p.contentsOf(t, txnIndexSuffix) {
			x := openTxnIndex(newHandleCache(p.fs, 4).open(filePath(partsDir, base, txnIndexSuffix), vfs.ReadWrite), base)
			require.NoError(t, x.verify())
			all, err := x.all()
			require.NoError(t, err)
			require.Equal(t, data, txnBytes(all...))
			count += len(all)
		}
	})
	require.Positive(t, count)
}

// TestKafkasIndexesPointAtItsBatches holds every entry of both indexes against the records.
func TestKafkasIndexesPointAtItsBatches(t *testing.T) {
	count := 0
	eachKafkaPartition(t, func(t *testing.T, p *kafkaPartition) {
		for i, base := range p.bases {
			cache := newHandleCache(p.fs, 4)
			limits, batches := p.limits(t, i), p.batches(t, base)
			index := openOffsetIndex(cache.open(filePath(partsDir, base, indexSuffix), vfs.ReadWrite), base, roomyIndex, limits)
			times := openTimeIndex(cache.open(filePath(partsDir, base, timeIndexSuffix), vfs.ReadWrite), base, roomyIndex, limits)
			entries, err := index.entries()
			require.NoError(t, err)
			if p.stopped {
				require.Len(t, storedFile(t, p.fs, index.file.path()), entries*indexEntrySize)
			}
			for at := int64(math.MaxInt64); ; {
				e, err := index.lookup(at)
				require.NoError(t, err)
				if e.position == 0 {
					break
				}
				i := slices.IndexFunc(batches, func(b storedBatch) bool { return b.position == e.position })
				require.GreaterOrEqual(t, i, 0, "no batch at %d", e.position)
				require.Equal(t, batches[i].LastOffset(), e.offset)
				at = e.offset - 1
				entries--
				count++
			}
			require.Zero(t, entries)
			requireTimesOf(t, times, batches, p.stopped || i+1 < len(p.bases))
		}
	})
	require.Greater(t, count, 10)
}

// requireTimesOf holds every entry of a time index against the batches of its segment.
func requireTimesOf(t *testing.T, times *timeIndex, batches []storedBatch, sealed bool) {
	t.Helper()
	largestUpTo := func(offset int64) (timestamp int64) {
		timestamp = -1
		for _, b := range batches {
			if b.LastOffset() <= offset {
				timestamp = max(timestamp, b.MaxTimestamp())
			}
		}
		return timestamp
	}
	for at := int64(math.MaxInt64); ; {
		e, err := times.lookup(at)
		require.NoError(t, err)
		if e.timestamp < 0 {
			break
		}
		require.Equal(t, largestUpTo(e.offset), e.timestamp)
		i := slices.IndexFunc(batches, func(b storedBatch) bool { return b.LastOffset() >= e.offset })
		require.Equal(t, e.offset, batches[i].LastOffset())
		require.Equal(t, e.timestamp, batches[i].MaxTimestamp())
		at = e.timestamp - 1
	}
	if last, err := times.last(); sealed {
		require.NoError(t, err)
		require.Equal(t, largestUpTo(math.MaxInt64), last.timestamp)
	}
}

// TestReplayedRecordsGiveKafkasOwnSnapshotsAndTransactionIndexes lets our producer state take in Kafka's records and
// compares it with what Kafka wrote down of its own state on the way.
func TestReplayedRecordsGiveKafkasOwnSnapshotsAndTransactionIndexes(t *testing.T) {
	compared, aborted := 0, 0
	eachKafkaPartition(t, func(t *testing.T, p *kafkaPartition) {
		snapshots := p.contentsOf(t, snapshotSuffix)
		state := newProducerState()
		compare := func(offset int64) {
			data, found := snapshots[offset]
			if !found {
				return
			}
			want, err := decodeSnapshot("x", data)
			require.NoError(t, err)
			slices.SortFunc(want, func(a, b ProducerSnapshotEntry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
			require.Equal(t, want, state.snapshotEntries(), "at %d", offset)
			compared++
		}
		for _, base := range p.bases {
			var ended []AbortedTxn
			for _, b := range p.batches(t, base) {
				done, closed, err := state.replay(b.Batch)
				require.NoError(t, err)
				if closed && done.aborted {
					ended = append(ended, done.AbortedTxn)
				}
				compare(b.NextOffset())
			}
			require.Equal(t, string(p.contentsOf(t, txnIndexSuffix)[base]), string(txnBytes(ended...)), "segment %d", base)
			aborted += len(ended)
		}
	})
	require.Greater(t, compared, 8)
	require.Positive(t, aborted)
}

// TestF16_KafkasLogWithoutSnapshotsGivesTheSameProducers opens Kafka's directories with and without its snapshots.
func TestF16_KafkasLogWithoutSnapshotsGivesTheSameProducers(t *testing.T) {
	eachKafkaPartition(t, func(t *testing.T, p *kafkaPartition) {
		open := func(fsys vfs.FS) []ProducerSnapshotEntry {
			b := makeBench(t, fsys)
			c := DefaultConfig()
			c.ProducerExpirationMs = math.MaxInt64
			l, err := Open(b.env, partsDir, Options{Config: c, Foreign: true})
			require.NoError(t, err)
			require.Empty(t, l.Check())
			producers := l.ProducerStateSnapshot()
			require.NoError(t, b.env.Close())
			return producers
		}
		bare := newPartsFS(t)
		for _, name := range p.names {
			if _, ok := parseSnapshotName(name); !ok {
				storeFile(t, bare, partsDir+"/"+name, storedFile(t, p.fs, partsDir+"/"+name))
			}
		}
		require.Equal(t, open(p.fs), open(bare))
	})
}

// TestRecoveryMakesKafkasIndexesAgain empties the indexes of segments that one life of the broker wrote and lets recovery
// make them. A segment that a second life went on with has its entries elsewhere, because a process counts the bytes up
// to the next entry from where it opened the segment.
func TestRecoveryMakesKafkasIndexesAgain(t *testing.T) {
	compared := 0
	eachKafkaPartition(t, func(t *testing.T, p *kafkaPartition) {
		if !p.stopped || p.name != "mixed-0" && p.name != "trimmed-0" {
			return
		}
		want := make(map[string]string)
		for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
			for base, data := range p.contentsOf(t, suffix) {
				want[fmt.Sprint(base, suffix)] = string(data)
				storeFile(t, p.fs, filePath(partsDir, base, suffix), nil)
			}
		}
		b := makeBench(t, p.fs)
		c := DefaultConfig()
		c.IndexIntervalBytes = 512
		_, err := Open(b.env, partsDir, Options{Config: c, Foreign: true})
		require.NoError(t, err)
		require.NoError(t, b.env.Close())
		for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
			for base, data := range p.contentsOf(t, suffix) {
				require.Equal(t, want[fmt.Sprint(base, suffix)], string(data), "%d%s", base, suffix)
				compared++
			}
		}
	})
	require.Positive(t, compared)
}
