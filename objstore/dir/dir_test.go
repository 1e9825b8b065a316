package dir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDirectoryOnDiskPassesTheSuite(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Opener { return opener(vfs.OS(), t.TempDir()) })
}

func TestDirectoryInMemoryPassesTheSuite(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Opener { return opener(memfs.New(), "store") })
}

func opener(fsys vfs.FS, root string) objstoretest.Opener {
	return func(t *testing.T) objstore.Store { return open(t, fsys, root) }
}

func open(t *testing.T, fsys vfs.FS, root string) *dir.Store {
	t.Helper()
	s, err := dir.Open(fsys, root)
	require.NoError(t, err)
	return s
}

// files lists every file below a directory.
func files(t *testing.T, fsys vfs.FS, root string) []string {
	t.Helper()
	names := []string{}
	var walk func(name string)
	walk = func(name string) {
		entries, err := fsys.List(path.Join(root, name))
		require.NoError(t, err)
		for _, e := range entries {
			full := path.Join(name, e.Name())
			if e.IsDir() {
				walk(full)
				names = append(names, full+"/")
				continue
			}
			names = append(names, full)
		}
	}
	walk("")
	slices.Sort(names)
	return names
}

func TestAnObjectIsAPlainFileAtItsKey(t *testing.T) {
	root := t.TempDir()
	s := open(t, vfs.OS(), root)
	require.NoError(t, s.Put(t.Context(), "wal/12/0", []byte("tide")))
	data, err := os.ReadFile(path.Join(root, "wal/12/0"))
	require.NoError(t, err)
	require.Equal(t, "tide", string(data))
	require.Equal(t, []string{
		".puts/", ".puts/0.lock", ".puts/0/", "wal/", "wal/12/", "wal/12/.durable", "wal/12/0",
	}, files(t, vfs.OS(), root))
	require.NoError(t, s.Delete(t.Context(), "wal/12/0"))
	require.Equal(t, []string{".puts/", ".puts/0.lock", ".puts/0/"}, files(t, vfs.OS(), root))
	require.NoError(t, s.Close())
	require.Equal(t, []string{".puts/", ".puts/0.lock"}, files(t, vfs.OS(), root))
}

func TestAKeyCannotBeTheFrontOfAnother(t *testing.T) {
	s := open(t, vfs.OS(), t.TempDir())
	defer s.Close()
	require.NoError(t, s.Put(t.Context(), "a/b", nil))
	for _, key := range []string{"a", "a/b/c", "a/b/c/d"} {
		require.ErrorIs(t, s.Put(t.Context(), key, nil), objstore.ErrInvalid, key)
		require.ErrorIs(t, s.PutIfAbsent(t.Context(), key, nil), objstore.ErrInvalid, key)
		_, err := s.Get(t.Context(), key)
		require.ErrorIs(t, err, objstore.ErrNotFound, key)
		require.NoError(t, s.Delete(t.Context(), key))
	}
}

func TestEachProcessHasASlotAndSweepsThoseOfTheDead(t *testing.T) {
	fsys := memfs.New()
	first, second := open(t, fsys, "d"), open(t, fsys, "d")
	_, err := first.Create(t.Context(), "of-the-first")
	require.NoError(t, err)
	up, err := second.Create(t.Context(), "of-the-second")
	require.NoError(t, err)
	_, err = up.Write([]byte("bytes"))
	require.NoError(t, err)
	require.Contains(t, files(t, fsys, "d"), ".puts/0/1")

	dead := fsys.Crash(memfs.CrashOptions{KeepUnsynced: 1}) // both processes are gone there, their files are not
	require.Contains(t, files(t, dead, "d"), ".puts/1/1")
	s := open(t, dead, "d")
	require.Equal(t, []string{".puts/", ".puts/0.lock", ".puts/0/", ".puts/1.lock"}, files(t, dead, "d"))
	require.NoError(t, s.Close())

	third := open(t, fsys, "d") // both are alive here
	require.NoError(t, third.Close())
	require.NoError(t, up.Finish())
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
}

// scenario is a history of calls on a store. Each step's promise is checked in whatever a crash leaves.
type scenario struct {
	*testing.T
	store objstore.Store
	// may holds, for each key, the contents that a reader may see: "-" stands for no object.
	may map[string][]string
}

const none = "-"

// done notes how a call that sets a key ended: after nil it is what it must be, otherwise the outcome is unknown.
func (s *scenario) done(key, content string, err error) {
	if err == nil {
		s.may[key] = []string{content}
		return
	}
	s.may[key] = append(s.states(key), content)
}

