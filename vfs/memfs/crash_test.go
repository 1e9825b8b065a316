package memfs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// outcomes crashes a machine often and returns how many times each outcome of look came.
func outcomes(m machine, o memfs.CrashOptions, look func(after vfs.FS) string) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(400) {
		o.Seed = seed
		seen[look(m.Crash(o))]++
	}
	return seen
}

func keys(m map[string]int) []string {
	all := []string{}
	for k := range m {
		all = append(all, k)
	}
	return all
}

func content(name string) func(vfs.FS) string {
	return func(after vfs.FS) string {
		data, err := vfs.ReadFile(after, name)
		if err != nil {
			return "none"
		}
		return string(data)
	}
}

func names(after vfs.FS) string {
	entries, err := after.List("d")
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

var half = memfs.CrashOptions{KeepUnsynced: 0.5}

func TestASyncedFileRenamedOverAnotherIsOldOrNew(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": "old"})
	m.write("d/f.tmp", "new", 0)
	m.sync("d/f.tmp")
	m.rename("d/f.tmp", "d/f")
	require.ElementsMatch(t, []string{"old", "new"}, keys(outcomes(m, half, content("d/f"))))
	require.ElementsMatch(t, []string{"f", "f f.tmp"}, keys(outcomes(m, half, names)))
}

func TestAFileRenamedOverAnotherBeforeItsSyncMayBeEmpty(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": "old"})
	m.write("d/f.tmp", "new", 0)
	m.rename("d/f.tmp", "d/f")
	require.ElementsMatch(t, []string{"old", "new", "", "\x00\x00\x00"}, keys(outcomes(m, half, content("d/f"))))
}

func TestARenameIsKeptWholeOrNotAtAll(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/a": "a"})
	m.rename("d/a", "d/b")
	require.ElementsMatch(t, []string{"a", "b"}, keys(outcomes(m, half, names)))
	m.rename("d/b", "d/c")
	require.ElementsMatch(t, []string{"a", "b", "c"}, keys(outcomes(m, half, names)))
}

func TestNamesAreKeptIndependently(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/old": "x"})
	m.write("d/a", "", 0)
	m.write("d/b", "", 0)
	m.remove("d/old")
	require.ElementsMatch(t, []string{"", "a", "b", "a b", "old", "a old", "b old", "a b old"}, keys(outcomes(m, half, names)))
}

func TestSectorsAreKeptIndependently(t *testing.T) {
	const sector = 512
	m := newMachine(t).durable(map[string]string{"d/f": strings.Repeat("o", 3*sector)})
	m.write("d/f", strings.Repeat("n", 3*sector), 0)
	seen := outcomes(m, half, func(after vfs.FS) string {
		data := content("d/f")(after)
		return data[:1] + data[sector:sector+1] + data[2*sector:2*sector+1]
	})
	require.ElementsMatch(t, []string{"ooo", "oon", "ono", "onn", "noo", "non", "nno", "nnn"}, keys(seen))
	for data := range outcomes(m, half, content("d/f")) {
		for at := 0; at < len(data); at += sector {
			require.Equal(t, strings.Repeat(data[at:at+1], sector), data[at:at+sector], "no sector is torn unless asked")
		}
	}
}

func TestATornSectorHasANewFrontAndAnOldBack(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": strings.Repeat("o", 512)})
	m.write("d/f", strings.Repeat("n", 512), 0)
	torn := 0
	for data := range outcomes(m, memfs.CrashOptions{KeepUnsynced: 0.5, Torn: true}, content("d/f")) {
		n := strings.Count(data, "n")
		require.Equal(t, strings.Repeat("n", n)+strings.Repeat("o", 512-n), data)
		if n != 0 && n != 512 {
			torn++
		}
	}
	require.Greater(t, torn, 5)
}

func TestAnAppendMayBeMissingShortOrFullOfZeros(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": "start "})
	m.write("d/f", strings.Repeat("n", 2_000), 6)
	var missing, whole, short, zeros int
	for seed := range uint64(400) {
		data := content("d/f")(m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true}))
		require.Equal(t, "start ", data[:6])
		switch rest := data[6:]; {
		case rest == "":
			missing++
		case rest == strings.Repeat("n", 2_000):
			whole++
		case strings.Contains(rest, "\x00"):
			require.Empty(t, strings.Trim(rest, "n\x00"))
			zeros++
		default:
			require.Equal(t, strings.Repeat("n", len(rest)), rest)
			short++
		}
	}
	for _, n := range []int{missing, whole, short, zeros} {
		require.Greater(t, n, 10, "missing %d, whole %d, short %d, zeros %d", missing, whole, short, zeros)
	}
}

