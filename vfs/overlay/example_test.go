package overlay_test

import (
	"fmt"
	"log"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

// A tool can repair a file in memory and look at the result; the file itself stays as it is.
func Example() {
	base := memfs.New()
	write := func(fsys vfs.FS, text string) {
		f, err := fsys.Open("notes", vfs.Create)
		if err != nil {
			log.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			log.Fatal(err)
		}
	}
	show := func(name string, fsys vfs.FS) {
		text, err := vfs.ReadFile(fsys, "notes")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", name, text)
	}
	write(base, "two tables")

	over := overlay.New(base)
	write(over, "six")
	show("overlay", over)
	show("base", base)
	// Output:
	// overlay: six tables
	// base: two tables
}
