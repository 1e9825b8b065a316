package node_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// copyFiles copies the files below a directory, as they are at some moment.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, name[len(from):])
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case !e.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	}))
}

// killedWithJournal returns a data directory as a server that was killed leaves it, and that of the same server stopped in order. The
// segment of partition p of orders has lost its end, which the journal has; whole is what it was.
func killedWithJournal(t *testing.T) (killed, dir string, p int32, whole []byte) {
	t.Helper()
	dir = t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	createTopic(t, c, 20, nil, "orders")
	spread(t, c, "orders", 20, "first")
	spread(t, c, "orders", 20, "second")
	value := func(p int32) []byte { return fmt.Appendf(nil, "the last of %02d", p) }
	var records []*kgo.Record
	for p := range int32(20) {
		records = append(records, &kgo.Record{Topic: "orders", Partition: p, Value: value(p)})
	}
	require.NoError(t, c.ProduceSync(t.Context(), records...).FirstErr())
	_, err = node.TakeStopped(t.Context(), dir, true, nil)
	require.ErrorIs(t, err, vfs.ErrLocked)

	killed = filepath.Join(t.TempDir(), "killed")
	copyFiles(t, dir, killed)
	c.Close()
	require.NoError(t, n.Close(t.Context()))
	journal := filepath.Join(killed, node.JournalFile)
	held, err := os.ReadFile(journal)
	require.NoError(t, err)
	for p < 20 && !bytes.Contains(held, value(p)) {
		p++ // the first to be written to was synced by itself
	}
	segment := segmentOf(killed, p)
	whole, err = os.ReadFile(segment)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(segment, int64(len(whole)-5)))
	return killed, dir, p, whole
}

func segmentOf(dir string, p int32) string {
	return filepath.Join(dir, fmt.Sprintf("orders-%d", p), "00000000000000000000.log")
}

func TestU08_AToolThatTakesAStoppedDirectoryPutsTheJournalBackFirst(t *testing.T) {
	killed, dir, p, whole := killedWithJournal(t)
	journal, segment := filepath.Join(killed, node.JournalFile), segmentOf(killed, p)
	looked, err := node.TakeStopped(t.Context(), killed, false, nil)
	require.NoError(t, err)
	seen, err := vfs.ReadFile(looked.FS(), segment)
	require.NoError(t, err)
	require.Equal(t, whole, seen)
	require.NoError(t, looked.BeforeChange())
	require.NoError(t, looked.Close())
	require.FileExists(t, journal, "nothing reaches the disk")
	torn, err := os.ReadFile(segment)
	require.NoError(t, err)
	require.Len(t, torn, len(whole)-5)

	taken, err := node.TakeStopped(t.Context(), killed, true, nil)
	require.NoError(t, err)
	now, err := os.ReadFile(segment)
	require.NoError(t, err)
	require.Equal(t, whole, now)
	require.NoFileExists(t, journal)
	require.NoError(t, taken.Close())

	// After a stop in order the mark goes before a log is changed, and with it what may be left of a journal.
	stopped, err := node.TakeStopped(t.Context(), dir, true, nil)
	require.NoError(t, err)
	marker := filepath.Join(dir, ".kafka_cleanshutdown")
	require.FileExists(t, marker)
	flushed, visible, start := stopped.Checkpointed("orders-3")
	require.Equal(t, [3]int64{3, 3, 0}, [3]int64{flushed, visible, start})
	closed := filepath.Join(dir, "tidemark.closed-logs")
	require.FileExists(t, closed)
	require.NoError(t, stopped.BeforeChange())
	require.NoFileExists(t, marker)
	require.NoFileExists(t, closed, "it is of logs that are about to be changed")
	require.NoError(t, stopped.Close())
}

func TestAToolChangesNothingWhileThereIsNoRoomForRecordsOfTheJournal(t *testing.T) {
	killed, _, p, whole := killedWithJournal(t)
	segment := segmentOf(killed, p)
	full := faultfs.New(vfs.OS(), faultfs.FailMatching(faultfs.OpWriteAt, segment, syscall.ENOSPC))
	for range 2 { // the second one finds the journal waiting
		_, err := node.TakeStoppedOn(t.Context(), full, killed, true, nil)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "free some, and start the server once")
	}
	n, err := onDisk(t, killed)
	require.NoError(t, err)
	require.NoError(t, n.Close(t.Context()))
	now, err := os.ReadFile(segment)
	require.NoError(t, err)
	require.Equal(t, whole, now)
}

func TestAToolPutsTheJournalBackIntoADirectoryThatTheMetadataLogAloneKnows(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"missing": os.Remove,
		"damaged": func(file string) error { return os.WriteFile(file, []byte("version: 0\ntopic_id: !"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			killed, _, p, whole := killedWithJournal(t)
			require.NoError(t, damage(filepath.Join(killed, fmt.Sprintf("orders-%d", p), "partition.metadata")))
			taken, err := node.TakeStopped(t.Context(), killed, true, nil)
			require.NoError(t, err)
			require.NoError(t, taken.JournalProblem())
			require.NoError(t, taken.Close())
			now, err := os.ReadFile(segmentOf(killed, p))
			require.NoError(t, err)
			require.Equal(t, whole, now)
		})
	}
}

func TestAToolLeavesAJournalWhoseRecordsMayBeOfADirectoryThatNothingKnows(t *testing.T) {
	killed, _, p, whole := killedWithJournal(t)
	own := filepath.Join(killed, fmt.Sprintf("orders-%d", p), "partition.metadata")
	log := filepath.Join(killed, "metadata.db")
	for _, file := range []string{own, log} {
		require.NoError(t, os.Rename(file, file+".away"))
	}
	journal := filepath.Join(killed, node.JournalFile)
	held, err := os.ReadFile(journal)
	require.NoError(t, err)
	_, err = node.TakeStopped(t.Context(), killed, true, nil)
	require.ErrorContains(t, err, fmt.Sprintf("orders-%d", p))
	require.ErrorContains(t, err, "start the server once")
	kept, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.True(t, bytes.Equal(held, kept))

	looked, err := node.TakeStopped(t.Context(), killed, false, nil)
	require.NoError(t, err)
	require.ErrorContains(t, looked.JournalProblem(), "partitions without a known directory")
	require.NoError(t, looked.Close())

	require.NoError(t, os.Rename(log+".away", log))
	taken, err := node.TakeStopped(t.Context(), killed, true, nil)
	require.NoError(t, err)
	require.NoError(t, taken.Close())
	now, err := os.ReadFile(segmentOf(killed, p))
	require.NoError(t, err)
	require.Equal(t, whole, now)
}

func TestU24_AToolSaysThatTheJournalWasDamaged(t *testing.T) {
	killed, _, _, _ := killedWithJournal(t)
	journal := filepath.Join(killed, node.JournalFile)
	held, err := os.ReadFile(journal)
	require.NoError(t, err)
	first := bytes.Index(held, []byte("TMJR"))
	held[first+30] ^= 1
	require.NoError(t, os.WriteFile(journal, held, 0o600))
	for _, change := range []bool{false, true} {
		taken, err := node.TakeStopped(t.Context(), killed, change, nil)
		require.NoError(t, err)
		require.ErrorContains(t, taken.JournalProblem(), "the journal is damaged")
		require.ErrorContains(t, taken.JournalProblem(), journal+".left-1")
		require.NoError(t, taken.Close())
	}
	require.FileExists(t, journal+".left-1")
}
