package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

// fullEnv makes a child process run out of room: where the file is to become longer, or within a file that is long enough.
const (
	fullEnv       = "TIDEMARK_META_TEST_FULL"
	fullNoReserve = "no reserve"
	fullReserve   = "reserve"
)

// roomBytes is how far into its file the child may write.
const roomBytes = 200 << 10

func mayWrite(bytes uint64) error {
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: 1 << 40})
}

// fillUp writes ever more until there is no room, a few times more, and once more when there is room again.
func fillUp(l *meta.Log) int {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	put := func(n int) error {
		_, err := l.Do(ctx, meta.PutKv{Key: fmt.Sprint("key-", n), Value: make([]byte, 5000)})
		return err
	}
	err := mayWrite(roomBytes)
	n, refused := 0, 0
	for ; err == nil && refused < 5; n++ {
		switch full := put(n); {
		case full == nil:
			fmt.Println("acknowledged", n)
		case errors.Is(full, meta.ErrNoSpace):
			refused++
		default:
			err = full
		}
	}
	err = errors.Join(err, mayWrite(1<<30), put(n), l.Err())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("acknowledged", n)
	return 0
}

func TestWhereThereIsNoRoomTheCommandFailsAndTheLogGoesOn(t *testing.T) {
	for _, kind := range []string{fullNoReserve, fullReserve} {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "meta.db")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+path, fullEnv+"="+kind)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err, stderr.String())
			var want []string
			for line := range strings.Lines(string(out)) {
				want = append(want, "key-"+strings.TrimSpace(strings.TrimPrefix(line, "acknowledged ")))
			}
			require.Greater(t, len(want), 5)

			require.NoError(t, embedded.Verify(path))
			b, err := embedded.Open(path, embedded.Options{MustExist: true})
			require.NoError(t, err)
			defer b.Close()
			l, err := meta.Open(t.Context(), b, meta.Options{})
			require.NoError(t, err)
			defer l.Close()
			var got []string
			for key := range l.View().List("key-") {
				got = append(got, key)
			}
			require.ElementsMatch(t, want, got, "what was acknowledged, and nothing that was refused")
			_, err = l.Do(t.Context(), meta.PutKv{Key: "another", Value: nil})
			require.NoError(t, err)
		})
	}
}

// blocks returns how many bytes of the disk a file has.
func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var s syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &s))
	return s.Blocks * 512
}

func TestTheFileHoldsRoomOnTheDiskForEntriesToCome(t *testing.T) {
	const reserve = 1 << 20
	path := filepath.Join(t.TempDir(), "meta.db")
	o := embedded.Options{ClusterID: "c", Reserve: reserve}
	b, err := embedded.Open(path, o)
	require.NoError(t, err)
	require.Greater(t, blocks(t, path), int64(reserve), "from the beginning")

	l, err := meta.Open(t.Context(), b, meta.Options{})
	require.NoError(t, err)
	value := make([]byte, 100_000)
	for i := range 60 {
		_, err := l.Do(t.Context(), meta.PutKv{Key: fmt.Sprint(i), Value: value})
		require.NoError(t, err)
		require.Greater(t, blocks(t, path), int64((i+1)*len(value)+reserve/2), "after %d entries", i+1)
	}
	require.NoError(t, l.Close())
	require.NoError(t, b.Close())
	require.NoError(t, os.Truncate(path, blocks(t, path)-reserve/2))
	b, err = embedded.Open(path, o)
	require.NoError(t, err)
	require.Greater(t, blocks(t, path), int64(60*len(value)+reserve/2), "a reserve that was used up is there again")
	require.NoError(t, b.Close())
}

func TestAFileThatWasRemovedOrReplacedIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	b, err := embedded.Open(path, embedded.Options{ClusterID: "c"})
	require.NoError(t, err)
	defer b.Close()
	require.NoError(t, b.CheckFile())
	require.NoError(t, os.Rename(path, path+".old"))
	require.ErrorContains(t, b.CheckFile(), path+" was removed while it was in use")
	copyFile(t, path+".old", path)
	require.ErrorContains(t, b.CheckFile(), path+" was replaced while it was in use")
}

func TestWhatIsNoMetadataLogIsRefusedWithWhatToDo(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"empty":       func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"garbage":     func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("what "), 10_000), 0o600) },
		"short":       func(path string) error { return os.WriteFile(path, []byte("what"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "meta.db")
			require.NoError(t, spoil(path))
			for _, mustExist := range []bool{true, false} {
				_, err := embedded.Open(path, embedded.Options{ClusterID: "c", MustExist: mustExist})
				require.ErrorContains(t, err, path)
				require.ErrorContains(t, err, "restore it from a copy, or start with an empty data directory")
			}
		})
	}
}
