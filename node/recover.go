package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// RecoverPlan is the metadata that can be rebuilt from a data directory whose metadata log is lost.
type RecoverPlan struct {
	// Target is the log that is rebuilt; ClusterID and NodeID are those of the directory, from meta.properties.
	Target    string `json:"target"`
	ClusterID string `json:"cluster_id"`
	NodeID    int32  `json:"node_id"`
	// Topics are in the order of their names.
	Topics []RecoveredTopic `json:"topics"`
	// Left are directories that do not become part of a topic.
	Left []LeftDirectory `json:"left"`
	// Problems are other faults of the data directory, and what the next start does about each.
	Problems []string `json:"problems"`
	// NextProducerID is the next producer id to be assigned. It is above all that earlier servers assigned, as long as
	// they assigned fewer than a thousand a second since 1970.
	NextProducerID uint64 `json:"next_producer_id"`
	// Streams is what the named bucket holds; nil if it holds no streams.
	Streams *RecoveredStreams `json:"streams"`

	identity string // the cluster's id by the directory; empty if it has none
}

// RecoveredTopic is a topic as found in its directories.
type RecoveredTopic struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// Partitions are in the order of their numbers, and without a gap: those without a directory start empty.
	Partitions []RecoveredPartition `json:"partitions"`
	// Settings replace the topic's lost ones, such that nothing is deleted until somebody sets others.
	Settings map[string]string `json:"settings"`

	id meta.TopicID
}

// RecoveredPartition is a partition as found in its directory.
type RecoveredPartition struct {
	Index int32 `json:"index"`
	// Start and End are the offsets of the log, Bytes its size, LeaderEpoch the last that wrote to it.
	Start       int64 `json:"start_offset"`
	End         int64 `json:"end_offset"`
	Bytes       int64 `json:"bytes"`
	LeaderEpoch int32 `json:"leader_epoch"`
	// Problem says why the log cannot be opened, or that there is none.
	Problem string `json:"problem,omitempty"`
}

// LeftDirectory is a directory that stays as it is.
type LeftDirectory struct {
	Dir    string `json:"dir"`
	Reason string `json:"reason"`
}

// StreamsLostError says that a bucket holds streams whose metadata is lost and cannot be rebuilt from the objects unless
// something is left out.
type StreamsLostError struct {
	Store   string
	Objects int   // damaged or ambiguous ones
	Err     error // a [*stream.RebuildError]
}

func (e *StreamsLostError) Error() string {
	return fmt.Sprintf("%s: %v; restore a backup with 'tidemark restore', repair the objects, or leave out what is damaged", e.Store, e.Err)
}

// Unwrap returns what is damaged.
func (e *StreamsLostError) Unwrap() error { return e.Err }

// ErrNothingToRecover says that there is nothing to rebuild metadata from: no partitions, no cluster id and no streams.
var ErrNothingToRecover = errors.New("node: there is nothing to recover")

// RecoverOptions say how metadata is rebuilt.
type RecoverOptions struct {
	// Execute carries the recovery out; without it nothing changes.
	Execute bool
	// Store is the URL of the bucket that held the cluster's streams; empty if there were none.
	Store string
	// NodeID is the node id to use for a directory that does not record one.
	NodeID int32
	// LeaveOut rebuilds streams without objects and logs that are damaged or ambiguous. The plan says which.
	LeaveOut bool
	// Progress is called with how many of all logs have been read, possibly by several goroutines at once. It may be nil.
	Progress func(done, total int)
	// ObjectProgress is called with how many of the bucket's objects have been read. It may be nil.
	ObjectProgress func(done, total int)
}

