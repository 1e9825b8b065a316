package memfs_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// namesModel does random things to names and knows what each name may lead to after a crash.
type namesModel struct {
	m machine
	// may holds for each name the contents that it had since it was last durable, the newest last; "" is no file.
	may map[string][]string
	// safe are contents that are durable under a name and were only ever moved since; a crash must not lose them.
	safe map[string]bool
	made int
}

var modelNames = []string{"a/1", "a/2", "b/1", "b/2", "b/sub/1"}

func newNamesModel(t *rapid.T) *namesModel {
	n := &namesModel{m: newMachine(t), may: map[string][]string{}, safe: map[string]bool{}}
	for _, dir := range []string{"a", "b/sub"} {
		require.NoError(t, vfs.EnsureDir(n.m, dir))
	}
	for _, name := range modelNames {
		n.may[name] = []string{""}
	}
	return n
}

func (n *namesModel) now(name string) string {
	may := n.may[name]
	return may[len(may)-1]
}

func (n *namesModel) set(name, content string) { n.may[name] = append(n.may[name], content) }

func (n *namesModel) create(name string) {
	if n.now(name) != "" {
		return
	}
	n.made++
	content := fmt.Sprintf("file %d", n.made)
	n.m.write(name, content, 0)
	n.m.sync(name)
	n.set(name, content)
}

func (n *namesModel) remove(name string) {
	if n.now(name) == "" {
		return
	}
	n.m.remove(name)
	delete(n.safe, n.now(name))
	n.set(name, "")
}

func (n *namesModel) rename(from, to string) {
	if n.now(from) == "" || from == to {
		return
	}
	n.m.rename(from, to)
	delete(n.safe, n.now(to))
	n.set(to, n.now(from))
	n.set(from, "")
}

func (n *namesModel) syncDir(dir string) {
	n.m.syncDir(dir)
	for _, name := range modelNames {
		if name[:len(name)-2] == dir {
			n.may[name] = []string{n.now(name)}
			if n.now(name) != "" {
				n.safe[n.now(name)] = true
			}
		}
	}
}

// crash holds the file system after a crash against the model, and goes on with it.
func (n *namesModel) crash(t *rapid.T, o memfs.CrashOptions) {
	after := n.m.Crash(o)
	found := map[string]string{}
	for name, content := range tree(t, after) {
		if content == "" {
			continue // a directory
		}
		name = name[1:]
		require.Contains(t, n.may[name], content, "what %s leads to", name)
		require.NotContains(t, found, content, "a moved file has one name")
		found[content] = name
	}
	for _, name := range modelNames {
		if _, err := after.Stat(name); err != nil {
			require.Contains(t, n.may[name], "", "%s is missing", name)
		}
	}
	for content := range n.safe {
		require.Contains(t, found, content, "a durable file that was at most renamed is lost")
	}
	n.m.FS = after
	for _, name := range modelNames {
		n.may[name] = []string{""}
	}
	n.safe = map[string]bool{}
	for content, name := range found {
		n.may[name] = []string{content}
		n.safe[content] = true
	}
}

func drawCrash(t *rapid.T) memfs.CrashOptions {
	return memfs.CrashOptions{
		Seed:         rapid.Uint64().Draw(t, "seed"),
		KeepUnsynced: rapid.SampledFrom([]float64{0, 0.2, 0.5, 0.8, 1}).Draw(t, "keep"),
		Torn:         rapid.Bool().Draw(t, "torn"),
		SectorSize:   rapid.SampledFrom([]int{0, 512, 4096}).Draw(t, "sector"),
	}
}

func TestNamesAfterACrashAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNamesModel(t)
		name := rapid.SampledFrom(modelNames)
		t.Repeat(map[string]func(*rapid.T){
			"create":  func(t *rapid.T) { n.create(name.Draw(t, "name")) },
			"remove":  func(t *rapid.T) { n.remove(name.Draw(t, "name")) },
			"rename":  func(t *rapid.T) { n.rename(name.Draw(t, "from"), name.Draw(t, "to")) },
			"syncdir": func(t *rapid.T) { n.syncDir(rapid.SampledFrom([]string{"a", "b", "b/sub"}).Draw(t, "dir")) },
			"crash":   func(t *rapid.T) { n.crash(t, drawCrash(t)) },
			"": func(t *rapid.T) {
				for _, name := range modelNames {
					got := content(name)(n.m)
					if got == "none" {
						got = ""
					}
					require.Equal(t, n.now(name), got)
				}
			},
		})
	})
}

