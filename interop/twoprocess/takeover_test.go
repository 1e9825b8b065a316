package twoprocess

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/server"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/stream"
)

// takeoversVariable is how often each test has a node taken over.
const takeoversVariable = "TIDEMARK_TEST_TAKEOVERS"

func takeovers(t *testing.T) int {
	text := os.Getenv(takeoversVariable)
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// roundLimit bounds a takeover with all that belongs to it.
const roundLimit = 2 * time.Minute

// world is a bucket and a metadata log, and what the processes that use them have acknowledged.
type world struct {
	*testing.T
	place place
	limit context.Context // ends when a round takes too long
	acked []record        // by all processes that have ended
}

// The nodes of a test: the writer's, the one beside it, and the test's own.
const (
	writing int32 = iota + 1
	beside
	watching
)

// newWorld makes a bucket and a log of a name, with some streams.
func newWorld(t *testing.T, name string) *world {
	bucket, err := server.MakeSeaweedBucket(t.Context(), shared.s3, name)
	require.NoError(t, err)
	w := &world{T: t, place: place{Etcd: shared.etcd, Log: name, Bucket: bucket}, limit: t.Context()}
	n, err := join(t.Context(), w.place, watching)
	require.NoError(t, err)
	_, err = n.engine.CreateStreams(t.Context(), 8)
	require.NoError(t, err)
	require.NoError(t, n.engine.Close(t.Context()))
	require.NoError(t, n.leave())
	return w
}

// round has a process append, which stop ends or pauses, and another one take its node over: as the node beside it, which
// was there all the time, or as the same node in another process. While that one appends, after is done with the first one.
func (w *world) round(number int, stop, after func(*process)) {
	limit, cancel := context.WithTimeout(w.Context(), roundLimit)
	defer cancel()
	w.limit = limit
	a := w.start(orders{Node: writing, Tag: fmt.Sprintf("writer %d", number)})
	heir := orders{Node: beside, Dead: writing, Tag: fmt.Sprintf("heir %d", number)}
	var b *process
	if number%2 == 0 {
		b = w.start(heir)
		b.await(joined, 1)
	}
	a.await(acked, 50+rand.IntN(200))
	stop(a)
	if b != nil {
		b.tell()
	} else {
		heir.Node, heir.Dead = writing, 0
		b = w.start(heir)
	}
	b.await(opened, 1)
	b.await(acked, 50)
	after(a)
	b.await(acked, b.count(acked)+20)
	b.dismiss()

	for _, r := range a.acked {
		require.Equal(w, finding{r.Count, sum(r.payload())}, b.found[at(r)], "acknowledged at %+v", r)
	}
	w.acked = append(append(w.acked, a.acked...), b.acked...)
	w.verify()
}

// verify reads all streams in a node of the test's own: every record is where it was appended, all that was acknowledged is
// there, and nothing is wrong with the bucket.
func (w *world) verify() {
	w.Helper()
	n, err := join(w.limit, w.place, watching)
	require.NoError(w, err)
	streams, err := n.openAll(w.limit)
	require.NoError(w, err)
	require.Len(w, streams, 8)
	there := map[spot]finding{}
	for _, s := range streams {
		require.NoError(w, readAll(w.limit, s, func(r stream.Record) {
			require.Regexp(w, fmt.Sprintf("^%d at %d by ", s.ID(), r.Base), string(r.Payload), "it was appended there")
			there[spot{int64(s.ID()), r.Base}] = finding{r.Count, sum(r.Payload)}
		}))
	}
	twice := map[spot]bool{}
	for _, r := range w.acked {
		require.Equal(w, finding{r.Count, sum(r.payload())}, there[at(r)], "acknowledged at %+v", r)
		require.False(w, twice[at(r)], "two appends were acknowledged at %+v", r)
		twice[at(r)] = true
	}
	require.NoError(w, n.engine.Close(w.limit))
	w.check(n)
	require.NoError(w, n.leave())
}

// check finds nothing wrong.
func (w *world) check(n *node) {
	w.Helper()
	for f, err := range stream.Check(w.limit, stream.CheckOptions{
		Catalog: meta.NewCatalog(n.log), WAL: n.store, Data: n.store, Cluster: n.log.ClusterID(), Deep: true,
	}) {
		require.NoError(w, err)
		w.Errorf("%s", f)
	}
}

// TestF08_APausedProcessAcknowledgesNothingThatItsHeirHasNotFound: a process is stopped amid its appends for longer than its
// liveness key lives, and goes on after another one has taken over. A reply of the bucket that was on its way may still reach
// it, so it may tell of an append that was stored before the takeover; the heir has found that one. All others fail.
func TestF08_APausedProcessAcknowledgesNothingThatItsHeirHasNotFound(t *testing.T) {
	w := newWorld(t, "paused")
	for number := range takeovers(t) {
		w.round(number, func(a *process) { a.pause() }, func(a *process) {
			before := a.count(acked) // it has stood still for seconds: all that it said was read
			a.resume()
			a.await(ended, 1)
			require.True(t, a.end.Fenced, a.end.Text)
			require.True(t, a.end.Overtaken)
			require.Equal(t, [2]int{24, 24}, [2]int{a.end.Failed, a.end.Refused}, "one append of 8 writers that was pending, and two more")
			a.leave()
			t.Logf("%d appends of %d were told of late; %s", len(a.acked)-before, len(a.acked), a.end.Text)
		})
	}
	t.Logf("%d appends were acknowledged", len(w.acked))
}

func TestAKilledProcessLosesNothing(t *testing.T) {
	w := newWorld(t, "killed")
	for number := range takeovers(t) {
		w.round(number, func(a *process) { a.kill() }, func(*process) {})
	}
	t.Logf("%d appends were acknowledged", len(w.acked))
}
