package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/node"
)

func newRecover() *cobra.Command {
	c := &cobra.Command{
		Use:   "recover",
		Short: "Make lost metadata again from the data directory and the bucket",
		Long: `Make the metadata file of a data directory again that was lost without a backup. The names and ids of topics, their
partitions and leader epochs are read from the directories; every log is opened as a start would, over its files. Committed
offsets of groups are records, and are there again.

Streams are made again from the bucket that --store names, also into an empty data directory: their offsets and epochs from
the indexes of all objects and the write-ahead logs of all nodes. Records that only a log holds are put into objects. The
servers that used the bucket must be stopped for good.

Lost for good are the settings of topics. Until somebody sets them again ('tidemark topic config'), recovered topics keep
everything: a compacted topic is not compacted, and none is cut. Producer ids begin above all that were given out. Of streams
the bucket does not tell which table or topic they belong to, where they were trimmed, and which were deleted: what was
trimmed or deleted and not removed yet is there again. A stream begins where objects reach its end without a gap; what lies
below a gap is told, and left alone. Of objects that hold the same records the newest are taken; the others go after a week.

An object or log that is damaged, of an unknown version, or unclear stops the recovery. --leave-out-damaged goes on without:
what is left out is told. Of a damaged log the records are kept that can be read and follow each other in their stream; all of
the log is kept under tidemark-salvaged/ in the bucket until 'tidemark wal drop-salvaged', and the next start removes it elsewhere.

Without --execute nothing is changed: what would be made is told. With metadata in etcd, restore etcd.`,
		Example: `  tidemark recover --data-dir /var/lib/tidemark
  tidemark recover --data-dir /var/lib/tidemark --execute
  tidemark recover --data-dir /var/lib/tidemark --store 's3://bucket?region=eu-central-1' --node.id 1 --execute`,
		Args: noArguments,
	}
	var o node.RecoverOptions
	c.Flags().BoolVar(&o.Execute, "execute", false, "do it; without it nothing is changed")
	c.Flags().BoolVar(&o.LeaveOut, "leave-out-damaged", false, "make streams again without objects and logs that are damaged or unclear")
	output := addOutputFlag(c)
	settings := addSettingFlags(c, "data-dir", "store", "node.id")
	settings.say(c, "store", "the bucket that the cluster's streams were in, as a URL; without one no streams are made again. It is "+
		"written to with --execute only")
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		loaded, err := settings.load(c)
		if err != nil {
			return err
		}
		bar := &recoverBar{w: c.ErrOrStderr(), what: "reading logs"}
		objects := &recoverBar{w: c.ErrOrStderr(), what: "reading objects"}
		o.Store, o.NodeID, o.Progress, o.ObjectProgress = loaded.Server.Store, loaded.Server.NodeID, bar.set, objects.set
		plan, err := node.RecoverMeta(c.Context(), loaded.Server.DataDir, o)
		bar.finish()
		objects.finish()
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: there is metadata, so nothing is to be recovered; 'tidemark meta check' says whether it is whole", err)
		}
		if errors.Is(err, node.ErrNothingToRecover) {
			return fmt.Errorf("%w; name the data directory with --data-dir, or the bucket of streams with --store", err)
		}
		var lost *node.StreamsLostError
		if err != nil && !errors.As(err, &lost) {
			return explainTaking(loaded.Server.DataDir, err)
		}
		report := recoverReport{RecoverPlan: plan, Executed: o.Execute && err == nil, leaveOut: o.LeaveOut}
		write := func() error { return report.print(c.OutOrStdout()) }
		if asJSON {
			write = func() error { return writeJSON(c.OutOrStdout(), report) }
		}
		if failed := write(); failed != nil {
			return failed
		}
		if lost != nil {
			return fmt.Errorf("%w (--leave-out-damaged)", err)
		}
		return nil
	}
	return c
}

