package node

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
)

// Store is a data directory and its metadata log without a server: for tools that add topics while no node runs on it. No
// log is opened, and the directory's lock keeps nodes away. A Store is for one goroutine.
type Store struct {
	n     *Node
	fresh bool // the directory was new
	begun bool
}

// UnfinishedImportError says that an import into the data directory has begun and must be finished first.
type UnfinishedImportError struct{ Source string }

func (e *UnfinishedImportError) Error() string {
	return fmt.Sprintf("an import of %s into this data directory is unfinished: run the same import again, "+
		"and it continues where it stopped", e.Source)
}

// importKey exists while topics are being imported. Its value names the source.
const importKey = "node/importing"

// OpenStore locks the data directory of c, creating it if it is missing, and opens its metadata log. It uses only
// DataDir, NodeID, ClusterID, the defaults of topics, FS, Now, Meta and Log. The caller closes the store. Errors are
// those of [Open].
func OpenStore(ctx context.Context, c Config) (*Store, error) {
	s := &Store{n: newNode(c.withDefaults())}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("node: %w", err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	n := s.n
	c := n.config
	dir, err := logdir.Open(c.FS, c.DataDir)
	if err != nil {
		return err
	}
	n.data = &dataDir{dir: dir, fs: c.FS, path: c.DataDir, log: c.Log, node: c.NodeID, now: c.Now}
	n.undo("the data directory", func(context.Context) error { return dir.Close() })
	if err := n.data.readIdentity(c); err != nil {
		return err
	}
	if err := n.data.scan(ctx, c.RecoveryThreads); err != nil {
		return err
	}
	if _, err := n.openMetaLog(ctx); err != nil {
		return err
	}
	s.fresh = n.meta.View().Index() == 0 && len(n.data.found.partitions) == 0
	return nil
}

// Dir returns the data directory. It belongs to the store.
func (s *Store) Dir() *logdir.Dir { return s.n.data.dir }

// View returns the current state of the metadata log.
func (s *Store) View() *meta.State { return s.n.meta.View() }

// CheckSettings reports whether a topic of this name may have these settings on a server with the store's defaults.
func (s *Store) CheckSettings(name string, overrides map[string]string) error {
	_, err := s.n.catalog.resolve(name, overrides)
	return err
}

// Importing returns the source of an import that has begun and not ended; ok is false when there is none.
func (s *Store) Importing() (source string, ok bool) {
	kv, ok := s.View().Get(importKey)
	return string(kv.Value), ok
}

// Begin prepares the directory for changes: it records whose directory it is, and removes the mark of a clean stop until
// [Store.Close].
func (s *Store) Begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	if err := s.n.data.settleIdentity(s.n.meta.ClusterID()); err != nil {
		return err
	}
	_, err := s.Dir().TakeCleanShutdown()
	return err
}

// BeginImport durably keeps nodes from starting until [Store.EndImport], and makes sure that no producer id below the
// given one is ever assigned.
func (s *Store) BeginImport(ctx context.Context, source string, nextProducerID int64) error {
	return s.propose(ctx, meta.PutKv{Key: importKey, Value: []byte(source)}, meta.RaiseProducerIDs{Next: uint64(max(nextProducerID, 1))})
}

// Place durably renames a partition's directory to where the server looks for it. A directory of another topic in its
// place is moved aside. Repeating it when from is gone is no error.
func (s *Store) Place(from, topic string, index int32, id logdir.UUID) error {
	d := s.n.data
	to := d.partitionPath(topic, index)
	there, err := d.exists(from)
	if err != nil {
		return err
	}
	missing, err := d.checkPartition(topic, index, meta.TopicID(id))
	var wrong *WrongDirectoryError
	switch {
	case !there && err != nil:
		return err
	case !there && missing:
		return &WrongDirectoryError{Dir: to, Reason: "it is not there, and neither is " + from}
	case !there:
		return d.fs.SyncDir(d.path)
	case errors.As(err, &wrong), err == nil && !missing:
		if _, err := d.dir.Retire(logdir.DirName{Partition: logdir.Partition{Topic: topic, Index: index}}, logdir.Stray); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := d.fs.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(d.fs.SyncDir(path.Dir(from)), d.fs.SyncDir(d.path))
}

// Adopt adds topics whose directories are in place. Those that exist already stay as they are.
func (s *Store) Adopt(ctx context.Context, topics []meta.AdoptTopic) error {
	for chunk := range slices.Chunk(topics, adoptAtOnce) {
		commands := make([]meta.Command, len(chunk))
		for i, t := range chunk {
			commands[i] = t
		}
		if err := s.propose(ctx, commands...); err != nil {
			return err
		}
	}
	return nil
}

// adoptAtOnce is how many topics are proposed in one call.
const adoptAtOnce = 100

// EndImport lets nodes start again.
func (s *Store) EndImport(ctx context.Context) error {
	return s.propose(ctx, meta.DeleteKv{Key: importKey})
}

// propose appends commands. One that was applied before is no error.
func (s *Store) propose(ctx context.Context, commands ...meta.Command) error {
	results, err := s.n.meta.Propose(ctx, commands...)
	if err != nil {
		return err
	}
	for _, r := range results {
		if err := r.Err(); err != nil && r.Code != meta.Redundant {
			return err
		}
	}
	return nil
}

// Close unlocks the directory. It restores the last node's mark of a clean stop, since no log that a node had closed was
// changed; a new directory is clean.
func (s *Store) Close() error {
	var errs []error
	if s.begun {
		last, err := s.Dir().TakeCleanShutdown()
		if err == nil && (last.Clean || s.fresh) {
			s.Dir().MarkLoaded()
			err = s.Dir().WriteCleanShutdown(last.BrokerEpoch)
		}
		errs = append(errs, err)
	}
	for _, c := range slices.Backward(s.n.closers) {
		if err := c.close(context.Background()); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", c.name, err))
		}
	}
	s.n.end(ErrClosed)
	return errors.Join(errs...)
}
