package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestF60_ShutdownAnswersWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic, quiet := r.topic("t", 1, nil), r.topic("quiet", 1, nil)
		idle, half, parked, waiting := r.dial(), r.dialRaw(), r.dial(), r.dial()

		_, err := half.Write([]byte{0, 0, 1})
		require.NoError(t, err)
		fetch := fetchFrom(18, quiet, 0, 0)
		fetch.MaxWaitMillis, fetch.MinBytes = 500_000, 1
		fetched := parked.send(fetch)
		disk.hold()
		produce := produceTo(13, topic, 0, -1, records("x"))
		produced := waiting.send(produce)
		synctest.Wait()

		start := time.Now()
		done := make(chan error, 1)
		go func() { done <- r.server.Shutdown(context.Background()) }()
		idle.requireClosed()
		(&client{t: t, conn: half}).requireClosed()
		require.Empty(t, parked.receive(fetch, fetched).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
		parked.requireClosed()
		synctest.Wait()
		require.Empty(t, done, "a produce waits for its flush")
		disk.release()
		require.Equal(t, codeNone, waiting.receive(produce, produced).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		waiting.requireClosed()
		require.NoError(t, <-done)
		require.Zero(t, time.Since(start))
		for i := range 4 {
			require.Equal(t, ClosedShutdown, r.events.closing(t, i+1).Reason)
		}
		r.stop()
	})
}

func TestF60_ShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHeldDisk(memfs.New())
		r := newRigOn(t, disk)
		topic := r.topic("t", 1, nil)
		waiting, deaf := r.dial(), r.dial()
		disk.hold()
		waiting.send(produceTo(13, topic, 0, -1, records("x")))
		deaf.send(metadataOf(13, false)) // and does not read the answer
		synctest.Wait()

		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.server.Shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		waiting.requireClosed()
		for i := range 2 {
			require.Equal(t, ClosedShutdown, r.events.closing(t, i+1).Reason)
		}
		disk.release()
		r.stop()
	})
}

// TestF60_ShutdownResetsConnectionsThatWereNeverAnswered lets clients tell a server that stops from one that speaks
// another protocol: to franz-go, an orderly end before the first answer means a wrong TLS or SASL set-up.
func TestF60_ShutdownResetsConnectionsThatWereNeverAnswered(t *testing.T) {
	opened := make(chan struct{}, 4)
	r := newRig(t)
	server, err := New(Options{Backend: r.backend, Events: Events{ConnectionOpened: func(Connection) { opened <- struct{}{} }}})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.serving.Go(func() { require.NoError(t, server.Serve(l)) })
	dial := func() *client {
		nc, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		r.clients = append(r.clients, nc)
		<-opened
		return &client{t: t, conn: nc}
	}
	silent, half, greeted, answered := dial(), dial(), dial(), dial()
	_, err = half.conn.Write([]byte{0, 0, 1})
	require.NoError(t, err)
	versions, metadata := kmsg.NewPtrApiVersionsRequest(), metadataOf(13, false)
	greeted.receive(versions, greeted.send(versions))
	answered.receive(metadata, answered.send(metadata))

	require.NoError(t, server.Shutdown(context.Background()))
	for _, c := range []*client{silent, half, greeted} {
		_, err = c.conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	_, err = answered.conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestAfterShutdownNobodyIsServed(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.server.Shutdown(context.Background()))
	l := newPipeListener()
	require.NoError(t, r.server.Serve(l))
	select {
	case <-l.closed:
	default:
		t.Fatal("the listener is open")
	}
}

// brokenListener fails to accept a few times, as for want of file descriptors, and then for good.
type brokenListener struct {
	*pipeListener
	failures int
}

func (l *brokenListener) Accept() (net.Conn, error) {
	if l.failures--; l.failures >= 0 {
		return nil, errors.New("too many open files")
	}
	return nil, fmt.Errorf("accept: %w", net.ErrClosed)
}

func TestServeOutlivesFailuresToAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		r := newRig(t, func(o *Options) { o.Events.AcceptFailed = func(net.Addr, error) { failures++ } })
		start := time.Now()
		err := r.server.Serve(&brokenListener{newPipeListener(), 10})
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, 11, failures)
		require.Greater(t, time.Since(start), time.Second, "it waits longer and longer")
		r.stop()
	})
}
