package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
)

// neverExpire keeps producers whatever their age: the server expires them by its own setting.
const neverExpire = math.MaxInt64 / 4

// Options say what to import and where to.
type Options struct {
	// Sources are the log directories of one Kafka node, all of them.
	Sources []string

	// Target is Tidemark's data directory. It is created if missing; it may hold other topics.
	Target string

	// NodeID is the id of the Tidemark node that owns the target or will own it.
	NodeID int32

	// TopicDefaults and TopicPatterns are the server's: a topic whose settings contradict them is not taken.
	TopicDefaults map[string]string
	TopicPatterns []node.TopicPattern

	// Properties are those of Kafka's server.properties, which hold the defaults of its topics; nil if not known.
	Properties map[string]string

	// How says what happens to the files; empty is Copy.
	How How

	// Exclude are patterns, as for path.Match, of topics that are not taken.
	Exclude []string

	// Workers is how many partitions are worked on at the same time; 0 is 4.
	Workers int

	// Progress is called with the progress of a phase, "survey" in partitions and "import" in bytes. It may be called by
	// several goroutines at once and must be quick. It may be nil.
	Progress func(phase string, done, total int64)

	// FS is the file system of the sources and the target; nil is the real one.
	FS vfs.FS
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Meta is the store of the target's metadata log, which the caller closes; nil is a file in the target.
	Meta meta.Backend
	// Log receives messages for people; nil discards them.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.How == "" {
		o.How = Copy
	}
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	o.Target = path.Clean(o.Target)
	return o
}

func (o Options) validate() error {
	if len(o.Sources) == 0 {
		return errors.New("no Kafka log directory was given")
	}
	if _, err := ParseHow(string(o.How)); err != nil {
		return err
	}
	for _, pattern := range o.Exclude {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
	}
	for _, s := range o.Sources {
		s = path.Clean(s)
		if s == o.Target || strings.HasPrefix(o.Target, s+"/") || strings.HasPrefix(s, o.Target+"/") {
			return fmt.Errorf("one of the target %s and the source %s is inside the other: choose another target", o.Target, s)
		}
	}
	return nil
}

// Import is one import. It holds the locks of the sources and of the target. Its methods are for one goroutine.
type Import struct {
	o      Options
	source *source
	store  *node.Store // nil while the target does not exist
	plan   *Plan

	committing bool // an earlier run had everything in done/
	resumed    bool // the plan is that of an earlier run that moves partitions

	total int64
	steps struct {
		sync.Mutex
		phase string
		done  int64
	}
	highest atomic.Int64 // producer id
}

// Open locks the directories and makes the plan. It changes nothing. Errors to match: vfs.ErrLocked when Kafka or the
// target's server is running, [*NotKafkaError], and those of [node.OpenStore]. The caller closes the import.
func Open(ctx context.Context, o Options) (*Import, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	im := &Import{o: o}
	if err := im.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("import: %w", err), im.Close())
	}
	return im, nil
}

func (im *Import) open(ctx context.Context) error {
	there, err := im.targetIsThere()
	if err != nil {
		return err
	}
	if there {
		if err := im.openStore(ctx); err != nil {
			return err
		}
		if done, err := im.resume(); done || err != nil {
			return err
		}
	}
	if im.source, err = openSource(im.o.FS, im.o.Sources); err != nil {
		return err
	}
	im.plan, err = im.survey(ctx)
	return err
}

// targetIsThere reports whether a server or an import has used the target.
func (im *Import) targetIsThere() (bool, error) {
	_, err := im.o.FS.Stat(path.Join(im.o.Target, "meta.properties"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// openStore opens the target, and creates it with Kafka's cluster id if it does not exist.
func (im *Import) openStore(ctx context.Context) error {
	cluster := ""
	if there, err := im.targetIsThere(); err != nil {
		return err
	} else if !there {
		cluster = im.source.meta.ClusterID
	}
	store, err := node.OpenStore(ctx, node.Config{
		DataDir: im.o.Target, NodeID: im.o.NodeID, ClusterID: cluster, FS: im.o.FS, Now: im.o.Now, Meta: im.o.Meta, Log: im.o.Log,
		TopicDefaults: im.o.TopicDefaults, TopicPatterns: im.o.TopicPatterns,
	})
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("a server is using %s: stop it first: %w", im.o.Target, err)
	}
	im.store = store
	return err
}

// Plan returns what is imported and what cannot be. It belongs to the import and is read-only.
func (im *Import) Plan() *Plan { return im.plan }

// Resumed reports whether the plan is that of an earlier run, which this one continues.
func (im *Import) Resumed() bool { return im.committing || im.resumed }

// step reports the progress of a phase.
func (im *Import) step(phase string, n, total int64) {
	im.steps.Lock()
	defer im.steps.Unlock()
	if im.steps.phase != phase {
		im.steps.phase, im.steps.done = phase, 0
	}
	im.steps.done += n
	im.o.Progress(phase, im.steps.done, total)
}

// Close unlocks the sources and the target.
func (im *Import) Close() error {
	var errs []error
	if im.source != nil {
		errs = append(errs, im.source.close())
	}
	if im.store != nil {
		errs = append(errs, im.store.Close())
	}
	return errors.Join(errs...)
}
