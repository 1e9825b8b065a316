package node_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
)

// backupOf takes the metadata of a directory as a backup.
func backupOf(t *testing.T, dir string) meta.Backup {
	t.Helper()
	found, err := node.InspectMeta(t.Context(), node.MetaSource{DataDir: dir})
	require.NoError(t, err)
	require.Empty(t, found.Findings)
	return meta.Backup{ClusterID: found.ClusterID, State: found.State}
}

// values consumes the first record of each of the topics that filled made.
func values(t *testing.T, dir string) (read int) {
	t.Helper()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	c := clientOf(t, n)
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(t.Context())
	require.NoError(t, err)
	ends.Each(func(o kadm.ListedOffset) {
		require.NoError(t, o.Err)
		require.Equal(t, int64(1), o.Offset, o.Topic)
		read++
	})
	return read
}

func TestARestoredBackupIsTheSameState(t *testing.T) {
	dir := filled(t)
	taken := backupOf(t, dir)
	lost := copyDir(t, dir)
	require.NoError(t, os.Remove(filepath.Join(lost, "metadata.db")))

	target := node.MetaSource{DataDir: lost}
	plan, err := node.RestoreMeta(t.Context(), target, taken, node.RestoreOptions{})
	require.NoError(t, err)
	require.Equal(t, node.RestorePlan{
		Target: filepath.Join(lost, "metadata.db"), ClusterID: taken.ClusterID, Topics: 20, Partitions: 20,
		NextProducerID: taken.State.NextProducerID(),
	}, *plan)
	require.NoFileExists(t, filepath.Join(lost, "metadata.db"), "a dry run changes nothing")

	_, err = node.RestoreMeta(t.Context(), target, taken, node.RestoreOptions{Execute: true})
	require.NoError(t, err)
	require.Equal(t, taken.State.EncodeSnapshot(), backupOf(t, lost).State.EncodeSnapshot())
	require.Equal(t, 20, values(t, lost))

	_, err = node.RestoreMeta(t.Context(), target, taken, node.RestoreOptions{Execute: true})
	require.ErrorIs(t, err, fs.ErrExist, "what is there is never replaced")
}

func TestABackupIsRestoredOnAnotherMachine(t *testing.T) {
	taken := backupOf(t, filled(t))
	elsewhere := filepath.Join(t.TempDir(), "new")
	_, err := node.RestoreMeta(t.Context(), node.MetaSource{DataDir: elsewhere}, taken, node.RestoreOptions{})
	require.NoError(t, err)
	require.NoDirExists(t, elsewhere, "a dry run makes no directory")
	plan, err := node.RestoreMeta(t.Context(), node.MetaSource{DataDir: elsewhere}, taken,
		node.RestoreOptions{Execute: true, SkipProducerIDs: 5000})
	require.NoError(t, err)
	require.Len(t, plan.Missing, 20, "their records are not there")
	restored := backupOf(t, elsewhere)
	require.Equal(t, taken.State.NextProducerID()+5000, restored.State.NextProducerID())
	require.Equal(t, taken.ClusterID, restored.ClusterID)
	require.Equal(t, 20, restored.State.TopicCount())
	n, err := onDisk(t, elsewhere)
	require.NoError(t, err)
	require.Equal(t, taken.ClusterID, n.ClusterID())
	require.NoError(t, n.Close(t.Context()))
}

// TestARestoreGoesOnAboveTheLeaderEpochsThatClientsKnow has two stops that were not in order after the backup was taken.
func TestARestoreGoesOnAboveTheLeaderEpochsThatClientsKnow(t *testing.T) {
	dir := filled(t)
	taken := backupOf(t, dir)
	for range 2 {
		require.NoError(t, os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")))
		n, err := onDisk(t, dir)
		require.NoError(t, err)
		c := clientOf(t, n)
		produce(t, c, "topic07", 0, "of the new term")
		c.Close()
		require.NoError(t, n.Close(t.Context()))
	}
	known, _ := backupOf(t, dir).State.Topic("topic03")
	require.EqualValues(t, 2, known.LeaderEpoch(0), "it has no record that tells")
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))

	plan, err := node.RestoreMeta(t.Context(), node.MetaSource{DataDir: dir}, taken,
		node.RestoreOptions{Execute: true, SkipProducerIDs: 1})
	require.NoError(t, err)
	require.EqualValues(t, 3, plan.LeaderEpochsRaised)
	for topic := range backupOf(t, dir).State.Topics() {
		require.EqualValues(t, 3, topic.LeaderEpoch(0))
	}
}

