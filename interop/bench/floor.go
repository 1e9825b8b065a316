package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// floor is the storage of a [sink]: each batch is appended to its partition's file as it came, unread but for its record
// count, and nothing is synced. No server that keeps records in files can use less processor time for one.
type floor struct {
	dir   string
	files map[string]*floorFile // by topic/partition
}

type floorFile struct {
	file *os.File
	size int64
}

// store writes a batch that is to have the given offset. The sink calls it under its lock.
func (f *floor) store(topic string, partition int32, batch []byte, offset int64) error {
	name := fmt.Sprintf("%s-%d", topic, partition)
	at := f.files[name]
	if at == nil {
		file, err := os.Create(filepath.Join(f.dir, name))
		if err != nil {
			return err
		}
		at = &floorFile{file: file}
		f.files[name] = at
	}
	binary.BigEndian.PutUint64(batch, uint64(offset))
	n, err := at.file.WriteAt(batch, at.size)
	at.size += int64(n)
	return err
}

// drop removes the files of topics.
func (f *floor) drop(topics []string) error {
	var errs []error
	for _, topic := range topics {
		for name, at := range f.files {
			if name[:strings.LastIndexByte(name, '-')] == topic {
				errs = append(errs, at.file.Close(), os.Remove(at.file.Name()))
				delete(f.files, name)
			}
		}
	}
	return errors.Join(errs...)
}

// floorMain is a separate process that serves a floor, so that its processor time can be told from the client's. It
// prints its address, and ends with its standard input.
func floorMain(args []string) error {
	flags := flag.NewFlagSet("floor", flag.ExitOnError)
	dir := flags.String("dir", "", "where to store")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := startSink(&floor{dir: *dir, files: map[string]*floorFile{}})
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Println(s.addr())
	_, err = bufio.NewReader(os.Stdin).ReadByte()
	if err != nil && s.failed() == nil {
		return nil // nobody writes to it: its parent has ended it
	}
	return s.failed()
}

// startFloor starts [floorMain] with its files in a new directory of dir.
func startFloor(ctx context.Context, dir string) (addr string, pid int, stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return "", 0, nil, fmt.Errorf("bench: %w", err)
	}
	data := filepath.Join(dir, "floor-data")
	if err := os.Mkdir(data, 0o755); err != nil {
		return "", 0, nil, fmt.Errorf("bench: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "floor", "-dir", data)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", 0, nil, fmt.Errorf("bench: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, fmt.Errorf("bench: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, fmt.Errorf("bench: %w", err)
	}
	stop = func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: floor:", err)
		}
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", 0, nil, fmt.Errorf("bench: floor: %w", err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid, stop, nil
}