func (s *scenario) states(key string) []string {
	if s.may[key] == nil {
		return []string{none}
	}
	return s.may[key]
}

func (s *scenario) put(key, content string) {
	s.done(key, content, s.store.Put(s.Context(), key, []byte(content)))
}

func (s *scenario) putIfAbsent(key, content string) {
	err := s.store.PutIfAbsent(s.Context(), key, []byte(content))
	if errors.Is(err, objstore.ErrExists) {
		// What is there is durable by now, whoever put it.
		s.may[key] = slices.DeleteFunc(s.states(key), func(state string) bool { return state == none })
		require.NotEmpty(s, s.may[key])
		return
	}
	s.done(key, content, err)
}

func (s *scenario) upload(key, content string) {
	up, err := s.store.Create(s.Context(), key)
	if err != nil {
		return
	}
	defer up.Abort()
	for _, half := range []string{content[:len(content)/2], content[len(content)/2:]} {
		if _, err := up.Write([]byte(half)); err != nil {
			return // nothing is published
		}
	}
	s.done(key, content, up.Finish())
}

func (s *scenario) delete(keys ...string) {
	err := s.store.Delete(s.Context(), keys...)
	var failed *objstore.DeleteError
	errors.As(err, &failed)
	for _, key := range keys {
		var keyErr error
		if failed != nil {
			for _, f := range failed.Failed {
				if f.Key == key {
					keyErr = f
				}
			}
		}
		s.done(key, none, keyErr)
	}
}

// run is the history: every kind of call, fresh and known directories, directories that are emptied and made again.
func (s *scenario) run() {
	s.put("a/b/one", "1")
	s.put("a/b/one", "1 replaced")
	s.putIfAbsent("wal/12/0", "first")
	s.putIfAbsent("wal/12/0", "retried")
	s.putIfAbsent("wal/12/67108864", "second")
	s.upload("d4000000/DEFAULT/77", "an object in two parts")
	s.delete("a/b/one", "wal/12/0")
	s.put("a/b/one", "1 again")
	s.delete("d4000000/DEFAULT/77")
	s.put("top", "t")
}

// check opens what a crash left and holds it against what was promised.
func (s *scenario) check(left vfs.FS) {
	s.Helper()
	store := open(s.T, left, "store")
	listed := []string{}
	page, err := store.List(s.Context(), objstore.ListRequest{})
	require.NoError(s, err)
	for _, o := range page.Objects {
		listed = append(listed, o.Key)
		require.Contains(s, s.may, o.Key)
	}
	for key := range s.may {
		data, err := store.Get(s.Context(), key)
		state := string(data)
		if errors.Is(err, objstore.ErrNotFound) {
			state = none
		} else {
			require.NoError(s, err)
		}
		require.Contains(s, s.states(key), state, "key %s", key)
		require.Equal(s, state != none, slices.Contains(listed, key), key)
	}
	for _, name := range files(s.T, left, "store") {
		require.False(s, strings.HasPrefix(name, ".puts/") && strings.Count(name, "/") > 2, "remains of a put: %s", name)
	}
	require.NoError(s, store.Put(s.Context(), "a/b/after", []byte("x")), "the store goes on")
	require.NoError(s, store.Close())
}

func TestPowerCutAtEveryCall(t *testing.T) {
	for n := 0; ; n++ {
		var killed bool
		disk := memfs.New()
		store := open(t, disk, "store")
		faulty := faultfs.New(disk, nil)
		store.Close()
		store = open(t, faulty, "store")
		calls := 0
		faulty.SetInjector(func(faultfs.Op) faultfs.Fault {
			if calls++; calls == n+1 {
				disk.Kill()
				killed = true
			}
			return faultfs.Fault{}
		})
		s := &scenario{T: t, store: store, may: map[string][]string{}}
		s.run()
		for seed := range uint64(4) {
			s.check(disk.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: []float64{0, 0.5, 1, 0.3}[seed], Torn: true}))
		}
		if !killed {
			return
		}
	}
}

func TestFailureOfEveryCall(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			disk := memfs.New()
			faulty := faultfs.New(disk, nil)
			store := open(t, faulty, "store")
			failed := false
			calls := 0
			faulty.SetInjector(func(faultfs.Op) faultfs.Fault {
				if calls++; calls == n+1 {
					failed = true
					return faultfs.Fault{Err: syscall.EIO, After: after}
				}
				return faultfs.Fault{}
			})
			s := &scenario{T: t, store: store, may: map[string][]string{}}
			s.run()
			for seed := range uint64(3) {
				s.check(disk.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: []float64{0, 0.5, 1}[seed]}))
			}
			if !failed {
				break
			}
		}
	}
}

