package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestARebuildTellsThatObjectsAreMissingFromALogThatWasEndedAndNotRecovered: whoever ended the log died before recovering it, and
// the objects with the records of a stream are lost. That what stands behind them is in no object shows that the log is not being
// removed.
func TestARebuildTellsThatObjectsAreMissingFromALogThatWasEndedAndNotRecovered(t *testing.T) {
	for name, trimmed := range map[string]bool{"with a part trimmed": true, "from the beginning": false} {
		t.Run(name, func(t *testing.T) {
			runCluster(t, func(c *cluster) {
				dead := c.start(5)
				s, committed := dead.stream(), int64(0)
				if trimmed {
					c.appendMany(s, 3)
					require.NoError(c, dead.Upload(c.Context()))
					c.pass(c.config.WALTrimPersist)
					committed = 3
				}
				c.appendMany(dead.stream(), 1)
				lost := c.ownObjects(5)
				c.appendMany(s, 2)
				dead.kill()
				own, prefix := c.ownObjects(5), WALPrefix{Cluster: "tm-1", Node: 5}
				last, err := prefix.Parse(own[len(own)-1])
				require.NoError(c, err)
				take := walTakeover{store: c.wal.Open(), prefix: prefix, ended: last.Epoch, by: last.Epoch + 1}
				_, err = take.placeFence(c.Context(), last.Start+Window, -1)
				require.NoError(c, err)
				require.NoError(c, c.wal.Open().Delete(c.Context(), lost...))
				c.damages = []FindingKind{FoundWALGap}

				options := RebuildOptions{WAL: c.wal.Open(), Data: c.data.Open(), Cluster: "tm-1"}
				var stopped *RebuildError
				_, err = Rebuild(c.Context(), options)
				require.ErrorAs(c, err, &stopped)
				require.Len(c, stopped.Findings, 1)
				require.Contains(c, stopped.Findings[0].Detail, "the log was ended and its first objects are gone")
				options.LeaveOut = true
				made, err := Rebuild(c.Context(), options)
				require.NoError(c, err)
				require.Len(c, made.Streams, 1)
				require.Equal(c, []int64{0, committed, committed + 2},
					[]int64{made.Streams[0].Start, made.Streams[0].End, made.LogEnds[s.ID()]}, "what is there is used")
			})
		})
	}
}
