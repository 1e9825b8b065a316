package logdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestACreatedPartitionIsDurableWithItsTopicID(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	path, err := d.CreatePartition(orders3, topicID(7))
	require.NoError(t, err)
	require.Equal(t, "data/orders-3", path)
	require.Equal(t, path, d.PartitionPath(orders3))
	require.Equal(t, "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw", content(t, m, "data/orders-3/partition.metadata"))
	got, err := logdir.ReadMetadata(m.CrashClean(), path)
	require.NoError(t, err)
	require.Equal(t, logdir.Metadata{TopicID: topicID(7)}, got)
}

func TestCreatingAPartitionAgainCompletesItOrRefusesAnotherTopic(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	require.NoError(t, m.MkdirAll("data/orders-3")) // a crash came before the metadata
	for range 2 {
		_, err := d.CreatePartition(orders3, topicID(7))
		require.NoError(t, err)
	}
	_, err := d.CreatePartition(orders3, topicID(8))
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, "data/orders-3 belongs to topic id AAAAAAAAAAAAAAAAAAAABw, not AAAAAAAAAAAAAAAAAAAACA")
	_, err = d.CreatePartition(orders4, logdir.UUID{})
	require.Error(t, err)
	_, err = d.CreatePartition(logdir.Partition{Topic: "../up"}, topicID(7))
	require.Error(t, err)
	require.Equal(t, []string{"partition.metadata"}, names(t, m, "data/orders-3"))
	_, err = m.Stat("data/orders-4")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestDamagedMetadataIsReportedAndKept(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	_, err := d.CreatePartition(orders3, topicID(7))
	require.NoError(t, err)
	put(t, m, "data/orders-3/partition.metadata", "version: 0\n")
	_, err = d.CreatePartition(orders3, topicID(7))
	require.Equal(t, &logdir.FormatError{File: "data/orders-3/partition.metadata", Reason: "want two lines, found 1"}, err)
	_, err = logdir.ReadMetadata(m, "data/orders-4")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Error(t, logdir.WriteMetadata(m, "data/orders-3", logdir.UUID{}))
}

func TestAPartitionIsRetiredAndRemoved(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	path, err := d.CreatePartition(orders3, topicID(7))
	require.NoError(t, err)
	put(t, m, path+"/00000000000000000000.log", "batch")
	retired, err := d.Retire(logdir.DirName{Partition: orders3}, logdir.Delete)
	require.NoError(t, err)
	require.Regexp(t, `^orders-3\.[0-9a-f]{32}-delete$`, retired.String())
	_, err = d.Retire(logdir.DirName{Partition: orders3}, logdir.Delete)
	require.ErrorIs(t, err, fs.ErrNotExist, "somebody else has done it")

	crashed := m.CrashClean()
	entries, err := open(t, crashed).Scan()
	require.NoError(t, err)
	require.Contains(t, entries, logdir.Entry{Kind: logdir.PartitionEntry, Name: retired.String(), Dir: retired})
	require.Equal(t, "batch", content(t, crashed, "data/"+retired.String()+"/00000000000000000000.log"))

	_, err = d.CreatePartition(orders3, topicID(8))
	require.NoError(t, err, "the name is free at once")
	for range 2 {
		require.NoError(t, d.RemoveRetired(retired))
	}
	_, err = m.CrashClean().Stat("data/" + retired.String())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Error(t, d.RemoveRetired(logdir.DirName{Partition: orders3}), "a current log is not removed")
	_, err = d.Retire(retired, logdir.Current)
	require.Error(t, err)
}

func TestAFutureLogTakesThePlaceOfTheCurrentOne(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	_, err := d.CreatePartition(orders3, topicID(7))
	require.NoError(t, err)
	future := logdir.DirName{Role: logdir.Future, Partition: orders3, ID: logdir.NewUUID().Hex()}
	require.NoError(t, m.MkdirAll("data/"+future.String()))
	put(t, m, "data/"+future.String()+"/x", "moved")
	require.ErrorIs(t, d.Promote(future), fs.ErrExist)
	_, err = d.Retire(logdir.DirName{Partition: orders3}, logdir.Stray)
	require.NoError(t, err)
	require.NoError(t, d.Promote(future))
	require.Equal(t, "moved", content(t, m, "data/orders-3/x"))
}