func TestF10_AFailedDirectorySyncIsFinal(t *testing.T) {
	faulty := faultfs.New(memfs.New(), nil)
	s := open(t, faulty, "d")
	defer s.Close()
	require.NoError(t, s.Put(t.Context(), "k", []byte("x")))
	faulty.SetInjector(faultfs.When(faultfs.Matching(faultfs.OpSyncDir, "*"), faultfs.FailNth(0, syscall.EIO)))
	for range 3 {
		err := s.PutIfAbsent(t.Context(), "fresh", []byte("y"))
		require.ErrorContains(t, err, "directory sync failed")
		require.ErrorIs(t, err, syscall.EIO)
		require.NotErrorIs(t, err, objstore.ErrExists)
		require.False(t, objstore.Retriable(err))
	}
	require.Error(t, s.Delete(t.Context(), "k"))
	data, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
}

func TestErrorsOfTheFileSystemHaveTheirClass(t *testing.T) {
	for _, c := range []struct{ err, class error }{
		{syscall.ENOSPC, objstore.ErrTransient},
		{syscall.EIO, objstore.ErrTransient},
		{syscall.EMFILE, objstore.ErrTransient},
		{syscall.EACCES, objstore.ErrDenied},
	} {
		faulty := faultfs.New(memfs.New(), nil)
		s := open(t, faulty, "d")
		faulty.SetInjector(faultfs.When(faultfs.Matching(faultfs.OpWriteAt, "*"), faultfs.Always(faultfs.Fault{Err: c.err})))
		err := s.Put(t.Context(), "k", []byte("x"))
		require.ErrorIs(t, err, c.class)
		require.ErrorIs(t, err, c.err)
		up, err := s.Create(t.Context(), "k")
		require.NoError(t, err)
		_, err = up.Write([]byte("x"))
		require.ErrorIs(t, err, c.class)
		faulty.SetInjector(nil)
		require.ErrorIs(t, up.Finish(), c.class, "an object without its first bytes is not published")
		_, err = s.Head(t.Context(), "k")
		require.ErrorIs(t, err, objstore.ErrNotFound)
		require.NoError(t, s.Put(t.Context(), "k", []byte("x")), "the next try may succeed")
		require.NoError(t, s.Close())
	}
}

// TestPutsSurviveWhileDirectoriesComeAndGo races puts with deletes that empty their directory, cuts the power at a random
// moment, and looks for what was promised.
func TestPutsSurviveWhileDirectoriesComeAndGo(t *testing.T) {
	for seed := range uint64(20) {
		disk := memfs.New()
		var mu sync.Mutex
		kept := []string{}
		var all sync.WaitGroup
		stores := []*dir.Store{open(t, disk, "d"), open(t, disk, "d"), open(t, disk, "d")}
		for worker, s := range stores {
			all.Go(func() {
				for i := range 12 {
					gone, key := fmt.Sprintf("x/y/%d-%d", worker, i), fmt.Sprintf("x/y/kept-%d-%d", worker, i)
					if s.Put(t.Context(), gone, nil) != nil || s.Delete(t.Context(), gone) != nil {
						return
					}
					if i == int(seed)%12 && s.PutIfAbsent(t.Context(), key, []byte(key)) == nil {
						mu.Lock()
						kept = append(kept, key)
						mu.Unlock()
						if worker == int(seed)%3 {
							disk.Kill()
						}
					}
				}
			})
		}
		all.Wait()
		s := open(t, disk.Crash(memfs.CrashOptions{Seed: seed, KeepUnsynced: 0.5}), "d")
		for _, key := range kept {
			data, err := s.Get(t.Context(), key)
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, key, string(data))
		}
		require.NoError(t, s.Close())
	}
}

func Example() {
	s, err := dir.Open(memfs.New(), "/var/lib/tidemark/objects")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	ctx := context.Background()
	if err := s.Put(ctx, "d4000000/DEFAULT/77", []byte("tide")); err != nil {
		fmt.Println(err)
	}
	page, err := s.List(ctx, objstore.ListRequest{Prefix: "d4"})
	if err != nil {
		fmt.Println(err)
	}
	for _, o := range page.Objects {
		fmt.Println(o.Key, o.Size)
	}
	// Output: d4000000/DEFAULT/77 4
}
