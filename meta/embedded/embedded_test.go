package embedded_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// fileStorage is a file. A crash leaves it as the operating system had it, and goes on with a copy, because the process
// that has it open is still there.
type fileStorage struct {
	t    *testing.T
	path string
}

func newFileStorage(t *testing.T) metatest.Storage {
	return &fileStorage{t, filepath.Join(t.TempDir(), "meta.db")}
}

func (s *fileStorage) Open() (meta.Backend, error) {
	b, err := embedded.Open(s.path, embedded.Options{ClusterID: "suite-cluster", LockTimeout: 1})
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { _ = b.Close() })
	return b, nil
}

func (s *fileStorage) Crash() {
	after := filepath.Join(s.t.TempDir(), "meta.db")
	copyFile(s.t, s.path, after)
	s.path = after
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

func TestEmbeddedKeepsEveryPromise(t *testing.T) { metatest.Run(t, newFileStorage) }
