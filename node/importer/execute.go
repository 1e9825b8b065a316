package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// Names in the target while an import is under way.
const (
	stagingDir = "kafka-import"
	planFile   = "plan.json"
	workDir    = "work"
	doneDir    = "done"
)

// planFileVersion is the only version of plan.json.
const planFileVersion = 1

// savedPlan is the content of plan.json.
type savedPlan struct {
	Format  string `json:"format"` // planFormat
	Version int    `json:"version"`
	Plan    *Plan  `json:"plan"`
}

const planFormat = "tidemark kafka import"

// DamageError says that a log of the source is damaged where it had been flushed. Nothing was taken; the topic can be
// excluded.
type DamageError struct {
	Topic     string
	Partition int32
	Findings  []kafkalog.Finding
}

func (e *DamageError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.String()
	}
	return fmt.Sprintf("%s-%d is damaged: %s", e.Topic, e.Partition, strings.Join(lines, "; "))
}

// ChangedError says that the source changed since the plan was made.
type ChangedError struct {
	Topic     string
	Partition int32
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s-%d has changed since the plan was made: something writes to the source", e.Topic, e.Partition)
}

func (im *Import) staging(parts ...string) string {
	return path.Join(append([]string{im.o.Target, stagingDir}, parts...)...)
}

// resume finds out whether an earlier run must be finished as it was planned: it had everything in done/, or it was
// moving directories, some of which are no longer in the source.
func (im *Import) resume() (settled bool, err error) {
	source, importing := im.store.Importing()
	saved, err := im.readPlan()
	if err != nil {
		return false, err
	}
	switch {
	case importing && saved == nil:
		return false, fmt.Errorf("%s is missing, and is needed to finish an import of %s", im.staging(planFile), source)
	case importing:
		im.plan, im.committing = saved, true
		return true, nil
	case saved == nil || saved.How != Move:
		return false, nil
	}
	if im.o.How != Move || !slices.Equal(saved.Sources, cleaned(im.o.Sources)) {
		return false, fmt.Errorf("an import of %s by move is unfinished: finish it first", strings.Join(saved.Sources, ", "))
	}
	if im.source, err = openSource(im.o.FS, im.o.Sources); err != nil {
		return false, err
	}
	for i := range saved.Topics {
		if _, there := im.store.View().TopicByID(meta.TopicID(saved.Topics[i].ID)); there {
			saved.Topics[i].There = true
		}
	}
	im.plan, im.resumed = saved, true
	return true, nil
}

func cleaned(dirs []string) []string {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		out[i] = path.Clean(d)
	}
	return out
}

