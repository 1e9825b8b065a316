package logdir_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestU24_CheckpointsAreReadWithoutTheDirectoryAsFarAsTheyCan(t *testing.T) {
	m := memfs.New()
	require.NoError(t, vfs.EnsureDir(m, "data"))
	put(t, m, "data/recovery-point-offset-checkpoint", "0\n1\norders 3 7\n")
	put(t, m, "data/replication-offset-checkpoint", "many")
	c, err := logdir.ReadCheckpoints(m, "data")
	var damaged *logdir.FormatError
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, "data/replication-offset-checkpoint", damaged.File)
	require.Equal(t, map[logdir.Partition]int64{{Topic: "orders", Index: 3}: 7}, c.RecoveryPoints)
	require.Empty(t, c.HighWatermarks)
	require.Empty(t, c.LogStarts, "there is no such file")
}

func TestU24_ADirectoryIsOpenedThoughFilesOfItMayNotBeRead(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	d.MarkLoaded()
	require.NoError(t, d.RecoveryPoints().Update(map[logdir.Partition]int64{{Topic: "orders"}: 7}))
	require.NoError(t, d.WriteCleanShutdown(1))
	require.NoError(t, d.Close())
	barred := faultfs.New(m, faultfs.When(func(op faultfs.Op) bool {
		mine := op.Name == "data/recovery-point-offset-checkpoint" || op.Name == "data/.kafka_cleanshutdown"
		return mine && (op.Kind == faultfs.OpOpen || op.Kind == faultfs.OpCreate)
	}, faultfs.Always(faultfs.Fault{Err: fs.ErrPermission})))
	d = open(t, barred)
	_, err := d.RecoveryPoints().Load()
	require.ErrorIs(t, err, fs.ErrPermission)
	require.Equal(t, "data/recovery-point-offset-checkpoint", d.RecoveryPoints().File())
	_, err = d.LogStarts().Load()
	require.NoError(t, err)
	taken, err := d.TakeCleanShutdown()
	require.NoError(t, err)
	require.Equal(t, logdir.CleanShutdown{BrokerEpoch: -1}, taken, "what may not be read proves nothing")
	_, err = m.Stat("data/.kafka_cleanshutdown")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
