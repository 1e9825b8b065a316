package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// tryCreate makes a topic, or returns the error and the words that the client was told.
func tryCreate(t *testing.T, m *nodetest.Machine, partitions int32, name string) (told string, err error) {
	t.Helper()
	created, err := kadm.NewClient(client(t, m)).CreateTopic(within(t), partitions, 1, nil, name)
	return created.ErrMessage, errors.Join(err, created.Err)
}

func TestACreationThatFailsAnywhereLeavesNothingAndTellsNoPath(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EMFILE} {
		t.Run(cause.Error(), func(t *testing.T) {
			m := machine(t)
			var nth atomic.Int64 // call on the topic's files that fails; below 0: none
			nth.Store(-1)
			m.Wrap = func(base vfs.FS) vfs.FS {
				return faultfs.New(base, func(op faultfs.Op) faultfs.Fault {
					if strings.Contains(op.Name, "/orders-") && nth.Add(-1) == -1 {
						return faultfs.Fault{Err: cause}
					}
					return faultfs.Fault{}
				})
			}
			m.Start()
			failed := 0
			for n := int64(1); ; n++ {
				nth.Store(n)
				told, err := tryCreate(t, m, 2, "orders")
				unused := nth.Load() > 0
				nth.Store(-1)
				if err == nil {
					if unused {
						break
					}
					deleted, err := kadm.NewClient(client(t, m)).DeleteTopics(within(t), "orders") // it did without that call
					require.NoError(t, errors.Join(err, deleted.Error()))
					continue
				}
				failed++
				require.ErrorIs(t, err, kerr.KafkaStorageError, "call %d: %s", n, told)
				require.NotContains(t, told, nodetest.DataDir+"/", "call %d", n)
				require.False(t, exists(m.FS, "data/orders-0"), "call %d", n)
				require.False(t, exists(m.FS, "data/orders-1"), "call %d", n)
			}
			require.Greater(t, failed, 5)
		})
	}
}

func TestDirectoriesOfACreationThatDidNotComeToBeAreRemovedAndDataIsMovedAside(t *testing.T) {
	m := machine(t)
	m.Start()
	createTopic(t, client(t, m), 1, nil, "orders")
	m.Stop()
	make_ := func(dir string, files ...string) {
		require.NoError(t, m.FS.MkdirAll("data/"+dir))
		for _, name := range files {
			require.NoError(t, vfs.WriteFileAtomic(m.FS, "data/"+dir+"/"+name, nil))
		}
	}
	const log0 = "00000000000000000000.log"
	make_("ghost-0")
	make_("ghost-1", "partition.metadata.tmp")
	make_("ghost-2", log0, "00000000000000000000.index")
	make_("ghost-3", log0)
	require.NoError(t, logdir.WriteMetadata(m.FS, "data/ghost-3", logdir.NewUUID()))
	make_("data-4", "00000000000000000007.log") // empty, and records were there before
	require.NoError(t, logdir.WriteMetadata(m.FS, "data/data-4", logdir.NewUUID()))
	make_("data-5", "what-is-this")
	require.NoError(t, logdir.WriteMetadata(m.FS, "data/data-5", logdir.NewUUID()))
	make_("unknown-6", log0, "what-is-this")
	m.Start()

	require.Eventually(t, func() bool { return len(under(tree(t, m.FS, nodetest.DataDir), "ghost")) == 0 }, patience, time.Millisecond)
	names := tree(t, m.FS, nodetest.DataDir)
	require.Len(t, under(names, "-stray/partition.metadata"), 2)
	require.Len(t, under(names, "data-4."), 3, "%v", names)
	require.Len(t, under(names, "data-5."), 3, "%v", names)
	require.True(t, exists(m.FS, "data/unknown-6/what-is-this"))
	require.True(t, exists(m.FS, "data/orders-0"))
}

func TestAPartitionThatCannotBeOpenedTellsClientsNoPath(t *testing.T) {
	m := machine(t)
	m.Start()
	c := client(t, m)
	createTopic(t, c, 1, nil, "orders")
	produce(t, c, "orders", 0, "kept")
	m.CutPower(nodetest.Cut{Keep: 1})
	m.Wrap = func(base vfs.FS) vfs.FS {
		return faultfs.New(base, faultfs.FailMatching(faultfs.OpOpen, "data/orders-0/*.log", syscall.EIO))
	}
	m.Start()
	topics, err := kadm.NewClient(c).ListTopics(within(t), "orders")
	require.NoError(t, err)
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(1, nil, []byte("value"))
	records, err := b.Build()
	require.NoError(t, err)
	answer := produceRaw(t, c, topics["orders"], records)
	require.Equal(t, kerr.KafkaStorageError.Code, answer.ErrorCode)
	require.Equal(t, "the server's storage failed; its log says how", *answer.ErrorMessage)
}

// fullMeta is a metadata log without room while it is told so.
type fullMeta struct {
	meta.Backend
	full atomic.Bool
}

func (f *fullMeta) Append(ctx context.Context, index uint64, entry []byte) error {
	if f.full.Load() {
		return fmt.Errorf("%w: /srv/metadata.db: %w", meta.ErrNoSpace, syscall.ENOSPC)
	}
	return f.Backend.Append(ctx, index, entry)
}

func TestAMetadataLogWithoutRoomRefusesChangesAndEndsNothing(t *testing.T) {
	b, err := metatest.NewMemory("c").Open()
	require.NoError(t, err)
	defer b.Close()
	store := &fullMeta{Backend: b}
	dir := t.TempDir()
	n, err := node.Open(t.Context(), node.Config{
		DataDir: dir, NodeID: 1, Kafka: []node.Listener{{Listen: "127.0.0.1:0"}}, Meta: store,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	c := clientOf(t, n)
	defer c.Close()
	admin := kadm.NewClient(c)
	createTopic(t, c, 1, nil, "old")

	store.full.Store(true)
	created, err := admin.CreateTopic(within(t), 1, 1, nil, "orders")
	require.ErrorIs(t, errors.Join(err, created.Err), kerr.KafkaStorageError)
	require.Equal(t, "the disk is full: delete topics or records, or add space", created.ErrMessage)
	deleted, err := admin.DeleteTopics(within(t), "old")
	require.NoError(t, err)
	require.ErrorIs(t, deleted.Error(), kerr.KafkaStorageError)
	require.NoError(t, n.Err())

	store.full.Store(false)
	createTopic(t, c, 1, nil, "orders")
	deleted, err = admin.DeleteTopics(within(t), "old")
	require.NoError(t, errors.Join(err, deleted.Error()))
}
