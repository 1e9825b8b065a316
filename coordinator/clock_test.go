package coordinator_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/coordinator"
)

func TestSettingTheWallClockEndsNoSessionAndIsRecorded(t *testing.T) {
	r := newRig(t)
	members, generation := r.stable("g", 1)
	r.shard.SetSkew(day)
	r.pass(session - 1)
	require.NoError(t, r.beat("g", members[0], generation))
	require.NoError(t, r.commit(committing("g", members[0], generation, "t", 0, 1)))
	last, ok := r.log[len(r.log)-1].Record.(coordinator.OffsetRecord)
	require.True(t, ok)
	require.Equal(t, r.now+day, last.Offset.CommitMs)

	r.shard.SetSkew(-day) // back, too
	r.pass(session - 1)
	require.NoError(t, r.beat("g", members[0], generation))
}
