package node_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
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

func TestU08_AToolThatTakesAStoppedDirectoryPutsTheJournalBackFirst(t *testing.T) {
	dir := t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	createTopic(t, c, 20, nil, "orders")
	spread(t, c, "orders", 20, "first")
	value := func(p int32) []byte { return fmt.Appendf(nil, "the last of %02d", p) }
	var records []*kgo.Record
	for p := range int32(20) {
		records = append(records, &kgo.Record{Topic: "orders", Partition: p, Value: value(p)})
	}
	require.NoError(t, c.ProduceSync(t.Context(), records...).FirstErr())
	_, err = node.TakeStopped(t.Context(), dir, true, nil)
	require.ErrorIs(t, err, vfs.ErrLocked)

	killed := filepath.Join(t.TempDir(), "killed")
	copyFiles(t, dir, killed)
	c.Close()
	require.NoError(t, n.Close(t.Context()))
	journal := filepath.Join(killed, node.JournalFile)
	held, err := os.ReadFile(journal)
	require.NoError(t, err)
	p := int32(0)
	for p < 20 && !bytes.Contains(held, value(p)) {
		p++ // the first to be written to was synced by itself
	}
	segment := filepath.Join(killed, fmt.Sprintf("orders-%d", p), "00000000000000000000.log")
	whole, err := os.ReadFile(segment)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(segment, int64(len(whole)-5)))

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
	require.Equal(t, [3]int64{2, 2, 0}, [3]int64{flushed, visible, start})
	require.NoError(t, stopped.BeforeChange())
	require.NoFileExists(t, marker)
	require.NoError(t, stopped.Close())
}