func TestABackupOfAnotherClusterIsRefused(t *testing.T) {
	taken, dir := backupOf(t, filled(t)), filled(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	_, err := node.RestoreMeta(t.Context(), node.MetaSource{DataDir: dir}, taken, node.RestoreOptions{Execute: true})
	var identity *node.IdentityError
	require.ErrorAs(t, err, &identity)
	require.NoFileExists(t, filepath.Join(dir, "metadata.db"))
}

func TestF13_LostMetadataIsMadeAgainFromTheDirectories(t *testing.T) {
	dir := filled(t)
	before := backupOf(t, dir).State
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	_, err := onDisk(t, dir)
	require.ErrorContains(t, err, "of 20 topics")
	require.ErrorContains(t, err, "tidemark recover --data-dir "+dir)

	plan, err := node.RecoverMeta(t.Context(), dir, node.RecoverOptions{Store: filepath.Join(dir, "no-bucket")})
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "metadata.db"), "a dry run changes nothing")
	require.Len(t, plan.Topics, 20)
	require.EqualValues(t, 1, plan.NodeID)
	require.Equal(t, []node.RecoveredPartition{{End: 1, Bytes: plan.Topics[7].Partitions[0].Bytes}}, plan.Topics[7].Partitions)
	require.Equal(t, "-1", plan.Topics[7].Settings["retention.ms"])

	_, err = node.RecoverMeta(t.Context(), dir, node.RecoverOptions{Execute: true})
	require.NoError(t, err)
	after := backupOf(t, dir).State
	for topic := range before.Topics() {
		again, ok := after.TopicByID(topic.ID)
		require.True(t, ok)
		require.Equal(t, []any{topic.Name, topic.Partitions()}, []any{again.Name, again.Partitions()})
		require.GreaterOrEqual(t, again.LeaderEpoch(0), topic.LeaderEpoch(0))
	}
	require.Greater(t, after.NextProducerID(), before.NextProducerID())
	require.Equal(t, 20, values(t, dir))
	_, err = node.RecoverMeta(t.Context(), dir, node.RecoverOptions{Execute: true})
	require.ErrorIs(t, err, fs.ErrExist)
}

// TestF13_WhatOnlyTheJournalHasCountsWhenMetadataIsMadeAgain loses the metadata in the power cut that took records from the
// logs, which were the first of their leader epoch.
func TestF13_WhatOnlyTheJournalHasCountsWhenMetadataIsMadeAgain(t *testing.T) {
	dir := filled(t)
	for range 2 { // two terms of which no record tells
		require.NoError(t, os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")))
		n, err := onDisk(t, dir)
		require.NoError(t, err)
		require.NoError(t, n.Close(t.Context()))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")))
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	c := clientOf(t, n)
	var last sync.WaitGroup
	for i := range 20 {
		last.Add(1)
		r := &kgo.Record{Topic: fmt.Sprintf("topic%02d", i), Value: []byte("in the journal")}
		c.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
			defer last.Done()
			if err != nil {
				t.Error(err)
			}
		})
	}
	last.Wait()
	cut := copyDir(t, dir)
	c.Close()
	require.NoError(t, n.Close(t.Context()))
	require.FileExists(t, filepath.Join(cut, "tidemark.journal"))
	require.NoError(t, os.Remove(filepath.Join(cut, "metadata.db")))
	for i := range 20 {
		name := filepath.Join(cut, fmt.Sprintf("topic%02d-0", i), "00000000000000000000.log")
		records, err := os.ReadFile(name)
		require.NoError(t, err)
		first, _, err := batch.Next(records)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(name, int64(len(first))))
	}

	for _, execute := range []bool{false, true} {
		plan, err := node.RecoverMeta(t.Context(), cut, node.RecoverOptions{Execute: execute})
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(cut, "tidemark.journal"), "it is for the start that comes")
		journaled := 0
		for _, topic := range plan.Topics {
			if p := topic.Partitions[0]; p.End == 2 {
				require.EqualValues(t, 3, p.LeaderEpoch)
				journaled++
			}
		}
		require.Greater(t, journaled, 10)
	}
	for topic := range backupOf(t, cut).State.Topics() {
		require.EqualValues(t, 4, topic.LeaderEpoch(0), "above what any client knows")
	}
}

