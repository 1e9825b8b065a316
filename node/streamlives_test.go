package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/vfs"
)

// fleet is nodes over one metadata log and one bucket, a directory, of which one dies after the other.
type fleet struct {
	*testing.T
	storage *metatest.Memory
	root    string
	nodes   map[int32]*streamNode
	stores  map[int32]*faultstore.Store

	mu     sync.Mutex
	ledger map[streamcatalog.StreamID][]string // what was acknowledged
}

// note notes what was acknowledged.
func (f *fleet) note(id streamcatalog.StreamID, rows []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ledger[id] = append(f.ledger[id], rows...)
}

// start starts a process of a node, which takes over what is due.
func (f *fleet) start(id int32) *streamNode {
	f.Helper()
	store, err := dir.Open(vfs.OS(), f.root)
	require.NoError(f, err)
	f.stores[id] = faultstore.New(store, nil)
	n := newStreamNodeOf(f.T, id, f.storage, func() objstore.Store { return f.stores[id] })
	n.watch()
	f.nodes[id] = n
	return n
}

// open opens a stream on a node, and holds what is in it against the ledger: all that was acknowledged, once and in order, and
// nothing else but what was on its way when its node died.
func (f *fleet) open(n *streamNode, id streamcatalog.StreamID, onItsWay int) *stream.Stream {
	f.Helper()
	e, err := n.get(f.Context())
	require.NoError(f, err)
	row, known := n.log.View().Stream(id)
	require.True(f, known)
	s, err := e.OpenStream(f.Context(), id, row.Epoch+1)
	require.NoError(f, err)
	rows := []string{}
	for next := s.Start(); next < s.Confirm(); {
		got, err := s.Fetch(f.Context(), stream.FetchRequest{Start: next, End: s.Confirm(), MaxBytes: 1 << 20})
		require.NoError(f, err)
		for _, r := range got.Records {
			require.Equal(f, next, r.Base)
			rows, next = append(rows, string(r.Payload)), r.End()
		}
	}
	acked := f.ledger[id]
	require.GreaterOrEqual(f, len(rows), len(acked), "stream %d", id)
	require.LessOrEqual(f, len(rows), len(acked)+onItsWay, "stream %d", id)
	require.Equal(f, acked, rows[:len(acked)], "stream %d", id)
	f.ledger[id] = rows
	return s
}

// TestU03_NodesThatDieInTurnAreTakenOverAndNothingAcknowledgedIsLost: each dies while its streams are appended to, also the one
// that holds the lease; what it led goes on at another, and it comes back.
func TestU03_NodesThatDieInTurnAreTakenOverAndNothingAcknowledgedIsLost(t *testing.T) {
	f := &fleet{
		T: t, storage: metatest.NewMemory("c"), root: t.TempDir(), nodes: map[int32]*streamNode{},
		stores: map[int32]*faultstore.Store{}, ledger: map[streamcatalog.StreamID][]string{},
	}
	const nodes, lives, streams, least = 3, 6, 3, 20
	for id := range int32(nodes) {
		f.start(id)
	}
	e, err := f.nodes[0].get(t.Context())
	require.NoError(t, err)
	first, err := e.CreateStreams(t.Context(), streams)
	require.NoError(t, err)
	for i := range streamcatalog.StreamID(streams) {
		f.ledger[first+i] = []string{}
	}
	for life := range int32(lives) {
		victim, heir := f.nodes[life%nodes], f.nodes[(life+1)%nodes]
		until(t, victim, func(s *meta.State) bool { return s.Index() >= heir.log.View().Index() })
		appended := make(chan error, streams)
		enough := make(chan struct{}, streams)
		for i := range streamcatalog.StreamID(streams) {
			s := f.open(victim, first+i, 1)
			go func() { appended <- f.appendUntilItDies(s, life, least, enough) }()
		}
		for range streams {
			<-enough
		}
		until(t, heir, func(s *meta.State) bool { // otherwise it may not know yet that there is a log
			node, _ := s.Node(victim.member.Node())
			return node.WALEpoch == victim.member.Epoch()
		})
		victim.kill(t, f.stores[victim.member.Node()])
		for range streams {
			require.NotErrorIs(t, <-appended, context.DeadlineExceeded, "it ended with its node")
		}
		until(t, heir, tookOver(victim.member.Node()))
		for i := range streamcatalog.StreamID(streams) {
			require.NoError(t, f.open(heir, first+i, 1).Close(t.Context()))
		}
		f.start(victim.member.Node())
	}
	for f, err := range stream.Check(t.Context(), stream.CheckOptions{
		Catalog: meta.NewCatalog(f.nodes[0].log), WAL: f.stores[0], Data: f.stores[0], Cluster: "c", Deep: true,
	}) {
		require.NoError(t, err)
		require.NotEqual(t, stream.Damage, f.Severity, f.String())
	}
}

// appendUntilItDies appends one record after the other and notes those that are acknowledged. It says when it has some.
func (f *fleet) appendUntilItDies(s *stream.Stream, life int32, least int, enough chan<- struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var acked []string
	for i := 0; ; i++ {
		row := fmt.Sprintf("stream %d, life %d, row %d", s.ID(), life, i)
		if _, err := s.Append(ctx, 1, []byte(row)); err != nil {
			f.note(s.ID(), acked)
			return err
		}
		if acked = append(acked, row); len(acked) == least {
			enough <- struct{}{}
		}
	}
}
