package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/overlay"
)

func newLogRepair() *cobra.Command {
	c := &cobra.Command{
		Use:   "repair PATH...",
		Short: "Show how damaged partitions would be repaired, and repair them with --apply",
		Long: `Find damage in the partitions of a stopped server and show how it would be repaired. PATH is the directory of a partition,
or a data directory for all partitions in it; that of a stopped Apache Kafka broker works too. The command refuses to run
while a server uses the data directory.

Without --apply nothing is written. Each repair is one of these:

  cut tail     bytes after the last whole batch of a file are cut off
  leave out    damaged bytes in the middle of a log are removed; what follows keeps its offsets
  put right    a batch of which only the base offset is damaged gets the right one back
  fill end     a log that ends before what is known to have been on disk is extended to there, without the records
  make again   a file that is derived from the records, such as an index, is rebuilt
  set aside    a file that cannot be rebuilt is removed from the log

Lost offsets are never reused. Consumers skip them without an error.

After a power cut, batches may stand behind one that the disk did not keep. Above the offset up to which the checkpoints prove
a log, a start cuts it there, since nothing behind was acknowledged, and producers may send all of it again. So does a repair,
which keeps the bytes and leaves the offsets unused. Where no checkpoint names the partition, what follows stays.

The end of a transaction may be lost too. If the files show what it was, its marker is restored at its own offset. If not, the
transaction stays open, and read_committed consumers wait at its beginning forever; it is reported with its producer and first
offset, like every open transaction. --abort PRODUCER-ID, or --abort all, ends open transactions with abort markers after the
end of the log, in logs that are otherwise sound too. The decision is yours: if such a transaction had been committed,
read_committed consumers will not read its records, and one that a running cluster still continues is torn apart.

Nothing is thrown away. What a repair removes is first kept in the directory 'quarantine' in the partition's own, with a
manifest (a .json file) of where it was, which offsets it held and why it was removed; only when that is on disk does the log
change. To finish an interrupted repair, run it again. The next start of the server checks the result and begins new leader
epochs.

The exit code is 0 if nothing was wrong or everything was repaired; 3 if there is something to repair and --apply was not
given; 4 if something cannot be repaired, and was left alone, or if part of the journal could not be restored; 1 if the
command failed.`,
		Example: `  tidemark log repair /var/lib/tidemark
  tidemark log repair /var/lib/tidemark/orders-0 --apply
  tidemark log repair /var/lib/tidemark/orders-0 --abort 4711 --apply
  tidemark log repair /var/lib/tidemark --output json`,
		Args: atLeastOne("PATH"),
	}
	var apply bool
	var abort []string
	c.Flags().BoolVar(&apply, "apply", false, executeHelp)
	c.Flags().StringSliceVar(&abort, "abort", nil, "abort the open transactions of these `PRODUCER-ID,...`, or of all")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, paths []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		run := &repairRun{apply: apply, told: c.ErrOrStderr(), bar: &bytesBar{w: c.ErrOrStderr()}, repaired: []repairedLog{}}
		if run.abort, err = producersToAbort(c, abort); err != nil {
			return err
		}
		for i := 0; i < len(paths) && err == nil; i++ {
			err = run.path(c.Context(), paths[i])
			run.bar.end()
		}
		if err != nil && len(run.repaired) == 0 {
			return err
		}
		run.abort.tellUnknown(run.told) // even if something else failed
		if asJSON {
			err = errors.Join(err, writeJSON(c.OutOrStdout(), run.repaired))
		} else {
			err = errors.Join(err, run.print(c.OutOrStdout()))
		}
		if err != nil {
			return err
		}
		return run.verdict()
	}
	return c
}

// The outcomes for one log.
const (
	repairSound        = "sound"
	repairWouldChange  = "would change"
	repairDone         = "repaired"
	repairFailed       = "failed"
	repairUnrepairable = "cannot be repaired"
)

// repairedLog is what was found in one log, and what was done about it.
type repairedLog struct {
	Dir      string       `json:"dir"`
	State    string       `json:"state"`
	Start    int64        `json:"start_offset"` // afterwards
	End      int64        `json:"end_offset"`   // afterwards
	Steps    []repairStep `json:"steps"`
	Notes    []string     `json:"notes"`
	Problems []string     `json:"problems"`
	Kept     []string     `json:"kept"` // paths in the quarantine

	// Transactions are those that lost their end, or that are open.
	Transactions []repairTransaction `json:"transactions"`
}

