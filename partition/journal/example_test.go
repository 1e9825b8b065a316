package journal_test

import (
	"fmt"
	"log"

	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// A round makes the records of two logs durable with one sync, and after a power cut they are in the logs' files again.
func Example() {
	disk := memfs.New()
	if err := vfs.WriteFileAtomic(disk, "orders-0.log", nil); err != nil {
		log.Fatal(err)
	}
	w := journal.NewWriter(journal.Options{FS: disk, Dir: ".", Bytes: 1 << 20})
	defer w.Close()
	if _, err := w.Begin(int(journal.EntrySize(5))); err != nil {
		log.Fatal(err)
	}
	records := []byte("hello")
	err := w.Add(journal.Entry{}, len(records), func(dst []byte) ([]byte, error) { return append(dst, records...), nil })
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		log.Fatal(err)
	}

	disk = disk.CrashClean()
	done, err := journal.Replay(journal.ReplayOptions{FS: disk, Dir: ".", Workers: 1, Find: func(journal.Key, int64) (string, bool) {
		return "orders-0.log", true
	}})
	if err != nil {
		log.Fatal(err)
	}
	text, err := vfs.ReadFile(disk, "orders-0.log")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d bytes put back\n", text, done.Bytes)
	// Output: hello, 5 bytes put back
}
