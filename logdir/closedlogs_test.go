package logdir_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

const closedLogs = "data/tidemark.closed-logs"

func someClosedLogs() []logdir.ClosedLog {
	return []logdir.ClosedLog{
		{Topic: topicID(1), Partition: 0, Summary: []byte("a")},
		{Topic: topicID(1), Partition: 1, Summary: []byte("b")},
		{Topic: topicID(2), Partition: 0, Summary: []byte("c")},
	}
}

func TestClosedLogsAreWrittenDurablyAndReadBack(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	logs, err := d.ClosedLogs()
	require.NoError(t, err)
	require.Empty(t, logs)

	want := someClosedLogs()
	left, err := d.WriteClosedLogs([]logdir.ClosedLog{want[2], want[0], want[1]})
	require.NoError(t, err)
	require.Zero(t, left)
	logs, err = open(t, m.CrashClean()).ClosedLogs()
	require.NoError(t, err)
	require.Equal(t, want, logs)
	logs, err = d.ClosedLogs()
	require.NoError(t, err)
	require.Equal(t, want, logs)
	require.NoError(t, d.Close())
	_, err = d.ClosedLogs()
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = d.WriteClosedLogs(want)
	require.ErrorIs(t, err, fs.ErrClosed)
}

func TestClosedLogsGoWithTheMarker(t *testing.T) {
	for _, marker := range []bool{true, false} {
		m := memfs.New()
		d := open(t, m)
		_, err := d.WriteClosedLogs(someClosedLogs())
		require.NoError(t, err)
		if marker {
			d.MarkLoaded()
			require.NoError(t, d.WriteCleanShutdown(1))
		}
		require.NoError(t, d.Close())
		d = open(t, m)
		taken, err := d.TakeCleanShutdown()
		require.NoError(t, err)
		require.Equal(t, marker, taken.Clean)
		left := open(t, m.CrashClean())
		logs, err := left.ClosedLogs()
		require.NoError(t, err)
		require.Empty(t, logs)
	}
}

// Whatever fails, and whatever a power cut then leaves: the file is there in whole or not at all, and never beside a marker that
// is of an earlier stop.
func TestNoPowerCutLeavesClosedLogsOfAnEarlierStopBesideAMarker(t *testing.T) {
	earlier, later := someClosedLogs()[:1], someClosedLogs()
	for n := 0; ; n++ {
		for seed := range uint64(4) {
			m := memfs.New()
			d := open(t, m)
			_, err := d.WriteClosedLogs(earlier)
			require.NoError(t, err)
			d.MarkLoaded()
			require.NoError(t, d.WriteCleanShutdown(1))
			require.NoError(t, d.Close())

			disk := faultfs.New(m, nil)
			d = open(t, disk)
			before := disk.Calls()
			disk.SetInjector(faultfs.FailFrom(n, syscall.EIO))
			_, err = d.TakeCleanShutdown()
			taken := err == nil
			if taken {
				if _, err = d.WriteClosedLogs(later); err == nil {
					d.MarkLoaded()
					err = d.WriteCleanShutdown(2)
				}
			}
			done := disk.Calls()-before <= n
			if done {
				require.NoError(t, err)
			}
			m.Kill()
			after := open(t, m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true}))
			logs, err := after.ClosedLogs()
			require.NoError(t, err)
			marker, err := after.TakeCleanShutdown()
			require.NoError(t, err)
			switch {
			case !taken: // nothing was loaded yet
				require.Contains(t, [][]logdir.ClosedLog{nil, earlier}, logs)
			case marker.Clean:
				require.Equal(t, int64(2), marker.BrokerEpoch)
				require.Equal(t, later, logs)
			default:
				require.Contains(t, [][]logdir.ClosedLog{nil, later}, logs)
			}
			if done && seed == 3 {
				return
			}
		}
	}
}

func TestAFileOfClosedLogsThatIsTooLongIsNotRead(t *testing.T) {
	m := memfs.New()
	disk := faultfs.New(m, nil)
	d := open(t, disk)
	f, err := m.Open(closedLogs, vfs.Create)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(64<<20+1))
	require.NoError(t, f.Close())
	_, err = d.ClosedLogs()
	require.EqualError(t, err, closedLogs+": 67108865 bytes are more than it ever has")
	require.Zero(t, disk.Count(faultfs.OpReadAt))
}

func TestDamagedAndNewerClosedLogsAreTold(t *testing.T) {
	m := memfs.New()
	d := open(t, m)
	put(t, m, closedLogs, "")
	_, err := d.ClosedLogs()
	var damaged *logdir.FormatError
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, closedLogs, damaged.File)
	newer := "TMCLOSED\x00\x00\x00\x07 and what nobody knows yet"
	put(t, m, closedLogs, newer)
	_, err = d.ClosedLogs()
	require.Equal(t, &logdir.VersionError{File: closedLogs, Found: 7}, err)
	require.Equal(t, newer, content(t, m, closedLogs))
}
