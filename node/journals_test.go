package node_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node"
)

func TestAToolTellsWhatTheJournalHoldsOfWhichPartition(t *testing.T) {
	killed, stopped, p, whole := killedWithJournal(t)
	before, err := os.ReadFile(filepath.Join(killed, node.JournalFile))
	require.NoError(t, err)
	looked, err := node.TakeStopped(t.Context(), killed, false, nil)
	require.NoError(t, err)
	require.NoError(t, looked.Close())
	require.False(t, looked.StoppedCleanly())
	journals := looked.Journals()
	require.Len(t, journals, 1)
	require.Equal(t, filepath.Join(killed, node.JournalFile), journals[0].File)
	require.NoError(t, journals[0].Problem)
	held := map[string]node.JournaledRecords{}
	for _, h := range journals[0].Held {
		held[h.Dir] = h
	}
	name := filepath.Base(filepath.Dir(segmentOf(killed, p)))
	require.Equal(t, [2]int64{p64(p), 3}, [2]int64{int64(held[name].Index), held[name].Next})
	files, bytes := looked.PutBack()
	require.Equal(t, 1, files)
	require.Positive(t, bytes)
	require.EqualValues(t, 0, looked.Proven("no partition"))
	after, err := os.ReadFile(filepath.Join(killed, node.JournalFile))
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NotEmpty(t, whole)

	looked, err = node.TakeStopped(t.Context(), stopped, false, nil)
	require.NoError(t, err)
	require.NoError(t, looked.Close())
	require.Empty(t, looked.Journals())
	require.EqualValues(t, 3, looked.Proven(name))
	require.False(t, looked.MayBeKafkas())
	require.NoError(t, os.Remove(filepath.Join(stopped, "metadata.db")))
	looked, err = node.TakeStopped(t.Context(), stopped, false, nil)
	require.NoError(t, err)
	require.NoError(t, looked.Close())
	require.True(t, looked.MayBeKafkas())
}

func p64(p int32) int64 { return int64(p) }

// spoiltMetadata is the directory of a server that was killed, without its metadata file and with everything else damaged that a
// start heals.
func spoiltMetadata(t *testing.T) (dir string) {
	killed, _, _, _ := killedWithJournal(t)
	require.NoError(t, os.Remove(filepath.Join(killed, "metadata.db")))
	for _, name := range []string{"meta.properties", "replication-offset-checkpoint", "orders-19/partition.metadata"} {
		require.NoError(t, os.WriteFile(filepath.Join(killed, name), []byte("version=damaged"), 0o600))
	}
	journal := filepath.Join(killed, node.JournalFile)
	data, err := os.ReadFile(journal)
	require.NoError(t, err)
	data[512+30] ^= 1 // in the first round
	require.NoError(t, os.WriteFile(journal, data, 0o600))
	return killed
}

func TestRecoveryTakesWhatAStartHealsAsAStartTakesIt(t *testing.T) {
	dir := spoiltMetadata(t)
	for _, execute := range []bool{false, true} {
		plan, err := node.RecoverMeta(t.Context(), dir, node.RecoverOptions{NodeID: 1, Execute: execute})
		require.NoError(t, err)
		require.EqualValues(t, 1, plan.NodeID)
		require.Len(t, plan.Topics, 1)
		require.Len(t, plan.Topics[0].Partitions, 20)
		require.Empty(t, plan.Left)
		for _, p := range plan.Topics[0].Partitions {
			require.Empty(t, p.Problem)
		}
		told := func(words string) { require.True(t, contains(plan.Problems, words), "%q in %q", words, plan.Problems) }
		told("meta.properties cannot be used")
		told("the journal is damaged")
		told("checkpoints are damaged")
		told("orders-19: it is taken by its name")
	}
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	require.Equal(t, "first", valueAt(t, c, "orders", 19, 0))
	c.Close()
	require.NoError(t, n.Close(context.Background()))
}

func TestATopicOfWhichNoDirectoryKnowsTheIDGetsANewOne(t *testing.T) {
	dir := filled(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "topic03-0", "partition.metadata"), []byte("damaged"), 0o600))
	plan, err := node.RecoverMeta(t.Context(), dir, node.RecoverOptions{Execute: true})
	require.NoError(t, err)
	require.Len(t, plan.Topics, 20)
	require.True(t, contains(plan.Problems, "the id of topic topic03 is lost"))
	require.Equal(t, 20, values(t, dir))
}

func TestARestoreTakesWhatAStartHealsAsAStartTakesIt(t *testing.T) {
	dir := filled(t)
	taken := backupOf(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	require.NoError(t, os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")))
	for _, name := range []string{"meta.properties", "topic03-0/partition.metadata"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("damaged"), 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "topic04-0", "partition.metadata")))
	plan, err := node.RestoreMeta(t.Context(), node.MetaSource{DataDir: dir}, taken, node.RestoreOptions{Execute: true, SkipProducerIDs: 1})
	require.NoError(t, err)
	require.Empty(t, plan.Unknown, "a start moves none of them aside")
	require.Empty(t, plan.Missing)
	require.Len(t, plan.Left, 1)
	require.Equal(t, "topic04-0", plan.Left[0].Dir)
	require.True(t, contains(plan.Problems, "meta.properties cannot be used"))
	require.True(t, contains(plan.Problems, "topic03-0: the next start makes its partition.metadata again"))
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	require.NotEmpty(t, valueAt(t, c, "topic03", 0, 0))
	c.Close()
	require.NoError(t, n.Close(context.Background()))
}

func TestThereIsNothingToRecoverInAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	_, err := node.RecoverMeta(t.Context(), dir, node.RecoverOptions{Execute: true})
	require.ErrorIs(t, err, node.ErrNothingToRecover)
	require.NoFileExists(t, filepath.Join(dir, "metadata.db"))
}

// contains reports whether one of the texts has the words in it.
func contains(texts []string, words string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, words) })
}

// valueAt reads the record at an offset.
func valueAt(t *testing.T, c *kgo.Client, topic string, p int32, offset int64) string {
	t.Helper()
	c.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(offset)}})
	fetched := c.PollFetches(within(t))
	require.NoError(t, fetched.Err())
	require.NotZero(t, fetched.NumRecords())
	return string(fetched.Records()[0].Value)
}
