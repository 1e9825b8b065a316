package faultfs_test

import (
	"errors"
	"io"
	"io/fs"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
	"github.com/tidemark-io/tidemark/vfs/vfstest"
)

var errDisk = errors.New("the disk is on fire")

func TestAFileSystemWithoutFaultsPassesTheSuite(t *testing.T) {
	t.Run("over memfs", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
			m := memfs.New()
			require.NoError(t, m.MkdirAll("d"))
			return faultfs.New(m, nil), "d"
		})
	})
	t.Run("over OS", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
			f := faultfs.New(vfs.OS(), nil)
			f.Trace(nil)
			return f, t.TempDir()
		})
	})
}

func TestEveryKindIsAReadOrAWriteAndHasAName(t *testing.T) {
	writes, names := 0, map[string]bool{}
	for _, k := range faultfs.Kinds() {
		if k.IsWrite() {
			writes++
		}
		require.NotContains(t, k.String(), "kind")
		names[k.String()] = true
	}
	require.Len(t, names, len(faultfs.Kinds()), "each kind its own name")
	require.Equal(t, 15, writes)
	unknown := faultfs.Kind(len(faultfs.Kinds()))
	require.Panics(t, func() { unknown.IsWrite() })
	require.Contains(t, unknown.String(), "kind")
}

// everyMethod calls each method of the interface with made-up arguments and returns the errors by the method's name.
func everyMethod(iface reflect.Type, target any) map[string]error {
	args := map[reflect.Type]reflect.Value{
		reflect.TypeFor[string]():          reflect.ValueOf("f"),
		reflect.TypeFor[vfs.Mode]():        reflect.ValueOf(vfs.ReadOnly),
		reflect.TypeFor[time.Time]():       reflect.ValueOf(time.UnixMilli(1)),
		reflect.TypeFor[[]byte]():          reflect.ValueOf([]byte("x")),
		reflect.TypeFor[[][]byte]():        reflect.ValueOf([][]byte{[]byte("x")}),
		reflect.TypeFor[int64]():           reflect.ValueOf(int64(1)),
		reflect.TypeFor[syscall.RawConn](): reflect.Zero(reflect.TypeFor[syscall.RawConn]()),
	}
	results := map[string]error{}
	for i := range iface.NumMethod() {
		m := iface.Method(i)
		var in []reflect.Value
		for j := range m.Type.NumIn() {
			in = append(in, args[m.Type.In(j)])
		}
		out := reflect.ValueOf(target).MethodByName(m.Name).Call(in)
		err, _ := out[len(out)-1].Interface().(error)
		results[m.Name] = err
	}
	return results
}

