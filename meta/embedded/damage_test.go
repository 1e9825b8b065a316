package embedded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

// writtenLog returns a closed file with topics, keys, two snapshots and a truncated log, and the state that it holds.
func writtenLog(t testing.TB) (path string, want []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "meta.db")
	b, err := embedded.Open(path, embedded.Options{ClusterID: "c", Reserve: -1})
	require.NoError(t, err)
	l, err := meta.Open(t.Context(), b, meta.Options{SnapshotEvery: 40})
	require.NoError(t, err)
	_, err = l.Do(t.Context(), meta.RegisterNode{Node: 1, ExpectedEpoch: -1, Address: "localhost:9092"})
	require.NoError(t, err)
	for i := range 130 {
		_, err = l.Do(t.Context(), meta.CreateTopic{
			ID: meta.TopicID{1, byte(i)}, Name: fmt.Sprintf("topic-%03d", i), Partitions: 3,
			Configs: map[string]string{"retention.ms": "1000"},
		})
		require.NoError(t, err)
	}
	want = l.View().EncodeSnapshot()
	require.NoError(t, l.Close())
	require.NoError(t, b.Close())
	return path, want
}

// openState opens the file and returns the state in it.
func openState(path string, o embedded.Options) ([]byte, error) {
	o.Reserve = -1
	b, err := embedded.Open(path, o)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	l, err := meta.Open(context.Background(), b, meta.Options{})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.View().EncodeSnapshot(), nil
}

func requireNamesFile(t *testing.T, err error, path string) {
	t.Helper()
	require.Error(t, err)
	require.Contains(t, err.Error(), path)
}

func TestF13_ChangedBytesAreRefusedOrChangeNothing(t *testing.T) {
	path, want := writtenLog(t)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	copyPath := filepath.Join(t.TempDir(), "meta.db")
	refused := 0
	for off := 0; off < len(whole); off += step(off) {
		damaged := append([]byte{}, whole...)
		damaged[off] ^= 1 << (off % 8)
		require.NoError(t, os.WriteFile(copyPath, damaged, 0o600))

		got, err := openState(copyPath, embedded.Options{MustExist: true})
		if err == nil {
			require.True(t, string(want) == string(got), "byte %d: another state was read, and no error", off)
			continue
		}
		refused++
		requireNamesFile(t, err, copyPath)
		after, err := os.ReadFile(copyPath)
		require.NoError(t, err)
		require.True(t, string(damaged) == string(after), "byte %d: a file that was refused was written to", off)
	}
	require.NotZero(t, refused)
}

// step looks at every byte of the meta pages' fields and of the page headers, where a change is worst, and at some of
// the rest.
func step(off int) int {
	if in := off % 4096; in < 40 || off < 2*4096 && in < 96 {
		return 1
	}
	return 97
}

func TestF13_AFileThatIsCutAnywhereIsRefused(t *testing.T) {
	path, _ := writtenLog(t)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	used := len(strings.TrimRight(string(whole), "\x00"))
	cut := filepath.Join(t.TempDir(), "meta.db")
	for size := 0; size < used; size += 509 {
		require.NoError(t, os.WriteFile(cut, whole[:size], 0o600))
		for _, o := range []embedded.Options{{MustExist: true}, {ClusterID: "c"}} {
			_, err := openState(cut, o)
			requireNamesFile(t, err, cut)
			after, err := os.ReadFile(cut)
			require.NoError(t, err)
			require.Equal(t, size, len(after), "a file that was refused was written to")
		}
	}
}

func TestF13_AMissingFileIsNoFirstStartWhenItMustExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	_, err := embedded.Open(path, embedded.Options{ClusterID: "c", MustExist: true})
	var missing *meta.MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, path, missing.Path)
	_, err = os.Stat(path)
	require.True(t, os.IsNotExist(err), "nothing may be made")
}

func TestACrashWhileTheFileIsMadeLeavesNoHalfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	require.NoError(t, os.WriteFile(path+".new", []byte("half of a file"), 0o600))
	b, err := embedded.Open(path, embedded.Options{ClusterID: "c"})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	_, err = os.Stat(path + ".new")
	require.True(t, os.IsNotExist(err))
}

func TestAFileOfAnotherClusterIsRefused(t *testing.T) {
	path, _ := writtenLog(t)
	_, err := embedded.Open(path, embedded.Options{ClusterID: "other"})
	var other *meta.ClusterIDError
	require.ErrorAs(t, err, &other)
	require.Equal(t, &meta.ClusterIDError{Path: path, Stored: "c", Want: "other"}, other)
}

func TestF45_AFileThatIsOpenedTwiceIsLocked(t *testing.T) {
	path, _ := writtenLog(t)
	b, err := embedded.Open(path, embedded.Options{})
	require.NoError(t, err)
	defer b.Close()
	_, err = embedded.Open(path, embedded.Options{LockTimeout: 1})
	require.Equal(t, &meta.LockedError{Path: path}, err)
}

func TestVerifyReadsAFileThatIsInOrder(t *testing.T) {
	path, _ := writtenLog(t)
	require.NoError(t, embedded.Verify(path))
	require.ErrorContains(t, embedded.Verify(path+".none"), path+".none is missing")
}

func FuzzVerify(f *testing.F) {
	path, _ := writtenLog(f)
	whole, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(uint32(0), uint64(0))
	f.Add(uint32(4096), uint64(1)<<40)
	f.Fuzz(func(t *testing.T, off uint32, with uint64) {
		b := append([]byte{}, whole...)
		for i := range 8 {
			b[(int(off)+i)%len(b)] = byte(with >> (8 * i))
		}
		damaged := filepath.Join(t.TempDir(), "meta.db")
		require.NoError(t, os.WriteFile(damaged, b, 0o600))
		_ = embedded.Verify(damaged) // no panic and no loop, whatever it finds
	})
}
