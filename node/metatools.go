package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/meta/etcd"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// MetaSource says which metadata log a tool uses: the one at MetaStore's URL if it has one, and otherwise the file in the
// data directory, whose server must not run.
type MetaSource struct {
	DataDir string
	MetaStore
}

// file is the metadata file in the data directory.
func (s MetaSource) file() string { return path.Join(s.DataDir, metaFile) }

// open opens the log for reading.
func (s MetaSource) open(ctx context.Context) (meta.Backend, error) {
	if s.URL != "" {
		return s.openCluster(ctx, "", true)
	}
	return embedded.OpenToRead(s.file())
}

// String names the log.
func (s MetaSource) String() string {
	if s.URL != "" {
		return s.URL
	}
	return s.file()
}

// InspectMeta reads all of a metadata log and changes nothing. Errors to match: [*meta.MissingError], [*meta.LockedError]
// while a server has the file, and [*meta.CorruptError] for a file that is damaged so that nothing of it can be used.
func InspectMeta(ctx context.Context, s MetaSource) (*meta.Inspection, error) {
	b, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	found, err := meta.Inspect(ctx, b)
	return found, errors.Join(err, b.Close())
}

// RestorePlan is what a restore does, or would do.
type RestorePlan struct {
	// Target is the log that is restored, and ClusterID the cluster that it belongs to.
	Target    string `json:"target"`
	ClusterID string `json:"cluster_id"`
	// Topics and Partitions are those of the backup.
	Topics     int   `json:"topics"`
	Partitions int64 `json:"partitions"`
	// Missing are partitions of the backup without a directory in the data directory: they start empty. Unknown are
	// directories that the backup does not know: the next start moves them aside.
	Missing []string `json:"missing"`
	Unknown []string `json:"unknown"`
	// NextProducerID is the next producer id to be assigned.
	NextProducerID uint64 `json:"next_producer_id"`
	// Left are directories whose topic no start can determine: they are not served.
	Left []LeftDirectory `json:"left"`
	// Problems are other faults of the data directory, and what the next start does about each.
	Problems []string `json:"problems"`
	// LeaderEpochsRaised is how far the leader epochs of all partitions are above the backup's.
	LeaderEpochsRaised int32 `json:"leader_epochs_raised"`
}

// RestoreOptions say how a backup is restored.
type RestoreOptions struct {
	// Execute carries the restore out; without it nothing changes.
	Execute bool
	// SkipProducerIDs is how many producer ids to skip, because servers may have assigned them after the backup was
	// taken. Leader epochs that began since, according to the logs, are then skipped too. 0 restores the state exactly.
	SkipProducerIDs uint64
}

