package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
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
		Long: `Verify partitions: every batch's checksum and offsets, every index entry, leader epochs and producer state. PATH is the
directory of a partition, or a data directory for all partitions in it. In a data directory, the files that its partitions
share are verified too: checkpoints, and journals, with what they hold for each partition.

Each log is opened as the server would open it after a crash, with the journal replayed, but with all changes kept in
memory: what recovery would cut or rebuild is reported, and nothing is written. Open transactions are reported; one is wrong
if a repair has removed offsets after its beginning. A summary at the end counts what was checked and found, and says what
to do next. The exit code is 1 if anything is wrong.`,
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
		run := &checkRun{told: c.ErrOrStderr(), checked: []checkedLog{}}
		if !asJSON {
			run.out = c.OutOrStdout()
		}
		for _, path := range paths {
			if err := run.path(c.Context(), path); err != nil {
				return err
			}
		}
		summary := run.summary(paths)
		if asJSON {
			err = writeJSON(c.OutOrStdout(), checkOutput{run.checked, summary})
		} else {
			_, err = io.WriteString(c.OutOrStdout(), summary.text())
		}
		if err != nil {
			return err
		}
		return summary.err()
	}
	return c
}

// checkRun is one run of the command.
type checkRun struct {
	out     io.Writer // results are printed as they come; nil if not
	told    io.Writer
	checked []checkedLog
}

// checkedLog is the result for one log, or for a file that logs share.
type checkedLog struct {
	Dir      string   `json:"dir"`
	Start    int64    `json:"start_offset"`
	End      int64    `json:"end_offset"`
	Segments int      `json:"segments"`
	Batches  int64    `json:"batches"`
	Records  int64    `json:"records"`
	Bytes    int64    `json:"bytes"`
	Repairs  []string `json:"repairs"`  // what a start would cut or rebuild
	Problems []string `json:"problems"` // what a start cannot repair
	Notes    []string `json:"notes"`    // worth knowing, but not wrong
	Kept     int      `json:"kept"`     // files in the quarantine, which are not part of the log

	// Journal is the content of a journal; nil for anything else.
	Journal []journaledRecords `json:"journal,omitempty"`

	shared bool // a file that logs share, not a log
	loses  bool // the repairs of a start lose intact batches
}

func newCheckedLog(dir string) checkedLog {
	return checkedLog{Dir: dir, Repairs: []string{}, Problems: []string{}, Notes: []string{}}
}

func newSharedFile(name string) checkedLog {
	result := newCheckedLog(name)
	result.shared = true
	return result
}

func (r checkedLog) ok() bool { return len(r.Problems) == 0 && len(r.Repairs) == 0 }

func (r checkedLog) print(w io.Writer) {
	state := "ok"
	if !r.ok() {
		state = "NOT OK"
	}
	switch {
	case r.Journal != nil:
		fmt.Fprintf(w, "%s  %s  %s of records\n", r.Dir, state, size(r.Bytes))
		printJournaled(w, r.Journal)
	case r.shared:
		fmt.Fprintf(w, "%s  %s\n", r.Dir, state)
	default:
		fmt.Fprintf(w, "%s  %s  offsets %d to %d  %s\n", r.Dir, state, r.Start, r.End, size(r.Bytes))
	}
	for _, text := range r.Repairs {
		fmt.Fprintf(w, "  a start would repair: %s\n", text)
	}
	for _, text := range r.Problems {
		fmt.Fprintf(w, "  problem: %s\n", text)
	}
	for _, text := range r.Notes {
		fmt.Fprintf(w, "  note: %s\n", text)
	}
	if r.Kept > 0 {
		fmt.Fprintf(w, "  %s in the quarantine, not part of the log\n", plural(r.Kept, "file"))
	}
}

// add adds a result.
func (k *checkRun) add(result checkedLog) {
	k.checked = append(k.checked, result)
	if k.out != nil {
		result.print(k.out)
	}
}

// path checks a partition, or all partitions of a data directory.
func (k *checkRun) path(ctx context.Context, path string) error {
	dirs, err := partitionDirs(path)
	if err != nil {
		return err
	}
	data, err := k.data(ctx, path)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if isDeleted(dir) {
			continue
		}
		fsys, proven := vfs.OS(), int64(0)
		if data != nil {
			fsys, proven = data.FS(), data.Proven(filepath.Base(dir))
		}
		k.add(checkLog(fsys, dir, proven))
	}
	return nil
}

