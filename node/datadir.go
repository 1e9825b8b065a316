package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/vfs"
)

// dataDir is the data directory of a node: what was found in it at start, and what the node changes in it.
type dataDir struct {
	dir    *logdir.Dir
	fs     vfs.FS
	path   string
	opened fs.FileInfo // the directory as it was opened
	log    *slog.Logger
	node   int32
	now    func() time.Time
	kept   func(file string) // called with each file that is kept aside
	clean  bool              // the last stop was clean
	taken  bool              // the marker was removed: logs may have been opened

	problems []string           // for a tool to report
	said     logdir.Checkpoints // as a tool has read them
	identity logdir.Meta        // zero in a new directory
	found    foundDirs
	restored map[logdir.Partition]bool // had been moved aside, so the last stop says nothing about them

	// What the checkpoints said at start, by partition.
	recovered, watermarks, starts, cached map[logdir.Partition]int64

	// closed is what the logs were when the last process closed them, until they are open.
	closed map[closedKey]*kafkalog.Summary

	// checkpointing is held while a checkpoint file is assembled and written, so that forget is never undone by an older
	// snapshot.
	checkpointing sync.Mutex
}

// foundDirs are the directories found at start.
type foundDirs struct {
	partitions []foundDir // current ones
	strays     []foundDir
	deleted    []logdir.DirName
}

// foundDir is a partition's directory and the topic id in it.
type foundDir struct {
	name  logdir.DirName
	topic meta.TopicID
	err   error // why the topic id is not known
}

// openData locks the data directory and reads what is in it. It changes nothing.
func (n *Node) openData(ctx context.Context) error {
	c := n.config
	dir, err := logdir.Open(c.FS, c.DataDir)
	if err != nil {
		return err
	}
	n.data = &dataDir{
		dir: dir, fs: c.FS, path: c.DataDir, log: c.Log, node: c.NodeID, now: c.Now,
		kept: func(file string) {
			n.metrics.FilesSetAside.Inc()
			n.aside.add(strings.TrimPrefix(file, dir.Path()+"/"))
		},
	}
	n.undo("the data directory", func(context.Context) error { return dir.Close() })
	if n.data.opened, err = c.FS.Stat(c.DataDir); err != nil {
		return err
	}
	if err := n.data.readIdentity(c); err != nil {
		return err
	}
	if err := n.data.scan(ctx, c.RecoveryThreads); err != nil {
		return err
	}
	if err := n.data.readCheckpoints(); err != nil {
		return err
	}
	if err := n.data.readPageCached(); err != nil {
		return err
	}
	return n.data.readClosedLogs()
}

// takeMarker removes the marker of a clean stop; only a clean stop writes it again. It stays until logs are about to be
// opened, because a start that fails before that changes nothing in them.
func (d *dataDir) takeMarker() error {
	marker, err := d.dir.TakeCleanShutdown()
	if err != nil {
		return err
	}
	d.clean, d.taken = marker.Clean, true
	return nil
}

// loadIdentity reads meta.properties, and reports whether there is one. alone says that the metadata log is in this
// directory: it holds the same identity, so a damaged file can be ignored. With a log elsewhere, which may belong to
// another cluster, a damaged file is an error.
func (d *dataDir) loadIdentity(alone bool) (found bool, spoilt, err error) {
	identity, err := d.dir.Meta()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil, nil
	case isSpoilt(err) && alone:
		return false, err, nil
	case err != nil:
		return false, nil, err
	}
	d.identity = identity
	return true, nil, nil
}

// errNoCluster is the fault of a meta.properties as old brokers wrote it, or as damage leaves it.
var errNoCluster = errors.New("it names no cluster")

// readIdentity reads meta.properties and checks it against the configuration.
func (d *dataDir) readIdentity(c Config) error {
	found, spoilt, err := d.loadIdentity(c.MetaStore.URL == "")
	if spoilt != nil {
		return d.keepIdentity(spoilt)
	}
	if err != nil || !found {
		return err
	}
	identity := d.identity
	file := path.Join(d.path, "meta.properties")
	if identity.ClusterID == "" {
		// Written by an old broker, or damaged. It is about to be replaced.
		if err := d.keep(d.path, path.Base(file), errNoCluster); err != nil {
			return err
		}
	}
	if identity.NodeID >= 0 && identity.NodeID != c.NodeID {
		return &IdentityError{File: file, What: "node id", Got: fmt.Sprint(identity.NodeID), Expected: fmt.Sprint(c.NodeID)}
	}
	if identity.ClusterID != "" && c.ClusterID != "" && identity.ClusterID != c.ClusterID {
		return &IdentityError{File: file, What: "cluster id", Got: identity.ClusterID, Expected: c.ClusterID}
	}
	return nil
}