// A log that cut its tail and wrote on must never find the new batches followed by the old ones that it had cut.
func TestBytesWrittenAfterATruncationAreNeverFollowedByTheOldTail(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": strings.Repeat("a", 3_000)})
	m.write("d/f", strings.Repeat("b", 1_000), 3_000)
	m.truncate("d/f", 1_000)
	m.write("d/f", strings.Repeat("c", 1_500), 1_000)
	m.truncate("d/f", 1_200)
	m.write("d/f", strings.Repeat("d", 2_000), 1_200)
	var states [4]int
	for seed := range uint64(400) {
		data := content("d/f")(m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true}))
		rest := data[1_000:]
		require.True(t, data[:1_000] == strings.Repeat("a", 1_000))
		switch {
		case strings.Contains(rest, "a"): // no truncation was kept
			states[0]++
			require.True(t, rest[:2_000] == strings.Repeat("a", 2_000))
			require.Empty(t, strings.Trim(rest[2_000:], "b\x00"))
		case strings.Contains(rest, "d"):
			states[3]++
			require.Empty(t, strings.Trim(rest, "cd\x00"))
		case strings.Contains(rest, "c"):
			states[2]++
			require.Empty(t, strings.Trim(rest, "c\x00"))
		default:
			states[1]++
			require.Empty(t, strings.Trim(rest, "\x00"))
		}
	}
	for i, n := range states {
		require.Greater(t, n, 5, "state %d of %v", i, states)
	}
}

func TestManyTruncationsStayBounded(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": strings.Repeat("a", 100)})
	for i := range 1_000 {
		m.write("d/f", "TAIL", int64(100-i/20))
		m.truncate("d/f", int64(100-i/20))
	}
	for data := range outcomes(m, half, content("d/f")) {
		kept := strings.TrimRight(data, "TAIL\x00")
		require.Equal(t, strings.Repeat("a", len(kept)), kept)
		require.LessOrEqual(t, len(data), 104)
	}
	require.Equal(t, strings.Repeat("a", 51), content("d/f")(m))
}

func TestTheSameSeedLeavesTheSameBytes(t *testing.T) {
	history := func() machine {
		m := newMachine(t).durable(map[string]string{"d/f": "x"})
		for i := range 20 {
			m.write(fmt.Sprintf("d/%d", i), strings.Repeat("y", 300*i), 0)
		}
		m.rename("d/3", "d/f")
		m.remove("d/4")
		return m
	}
	one, two := history(), history()
	for seed := range uint64(20) {
		o := memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.6, Torn: true}
		require.Equal(t, tree(t, one.Crash(o)), tree(t, two.Crash(o)))
	}
}

func TestACrashCopyAndItsOriginalAreIndependent(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": strings.Repeat("o", 5_000)})
	m.write("d/f", "unsynced", 5_000)
	live := m.open("d/f", vfs.ReadWrite)
	before := tree(t, m)
	copies := []machine{
		{m.CrashClean(), t},
		{m.Crash(memfs.CrashOptions{KeepUnsynced: 1}), t},
		{m.Crash(memfs.CrashOptions{KeepUnsynced: 0.5, Seed: 3}), t},
	}
	for i, c := range copies {
		kept := tree(t, c)
		c.write("d/f", strings.Repeat("c", 6_000), 0)
		c.write("d/new", "c", 0)
		c.sync("d/f")
		require.Equal(t, before, tree(t, m), "copy %d", i)
		c.truncate("d/f", 0)
		_, err := live.WriteAt(bytes.Repeat([]byte("L"), 6_000), 0)
		require.NoError(t, err)
		require.NoError(t, live.Sync())
		require.Equal(t, "", content("d/f")(c))
		before = tree(t, m)
		require.NotEqual(t, kept, before)
	}
}

func TestWhatATruncationCutNeverComesBackAsAHole(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": strings.Repeat("x", 20_000)})
	m.truncate("d/f", 5_000)
	m.sync("d/f")
	m.truncate("d/f", 20_000)
	m.sync("d/f")
	require.True(t, content("d/f")(m.CrashClean()) == strings.Repeat("x", 5_000)+strings.Repeat("\x00", 15_000))
}

func TestASecondCrashTakesWhatWasWrittenSinceTheFirst(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": "durable"})
	m.write("d/f", "DUR", 0)
	after := machine{m.Crash(memfs.CrashOptions{KeepUnsynced: 1}), t}
	after.write("d/f", "xxxxxxx", 0)
	require.Equal(t, "DURable", content("d/f")(after.CrashClean()))
	require.Equal(t, "DURable", content("d/f")(m))
}

func TestLocksDoNotSurviveACrash(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/.lock": ""})
	held, err := m.Lock("d/.lock")
	require.NoError(t, err)
	after := m.CrashClean()
	_, err = after.Lock("d/.lock")
	require.NoError(t, err)
	_, err = m.Lock("d/.lock")
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, held.Close())
}

