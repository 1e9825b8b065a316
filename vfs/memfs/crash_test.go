package memfs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

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
