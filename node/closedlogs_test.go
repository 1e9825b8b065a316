package node_test

import (
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

const closedLogsFile = nodetest.DataDir + "/tidemark.closed-logs"

// countReads counts the bytes of records that starts of the machine read, each from 0.
func countReads(m *nodetest.Machine) *atomic.Int64 {
	read := new(atomic.Int64)
	m.Wrap = func(base vfs.FS) vfs.FS {
		read.Store(0)
		return faultfs.New(base, faultfs.When(faultfs.Matching(faultfs.OpReadAt, "*.log"), func(op faultfs.Op) faultfs.Fault {
			read.Add(op.Len)
			return faultfs.Fault{}
		}))
	}
	return read
}

// withRecords is a machine that runs, with a topic of a few records and one of an index file, and what was acknowledged.
func withRecords(t *testing.T) (m *nodetest.Machine, acked map[position]string) {
	m = machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 2, nil, "young")
	createTopic(t, c, 1, nil, "old")
	acked = map[position]string{}
	for _, value := range []string{"a", "b", "c"} {
		acked[produce(t, c, "young", 0, value)] = value
	}
	large := strings.Repeat("incompressible as far as this test goes", 3000)
	acked[produce(t, c, "old", 0, large)] = large
	c.Close()
	return m, acked
}

// requireRecords starts the machine and asks for everything that was acknowledged, and for one more record of each log.
func requireRecords(t *testing.T, m *nodetest.Machine, acked map[position]string, what any) {
	t.Helper()
	require.Equal(t, acked, consumeAll(t, m, "young", "old"), "%v", what)
	c := client(t, m)
	for _, at := range []position{produce(t, c, "young", 0, "more"), produce(t, c, "young", 1, "more"), produce(t, c, "old", 0, "more")} {
		_, there := acked[at]
		require.False(t, there, "%v: %v was given out before", what, at)
		acked[at] = "more"
	}
	c.Close()
}

// fitAtClosedLogs fits a fuse for the n-th call that changes the disk from the first one on that is about the file of closed logs,
// once it is lit.
func fitAtClosedLogs(m *nodetest.Machine, n int64) *fuse {
	f := &fuse{}
	f.left.Store(n)
	var burns atomic.Bool
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.When(faultfs.Writes, func(op faultfs.Op) faultfs.Fault {
			if f.lit.Load() && strings.HasPrefix(op.Name, closedLogsFile) {
				burns.Store(true)
			}
			if !burns.Load() || f.left.Add(-1) >= 0 {
				return faultfs.Fault{}
			}
			f.blown.Store(true)
			return faultfs.Fault{Err: errPower}
		}))
	}
	return f
}

func consumeAll(t *testing.T, m *nodetest.Machine, topics ...string) map[position]string {
	t.Helper()
	all := map[position]string{}
	for _, topic := range topics {
		for at, value := range consume(t, m, topic) {
			all[at] = value
		}
	}
	return all
}

func TestF37_APowerCutAtTheEndOfAStopLosesNothingThatWasAcknowledged(t *testing.T) {
	for step := int64(0); ; step++ {
		m := machine(t)
		f := fitAtClosedLogs(m, step)
		m.Start()
		c := client(t, m)
		createTopic(t, c, 2, nil, "young")
		createTopic(t, c, 1, nil, "old")
		acked := map[position]string{}
		acked[produce(t, c, "young", 0, "a")] = "a"
		acked[produce(t, c, "old", 0, "b")] = "b"
		c.Close()
		f.lit.Store(true)
		stopped := m.TryStop(t.Context())
		m.CutPower(nodetest.Cut{Seed: uint64(step), Keep: 0.5})
		m.Wrap = nil
		m.Start()
		requireRecords(t, m, acked, step)
		m.Stop()
		m.Start()
		require.Equal(t, acked, consumeAll(t, m, "young", "old"), "step %d", step)
		m.Stop()
		if !f.blown.Load() {
			require.NoError(t, stopped)
			require.GreaterOrEqual(t, step, int64(10), "of this file and of the marker: create, write, sync, rename, sync the directory")
			return
		}
	}
}

func TestF37_APowerCutInAStartAfterACleanStopLosesNothing(t *testing.T) {
	first, kept := withRecords(t)
	first.Stop()
	disk := first.FS
	for step := int64(0); ; step++ {
		m := machine(t)
		m.Meta, m.FS = first.Meta, disk.Crash(memfs.CrashOptions{KeepUnsynced: 1})
		f := fitAtClosedLogs(m, step)
		f.lit.Store(true)
		_, err := m.TryStart(t.Context())
		m.CutPower(nodetest.Cut{Seed: uint64(step), Keep: 0.5})
		m.Wrap = nil
		m.Start()
		acked := map[position]string{}
		for at, value := range kept {
			acked[at] = value
		}
		requireRecords(t, m, acked, step)
		m.CutPower(nodetest.Cut{Seed: uint64(step) + 1000})
		m.Start()
		require.Equal(t, acked, consumeAll(t, m, "young", "old"), "step %d", step)
		m.Stop()
		if err == nil && !f.blown.Load() {
			require.Greater(t, step, int64(2))
			return
		}
	}
}

