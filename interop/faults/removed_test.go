package faults

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/server"
)

func TestADataDirectoryThatIsRemovedEndsTheServerAndComesBackWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	h := process(t, server.TidemarkOptions{Dir: dir})
	require.NoError(t, h.Start(within(t)))
	l, load := load(t, h)
	require.NoError(t, l.WaitAcks(within(t), 500))
	// The topic of the offsets is there too: nothing makes directories now.
	admin := kadm.NewClient(client(t, h))
	require.NoError(t, admin.CommitAllOffsets(within(t), "other", kadm.OffsetsFromRecords(kgo.Record{Topic: "loaded"})))

	require.NoError(t, os.Rename(dir, dir+".away"))
	code, err := h.Wait(within(t))
	require.NoError(t, err)
	require.Equal(t, 1, code)
	require.Contains(t, h.Output(), "the data directory "+dir+" was removed or replaced while the server ran: "+
		"put it back before the next start")
	_, err = os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing was made in its place")

	require.NoError(t, os.Rename(dir+".away", dir))
	require.NoError(t, h.Start(within(t)))
	require.NoError(t, l.WaitAcks(within(t), l.Acks()+100))
	require.NoError(t, load.Stop(within(t)))
	verify(t, h, l, "after it was put back")
	require.NoError(t, h.Stop(within(t)))
}

func TestADataDirectoryThatIsDeletedEndsTheServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	h := process(t, server.TidemarkOptions{Dir: dir})
	require.NoError(t, h.Start(within(t)))
	require.NoError(t, create(t, h, 1, "orders"))
	require.NoError(t, produce(t, h, "orders", 0, 100))
	require.NoError(t, os.RemoveAll(dir))
	code, err := h.Wait(within(t))
	require.NoError(t, err)
	require.Equal(t, 1, code)
	require.Contains(t, h.Output(), "was removed or replaced while the server ran")
	_, err = os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "nothing was made in its place")
}
