package kafkalog

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
)

// handleFiles makes n files, each with its name as content, and a cache of at most max descriptors over them.
func handleFiles(t testing.TB, n, max int) (*probeFS, *handleCache, []*handle) {
	t.Helper()
	fsys := &probeFS{FS: newPartsFS(t)}
	c := newHandleCache(fsys, max)
	handles := make([]*handle, n)
	for i := range handles {
		name := filePath(partsDir, int64(i), logSuffix)
		storeFile(t, fsys.FS, name, []byte(name))
		handles[i] = c.open(name, vfs.ReadWrite)
	}
	return fsys, c, handles
}

func mustAcquire(t testing.TB, h *handle) vfs.File {
	t.Helper()
	file, err := h.acquire()
	require.NoError(t, err)
	return file
}

// use acquires and releases.
func use(t testing.TB, handles ...*handle) {
	t.Helper()
	for _, h := range handles {
		mustAcquire(t, h)
		h.release()
	}
}

func contentOf(t testing.TB, file vfs.File) string {
	t.Helper()
	info, err := file.Stat()
	require.NoError(t, err)
	data := make([]byte, info.Size())
	_, err = file.ReadAt(data, 0)
	require.NoError(t, err)
	return string(data)
}

func TestAFileIsOpenedWhenItIsFirstNeededAndOnce(t *testing.T) {
	fsys, c, handles := handleFiles(t, 1, 4)
	require.Zero(t, fsys.opens.Load())
	use(t, handles[0], handles[0], handles[0])
	require.EqualValues(t, 1, fsys.opens.Load())
	require.Equal(t, 1, c.openFiles())

	a, b := mustAcquire(t, handles[0]), mustAcquire(t, handles[0])
	require.Same(t, a, b)
	require.Equal(t, handles[0].path(), contentOf(t, a))
	handles[0].release()
	handles[0].release()
}

func TestTheFileUsedLongestAgoIsClosedForAnother(t *testing.T) {
	fsys, c, handles := handleFiles(t, 4, 3)
	use(t, handles[0], handles[1], handles[2], handles[0])
	require.EqualValues(t, 3, fsys.opens.Load())
	use(t, handles[3])
	require.EqualValues(t, 3, fsys.open.Load())
	require.EqualValues(t, 4, fsys.opens.Load())
	use(t, handles[0], handles[2], handles[3])
	require.EqualValues(t, 4, fsys.opens.Load(), "handle 1 was the one closed")
	use(t, handles[1])
	require.EqualValues(t, 5, fsys.opens.Load())
	use(t, handles[2], handles[3], handles[1])
	require.EqualValues(t, 5, fsys.opens.Load(), "handle 0 was the one closed")
	require.Equal(t, 3, c.openFiles())
}

func TestFilesThatAreHeldStayOpenAndTheSurplusClosesOnRelease(t *testing.T) {
	fsys, c, handles := handleFiles(t, 5, 2)
	for _, h := range handles {
		require.Equal(t, h.path(), contentOf(t, mustAcquire(t, h)))
	}
	require.EqualValues(t, 5, fsys.open.Load(), "none of them may be taken from its reader")
	for _, h := range handles {
		h.release()
	}
	require.EqualValues(t, 2, fsys.open.Load())
	require.Equal(t, 2, c.openFiles())
	require.EqualValues(t, 5, fsys.opens.Load())
}

func TestAPinnedFileIsNeitherClosedNorCounted(t *testing.T) {
	fsys, c, handles := handleFiles(t, 6, 2)
	for _, h := range handles[:3] {
		_, err := h.pin()
		require.NoError(t, err)
	}
	use(t, handles...)
	require.EqualValues(t, 5, fsys.open.Load(), "three pinned, two others")
	opens := fsys.opens.Load()
	use(t, handles[:3]...)
	require.Equal(t, opens, fsys.opens.Load())

	_, err := handles[0].pin()
	require.NoError(t, err)
	handles[0].unpin()
	for _, h := range handles[:3] {
		h.unpin()
	}
	use(t, handles...)
	require.EqualValues(t, 2, fsys.open.Load())
	require.Equal(t, 2, c.openFiles())
}