func TestAKilledFileSystemDoesNothingMore(t *testing.T) {
	m := newMachine(t).durable(map[string]string{"d/f": "x"})
	f := m.open("d/f", vfs.ReadWrite)
	held, err := m.Lock("d/.lock")
	require.NoError(t, err)
	m.Kill()
	_, openErr := m.Open("d/f", vfs.ReadOnly)
	_, listErr := m.List("d")
	_, statErr := m.Stat("d/f")
	_, lockErr := m.Lock("d/other")
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	_, writeErr := f.WriteAt([]byte("y"), 0)
	_, vectorErr := f.(vfs.VectorWriter).WriteVectorAt([][]byte{{1}}, 0)
	_, fileStatErr := f.Stat()
	for _, err := range []error{
		openErr, listErr, statErr, lockErr, readErr, writeErr, vectorErr, fileStatErr,
		m.Remove("d/f"), m.Rename("d/f", "d/g"), m.Link("d/f", "d/g"), m.MkdirAll("e"), m.SyncDir("d"),
		m.Chtimes("d/f", time.Now()), f.Truncate(0), f.Sync(),
	} {
		require.ErrorIs(t, err, memfs.ErrKilled)
	}
	require.NoError(t, f.Close())
	require.NoError(t, held.Close())
	require.Equal(t, "x", content("d/f")(m.CrashClean()))
}

// What was acknowledged before a crash began is in its copy, whatever runs at the same time.
func TestACrashSeesOneMomentOfAllFiles(t *testing.T) {
	const writers = 4
	m := newMachine(t)
	require.NoError(t, vfs.EnsureDir(m, "d"))
	var acked [writers]atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			f, err := m.Open(fmt.Sprintf("d/%d", w), vfs.Create)
			if err != nil || m.SyncDir("d") != nil {
				return
			}
			for i := int64(0); ; i++ {
				if _, err := f.WriteAt([]byte{byte(i)}, i); err != nil {
					return
				}
				if f.Sync() != nil {
					return
				}
				acked[w].Store(i + 1)
			}
		})
	}
	for seed := range uint64(50) {
		var before [writers]int64
		for w := range writers {
			before[w] = acked[w].Load()
		}
		after := m.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5, Torn: true})
		for w := range writers {
			if before[w] == 0 {
				continue
			}
			data, err := vfs.ReadFile(after, fmt.Sprintf("d/%d", w))
			require.NoError(t, err)
			require.GreaterOrEqual(t, int64(len(data)), before[w])
			for i := range before[w] {
				require.Equal(t, byte(i), data[i])
			}
		}
	}
	m.Kill()
	wg.Wait()
}

func TestModificationTimesComeFromTheClockAndFromSyncs(t *testing.T) {
	now := time.UnixMilli(1_000)
	m := machine{memfs.New(memfs.WithClock(func() time.Time { return now })), t}.durable(map[string]string{"d/f": "x"})
	mtime := func(fsys vfs.FS) int64 {
		info, err := fsys.Stat("d/f")
		require.NoError(t, err)
		return info.ModTime().UnixMilli()
	}
	require.Equal(t, int64(1_000), mtime(m))
	now = time.UnixMilli(2_000)
	m.write("d/f", "y", 0)
	require.Equal(t, int64(2_000), mtime(m))
	require.Equal(t, int64(1_000), mtime(m.CrashClean()))
	require.NoError(t, m.Chtimes("d/f", time.UnixMilli(5)))
	m.sync("d/f")
	require.Equal(t, int64(5), mtime(m.CrashClean()))
}

func TestAFileCannotOutgrowTheMemory(t *testing.T) {
	m := newMachine(t)
	f := m.open("f", vfs.Create)
	_, err := f.WriteAt([]byte("x"), 1<<50)
	require.ErrorContains(t, err, "too large")
	require.Error(t, f.Truncate(1<<50))
	require.NoError(t, f.Truncate(1<<33), "a hole costs nothing")
	info, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, int64(1<<33), info.Size())
}

// A small append with its sync must touch the pages it writes, not the file.
func TestASmallAppendToALargeFileIsCheap(t *testing.T) {
	m := newMachine(t)
	f := m.open("f", vfs.Create)
	const size = 100 << 20
	block := bytes.Repeat([]byte("x"), 1<<20)
	for off := int64(0); off < size; off += int64(len(block)) {
		_, err := f.WriteAt(block, off)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
	const appends = 1_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range int64(appends) {
		_, err := f.WriteAt([]byte("a small record"), size+14*i)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/appends, uint64(16<<10), "bytes allocated by one append and sync")

	copied := m.Crash(memfs.CrashOptions{KeepUnsynced: 0.5})
	info, err := copied.Stat("f")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Nil(t, info)
}

func BenchmarkAppendAndSync(b *testing.B) {
	m := newMachine(b)
	f := m.open("f", vfs.Create)
	record := bytes.Repeat([]byte("r"), 200)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		if _, err := f.WriteAt(record, 200*i); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	m := newMachine(b)
	f := m.open("f", vfs.Create)
	record := bytes.Repeat([]byte("r"), 200)
	b.ReportAllocs()
	b.SetBytes(200)
	for i := int64(0); b.Loop(); i++ {
		if _, err := f.WriteAt(record, 200*i%(100<<20)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCrash100MiB(b *testing.B) {
	m := newMachine(b)
	f := m.open("f", vfs.Create)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for off := int64(0); off < 100<<20; off += 1 << 20 {
		if _, err := f.WriteAt(block, off); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	m.syncDir("/")
	for b.Loop() {
		m.Crash(memfs.CrashOptions{KeepUnsynced: 0.5})
	}
}