// clusterID returns the id for a metadata log that is about to be created.
func (d *dataDir) clusterID(configured string) string {
	return cmp.Or(d.identity.ClusterID, configured, logdir.NewUUID().String())
}

// used reports whether a server has used the directory: then its metadata log must exist.
func (d *dataDir) used() bool { return len(d.found.partitions) > 0 || d.identity.ClusterID != "" }

// settleIdentity writes meta.properties, or makes sure that the existing one is that of the cluster.
func (d *dataDir) settleIdentity(clusterID string) error {
	file := path.Join(d.path, "meta.properties")
	if d.identity.ClusterID != "" && d.identity.ClusterID != clusterID {
		return &IdentityError{File: file, What: "cluster id", Got: d.identity.ClusterID, Expected: clusterID}
	}
	whole := d.identity
	whole.ClusterID, whole.NodeID = clusterID, d.node
	if whole.DirectoryID.IsZero() {
		whole.DirectoryID = logdir.NewUUID()
	}
	if whole == d.identity {
		return nil
	}
	d.identity = whole
	return d.dir.WriteMeta(whole)
}

// scan lists the directories and reads the topic ids in them, several at a time.
func (d *dataDir) scan(ctx context.Context, workers int) error {
	entries, err := d.dir.Scan()
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Kind == logdir.UnknownDir && e.Name == objectsDir: // of streams
		case e.Kind == logdir.UnknownDir:
			d.log.Warn("a directory that is not a partition's is left alone", "dir", e.Name, "error", e.Err)
		case e.Kind != logdir.PartitionEntry:
		case e.Dir.Role == logdir.Delete:
			d.found.deleted = append(d.found.deleted, e.Dir)
		case e.Dir.Role == logdir.Stray:
			d.found.strays = append(d.found.strays, foundDir{name: e.Dir})
		case e.Dir.Role == logdir.Future:
			d.log.Warn("a copy from another data directory is left alone", "dir", e.Name)
		default:
			d.found.partitions = append(d.found.partitions, foundDir{name: e.Dir})
		}
	}
	read := func(found []foundDir) error {
		return parallel.Each(ctx, len(found), workers, func(i int) {
			m, err := logdir.ReadMetadata(d.fs, path.Join(d.path, found[i].name.String()))
			found[i].topic, found[i].err = meta.TopicID(m.TopicID), err
		})
	}
	return errors.Join(read(d.found.partitions), read(d.found.strays))
}

// readCheckpoints reads what the last process recorded about the logs.
func (d *dataDir) readCheckpoints() error {
	for _, file := range []struct {
		offsets *logdir.Offsets
		into    *map[logdir.Partition]int64
	}{
		{d.dir.RecoveryPoints(), &d.recovered},
		{d.dir.HighWatermarks(), &d.watermarks},
		{d.dir.LogStarts(), &d.starts},
	} {
		entries, err := d.loadCheckpoint(file.offsets)
		if err != nil {
			return err
		}
		*file.into = entries
	}
	return nil
}

// readPageCached reads which logs have a watermark that proves nothing. If that file is lost, no watermark proves
// anything.
func (d *dataDir) readPageCached() (err error) {
	_, lost := d.dir.PageCached().Load()
	if d.cached, err = d.loadCheckpoint(d.dir.PageCached()); err != nil || !isSpoilt(lost) {
		return err
	}
	for p := range d.watermarks {
		d.cached[p] = 0
	}
	return d.dir.PageCached().Update(d.cached)
}

// metadataLost is the error for partitions without metadata.
func (d *dataDir) metadataLost(where string, cause error) *MetadataLostError {
	const named = 5
	lost := &MetadataLostError{Metadata: where, DataDir: d.path, Total: len(d.found.partitions), Err: cause}
	for _, found := range d.found.partitions[:min(named, lost.Total)] {
		lost.Directories = append(lost.Directories, found.name.String())
	}
	for _, found := range d.found.partitions {
		lost.Topics = append(lost.Topics, found.name.Partition.Topic)
	}
	slices.Sort(lost.Topics)
	lost.Topics = slices.Compact(lost.Topics)
	return lost
}

// explain adds what was found to the error of a missing metadata log.
func (d *dataDir) explain(file string, err error) error {
	var missing *meta.MissingError
	if errors.As(err, &missing) {
		lost := d.metadataLost(file, err)
		lost.Empty = missing.Empty
		return lost
	}
	return err
}

