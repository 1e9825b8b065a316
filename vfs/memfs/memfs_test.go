package memfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
	"github.com/tidemark-io/tidemark/vfs/vfstest"
)

func TestMemfsPassesTheSuite(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		m := memfs.New()
		require.NoError(t, m.MkdirAll("data/test"))
		return m, "data/test"
	})
}

func TestACopyAfterACrashPassesTheSuite(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		m := memfs.New()
		require.NoError(t, vfs.EnsureDir(m, "data/test"))
		return m.CrashClean(), "data/test"
	})
}