func TestARenamedFileIsReopenedUnderItsNewName(t *testing.T) {
	fsys, _, handles := handleFiles(t, 3, 1)
	content := handles[0].path()
	held := mustAcquire(t, handles[0])
	require.NoError(t, handles[0].rename(content+deletedSuffix))
	require.Equal(t, content+deletedSuffix, handles[0].path())
	require.Equal(t, content, contentOf(t, held))
	handles[0].release()
	use(t, handles[1], handles[2])
	require.Equal(t, content, contentOf(t, mustAcquire(t, handles[0])))
	handles[0].release()
	_, err := fsys.Stat(content)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestAFailedRenameLeavesTheHandleAsItWas(t *testing.T) {
	fsys, _, handles := handleFiles(t, 1, 1)
	name := handles[0].path()
	fsys.failOnce("rename")
	require.ErrorIs(t, handles[0].rename("other"), errInjected)
	require.Equal(t, name, handles[0].path())
	use(t, handles[0])
}

func TestARemovedFileStaysReadableUntilItsLastReaderReleases(t *testing.T) {
	fsys, c, handles := handleFiles(t, 1, 4)
	content := handles[0].path()
	first, second := mustAcquire(t, handles[0]), mustAcquire(t, handles[0])
	require.NoError(t, handles[0].remove())
	_, err := fsys.Stat(content)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = handles[0].acquire()
	require.ErrorIs(t, err, ErrClosed)

	handles[0].release()
	require.Equal(t, content, contentOf(t, second))
	require.Same(t, first, second)
	handles[0].release()
	require.Zero(t, fsys.open.Load())
	require.Zero(t, c.openFiles())
	require.NoError(t, handles[0].remove(), "a second time")
	require.NoError(t, handles[0].close(), "or closed after it")
}

func TestAFileThatIsGoneCanBeRemovedAndAFailedRemoveCanBeRepeated(t *testing.T) {
	fsys, _, handles := handleFiles(t, 2, 4)
	require.NoError(t, fsys.Remove(handles[0].path()))
	require.NoError(t, handles[0].remove())

	fsys.failOnce("remove")
	require.ErrorIs(t, handles[1].remove(), errInjected)
	use(t, handles[1])
	require.NoError(t, handles[1].remove())
}

func TestAClosedHandleLeavesItsFile(t *testing.T) {
	fsys, c, handles := handleFiles(t, 1, 4)
	use(t, handles[0])
	require.NoError(t, handles[0].close())
	require.Zero(t, fsys.open.Load())
	require.Zero(t, c.openFiles())
	_, err := handles[0].acquire()
	require.ErrorIs(t, err, ErrClosed)
	_, err = fsys.Stat(handles[0].path())
	require.NoError(t, err)
}

func TestAClosedCacheOpensNothingAndClosesWhatIsReleased(t *testing.T) {
	fsys, c, handles := handleFiles(t, 3, 4)
	use(t, handles[0], handles[1])
	held := mustAcquire(t, handles[1])
	c.close()
	require.EqualValues(t, 1, fsys.open.Load())
	require.Equal(t, handles[1].path(), contentOf(t, held))
	for _, h := range handles {
		_, err := h.acquire()
		require.ErrorIs(t, err, ErrClosed)
	}
	handles[1].release()
	require.Zero(t, fsys.open.Load())
	require.Zero(t, c.openFiles())
}

func TestCreateMakesTheFileOnceAndReopensItWithItsContent(t *testing.T) {
	fsys, c, handles := handleFiles(t, 2, 1)
	h, err := c.create(partsDir+"/new", vfs.CreateNew)
	require.NoError(t, err)
	_, err = mustAcquire(t, h).WriteAt([]byte("content"), 0)
	require.NoError(t, err)
	h.release()
	use(t, handles...)
	require.Equal(t, "content", contentOf(t, mustAcquire(t, h)))
	h.release()
	require.EqualValues(t, 1, fsys.open.Load())

	_, err = c.create(partsDir+"/new", vfs.CreateNew)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorIs(t, err, ErrStorage)
	require.Zero(t, c.openFiles(), "a failed open takes no room, and what was closed for it stays closed")
}

func TestWhenDescriptorsRunOutIdleFilesAreClosedAndTheOpenIsTriedAgain(t *testing.T) {
	for _, exhausted := range []error{syscall.EMFILE, syscall.ENFILE} {
		fsys, c, handles := handleFiles(t, 20, 100)
		use(t, handles[:15]...)
		const limit = 15
		fsys.failWith(func(op, name string) error {
			if op == "open" && fsys.open.Load() >= limit {
				return &fs.PathError{Op: "open", Path: name, Err: exhausted}
			}
			return nil
		})
		use(t, handles[15:]...)
		require.LessOrEqual(t, fsys.open.Load(), int64(limit))

		for _, h := range handles[:15] {
			mustAcquire(t, h)
		}
		_, err := handles[16].acquire()
		require.ErrorIs(t, err, exhausted, "every descriptor is held")
		require.Equal(t, 15, c.openFiles())
		handles[3].release()
		use(t, handles[16])
	}
}

func TestFilesBesideTheCacheFindRoomWhenDescriptorsRunOut(t *testing.T) {
	fsys, c, handles := handleFiles(t, 5, 100)
	use(t, handles...)
	fsys.failWith(func(op, _ string) error {
		if op == "open" && fsys.open.Load() >= 5 {
			return syscall.EMFILE
		}
		return nil
	})
	require.NoError(t, replaceFile(c.fileSystem(), partsDir+"/x", []byte("content")))
	require.Equal(t, "content", string(storedFile(t, c.fileSystem(), partsDir+"/x")))
	use(t, handles...)
}

func TestAFileThatCannotBeOpenedIsAnErrorOfThatCallAlone(t *testing.T) {
	fsys, c, handles := handleFiles(t, 1, 1)
	fsys.failOnce("open")
	_, err := handles[0].acquire()
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, &IOError{Op: "open", Path: handles[0].path(), Err: errInjected}, err)
	require.Zero(t, c.openFiles())
	use(t, handles[0])
}

