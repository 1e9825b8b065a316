package faults

import (
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/server"
)

// silentStore is an address that accepts connections and never answers, as an object store does whose disks hang.
type silentStore struct {
	listener net.Listener
	asked    chan struct{} // receives when somebody connects
	all      sync.WaitGroup
}

func newSilentStore(t *testing.T) *silentStore {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &silentStore{listener: l, asked: make(chan struct{}, 1)}
	var conns []net.Conn
	s.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			select {
			case s.asked <- struct{}{}:
			default:
			}
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		s.all.Wait()
		for _, c := range conns {
			_ = c.Close() // the server may have closed it
		}
	})
	return s
}

// flags name it as the server's store.
func (s *silentStore) flags(t *testing.T) []string {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return []string{"--store", "s3://bucket?region=here&use_path_style=true&endpoint=http://" + s.listener.Addr().String()}
}

func TestF60_AServerWhoseObjectStoreHangsServesTopicsAndEnds(t *testing.T) {
	store := newSilentStore(t)
	h := process(t, server.TidemarkOptions{Dir: t.TempDir(), Args: store.flags(t)})
	require.NoError(t, h.Start(within(t)))
	require.Contains(t, h.Output(), "the object store s3://bucket does not answer")
	code, ready := get(t, h, "/readyz")
	require.Equal(t, 200, code, ready)
	require.Contains(t, ready, "the object store s3://bucket does not answer")

	l, load := load(t, h)
	require.NoError(t, l.WaitAcks(within(t), 1000))
	require.NoError(t, load.Stop(within(t)))
	verify(t, h, l, "beside a store that hangs")
	require.NoError(t, h.Stop(within(t)))
	require.Contains(t, h.Output(), "msg=closed")

	require.NoError(t, h.Start(within(t)))
	require.NotContains(t, h.Output(), "the last stop was not clean")
	verify(t, h, l, "after a restart")
	require.NoError(t, h.Stop(within(t)))
}

// TestF60_AStartThatWaitsForItsObjectStoreEndsWithSIGTERM: it does not wait until it knows that nobody answers.
func TestF60_AStartThatWaitsForItsObjectStoreEndsWithSIGTERM(t *testing.T) {
	store := newSilentStore(t)
	h := process(t, server.TidemarkOptions{Dir: t.TempDir(), Args: store.flags(t)})
	require.NoError(t, h.Launch())
	select {
	case <-store.asked:
	case <-time.After(patience):
		require.FailNow(t, "the server did not ask its store for anything")
	}
	require.NoError(t, syscall.Kill(h.PID(), syscall.SIGTERM))
	_, err := h.Wait(within(t))
	require.NoError(t, err)
	require.False(t, strings.Contains(h.Output(), "panic"), "%s", h.Output())
}
