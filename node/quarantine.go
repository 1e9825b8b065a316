package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/tidemark-io/tidemark/internal/quarantine"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// A start continues although files are damaged. What can be rebuilt is rebuilt: the damaged file is kept aside first and
// reported by the log, a metric and, until the next start, the readiness report. A partition whose records or log start
// are damaged is not served, and its clients are told what an operator can do. Ownership of data is never guessed: a
// damaged metadata.db, and files of a newer version, keep the server from starting.

// Limits of what starts keep aside of the data directory's own files, and of each partition's metadata: beyond either the
// oldest goes.
const (
	keptSets  = 64
	keptBytes = 64 << 20
)

// setAside is what was kept aside since the start.
type setAside struct {
	mu    sync.Mutex
	files []string // by their names in the data directory
}

func (a *setAside) add(file string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files = append(a.files, file)
}

// namedAside is how many files or partitions a warning names.
const namedAside = 5

// warnings describes the kept files for the readiness report.
func (a *setAside) warnings() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.files) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("damaged files were kept in the quarantine and rebuilt (%d): %s", len(a.files), someOf(a.files))}
}

// someOf joins the first few names.
func someOf(names []string) string {
	if more := len(names) - namedAside; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAside], ", "), more)
	}
	return strings.Join(names, ", ")
}

// warnings are the node's warnings for the readiness report.
func (n *Node) warnings() []string {
	warnings := n.aside.warnings()
	if damaged := n.partitions.damaged(); len(damaged) > 0 {
		warnings = append(warnings, fmt.Sprintf("partitions are offline because their files are damaged (%d): %s; stop the server "+
			"and run 'tidemark log repair'", len(damaged), someOf(damaged)))
	}
	if n.space != nil {
		warnings = append(warnings, n.space.warnings()...)
	}
	if problem := n.storeProblem.get(); problem != "" {
		warnings = append(warnings, problem+"; streams wait for it")
	}
	return warnings
}

// keepsAside wraps events so that files which a log keeps aside appear in the readiness report.
func (n *Node) keepsAside(events kafkalog.Events) kafkalog.Events {
	told := events.SetAside
	events.SetAside = func(e kafkalog.SetAsideEvent) {
		n.aside.add(strings.TrimPrefix(e.File, n.data.dir.Path()+"/"))
		told(e)
	}
	return events
}

// keep keeps a file aside, of the data directory or of a partition, before another takes its place. An unreadable one is
// moved, which leaves its place empty.
func (d *dataDir) keep(dir, name string, reason error) error {
	place := quarantine.Beside(d.fs, dir)
	if dir != d.path {
		place = quarantine.In(d.fs, dir)
	}
	set, err := place.Begin(d.now(), quarantine.ByStart)
	if err != nil {
		return err
	}
	if isUnreadable(reason) {
		err = set.Move(name, nil, reason.Error())
	} else {
		err = set.Copy(name, reason.Error())
	}
	if err == nil {
		err = set.Commit()
	}
	if err == nil {
		err = place.Prune(keptSets, keptBytes)
	}
	if err != nil {
		return fmt.Errorf("%s is damaged (%w) and cannot be kept aside: %w", path.Join(dir, name), reason, err)
	}
	d.log.Error("a damaged file was kept aside and rebuilt", "file", path.Join(dir, name), "kept", set.Paths()[0], "reason", reason)
	if d.kept != nil {
		d.kept(path.Join(dir, name))
	}
	return nil
}

// isUnreadable reports whether a file exists but cannot be read.
func isUnreadable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EIO)
}

// isSpoilt reports whether an error of package logdir says that a file is unusable for any reason but being newer.
func isSpoilt(err error) bool {
	var damaged *logdir.FormatError
	return errors.As(err, &damaged) || isUnreadable(err)
}

// keepIdentity moves an unusable meta.properties aside.
func (d *dataDir) keepIdentity(reason error) error {
	const name = "meta.properties"
	if err := d.keep(d.path, name, reason); err != nil || isUnreadable(reason) {
		return err
	}
	if err := d.fs.Remove(path.Join(d.path, name)); err != nil {
		return err
	}
	return d.dir.SyncNames()
}

// loadCheckpoint reads a checkpoint file. It only speeds up starts, so a damaged one is kept aside and rebuilt. One that
// a newer version wrote is refused.
func (d *dataDir) loadCheckpoint(offsets *logdir.Offsets) (map[logdir.Partition]int64, error) {
	entries, err := offsets.Load()
	if !isSpoilt(err) {
		return entries, err
	}
	if err := d.keep(d.path, path.Base(offsets.File()), err); err != nil {
		return nil, err
	}
	if err := offsets.Discard(); err != nil {
		return nil, err
	}
	return offsets.Load()
}

// heals returns the topic of a directory whose partition.metadata is damaged, if the metadata log has a partition of the
// directory's name: only that partition's directory ever has that name.
func (d *dataDir) heals(view *meta.State, found foundDir) (meta.TopicID, bool) {
	p := found.name.Partition
	topic, known := view.Topic(p.Topic)
	var damaged *logdir.FormatError
	if !known || p.Index >= topic.Partitions() || !errors.As(found.err, &damaged) {
		return meta.TopicID{}, false
	}
	return topic.ID, true
}

// healMetadata rewrites the partition.metadata of a directory whose topic [dataDir.heals] can determine.
func (d *dataDir) healMetadata(view *meta.State, found *foundDir) error {
	id, heals := d.heals(view, *found)
	if !heals {
		return nil
	}
	p := found.name.Partition
	dir := d.dir.PartitionPath(p)
	if err := d.keep(dir, logdir.MetadataFile, found.err); err != nil {
		return err
	}
	if err := logdir.WriteMetadata(d.fs, dir, logdir.UUID(id)); err != nil {
		return err
	}
	found.topic, found.err = id, nil
	return nil
}

// DamagedError is the client's error for a partition whose files are damaged. It matches [partition.ErrStorage].
type DamagedError struct {
	Topic     string
	Partition int32
	Err       error // the full cause, which the server's log has
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("partition %d of topic %s is offline because its files are damaged: stop the server and run "+
		"'tidemark log repair'", e.Partition, e.Topic)
}

// Unwrap returns the full cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// Is reports that a DamagedError matches [partition.ErrStorage].
func (e *DamagedError) Is(target error) bool { return target == partition.ErrStorage }

// isDamage reports whether an error concerns the content of files, not their opening.
func isDamage(err error) bool {
	var corrupt *kafkalog.CorruptionError
	var checksum *kafkalog.ChecksumError
	var name *kafkalog.SegmentNameError
	var version *kafkalog.UnsupportedVersionError
	return errors.As(err, &corrupt) || errors.As(err, &checksum) || errors.As(err, &name) || errors.As(err, &version)
}

// damaged names the partitions that are not served because their files are damaged, in order.
func (p *partitions) damaged() []string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var names []string
	for _, h := range p.topics {
		for i, err := range h.errs {
			var damaged *DamagedError
			if errors.As(err, &damaged) {
				names = append(names, fmt.Sprintf("%s-%d", h.name, i))
			}
		}
	}
	slices.Sort(names)
	return names
}
