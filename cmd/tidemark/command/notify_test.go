package command

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manager listens as a service manager does, and returns the name of its socket and what it is told, a datagram a call.
func manager(t *testing.T) (socket string, next func() string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return socket, func() string {
		deadline, _ := within(t).Deadline()
		require.NoError(t, conn.SetReadDeadline(deadline))
		buf := make([]byte, 4096)
		n, err := conn.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
}

func TestF60_AServiceManagerIsToldWhenTheServerIsReadyAndWhenItStops(t *testing.T) {
	socket, next := manager(t)
	t.Setenv(notifySocket, socket)
	out, errs, stop := background(t, "serve", "--data-dir", t.TempDir(), "--kafka-listen", "127.0.0.1:0", "--http-listen", "off")
	// Which step the first message names depends on how far the start is when it is made.
	require.True(t, strings.HasPrefix(next(), "EXTEND_TIMEOUT_USEC=60000000\nSTATUS="))
	require.Equal(t, "READY=1\nSTATUS=serving", next())
	out.waitFor(t, "ready\n")
	require.Equal(t, ExitOK, stop())
	require.Equal(t, "STOPPING=1\nSTATUS=stopping", next())
	require.NotContains(t, errs.String(), "level=WARN")
}

func TestF60_AServiceManagerIsAskedForTimeAsLongAsRecoveryTakes(t *testing.T) {
	ours, theirs := net.Pipe()
	m := &serviceManager{conn: ours, log: slog.New(slog.DiscardHandler), stop: make(chan struct{})}
	next := func() string {
		buf := make([]byte, 4096)
		n, err := theirs.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
	tick := make(chan time.Time)
	m.progress("opening the metadata log", 0, 0)
	m.ended.Go(func() { m.extend(tick) })
	require.Equal(t, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=opening the metadata log", next())
	m.progress("opening partitions", 17, 100)
	tick <- time.Time{}
	require.Equal(t, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=opening partitions: 17 of 100", next())
	told := make(chan string, 1)
	go func() { told <- next() }()
	m.ready()
	require.Equal(t, "READY=1\nSTATUS=serving", <-told)
	m.close()
	require.NoError(t, theirs.Close())
}

func TestAServiceManagerThatIsNotThereKeepsNobodyFromServing(t *testing.T) {
	t.Setenv(notifySocket, filepath.Join(t.TempDir(), "nobody"))
	out, errs, stop := background(t, "serve", "--data-dir", t.TempDir(), "--kafka-listen", "127.0.0.1:0", "--http-listen", "off")
	out.waitFor(t, "ready\n")
	require.Equal(t, ExitOK, stop())
	require.Equal(t, 1, bytes.Count([]byte(errs.String()), []byte("the service manager cannot be reached")))
}

func TestWithoutAServiceManagerNobodyIsTold(t *testing.T) {
	var lines bytes.Buffer
	m := newServiceManager("", slog.New(slog.NewTextHandler(&lines, nil)))
	m.progress("opening partitions", 1, 2)
	m.ready()
	m.stopping()
	m.close()
	require.Empty(t, lines.String())
}
