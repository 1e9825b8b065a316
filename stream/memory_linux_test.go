//go:build !race

package stream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
	"github.com/tidemark-io/tidemark/vfs"
)

// memoryVariable has the directory of the bucket for [TestTheMemoryChild].
const memoryVariable = "TIDEMARK_TEST_MEMORY"

// memoryLimit is GOMEMLIMIT of that process, in MiB; its caches are half of that. What the kernel counts has the program's
// text, stacks and what the collector has not given back too.
const memoryLimit, memoryPeak = 192, 320

// The race detector takes several times the memory of the program, so this file is not in its builds; make test runs it without.

// TestF62_TinyRecordsSlowPutsAndManyReadersStayInTheirMemory: a process of its own writes records of ten bytes as fast as it is
// let, over a bucket whose puts are slow, while 20 readers go through all streams from the earliest record on. It is pushed
// back, and nothing fails.
func TestF62_TinyRecordsSlowPutsAndManyReadersStayInTheirMemory(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestTheMemoryChild$", "-test.v")
	child.Env = append(os.Environ(), memoryVariable+"="+t.TempDir(), fmt.Sprintf("GOMEMLIMIT=%dMiB", memoryLimit))
	output, err := child.CombinedOutput()
	require.NoError(t, err, string(output))
	t.Log(string(output))
	_, text, _ := strings.Cut(string(output), "peak MiB: ")
	peak, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]))
	require.NoError(t, err)
	require.Less(t, peak, memoryPeak)
}

// TestTheMemoryChild is the process that the test above starts. On its own it does nothing.
func TestTheMemoryChild(t *testing.T) {
	root := os.Getenv(memoryVariable)
	if root == "" {
		return
	}
	store, err := dir.Open(vfs.OS(), root)
	require.NoError(t, err)
	defer store.Close()
	slow := faultstore.New(store, faultstore.When(faultstore.Writes, faultstore.Always(faultstore.Fault{
		Hook: func(ctx context.Context) {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		},
	})))
	config := stream.DefaultConfig()
	config.WALBatchInterval = 5 * time.Millisecond
	config.WALMaxUnflushed, config.CacheWALSize = 16<<20, 32<<20
	config.CacheBlockSize, config.CacheIndexSize = 16<<20, 4<<20
	config.UploadThreshold, config.ObjectPartSize = 8<<20, 5<<20
	e, err := stream.Open(t.Context(), stream.Options{
		Catalog: catalogtest.NewMemory(time.Now), Node: 1, Cluster: "memory", WAL: store, Data: slow, Proof: time.Now, Config: config,
	})
	require.NoError(t, err)
	first, err := e.CreateStreams(t.Context(), 10)
	require.NoError(t, err)
	var streams []*stream.Stream
	for i := range 10 {
		s, err := e.OpenStream(t.Context(), first+catalog.StreamID(i), 1)
		require.NoError(t, err)
		streams = append(streams, s)
	}
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()
	var all sync.WaitGroup
	var written, read atomic.Int64
	for _, s := range streams {
		all.Go(func() { // as fast as it is admitted, hundreds on their way
			for ctx.Err() == nil {
				a, err := e.Admit(ctx, 1, 10)
				if err != nil {
					break
				}
				_, err = s.Submit(a, 1, []byte("ten bytes."))
				a.Release()
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				written.Add(1)
			}
		})
	}
	for range 20 {
		all.Go(func() {
			for ctx.Err() == nil {
				s := streams[rand.IntN(len(streams))]
				for at := s.Start(); ctx.Err() == nil; {
					got, err := s.Fetch(ctx, stream.FetchRequest{Start: at, End: s.Confirm(), MaxBytes: 1 << 20})
					if err != nil && ctx.Err() == nil {
						t.Errorf("fetch: %v", err)
						return
					}
					if len(got.Records) == 0 {
						break
					}
					read.Add(int64(len(got.Records)))
					at = got.Records[len(got.Records)-1].End()
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, e.Err())
	require.NoError(t, e.Close(t.Context()))
	fmt.Printf("%d records written, %d read\n", written.Load(), read.Load())
	fmt.Printf("peak MiB: %d\n", peakMemory(t)>>10)
}

// peakMemory is the most memory that this process has had, in KiB, as the kernel counts it.
func peakMemory(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, line, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	peak, err := strconv.Atoi(strings.Fields(line)[0])
	require.NoError(t, err)
	return peak
}
