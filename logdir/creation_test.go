package logdir_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

const veryMany = 520

// createMany makes very many partitions of one topic.
func createMany(d *logdir.Dir) error {
	return d.Create(veryMany, func(c *logdir.Creation) error {
		for i := range int32(veryMany) {
			path, err := c.Partition(logdir.Partition{Topic: "orders", Index: i}, topicID(7))
			if err != nil {
				return err
			}
			if path != fmt.Sprintf("data/orders-%d", i) {
				return fmt.Errorf("made %s", path)
			}
		}
		return nil
	})
}

func requireAll(t *testing.T, fsys vfs.FS) {
	t.Helper()
	for i := range veryMany {
		got, err := logdir.ReadMetadata(fsys, fmt.Sprintf("data/orders-%d", i))
		require.NoError(t, err)
		require.Equal(t, logdir.Metadata{TopicID: topicID(7)}, got)
	}
}

func TestVeryManyPartitionsAreMadeDurableTogether(t *testing.T) {
	m := memfs.New()
	disk := faultfs.New(m, nil)
	d := open(t, disk)
	syncs := disk.Trace(func(op faultfs.Op) bool {
		return op.Kind == faultfs.OpSync || op.Kind == faultfs.OpSyncDir || op.Kind == faultfs.OpSyncVolume
	})
	require.NoError(t, createMany(d))
	require.Equal(t, 1, strings.Count(syncs.String(), "\n"), "%s", syncs)
	requireAll(t, m.CrashClean())

	for i := range 2 { // and again, which a creation that failed may leave to the next
		syncs.Reset()
		disk.SetInjector(faultfs.FailMatching(faultfs.OpSyncVolume, "*", syscall.EIO))
		require.NoError(t, createMany(d))
		require.Equal(t, 2*veryMany+2, strings.Count(syncs.String(), "\n"), "%d: %s", i, syncs)
	}
}

func TestWhatASyncOfTheFileSystemCouldNotWriteIsWrittenAgain(t *testing.T) {
	m := memfs.New()
	disk := faultfs.New(m, nil)
	d := open(t, disk)
	disk.SetInjector(faultfs.When(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSyncVolume }, faultfs.Always(faultfs.Fault{
		Err: syscall.EIO,
		Hook: func() {
			f, err := m.Open("data/orders-7/partition.metadata", vfs.ReadWrite)
			require.NoError(t, err)
			f.(interface{ DropUnsynced() }).DropUnsynced()
			require.NoError(t, f.Close())
		},
	})))
	require.NoError(t, createMany(d))
	requireAll(t, m.CrashClean())
}

func TestWhereThereIsNoSyncOfTheFileSystemEachPartitionIsSynced(t *testing.T) {
	m := memfs.New()
	d := open(t, withoutVolumes{m})
	require.NoError(t, createMany(d))
	requireAll(t, m.CrashClean())
}

// withoutVolumes is a file system without the optional interfaces.
type withoutVolumes struct{ vfs.FS }

func TestACreationThatFailsIsNotSynced(t *testing.T) {
	m := memfs.New()
	disk := faultfs.New(m, nil)
	d := open(t, disk)
	disk.SetInjector(faultfs.FailMatching(faultfs.OpCreate, "data/orders-7/*", syscall.ENOSPC))
	syncs := disk.Trace(func(op faultfs.Op) bool { return op.Kind == faultfs.OpSyncVolume })
	require.ErrorIs(t, createMany(d), syscall.ENOSPC)
	require.Empty(t, syncs.String())
	disk.SetInjector(nil)
	require.NoError(t, createMany(d), "what it left is not in the way")
	requireAll(t, m.CrashClean())
}

// What a power cut leaves of a creation says nothing wrong: a directory has its topic's id, or none that can be read.
func TestAPowerCutDuringACreationLeavesNoWrongTopicID(t *testing.T) {
	torn := 0
	for seed := range uint64(40) {
		m := memfs.New()
		d := open(t, m)
		require.Error(t, d.Create(veryMany, func(c *logdir.Creation) error {
			for i := range int32(veryMany) {
				if _, err := c.Partition(logdir.Partition{Topic: "orders", Index: i}, topicID(7)); err != nil {
					return err
				}
			}
			m.Kill()
			return errors.New("the power is gone")
		}))
		cut := m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true, SectorSize: 512})
		for i := range veryMany {
			got, err := logdir.ReadMetadata(cut, fmt.Sprintf("data/orders-%d", i))
			var bad *logdir.FormatError
			switch {
			case err == nil:
				require.Equal(t, topicID(7), got.TopicID)
			case errors.As(err, &bad):
				torn++
			}
		}
	}
	require.Positive(t, torn, "no cut came between a file and its bytes")
}
