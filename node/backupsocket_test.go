package node

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// longFile is a metadata file of 8 MiB.
type longFile struct{}

func (longFile) CopyTo(_ context.Context, w io.Writer) (int64, error) {
	n, err := w.Write(make([]byte, 8<<20))
	return int64(n), err
}

// pipes is a listener of connections in memory.
type pipes struct {
	made   chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.made:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) ask(t *testing.T) net.Conn {
	t.Helper()
	mine, theirs := net.Pipe()
	p.made <- theirs
	_, err := mine.Write([]byte("GET /backup HTTP/1.1\r\nHost: server\r\n\r\n"))
	require.NoError(t, err)
	return mine
}

// TestAClientOfTheBackupSocketThatStopsReadingIsCutOff has two of them, so that a third is told to come back until then.
func TestAClientOfTheBackupSocketThatStopsReadingIsCutOff(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		server := newBackupServer(longFile{}, dir)
		listener := &pipes{made: make(chan net.Conn), closed: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		stuck := []net.Conn{listener.ask(t), listener.ask(t)}
		synctest.Wait()

		third := listener.ask(t)
		answer, err := http.ReadResponse(bufio.NewReader(third), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, []any{503, "2 backups are being taken; try again"}, []any{answer.StatusCode, strings.TrimSpace(string(text))})
		require.NoError(t, third.Close())

		<-time.After(backupPatience + time.Second) // nobody reads
		synctest.Wait()
		fourth := listener.ask(t)
		answer, err = http.ReadResponse(bufio.NewReader(fourth), nil)
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.EqualValues(t, 8<<20, n)
		for _, c := range append(stuck, fourth) {
			require.NoError(t, c.Close())
		}
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
}