// data checks the files that the partitions of a data directory share, and returns its files as a start would leave them.
// It returns nil if there is no data directory, or a server is using it.
func (k *checkRun) data(ctx context.Context, path string) (*node.StoppedDir, error) {
	_, dir, err := dataDirOf(path)
	if err != nil || dir == "" {
		return nil, err
	}
	var left []string
	data, err := node.TakeStopped(ctx, dir, false, func(file, reason string) {
		left = append(left, fmt.Sprintf("its records of %s cannot be restored: %s", file, reason))
	})
	switch {
	case errors.Is(err, vfs.ErrLocked):
		fmt.Fprintf(k.told, "%s: a server is using it: its journal is not checked, and data that is being written may look damaged\n", dir)
		if _, damage := logdir.ReadCheckpoints(vfs.OS(), dir); damage != nil {
			k.add(damagedCheckpoints(dir, damage))
		}
		return nil, nil
	case ctx.Err() != nil:
		return nil, err
	case err != nil:
		result := newSharedFile(dir)
		result.Problems = append(result.Problems, strings.Split(err.Error(), "\n")...)
		k.add(result)
		return nil, nil
	}
	if damage := data.Damage(); damage != nil {
		k.add(damagedCheckpoints(dir, damage))
	}
	k.journals(data, left)
	return data, data.Close() // its view of the files remains usable
}

// damagedCheckpoints is the result for checkpoint files that cannot be read. A start rebuilds damaged ones, but not those of a
// newer version.
func damagedCheckpoints(dir string, damage error) checkedLog {
	result := newSharedFile(dir)
	for _, err := range each(damage) {
		var newer *logdir.VersionError
		if errors.As(err, &newer) {
			result.Problems = append(result.Problems, err.Error())
		} else {
			result.Repairs = append(result.Repairs, err.Error())
		}
	}
	return result
}

// each returns the errors that were joined, or the error itself.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// isDeleted reports whether a directory is that of a partition that is being deleted.
func isDeleted(dir string) bool {
	name, err := logdir.ParseDirName(filepath.Base(dir))
	return err == nil && name.Role == logdir.Delete
}

// dataDirOf resolves a path, and returns its data directory: the path itself, or the parent of a partition; empty if
// there is none. The lock is in the real directory, whatever name led there: "." has no parent by its name, and a link
// has another one.
func dataDirOf(path string) (real, dataDir string, err error) {
	named, err := filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	real, err = filepath.EvalSymlinks(named)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", noPartition(path)
	}
	if err != nil {
		return "", "", err
	}
	for _, dir := range []string{real, filepath.Dir(real), filepath.Dir(named)} {
		if node.IsDataDir(dir) {
			return real, dir, nil
		}
	}
	return real, "", nil
}

// partitionDirs returns the path itself if it is a partition's directory, or the partitions' directories in it, in the
// order of topics and partitions. Only a data directory may have none.
func partitionDirs(path string) ([]string, error) {
	entries, err := vfs.OS().List(path)
	if info, bad := vfs.OS().Stat(path); err != nil && bad == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; name the directory of its partition, %s", path, filepath.Dir(path))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noPartition(path)
	}
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if isOfPartition(e) {
			return []string{path}, nil
		}
		if !e.IsDir() {
			continue
		}
		below, err := vfs.OS().List(filepath.Join(path, e.Name()))
		if err != nil {
			if _, bad := logdir.ParseDirName(e.Name()); bad != nil && errors.Is(err, fs.ErrPermission) {
				continue // such as lost+found
			}
			return nil, err
		}
		for _, f := range below {
			if isOfPartition(f) {
				dirs = append(dirs, filepath.Join(path, e.Name()))
				break
			}
		}
	}
	if len(dirs) == 0 && !node.IsDataDir(path) {
		return nil, fmt.Errorf("%s is neither the directory of a partition nor one that holds partitions", path)
	}
	slices.SortStableFunc(dirs, func(a, b string) int {
		x, _ := logdir.ParseDirName(filepath.Base(a))
		y, _ := logdir.ParseDirName(filepath.Base(b))
		return cmp.Or(cmp.Compare(x.Partition.Topic, y.Partition.Topic), cmp.Compare(x.Partition.Index, y.Partition.Index))
	})
	return dirs, nil
}

