package memfs_test

import (
	"fmt"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// A file was synced, but its directory was not: after a power cut the file may have no name.
func Example() {
	m := memfs.New()
	f, err := m.Open("log", vfs.CreateNew)
	if err != nil {
		fmt.Println(err)
		return
	}
	f.WriteAt([]byte("acknowledged"), 0)
	f.Sync()
	_, err = vfs.ReadFile(m.CrashClean(), "log")
	fmt.Println(err)

	m.SyncDir("/")
	data, err := vfs.ReadFile(m.CrashClean(), "log")
	fmt.Println(string(data), err)
	// Output:
	// open log: file does not exist
	// acknowledged <nil>
}

// A server that still runs must not be answered after the moment of the crash, so the old file system is killed first.
func ExampleFS_Kill() {
	m := memfs.New()
	m.Kill()
	after := m.Crash(memfs.CrashOptions{Seed: 7, KeepUnsynced: 0.5, Torn: true})
	_, err := m.Open("log", vfs.Create)
	fmt.Println(err)
	_, err = after.Open("log", vfs.Create)
	fmt.Println(err)
	// Output:
	// open log: file system was killed
	// <nil>
}