func TestRecoveryTellsWhatItLeavesAndWhatIsDamaged(t *testing.T) {
	dir := filled(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	require.NoError(t, os.Remove(filepath.Join(dir, "topic01-0", "partition.metadata")))
	require.NoError(t, os.Rename(filepath.Join(dir, "topic02-0"), filepath.Join(dir, "topic03-2")))                       // of another topic
	require.NoError(t, os.Rename(filepath.Join(dir, "topic04-0"), filepath.Join(dir, "topic04-2")))                       // 0 and 1 are gone
	require.NoError(t, os.WriteFile(filepath.Join(dir, "topic05-0", "leader-epoch-checkpoint"), []byte("9\n0\n"), 0o600)) // of a newer version

	plan, err := node.RecoverMeta(t.Context(), dir, node.RecoverOptions{Execute: true})
	require.NoError(t, err)
	var left []string
	for _, l := range plan.Left {
		left = append(left, l.Dir)
		require.NotEmpty(t, l.Reason)
	}
	require.Contains(t, left, "topic01-0")
	require.Len(t, left, 2)
	topics := map[string]node.RecoveredTopic{}
	for _, topic := range plan.Topics {
		topics[topic.Name] = topic
	}
	require.Len(t, topics["topic04"].Partitions, 3)
	require.Contains(t, topics["topic04"].Partitions[0].Problem, "begins empty")
	require.Empty(t, topics["topic04"].Partitions[2].Problem)
	require.Contains(t, topics["topic05"].Partitions[0].Problem, "leader-epoch-checkpoint")
}

func TestStreamsAreNotMadeUp(t *testing.T) {
	dir, bucket := filled(t), t.TempDir()
	require.NoError(t, os.Remove(filepath.Join(dir, "metadata.db")))
	key := filepath.Join(bucket, filepath.FromSlash("d4000000/DEFAULT/77"))
	require.NoError(t, os.MkdirAll(filepath.Dir(key), 0o700))
	require.NoError(t, os.WriteFile(key, []byte("object"), 0o600))
	_, err := node.RecoverMeta(t.Context(), dir, node.RecoverOptions{Execute: true, Store: bucket})
	var streams *node.StreamsLostError
	require.ErrorAs(t, err, &streams)
	require.Equal(t, 1, streams.Objects)
	require.NoFileExists(t, filepath.Join(dir, "metadata.db"))
}

func TestToolsKeepOffTheMetadataOfARunningServer(t *testing.T) {
	dir := t.TempDir()
	n, err := onDisk(t, dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close(context.Background())) }()
	_, err = node.InspectMeta(t.Context(), node.MetaSource{DataDir: dir})
	var locked *meta.LockedError
	require.ErrorAs(t, err, &locked)
	_, err = node.RecoverMeta(t.Context(), dir, node.RecoverOptions{})
	require.ErrorIs(t, err, vfs.ErrLocked)
	_, err = node.RestoreMeta(t.Context(), node.MetaSource{DataDir: dir}, meta.Backup{State: meta.Empty()}, node.RestoreOptions{})
	require.ErrorIs(t, err, vfs.ErrLocked)
}