func TestEveryCallOfEveryInterfaceGoesThroughTheInjector(t *testing.T) {
	dir := t.TempDir()
	f := faultfs.New(vfs.OS(), nil)
	opened, err := f.Open(dir+"/f", vfs.Create)
	require.NoError(t, err)
	held, err := f.Lock(dir + "/.lock")
	require.NoError(t, err)
	volume, volumeErr := f.OpenVolume(dir)

	seen := map[faultfs.Kind]bool{}
	f.SetInjector(func(op faultfs.Op) faultfs.Fault {
		seen[op.Kind] = true
		return faultfs.Fault{Err: errDisk}
	})
	check := func(iface reflect.Type, target any) {
		for method, err := range everyMethod(iface, target) {
			require.ErrorIs(t, err, errDisk, "%s.%s", iface.Name(), method)
		}
	}
	check(reflect.TypeFor[vfs.FS](), f)
	check(reflect.TypeFor[vfs.SpaceReporter](), f)
	if volumeErr == nil {
		check(reflect.TypeFor[vfs.VolumeOpener](), f)
		check(reflect.TypeFor[vfs.Volume](), volume)
	}
	if _, ok := opened.(vfs.Preallocator); ok { // the OS has these on Linux only
		check(reflect.TypeFor[vfs.Preallocator](), opened)
		check(reflect.TypeFor[vfs.VectorWriter](), opened)
		check(reflect.TypeFor[vfs.SocketSender](), opened)
		check(reflect.TypeFor[vfs.WriteBacker](), opened)
	}
	check(reflect.TypeFor[vfs.File](), opened)
	check(reflect.TypeFor[io.Closer](), held)
	_, err = f.Open(dir+"/new", vfs.Create)
	require.ErrorIs(t, err, errDisk)

	entries, err := vfs.OS().List(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing reached the disk")
	if _, ok := opened.(vfs.Preallocator); ok && volumeErr == nil {
		require.Len(t, seen, len(faultfs.Kinds()), "every kind was seen")
	}
}

func TestAFileHasTheOptionalInterfacesOfItsBaseAndNoOther(t *testing.T) {
	for have := range 16 {
		base := &fakeFS{FS: memfs.New(), have: have}
		f, err := faultfs.New(base, nil).Open("f", vfs.Create)
		require.NoError(t, err)
		_, p := f.(vfs.Preallocator)
		_, v := f.(vfs.VectorWriter)
		_, s := f.(vfs.SocketSender)
		_, w := f.(vfs.WriteBacker)
		require.Equal(t, [4]bool{have&1 != 0, have&2 != 0, have&4 != 0, have&8 != 0}, [4]bool{p, v, s, w})
		_, err = f.WriteAt([]byte("x"), 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
}

// fakeFS has files with chosen optional interfaces.
type fakeFS struct {
	vfs.FS
	have int
}

type (
	fakePre    struct{}
	fakeVector struct{}
	fakeSender struct{}
	fakeBacker struct{}
)

func (fakePre) Preallocate(off, n int64) error                              { return nil }
func (fakeVector) WriteVectorAt(bufs [][]byte, off int64) (int64, error)    { return 0, nil }
func (fakeSender) SendTo(conn syscall.RawConn, off, n int64) (int64, error) { return 0, nil }
func (fakeBacker) WriteBack(off, n int64) error                             { return nil }
func (f *fakeFS) Space(name string) (free, total int64, err error)          { return 1, 2, nil }
func (f *fakeFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	file, err := f.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	plain := struct{ vfs.File }{file}
	all := []vfs.File{
		plain,
		struct {
			vfs.File
			fakePre
		}{plain, fakePre{}},
		struct {
			vfs.File
			fakeVector
		}{plain, fakeVector{}},
		struct {
			vfs.File
			fakePre
			fakeVector
		}{plain, fakePre{}, fakeVector{}},
		struct {
			vfs.File
			fakeSender
		}{plain, fakeSender{}},
		struct {
			vfs.File
			fakePre
			fakeSender
		}{plain, fakePre{}, fakeSender{}},
		struct {
			vfs.File
			fakeVector
			fakeSender
		}{plain, fakeVector{}, fakeSender{}},
		struct {
			vfs.File
			fakePre
			fakeVector
			fakeSender
		}{plain, fakePre{}, fakeVector{}, fakeSender{}},
		struct {
			vfs.File
			fakeBacker
		}{plain, fakeBacker{}},
		struct {
			vfs.File
			fakePre
			fakeBacker
		}{plain, fakePre{}, fakeBacker{}},
		struct {
			vfs.File
			fakeVector
			fakeBacker
		}{plain, fakeVector{}, fakeBacker{}},
		struct {
			vfs.File
			fakePre
			fakeVector
			fakeBacker
		}{plain, fakePre{}, fakeVector{}, fakeBacker{}},
		struct {
			vfs.File
			fakeSender
			fakeBacker
		}{plain, fakeSender{}, fakeBacker{}},
		struct {
			vfs.File
			fakePre
			fakeSender
			fakeBacker
		}{plain, fakePre{}, fakeSender{}, fakeBacker{}},
		struct {
			vfs.File
			fakeVector
			fakeSender
			fakeBacker
		}{plain, fakeVector{}, fakeSender{}, fakeBacker{}},
		struct {
			vfs.File
			fakePre
			fakeVector
			fakeSender
			fakeBacker
		}{plain, fakePre{}, fakeVector{}, fakeSender{}, fakeBacker{}},
	}
	return all[f.have], nil
}

func TestSpaceIsThatOfTheBase(t *testing.T) {
	free, total, err := faultfs.New(&fakeFS{FS: memfs.New()}, nil).Space("f")
	require.NoError(t, err)
	require.Equal(t, [2]int64{1, 2}, [2]int64{free, total})
	_, _, err = faultfs.New(memfs.New(), nil).Space("f")
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func open(t *testing.T, fsys vfs.FS, name string, mode vfs.Mode) vfs.File {
	t.Helper()
	f, err := fsys.Open(name, mode)
	require.NoError(t, err)
	return f
}

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(data)
}

func TestAFaultFailsTheCallBeforeItHappensAndSaysWhere(t *testing.T) {
	m := memfs.New()
	f := faultfs.New(m, faultfs.When(faultfs.Writes, faultfs.FailNth(2, errDisk)))
	file := open(t, f, "f", vfs.Create)
	_, err := file.WriteAt([]byte("one"), 0)
	require.NoError(t, err)
	n, err := file.WriteAt([]byte("two"), 3)
	require.Zero(t, n)
	require.Equal(t, &fs.PathError{Op: "write", Path: "f", Err: errDisk}, err)
	_, err = file.WriteAt([]byte("2"), 3)
	require.NoError(t, err, "only the one call")
	require.Equal(t, "one2", content(t, m, "f"))

	f.SetInjector(faultfs.FailFrom(0, errDisk))
	for range 3 {
		err = f.Rename("f", "g")
		require.EqualError(t, err, "rename f g: the disk is on fire")
	}
	require.Equal(t, "one2", content(t, m, "f"))
}

func TestAShortWriteLeavesItsFront(t *testing.T) {
	m := memfs.New()
	f := faultfs.New(m, faultfs.When(faultfs.Matching(faultfs.OpWriteAt, "f"), faultfs.Always(faultfs.Fault{Err: errDisk, Short: 2})))
	file := open(t, f, "f", vfs.Create)
	n, err := file.WriteAt([]byte("abcdef"), 0)
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, 2, n)
	require.Equal(t, "ab", content(t, m, "f"))

	f.SetInjector(faultfs.Always(faultfs.Fault{Err: errDisk, Short: 4}))
	bufs := [][]byte{[]byte("uv"), {}, []byte("wxyz")}
	n64, err := file.(vfs.VectorWriter).WriteVectorAt(bufs, 1)
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, int64(4), n64)
	require.Equal(t, "auvwx", content(t, m, "f"))
	require.Equal(t, [][]byte{[]byte("uv"), {}, []byte("wxyz")}, bufs)

	buf := make([]byte, 5)
	n, err = file.ReadAt(buf, 0)
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, "auvw", string(buf[:n]))
}

