package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

// fullEnv makes a child process run out of room.
const fullEnv = "TIDEMARK_META_TEST_FULL"

// roomBytes is how large a file of the child may become.
const roomBytes = 200 << 10

// countUntilFull writes ever more until the file may not grow, and checks that the failure stays.
func countUntilFull(b *embedded.Backend, l *meta.Log) int {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: roomBytes, Max: roomBytes}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	var failed error
	for n := 0; failed == nil; n++ {
		_, err := l.Do(ctx, meta.PutKv{Key: fmt.Sprint("key-", n), Value: make([]byte, 5000)})
		if err == nil {
			fmt.Println("acknowledged")
		}
		failed = err
	}
	<-l.Done()
	_, err := b.Head(ctx)
	if !errors.Is(failed, l.Err()) || !errors.Is(l.Err(), err) {
		fmt.Fprintln(os.Stderr, "the failure did not stay:", failed, l.Err(), err)
		return 1
	}
	fmt.Println("failed:", err)
	return 0
}

func TestAFullDiskStopsTheLogAndLosesNothingAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path, fullEnv+"=yes")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Contains(t, lines[len(lines)-1], "failed: meta: "+path+": ")
	acknowledged := len(lines) - 1
	require.NotZero(t, acknowledged)

	b, err := embedded.Open(path, embedded.Options{MustExist: true})
	require.NoError(t, err)
	defer b.Close()
	l, err := meta.Open(t.Context(), b, meta.Options{})
	require.NoError(t, err)
	defer l.Close()
	keys := 0
	for range l.View().List("key-") {
		keys++
	}
	require.Contains(t, []int{acknowledged, acknowledged + 1}, keys)
	_, err = l.Do(t.Context(), meta.PutKv{Key: "there is room again", Value: nil})
	require.NoError(t, err)
}