// bytesModel does random things to the bytes of one file. For each position it knows the values that a crash may leave
// there, and for the length the shortest and the longest.
type bytesModel struct {
	f      vfs.File
	now    []byte
	may    []map[byte]bool
	lo, hi int
}

func (b *bytesModel) write(off int, value byte, n int) {
	end := off + n
	b.grow(end)
	for i := off; i < end; i++ {
		b.now[i] = value
		b.may[i][value] = true
	}
}

// grow makes the file at least size long. New bytes are zeros until they are written, and so may read after a crash.
func (b *bytesModel) grow(size int) {
	for len(b.now) < size {
		b.now = append(b.now, 0)
	}
	for len(b.may) < size {
		b.may = append(b.may, map[byte]bool{})
	}
	for i := range size {
		if i >= b.lo {
			b.may[i][0] = true
		}
	}
	b.hi = max(b.hi, size)
}

func (b *bytesModel) truncate(size int) {
	if size > len(b.now) {
		b.grow(size)
		return
	}
	b.now = b.now[:size]
	b.lo = min(b.lo, size)
}

func (b *bytesModel) sync() {
	b.lo, b.hi = len(b.now), len(b.now)
	b.may = nil
	for _, v := range b.now {
		b.may = append(b.may, map[byte]bool{v: true})
	}
}

func (b *bytesModel) check(t *rapid.T, got []byte) {
	require.GreaterOrEqual(t, len(got), b.lo)
	require.LessOrEqual(t, len(got), b.hi)
	for i, v := range got {
		require.True(t, b.may[i][v], "byte %d is %d; of %v", i, v, b.may[i])
	}
}

func TestBytesAfterACrashAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		b := &bytesModel{f: m.open("f", vfs.Create)}
		m.syncDir("/")
		next := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				off, n := rapid.IntRange(0, 9_000).Draw(t, "off"), rapid.IntRange(1, 5_000).Draw(t, "n")
				next = next%255 + 1
				_, err := b.f.WriteAt(slices.Repeat([]byte{next}, n), int64(off))
				require.NoError(t, err)
				b.write(off, next, n)
			},
			"append": func(t *rapid.T) {
				n := rapid.IntRange(1, 700).Draw(t, "n")
				next = next%255 + 1
				_, err := b.f.(vfs.VectorWriter).WriteVectorAt([][]byte{{next}, slices.Repeat([]byte{next}, n-1)}, int64(len(b.now)))
				require.NoError(t, err)
				b.write(len(b.now), next, n)
			},
			"truncate": func(t *rapid.T) {
				size := rapid.IntRange(0, 12_000).Draw(t, "size")
				require.NoError(t, b.f.Truncate(int64(size)))
				b.truncate(size)
			},
			"sync": func(t *rapid.T) {
				require.NoError(t, b.f.Sync())
				b.sync()
			},
			"crash": func(t *rapid.T) {
				m.FS = m.Crash(drawCrash(t))
				data, err := vfs.ReadFile(m, "f")
				require.NoError(t, err)
				b.check(t, data)
				b.f, b.now = m.open("f", vfs.ReadWrite), data
				b.sync()
			},
			"kill": func(t *rapid.T) {
				data, err := vfs.ReadFile(m.Crash(memfs.CrashOptions{KeepUnsynced: 1}), "f")
				require.NoError(t, err)
				require.True(t, slices.Equal(b.now, data), "the end of a process loses nothing")
				data, err = vfs.ReadFile(m.CrashClean(), "f")
				require.NoError(t, err)
				b.check(t, data)
			},
			"": func(t *rapid.T) {
				data, err := vfs.ReadFile(m, "f")
				require.NoError(t, err)
				require.True(t, slices.Equal(b.now, data))
			},
		})
	})
}
