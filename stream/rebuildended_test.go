package stream

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// TestALogThatIsBeingRemovedIsNoDamageToARebuild: a node was taken over, so that all of its log is in objects, and two of the
// log's objects cannot be removed: the last, and one other after the other. Then the metadata is lost. What is left of the log
// must not look as if an object of it was lost.
func TestALogThatIsBeingRemovedIsNoDamageToARebuild(t *testing.T) {
	for name, of := range map[string]struct {
		lives   int  // of the node that dies
		trimmed bool // a part of its log, before it dies
	}{
		"in its first epoch":       {lives: 1},
		"behind an epoch's fence":  {lives: 2},
		"with a part trimmed":      {lives: 1, trimmed: true},
		"trimmed, behind a fence":  {lives: 2, trimmed: true},
		"trimmed, behind two more": {lives: 3, trimmed: true},
	} {
		t.Run(name, func(t *testing.T) {
			for stuck, done := 0, false; !done; stuck++ {
				runCluster(t, func(c *cluster) {
					dead := c.start(5)
					s := dead.stream()
					for life := 1; life < of.lives; life++ {
						c.appendMany(s, 2)
						dead.kill()
						dead = c.start(5)
						s = dead.reopen(s.ID())
					}
					c.appendMany(s, 3)
					if of.trimmed {
						require.NoError(c, dead.Upload(c.Context()))
						c.appendMany(s, 1) // it carries the trim offset
						c.pass(c.config.WALTrimPersist)
					}
					c.appendMany(s, 12)
					rows := c.rows(s)
					dead.kill()
					done = c.takeOverAndRebuild(s, rows, stuck)
				})
			}
		})
	}
}

// takeOverAndRebuild has a node take over node 5, whose log has one stream, with an object of the log that cannot be removed beside
// the last one, and rebuilds the metadata then. It reports that there is no such object.
func (c *cluster) takeOverAndRebuild(s *Stream, rows []string, stuck int) (done bool) {
	heir := c.start(6)
	own := c.ownObjects(5)
	if done = stuck >= len(own); !done {
		heir.wal.SetInjector(faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete },
			faultstore.Always(faultstore.Fault{Keys: map[string]error{own[stuck]: objstore.ErrTransient, own[len(own)-1]: objstore.ErrTransient}})))
	}
	require.NoError(c, heir.Failover(c.Context(), 5))
	synctest.Wait()
	require.Equal(c, rows, c.rows(heir.reopen(s.ID())))

	made, err := Rebuild(c.Context(), RebuildOptions{WAL: c.wal.Open(), Data: c.data.Open(), Cluster: "tm-1"})
	require.NoError(c, err, "object %d cannot be removed", stuck)
	require.Len(c, made.Streams, 1)
	end := max(made.Streams[0].End, made.LogEnds[s.ID()])
	require.Equal(c, []int64{0, int64(len(rows))}, []int64{made.Streams[0].Start, end})
	for _, node := range made.Nodes {
		if node.ID != 5 || node.WALEpoch < 0 {
			continue
		}
		look := walTakeover{
			store: c.wal.Open(), prefix: WALPrefix{Cluster: "tm-1", Node: node.ID}, ended: node.WALEpoch, start: node.WALStart,
			by: node.Epoch + 1,
		}
		_, err := look.end(c.Context())
		require.NoError(c, err, "it can be recovered from what is left")
	}
	return done
}

// ownObjects are the keys of the objects of a node's newest log that are no fences, in the order of the log.
func (c *cluster) ownObjects(node catalog.NodeID) (own []string) {
	prefix := WALPrefix{Cluster: "tm-1", Node: node}
	listed, err := listAll(c.Context(), c.wal.Open(), prefix.String())
	require.NoError(c, err)
	keys := map[string]WALKey{}
	newest := int64(-1)
	for _, o := range listed {
		key, err := prefix.Parse(o.Key)
		require.NoError(c, err)
		if newest = max(newest, key.Epoch); o.Size != fenceSize {
			keys[o.Key] = key
		}
	}
	for key, at := range keys {
		if at.Epoch == newest {
			own = append(own, key)
		}
	}
	slices.SortFunc(own, func(a, b string) int { return cmp.Compare(keys[a].Start, keys[b].Start) })
	return own
}