func TestF10_ADescriptorThatCannotBeClosedMayHaveLostWrites(t *testing.T) {
	fsys, c, handles := handleFiles(t, 2, 1)
	readOnly := c.open(handles[1].path(), vfs.ReadOnly)
	use(t, handles[0])
	fsys.failOnce("close")
	use(t, readOnly)
	_, err := handles[0].acquire()
	require.ErrorIs(t, err, errInjected)
	require.ErrorIs(t, handles[0].close(), errInjected)

	fsys.failOnce("close")
	use(t, handles[1], readOnly)
}

func TestReleasingTooOftenPanics(t *testing.T) {
	_, _, handles := handleFiles(t, 1, 1)
	use(t, handles[0])
	require.Panics(t, handles[0].release)
}

func TestAcquiringAnOpenFileDoesNotAllocate(t *testing.T) {
	_, _, handles := handleFiles(t, 2, 2)
	use(t, handles...)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		use(t, handles...)
	}))
}

// TestManyReadersShareFewDescriptors opens, reads, renames, removes and closes from many goroutines over a cache that
// has room for a few files only.
func TestManyReadersShareFewDescriptors(t *testing.T) {
	const files, most, workers = 40, 6, 8
	fsys, c, handles := handleFiles(t, files, most)
	var contents [files]string
	for i, h := range handles {
		contents[i] = h.path()
	}
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for step := range 2000 {
				i := random.IntN(files)
				if err := stressHandle(handles[i], contents[i], random, step); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for step := range 10 {
		victim := handles[step*3]
		require.NoError(t, victim.rename(victim.path()+deletedSuffix))
		if step%2 == 0 {
			require.NoError(t, victim.remove())
		} else {
			require.NoError(t, victim.close())
		}
	}
	group.Wait()
	require.LessOrEqual(t, fsys.maxOpen.Load(), int64(most+2*workers), "one more for each file that somebody holds")
	require.LessOrEqual(t, fsys.open.Load(), int64(most))
	require.EqualValues(t, c.openFiles(), fsys.open.Load())
	c.close()
	require.Zero(t, fsys.open.Load())
	require.Zero(t, c.openFiles())
}

func stressHandle(h *handle, content string, random *rand.Rand, step int) error {
	acquire, release := h.acquire, h.release
	if step%7 == 0 {
		acquire, release = h.pin, h.unpin
	}
	file, err := acquire()
	if err == ErrClosed {
		return nil // the test removed it
	}
	if err != nil {
		return err
	}
	defer release()
	from := random.IntN(len(content))
	buf := make([]byte, len(content)-from)
	if _, err := file.ReadAt(buf, int64(from)); err != nil || string(buf) != content[from:] {
		return fmt.Errorf("read %q from %q: %w", buf, content, err)
	}
	return nil
}
