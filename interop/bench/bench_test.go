package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/batch"
)

func TestProcessorTimeIsReadWhateverTheProcessIsCalled(t *testing.T) {
	got, err := parseStat("42 (a) b ( c)) S 1 42 42 0 -1 4194304 100 0 0 0 150 25 7 8 20 0 12 0 100 1000 50\n")
	require.NoError(t, err)
	require.Equal(t, 1750*time.Millisecond, got)
	_, err = parseStat("42 (short) S 1")
	require.Error(t, err)
	own, err := ownTime()
	require.NoError(t, err)
	require.GreaterOrEqual(t, own, time.Duration(0))
}

func TestPeakMemoryIsInBytes(t *testing.T) {
	got, err := parsePeak("VmPeak:\t  999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n")
	require.NoError(t, err)
	require.Equal(t, int64(2<<20), got)
	_, err = parsePeak("VmRSS:\t 1 kB\n")
	require.Error(t, err)
}

func TestAPeakOfMemoryIsForgotten(t *testing.T) {
	const large = 64 << 20
	b, err := syscall.Mmap(-1, 0, large, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_POPULATE)
	require.NoError(t, err)
	require.NoError(t, syscall.Munmap(b))
	before, err := peakMemory(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, forgetPeak(os.Getpid()))
	after, err := peakMemory(os.Getpid())
	require.NoError(t, err)
	require.Less(t, after, before)
}

func TestEveryRowIsAMedianWithItsSpread(t *testing.T) {
	second := func(records int64, cpu time.Duration) phase {
		return phase{records: records, elapsed: time.Second, serverCPU: cpu, clientCPU: 2 * cpu, peak: records << 10}
	}
	var r results
	for i, v := range []*variant{{title: "A"}, {title: "B"}, {title: "A"}, {title: "B"}, {title: "A"}, {title: "B"}} {
		r.add(v, workloads[0], 12, second(1000*int64(i+1), 10*time.Millisecond), second(2_000_000, time.Second))
	}
	table := r.table()
	require.Contains(t, table, "| 1 KiB, uncompressed, 12 partitions | produce | A | 3,000 (1,000 – 5,000) | 3.33 (2.00 – 10.00) | 6.67 (4.00 – 20.00) | 3 (1 – 5) |\n"+
		"| 1 KiB, uncompressed, 12 partitions | produce | B | 4,000 (2,000 – 6,000) | 2.50 (1.67 – 5.00) | 5.00 (3.33 – 10.00) | 4 (2 – 6) |\n"+
		"| 1 KiB, uncompressed, 12 partitions | consume | A | 2,000,000 (2,000,000 – 2,000,000) | 0.50 (0.50 – 0.50) | 1.00 (1.00 – 1.00) | 1953 (1953 – 1953) |\n")
}

func TestTheTableReplacesOnlyWhatStandsBetweenTheMarkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n<!-- bench:throughput begin -->\nold\n<!-- bench:throughput end -->\nafter\n"), 0o644))
	require.NoError(t, replaceSection(path, "throughput", "new\n"))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n<!-- bench:throughput begin -->\n\nnew\n\n<!-- bench:throughput end -->\nafter\n", string(got))

	require.NoError(t, os.WriteFile(path, []byte("no markers\n"), 0o644))
	require.ErrorContains(t, replaceSection(path, "throughput", "new\n"), "bench:throughput begin")
}

func TestTheClientMovesEveryRecordThroughTheSink(t *testing.T) {
	variants, stop, err := startVariants(t.Context(), []string{"null"}, t.TempDir())
	defer stop()
	require.NoError(t, err)
	for _, w := range workloads {
		produced, consumed, err := measure(t.Context(), variants[0], nil, w, 3, 100*time.Millisecond, "t-"+w.slug)
		require.NoError(t, err)
		require.Positive(t, produced.records)
		require.GreaterOrEqual(t, consumed.records, produced.records)
	}
}