// recoverBar shows how many logs or objects were read.
type recoverBar struct {
	w    io.Writer
	what string

	mu   sync.Mutex
	bar  *progress // nil until the first log was read
	done int64
}

func (b *recoverBar) set(done, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil {
		b.bar = newProgress(b.w, b.what, int64(total))
	}
	b.done = max(b.done, int64(done))
	b.bar.set(b.done)
}

func (b *recoverBar) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		b.bar.finish(b.done)
	}
}

// recoverReport is what a recovery did, or would do.
type recoverReport struct {
	*node.RecoverPlan
	Executed bool `json:"executed"`

	leaveOut bool
}

func (r recoverReport) print(w io.Writer) error {
	rows := newTable(w, "TOPIC", "ID", "PARTITION", "START", "END", "SIZE", "EPOCH")
	partitions := 0
	var problems []string
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			rows.row(t.Name, t.ID, p.Index, p.Start, p.End, size(p.Bytes), p.LeaderEpoch)
			partitions++
			if p.Problem != "" {
				problems = append(problems, fmt.Sprintf("  %s-%d: %s\n", t.Name, p.Index, p.Problem))
			}
		}
	}
	if err := rows.flush(); err != nil {
		return err
	}
	text := ""
	for _, problem := range problems {
		text += problem
	}
	text += toldDirectories(r.Left, r.Problems)
	if err := r.printStreams(w); err != nil {
		return err
	}
	did := "would make"
	if r.Executed {
		did = "made"
	}
	text += fmt.Sprintf("\n%s %s: cluster %s, node %d, %d topic(s), %d partition(s); they keep everything until their settings are set "+
		"again\n", did, r.Target, r.ClusterID, r.NodeID, len(r.Topics), partitions)
	if !r.Executed {
		text += "nothing was changed; --execute does it\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// toldDirectories are lines about the directories that are left, and about what is wrong in the data directory.
func toldDirectories(left []node.LeftDirectory, problems []string) (text string) {
	for _, l := range left {
		text += fmt.Sprintf("  left: %s: %s\n", l.Dir, l.Reason)
	}
	for _, problem := range problems {
		text += fmt.Sprintf("  damaged: %s\n", problem)
	}
	return text
}

// printStreams prints what the bucket tells.
func (r recoverReport) printStreams(w io.Writer) error {
	s := r.Streams
	if s == nil {
		return nil
	}
	rows := newTable(w, "STREAM", "START", "OBJECTS-END", "END", "EPOCH")
	for _, one := range s.Streams {
		rows.row(one.ID, one.Start, one.ObjectEnd, one.End, one.Epoch)
	}
	if err := rows.flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("\n%s: %d stream(s) in %d object(s)\n", s.Store, len(s.Streams), s.Objects)
	for _, l := range s.Logs {
		state := "is recovered"
		if l.Drained {
			state = "has nothing to recover"
		}
		text += fmt.Sprintf("  log of node %d, epoch %d: it %s\n", l.Node, l.Epoch, state)
	}
	if s.LoggedRecords > 0 {
		text += fmt.Sprintf("  %d record(s), %s, in logs are put into objects where none holds them\n", s.LoggedRecords, size(s.LoggedBytes))
	}
	if s.Copied > 0 {
		text += fmt.Sprintf("  %d object(s) are used in part, which is copied\n", s.Copied)
	}
	if s.Replaced > 0 {
		text += fmt.Sprintf("  %d object(s) hold what others hold too; they are removed after %v\n", s.Replaced,
			time.Duration(s.ReplacedKeptMs)*time.Millisecond)
	}
	for _, f := range s.Findings {
		kind := "note"
		switch {
		case f.Stops && r.leaveOut:
			kind = "left out"
		case f.Stops:
			kind = "in the way"
		}
		text += fmt.Sprintf("  %s: %s\n", kind, f.Detail)
	}
	text += "  not known from a bucket: which table or topic a stream belongs to, where it was trimmed, which streams were deleted\n"
	_, err := io.WriteString(w, text)
	return err
}
