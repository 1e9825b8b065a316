package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/quarantine"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

func newLogCheck() *cobra.Command {
	c := &cobra.Command{
		Use:     "check PATH...",
		Aliases: []string{"verify"},
		Short:   "Verify every byte of partitions, and say what a start would repair",
		Long: `Verify partitions: every batch's checksum and offsets, every index entry, epochs and producer state. PATH is a
partition's directory, or a data directory for all partitions in it.

Each log is opened as the server would after a crash, in memory over the files, so that what recovery would cut or
rebuild is told and nothing is written. The exit code is 1 if anything is wrong.`,
		Example: `  tidemark log check tidemark-data
  tidemark log check /backup/orders-0 --output json`,
		Args: atLeastOne("PATH"),
	}
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, paths []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		var checked []checkedLog
		for _, path := range paths {
			warnOfJournal(c, path)
			if shared, damaged := checkShared(path); damaged {
				checked = append(checked, shared)
				if !asJSON {
					shared.print(c)
				}
			}
			dirs, err := partitionDirs(path)
			if err != nil {
				return err
			}
			for _, dir := range dirs {
				result := checkLog(vfs.OS(), dir)
				checked = append(checked, result)
				if !asJSON {
					result.print(c)
				}
			}
		}
		if asJSON {
			if err := writeJSON(c.OutOrStdout(), checked); err != nil {
				return err
			}
		}
		return verdict(checked)
	}
	return c
}

// warnOfJournal tells of a journal in a data directory, or beside a partition's: what it has of a log is not in its files.
func warnOfJournal(c *cobra.Command, path string) {
	for _, dir := range []string{path, filepath.Dir(filepath.Clean(path))} {
		name := filepath.Join(dir, node.JournalFile)
		if _, err := vfs.OS().Stat(name); err == nil {
			fmt.Fprintf(c.ErrOrStderr(), "%s: a start puts back what is in it, so logs may end later than is told here\n", name)
			return
		}
	}
}

// checkedLog is what the check of one log found.
type checkedLog struct {
	Dir      string   `json:"dir"`
	Start    int64    `json:"start_offset"`
	End      int64    `json:"end_offset"`
	Bytes    int64    `json:"bytes"`
	Repairs  []string `json:"repairs"`  // what a start would cut or rebuild
	Problems []string `json:"problems"` // what no start can mend
	Kept     int      `json:"kept"`     // files in the quarantine, which are no part of the log
}

func (r checkedLog) ok() bool { return len(r.Problems) == 0 && len(r.Repairs) == 0 }

func (r checkedLog) print(c *cobra.Command) {
	state := "ok"
	if !r.ok() {
		state = "NOT OK"
	}
	fmt.Fprintf(c.OutOrStdout(), "%s  %s  offsets %d to %d  %s\n", r.Dir, state, r.Start, r.End, size(r.Bytes))
	for _, text := range r.Repairs {
		fmt.Fprintf(c.OutOrStdout(), "  a start would repair: %s\n", text)
	}
	for _, text := range r.Problems {
		fmt.Fprintf(c.OutOrStdout(), "  problem: %s\n", text)
	}
	if r.Kept > 0 {
		fmt.Fprintf(c.OutOrStdout(), "  %s in the quarantine, which the log does without\n", plural(r.Kept, "file"))
	}
}

// checkShared looks at the files that the partitions of a data directory share, and reports whether any is damaged.
func checkShared(path string) (checkedLog, bool) {
	result := checkedLog{Dir: path, Repairs: []string{}, Problems: []string{}}
	if !node.IsDataDir(path) {
		return result, false
	}
	_, err := logdir.ReadCheckpoints(vfs.OS(), path)
	if err == nil {
		return result, false
	}
	result.Repairs = append(result.Repairs, strings.Split(err.Error(), "\n")...)
	return result, true
}

func verdict(checked []checkedLog) error {
	bad := 0
	for _, r := range checked {
		if !r.ok() {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d log(s) are not as they should be", bad, len(checked))
	}
	return nil
}

// partitionDirs returns the path itself if it is a partition's directory, or the partitions' directories in it.
func partitionDirs(path string) ([]string, error) {
	entries, err := vfs.OS().List(path)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") && !e.IsDir() {
			return []string{path}, nil
		}
		if !e.IsDir() {
			continue
		}
		below, err := vfs.OS().List(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range below {
			if strings.HasSuffix(f.Name(), ".log") {
				dirs = append(dirs, filepath.Join(path, e.Name()))
				break
			}
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("%s is neither a partition's directory nor one that holds any", path)
	}
	return dirs, nil
}

// checkLog opens the log over its files, without changing them, and checks it.
func checkLog(fsys vfs.FS, dir string) checkedLog {
	result := checkedLog{Dir: dir, Repairs: []string{}, Problems: []string{}}
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: overlay.New(fsys), Events: kafkalog.Events{
		PartialBatch: func(e kafkalog.PartialBatchEvent) {
			result.Repairs = append(result.Repairs, fmt.Sprintf("cut %s from %s at position %d, the log then ends at offset %d: %v",
				size(e.Cut), e.File, e.Position, e.Offset, e.Reason))
		},
		SetAside: func(e kafkalog.SetAsideEvent) {
			result.Repairs = append(result.Repairs, fmt.Sprintf("make %s again: %v", e.File, e.Reason))
		},
		DamagedBatch: func(e kafkalog.DamagedBatchEvent) {
			result.Problems = append(result.Problems, fmt.Sprintf("%s, position %d, offset %d: %v", e.File, e.Position, e.Offset,
				e.Err))
		},
	}})
	if sets, err := quarantine.In(fsys, dir).Sets(); err == nil {
		for _, set := range sets {
			result.Kept += len(set.Files)
		}
	}
	var damaged *logdir.FormatError
	if _, err := logdir.ReadMetadata(fsys, dir); errors.As(err, &damaged) {
		result.Repairs = append(result.Repairs, err.Error())
	}
	wrong, err := indexMismatches(fsys, dir)
	if err != nil {
		result.Problems = append(result.Problems, err.Error())
	}
	result.Repairs = append(result.Repairs, wrong...)
	l, err := kafkalog.Open(env, dir, kafkalog.Options{})
	if err == nil {
		result.Start, result.End, result.Bytes = l.LogStart(), l.LogEnd(), l.Size()
		for _, f := range l.Check() {
			result.Problems = append(result.Problems, f.String())
		}
		err = l.Close()
	}
	if err = errors.Join(err, env.Close()); err != nil {
		result.Problems = append(result.Problems, err.Error())
	}
	return result
}