// RecoverMeta rebuilds the metadata file of a data directory from what is in it: topic names and ids from directories,
// leader epochs from the logs, and streams from the bucket that holds them. Settings of topics and whatever else was only
// in the metadata are lost; [RecoveredStreams] says what is lost of streams.
//
// A crash leaves the whole file or none. The bucket is only read unless Execute is set: then records that only a write-ahead
// log holds are first written to objects, and no server may use the bucket. Errors to match: [fs.ErrExist] when there is a
// metadata file, [*StreamsLostError], with the plan, vfs.ErrLocked when a server is using the directory, and
// [ErrNothingToRecover].
func RecoverMeta(ctx context.Context, name string, o RecoverOptions) (*RecoverPlan, error) {
	target := MetaSource{DataDir: name}
	d, err := lockDataDir(ctx, name, o.Execute, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.dir.Close() }()
	if there, err := target.exists(ctx); err != nil || there {
		return nil, errors.Join(err, existsError(there, target))
	}
	if d.identity.ClusterID == "" {
		d.node = o.NodeID
	}
	now := Config{}.withDefaults().Now()
	plan := &RecoverPlan{
		Target: target.String(), ClusterID: d.clusterID(""), NodeID: d.node, Left: d.unused(), identity: d.identity.ClusterID,
	}
	plan.Topics, plan.Left = d.recoverTopics(plan.Left, true)
	if err := d.readLogs(ctx, plan.Topics, o.Progress); err != nil {
		return nil, err
	}
	plan.Problems = d.problems
	state, err := plan.state(now.UnixMilli())
	if err != nil {
		return nil, err
	}
	plan.NextProducerID = state.NextProducerID()
	streams, err := plan.recoverStreams(ctx, o, now)
	if err != nil {
		return plan, err
	}
	if len(plan.Topics) == 0 && streams.isEmpty() && d.identity.ClusterID == "" {
		return plan, fmt.Errorf("%w in %s", ErrNothingToRecover, name)
	}
	if !o.Execute {
		return plan, nil
	}
	if !streams.isEmpty() {
		if state, err = streams.execute(ctx, o.Store, plan.ClusterID, state, scratchFile(name)); err != nil {
			return plan, err
		}
	}
	return plan, target.install(ctx, plan.ClusterID, state)
}

// unused lists directories that certainly belong to no partition.
func (d *dataDir) unused() (left []LeftDirectory) {
	for _, dir := range d.found.strays {
		left = append(left, LeftDirectory{dir.name.String(), "it had been moved aside; rename it to take it back"})
	}
	for _, name := range d.found.deleted {
		left = append(left, LeftDirectory{name.String(), "its topic was being deleted"})
	}
	return left
}

// recoverTopics groups directories into topics. Where directories of one name belong to several topics, the one with the
// most partitions wins. With byName, directories too damaged to name their topic are assigned by their own names.
func (d *dataDir) recoverTopics(left []LeftDirectory, byName bool) ([]RecoveredTopic, []LeftDirectory) {
	found := map[string]map[meta.TopicID][]int32{}
	var damaged []foundDir
	for _, dir := range d.found.partitions {
		p := dir.name.Partition
		var spoilt *logdir.FormatError
		switch {
		case byName && errors.As(dir.err, &spoilt):
			damaged = append(damaged, dir)
			continue
		case dir.err != nil:
			left = append(left, LeftDirectory{dir.name.String(), dir.err.Error()})
			continue
		}
		if found[p.Topic] == nil {
			found[p.Topic] = map[meta.TopicID][]int32{}
		}
		found[p.Topic][dir.topic] = append(found[p.Topic][dir.topic], p.Index)
	}
	d.adoptDamaged(found, damaged)
	var topics []RecoveredTopic
	for _, name := range slices.Sorted(maps.Keys(found)) {
		ids := byPartitions(found[name])
		topics = append(topics, newRecoveredTopic(name, ids[0], found[name][ids[0]]))
		for _, other := range ids[1:] {
			for _, index := range found[name][other] {
				left = append(left, LeftDirectory{
					logdir.Partition{Topic: name, Index: index}.String(), "it is of another topic of that name, " + other.String(),
				})
			}
		}
	}
	return topics, left
}

// byPartitions returns the ids of topics of one name, the one with the most partitions first.
func byPartitions(indexes map[meta.TopicID][]int32) []meta.TopicID {
	return slices.SortedFunc(maps.Keys(indexes), func(a, b meta.TopicID) int {
		return cmp.Or(cmp.Compare(len(indexes[b]), len(indexes[a])), strings.Compare(a.String(), b.String()))
	})
}

// adoptDamaged assigns directories with a damaged partition.metadata to the topic in their names; the next start rewrites
// the file accordingly. If no other directory knows the topic's id, the topic gets a new one.
func (d *dataDir) adoptDamaged(byName map[string]map[meta.TopicID][]int32, damaged []foundDir) {
	for _, dir := range damaged {
		p := dir.name.Partition
		if byName[p.Topic] == nil {
			byName[p.Topic] = map[meta.TopicID][]int32{meta.TopicID(logdir.NewUUID()): nil}
			d.problem("the id of topic %s is lost, and it gets a new one", p.Topic)
		}
		id := byPartitions(byName[p.Topic])[0]
		byName[p.Topic][id] = append(byName[p.Topic][id], p.Index)
		d.problem("%s: it is taken by its name, and the next start makes its %s again: %v", p, logdir.MetadataFile, dir.err)
	}
}

func newRecoveredTopic(name string, id meta.TopicID, indexes []int32) RecoveredTopic {
	t := RecoveredTopic{Name: name, ID: id.String(), id: id, Settings: safeSettings(name)}
	t.Partitions = make([]RecoveredPartition, slices.Max(indexes)+1)
	for i := range t.Partitions {
		t.Partitions[i].Index = int32(i)
		if !slices.Contains(indexes, int32(i)) {
			t.Partitions[i].Problem = "there is no directory: it begins empty"
		}
	}
	return t
}

