// Package quarantine keeps damaged files, and bytes that are about to be cut off, so that rebuilding or repairing a file
// destroys nothing.
//
// The files kept at one moment form a set: some files, and a manifest that describes them.
//
//	quarantine/20261130T150405.123Z.json                        the manifest, see [Manifest]
//	quarantine/20261130T150405.123Z.leader-epoch-checkpoint     a whole file
//	quarantine/20261130T150405.123Z.00000000000000000000.log.2  a part of one; the manifest has its position
//
// There are two places, because Apache Kafka does not start when a data directory holds a directory that is not a
// partition's, but ignores unknown files there, and unknown directories in a partition's. Files of a partition are kept
// in a directory `quarantine` in the partition's own ([In]); files of a data directory are kept beside the originals,
// with names that begin with `quarantine.` ([Beside]).
package quarantine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/vfs"
)

// Dir is the name of the directory that [In] uses, and Prefix begins the names that [Beside] uses.
const (
	Dir    = "quarantine"
	Prefix = "quarantine."
)

// The programs that keep files.
const (
	ByStart  = "start"  // a start of the server, or another opening of a log: files that were rebuilt
	ByRepair = "repair" // a repair, whose sets are never removed by a program
)

// Format and Version identify a manifest.
const (
	Format  = "tidemark-quarantine"
	Version = 1
)

// manifestSuffix ends the name of a manifest, stampLayout is the time in front of it, in UTC.
const (
	manifestSuffix = ".json"
	stampLayout    = "20060102T150405.000Z"
)

// Manifest is the JSON text of one set.
type Manifest struct {
	Format  string    `json:"format"`  // Format
	Version int       `json:"version"` // Version
	Time    time.Time `json:"time"`
	By      string    `json:"by"`  // ByStart or ByRepair
	Dir     string    `json:"dir"` // the directory that held these files
	Files   []File    `json:"files"`

	Name string `json:"-"` // of the manifest's file
}

// File is a file of a set.
type File struct {
	Name     string `json:"name"`     // in the quarantine
	From     string `json:"from"`     // its name in Dir, or the name of the file that it is a part of
	Whole    bool   `json:"whole"`    // it is the whole of that file
	Position int64  `json:"position"` // of its first byte in that file
	Bytes    int64  `json:"bytes"`
	Reason   string `json:"reason"`

	// Offsets says what the log no longer has, if these are bytes of a log.
	Offsets *Offsets `json:"offsets,omitempty"`
}

// Offsets are those from First up to, but not including, Next. Records is how many intact records the file holds.
type Offsets struct {
	First   int64 `json:"first"`
	Next    int64 `json:"next"`
	Records int64 `json:"records"`
}

// Place is where the files of one directory are kept.
type Place struct {
	fs     vfs.FS
	of     string // the directory
	dir    string
	prefix string
}

// In returns the place for the files of a partition's directory.
func In(fsys vfs.FS, dir string) Place { return Place{fs: fsys, of: dir, dir: path.Join(dir, Dir)} }

// Beside returns the place for the files of a data directory.
func Beside(fsys vfs.FS, dir string) Place {
	return Place{fs: fsys, of: dir, dir: dir, prefix: Prefix}
}

// Path returns the path of a file of a set.
func (p Place) Path(name string) string { return path.Join(p.dir, name) }

// Set is a set under construction. Nothing of it counts until [Set.Commit].
type Set struct {
	place    Place
	stamp    string
	manifest Manifest
	moves    []File
}

// Begin begins a set. It creates the directory if there is none, durably.
func (p Place) Begin(now time.Time, by string) (*Set, error) {
	if err := vfs.EnsureDir(p.fs, p.dir); err != nil {
		return nil, err
	}
	taken, err := p.stamps()
	if err != nil {
		return nil, err
	}
	stamp := now.UTC().Format(stampLayout)
	for next := now; slices.Contains(taken, stamp); stamp = next.UTC().Format(stampLayout) {
		next = next.Add(time.Millisecond)
	}
	return &Set{place: p, stamp: stamp, manifest: Manifest{
		Format: Format, Version: Version, Time: now.UTC(), By: by, Dir: p.of, Files: []File{},
	}}, nil
}

// add gives a file its name in the set.
func (s *Set) add(f File) File {
	f.Name = s.place.prefix + s.stamp + "." + f.From
	same := func(other File) bool { return other.Name == f.Name }
	for n := 2; slices.ContainsFunc(s.manifest.Files, same); n++ {
		f.Name = fmt.Sprintf("%s%s.%s.%d", s.place.prefix, s.stamp, f.From, n)
	}
	s.manifest.Files = append(s.manifest.Files, f)
	return f
}

// chunk is how many bytes are copied at once.
const chunk = 1 << 20

// Part copies bytes of a file of the directory. They are durable on return.
func (s *Set) Part(from string, position, bytes int64, offsets *Offsets, reason string) error {
	return s.copy(File{From: from, Position: position, Bytes: bytes, Offsets: offsets, Reason: reason})
}

