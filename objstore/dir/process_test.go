package dir_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/vfs"
)

// childVariable makes a test process a writer in the named directory.
const childVariable = "TIDEMARK_DIR_TEST_CHILD"

// TestWriterProcess is not a test but the process that the one below starts. It prints each key whose put returned.
func TestWriterProcess(t *testing.T) {
	root := os.Getenv(childVariable)
	if root == "" {
		return
	}
	s, err := dir.Open(vfs.OS(), root)
	require.NoError(t, err)
	first, err := strconv.Atoi(os.Getenv(childVariable + "_FIRST"))
	require.NoError(t, err)
	for i := first; ; i++ {
		key := fmt.Sprintf("wal/%d/%d", i%5, i)
		content := bytes.Repeat([]byte(key), 1000)
		if err := s.PutIfAbsent(t.Context(), key, content); err == nil {
			fmt.Println("stored", key)
		} else {
			require.ErrorIs(t, err, objstore.ErrExists)
		}
	}
}

// TestKilledProcessesLeaveWholeObjectsOnly runs three writers that race for the same keys, kills them, and checks that
// every key was given to one of them, is whole, and that nothing else is left.
func TestKilledProcessesLeaveWholeObjectsOnly(t *testing.T) {
	root := t.TempDir()
	stored := map[string]int{}
	for round := range 2 { // the second one finds what the first has left
		var children []*exec.Cmd
		var outputs []*bufio.Scanner
		for range 3 {
			child := exec.Command(os.Args[0], "-test.run=^TestWriterProcess$")
			child.Env = append(os.Environ(), childVariable+"="+root, fmt.Sprintf("%s_FIRST=%d", childVariable, round))
			out, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			children, outputs = append(children, child), append(outputs, bufio.NewScanner(out))
		}
		for _, out := range outputs { // until each has stored something, and all of them many
			for range 5 {
				require.True(t, out.Scan())
				note(stored, out.Text())
			}
		}
		for i, child := range children {
			require.NoError(t, child.Process.Kill())
			for outputs[i].Scan() {
				note(stored, outputs[i].Text())
			}
			child.Wait()
		}
	}
	s := open(t, vfs.OS(), root)
	defer s.Close()
	page, err := s.List(t.Context(), objstore.ListRequest{})
	require.NoError(t, err)
	for _, o := range page.Objects {
		data, err := s.Get(t.Context(), o.Key)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat(o.Key, 1000), string(data))
	}
	for key, times := range stored {
		require.Equal(t, 1, times, "key %s was given away more than once", key)
		_, err := s.Head(t.Context(), key)
		require.NoError(t, err)
	}
	for _, name := range files(t, vfs.OS(), root) {
		require.False(t, strings.HasPrefix(name, ".puts/") && strings.Count(name, "/") > 2, name)
	}
}

func note(stored map[string]int, line string) {
	if key, ok := strings.CutPrefix(line, "stored "); ok {
		stored[key]++
	}
}
