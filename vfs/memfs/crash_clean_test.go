package memfs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// machine is a file system under test whose steps read as sentences and never fail.
type machine struct {
	*memfs.FS
	t require.TestingT
}

func newMachine(t require.TestingT) machine { return machine{memfs.New(), t} }

// durable makes files with their content that a crash cannot touch.
func (m machine) durable(files map[string]string) machine {
	for name, content := range files {
		dir := name[:strings.LastIndex(name, "/")]
		require.NoError(m.t, vfs.EnsureDir(m, dir))
		require.NoError(m.t, vfs.WriteFileAtomic(m, name, []byte(content)))
	}
	return m
}

func (m machine) open(name string, mode vfs.Mode) vfs.File {
	f, err := m.Open(name, mode)
	require.NoError(m.t, err)
	return f
}

func (m machine) write(name, content string, off int64) {
	f := m.open(name, vfs.Create)
	_, err := f.WriteAt([]byte(content), off)
	require.NoError(m.t, err)
	require.NoError(m.t, f.Close())
}

func (m machine) truncate(name string, size int64) {
	f := m.open(name, vfs.ReadWrite)
	require.NoError(m.t, f.Truncate(size))
	require.NoError(m.t, f.Close())
}

func (m machine) sync(name string) {
	f := m.open(name, vfs.ReadOnly)
	require.NoError(m.t, f.Sync())
	require.NoError(m.t, f.Close())
}

// failSync is a sync that fails on Linux.
func (m machine) failSync(name string) {
	f := m.open(name, vfs.ReadOnly)
	f.(interface{ DropUnsynced() }).DropUnsynced()
	require.NoError(m.t, f.Close())
}

func (m machine) syncDir(name string)    { require.NoError(m.t, m.SyncDir(name)) }
func (m machine) rename(from, to string) { require.NoError(m.t, m.Rename(from, to)) }
func (m machine) link(from, to string)   { require.NoError(m.t, m.Link(from, to)) }
func (m machine) remove(name string)     { require.NoError(m.t, m.Remove(name)) }
func (m machine) mkdir(name string)      { require.NoError(m.t, m.MkdirAll(name)) }

// tree returns the content of every file by its path; a directory is a path that ends in a slash.
func tree(t require.TestingT, fsys vfs.FS) map[string]string {
	all := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := fsys.List(dir)
		require.NoError(t, err)
		for _, e := range entries {
			name := dir + e.Name()
			if e.IsDir() {
				all[name+"/"] = ""
				walk(name + "/")
				continue
			}
			data, err := vfs.ReadFile(fsys, name)
			require.NoError(t, err)
			all[name] = string(data)
		}
	}
	walk("/")
	return all
}

