package faultfs_test

import (
	"fmt"
	"syscall"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// An atomic replacement is made to fail at each of its calls. Whatever fails, the old content or the new is there.
func Example() {
	for n := 0; ; n++ {
		m := memfs.New()
		vfs.WriteFileAtomic(m, "f", []byte("old"))
		disk := faultfs.New(m, faultfs.FailNth(n, syscall.EIO))
		err := vfs.WriteFileAtomic(disk, "f", []byte("new"))
		if disk.Calls() <= n {
			break
		}
		content, _ := vfs.ReadFile(m, "f")
		fmt.Printf("%s: %s\n", err, content)
	}
	// Output:
	// create f.tmp: input/output error: old
	// write f.tmp: input/output error: old
	// sync f.tmp: input/output error: old
	// close f.tmp: input/output error: old
	// rename f.tmp f: input/output error: old
	// syncdir .: input/output error: new
}