func TestAFaultAfterTheCallLosesTheAnswerOnly(t *testing.T) {
	m := memfs.New()
	f := faultfs.New(m, faultfs.Always(faultfs.Fault{Err: errDisk, After: true}))
	_, err := f.Open("f", vfs.Create)
	require.ErrorIs(t, err, errDisk)
	_, err = m.Stat("f")
	require.NoError(t, err, "it was made")
	require.ErrorIs(t, f.Rename("f", "g"), errDisk)
	_, err = f.Lock("g")
	require.ErrorIs(t, err, errDisk)
	held, err := m.Lock("g")
	require.NoError(t, err, "a lock that nobody was given is not held")
	require.NoError(t, held.Close())

	f.SetInjector(nil)
	file := open(t, f, "g", vfs.ReadWrite)
	f.SetInjector(faultfs.Always(faultfs.Fault{Err: errDisk, After: true}))
	n, err := file.WriteAt([]byte("all"), 0)
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, 3, n)
	require.Equal(t, "all", content(t, m, "g"))
}

func TestAHookRunsBeforeTheCallAndMayUseTheFileSystem(t *testing.T) {
	m := memfs.New()
	var f *faultfs.FS
	f = faultfs.New(m, func(op faultfs.Op) faultfs.Fault {
		if op.Kind != faultfs.OpSync {
			return faultfs.Fault{}
		}
		return faultfs.Fault{Hook: func() { require.NoError(t, f.MkdirAll("made/by/hook")) }}
	})
	file := open(t, f, "f", vfs.Create)
	require.NoError(t, file.Sync())
	_, err := m.Stat("made/by/hook")
	require.NoError(t, err)

	release, began := make(chan struct{}), make(chan struct{})
	f.SetInjector(faultfs.Always(faultfs.Fault{Hook: func() { close(began); <-release }}))
	done := make(chan error)
	go func() { done <- file.Sync() }()
	<-began
	f.SetInjector(nil)
	_, err = file.WriteAt([]byte("x"), 0)
	require.NoError(t, err, "others go on while one call waits")
	close(release)
	require.NoError(t, <-done)
}

func TestInjectorsCompose(t *testing.T) {
	other := errors.New("another")
	f := faultfs.New(memfs.New(), faultfs.First(
		faultfs.FailMatching(faultfs.OpRename, "*.tmp", errDisk),
		faultfs.FailMatching(faultfs.OpRemove, "d/*.log", other),
		faultfs.FailMatching(faultfs.OpRename, "*", other),
	))
	require.ErrorIs(t, f.Rename("d/x.tmp", "d/x"), errDisk)
	require.ErrorIs(t, f.Rename("d/x", "d/x.tmp"), errDisk, "either name")
	require.ErrorIs(t, f.Rename("d/x", "d/y"), other)
	require.ErrorIs(t, f.Remove("d/1.log"), other)
	require.ErrorIs(t, f.Remove("e/1.log"), fs.ErrNotExist)
	require.ErrorIs(t, f.Remove("d/1.tmp"), fs.ErrNotExist)
	require.Panics(t, func() { faultfs.Matching(faultfs.OpOpen, "[") })
}

