package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
)

// TestABackupOfARunningServerHasWhatWasAcknowledgedBefore takes backups while topics are made, and restores each.
func TestABackupOfARunningServerHasWhatWasAcknowledgedBefore(t *testing.T) {
	dir := t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	defer c.Close()
	var mu sync.Mutex
	var made []string // acknowledged
	known := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return made[:len(made):len(made)]
	}
	ended := make(chan struct{})
	enough := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			name := fmt.Sprintf("topic%04d", i)
			createTopic(t, c, 1, nil, name)
			mu.Lock()
			made = append(made, name)
			mu.Unlock()
			select {
			case <-enough:
				return
			default:
			}
		}
	}()
	last := uint64(0)
	for i := range 10 {
		before := known()
		found, err := node.InspectRunning(t.Context(), dir)
		require.NoError(t, err)
		require.Empty(t, found.Findings)
		require.Equal(t, filepath.Join(dir, "metadata.db"), found.Where)
		require.GreaterOrEqual(t, found.State.Index(), last)
		last = found.State.Index()
		for _, name := range before {
			_, there := found.State.Topic(name)
			require.True(t, there, name)
		}
		fresh := filepath.Join(t.TempDir(), fmt.Sprint(i))
		_, err = node.RestoreMeta(t.Context(), node.MetaSource{DataDir: fresh},
			meta.Backup{ClusterID: found.ClusterID, State: found.State}, node.RestoreOptions{Execute: true})
		require.NoError(t, err)
		require.Equal(t, found.State.EncodeSnapshot(), backupOf(t, fresh).State.EncodeSnapshot())
	}
	close(enough)
	<-ended
	info, err := os.Stat(filepath.Join(dir, "tidemark.sock"))
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, info.Mode())
	require.NoError(t, n.Close(t.Context()))
	require.NoFileExists(t, filepath.Join(dir, "tidemark.sock"))
	for _, name := range known() {
		_, there := backupOf(t, dir).State.Topic(name)
		require.True(t, there, name)
	}
	_, err = node.InspectRunning(t.Context(), dir)
	var none *node.NoServerError
	require.ErrorAs(t, err, &none)
	left, err := filepath.Glob(filepath.Join(dir, "*.copy-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestTheBackupSocketIsMadeAnewAtEachStart has a socket left by a process that was killed, and what one left that died while
// it made its own.
func TestTheBackupSocketIsMadeAnewAtEachStart(t *testing.T) {
	dir, cut := t.TempDir(), t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	require.NoError(t, os.Link(filepath.Join(dir, "tidemark.sock"), filepath.Join(cut, "tidemark.sock")))
	require.NoError(t, n.Close(t.Context()))
	require.NoError(t, os.Rename(filepath.Join(cut, "tidemark.sock"), filepath.Join(dir, "tidemark.sock")))
	_, err = node.InspectRunning(t.Context(), dir)
	var none *node.NoServerError
	require.ErrorAs(t, err, &none)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "tidemark.sock.1.new", "s"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metadata.db.copy-1"), []byte("half"), 0o600))

	n, err = onDisk(t, dir)
	require.NoError(t, err)
	_, err = node.InspectRunning(t.Context(), dir)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(dir, "tidemark.sock.1.new"))
	require.NoFileExists(t, filepath.Join(dir, "metadata.db.copy-1"))
	require.NoError(t, n.Close(t.Context()))
}

func TestADataDirectoryWithALongPathHasABackupSocketToo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long[*", 20), strings.Repeat("er", 60))
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	_, err = node.InspectRunning(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, n.Close(t.Context()))
	require.NoFileExists(t, filepath.Join(dir, "tidemark.sock"))
}

// TestAServerThatCannotMakeTheBackupSocketStartsAndSaysSo has something else in the socket's place.
func TestAServerThatCannotMakeTheBackupSocketStartsAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	theirs := filepath.Join(dir, "tidemark.sock")
	require.NoError(t, os.WriteFile(theirs, []byte("precious"), 0o600))
	var text lockedText
	n, err := node.Open(t.Context(), node.Config{
		DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}, Log: slog.New(slog.NewTextHandler(&text, nil)),
	})
	require.NoError(t, err)
	require.NoError(t, n.Close(context.Background()))
	require.Equal(t, 1, strings.Count(text.String(), "the metadata cannot be backed up while the server runs"))
	require.Contains(t, text.String(), theirs+" exists and is not a socket")
	left, err := os.ReadFile(theirs)
	require.NoError(t, err)
	require.Equal(t, "precious", string(left))
}

// lockedText is a log that is written to by several.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends.
func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
