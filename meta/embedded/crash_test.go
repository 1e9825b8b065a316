package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

// childEnv holds the file that a child process works on until it is killed.
const childEnv = "TIDEMARK_META_TEST_CHILD"

const counterKey = "counter"

// child counts in the log, one command at a time, and prints each number once it is acknowledged. It never ends by itself.
func child() int {
	o := embedded.Options{ClusterID: "c"}
	if os.Getenv(fullEnv) == fullNoReserve {
		o.Reserve = -1
	}
	b, err := embedded.Open(os.Getenv(childEnv), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	l, err := meta.Open(ctx, b, meta.Options{SnapshotEvery: 8})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv(fullEnv) != "" {
		return fillUp(l)
	}
	for {
		kv, _ := l.View().Get(counterKey)
		n, _ := strconv.Atoi(string(kv.Value))
		r, err := l.Do(ctx, meta.CasKv{Key: counterKey, Expected: kv.Version, Value: []byte(strconv.Itoa(n + 1))})
		if err != nil || !r.Swapped {
			fmt.Fprintln(os.Stderr, r, err)
			return 1
		}
		if _, err := fmt.Println(n + 1); err != nil {
			return 0
		}
	}
}

func TestF46_KilledAtAnyMomentAnEntryIsWhollyThereOrNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	acknowledged := 0
	for round := range 60 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + round%7 {
			require.True(t, lines.Scan(), "the child ended by itself in round %d", round)
			n, err := strconv.Atoi(lines.Text())
			require.NoError(t, err)
			require.Equal(t, acknowledged+1, n)
			acknowledged = n
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() { // acknowledged before the kill arrived
			n, err := strconv.Atoi(lines.Text())
			require.NoError(t, err)
			acknowledged = n
		}
		_ = cmd.Wait()
		acknowledged = requireCounted(t, path, acknowledged)
	}
}

// requireCounted checks that the counter is what was acknowledged, or the one after, whose answer the kill cut off, and
// that the log holds exactly as many commands.
func requireCounted(t *testing.T, path string, acknowledged int) int {
	t.Helper()
	b, err := embedded.Open(path, embedded.Options{MustExist: true})
	require.NoError(t, err)
	defer b.Close()
	l, err := meta.Open(t.Context(), b, meta.Options{})
	require.NoError(t, err)
	defer l.Close()
	kv, _ := l.View().Get(counterKey)
	n, err := strconv.Atoi(string(kv.Value))
	require.NoError(t, err)
	require.Contains(t, []int{acknowledged, acknowledged + 1}, n)
	require.Equal(t, uint64(n), l.View().Index(), "every command is one entry")
	require.Equal(t, uint64(n), kv.Version, "every command wrote once")
	return n
}
