package house

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePageOfProofsCountsAsTheScriptsDo holds the page's counts against what is run.
func TestThePageOfProofsCountsAsTheScriptsDo(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		return string(text)
	}
	number := func(file, pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(file))
		require.NotNil(t, found, "%s has no %s", file, pattern)
		return found[1]
	}
	page := strings.ReplaceAll(read("docs/proofs.md"), ",", "")
	row := func(ci, night, where string) {
		t.Helper()
		require.Regexp(t, `(?m)\| `+ci+`\b[^|]*\| `+night+` \| `+regexp.QuoteMeta(where)+` \|$`, page)
	}
	row(number("Makefile", `CUTS\s+\?= (\d+)`), number("scripts/nightly.sh", `POWER_CUTS:-(\d+)`), "`make cuts`")
	row(number("interop/crash/crash_test.go", `"INTEROP_CRASH_ROUNDS", (\d+)`), number("scripts/nightly.sh", `KILL_ROUNDS:-(\d+)`), "`interop/crash`")
	kills := "twice " + number("interop/crash/groups_test.go", `"INTEROP_GROUP_KILLS", (\d+)`)
	row(kills, "twice "+number("scripts/nightly.sh", `GROUP_KILLS:-(\d+)`), "`interop/crash`")

	steps := read(".ci/run")
	for _, command := range []string{"make test", "make cuts", "make starts", "scripts/ext4.sh", "make interop"} {
		require.Contains(t, steps, command)
	}
}

// tests are the names of all tests in directories of the tree.
func tests(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	functions := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	exist := map[string]bool{}
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(filepath.Join("../..", dir), func(name string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			source, err := os.ReadFile(name)
			for _, found := range functions.FindAllSubmatch(source, -1) {
				exist[string(found[1])] = true
			}
			return err
		}))
	}
	return exist
}

func TestThePageOfProofsNamesTestsThatExist(t *testing.T) {
	page, exist := readFile(t, "docs/proofs.md"), tests(t, ".")
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		require.True(t, exist[name[1]], name[1])
	}
}

// TestEveryRowOfTheFailureMatrixHasATest: the page says that there are 46, and how they are called.
func TestEveryRowOfTheFailureMatrixHasATest(t *testing.T) {
	names := strings.Join(slices.Collect(maps.Keys(tests(t, "stream", "meta", "interop/etcd"))), " ")
	for row := 1; row <= 46; row++ {
		require.Regexp(t, fmt.Sprintf(`\bTest(F\d+_)*F%d_`, row), names)
	}
}

// TestThePageOfRulesHasEachWithTestsThatExist: the numbers are those of the specification.
func TestThePageOfRulesHasEachWithTestsThatExist(t *testing.T) {
	exist, rows := tests(t, "stream", "meta", "objstore", "node", "interop/etcd"), []string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]+-\d+) \| .+ \| (.+) \|$`).FindAllStringSubmatch(readFile(t, "docs/rules.md"), -1) {
		rows = append(rows, row[1])
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(row[2], -1)
		require.NotEmpty(t, named, row[1])
		for _, name := range named {
			require.True(t, exist[name[1]], "%s: %s", row[1], name[1])
		}
	}
	var want []string
	for _, rules := range []struct {
		of    string
		count int
	}{
		{"REC", 5}, {"FRM", 4}, {"WOB", 3}, {"KEY", 1}, {"OBJ", 6}, {"CMP", 5}, {"WAL", 34}, {"STR", 7}, {"LC", 8}, {"RD", 3},
		{"BC", 9}, {"UP", 10}, {"CP", 16}, {"GC", 7}, {"ML", 2}, {"MD", 15}, {"KV", 6}, {"CAT", 4}, {"MP", 9},
	} {
		for n := 1; n <= rules.count; n++ {
			want = append(want, fmt.Sprintf("%s-%d", rules.of, n))
		}
	}
	require.Equal(t, want, rows)
}