func TestACleanCrashKeepsWhatWasSyncedAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(m machine)
		want map[string]string // over "/d/": "" and what is listed here
	}{
		{"nothing done", func(m machine) {}, map[string]string{"/d/f": "durable"}},
		{"bytes not synced", func(m machine) { m.write("d/f", "DUR", 0) }, map[string]string{"/d/f": "durable"}},
		{"bytes synced", func(m machine) { m.write("d/f", "DUR", 0); m.sync("d/f") }, map[string]string{"/d/f": "DURable"}},
		{"append not synced", func(m machine) { m.write("d/f", "more", 7) }, map[string]string{"/d/f": "durable"}},
		{"append synced through another handle", func(m machine) {
			m.write("d/f", "more", 7)
			m.sync("d/f")
			m.write("d/f", "lost", 11)
		}, map[string]string{"/d/f": "durablemore"}},
		{"truncation not synced", func(m machine) { m.truncate("d/f", 2) }, map[string]string{"/d/f": "durable"}},
		{"truncation synced", func(m machine) { m.truncate("d/f", 2); m.sync("d/f") }, map[string]string{"/d/f": "du"}},
		{"truncation and rewrite not synced", func(m machine) {
			m.truncate("d/f", 2)
			m.write("d/f", "XYZ", 2)
		}, map[string]string{"/d/f": "durable"}},
		{"truncation and rewrite synced", func(m machine) {
			m.truncate("d/f", 2)
			m.write("d/f", "XYZ", 2)
			m.sync("d/f")
		}, map[string]string{"/d/f": "duXYZ"}},
		{"truncation and hole synced", func(m machine) {
			m.truncate("d/f", 2)
			m.truncate("d/f", 5)
			m.sync("d/f")
		}, map[string]string{"/d/f": "du\x00\x00\x00"}},
		{"emptied on opening", func(m machine) { m.open("d/f", vfs.CreateTruncate) }, map[string]string{"/d/f": "durable"}},
		{"new file without its directory's sync", func(m machine) {
			m.write("d/new", "x", 0)
			m.sync("d/new")
		}, map[string]string{"/d/f": "durable"}},
		{"new file without its own sync", func(m machine) {
			m.write("d/new", "x", 0)
			m.syncDir("d")
		}, map[string]string{"/d/f": "durable", "/d/new": ""}},
		{"new file with both", func(m machine) {
			m.write("d/new", "x", 0)
			m.sync("d/new")
			m.syncDir("d")
		}, map[string]string{"/d/f": "durable", "/d/new": "x"}},
		{"rename not synced", func(m machine) { m.rename("d/f", "d/g") }, map[string]string{"/d/f": "durable"}},
		{"rename synced", func(m machine) { m.rename("d/f", "d/g"); m.syncDir("d") }, map[string]string{"/d/g": "durable"}},
		{"rename over another not synced", func(m machine) {
			m.write("d/new", "new", 0)
			m.sync("d/new")
			m.rename("d/new", "d/f")
		}, map[string]string{"/d/f": "durable"}},
		{"rename over another synced", func(m machine) {
			m.write("d/new", "new", 0)
			m.sync("d/new")
			m.rename("d/new", "d/f")
			m.syncDir("d")
		}, map[string]string{"/d/f": "new"}},
		{"rename of what was not synced itself", func(m machine) {
			m.write("d/new", "new", 0)
			m.rename("d/new", "d/f")
			m.syncDir("d")
		}, map[string]string{"/d/f": ""}},
		{"rename to another directory, source synced", func(m machine) {
			m.durable(map[string]string{"e/x": "x"})
			m.rename("d/f", "e/f")
			m.syncDir("d")
		}, map[string]string{"/e/": "", "/e/x": "x", "/e/f": "durable"}},
		{"rename to another directory, target synced", func(m machine) {
			m.durable(map[string]string{"e/x": "x"})
			m.rename("d/f", "e/f")
			m.syncDir("e")
		}, map[string]string{"/e/": "", "/e/x": "x", "/e/f": "durable"}},
		{"rename into a directory that is not durable, source synced", func(m machine) {
			m.mkdir("e/deep")
			m.rename("d/f", "e/deep/f")
			m.syncDir("d")
		}, map[string]string{"/e/": "", "/e/deep/": "", "/e/deep/f": "durable"}},
		{"a chain of renames, the last one synced", func(m machine) {
			m.durable(map[string]string{"e/x": "x", "g/y": "y"})
			m.rename("d/f", "e/f")
			m.rename("e/x", "d/f")
			m.rename("d/f", "g/x")
			m.syncDir("g")
		}, map[string]string{"/e/": "", "/e/f": "durable", "/g/": "", "/g/x": "x", "/g/y": "y"}},
		{"removal not synced", func(m machine) { m.remove("d/f") }, map[string]string{"/d/f": "durable"}},
		{"removal synced", func(m machine) { m.remove("d/f"); m.syncDir("d") }, map[string]string{}},
		{"removed and made again", func(m machine) {
			m.remove("d/f")
			m.write("d/f", "other", 0)
			m.sync("d/f")
		}, map[string]string{"/d/f": "durable"}},
		{"link not synced", func(m machine) { m.link("d/f", "d/g") }, map[string]string{"/d/f": "durable"}},
		{"link synced, then written through one name", func(m machine) {
			m.link("d/f", "d/g")
			m.syncDir("d")
			m.write("d/g", "DUR", 0)
			m.sync("d/f")
		}, map[string]string{"/d/f": "DURable", "/d/g": "DURable"}},
		{"directory whose parent was not synced", func(m machine) {
			m.mkdir("d/sub")
			m.write("d/sub/x", "x", 0)
			m.sync("d/sub/x")
			m.syncDir("d/sub")
		}, map[string]string{"/d/f": "durable"}},
		{"directory renamed and not synced", func(m machine) {
			m.durable(map[string]string{"d/sub/x": "x"})
			m.rename("d/sub", "d/sub.x-delete")
			m.write("d/sub.x-delete/y", "y", 0)
			m.sync("d/sub.x-delete/y")
			m.syncDir("d/sub.x-delete")
		}, map[string]string{"/d/f": "durable", "/d/sub/": "", "/d/sub/x": "x", "/d/sub/y": "y"}},
		{"directory emptied and removed, parent synced", func(m machine) {
			m.durable(map[string]string{"d/sub/x": "x", "d/sub/y": "y"})
			m.rename("d/sub/x", "d/x")
			m.remove("d/sub/y")
			m.remove("d/sub")
			m.syncDir("d")
		}, map[string]string{"/d/f": "durable", "/d/x": "x"}},
		{"directory removed and synced after a file was moved out of it", func(m machine) {
			m.durable(map[string]string{"d/sub/x": "x", "e/y": "y"})
			m.rename("d/sub/x", "e/x")
			m.remove("d/sub")
			m.syncDir("d")
		}, map[string]string{"/d/f": "durable", "/e/": "", "/e/x": "x", "/e/y": "y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t).durable(map[string]string{"d/f": "durable"})
			c.do(m)
			c.want["/d/"] = ""
			after := m.CrashClean()
			require.Equal(t, c.want, tree(t, after))
			require.Equal(t, c.want, tree(t, after.CrashClean()), "what a crash left is durable")
			require.Equal(t, tree(t, m), tree(t, m.Crash(memfs.CrashOptions{KeepUnsynced: 1})), "a killed process loses nothing")
		})
	}
}

func TestWhatAFailedSyncDroppedIsReadableUntilThePowerIsCut(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": "old"})
	m.write("d/f", "new, and longer", 0)
	m.failSync("d/f")
	require.Equal(t, "new, and longer", content("d/f")(m))
	m.sync("d/f")
	require.Equal(t, "old"+strings.Repeat("\x00", 12), content("d/f")(m.CrashClean()), "the length is synced, the bytes are not")

	running := machine{m.Crash(memfs.CrashOptions{KeepUnsynced: 1}), t}
	require.Equal(t, "new, and longer", content("d/f")(running), "another process on the same machine reads them")
	running.sync("d/f")
	require.Equal(t, "old"+strings.Repeat("\x00", 12), content("d/f")(running.CrashClean()))
	running.write("d/f", "new", 0)
	running.sync("d/f")
	require.Equal(t, "new, and longer", content("d/f")(running.CrashClean()), "what is written again is synced, by pages")

	m.truncate("d/f", 2)
	m.write("d/f", "w", 2)
	m.sync("d/f")
	require.Equal(t, "new", content("d/f")(m.CrashClean()))
}