// repairStep is a [kafkalog.RepairStep] in JSON.
type repairStep struct {
	Action   string `json:"action"`
	File     string `json:"file"`
	Reason   string `json:"reason"`
	Position int64  `json:"position"`
	Bytes    int64  `json:"bytes"`
	First    int64  `json:"first_lost_offset"`
	Next     int64  `json:"next_offset"` // equal to first_offset if no offset is lost
	Records  int64  `json:"records"`
}

// repairRun is one run of the command.
type repairRun struct {
	apply    bool
	abort    *abortChoice
	told     io.Writer
	bar      *bytesBar
	repaired []repairedLog
	journal  error // what could not be restored from journals
}

// path repairs a partition, or all partitions of a data directory.
func (r *repairRun) path(ctx context.Context, path string) (err error) {
	real, dataDir, err := dataDirOf(path)
	if err != nil {
		return err
	}
	dirs, err := partitionDirs(real)
	if err != nil {
		return err
	}
	var data *node.StoppedDir
	if dataDir != "" {
		if data, err = r.take(ctx, dataDir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, data.Close()) }()
	}
	for _, dir := range dirs {
		r.bar.add(recordBytes(dir))
	}
	for _, dir := range dirs {
		if isDeleted(dir) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		r.repaired = append(r.repaired, r.repair(dir, data))
	}
	return nil
}

// take locks the data directory against servers, and reports faults of the files that its partitions share.
func (r *repairRun) take(ctx context.Context, dir string) (*node.StoppedDir, error) {
	data, err := node.TakeStopped(ctx, dir, r.apply, func(file, reason string) {
		fmt.Fprintf(r.told, "%s: its records in the journal could not be restored: %s\n", file, reason)
	})
	if err != nil {
		return nil, explainTaking(dir, err)
	}
	if problem := data.JournalProblem(); problem != nil {
		r.journal = errors.Join(r.journal, problem)
		fmt.Fprintln(r.told, problem)
	}
	if damage := data.Damage(); damage != nil {
		told := damagedCheckpoints(dir, damage)
		for _, text := range told.Repairs {
			fmt.Fprintf(r.told, "%s; the next start keeps it aside and rebuilds it\n", text)
		}
		for _, text := range told.Problems {
			fmt.Fprintf(r.told, "%s; this version cannot read it, and does not start with it\n", text)
		}
	}
	return data, nil
}

// repair plans the repair of one log, and executes it if requested.
func (r *repairRun) repair(dir string, data *node.StoppedDir) repairedLog {
	var fsys vfs.FS = overlay.New(vfs.OS())
	if r.apply {
		fsys = vfs.OS()
	}
	o := kafkalog.RepairOptions{Abort: r.abort.has, Progress: r.bar.more, Foreign: data == nil || data.MayBeKafkas()}
	if data != nil {
		fsys = data.FS()
		o.Flushed, o.Visible, o.LogStart = data.Checkpointed(filepath.Base(dir))
		o.Proven = data.CutsFrom(filepath.Base(dir))
	}
	result := newRepairedLog(dir)
	plan, err := kafkalog.PlanRepair(fsys, dir, o)
	if err != nil {
		return result.failed(err)
	}
	result.describe(plan)
	switch {
	case len(plan.Unrepairable) > 0:
		result.State = repairUnrepairable
	case !plan.Changes():
		result.State = repairSound
	case !r.apply:
		result.State = repairWouldChange
	default:
		if data != nil {
			if err := data.BeforeChange(); err != nil {
				return result.failed(err)
			}
		}
		expected := recordBytes(dir)
		r.bar.add(expected) // which are read again
		kept, err := plan.Apply()
		r.bar.add(recordBytes(dir) - expected)
		result.Kept = append(result.Kept, kept...)
		if err != nil {
			return result.failed(err)
		}
		result.State = repairDone
	}
	return result
}

func newRepairedLog(dir string) repairedLog {
	return repairedLog{
		Dir: dir, Steps: []repairStep{}, Notes: []string{}, Problems: []string{}, Kept: []string{}, Transactions: []repairTransaction{},
	}
}

