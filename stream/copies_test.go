package stream_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/vfs"
)

// In this file F45 is the row of the failure matrix: the file of the metadata was copied, and the copy is opened elsewhere over
// the same bucket. Both processes are the same node, hand out the same ids, and know nothing of each other but what they find
// in the bucket.

// twin is one of the processes.
type twin struct {
	*bench
	*stream.Engine
	streams map[catalog.StreamID]*stream.Stream
	closed  func() // gives the metadata and the bucket back
}

// openTwin opens an engine over the metadata in a directory. Nothing happens in it by itself.
func (b *bench) openTwin(metadata string) *twin {
	b.Helper()
	own, closed := openMetadata(b.Context(), b, metadata, time.Now)
	t := &twin{bench: &bench{T: b.T, root: b.root, metadata: metadata, catalog: own, trims: map[catalog.StreamID]int64{}, streams: b.streams}, streams: map[catalog.StreamID]*stream.Stream{}}
	store, err := dir.Open(vfs.OS(), b.root)
	require.NoError(b, err)
	config := processConfig()
	config.UploadInterval, config.CompactInterval, config.GCInterval = time.Hour, time.Hour, time.Hour
	config.WALTrimPersist = time.Hour
	config.GCGrace = time.Millisecond
	t.Engine, err = stream.Open(b.Context(), stream.Options{
		Catalog: own, Node: 1, Cluster: "processes", WAL: store, Data: store, Proof: time.Now, Config: config,
	})
	require.NoError(b, err)
	t.closed = sync.OnceFunc(func() {
		_ = store.Close()
		closed()
	})
	b.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = t.Close(ended)
		t.closed()
	})
	return t
}

// stop ends a process cleanly.
func (t *twin) stop() {
	t.Helper()
	require.NoError(t, t.Close(t.Context()))
	t.closed()
}

func (b *bench) copyMetadata() (metadata string) {
	b.Helper()
	metadata = b.TempDir()
	data, err := os.ReadFile(filepath.Join(b.metadata, "meta.db")) // nobody writes to it meanwhile
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(filepath.Join(metadata, "meta.db"), data, 0o600))
	return metadata
}

// work appends to all streams and uploads, some times, so that there is something to compact. Each round's rows are in
// stream-set objects, and the last stream's in objects of their own.
func (t *twin) work(rounds int) {
	t.Helper()
	for range rounds {
		for i, id := range t.bench.streams {
			if t.streams[id] == nil {
				t.streams[id] = t.openStream(t.Engine, id)
			}
			t.appendTo(t.streams[id], 500+i%8*3000)
		}
		require.NoError(t, t.Upload(t.Context()))
	}
}

// maintain compacts and cleans, and returns the first error.
func (t *twin) maintain() error {
	if err := t.Compact(t.Context()); err != nil {
		return err
	}
	start := time.Now()
	for time.Since(start) < 5*time.Millisecond { // the grace of what was compacted
		<-time.After(time.Millisecond)
	}
	return t.Clean(t.Context())
}

// isWhole finds everything that the process acknowledged, and nothing wrong in the bucket by its metadata but what the other
// one has left.
func (t *twin) isWhole() {
	t.Helper()
	require.NoError(t, t.Engine.Err())
	for _, s := range t.streams {
		require.NoError(t, s.Close(t.Context()))
	}
	t.verify(t.Engine)
	store, err := dir.Open(vfs.OS(), t.root)
	require.NoError(t, err)
	defer store.Close()
	for f, err := range stream.Check(t.Context(), stream.CheckOptions{
		Catalog: t.catalog, WAL: store, Data: store, Cluster: "processes", Deep: true,
	}) {
		require.NoError(t, err)
		require.Contains(t, []stream.FindingKind{stream.FoundOrphan, stream.FoundFutureObject, stream.FoundLeftover}, f.Kind, "%s", f)
	}
}

// TestF45_ACopyThatTookOverIsNotHarmedByTheIdleOriginal: the copy is opened while the original runs, which fences
// that. The original, idle since, does everything that could harm: it has rows to upload, objects to compact under ids that
// the other one has given out too, and objects to delete that the other one still reads.
func TestF45_ACopyThatTookOverIsNotHarmedByTheIdleOriginal(t *testing.T) {
	for name, harm := range map[string]func(original *twin) error{
		"upload": func(original *twin) error {
			err := original.Upload(original.Context())
			if err == nil { // what was recovered and written there is the same here
				return original.maintain()
			}
			return err
		},
		"compaction": func(original *twin) error { return original.maintain() },
		"cleaning": func(original *twin) error {
			if err := original.Clean(original.Context()); err != nil {
				return err
			}
			return original.maintain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newLonelyBench(t)
			original := b.openTwin(b.metadata)
			original.work(4)
			for _, s := range original.streams { // rows that only the log has
				original.appendTo(s, 700)
			}
			successor := original.openTwin(original.copyMetadata())
			successor.acked = original.acked
			successor.work(3)
			require.Error(t, harm(original))
			require.ErrorIs(t, original.Engine.Err(), stream.ErrWALFailed, "it has found out")
			require.NoError(t, successor.maintain(), "which has its ids for itself")
			successor.work(2)
			successor.isWhole()
		})
	}
}

// TestF45_OfTwoCopiesThatOpenTheSameEpochOneGoesOn: the file was copied after a clean stop, and both are opened under the same
// epoch. The one that appends first has the log; the other one, whatever it does next, harms nothing and ends.
func TestF45_OfTwoCopiesThatOpenTheSameEpochOneGoesOn(t *testing.T) {
	for name, next := range map[string]func(t *twin) error{
		"append": func(t *twin) error {
			s := t.openStream(t.Engine, t.bench.streams[0])
			_, err := s.Append(t.Context(), 1, []byte("too late"))
			return err
		},
		"compaction": func(t *twin) error { return t.maintain() },
		"cleaning":   func(t *twin) error { return t.Clean(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newLonelyBench(t)
			before := b.openTwin(b.metadata)
			before.work(4)
			require.NoError(t, before.Compact(t.Context())) // there is something to clean
			before.stop()
			copied := b.copyMetadata()
			first, second := b.openTwin(b.metadata), b.openTwin(copied)
			require.Equal(t, first.Node(), second.Node())
			first.acked = before.acked
			first.work(2)
			require.Error(t, next(second))
			require.ErrorIs(t, second.Engine.Err(), stream.ErrWALFailed)
			require.NoError(t, first.maintain())
			first.work(2)
			first.isWhole()
		})
	}
}
