package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageOfProofsNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/proofs.md")
	require.NoError(t, err)
	functions := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	exist := map[string]bool{}
	require.NoError(t, filepath.WalkDir("../..", func(name string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, found := range functions.FindAllSubmatch(source, -1) {
			exist[string(found[1])] = true
		}
		return err
	}))
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		require.True(t, exist[name[1]], name[1])
	}
}