// safeSettings keep every record that the topic's lost settings might have kept.
func safeSettings(topic string) map[string]string {
	if topic == offsetsTopic {
		return offsetsSettings()
	}
	return map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}
}

// readLogs opens every log as a start would, over its files and without changing them.
func (d *dataDir) readLogs(ctx context.Context, topics []RecoveredTopic, progress func(done, total int)) error {
	logs, err := d.afterReplay()
	if err != nil {
		return err
	}
	said, damage := logdir.ReadCheckpoints(d.fs, d.path)
	d.said = said
	if damage != nil {
		d.problem("checkpoints are damaged; the next start keeps them aside and rebuilds them: %v", damage)
	}
	type place struct {
		topic string
		p     *RecoveredPartition
	}
	var all []place
	for _, t := range topics {
		for i := range t.Partitions {
			if t.Partitions[i].Problem == "" {
				all = append(all, place{t.Name, &t.Partitions[i]})
			}
		}
	}
	done := make(chan struct{}, len(all))
	return parallel.Each(ctx, len(all), DefaultRecoveryThreads, func(i int) {
		if err := d.readLog(logs, all[i].topic, all[i].p); err != nil {
			all[i].p.Problem = err.Error()
		}
		done <- struct{}{}
		if progress != nil {
			progress(len(done), len(all))
		}
	})
}

// afterReplay returns the files as they are after a start has replayed the journal, which may hold the only records of a
// leader epoch. Records that a start would not restore are noted.
func (d *dataDir) afterReplay() (vfs.FS, error) {
	clean, err := d.dir.HasCleanShutdown()
	if err != nil || clean {
		return d.fs, err
	}
	view := overlay.New(d.fs)
	done, err := partition.SalvageJournal(view, d.path, d.journaledDirs(meta.Empty()), func(file, reason string) {
		d.problem("%s: a start would not restore its records from the journal: %s", file, reason)
	})
	if done.Damaged != nil {
		d.problem("the journal is damaged, and records that were acknowledged just before the stop may be lost; a start restores what is in "+
			"front of the damage and keeps it: %v", done.Damaged)
	}
	return view, err
}

// readLog opens a log as a start would. If it does not open, its last leader epoch is still read.
func (d *dataDir) readLog(logs vfs.FS, topic string, p *RecoveredPartition) error {
	dir := d.partitionPath(topic, p.Index)
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: overlay.New(logs)})
	l, err := kafkalog.Open(env, dir, kafkalog.Options{RecoveryPoint: d.proven(logdir.Partition{Topic: topic, Index: p.Index})})
	if err != nil {
		if epochs, _ := kafkalog.ReadEpochFile(logs, dir+"/leader-epoch-checkpoint"); len(epochs) > 0 {
			p.LeaderEpoch = epochs[len(epochs)-1].Epoch
		}
		return errors.Join(err, env.Close())
	}
	p.Start, p.End, p.Bytes = l.LogStart(), l.LogEnd(), l.Size()
	p.LeaderEpoch, _ = l.LatestEpoch()
	return errors.Join(l.Close(), env.Close())
}

// state returns the metadata that the plan comes to.
func (plan *RecoverPlan) state(nowMs int64) (*meta.State, error) {
	s, index := meta.Empty(), uint64(0)
	apply := func(c meta.Command) error {
		index++
		var results []meta.Result
		s, results = s.Apply(index, meta.Entry{Node: plan.NodeID, NowMs: nowMs, Commands: []meta.Command{c}})
		return results[0].Err()
	}
	if err := apply(meta.RaiseProducerIDs{Next: uint64(max(nowMs, 1))}); err != nil {
		return nil, err
	}
	epoch := plan.leaderEpoch()
	for _, t := range plan.Topics {
		adopt := meta.AdoptTopic{ID: t.id, Name: t.Name, Configs: t.Settings}
		for range t.Partitions {
			adopt.LeaderEpochs = append(adopt.LeaderEpochs, epoch)
		}
		if err := apply(adopt); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// leaderEpoch is one that no client can know of any partition: one more than the highest that has records, since the last
// may have had none. An unclean start raises those of all partitions, so an idle one is not ahead of the others.
func (plan *RecoverPlan) leaderEpoch() int32 {
	highest := int32(0)
	for _, t := range plan.Topics {
		for _, p := range t.Partitions {
			highest = max(highest, p.LeaderEpoch)
		}
	}
	return min(highest, math.MaxInt32-1) + 1
}
