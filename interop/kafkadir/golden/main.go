// Command golden has Apache Kafka write the small log directory that is kept in node/importer/testdata. Its argument is
// the directory to write, which is replaced.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-io/tidemark/interop/kafkadir"
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
	k, err := server.NewKafka(in, server.KafkaOptions{Dir: dir, Settings: kafkadir.Settings("2")})
	if err != nil {
		return err
	}
	defer k.Kill()
	if err := k.Start(ctx); err != nil {
		return err
	}
	if err := kafkadir.Fill(ctx, k, kafkadir.Size{Topics: 6, Groups: 3, Records: 4, ValueBytes: 60}); err != nil {
		return err
	}
	state, err := kafkadir.Ask(ctx, k.Addr())
	if err != nil {
		return err
	}
	if err := k.Stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(to, "kafka"), os.DirFS(k.DataDir())); err != nil {
		return err
	}
	// Kafka leaves the indexes of its metadata log at their preallocated length; nobody needs them.
	for _, name := range []string{"00000000000000000000.index", "00000000000000000000.timeindex"} {
		if err := os.Remove(filepath.Join(to, "kafka", "__cluster_metadata-0", name)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte("},{"), []byte("},\n{")) // a line for each element
	if err := os.WriteFile(filepath.Join(to, "state.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chmod(name, 0o644)
		}
		return err
	})
}