// readPlan reads plan.json, and returns nil if there is none.
func (im *Import) readPlan() (*Plan, error) {
	name := im.staging(planFile)
	data, err := vfs.ReadFile(im.o.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var saved savedPlan
	if err := json.Unmarshal(data, &saved); err != nil || saved.Format != planFormat || saved.Plan == nil {
		return nil, fmt.Errorf("%s is not a plan of an import: %w", name, err)
	}
	if saved.Version != planFileVersion {
		return nil, fmt.Errorf("%s has version %d; this build reads only version %d", name, saved.Version, planFileVersion)
	}
	return saved.Plan, nil
}

// Execute imports what the plan says. When it returns nil everything is durable and the target is ready for a server.
// After an error or a crash, the same import can be run again and continues where it stopped. Errors to match:
// [*DamageError], [*ChangedError], ctx's cause.
func (im *Import) Execute(ctx context.Context) error {
	if err := im.execute(ctx); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

func (im *Import) execute(ctx context.Context) error {
	if len(im.plan.Taken()) == 0 && !im.committing {
		return im.tidy()
	}
	if !im.committing {
		if err := im.checkSpace(); err != nil {
			return err
		}
		if im.store == nil {
			if err := im.openStore(ctx); err != nil {
				return err
			}
		}
		if err := im.store.Begin(); err != nil {
			return err
		}
		if err := im.stage(ctx); err != nil {
			return err
		}
	} else if err := im.store.Begin(); err != nil {
		return err
	}
	return im.commit(ctx)
}

// checkSpace refuses a copy that does not fit, unless part of it was already copied.
func (im *Import) checkSpace() error {
	disk, ok := im.o.FS.(vfs.SpaceReporter)
	if !ok || im.o.How != Copy {
		return nil
	}
	if _, err := im.o.FS.Stat(im.staging()); err == nil {
		return nil
	}
	free, _, err := disk.Space(existing(im.o.FS, im.o.Target))
	if need := im.plan.Bytes(); err == nil && free < need {
		return fmt.Errorf("%s has %d bytes free, and %d are needed: use --how link or move, or exclude topics",
			im.o.Target, free, need)
	}
	return nil
}

// existing returns the nearest ancestor of a name that exists.
func existing(fsys vfs.FS, name string) string {
	for {
		if _, err := fsys.Stat(name); err == nil || path.Dir(name) == name {
			return name
		}
		name = path.Dir(name)
	}
}

// task is one partition to work on.
type task struct {
	topic *Topic
	p     *Partition
}

// stage brings every partition into done/. Partitions to be moved are all verified before the first one is moved, so that
// damage leaves the source unchanged.
func (im *Import) stage(ctx context.Context) error {
	im.total = im.plan.Bytes()
	if im.plan.How == Move && !im.resumed {
		err := im.eachPartition(ctx, func(_ context.Context, t *Topic, p *Partition) error {
			defer im.step("verify", p.Bytes, im.total)
			return im.verify(overlay.New(im.o.FS), p.Dir, t, p, false)
		})
		if err != nil {
			return err
		}
	}
	if err := im.prepareStaging(); err != nil {
		return err
	}
	return im.eachPartition(ctx, im.stageOne)
}

// eachPartition works on all imported partitions, several at a time, until one fails.
func (im *Import) eachPartition(ctx context.Context, do func(context.Context, *Topic, *Partition) error) error {
	var tasks []task
	for _, t := range im.plan.Taken() {
		for i := range t.Partitions {
			tasks = append(tasks, task{t, &t.Partitions[i]})
		}
	}
	errs := make([]error, len(tasks))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := parallel.Each(ctx, len(tasks), im.o.Workers, func(i int) {
		if errs[i] = do(ctx, tasks[i].topic, tasks[i].p); errs[i] != nil {
			stop(errs[i])
		}
	})
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return err
}

// prepareStaging creates the directories and the plan file. Partitions that an earlier run finished are kept if the
// source is unchanged; unfinished ones are brought over again unless they were moved.
func (im *Import) prepareStaging() error {
	old, err := im.readPlan()
	if err != nil {
		return err
	}
	for _, dir := range []string{workDir, doneDir} {
		if err := vfs.EnsureDir(im.o.FS, im.staging(dir)); err != nil {
			return err
		}
	}
	if im.resumed {
		return nil
	}
	kept := map[string]bool{}
	for _, t := range im.plan.Taken() {
		for i := range t.Partitions {
			if p := &t.Partitions[i]; old != nil && old.has(t, p) {
				kept[t.dirName(p)] = true
			}
		}
	}
	if err := im.discard(workDir, nil); err != nil {
		return err
	}
	if err := im.discard(doneDir, kept); err != nil {
		return err
	}
	data, err := json.MarshalIndent(savedPlan{Format: planFormat, Version: planFileVersion, Plan: im.plan}, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(im.o.FS, im.staging(planFile), data)
}

// has reports whether the plan has a partition in the same state.
func (p *Plan) has(t *Topic, want *Partition) bool {
	for _, mine := range p.Taken() {
		if mine.ID == t.ID && mine.Name == t.Name && int(want.Index) < len(mine.Partitions) {
			return mine.Partitions[want.Index].same(want)
		}
	}
	return false
}

// discard empties a part of the staging directory, except for what is kept.
func (im *Import) discard(part string, kept map[string]bool) error {
	list, err := im.o.FS.List(im.staging(part))
	if err != nil {
		return err
	}
	for _, e := range list {
		if kept[e.Name()] {
			continue
		}
		if err := vfs.RemoveAll(im.o.FS, im.staging(part, e.Name())); err != nil {
			return err
		}
	}
	return im.o.FS.SyncDir(im.staging(part))
}

// stageOne brings one partition into done/.
func (im *Import) stageOne(ctx context.Context, t *Topic, p *Partition) error {
	name := t.dirName(p)
	work, done := im.staging(workDir, name), im.staging(doneDir, name)
	if _, err := im.o.FS.Stat(done); err == nil {
		im.step("import", p.Bytes, im.total)
		return nil
	}
	if im.plan.How == Move {
		if err := im.moveOver(p, work); err != nil {
			return err
		}
	} else {
		if err := vfs.EnsureDir(im.o.FS, work); err != nil {
			return err
		}
		if err := im.bring(ctx, p, work); err != nil {
			return err
		}
	}
	if err := im.settle(t, p, work); err != nil {
		return err
	}
	if err := im.o.FS.Rename(work, done); err != nil {
		return err
	}
	return errors.Join(im.o.FS.SyncDir(im.staging(doneDir)), im.o.FS.SyncDir(im.staging(workDir)))
}

// moveOver renames a partition's directory, unless an earlier run did.
func (im *Import) moveOver(p *Partition, work string) error {
	if _, err := im.o.FS.Stat(work); err == nil {
		p.Clean = false // an earlier run has begun to convert it
		return nil
	}
	if err := im.o.FS.Rename(p.Dir, work); err != nil {
		return otherDevice(err, Move)
	}
	im.step("import", p.Bytes, im.total)
	return errors.Join(im.o.FS.SyncDir(im.staging(workDir)), im.o.FS.SyncDir(path.Dir(p.Dir)))
}

// settle converts a directory that Kafka has written: it gets its topic's id, its log is recovered and verified, its log
// start is recorded, and everything is made durable.
func (im *Import) settle(t *Topic, p *Partition, dir string) error {
	if _, err := logdir.ReadMetadata(im.o.FS, dir); errors.Is(err, fs.ErrNotExist) {
		err = logdir.WriteMetadata(im.o.FS, dir, t.ID)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := im.verify(im.o.FS, dir, t, p, true); err != nil {
		return err
	}
	return syncFiles(im.o.FS, dir)
}

// verify opens a log, reads all of it, and closes it. keep says that the directory is converted, so changes are kept.
func (im *Import) verify(fsys vfs.FS, dir string, t *Topic, p *Partition, keep bool) (err error) {
	found := *p
	l, env, err := im.openLog(fsys, dir, &found)
	if err != nil {
		return errors.Join(err, env.Close())
	}
	defer func() { err = errors.Join(err, l.Close(), env.Close()) }()
	if l.LogStart() != p.Start || l.LogEnd() != p.End {
		return &ChangedError{Topic: t.Name, Partition: p.Index}
	}
	if findings := l.Check(); len(findings) > 0 {
		return &DamageError{Topic: t.Name, Partition: p.Index, Findings: findings}
	}
	if !keep {
		return nil
	}
	for {
		highest := im.highest.Load()
		if h := highestProducer(l); h <= highest || im.highest.CompareAndSwap(highest, h) {
			break
		}
	}
	if start, trimmed := l.EstablishedLogStart(); trimmed {
		if err := l.FlushLogStartCheckpoint(); err != nil {
			return fmt.Errorf("log start %d: %w", start, err)
		}
	}
	return l.Sync()
}

// commit moves finished directories to their places and adds the topics. No server starts meanwhile.
func (im *Import) commit(ctx context.Context) error {
	taken := im.plan.Taken()
	next := max(im.plan.NextProducerID, im.highest.Load()+1)
	if err := im.store.BeginImport(ctx, strings.Join(im.plan.Sources, ", "), next); err != nil {
		return err
	}
	if err := im.writeCheckpoints(taken); err != nil {
		return err
	}
	adopted := make([]meta.AdoptTopic, len(taken))
	for i, t := range taken {
		adopted[i] = meta.AdoptTopic{ID: meta.TopicID(t.ID), Name: t.Name, Configs: t.Configs}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			adopted[i].LeaderEpochs = append(adopted[i].LeaderEpochs, p.LeaderEpoch)
			if err := im.store.Place(im.staging(doneDir, t.dirName(p)), t.Name, p.Index, t.ID); err != nil {
				return err
			}
		}
	}
	if err := im.store.Adopt(ctx, adopted); err != nil {
		return err
	}
	if err := im.store.EndImport(ctx); err != nil {
		return err
	}
	return im.tidy()
}

// tidy removes what a finished import has left in the target.
func (im *Import) tidy() error {
	if _, err := im.o.FS.Stat(im.staging()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := vfs.RemoveAll(im.o.FS, im.staging()); err != nil {
		return err
	}
	return im.o.FS.SyncDir(im.o.Target)
}

// writeCheckpoints records what is known about the logs for the next start.
func (im *Import) writeCheckpoints(taken []*Topic) error {
	ends, starts := map[logdir.Partition]int64{}, map[logdir.Partition]int64{}
	for _, t := range taken {
		for _, p := range t.Partitions {
			name := logdir.Partition{Topic: t.Name, Index: p.Index}
			ends[name] = p.End
			if p.CheckedStart > 0 {
				starts[name] = p.Start
			}
		}
	}
	dir := im.store.Dir()
	return errors.Join(dir.RecoveryPoints().Update(ends), dir.HighWatermarks().Update(ends), dir.LogStarts().Update(starts))
}