// describe copies a plan into the result.
func (l *repairedLog) describe(plan *kafkalog.Repair) {
	l.Start, l.End = plan.Start, plan.End
	for _, s := range plan.Steps {
		l.Steps = append(l.Steps, repairStep{string(s.Action), s.File, s.Reason, s.Position, s.Bytes, s.First, s.Next, s.Records})
	}
	for _, t := range plan.Transactions {
		l.Transactions = append(l.Transactions, newRepairTransaction(t))
	}
	l.Notes = append(l.Notes, plan.Notes...)
	for _, err := range plan.Unrepairable {
		l.Problems = append(l.Problems, err.Error())
	}
}

// failed marks the result with the error that ended the repair.
func (l repairedLog) failed(err error) repairedLog {
	text := err.Error()
	if vfs.IsNoSpace(err) {
		text += "; a repair first keeps a copy of what the log is about to lose: free some space, and run it again to continue"
	}
	l.State, l.Problems = repairFailed, append(l.Problems, text)
	return l
}

// print shows the logs that are not sound or have notes, and then how many there are of each state.
func (r *repairRun) print(w io.Writer) error {
	var b strings.Builder
	counts := map[string]int{}
	for _, l := range r.repaired {
		counts[l.State]++
		if l.State != repairSound || len(l.Notes) > 0 || len(l.Transactions) > 0 {
			l.print(&b)
		}
	}
	fmt.Fprintf(&b, "%s: %d sound", plural(len(r.repaired), "partition"), counts[repairSound])
	for _, state := range []string{repairWouldChange, repairDone, repairUnrepairable, repairFailed} {
		if counts[state] > 0 {
			fmt.Fprintf(&b, ", %d %s", counts[state], state)
		}
	}
	b.WriteString("\n")
	if counts[repairWouldChange] > 0 {
		b.WriteString("nothing was changed; add --apply to repair\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l repairedLog) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s", l.Dir, l.State)
	switch l.State {
	case repairFailed:
	case repairSound, repairDone:
		fmt.Fprintf(w, "; offsets %d to %d", l.Start, l.End)
	default:
		fmt.Fprintf(w, "; offsets %d to %d afterwards", l.Start, l.End)
	}
	fmt.Fprintln(w)
	for _, s := range l.Steps {
		s.print(w)
	}
	for _, t := range l.Transactions {
		t.print(w, l.State == repairDone)
	}
	for _, text := range l.Notes {
		fmt.Fprintf(w, "  note: %s\n", text)
	}
	for _, text := range l.Problems {
		fmt.Fprintf(w, "  problem: %s\n", text)
	}
	for _, name := range l.Kept {
		fmt.Fprintf(w, "  kept: %s\n", name)
	}
}

func (s repairStep) print(w io.Writer) {
	switch kafkalog.RepairAction(s.Action) {
	case kafkalog.CutTail, kafkalog.LeaveOut, kafkalog.PutRight:
		fmt.Fprintf(w, "  %s: %s, position %d, %s", s.Action, s.File, s.Position, size(s.Bytes))
		if s.Records > 0 {
			fmt.Fprintf(w, ", about %s by its header", plural(s.Records, "record"))
		}
	case kafkalog.FillEnd:
		fmt.Fprintf(w, "  %s: %s, position %d", s.Action, s.File, s.Position)
	default:
		fmt.Fprintf(w, "  %s: %s", s.Action, s.File)
	}
	fmt.Fprintf(w, ": %s\n", s.Reason)
	if s.Next > s.First {
		fmt.Fprintf(w, "    offsets %d to %d are lost; consumers skip them and go on at %d\n", s.First, s.Next-1, s.Next)
	} else if s.Action == string(kafkalog.CutTail) {
		fmt.Fprintf(w, "    no offset is lost; the file ends at offset %d afterwards\n", s.First)
	}
}

// verdict returns the exit code.
func (r *repairRun) verdict() error {
	counts := map[string]int{}
	for _, l := range r.repaired {
		counts[l.State]++
	}
	total := plural(len(r.repaired), "partition")
	switch {
	case counts[repairUnrepairable] > 0:
		return &exitError{ExitUnrepairable, fmt.Sprintf("%d of %s cannot be repaired", counts[repairUnrepairable], total)}
	case counts[repairFailed] > 0:
		return fmt.Errorf("repairing %d of %s failed", counts[repairFailed], total)
	case counts[repairWouldChange] > 0:
		return &exitError{ExitWouldChange, fmt.Sprintf("%d of %s to be repaired", counts[repairWouldChange], total)}
	case r.journal != nil:
		return &exitError{ExitUnrepairable, "part of the journal could not be restored"}
	}
	return nil
}