// Copy copies a whole file of the directory. It is durable on return.
func (s *Set) Copy(from, reason string) error {
	info, err := s.place.fs.Stat(path.Join(s.place.of, from))
	if err != nil {
		return err
	}
	return s.copy(File{From: from, Whole: true, Bytes: info.Size(), Reason: reason})
}

func (s *Set) copy(f File) (err error) {
	source, err := s.place.fs.Open(path.Join(s.place.of, f.From), vfs.ReadOnly)
	if err != nil {
		return err
	}
	defer source.Close()
	f = s.add(f)
	target, err := s.place.fs.Open(s.place.Path(f.Name), vfs.CreateTruncate)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, target.Close()); err != nil { // a full disk, for example: there is no manifest to mention it
			err = errors.Join(err, s.place.remove(f.Name))
		}
	}()
	buf := make([]byte, min(chunk, f.Bytes))
	for at := int64(0); at < f.Bytes; {
		n := min(int64(len(buf)), f.Bytes-at)
		if got, err := source.ReadAt(buf[:n], f.Position+at); int64(got) < n {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return &fs.PathError{Op: "read", Path: path.Join(s.place.of, f.From), Err: err}
		}
		if _, err := target.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += n
	}
	return target.Sync()
}

// Move makes [Set.Commit] move a file of the directory once the manifest is durable.
func (s *Set) Move(from string, offsets *Offsets, reason string) error {
	info, err := s.place.fs.Stat(path.Join(s.place.of, from))
	if err != nil {
		return err
	}
	s.moves = append(s.moves, s.add(File{From: from, Whole: true, Bytes: info.Size(), Offsets: offsets, Reason: reason}))
	return nil
}

// Commit writes the manifest, then moves the files to be moved. Everything is durable on return. A crash may leave a
// manifest that names a file which was not moved yet and is in its old place; never the reverse.
func (s *Set) Commit() error {
	p := s.place
	data, err := json.MarshalIndent(s.manifest, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.WriteFileAtomic(p.fs, p.Path(p.prefix+s.stamp+manifestSuffix), append(data, '\n')); err != nil {
		return err
	}
	for _, f := range s.moves {
		if err := p.fs.Rename(path.Join(p.of, f.From), p.Path(f.Name)); err != nil {
			return err
		}
	}
	if len(s.moves) == 0 {
		return nil
	}
	if err := p.fs.SyncDir(p.dir); err != nil || p.dir == p.of {
		return err
	}
	return p.fs.SyncDir(p.of)
}

// Discard removes the copies of a set that will not be committed, for example because there is no room for it.
func (s *Set) Discard() error {
	var errs []error
	for _, f := range s.manifest.Files {
		if !slices.Contains(s.moves, f) {
			errs = append(errs, s.place.remove(f.Name))
		}
	}
	return errors.Join(errs...)
}

// Paths returns the paths of the set's files, in the order in which they were added.
func (s *Set) Paths() []string {
	var paths []string
	for _, f := range s.manifest.Files {
		paths = append(paths, s.place.Path(f.Name))
	}
	return paths
}

// Sets returns the manifests, the oldest first. One that cannot be read has a Name and no Format.
func (p Place) Sets() ([]Manifest, error) {
	names, err := p.names()
	if err != nil {
		return nil, err
	}
	var sets []Manifest
	for _, name := range names {
		if !strings.HasSuffix(name, manifestSuffix) {
			continue
		}
		data, err := vfs.ReadFile(p.fs, p.Path(name))
		if err != nil {
			return nil, err
		}
		var m Manifest
		if json.Unmarshal(data, &m) != nil || m.Format != Format || m.Version != Version {
			m = Manifest{}
		}
		m.Name = name
		sets = append(sets, m)
	}
	return sets, nil
}

// Prune removes the oldest sets that starts made, until at most that many sets and bytes are left; the newest stays,
// whatever its size. Sets of a repair, and ones that cannot be understood, stay.
func (p Place) Prune(sets int, bytes int64) error {
	all, err := p.Sets()
	if err != nil {
		return err
	}
	starts := slices.DeleteFunc(all, func(m Manifest) bool { return m.By != ByStart })
	for i, m := range slices.Backward(starts) {
		sets--
		for _, f := range m.Files {
			bytes -= f.Bytes
		}
		if sets >= 0 && bytes >= 0 || i == len(starts)-1 { // the newest may describe what is about to be replaced
			continue
		}
		for _, f := range m.Files {
			if err := p.remove(f.Name); err != nil {
				return err
			}
		}
		if err := p.remove(m.Name); err != nil { // last: until then it says what is left
			return err
		}
	}
	return nil
}

func (p Place) remove(name string) error {
	err := p.fs.Remove(p.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// names lists the files of all sets.
func (p Place) names() ([]string, error) {
	entries, err := p.fs.List(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasPrefix(e.Name(), p.prefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// stamps lists the times of all sets.
func (p Place) stamps() ([]string, error) {
	names, err := p.names()
	if err != nil {
		return nil, err
	}
	var stamps []string
	for _, name := range names {
		if rest := name[len(p.prefix):]; len(rest) > len(stampLayout) {
			stamps = append(stamps, rest[:len(stampLayout)])
		}
	}
	return stamps, nil
}