// noPartition is the error for a path that does not exist.
func noPartition(path string) error {
	return fmt.Errorf("%s does not exist; name the directory of a partition, or one that holds partitions", path)
}

// isOfPartition reports whether an entry marks a partition's directory. Before the first record there is no .log file.
func isOfPartition(e fs.DirEntry) bool {
	return !e.IsDir() && (strings.HasSuffix(e.Name(), ".log") || e.Name() == "partition.metadata")
}

// checkLog opens the log over its files, without changing them, and checks it. Everything below proven is known to have
// been on disk.
func checkLog(fsys vfs.FS, dir string, proven int64) checkedLog {
	result := newCheckedLog(dir)
	env := kafkalog.NewEnv(kafkalog.EnvOptions{FS: overlay.New(fsys), Events: kafkalog.Events{
		PartialBatch: func(e kafkalog.PartialBatchEvent) {
			text := fmt.Sprintf("cut %s from %s at position %d, the log then ends at offset %d: %v", size(e.Cut), e.File, e.Position,
				e.Offset, e.Reason)
			if e.LostBatches > 0 {
				result.loses = true
				text += fmt.Sprintf("; intact batches that would be cut too: %s; run 'tidemark log repair' before the server starts to keep them",
					count(e.LostBatches))
			}
			result.Repairs = append(result.Repairs, text)
		},
		LogEndBehind: func(e kafkalog.LogEndBehindEvent) {
			result.Problems = append(result.Problems, fmt.Sprintf("the log ends at offset %d, but the checkpoints say that records below %d were on "+
				"disk: they are lost, and a start would reuse their offsets; 'tidemark log repair' prevents that", e.LogEnd, e.RecoveryPoint))
		},
		SetAside: func(e kafkalog.SetAsideEvent) {
			result.Repairs = append(result.Repairs, fmt.Sprintf("rebuild %s: %v", e.File, e.Reason))
		},
	}})
	var lost []quarantine.Offsets
	if sets, err := quarantine.In(fsys, dir).Sets(); err == nil {
		for _, set := range sets {
			result.Kept += len(set.Files)
			for _, file := range set.Files {
				if set.By == quarantine.ByRepair && file.Offsets != nil {
					lost = append(lost, *file.Offsets)
				}
			}
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
	l, err := kafkalog.Open(env, dir, kafkalog.Options{RecoveryPoint: proven})
	if err == nil {
		result.Start, result.End, result.Bytes = l.LogStart(), l.LogEnd(), l.Size()
		findings, counts := l.CheckCounted()
		result.Segments, result.Batches, result.Records = counts.Segments, counts.Batches, counts.Records
		for _, f := range findings {
			result.Problems = append(result.Problems, f.String())
		}
		result.transactions(l.ActiveProducers(), lost)
		err = l.Close()
	}
	if err = errors.Join(err, env.Close()); err != nil {
		result.Problems = append(result.Problems, err.Error())
	}
	return result
}

// transactions reports open transactions, given the offsets that repairs have removed from the log.
func (r *checkedLog) transactions(producers []kafkalog.ActiveProducer, lost []quarantine.Offsets) {
	for _, p := range producers {
		if p.TxnStartOffset < 0 {
			continue
		}
		text := fmt.Sprintf("the transaction of producer %d, epoch %d, is open from offset %d, where read_committed consumers wait",
			p.ProducerID, p.ProducerEpoch, p.TxnStartOffset)
		behind := false
		for _, o := range lost {
			behind = behind || o.Next > o.First && o.First > p.TxnStartOffset
		}
		if !behind {
			r.Notes = append(r.Notes, text+" until it ends")
			continue
		}
		r.Problems = append(r.Problems, fmt.Sprintf("%s forever if its end was among what a repair removed: "+
			"'tidemark log repair %s --abort %d' shows how to end it", text, r.Dir, p.ProducerID))
	}
}
