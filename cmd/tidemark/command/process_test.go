package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// closeDeadline is when a server that was told to stop is killed, which fails the test. A second or two is what it should
// take; the rest is for a busy machine.
const closeDeadline = 20 * time.Second

func TestTheRealProcessClosesOnSIGTERMWithClientsConnected(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tidemark")
	build, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "..").CombinedOutput()
	require.NoError(t, err, string(build))
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"serve", "--data-dir", dir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "off"}
	life, kill := context.WithCancel(t.Context())
	defer kill()
	server := exec.CommandContext(life, binary, args...)
	out, errs := newLockedBuffer(), newLockedBuffer()
	server.Stdout, server.Stderr = out, errs
	require.NoError(t, server.Start())
	out.waitFor(t, "ready\n")
	address := listening(t, out.String(), "kafka")

	done(t, "kept\n", "produce", "t", "--server", address)
	reader := connectTo(t, address, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(time.Minute))
	require.Equal(t, 1, reader.PollFetches(within(t)).NumRecords())
	waiting, stop := context.WithCancel(within(t)) // a long poll is under way when the server is told to stop
	ended := make(chan struct{})
	go func() { defer close(ended); reader.PollFetches(waiting) }()
	_, err = os.Stat(dir)
	require.NoError(t, err)

	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	deadline := time.AfterFunc(closeDeadline, kill)
	err = server.Wait()
	require.True(t, deadline.Stop(), "the server was killed: it did not close in time")
	stop()
	<-ended
	require.NoError(t, err, errs.String())
	require.Contains(t, errs.String(), "msg=closed")
	require.FileExists(t, filepath.Join(dir, ".kafka_cleanshutdown"))

	got := exec.CommandContext(within(t), binary, "topic", "list", "--server", address)
	text, err := got.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit))
	require.Equal(t, ExitFailed, exit.ExitCode(), string(text))
}
