package logdir

import (
	"errors"
	"io/fs"
	"maps"
	"sync"

	"github.com/tidemark-io/tidemark/vfs"
)

// Offsets is one of the checkpoint files that the partitions of a data directory share. Its methods are safe for
// concurrent use and block on the device while another one writes the same file.
//
// The file is read once and then written from memory, which is allowed because the directory is locked.
type Offsets struct {
	dir  *Dir
	path string

	mu struct {
		sync.Mutex
		loaded  bool
		damage  error // why the file cannot be read; sticky until Discard
		stale   bool  // the file may differ from offsets
		offsets map[Partition]int64
	}
}

// File returns the path of the file.
func (o *Offsets) File() string { return o.path }

// Load returns all entries in a map of the caller's own. A partition without one is simply not in it: what that means
// differs from file to file.
//
// A damaged file is a [*FormatError] and one of an unknown version a [*VersionError]. Kafka continues with an
// empty recovery-point or log-start file after either; here the caller decides, with [Offsets.Discard].
func (o *Offsets) Load() (map[Partition]int64, error) {
	var offsets map[Partition]int64
	err := o.use(func() error {
		offsets = maps.Clone(o.mu.offsets)
		return nil
	})
	return offsets, err
}

// Update changes the entries of some partitions, removes those of others, and leaves all the rest as they are. An
// offset may go down as well as up. It returns when the file is durable, and does nothing if nothing changes. A
// partition that is in both set and remove is set.
//
// On an error the entries in memory are the new ones and the next Update writes them; the file on the device is the old
// or the new one. Update fails as [Offsets.Load] does while the file cannot be read, so that it never replaces lines
// that it does not know.
func (o *Offsets) Update(set map[Partition]int64, remove ...Partition) error {
	for p, offset := range set {
		if err := checkEntry(p, offset); err != nil {
			return err
		}
	}
	return o.use(func() error {
		for _, p := range remove {
			if _, ok := o.mu.offsets[p]; ok {
				delete(o.mu.offsets, p)
				o.mu.stale = true
			}
		}
		for p, offset := range set {
			if old, ok := o.mu.offsets[p]; !ok || old != offset {
				o.mu.offsets[p] = offset
				o.mu.stale = true
			}
		}
		return o.write()
	})
}

// Discard forgets what a damaged file held: from now on it has no entries, and the next [Offsets.Update] replaces it.
// It changes nothing on the device, and nothing at all if the file could be read. A file of an unknown version is not
// damaged but newer, and stays refused.
func (o *Offsets) Discard() error {
	err := o.use(func() error { return nil })
	var damage *FormatError
	if !errors.As(err, &damage) {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.damage, o.mu.stale, o.mu.offsets = nil, true, map[Partition]int64{}
	return nil
}

// use runs do on the loaded entries while the directory is open.
func (o *Offsets) use(do func() error) error {
	return o.dir.use(func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if err := o.load(); err != nil {
			return err
		}
		if o.mu.damage != nil {
			return o.mu.damage
		}
		return do()
	})
}

// load reads the file if that has not been done. A missing file has no entries. What is wrong with the file is
// remembered; a failure to read it is not, as the next attempt may succeed.
func (o *Offsets) load() error {
	if o.mu.loaded {
		return nil
	}
	data, err := vfs.ReadFile(o.dir.fs, o.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	offsets, err := decodeOffsets(data)
	o.mu.loaded, o.mu.offsets, o.mu.damage = true, offsets, inFile(o.path, err)
	return nil
}

// write replaces the file if it may differ from what is in memory.
func (o *Offsets) write() error {
	if !o.mu.stale {
		return nil
	}
	if err := vfs.WriteFileAtomic(o.dir.fs, o.path, encodeOffsets(o.mu.offsets)); err != nil {
		return err
	}
	o.mu.stale = false
	return nil
}