func TestCallsAreCountedAndNumbered(t *testing.T) {
	var indexes []int
	f := faultfs.New(memfs.New(), func(op faultfs.Op) faultfs.Fault {
		indexes = append(indexes, op.Index)
		return faultfs.Fault{}
	})
	require.NoError(t, vfs.WriteFileAtomic(f, "f", []byte("x")))
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, indexes)
	require.Equal(t, 6, f.Calls())
	require.Equal(t, 2, f.Count(faultfs.OpSync, faultfs.OpSyncDir))
	require.Equal(t, 0, f.Count(faultfs.OpRemove))
}

func TestAQuotaFillsUpAndCanBeFreed(t *testing.T) {
	m := memfs.New()
	quota := faultfs.NewQuota(10)
	f := faultfs.New(m, quota.Inject)
	file := open(t, f, "f", vfs.Create)
	_, err := file.WriteAt([]byte("12345678"), 0)
	require.NoError(t, err)
	n, err := file.(vfs.VectorWriter).WriteVectorAt([][]byte{[]byte("9"), []byte("abc")}, 8)
	require.True(t, vfs.IsNoSpace(err), "%v", err)
	require.Equal(t, int64(2), n)
	require.Equal(t, "123456789a", content(t, m, "f"))
	_, err = file.WriteAt([]byte("b"), 10)
	require.True(t, vfs.IsNoSpace(err))
	require.Zero(t, quota.Left())
	require.NoError(t, file.Sync(), "only writing needs space")

	quota.Free(3)
	_, err = file.WriteAt([]byte("bc"), 10)
	require.NoError(t, err)
	require.Equal(t, int64(1), quota.Left())
	require.Equal(t, "123456789abc", content(t, m, "f"))
}

func TestTheTraceOfAnAtomicReplacement(t *testing.T) {
	f := faultfs.New(memfs.New(), faultfs.FailMatching(faultfs.OpSyncDir, "*", syscall.EIO))
	all, writes := f.Trace(nil), f.Trace(faultfs.Writes)
	require.Error(t, vfs.WriteFileAtomic(f, "d", []byte("12345")))
	want := `create d.tmp empty
write d.tmp 0+5
sync d.tmp
close d.tmp
rename d.tmp -> d
syncdir .: input/output error
`
	require.Equal(t, want, all.String())
	all.Reset()
	require.Empty(t, all.String())
	_, err := vfs.ReadFile(f, "d")
	require.NoError(t, err)
	require.Equal(t, "open d\nfstat d\nread d 0+5\nclose d\n", all.String())
	require.NotContains(t, writes.String(), "close")
	require.NotContains(t, writes.String(), "read")
}

func TestOpsAreDescribedWithTheirArguments(t *testing.T) {
	for want, op := range map[string]faultfs.Op{
		"open f":            {Kind: faultfs.OpOpen, Name: "f"},
		"open f rw":         {Kind: faultfs.OpOpen, Name: "f", Mode: vfs.ReadWrite},
		"create f":          {Kind: faultfs.OpCreate, Name: "f", Mode: vfs.Create},
		"create f new":      {Kind: faultfs.OpCreate, Name: "f", Mode: vfs.CreateNew},
		"truncate f 7":      {Kind: faultfs.OpTruncate, Name: "f", Off: 7},
		"link f -> g":       {Kind: faultfs.OpLink, Name: "f", NewName: "g"},
		"send f 3+4":        {Kind: faultfs.OpSendTo, Name: "f", Off: 3, Len: 4},
		"preallocate f 3+4": {Kind: faultfs.OpPreallocate, Name: "f", Off: 3, Len: 4},
		"unlock .lock":      {Kind: faultfs.OpUnlock, Name: ".lock"},
	} {
		require.Equal(t, want, op.String())
	}
}

func TestAFailedSyncCanDropWhatItShouldHaveWritten(t *testing.T) {
	for _, fault := range []faultfs.Fault{{Err: syscall.EIO}, {Err: syscall.EIO, Drop: true}} {
		base := memfs.New()
		disk := faultfs.New(base, nil)
		f, err := disk.Open("f", vfs.Create)
		require.NoError(t, err)
		require.NoError(t, disk.SyncDir("."))
		_, err = f.WriteAt([]byte("bytes"), 0)
		require.NoError(t, err)
		disk.SetInjector(faultfs.When(faultfs.Matching(faultfs.OpSync, "*"), faultfs.Always(fault)))
		require.ErrorIs(t, f.Sync(), syscall.EIO)
		disk.SetInjector(nil)
		require.NoError(t, f.Sync())
		want := "bytes"
		if fault.Drop {
			want = "\x00\x00\x00\x00\x00"
		}
		left, err := vfs.ReadFile(base.CrashClean(), "f")
		require.NoError(t, err)
		require.Equal(t, want, string(left))
	}
}