// RestoreMeta restores a metadata log from a backup. It never replaces an existing log. A crash leaves the whole log or none.
// When it returns nil after executing, the log is durable. Errors to match: [fs.ErrExist], [*IdentityError] when the data
// directory belongs to another cluster, vfs.ErrLocked when a server is using it.
func RestoreMeta(ctx context.Context, target MetaSource, b meta.Backup, o RestoreOptions) (*RestorePlan, error) {
	d, err := lockDataDir(ctx, target.DataDir, o.Execute && target.URL == "", target.URL == "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.dir.Close() }()
	if got := d.identity.ClusterID; got != "" && got != b.ClusterID {
		return nil, &IdentityError{
			File: path.Join(target.DataDir, "meta.properties"), What: "cluster id", Got: got, Expected: b.ClusterID,
		}
	}
	d.takeByName(b.State)
	state, err := skipProducerIDs(b.State, o.SkipProducerIDs)
	if err != nil {
		return nil, err
	}
	raised := int32(0)
	if o.SkipProducerIDs > 0 {
		if state, raised, err = d.skipLeaderEpochs(ctx, state); err != nil {
			return nil, err
		}
	}
	plan := &RestorePlan{
		LeaderEpochsRaised: raised, Target: target.String(), ClusterID: b.ClusterID, Topics: state.TopicCount(), Partitions: state.PartitionCount(),
		NextProducerID: state.NextProducerID(), Problems: d.problems,
	}
	plan.Missing, plan.Unknown, plan.Left = d.compare(state)
	if there, err := target.exists(ctx); err != nil || there {
		return plan, errors.Join(err, existsError(there, target))
	}
	if !o.Execute {
		return plan, nil
	}
	return plan, target.install(ctx, b.ClusterID, state)
}

func existsError(there bool, s MetaSource) error {
	if !there {
		return nil
	}
	return &fs.PathError{Op: "restore", Path: s.String(), Err: fs.ErrExist}
}

// exists reports whether there is a log.
func (s MetaSource) exists(ctx context.Context) (bool, error) {
	if s.URL == "" {
		_, err := vfs.OS().Stat(s.file())
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	b, err := s.open(ctx)
	var missing *meta.MissingError
	switch {
	case errors.As(err, &missing):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, b.Close()
}

// install creates the log with an initial state.
func (s MetaSource) install(ctx context.Context, clusterID string, state *meta.State) error {
	snapshot := state.EncodeSnapshot()
	if s.URL == "" {
		return embedded.Restore(s.file(), clusterID, state.Index(), snapshot)
	}
	c, err := s.config()
	if err != nil {
		return err
	}
	c.ClusterID = clusterID
	return etcd.Restore(ctx, c, state.Index(), snapshot)
}

// lockDataDir locks a data directory and reads what is in it. A missing one is created. Without change, nothing of that
// reaches the disk. alone says that its metadata log is, or will be, in it. Faults that a start repairs are no error here
// either.
func lockDataDir(ctx context.Context, name string, change, alone bool) (*dataDir, error) {
	c := Config{DataDir: name}.withDefaults()
	if !change {
		c.FS = untouched{overlay.New(c.FS)}
	}
	dir, err := logdir.Open(c.FS, name)
	if err != nil {
		return nil, err
	}
	d := &dataDir{dir: dir, fs: c.FS, path: name, log: c.Log, now: c.Now}
	found, spoilt, err := d.loadIdentity(alone)
	if found {
		d.node = d.identity.NodeID
	}
	if found && d.identity.ClusterID == "" {
		spoilt = errNoCluster
	}
	if spoilt != nil {
		d.problem("meta.properties cannot be used, so nothing shows which cluster and node the directory is of; the next start keeps it "+
			"aside and rebuilds it: %v", spoilt)
	}
	if err == nil {
		err = d.scan(ctx, c.RecoveryThreads)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return d, nil
}

// problem records a fault of the directory that does not keep a tool from working.
func (d *dataDir) problem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

// skipProducerIDs returns the state with the next producer ids skipped.
func skipProducerIDs(s *meta.State, skip uint64) (*meta.State, error) {
	if skip == 0 {
		return s, nil
	}
	next, results := s.Apply(s.Index()+1, meta.Entry{NowMs: s.ClockMs(), Commands: []meta.Command{
		meta.RaiseProducerIDs{Next: s.NextProducerID() + skip},
	}})
	return next, results[0].Err()
}

// skipLeaderEpochs returns the state with leader epochs above all that the logs have records of, and one more, since the
// last may have none. All are raised by the same number, as in an unclean start. Clients ignore metadata with an older
// epoch than they know, and would wait for a newer one until they are restarted.
func (d *dataDir) skipLeaderEpochs(ctx context.Context, s *meta.State) (*meta.State, int32, error) {
	topics, _ := d.recoverTopics(nil, false)
	if err := d.readLogs(ctx, topics, nil); err != nil {
		return nil, 0, err
	}
	const most = 10_000 // unclean starts between two backups
	by, raise := int32(0), meta.RaiseLeaderEpochs{}
	for _, found := range topics {
		topic, known := s.TopicByID(found.id)
		for i := range found.Partitions {
			if known && int32(i) < topic.Partitions() {
				by = max(by, min(found.Partitions[i].LeaderEpoch-topic.LeaderEpoch(int32(i)), most)+1)
			}
		}
	}
	nodes := 0
	for n := range s.Nodes() {
		raise.Node, raise.NodeEpoch = n.ID, n.Epoch
		nodes++
	}
	if nodes == 0 {
		return s, 0, nil // nothing has had a leader yet
	}
	for topic := range s.Topics() {
		raise.Topics = append(raise.Topics, meta.TopicPartitions{ID: topic.ID})
	}
	for range by {
		next, results := s.Apply(s.Index()+1, meta.Entry{Node: raise.Node, NowMs: s.ClockMs(), Commands: []meta.Command{raise}})
		if err := results[0].Err(); err != nil {
			return nil, 0, err
		}
		s = next
	}
	return s, by, nil
}

// takeByName assigns directories with a damaged partition.metadata to the topics that the next start would assign them to
// under that state.
func (d *dataDir) takeByName(s *meta.State) {
	for i := range d.found.partitions {
		dir := &d.found.partitions[i]
		if id, heals := d.heals(s, *dir); heals {
			d.problem("%s: the next start makes its %s again: %v", dir.name, logdir.MetadataFile, dir.err)
			dir.topic, dir.err = id, nil
		}
	}
}

// compare returns the partitions of a state that have no directory here, the directories that the state does not know,
// and those whose topic a start could not determine.
func (d *dataDir) compare(s *meta.State) (missing, unknown []string, left []LeftDirectory) {
	found := map[logdir.Partition]bool{}
	for _, dir := range d.found.partitions {
		p := dir.name.Partition
		topic, known := s.TopicByID(dir.topic)
		switch {
		case dir.err != nil:
			left = append(left, LeftDirectory{dir.name.String(), dir.err.Error()})
		case !known || topic.Name != p.Topic || p.Index >= topic.Partitions():
			unknown = append(unknown, dir.name.String())
			continue
		}
		found[p] = true
	}
	for topic := range s.Topics() {
		for i := range topic.Partitions() {
			if !found[logdir.Partition{Topic: topic.Name, Index: i}] {
				missing = append(missing, fmt.Sprintf("%s-%d", topic.Name, i))
			}
		}
	}
	return missing, unknown, left
}

// untouched is the disk, with changes kept in memory. Only locks are real, so that tools stay off a directory that a
// server is using.
type untouched struct{ *overlay.FS }

// Lock locks an existing file. A file that cannot be written, as in a read-only copy, is not in use by a server.
func (f untouched) Lock(name string) (io.Closer, error) {
	if _, err := vfs.OS().Stat(name); errors.Is(err, fs.ErrNotExist) {
		return f.FS.Lock(name)
	}
	lock, err := vfs.OS().Lock(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return f.FS.Lock(name)
	}
	return lock, err
}