// The directory's side of F-57: a flush that meets the renaming for deletion must not look like a failed disk, and other
// partitions must not notice. Two hundred partitions are made, written, rolled, flushed and deleted while the flush of
// each runs, next to one that stays and to the periodic writing of checkpoints.
func TestF57_AFlushThatMeetsADeletionIsNoFailure(t *testing.T) {
	for name, disk := range map[string]struct {
		fsys  vfs.FS
		dir   string
		loops int
	}{
		"memfs": {memfs.New(), "data", 200},
		"os":    {vfs.OS(), t.TempDir(), 30},
	} {
		t.Run(name, func(t *testing.T) { deleteUnderFlush(t, disk.fsys, disk.dir, disk.loops) })
	}
}

func deleteUnderFlush(t *testing.T, fsys vfs.FS, dir string, loops int) {
	d, err := logdir.Open(fsys, dir)
	require.NoError(t, err)
	defer d.Close()
	stays, err := d.CreatePartition(payments, topicID(1))
	require.NoError(t, err)
	for i := range loops {
		p := logdir.Partition{Topic: "short-lived", Index: int32(i)}
		path, err := d.CreatePartition(p, topicID(2))
		require.NoError(t, err)
		var wg sync.WaitGroup
		// The flush of the log that is about to go: it opened its files before and rolls once.
		first, err := fsys.Open(path+"/00000000000000000000.log", vfs.CreateNew)
		require.NoError(t, err)
		second, err := fsys.Open(path+"/00000000000000000009.log", vfs.CreateNew)
		require.NoError(t, err)
		wg.Go(func() {
			for _, f := range []vfs.File{first, second} {
				_, writeErr := f.WriteAt([]byte("batch"), 0)
				if err := errors.Join(writeErr, f.Sync(), f.Close()); err != nil {
					t.Error("flush:", err)
				}
			}
			if err := fsys.SyncDir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error("flush of the directory:", err)
			}
		})
		// The deletion, twice at once as by a controller and an operator.
		for range 2 {
			wg.Go(func() {
				retired, err := d.Retire(logdir.DirName{Partition: p}, logdir.Delete)
				if errors.Is(err, fs.ErrNotExist) {
					return
				}
				if err := errors.Join(err, d.RemoveRetired(retired), d.RecoveryPoints().Update(nil, p)); err != nil {
					t.Error("deletion:", err)
				}
			})
		}
		// The others.
		wg.Go(func() {
			f, err := fsys.Open(stays+"/00000000000000000000.log", vfs.Create)
			if err != nil {
				t.Error(err)
				return
			}
			_, writeErr := f.WriteAt([]byte("x"), int64(i))
			_, scanErr := d.Scan()
			err = errors.Join(writeErr, scanErr, f.Sync(), f.Close(), fsys.SyncDir(stays),
				d.RecoveryPoints().Update(map[logdir.Partition]int64{payments: int64(i + 1)}))
			if err != nil {
				t.Error("another partition:", err)
			}
		})
		wg.Wait()
	}
	require.Equal(t, offsets{payments: int64(loops)}, load(t, d.RecoveryPoints()))
	entries, err := d.Scan()
	require.NoError(t, err)
	partitions := 0
	for _, e := range entries {
		if e.Kind == logdir.PartitionEntry {
			partitions++
		}
	}
	require.Equal(t, 1, partitions)
}

func TestARetirementThatFailsLeavesOneOfTheTwoNames(t *testing.T) {
	for n := 0; ; n++ {
		m := memfs.New()
		disk := faultfs.New(m, nil)
		d := open(t, disk)
		_, err := d.CreatePartition(orders3, topicID(7))
		require.NoError(t, err)
		before := disk.Calls()
		disk.SetInjector(faultfs.FailNth(n, syscall.EIO))
		_, err = d.Retire(logdir.DirName{Partition: orders3}, logdir.Delete)
		if disk.Calls()-before <= n {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, syscall.EIO)
		for seed := range uint64(10) {
			crashed := m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5})
			found := 0
			entries, err := open(t, crashed).Scan()
			require.NoError(t, err)
			for _, e := range entries {
				if e.Kind == logdir.PartitionEntry {
					require.Equal(t, orders3, e.Dir.Partition)
					found++
				}
			}
			require.Equal(t, 1, found, fmt.Sprint(entries))
		}
	}
}
