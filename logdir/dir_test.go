package logdir_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func open(t *testing.T, fsys vfs.FS) *logdir.Dir {
	t.Helper()
	d, err := logdir.Open(fsys, "data")
	require.NoError(t, err)
	return d
}

func put(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	require.NoError(t, vfs.WriteFileAtomic(fsys, name, []byte(content)))
}

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(data)
}

func names(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fsys.List(dir)
	require.NoError(t, err)
	all := []string{}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func topicID(last byte) logdir.UUID { return logdir.UUID{15: last} }

func TestOpeningMakesWhatAKafkaBrokerMakes(t *testing.T) {
	m := memfs.New()
	d, err := logdir.Open(m, "srv/./data/")
	require.NoError(t, err)
	require.Equal(t, "srv/data", d.Path())
	require.Equal(t, []string{
		".lock",
		"cleaner-offset-checkpoint",
		"log-start-offset-checkpoint",
		"recovery-point-offset-checkpoint",
		"replication-offset-checkpoint",
	}, names(t, m, "srv/data"))
	_, err = m.CrashClean().Stat("srv/data")
	require.NoError(t, err, "the directory is durable")
	for _, o := range []*logdir.Offsets{d.RecoveryPoints(), d.LogStarts(), d.HighWatermarks(), d.CleanerOffsets()} {
		offsets, err := o.Load()
		require.NoError(t, err)
		require.Empty(t, offsets)
	}
	_, err = d.Meta()
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestADirectoryHasOneOwner(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	_, err := logdir.Open(m, "data")
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.EqualError(t, err, "open data directory: lock data/.lock: file is locked by another owner")
	require.NoError(t, d.Close())
	require.NoError(t, open(t, m).Close())
}

func TestAfterCloseNothingIsWritten(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Close(), fs.ErrClosed)
	other := open(t, m)
	defer other.Close()
	before := names(t, m, "data")
	p := logdir.Partition{Topic: "orders"}
	_, takeErr := d.TakeCleanShutdown()
	_, metaErr := d.Meta()
	_, scanErr := d.Scan()
	_, loadErr := d.LogStarts().Load()
	_, createErr := d.CreatePartition(p, topicID(1))
	_, retireErr := d.Retire(logdir.DirName{Partition: p}, logdir.Delete)
	d.MarkLoaded()
	for _, err := range []error{
		takeErr, metaErr, scanErr, loadErr, createErr, retireErr,
		d.WriteMeta(logdir.Meta{ClusterID: "c"}),
		d.WriteCleanShutdown(1),
		d.LogStarts().Update(map[logdir.Partition]int64{p: 1}),
		d.Promote(logdir.DirName{Role: logdir.Future, Partition: p}),
		d.RemoveRetired(logdir.DirName{Role: logdir.Delete, Partition: p, ID: "x"}),
	} {
		require.ErrorIs(t, err, fs.ErrClosed)
	}
	require.Equal(t, before, names(t, m, "data"))
}

func TestOpeningRemovesHalfWrittenFilesAndNothingElse(t *testing.T) {
	m := memfs.New()
	require.NoError(t, open(t, m).Close())
	for _, name := range []string{"meta.properties.tmp", "recovery-point-offset-checkpoint.tmp", ".kafka_cleanshutdown.tmp", "tidemark.closed-logs.tmp", "mine.tmp"} {
		put(t, m, "data/"+name, "half")
	}
	put(t, m, "data/log-start-offset-checkpoint", "0\n1\norders 3 4711\n")
	d := open(t, m)
	require.Equal(t, []string{
		".lock",
		"cleaner-offset-checkpoint",
		"log-start-offset-checkpoint",
		"mine.tmp",
		"recovery-point-offset-checkpoint",
		"replication-offset-checkpoint",
	}, names(t, m, "data"))
	offsets, err := d.LogStarts().Load()
	require.NoError(t, err)
	require.Equal(t, map[logdir.Partition]int64{{Topic: "orders", Index: 3}: 4711}, offsets)
}

func TestAFailedOpenGivesTheLockBack(t *testing.T) {
	m := memfs.New()
	for n := 0; ; n++ {
		disk := faultfs.New(m, faultfs.FailNth(n, syscall.EIO))
		d, err := logdir.Open(disk, "data")
		if err == nil {
			disk.SetInjector(nil)
			require.NoError(t, d.Close())
			break
		}
		require.ErrorIs(t, err, syscall.EIO)
		require.NoError(t, open(t, m).Close(), "after call %d failed", n)
	}
}

func TestMetaIsWrittenDurablyAndReadBack(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	want := logdir.Meta{ClusterID: "a cluster = ours", NodeID: 3, DirectoryID: logdir.NewUUID()}
	require.NoError(t, d.WriteMeta(want))
	got, err := open(t, m.CrashClean()).Meta()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Error(t, d.WriteMeta(logdir.Meta{NodeID: 1}))
	require.Error(t, d.WriteMeta(logdir.Meta{ClusterID: "c", NodeID: -1}))
	require.Error(t, d.WriteMeta(logdir.Meta{ClusterID: "c", DirectoryID: topicID(1)}), "a reserved id")
}

func TestAMetaFileThatCannotBeReadIsNotReplaced(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	put(t, m, "data/meta.properties", "version=2\n")
	_, err := d.Meta()
	want := &logdir.VersionError{File: "data/meta.properties", Found: 2, Newest: 1}
	require.Equal(t, want, err)
	require.Equal(t, want, d.WriteMeta(logdir.Meta{ClusterID: "c"}))
	put(t, m, "data/meta.properties", "version=1\n")
	var damage *logdir.FormatError
	require.ErrorAs(t, d.WriteMeta(logdir.Meta{ClusterID: "c"}), &damage)
	require.Equal(t, "data/meta.properties", damage.File)
	require.Equal(t, "version=1\n", content(t, m, "data/meta.properties"))
}

func TestTheCleanShutdownMarkerIsTakenBeforeLoadingAndLeftAtTheEnd(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	found, err := d.TakeCleanShutdown()
	require.NoError(t, err)
	require.Equal(t, logdir.CleanShutdown{BrokerEpoch: -1}, found)
	require.ErrorIs(t, d.WriteCleanShutdown(5), logdir.ErrNotLoaded)
	d.MarkLoaded()
	require.NoError(t, d.WriteCleanShutdown(5))
	require.Equal(t, `{"version":0,"brokerEpoch":5}`, content(t, m, "data/.kafka_cleanshutdown"))

	m = m.CrashClean()
	d = open(t, m)
	for range 2 {
		found, err = d.TakeCleanShutdown()
		require.NoError(t, err)
		require.Equal(t, logdir.CleanShutdown{Clean: true, BrokerEpoch: 5}, found)
	}

	crashed := open(t, m.CrashClean())
	found, err = crashed.TakeCleanShutdown()
	require.NoError(t, err)
	require.False(t, found.Clean, "a process that crashed after it took the marker was not clean")

	require.NoError(t, d.WriteCleanShutdown(6), "stopped while loading: what was clean is clean still")
}

func TestAnEmptyMarkerOfAnOldBrokerCounts(t *testing.T) {
	m := memfs.New()
	require.NoError(t, open(t, m).Close())
	put(t, m, "data/.kafka_cleanshutdown", "")
	found, err := open(t, m).TakeCleanShutdown()
	require.NoError(t, err)
	require.Equal(t, logdir.CleanShutdown{Clean: true, BrokerEpoch: -1}, found)
}

// Whatever fails while the marker is taken, a process that goes on must never leave one that the next owner believes.
func TestAMarkerThatWasNotTakenDurablyIsNeverBelieved(t *testing.T) {
	for n := 0; ; n++ {
		m := memfs.New()
		require.NoError(t, open(t, m).Close())
		put(t, m, "data/.kafka_cleanshutdown", "")
		disk := faultfs.New(m, nil)
		d := open(t, disk)
		before := disk.Calls()
		disk.SetInjector(faultfs.FailNth(n, syscall.EIO))
		found, err := d.TakeCleanShutdown()
		if disk.Calls()-before <= n {
			require.NoError(t, err)
			require.True(t, found.Clean)
			break
		}
		if err == nil {
			continue // closing the file after reading it
		}
		require.ErrorIs(t, err, syscall.EIO)
		disk.SetInjector(nil)
		_, err = d.TakeCleanShutdown() // the second attempt
		require.NoError(t, err)
		after, err := open(t, m.CrashClean()).TakeCleanShutdown()
		require.NoError(t, err)
		require.False(t, after.Clean, "after call %d failed", n)
	}
}

func TestScanTellsWhatEachNameIs(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	orders := logdir.Partition{Topic: "orders", Index: 3}
	for _, dir := range []string{"orders-3", "orders-3.0123-delete", "orders-3.0123-future", "orders-3.0123-stray", "lost+found", "remote-log-index-cache"} {
		require.NoError(t, m.MkdirAll("data/"+dir))
	}
	put(t, m, "data/meta.properties", "")
	put(t, m, "data/.kafka_cleanshutdown", "")
	put(t, m, "data/meta.properties.tmp", "")
	put(t, m, "data/orders-4", "a file that looks like a partition")
	put(t, m, "data/tidemark.closed-logs", "")
	put(t, m, "data/quarantine.20261130T120000.000Z.json", "what was kept aside")
	entries, err := d.Scan()
	require.NoError(t, err)
	require.EqualError(t, entries[4].Err, `directory name "lost+found" is not topic-partition`)
	entries[4].Err = nil
	dir := func(name string, role logdir.Role, id string) logdir.Entry {
		return logdir.Entry{Kind: logdir.PartitionEntry, Name: name, Dir: logdir.DirName{Role: role, Partition: orders, ID: id}}
	}
	require.Equal(t, []logdir.Entry{
		{Kind: logdir.SharedEntry, Name: ".kafka_cleanshutdown"},
		{Kind: logdir.SharedEntry, Name: ".lock"},
		{Kind: logdir.SharedEntry, Name: "cleaner-offset-checkpoint"},
		{Kind: logdir.SharedEntry, Name: "log-start-offset-checkpoint"},
		{Kind: logdir.UnknownDir, Name: "lost+found"},
		{Kind: logdir.SharedEntry, Name: "meta.properties"},
		{Kind: logdir.SharedEntry, Name: "meta.properties.tmp"},
		dir("orders-3", logdir.Current, ""),
		dir("orders-3.0123-delete", logdir.Delete, "0123"),
		dir("orders-3.0123-future", logdir.Future, "0123"),
		dir("orders-3.0123-stray", logdir.Stray, "0123"),
		{Kind: logdir.UnknownFile, Name: "orders-4"},
		{Kind: logdir.QuarantineEntry, Name: "quarantine.20261130T120000.000Z.json"},
		{Kind: logdir.SharedEntry, Name: "recovery-point-offset-checkpoint"},
		{Kind: logdir.IndexCacheEntry, Name: "remote-log-index-cache"},
		{Kind: logdir.SharedEntry, Name: "replication-offset-checkpoint"},
		{Kind: logdir.SharedEntry, Name: "tidemark.closed-logs"},
	}, entries)
}

func TestWhatEachWriteAsksOfTheDisk(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	d := open(t, disk)
	trace := disk.Trace(faultfs.Writes)
	orders := logdir.Partition{Topic: "orders", Index: 3}

	require.NoError(t, d.HighWatermarks().Update(map[logdir.Partition]int64{orders: 7}))
	require.Equal(t, `create data/replication-offset-checkpoint.tmp empty
write data/replication-offset-checkpoint.tmp 0+15
sync data/replication-offset-checkpoint.tmp
rename data/replication-offset-checkpoint.tmp -> data/replication-offset-checkpoint
syncdir data
`, trace.String())
	trace.Reset()
	require.NoError(t, d.HighWatermarks().Update(map[logdir.Partition]int64{orders: 7}, logdir.Partition{Topic: "none"}))
	require.Empty(t, trace.String(), "nothing changed, nothing is written")

	_, err := d.CreatePartition(orders, topicID(7))
	require.NoError(t, err)
	require.Equal(t, `mkdirall data/orders-3
create data/orders-3/partition.metadata.tmp empty
write data/orders-3/partition.metadata.tmp 0+43
sync data/orders-3/partition.metadata.tmp
rename data/orders-3/partition.metadata.tmp -> data/orders-3/partition.metadata
syncdir data/orders-3
syncdir data
`, trace.String())
	trace.Reset()
	_, err = d.TakeCleanShutdown()
	require.NoError(t, err)
	require.Equal(t, "remove data/tidemark.closed-logs: file does not exist\nsyncdir data\n", trace.String())
}

func TestErrorsNameTheFile(t *testing.T) {
	disk := faultfs.New(memfs.New(), nil)
	d := open(t, disk)
	disk.SetInjector(faultfs.FailMatching(faultfs.OpList, "data", syscall.EIO))
	_, err := d.Scan()
	require.EqualError(t, err, "list data: input/output error")
	disk.SetInjector(faultfs.FailMatching(faultfs.OpOpen, "meta.properties", syscall.EIO))
	_, err = d.Meta()
	require.EqualError(t, err, "open data/meta.properties: input/output error")
	require.False(t, errors.Is(err, fs.ErrNotExist))
}
