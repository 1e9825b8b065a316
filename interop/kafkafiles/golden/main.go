// Command golden has Apache Kafka write the small set of log directories that is kept in kafkalog/testdata. Its argument
// is the directory to write, which is replaced.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-io/tidemark/interop/kafkafiles"
	"github.com/tidemark-io/tidemark/interop/server"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: golden DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(to string) error {
	in, err := server.Installed()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tidemark-golden-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	stopped, killed, err := kafkafiles.Write(ctx, in, dir, kafkafiles.Size{Batches: 1, Records: 8, ValueBytes: 150})
	if err != nil {
		return err
	}
	for name, s := range map[string]*kafkafiles.Snapshot{"stopped": stopped, "killed": killed} {
		target := filepath.Join(to, name)
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		if err := os.CopyFS(target, os.DirFS(s.Dir)); err != nil {
			return err
		}
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("},{"), []byte("},\n{")) // a line for each element
		if err := os.WriteFile(target+".json", append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