// What cannot be written of the closed logs costs the next start a look at them.
func TestF10_AStopThatCannotWriteWhatTheLogsAreIsACleanOne(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.OpCreate, faultfs.OpWriteAt, faultfs.OpSync, faultfs.OpRename} {
		m, acked := withRecords(t)
		m.Stop()
		var log said
		m.Config.Log = slog.New(slog.NewTextHandler(&log, nil))
		m.Wrap = func(base vfs.FS) vfs.FS {
			return faultfs.New(base, faultfs.FailMatching(kind, closedLogsFile+".tmp", errPower))
		}
		m.Start()
		m.Stop()
		require.Len(t, linesWith(log.String(), "what is known of the closed logs could not be written"), 1, "%v", kind)
		require.False(t, exists(m.FS, closedLogsFile))
		read := countReads(m)
		m.Start()
		require.Positive(t, read.Load())
		require.Contains(t, metric(t, m, "tidemark_node_unclean_starts_total"), " 0")
		requireRecords(t, m, acked, kind)
		m.Stop()
		m.Start()
		require.Zero(t, read.Load())
	}
}

// A server that does not know the file, such as an earlier version or Apache Kafka, has had the directory in between: it leaves
// the file, and a marker of its own.
func TestF37_ClosedLogsOfAnEarlierStopAreNotBelieved(t *testing.T) {
	m, acked := withRecords(t)
	m.Stop()
	stale, err := vfs.ReadFile(m.FS, closedLogsFile)
	require.NoError(t, err)
	again := func() {
		m.Stop()
		require.NoError(t, vfs.WriteFileAtomic(m.FS, closedLogsFile, stale))
		read := countReads(m)
		m.Start()
		require.Positive(t, read.Load())
	}

	m.Start()
	requireRecords(t, m, acked, "more was appended")
	again()
	requireRecords(t, m, acked, "and the file is that of before")
	m.Stop()
	m.Start()

	// One topic is deleted and made again.
	c := client(t, m)
	deleted, err := kadm.NewClient(c).DeleteTopics(within(t), "young")
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	for at := range acked {
		if at.topic == "young" {
			delete(acked, at)
		}
	}
	createTopic(t, c, 2, nil, "young")
	c.Close()
	again()
	requireRecords(t, m, acked, "the topic is another one")
}

// The directory of a partition is replaced by an older copy while the server is stopped.
func TestF37_ClosedLogsAreNotBelievedOfADirectoryThatWasReplaced(t *testing.T) {
	m, acked := withRecords(t)
	m.Stop()
	files := map[string][]byte{}
	for _, name := range under(tree(t, m.FS, nodetest.DataDir), "young-0/") {
		data, err := vfs.ReadFile(m.FS, name)
		require.NoError(t, err)
		files[name] = data
	}
	m.Start()
	c := client(t, m)
	produce(t, c, "young", 0, "lost with the directory")
	c.Close()
	m.Stop()
	require.NoError(t, vfs.RemoveAll(m.FS, path.Join(nodetest.DataDir, "young-0")))
	require.NoError(t, vfs.EnsureDir(m.FS, path.Join(nodetest.DataDir, "young-0")))
	for name, data := range files {
		require.NoError(t, vfs.WriteFileAtomic(m.FS, name, data))
	}
	read := countReads(m)
	m.Start()
	require.Positive(t, read.Load())
	requireRecords(t, m, acked, "the copy")
}

// A full disk has no room for what is kept of a damaged file, and the file only makes starts quicker.
func TestF10_DamagedClosedLogsOnAFullDiskAreIgnored(t *testing.T) {
	m, acked := withRecords(t)
	m.Stop()
	require.NoError(t, vfs.WriteFileAtomic(m.FS, closedLogsFile, []byte("nothing that was ever written")))
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.FailMatching(faultfs.OpCreate, nodetest.DataDir+"/quarantine.*", syscall.ENOSPC))
	}
	m.Start()
	requireRecords(t, m, acked, "a damaged file")
}

func TestANewerFileOfClosedLogsIsRefusedAndLeft(t *testing.T) {
	m, acked := withRecords(t)
	m.Stop()
	mine, err := vfs.ReadFile(m.FS, closedLogsFile)
	require.NoError(t, err)
	newer := append([]byte("TMCLOSED\x00\x00\x00\x01"), "what nobody knows yet"...)
	require.NoError(t, vfs.WriteFileAtomic(m.FS, closedLogsFile, newer))
	for range 2 {
		_, err = m.TryStart(t.Context())
		require.ErrorContains(t, err, closedLogsFile+": format version 1 is not known here; this build reads version 0")
		there, err := vfs.ReadFile(m.FS, closedLogsFile)
		require.NoError(t, err)
		require.Equal(t, newer, there)
		require.True(t, exists(m.FS, "data/.kafka_cleanshutdown"))
	}
	require.NoError(t, vfs.WriteFileAtomic(m.FS, closedLogsFile, mine))
	read := countReads(m)
	m.Start()
	require.Zero(t, read.Load())
	requireRecords(t, m, acked, "its own file is back")
}
