package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Pauses after which a damaged object is looked at again: the first one, and the longest, up to which they double.
const (
	minDamagePause = 30 * time.Minute
	maxDamagePause = 24 * time.Hour
)

// damagedObjects are objects that were found to be damaged. They stay as they are, for a repair, and do not hold up the
// compaction of others. Each is looked at again after a pause, which grows: it may have been repaired, or only the
// transfer was damaged. It is safe for concurrent use.
type damagedObjects struct {
	mu    sync.Mutex
	found map[catalog.ObjectID]damage
	notes int
}

type damage struct {
	pause time.Duration
	until time.Time
}

// has reports whether an object is to be left out now.
func (d *damagedObjects) has(id catalog.ObjectID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.found[id].until)
}

// add leaves an object out for a while, longer each time.
func (d *damagedObjects) add(id catalog.ObjectID) (again time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found == nil {
		d.found = map[catalog.ObjectID]damage{}
	}
	pause := min(max(2*d.found[id].pause, minDamagePause), maxDamagePause)
	d.found[id] = damage{pause, time.Now().Add(pause)}
	d.notes++
	return pause
}

// sound forgets objects that turned out to be intact.
func (d *damagedObjects) sound(ids []catalog.ObjectID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.found, id)
	}
}

// count returns how often damage was found so far.
func (d *damagedObjects) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notes
}

// noteDamaged reports whether an error says that an object is damaged, or missing although it is in use: it is then
// excluded for a while, and reported.
func (c *compactor) noteDamaged(id catalog.ObjectID, err error) bool {
	var version *VersionError
	if !errors.Is(err, ErrCorrupt) && !errors.As(err, &version) && !errors.Is(err, objstore.ErrNotFound) {
		return false
	}
	pause := c.damaged.add(id)
	c.events.compactionFailed(fmt.Errorf("object %d is left out of compaction for %v: %w", id, pause, err))
	return true
}

// noteDamagedSource is noteDamaged for an error of a copy, which may be about any of its sources.
func (c *compactor) noteDamagedSource(sources []catalog.ObjectID, err error) bool {
	id, found := c.damagedSource(err)
	return found && slices.Contains(sources, id) && c.noteDamaged(id, err)
}

// damagedSource returns the object that an error of a copy concerns.
func (c *compactor) damagedSource(err error) (id catalog.ObjectID, found bool) {
	var key string
	var damage *CorruptError
	var version *VersionError
	var gone *objstore.Error
	switch {
	case errors.As(err, &damage):
		key = damage.Object
	case errors.As(err, &version):
		key = version.Object
	case errors.As(err, &gone):
		key = gone.Key
	}
	id, bad := ParseDataKey(c.namespace, key)
	return id, key != "" && bad == nil
}

// aroundDamage repeats a step while it finds objects that were not known to be damaged: the step then leaves them out and
// continues with all others.
func (c *compactor) aroundDamage(ctx context.Context, step func() error) error {
	for {
		before := c.damaged.count()
		if err := step(); err != nil || ctx.Err() != nil || c.damaged.count() == before {
			return err
		}
	}
}
