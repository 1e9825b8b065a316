package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/tidemark-io/tidemark/meta"
)

// Verify reads the whole file and returns the first problem that it finds, as a [*meta.CorruptError] that names the
// file: a page that bbolt could not use, an item that is missing or in the wrong place, an entry or snapshot that does
// not decode. A snapshot whose checksum fails is wrong only if the entries do not lead on from one before it (F41). A
// missing file is a [*meta.MissingError]. It writes nothing and takes no lock, so no other process may write the file
// meanwhile.
func Verify(path string) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return &meta.MissingError{Path: path}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m, err := readMetas(f, info.Size())
	if err != nil {
		return damaged(path, "bbolt file", 0, err)
	}
	v := verifier{path: path, meta: map[string][]byte{}, damaged: map[uint64]error{}}
	if err := v.read(newWalker(f, m)); err != nil {
		return err
	}
	return v.check()
}

// verifier collects the contents of a file until all of it is read. It decodes entries and snapshots on the way.
type verifier struct {
	path      string
	buckets   []string
	meta      map[string][]byte
	entries   []uint64         // indexes, as found
	snapshots []uint64         // indexes, as found
	damaged   map[uint64]error // snapshots whose checksum fails
}

func damaged(path, item string, index uint64, err error) error {
	return &meta.CorruptError{Where: path, Item: item, Index: index, Err: err}
}

// read walks every page in use.
func (v *verifier) read(w *walker) error {
	err := w.bucket(w.meta.root, func(it item) error {
		name := string(it.key)
		v.buckets = append(v.buckets, name)
		each := map[string]func(item) error{"meta": v.readMeta, "log": v.readEntry, "snap": v.readSnapshot}[name]
		if !it.bucket || each == nil {
			return fmt.Errorf("%q is not a known bucket", name)
		}
		return w.nested(it.value, func(it item) error {
			if it.bucket {
				return fmt.Errorf("%q in bucket %s is a bucket", it.key, name)
			}
			return each(it)
		})
	})
	if err == nil {
		err = w.checkFreelist()
	}
	var corrupt *meta.CorruptError
	if err == nil || errors.As(err, &corrupt) {
		return err
	}
	return damaged(v.path, "bbolt file", 0, err)
}

func (v *verifier) readMeta(it item) error {
	value, err := unseal(it.key, it.value)
	if err != nil {
		return damaged(v.path, "bucket meta", 0, err)
	}
	v.meta[string(it.key)] = value
	return nil
}

func (v *verifier) readEntry(it item) error {
	index, err := index(it.key)
	if err != nil {
		return damaged(v.path, "bucket log", 0, err)
	}
	if n := len(v.entries); n > 0 && index != v.entries[n-1]+1 {
		return damaged(v.path, "bucket log", index, fmt.Errorf("it follows entry %d", v.entries[n-1]))
	}
	v.entries = append(v.entries, index)
	if _, err := meta.DecodeEntry(it.value); err != nil {
		return damaged(v.path, "log entry", index, err)
	}
	return nil
}

func (v *verifier) readSnapshot(it item) error {
	index, err := index(it.key)
	if err != nil {
		return damaged(v.path, "bucket snap", 0, err)
	}
	v.snapshots = append(v.snapshots, index)
	s, err := meta.DecodeSnapshot(it.value)
	var format *meta.FormatError
	if errors.As(err, &format) && format.Damaged {
		v.damaged[index] = err
		return nil
	}
	if err == nil && s.Index() != index {
		err = fmt.Errorf("it was taken at %d", s.Index())
	}
	if err != nil {
		return damaged(v.path, "snapshot", index, err)
	}
	return nil
}

// check compares the bucket meta with the actual contents.
func (v *verifier) check() error {
	if !slices.Equal(v.buckets, []string{"log", "meta", "snap"}) {
		return damaged(v.path, "bbolt file", 0, fmt.Errorf("its buckets are %q, not log, meta and snap", v.buckets))
	}
	if got := string(v.meta["format"]); got != formatVersion {
		return damaged(v.path, "bucket meta", 0, formatError(got))
	}
	if len(v.meta["cluster"]) == 0 {
		return damaged(v.path, "bucket meta", 0, fmt.Errorf("the cluster id is missing"))
	}
	heads, err := decodeIndexes(keyHead, v.meta["head"])
	if err != nil || len(heads) != 1 {
		return damaged(v.path, "bucket meta", 0, fmt.Errorf("the head is missing"))
	}
	listed, err := decodeIndexes(keySnapshots, v.meta["snapshots"])
	if err != nil || !slices.Equal(listed, v.snapshots) || len(listed) > keptSnapshots {
		return damaged(v.path, "bucket snap", 0, fmt.Errorf("snapshots %d are listed, %d exist", listed, v.snapshots))
	}
	return v.checkRange(heads[0])
}

// checkRange makes sure that the older snapshot, or the only one, and the entries lead up to the head without a hole.
func (v *verifier) checkRange(head uint64) error {
	n := uint64(len(v.entries))
	if n > 0 && v.entries[n-1] != head || n > head {
		return damaged(v.path, "bucket log", 0, fmt.Errorf("the newest entry is %d and the head is %d", v.entries[n-1], head))
	}
	if k := len(v.snapshots); k > 0 && v.snapshots[k-1] > head {
		return damaged(v.path, "bucket snap", 0, fmt.Errorf("the newest snapshot is %d and the head is %d", v.snapshots[k-1], head))
	}
	covered := uint64(0)
	if len(v.snapshots) > 0 {
		covered = v.snapshots[0]
	}
	first := head + 1 - n
	if err := v.checkDamaged(first); err != nil {
		return err
	}
	if first > covered+1 {
		return &meta.GapError{Where: v.path, Want: covered + 1, Head: head}
	}
	return nil
}

// checkDamaged makes sure that there is a state to start from (the newest snapshot, or if it is damaged the older one, or
// the beginning of the log) and all entries since.
func (v *verifier) checkDamaged(first uint64) error {
	k := len(v.snapshots)
	if k == 0 || v.damaged[v.snapshots[k-1]] == nil {
		return nil
	}
	newest, older, from := v.snapshots[k-1], uint64(0), uint64(0)
	if k > 1 {
		older = v.snapshots[k-2]
		if v.damaged[older] == nil {
			from = older
		}
	}
	if first <= from+1 {
		return nil
	}
	return damaged(v.path, "snapshot", newest, &meta.FallbackError{
		Damage: v.damaged[newest], Older: older, Why: errors.Join(v.damaged[older], fmt.Errorf("log entry %d is missing", from+1)),
	})
}

// formatError says that the layout's version is not ours.
func formatError(got string) error {
	if got == "" {
		return fmt.Errorf("the format version is missing")
	}
	var n uint64
	if _, err := fmt.Sscanf(got, "%d", &n); err != nil {
		return fmt.Errorf("the format version is %q", got)
	}
	return &meta.VersionError{What: "format of the metadata file", Got: n, Known: 1}
}

// index reads a key of the buckets log and snap.
func index(key []byte) (uint64, error) {
	if len(key) != 8 {
		return 0, fmt.Errorf("key %x is not an index", key)
	}
	return binary.BigEndian.Uint64(key), nil
}

func isIndex(key []byte, want uint64) bool {
	got, err := index(key)
	return err == nil && got == want
}
