package vfs_test

import (
	"fmt"
	"log"
	"os"

	"github.com/tidemark-io/tidemark/vfs"
)

func Example() {
	dir, err := os.MkdirTemp("", "vfs")
	if err != nil {
		log.Fatal(err)
	}
	disk := vfs.OS()
	defer vfs.RemoveAll(disk, dir)

	f, err := disk.Open(dir+"/00000000000000000000.log", vfs.CreateNew)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("a batch"), 0); err != nil {
		log.Fatal(err)
	}
	// The bytes are durable after Sync, the file's name after SyncDir.
	if err := f.Sync(); err != nil {
		log.Fatal(err)
	}
	if err := disk.SyncDir(dir); err != nil {
		log.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Name(), info.Size())
	// Output: 00000000000000000000.log 7
}

// What not every file can do is asked for by type assertion, with a portable way beside it.
func ExampleVectorWriter() {
	write := func(f vfs.File, header, payload []byte, off int64) error {
		if w, ok := f.(vfs.VectorWriter); ok {
			_, err := w.WriteVectorAt([][]byte{header, payload}, off)
			return err
		}
		_, err := f.WriteAt(append(header[:len(header):len(header)], payload...), off)
		return err
	}
	dir, err := os.MkdirTemp("", "vfs")
	if err != nil {
		log.Fatal(err)
	}
	defer vfs.RemoveAll(vfs.OS(), dir)
	f, err := vfs.OS().Open(dir+"/f", vfs.Create)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if err := write(f, []byte("header "), []byte("payload"), 0); err != nil {
		log.Fatal(err)
	}
	data, err := vfs.ReadFile(vfs.OS(), dir+"/f")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data))
	// Output: header payload
}