func TestAnUnknownServerIsRefused(t *testing.T) {
	_, stop, err := startVariants(t.Context(), []string{"redpanda"}, t.TempDir())
	defer stop()
	require.ErrorContains(t, err, `no server is called "redpanda"`)
}

func TestAProcessIsSeenWithItsDescriptorsThreadsAndWakeUps(t *testing.T) {
	p, err := look(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, p.resident)
	require.Positive(t, p.descriptors)
	require.Positive(t, p.threads)
	require.Positive(t, p.switches)
	n, err := statusField("VmRSS:\t 12 kB\nvoluntary_ctxt_switches:\t34\n", "voluntary_ctxt_switches")
	require.NoError(t, err)
	require.Equal(t, int64(34), n)
}

func TestAServerAtRestIsMeasuredStepByStep(t *testing.T) {
	table, err := measureGroups(t.Context(), groupOptions{
		partitions: 9, groups: 3, settle: time.Millisecond, idle: time.Millisecond, dir: t.TempDir(), command: "bench groups",
	})
	require.NoError(t, err)
	require.Contains(t, table, "| 9 partitions, a record in each | ")
	require.Contains(t, table, "| and 3 groups with committed offsets | ")
	require.Contains(t, table, "| and a connected member in each group | ")
}

func TestTheFloorStoresWhatItIsSentAndForgetsATopic(t *testing.T) {
	dir := t.TempDir()
	s, err := startSink(&floor{dir: dir, files: map[string]*floorFile{}})
	require.NoError(t, err)
	defer s.stop()
	v := &variant{name: "floor", process: "floor", addr: s.addr(), pid: os.Getpid()}
	require.NoError(t, createTopic(t.Context(), v, "t", 1))
	sent, err := produce(t.Context(), v, workloads[0], "t", 100*time.Millisecond)
	require.NoError(t, err)

	file, err := os.ReadFile(filepath.Join(dir, "t-0"))
	require.NoError(t, err)
	stored := int64(0)
	for rest := file; len(rest) > 0; {
		b, after, err := batch.Next(rest)
		require.NoError(t, err)
		require.Equal(t, stored, b.BaseOffset())
		require.NoError(t, b.VerifyCRC())
		stored, rest = stored+int64(b.Count()), after
	}
	require.Equal(t, sent, stored)

	require.NoError(t, deleteTopic(t.Context(), v, "t"))
	_, err = os.Stat(filepath.Join(dir, "t-0"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, s.failed())
}

func TestThePageCacheIsFilledUntilSoMuchMemoryIsFree(t *testing.T) {
	cache, err := newPageCache(t.TempDir())
	require.NoError(t, err)
	free, err := freeMemory()
	require.NoError(t, err)
	cache.leave = free + 1
	require.NoError(t, cache.fill(t.Context()))
	require.Zero(t, cache.next)
	cache.leave = max(free-256<<20, 0)
	require.NoError(t, cache.fill(t.Context()))
	require.Positive(t, cache.next)
	require.NoError(t, cache.close())
}

func TestBareSyncsAreTimedAndLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	l, err := bareSyncs(t.Context(), filepath.Join(dir, "bare"), 20*time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, l.p50)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestASampleBelongsToTheFirstCauseOfAnyOfItsFrames(t *testing.T) {
	var p profile
	require.NoError(t, p.count(strings.NewReader(`
	ffffffff81000000 copy_page_from_iter_atomic
	ffffffff81000001 __x64_sys_pwrite64
	          4a0000 runtime.entersyscall

	          4a0001 hash/crc32.castagnoliSSE42
	          4a0002 github.com/tidemark-io/tidemark/batch.Check

	          4a0003 main.main
	          4a0004 [unknown]
`)))
	want := make([]int, len(causes))
	for i, c := range causes {
		switch c.title {
		case "copying into the page cache (`pwrite`)", "checksum (CRC-32C)", "everything else":
			want[i] = 1
		}
	}
	require.Equal(t, want, p.of)
	require.Equal(t, 3, p.samples)
}