// settle reconciles directories with the metadata: it resumes deletions, moves aside the directories of topics that the
// metadata does not know, and brings back those that were moved aside and are known again. moved is called for each
// directory that is moved aside.
func (d *dataDir) settle(view *meta.State, moved func(from, to string)) error {
	var kept []foundDir
	for _, found := range d.found.partitions {
		if err := d.healMetadata(view, &found); err != nil {
			return err
		}
		topic, known := view.TopicByID(found.topic)
		switch {
		case found.err != nil && d.isHalfMade(view, found):
			if err := d.putAside(view, found, moved); err != nil {
				return err
			}
		case found.err != nil:
			d.log.Error("a directory does not say whose it is; it is left alone and not served", "dir", found.name,
				"error", found.err)
			kept = append(kept, found)
		case known && topic.Name == found.name.Partition.Topic && found.name.Partition.Index < topic.Partitions():
			kept = append(kept, found)
		case known && topic.Name == found.name.Partition.Topic:
			// Directories of partitions that the metadata does not have: what a crash leaves while partitions are added.
			if err := d.putAside(view, found, moved); err != nil {
				return err
			}
		case known:
			d.log.Error("a directory has another name than its topic; it is left alone and not served", "dir", found.name,
				"topic", topic.Name)
			kept = append(kept, found)
		default:
			if err := d.putAside(view, found, moved); err != nil {
				return err
			}
		}
	}
	d.found.partitions = kept
	return d.restoreStrays(view)
}

// isHalfMade reports whether a directory without a topic id was left by a topic creation that failed.
func (d *dataDir) isHalfMade(view *meta.State, found foundDir) bool {
	p := found.name.Partition
	if topic, known := view.Topic(p.Topic); known && p.Index < topic.Partitions() {
		return false
	}
	var torn *logdir.FormatError
	if !errors.Is(found.err, fs.ErrNotExist) && !errors.As(found.err, &torn) {
		return false
	}
	nothing, err := d.holdsNothing(path.Join(d.path, found.name.String()))
	return err == nil && nothing
}

// putAside renames the directory of a topic that the metadata does not know: for deletion if that had begun, or if a
// failed creation left it without records, and otherwise as a stray.
func (d *dataDir) putAside(view *meta.State, found foundDir, moved func(from, to string)) error {
	var to logdir.DirName
	var err error
	if _, deleting := view.Get(deletingKey(found.topic)); deleting {
		to, err = d.dir.Retire(found.name, logdir.Delete)
	} else {
		to, err = d.putAway(found.name)
	}
	if err != nil {
		return err
	}
	if to.Role == logdir.Delete {
		d.found.deleted = append(d.found.deleted, to)
		d.log.Info("an empty directory of a topic that does not exist is removed", "from", found.name, "to", to)
		return nil
	}
	d.found.strays = append(d.found.strays, foundDir{name: to, topic: found.topic, err: found.err})
	moved(found.name.String(), to.String())
	return nil
}

// restoreStrays gives directories that were moved aside their names back if their topic is known and their place is free:
// they had been moved aside under the wrong metadata.
func (d *dataDir) restoreStrays(view *meta.State) error {
	for _, stray := range d.found.strays {
		topic, known := view.TopicByID(stray.topic)
		if stray.err != nil || !known || stray.name.Partition.Index >= topic.Partitions() {
			continue
		}
		p := logdir.Partition{Topic: topic.Name, Index: stray.name.Partition.Index}
		if there, err := d.exists(d.dir.PartitionPath(p)); err != nil || there {
			continue
		}
		if err := d.fs.Rename(path.Join(d.path, stray.name.String()), d.dir.PartitionPath(p)); err != nil {
			return err
		}
		if err := d.fs.SyncDir(d.path); err != nil {
			return err
		}
		d.log.Warn("a directory that was moved aside is back in its place: the metadata knows its topic again",
			"from", stray.name, "to", p)
		d.found.partitions = append(d.found.partitions, foundDir{name: logdir.DirName{Partition: p}, topic: stray.topic})
		if d.restored == nil {
			d.restored = map[logdir.Partition]bool{}
		}
		d.restored[p] = true
	}
	return nil
}

func (d *dataDir) exists(name string) (bool, error) {
	_, err := d.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// isEmpty reports whether a directory is empty or missing.
func (d *dataDir) isEmpty(name string) (bool, error) {
	list, err := d.fs.List(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && len(list) == 0, err
}
